//! The objects, and the conditions under which they change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

/// One object as it is now.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) body: Arc<[u8]>,
    /// As in headers, with its quotation marks.
    pub(super) etag: String,
    pub(super) modified: SystemTime,
}

/// Under which condition an object is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    /// If-None-Match: *
    Absent,
    /// If-Match
    Is(String),
    Any,
}

/// A condition that did not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// 412
    Precondition,
    /// If-Match of what is not there: S3 answers 404.
    Missing,
}

#[derive(Debug, Default)]
pub(super) struct Objects {
    objects: BTreeMap<String, Object>,
    uploads: BTreeMap<String, Upload>,
    upload_count: u64,
}

/// An object that arrives in parts.
#[derive(Debug)]
struct Upload {
    key: String,
    parts: BTreeMap<u32, Vec<u8>>,
}

impl Objects {
    pub(super) fn get(&self, key: &str) -> Option<&Object> {
        self.objects.get(key)
    }

    pub(super) fn put(&mut self, key: &str, body: Vec<u8>, condition: &Condition) -> Result<String, Refusal> {
        let now = self.objects.get(key);
        match (condition, now) {
            (Condition::Absent, Some(_)) => return Err(Refusal::Precondition),
            (Condition::Is(_), None) => return Err(Refusal::Missing),
            (Condition::Is(etag), Some(object)) if object.etag != *etag => return Err(Refusal::Precondition),
            (Condition::Absent, None) | (Condition::Is(_), Some(_)) | (Condition::Any, _) => {}
        }
        let etag = etag(&body);
        let object = Object { body: body.into(), etag: etag.clone(), modified: SystemTime::now() };
        self.objects.insert(key.to_owned(), object);
        Ok(etag)
    }

    pub(super) fn delete(&mut self, key: &str) {
        self.objects.remove(key);
    }

    /// What begins with `prefix` and comes after `after`, in order.
    pub(super) fn list<'a>(
        &'a self,
        prefix: &'a str,
        after: &str,
    ) -> impl Iterator<Item = (&'a String, &'a Object)> {
        use std::ops::Bound;
        let from = if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
        self.objects
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
    }

    pub(super) fn begin_upload(&mut self, key: &str) -> String {
        self.upload_count += 1;
        let id = format!("upload-{}", self.upload_count);
        self.uploads.insert(id.clone(), Upload { key: key.to_owned(), parts: BTreeMap::new() });
        id
    }

    /// None: there is no such upload.
    pub(super) fn put_part(&mut self, upload: &str, number: u32, body: Vec<u8>) -> Option<String> {
        let etag = etag(&body);
        self.uploads.get_mut(upload)?.parts.insert(number, body);
        Some(etag)
    }

    /// None: there is no such upload, or a part of it is not there.
    pub(super) fn complete_upload(
        &mut self,
        upload: &str,
        numbers: &[u32],
        condition: &Condition,
    ) -> Option<Result<String, Refusal>> {
        let parts = &self.uploads.get(upload)?.parts;
        let bodies: Option<Vec<&[u8]>> =
            numbers.iter().map(|number| parts.get(number).map(Vec::as_slice)).collect();
        let body = bodies?.concat();
        let key = self.uploads[upload].key.clone();
        let result = self.put(&key, body, condition);
        if result.is_ok() {
            self.uploads.remove(upload);
        }
        Some(result)
    }

    pub(super) fn abort_upload(&mut self, upload: &str) {
        self.uploads.remove(upload);
    }

    pub(super) fn size(&self) -> (usize, u64) {
        (self.objects.len(), self.objects.values().map(|object| object.body.len() as u64).sum())
    }
}

/// Equal for equal bodies, as S3's are; 128 bits of a quick hash, since nobody here has an interest in collisions.
fn etag(body: &[u8]) -> String {
    const FACTORS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F];
    let mut sums = [body.len() as u64, !(body.len() as u64)];
    for chunk in body.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        let word = u64::from_le_bytes(bytes);
        for (sum, factor) in sums.iter_mut().zip(FACTORS) {
            *sum = (sum.rotate_left(23) ^ word).wrapping_mul(factor);
        }
    }
    format!("\"{:016x}{:016x}\"", sums[0] ^ (sums[0] >> 32), sums[1] ^ (sums[1] >> 29))
}
