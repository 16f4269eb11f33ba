//! From a request to its effect and its answer.

use std::fmt::Write as _;
use std::sync::Arc;

use super::Kind;
use super::dates::{http_date, iso_date};
use super::http::{Answer, Request};
use super::objects::{Condition, Object, Objects, Refusal};
use super::xml::{elements, escaped};

/// S3's own limit.
const PAGE_KEYS: usize = 1_000;

/// What a request does, whether or not it is allowed to.
pub(super) fn kind(request: &Request) -> Kind {
    let is_of_an_object = !key(request).is_empty() && request.parameter("list-type").is_none();
    match request.method.as_str() {
        "GET" | "HEAD" if is_of_an_object => Kind::Get,
        "GET" | "HEAD" => Kind::List,
        "DELETE" => Kind::Delete,
        "POST" if request.parameter("delete").is_some() => Kind::Delete,
        _ => Kind::Put,
    }
}

/// The object's key; a listing's prefix.
pub(super) fn key(request: &Request) -> String {
    match request.parameter("prefix") {
        Some(prefix) => prefix.to_owned(),
        None => bucket_and_key(&request.path).1.to_owned(),
    }
}

/// Carries out a request and answers it.
pub(super) fn answer(request: &Request, bucket: &str, objects: &mut Objects) -> Answer {
    let (asked, key) = bucket_and_key(&request.path);
    if asked != bucket {
        return error(404, "NoSuchBucket", &format!("there is no bucket {asked}"));
    }
    let upload = request.parameter("uploadId");
    match (request.method.as_str(), key.is_empty()) {
        ("GET", true) if request.parameter("list-type") == Some("2") => list(request, objects),
        ("GET" | "HEAD", false) => get(request, objects.get(key)),
        ("PUT", false) if request.header("x-amz-copy-source").is_none() => match upload {
            Some(upload) => put_part(request, upload, objects),
            None => put(request, key, objects),
        },
        ("POST", false) if request.parameter("uploads").is_some() => {
            let id = objects.begin_upload(key);
            document(&format!(
                "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
            ))
        }
        ("POST", false) => match upload {
            Some(upload) => complete_upload(request, upload, objects),
            None => not_implemented(request),
        },
        ("POST", true) if request.parameter("delete").is_some() => delete_many(request, objects),
        ("DELETE", false) => {
            match upload {
                Some(upload) => objects.abort_upload(upload),
                None => objects.delete(key),
            }
            Answer::new(204)
        }
        _ => not_implemented(request),
    }
}

fn bucket_and_key(path: &str) -> (&str, &str) {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_once('/').unwrap_or((path, ""))
}

fn get(request: &Request, object: Option<&Object>) -> Answer {
    let Some(object) = object else {
        return error(404, "NoSuchKey", "there is no such object");
    };
    let answer = |status| {
        Answer::new(status)
            .with("ETag", object.etag.as_str())
            .with("Last-Modified", http_date(object.modified))
            .with("Accept-Ranges", "bytes")
    };
    let Some(range) = request.header("range") else {
        return Answer { body: Arc::clone(&object.body), ..answer(200) };
    };
    let length = object.body.len();
    match span(range, length) {
        Some((first, last)) => {
            let body = Arc::from(&object.body[first..=last]);
            Answer { body, ..answer(206).with("Content-Range", format!("bytes {first}-{last}/{length}")) }
        }
        None => error(416, "InvalidRange", &format!("{range} is not within {length} bytes")),
    }
}

/// The first and the last byte of `bytes=FIRST-LAST` and `bytes=FIRST-`.
fn span(range: &str, length: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let first: usize = first.parse().ok()?;
    let end = length.checked_sub(1)?;
    let last = if last.is_empty() { end } else { last.parse::<usize>().ok()?.min(end) };
    (first <= last).then_some((first, last))
}

fn put(request: &Request, key: &str, objects: &mut Objects) -> Answer {
    match condition(request) {
        Some(condition) => written(objects.put(key, request.body.clone(), &condition)),
        None => not_implemented(request),
    }
}

/// None: one that S3 does not know.
fn condition(request: &Request) -> Option<Condition> {
    match (request.header("if-none-match"), request.header("if-match")) {
        (None, None) => Some(Condition::Any),
        (Some("*"), None) => Some(Condition::Absent),
        (None, Some(etag)) if etag != "*" => Some(Condition::Is(etag.to_owned())),
        (Some(_), _) | (None, Some(_)) => None,
    }
}

fn written(result: Result<String, Refusal>) -> Answer {
    match result {
        Ok(etag) => Answer::new(200).with("ETag", etag),
        Err(refusal) => refused(refusal),
    }
}

fn refused(refusal: Refusal) -> Answer {
    match refusal {
        Refusal::Precondition => error(412, "PreconditionFailed", "the condition did not hold"),
        Refusal::Missing => error(404, "NoSuchKey", "there is no such object"),
    }
}

fn put_part(request: &Request, upload: &str, objects: &mut Objects) -> Answer {
    let Some(number) = request.parameter("partNumber").and_then(|number| number.parse().ok()) else {
        return error(400, "InvalidArgument", "a part needs a partNumber");
    };
    match objects.put_part(upload, number, request.body.clone()) {
        Some(etag) => Answer::new(200).with("ETag", etag),
        None => no_upload(),
    }
}

fn complete_upload(request: &Request, upload: &str, objects: &mut Objects) -> Answer {
    let text = String::from_utf8_lossy(&request.body);
    let numbers: Result<Vec<u32>, _> =
        elements(&text, "PartNumber").iter().map(|number| number.trim().parse()).collect();
    let (Ok(numbers), Some(condition)) = (numbers, condition(request)) else {
        return error(400, "MalformedXML", "an upload ends with its parts");
    };
    match objects.complete_upload(upload, &numbers, &condition) {
        None => no_upload(),
        Some(Err(refusal)) => refused(refusal),
        Some(Ok(etag)) => document(&format!(
            "<CompleteMultipartUploadResult><ETag>{}</ETag></CompleteMultipartUploadResult>",
            escaped(&etag)
        )),
    }
}

fn no_upload() -> Answer {
    error(404, "NoSuchUpload", "there is no such upload, or a part of it is missing")
}

fn delete_many(request: &Request, objects: &mut Objects) -> Answer {
    let mut text = String::from("<DeleteResult>");
    for key in elements(&String::from_utf8_lossy(&request.body), "Key") {
        objects.delete(&key);
        // Writing into a text cannot fail.
        let _ = write!(text, "<Deleted><Key>{}</Key></Deleted>", escaped(&key));
    }
    text.push_str("</DeleteResult>");
    document(&text)
}

fn list(request: &Request, objects: &Objects) -> Answer {
    if request.parameter("delimiter").is_some_and(|delimiter| !delimiter.is_empty()) {
        return not_implemented(request);
    }
    let prefix = request.parameter("prefix").unwrap_or_default();
    // A page's token is the last key of the page before it.
    let token = request.parameter("continuation-token");
    let after = token.or_else(|| request.parameter("start-after")).unwrap_or_default();
    let asked = request.parameter("max-keys").and_then(|keys| keys.parse().ok()).unwrap_or(PAGE_KEYS);
    let mut found = objects.list(prefix, after);
    let page: Vec<_> = found.by_ref().take(asked.min(PAGE_KEYS)).collect();
    let is_truncated = found.next().is_some();
    let mut text = format!(
        "<ListBucketResult><Prefix>{}</Prefix><KeyCount>{}</KeyCount><IsTruncated>{is_truncated}</IsTruncated>",
        escaped(prefix),
        page.len()
    );
    if let (true, Some((last, _))) = (is_truncated, page.last()) {
        // Writing into a text cannot fail.
        let _ = write!(text, "<NextContinuationToken>{}</NextContinuationToken>", escaped(last));
    }
    for (key, object) in page {
        let _ = write!(
            text,
            "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>",
            escaped(key),
            iso_date(object.modified),
            escaped(&object.etag),
            object.body.len()
        );
    }
    text.push_str("</ListBucketResult>");
    document(&text)
}

fn document(text: &str) -> Answer {
    let text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>{text}");
    Answer { body: Arc::from(text.into_bytes()), ..Answer::new(200).with("Content-Type", "application/xml") }
}

fn not_implemented(request: &Request) -> Answer {
    error(501, "NotImplemented", &format!("this bucket does not know {} {}", request.method, request.path))
}

fn error(status: u16, code: &str, message: &str) -> Answer {
    let text = format!("<Error><Code>{code}</Code><Message>{}</Message></Error>", escaped(message));
    Answer { status, ..document(&text) }
}
