//! Whose local store this is: a small text file that is read before anything else is opened.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use super::error::LocalStoreError;
use crate::files;

/// The newest local store format that this version writes and reads.
pub const LOCAL_FORMAT_VERSION: u32 = 1;

pub(super) const IDENTITY_FILE: &str = "IDENTITY";

/// Which implementation wrote a local store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocalStoreKind {
    /// A map in memory with a checkpoint file.
    Memory,
    /// RocksDB.
    RocksDb,
}

impl LocalStoreKind {
    const fn label(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::RocksDb => "rocksdb",
        }
    }

    fn parse(label: &str) -> Option<Self> {
        [Self::Memory, Self::RocksDb].into_iter().find(|kind| kind.label() == label)
    }
}

impl fmt::Display for LocalStoreKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.label())
    }
}

/// Checks that `folder` is this node's, or makes it so where it is empty.
pub(super) fn claim(folder: &Path, kind: LocalStoreKind, node_id: &str) -> Result<(), LocalStoreError> {
    files::create_folder(folder).map_err(|source| LocalStoreError::Io {
        action: "cannot create",
        path: folder.to_path_buf(),
        source,
    })?;
    let file = folder.join(IDENTITY_FILE);
    match fs::read_to_string(&file) {
        Ok(text) => check(folder, &file, &text, kind, node_id),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            refuse_unnamed(folder, &file)?;
            let text =
                format!("dexzd local store\nformat {LOCAL_FORMAT_VERSION}\nkind {kind}\nnode {node_id}\n");
            files::write_whole(&file, text.as_bytes()).map_err(|source| LocalStoreError::Io {
                action: "cannot write",
                path: file,
                source,
            })
        }
        Err(source) => Err(LocalStoreError::Io { action: "cannot read", path: file, source }),
    }
}

/// Checks that `folder` is this node's, and of this kind. It is never made so.
pub(super) fn expect(folder: &Path, kind: LocalStoreKind, node_id: &str) -> Result<(), LocalStoreError> {
    let file = folder.join(IDENTITY_FILE);
    let text = fs::read_to_string(&file).map_err(|source| LocalStoreError::Io {
        action: "cannot read",
        path: file.clone(),
        source,
    })?;
    check(folder, &file, &text, kind, node_id)
}

fn check(
    folder: &Path,
    file: &Path,
    text: &str,
    kind: LocalStoreKind,
    node_id: &str,
) -> Result<(), LocalStoreError> {
    let damaged =
        |detail: &str| LocalStoreError::Damaged { file: file.to_path_buf(), detail: detail.to_owned() };
    let mut lines = text.lines();
    if lines.next() != Some("dexzd local store") {
        return Err(damaged("the first line is not `dexzd local store`"));
    }
    // The format comes first: whatever follows may mean something else in a newer one.
    let found: u32 = lines
        .next()
        .and_then(|line| line.strip_prefix("format "))
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| damaged("the second line is not `format N`"))?;
    if found > LOCAL_FORMAT_VERSION {
        return Err(LocalStoreError::NewerFormat {
            folder: folder.to_path_buf(),
            found,
            newest: LOCAL_FORMAT_VERSION,
        });
    }
    let found_kind = lines
        .next()
        .and_then(|line| line.strip_prefix("kind "))
        .and_then(LocalStoreKind::parse)
        .ok_or_else(|| damaged("the third line is not `kind memory` or `kind rocksdb`"))?;
    let found_node = lines
        .next()
        .and_then(|line| line.strip_prefix("node "))
        .ok_or_else(|| damaged("the fourth line is not `node ID`"))?;
    if found_node != node_id {
        return Err(LocalStoreError::ForeignNode {
            folder: folder.to_path_buf(),
            found: found_node.to_owned(),
            expected: node_id.to_owned(),
        });
    }
    if found_kind != kind {
        return Err(LocalStoreError::OtherKind {
            folder: folder.to_path_buf(),
            found: found_kind,
            expected: kind,
        });
    }
    Ok(())
}

/// A folder with other files and no identity is somebody else's, or has lost it.
fn refuse_unnamed(folder: &Path, file: &Path) -> Result<(), LocalStoreError> {
    let io_error = |source| LocalStoreError::Io { action: "cannot list", path: folder.to_path_buf(), source };
    for entry in fs::read_dir(folder).map_err(io_error)? {
        let name = entry.map_err(io_error)?.file_name();
        if !files::is_temporary(&name) {
            return Err(LocalStoreError::Damaged {
                file: file.to_path_buf(),
                detail: format!("it is missing, but the folder holds `{}`", name.to_string_lossy()),
            });
        }
    }
    Ok(())
}
