//! Keys as paths below a folder, and back.
//!
//! A key's last part becomes a folder of its own that holds the versions of the object. Bytes that a
//! file name may not hold are written as `%XX`, so that any key is safe and two keys never meet.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Begins the name of a version file. No part of an escaped key begins with it.
const VERSION_PREFIX: char = '@';

/// The folder of an object.
pub(super) fn object_folder(root: &Path, key: &str) -> PathBuf {
    let mut folder = root.to_path_buf();
    for part in key.split('/') {
        folder.push(escape(part));
    }
    folder
}

/// The file of one version. Twenty digits, so that names sort as numbers.
pub(super) fn version_file(number: u64) -> String {
    format!("{VERSION_PREFIX}{number:020}")
}

/// The version that a file name stands for; None if it is no version file.
pub(super) fn parse_version_file(name: &OsStr) -> Option<u64> {
    name.to_str()?.strip_prefix(VERSION_PREFIX)?.parse().ok()
}

/// One part of a key as a name of one folder.
pub(super) fn escape(part: &str) -> String {
    let mut name = String::with_capacity(part.len());
    for (index, byte) in part.bytes().enumerate() {
        let plain =
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || (byte == b'.' && index > 0);
        if plain {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    if name.is_empty() {
        // An empty part is not the same as no part.
        name.push('%');
    }
    name
}

/// The part of a key that a folder name stands for; None if `escape` never makes that name.
pub(super) fn unescape(name: &OsStr) -> Option<String> {
    unescape_part(name.to_str()?)
}

/// A key from its escaped parts.
pub(super) fn unescape_key(text: &str) -> Option<String> {
    let parts: Option<Vec<String>> = text.split('/').map(unescape_part).collect();
    Some(parts?.join("/"))
}

fn unescape_part(name: &str) -> Option<String> {
    if name == "%" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let (digits, after) = after.split_at_checked(2)?;
            let digits = std::str::from_utf8(digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after;
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    let part = String::from_utf8(bytes).ok()?;
    (escape(&part) == name).then_some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_differ_get_folders_that_differ_and_stay_below_the_root() {
        let root = Path::new("/root");
        for (key, expected) in [
            ("dev/lease", "/root/dev/lease"),
            ("a/../b", "/root/a/%2E./b"),
            ("a//b", "/root/a/%/b"),
            ("/a", "/root/%/a"),
            ("@1", "/root/%401"),
            ("%", "/root/%25"),
            (".tmp-x", "/root/%2Etmp-x"),
            ("ü b", "/root/%C3%BC%20b"),
        ] {
            assert_eq!(object_folder(root, key), Path::new(expected));
            let part = key.rsplit('/').next().expect("one part at least");
            assert_eq!(unescape(OsStr::new(&escape(part))).as_deref(), Some(part));
        }
    }

    #[test]
    fn foreign_names_are_no_keys_and_no_versions() {
        for name in ["%4", "%zz", "%41", "@00000000000000000001", "a b", ".tmp-1"] {
            assert_eq!(unescape(OsStr::new(name)), None, "{name}");
        }
        assert_eq!(parse_version_file(OsStr::new(&version_file(7))), Some(7));
        assert_eq!(parse_version_file(OsStr::new("@x")), None);
        assert_eq!(parse_version_file(OsStr::new("lease")), None);
    }
}
