use std::io::{Read as _, Write as _};

use super::http::{Answer, Request};
use super::objects::Objects;
use super::*;

const PUT: &str = "PUT";

fn ask(objects: &mut Objects, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    answer::answer(&Request::of(method, target, headers, body.as_bytes()), "b", objects)
}

fn text(answer: &Answer) -> String {
    String::from_utf8(answer.body.to_vec()).expect("text")
}

fn etag(answer: &Answer) -> String {
    let found = answer.headers.iter().find(|(name, _)| *name == "ETag");
    found.expect("writes and reads tell the ETag").1.clone()
}

#[test]
fn conditions_hold_or_are_refused_with_s3s_statuses() {
    let mut objects = Objects::default();
    let absent = [("if-none-match", "*")];
    let first = ask(&mut objects, PUT, "/b/lease", &absent, "one");
    assert_eq!(first.status, 200);
    assert_eq!(ask(&mut objects, PUT, "/b/lease", &absent, "two").status, 412);
    let old = etag(&first);
    let second = ask(&mut objects, PUT, "/b/lease", &[("if-match", &old)], "two");
    assert_eq!(second.status, 200);
    assert_eq!(ask(&mut objects, PUT, "/b/lease", &[("if-match", &old)], "three").status, 412);
    assert_eq!(ask(&mut objects, PUT, "/b/other", &[("if-match", &old)], "three").status, 404);
    assert_eq!(text(&ask(&mut objects, "GET", "/b/lease", &[], "")), "two");
    assert_eq!(ask(&mut objects, "DELETE", "/b/lease", &[], "").status, 204);
    assert_eq!(ask(&mut objects, "GET", "/b/lease", &[], "").status, 404);
    assert_eq!(ask(&mut objects, PUT, "/b/lease", &[("if-none-match", "\"x\"")], "").status, 501);
    assert!(text(&ask(&mut objects, "GET", "/elsewhere/lease", &[], "")).contains("NoSuchBucket"));
}

#[test]
fn equal_bodies_have_equal_etags_and_others_have_others() {
    let mut objects = Objects::default();
    let mut seen = std::collections::BTreeSet::new();
    for body in ["", "a", "b", "aaaaaaaa", "aaaaaaaab", "baaaaaaaa", "\0", "\0\0"] {
        assert!(seen.insert(etag(&ask(&mut objects, PUT, "/b/x", &[], body))), "{body:?}");
        assert!(!seen.insert(etag(&ask(&mut objects, PUT, "/b/y", &[], body))), "{body:?}");
    }
}

#[test]
fn listings_come_in_pages() {
    let mut objects = Objects::default();
    for key in ["n/a%26", "n/b", "n/c", "n/d", "o"] {
        ask(&mut objects, PUT, &format!("/b/{key}"), &[], "xy");
    }
    let page = |objects: &mut Objects, more: &str| {
        let target = format!("/b?list-type=2&prefix=n%2F&max-keys=2{more}");
        text(&ask(objects, "GET", &target, &[], ""))
    };
    let first = page(&mut objects, "");
    assert_eq!(xml::elements(&first, "Key"), ["n/a&", "n/b"]);
    assert_eq!(xml::elements(&first, "Size"), ["2", "2"]);
    assert_eq!(xml::elements(&first, "NextContinuationToken"), ["n/b"]);
    let last = page(&mut objects, "&continuation-token=n%2Fb");
    assert_eq!(xml::elements(&last, "Key"), ["n/c", "n/d"]);
    assert_eq!(xml::elements(&last, "NextContinuationToken"), Vec::<String>::new());
    assert_eq!(xml::elements(&page(&mut objects, "&start-after=n%2Fc"), "Key"), ["n/d"]);
    assert_eq!(ask(&mut objects, "GET", "/b?list-type=2&delimiter=/", &[], "").status, 501);
}

#[test]
fn an_object_in_parts_is_there_once_it_is_complete() {
    let mut objects = Objects::default();
    let begun = text(&ask(&mut objects, "POST", "/b/big?uploads=", &[], ""));
    let id = xml::elements(&begun, "UploadId").remove(0);
    for (number, body) in [(2, "world"), (1, "hello ")] {
        let target = format!("/b/big?partNumber={number}&uploadId={id}");
        assert_eq!(ask(&mut objects, PUT, &target, &[], body).status, 200);
    }
    assert_eq!(ask(&mut objects, "GET", "/b/big", &[], "").status, 404);
    let target = format!("/b/big?uploadId={id}");
    let parts = |numbers: &[u32]| {
        let parts: String =
            numbers.iter().map(|n| format!("<Part><PartNumber>{n}</PartNumber></Part>")).collect();
        format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>")
    };
    assert_eq!(ask(&mut objects, "POST", &target, &[], &parts(&[1, 2, 3])).status, 404);
    assert_eq!(ask(&mut objects, "POST", &target, &[], &parts(&[1, 2])).status, 200);
    assert_eq!(text(&ask(&mut objects, "GET", "/b/big", &[], "")), "hello world");
    assert_eq!(text(&ask(&mut objects, "GET", "/b/big", &[("range", "bytes=6-")], "")), "world");
    assert_eq!(ask(&mut objects, "GET", "/b/big", &[("range", "bytes=11-")], "").status, 416);
    assert_eq!(ask(&mut objects, "POST", &target, &[], &parts(&[1, 2])).status, 404);
}

#[test]
fn many_are_deleted_in_one_request() {
    let mut objects = Objects::default();
    for key in ["a", "b%26c", "d"] {
        ask(&mut objects, PUT, &format!("/b/{key}"), &[], "");
    }
    let body = "<Delete><Object><Key>a</Key></Object><Object><Key>b&amp;c</Key></Object></Delete>";
    let answer = text(&ask(&mut objects, "POST", "/b?delete", &[], body));
    assert_eq!(xml::elements(&answer, "Key"), ["a", "b&c"]);
    assert_eq!(objects.list("", "").map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["d"]);
}

#[test]
fn requests_over_the_network_are_answered_and_recorded() {
    let bucket = Bucket::open("b", Latency::NONE).expect("a port is free");
    bucket.record();
    let address = bucket.endpoint().replace("http://", "");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let both = "PUT /b/k%2F1 HTTP/1.1\r\nContent-Length: 3\r\nIf-None-Match: *\r\n\r\nabc\
                GET /b/k/1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(both.as_bytes()).expect("it reads");
    stream.shutdown(Shutdown::Write).expect("it is open");
    let mut answers = String::new();
    stream.read_to_string(&mut answers).expect("it answers both and closes");
    assert!(answers.starts_with("HTTP/1.1 200 OK\r\nETag: "), "{answers}");
    assert!(answers.ends_with("Content-Length: 3\r\n\r\nabc"), "{answers}");
    let recorded: Vec<_> = bucket
        .recorded()
        .into_iter()
        .map(|served| (served.kind, served.key, served.status, served.bytes))
        .collect();
    assert_eq!(recorded, [(Kind::Put, "k/1".to_owned(), 200, 3), (Kind::Get, "k/1".to_owned(), 200, 0),]);
    assert_eq!(bucket.size(), (1, 3));
}

#[test]
fn a_connection_for_one_request_ends_with_its_answer() {
    let bucket = Bucket::open("b", Latency::NONE).expect("a free port");
    let mut connection = TcpStream::connect(bucket.address).expect("it listens");
    connection.write_all(b"GET /b/key HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n").expect("open");
    let mut answer = String::new();
    // Without the end of the connection this does not return.
    connection.read_to_string(&mut answer).expect("text");
    assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("Connection: close\r\n"), "{answer}");
}
