//! The content of one version file.
//!
//! ```text
//! magic (8) · format (u32) · token (16) · ancestors (u8) · ancestors × token (16) · kind (1) · body
//! SHA-256 of everything before (32)
//! ```

use std::io::{self, Read};

use sha2::{Digest, Sha256};

const MAGIC: &[u8; 8] = b"dexzdobj";
const FORMAT_VERSION: u32 = 1;
pub(super) const CHECKSUM_BYTES: usize = 32;
/// So many versions may be written while one writer is between its link and its second look, and it
/// still knows whether its write counts. A file grows by 1 KiB at most.
pub(super) const ANCESTORS: usize = 64;
const DELETED: u8 = 0;
const PRESENT: u8 = 1;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    /// Drawn for this write: no two version files carry the same.
    pub(super) token: u128,
    /// The tokens of the versions before, the nearest first, at most [`ANCESTORS`].
    pub(super) ancestors: Vec<u128>,
    /// None: deleted.
    pub(super) body: Option<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordError {
    Damaged,
    NewerFormat,
}

impl Record {
    /// The record that follows `before`.
    pub(super) fn after(before: Option<&Self>, token: u128, body: Option<&[u8]>) -> Self {
        let ancestors = before.map_or_else(Vec::new, |before| {
            std::iter::once(before.token).chain(before.ancestors.iter().copied()).take(ANCESTORS).collect()
        });
        Self { token, ancestors, body: body.map(<[u8]>::to_vec) }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let body = self.body.as_deref().unwrap_or_default();
        let mut bytes = self.encode_header();
        bytes.extend_from_slice(body);
        let checksum = Sha256::digest(&bytes);
        bytes.extend_from_slice(&checksum);
        bytes
    }

    /// Everything before the body, which may follow from elsewhere: then the checksum too.
    pub(super) fn encode_header(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&FORMAT_VERSION.to_be_bytes());
        bytes.extend_from_slice(&self.token.to_be_bytes());
        bytes.push(u8::try_from(self.ancestors.len()).expect("`after` keeps at most 64"));
        for token in &self.ancestors {
            bytes.extend_from_slice(&token.to_be_bytes());
        }
        bytes.push(if self.body.is_some() { PRESENT } else { DELETED });
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let damaged = RecordError::Damaged;
        let (magic, rest) = bytes.split_first_chunk::<8>().ok_or(damaged)?;
        let (format, _) = rest.split_first_chunk::<4>().ok_or(damaged)?;
        if magic != MAGIC {
            return Err(damaged);
        }
        if u32::from_be_bytes(*format) > FORMAT_VERSION {
            return Err(RecordError::NewerFormat);
        }
        let (content, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(damaged)?;
        if Sha256::digest(content)[..] != checksum[..] {
            return Err(damaged);
        }
        let rest = content.get(12..).ok_or(damaged)?;
        let (token, rest) = rest.split_first_chunk::<16>().ok_or(damaged)?;
        let (count, mut rest) = rest.split_first().ok_or(damaged)?;
        let mut ancestors = Vec::new();
        for _ in 0..*count {
            let (ancestor, after) = rest.split_first_chunk::<16>().ok_or(damaged)?;
            ancestors.push(u128::from_be_bytes(*ancestor));
            rest = after;
        }
        let (kind, body) = rest.split_first().ok_or(damaged)?;
        Ok(Self {
            token: u128::from_be_bytes(*token),
            ancestors,
            body: match *kind {
                DELETED if body.is_empty() => None,
                PRESENT => Some(body.to_vec()),
                _ => return Err(damaged),
            },
        })
    }
}

/// What stands before a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) token: u128,
    /// False: deleted.
    pub(super) is_present: bool,
    /// How many bytes it takes.
    pub(super) length: u64,
}

/// Why there is no header.
#[derive(Debug)]
pub(super) enum HeaderError {
    Io(io::Error),
    Record(RecordError),
}

impl Header {
    /// Reads it, and not what follows. The checksum is not looked at: it stands behind the body.
    pub(super) fn read(input: &mut impl Read) -> Result<Self, HeaderError> {
        let damaged = HeaderError::Record(RecordError::Damaged);
        if &array::<8>(input)? != MAGIC {
            return Err(damaged);
        }
        if u32::from_be_bytes(array(input)?) > FORMAT_VERSION {
            return Err(HeaderError::Record(RecordError::NewerFormat));
        }
        let token = u128::from_be_bytes(array(input)?);
        let [ancestors] = array(input)?;
        for _ in 0..ancestors {
            array::<16>(input)?;
        }
        let is_present = match array(input)? {
            [PRESENT] => true,
            [DELETED] => false,
            [_] => return Err(damaged),
        };
        Ok(Self { token, is_present, length: 8 + 4 + 16 + 1 + 16 * u64::from(ancestors) + 1 })
    }
}

fn array<const N: usize>(input: &mut impl Read) -> Result<[u8; N], HeaderError> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes).map_err(|error| {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            HeaderError::Record(RecordError::Damaged)
        } else {
            HeaderError::Io(error)
        }
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_and_every_flipped_byte_is_noticed() {
        for body in [None, Some(vec![]), Some(b"body".to_vec())] {
            let record = Record { token: 7, ancestors: vec![3, u128::MAX], body };
            let bytes = record.encode();
            let is_present = record.body.is_some();
            let length = record.encode_header().len() as u64;
            let header = Header::read(&mut bytes.as_slice()).expect("a header");
            assert_eq!(header, Header { token: 7, is_present, length });
            assert_eq!(Record::decode(&bytes), Ok(record));
            for index in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[index] ^= 1;
                assert!(Record::decode(&damaged).is_err(), "byte {index}");
                assert_eq!(Record::decode(&bytes[..index]), Err(RecordError::Damaged));
            }
        }
    }

    #[test]
    fn a_newer_format_is_refused_by_name_whatever_follows() {
        let mut bytes = b"dexzdobj\0\0\0\x02".to_vec();
        bytes.extend_from_slice(b"something else");
        assert_eq!(Record::decode(&bytes), Err(RecordError::NewerFormat));
    }
}
