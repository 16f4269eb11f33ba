//! What the files of checkpoints are, so that a snapshot uploads only what is new.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use dexzd_core::ids::Name;
use dexzd_core::snapshot::{CheckpointFile, Checksum};
use sha2::{Digest, Sha256};

use super::error::LocalStoreError;
use super::place::{Frozen, LocalPlace, io_error};

/// What passes through memory at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Files of this kind are written once and never change.
const TABLE_SUFFIX: &str = ".sst";

/// Remembers table files from one checkpoint to the next: a large store is read once, not each half hour.
#[derive(Default)]
pub struct FileHashes {
    tables: BTreeMap<String, Table>,
}

/// A table file, and what it would not share with another one of its name.
struct Table {
    inode: u64,
    listed: CheckpointFile,
}

impl FileHashes {
    /// The files of the newest checkpoint of `place`, each with its size and checksum. None: `is_wanted` said
    /// no meanwhile.
    ///
    /// # Errors
    ///
    /// The disk refused.
    pub fn list(
        &mut self,
        place: &LocalPlace,
        frozen: &Frozen,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<CheckpointFile>>, LocalStoreError> {
        let (mut files, mut tables) = (Vec::new(), BTreeMap::new());
        for name in &frozen.files {
            let path = place.checkpoint_file(name);
            let unreadable = |source| io_error("cannot read", &path, source);
            let file = File::open(&path).map_err(unreadable)?;
            let metadata = file.metadata().map_err(unreadable)?;
            let inode = metadata.ino();
            let known = self
                .tables
                .get(name)
                .filter(|known| known.inode == inode && known.listed.size_bytes == metadata.len());
            let listed = match known {
                Some(known) => known.listed.clone(),
                None => match hash(file, is_wanted).map_err(unreadable)? {
                    Some((size_bytes, checksum)) => {
                        CheckpointFile { local_name: Name::new(name), size_bytes, checksum }
                    }
                    None => return Ok(None),
                },
            };
            if name.ends_with(TABLE_SUFFIX) {
                tables.insert(name.clone(), Table { inode, listed: listed.clone() });
            }
            files.push(listed);
        }
        self.tables = tables;
        Ok(Some(files))
    }
}

fn hash(mut file: File, is_wanted: &dyn Fn() -> bool) -> std::io::Result<Option<(u64, Checksum)>> {
    let mut piece = vec![0; PIECE_BYTES];
    let (mut size_bytes, mut hasher) = (0, Sha256::new());
    while is_wanted() {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(Some((size_bytes, Checksum(hasher.finalize().into()))));
        }
        hasher.update(&piece[..read]);
        size_bytes += read as u64;
    }
    Ok(None)
}
