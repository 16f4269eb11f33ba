use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::{Fate, Proxy, Rule};
use crate::Bucket;
use crate::bucket::Latency;

fn pair() -> (Bucket, Proxy) {
    let bucket = Bucket::open("b", Latency::NONE).expect("a port is free");
    let proxy = Proxy::open(bucket.address()).expect("a port is free");
    (bucket, proxy)
}

/// Everything that comes back until the connection ends.
fn ask(proxy: &Proxy, method: &str, key: &str, headers: &str, body: &str) -> String {
    let mut connection = TcpStream::connect(proxy.address()).expect("it listens");
    let length = body.len();
    let head =
        format!("{method} /b/{key} HTTP/1.1\r\nHost: rig\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
    connection.write_all(head.as_bytes()).expect("it reads");
    let mut answer = String::new();
    let _ = connection.read_to_string(&mut answer);
    answer
}

const CREATE: &str = "If-None-Match: *\r\n";

fn status(answer: &str) -> &str {
    answer.split_ascii_whitespace().nth(1).unwrap_or("nothing")
}

#[test]
fn without_rules_everything_passes_and_is_noted() {
    let (_bucket, proxy) = pair();
    assert_eq!(status(&ask(&proxy, "PUT", "a", CREATE, "one")), "200");
    assert_eq!(status(&ask(&proxy, "PUT", "a", CREATE, "two")), "412");
    assert!(ask(&proxy, "GET", "a", "", "").ends_with("one"));
    let passed: Vec<_> = proxy.passed().into_iter().map(|it| (it.method, it.target, it.status)).collect();
    let put = |status| ("PUT".to_owned(), "/b/a".to_owned(), Some(status));
    assert_eq!(passed, [put(200), put(412), ("GET".to_owned(), "/b/a".to_owned(), Some(200))]);
    assert!(proxy.passed().is_empty());
}

#[test]
fn what_is_lost_was_never_done_and_what_is_unanswered_was() {
    let (_bucket, proxy) = pair();
    proxy.add(Rule::always(Fate::Lost).of("PUT").on("lost"));
    proxy.add(Rule::always(Fate::AnswerLost).of("PUT").on("unanswered"));
    assert_eq!(ask(&proxy, "PUT", "lost", CREATE, "x"), "");
    assert_eq!(ask(&proxy, "PUT", "unanswered", CREATE, "x"), "");
    assert_eq!(status(&ask(&proxy, "GET", "lost", "", "")), "404");
    assert!(ask(&proxy, "GET", "unanswered", "", "").ends_with('x'));
}

#[test]
fn a_rule_strikes_after_so_many_and_so_often() {
    let (_bucket, proxy) = pair();
    proxy.add(Rule::always(Fate::s3_error(503, "SlowDown")).after(1).times(2));
    let answers: Vec<String> = (0..4).map(|_| ask(&proxy, "GET", "a", "", "")).collect();
    assert_eq!(answers.iter().map(|it| status(it)).collect::<Vec<_>>(), ["404", "503", "503", "404"]);
    assert!(answers[1].contains("<Code>SlowDown</Code>"));
    proxy.add(Rule::always(Fate::azure_error(503, "ServerBusy")));
    assert!(ask(&proxy, "GET", "a", "", "").contains("x-ms-error-code: ServerBusy"));
    proxy.clear();
    assert_eq!(status(&ask(&proxy, "GET", "a", "", "")), "404");
}

#[test]
fn conditions_can_be_taken_out_answers_cut_and_requests_delayed() {
    let (_bucket, proxy) = pair();
    assert_eq!(status(&ask(&proxy, "PUT", "a", CREATE, "0123456789")), "200");
    proxy.add(Rule::always(Fate::Stripped(&["if-none-match"])).of("PUT"));
    proxy.add(Rule::always(Fate::AnswerCutShort).of("GET").times(1));
    let cut = ask(&proxy, "GET", "a", "", "");
    assert!(cut.starts_with("HTTP/1.1 200") && !cut.ends_with('9'), "{cut}");
    // The bucket knows no write without a condition, and says so: the condition did not arrive.
    assert_ne!(status(&ask(&proxy, "PUT", "a", CREATE, "x")), "412");
    proxy.add(Rule::always(Fate::Delayed(Duration::from_millis(30))));
    let begin = Instant::now();
    ask(&proxy, "GET", "a", "", "");
    assert!(begin.elapsed() >= Duration::from_millis(30));
}
