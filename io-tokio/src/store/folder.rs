//! A folder as an object store: conditional writes that hold between all processes of one host (D-45).
//!
//! An object is a folder of version files, counted from 1 (D-50). The highest one is the object. A write
//! finishes a file under a temporary name, then gives it the next version's name with `link(2)`, which
//! fails if that name exists: no lock, and of all writers exactly one succeeds.
//!
//! ```text
//! dev/lease/@00000000000000000006   the version before: kept, see below
//! dev/lease/@00000000000000000007   the object
//! dev/lease/.tmp-…                  being written
//! ```
//!
//! Older versions are removed, so a writer that slept for a long time may find a name free that was
//! taken once. It looks again after its link: a version above its own means that the name is history,
//! and the tokens of the versions before, which every file carries, tell whether it was part of it. A
//! deletion is a version too, an empty one that stays: a counter never starts over.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use dexzd_core::ids::Blob;
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

use super::names::{object_folder, parse_version_file, unescape, version_file};
use super::{DeleteOutcome, FetchOutcome, ListOutcome, Listed, ObjectStore, SizedListOutcome};
use crate::files;

mod large;
mod record;

use record::{Record, RecordError};

/// A reader may find its file removed by two writers that came after; it then looks again. Each look
/// that fails is one at which others succeeded twice.
const LOOKS: u32 = 1_000;
/// A temporary file that is older belongs to a process that is gone.
const TEMPORARY_FILE_LIFETIME_SECS: u64 = 3_600;

/// An object store in a folder of a local file system.
#[derive(Debug)]
pub struct FolderStore {
    root: PathBuf,
    syncs: bool,
    /// Makes the names in a folder durable; tests put a failing or counting one here.
    sync_folder: fn(&Path) -> io::Result<()>,
}

/// Why an operation did not end well.
enum Failure {
    /// The condition does not hold.
    Refused,
    /// The outcome is open, or it is worth another try.
    Transient,
    Permanent,
    Local,
}

impl FolderStore {
    /// The store in `root`, which is created if it is missing. With `syncs`, writes survive a power loss
    /// (HA-8).
    ///
    /// # Errors
    ///
    /// The folder cannot be created or listed.
    pub fn open(root: &Path, syncs: bool) -> io::Result<Self> {
        files::create_folder(root)?;
        fs::read_dir(root)?;
        Ok(Self { root: root.to_path_buf(), syncs, sync_folder: files::sync_folder })
    }

    /// The newest version of an object with its number, deleted or not.
    fn newest(&self, folder: &Path) -> Result<Option<(u64, Record)>, Failure> {
        for _ in 0..LOOKS {
            let Some(number) = versions(folder)?.into_iter().max() else {
                return Ok(None);
            };
            match read_record(&folder.join(version_file(number)))? {
                Some(record) => return Ok(Some((number, record))),
                None => continue,
            }
        }
        Err(Failure::Transient)
    }

    /// Puts `record` behind `before` and returns the new version.
    fn append(
        &self,
        folder: &Path,
        before: Option<(u64, Record)>,
        body: Option<&[u8]>,
    ) -> Result<Version, Failure> {
        let (number, before) = before.map_or((0, None), |(number, record)| (number, Some(record)));
        let number = number.checked_add(1).ok_or(Failure::Permanent)?;
        let record = Record::after(before.as_ref(), crate::clock::entropy_u128(), body);
        files::create_folder(folder)?;
        let temporary = files::temporary_path(folder);
        let linked = self.link_finished(&temporary, &folder.join(version_file(number)), &record);
        // What is left behind if this fails is recognised by its name.
        let _ = fs::remove_file(&temporary);
        linked?;
        self.check_place(folder, number, &record)?;
        if self.syncs {
            // The link is there for every process; a failure here leaves open whether it survives.
            (self.sync_folder)(folder).map_err(|_| Failure::Local)?;
        }
        remove_old(folder, number);
        Ok(version(number, record.token))
    }

    fn link_finished(&self, temporary: &Path, name: &Path, record: &Record) -> Result<(), Failure> {
        let mut file = files::create_new(temporary)?;
        file.write_all(&record.encode())?;
        if self.syncs {
            // Never retried: after a failure the kernel may have dropped the pages (D-33).
            file.sync_all().map_err(|_| Failure::Local)?;
        }
        drop(file);
        fs::hard_link(temporary, name).map_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists { Failure::Refused } else { error.into() }
        })
    }

    /// Whether version `number`, just linked, became part of the object's history.
    fn check_place(&self, folder: &Path, number: u64, record: &Record) -> Result<(), Failure> {
        let Some((newest, successor)) = self.newest(folder)? else {
            // Nobody removes the newest version.
            return Err(Failure::Local);
        };
        if newest == number {
            return Ok(());
        }
        // A look that finds only lower versions than one that was linked before cannot happen.
        let distance = newest.checked_sub(number + 1).ok_or(Failure::Local)?;
        let ancestor = usize::try_from(distance).ok().and_then(|index| successor.ancestors.get(index));
        match ancestor {
            Some(token) if *token == record.token => Ok(()),
            Some(_) => {
                // The true version of this number was removed long ago. Nobody reads this file, for a
                // higher one exists, and every other writer of this name is as late.
                let _ = fs::remove_file(folder.join(version_file(number)));
                Err(Failure::Refused)
            }
            // Too long ago: only the object itself can tell whose write that was.
            None => Err(Failure::Transient),
        }
    }

    fn write(&self, key: &str, body: &[u8], expected: Option<&Version>) -> Result<Version, Failure> {
        let folder = object_folder(&self.root, key);
        let newest = self.newest(&folder)?;
        let holds = match (&newest, expected) {
            (None, None) => true,
            (Some((_, record)), None) => record.body.is_none(),
            (Some((number, record)), Some(expected)) => {
                record.body.is_some() && version(*number, record.token) == *expected
            }
            (None, Some(_)) => false,
        };
        if !holds {
            return Err(Failure::Refused);
        }
        self.append(&folder, newest, Some(body))
    }

    fn remove(&self, key: &str) -> Result<(), Failure> {
        let folder = object_folder(&self.root, key);
        for _ in 0..LOOKS {
            let Some(newest) = self.newest(&folder)? else {
                return Ok(());
            };
            if newest.1.body.is_none() {
                return Ok(());
            }
            match self.append(&folder, Some(newest), None) {
                // Somebody wrote in between: that version is to go too.
                Err(Failure::Refused) => {}
                Ok(_) => return Ok(()),
                Err(other) => return Err(other),
            }
        }
        Err(Failure::Transient)
    }

    fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<Listed>, Failure> {
        let mut listing = Listing { prefix, after, limit, found: Vec::new() };
        // Only whole parts of the prefix name folders.
        match prefix.rsplit_once('/') {
            Some((parts, _)) => {
                listing.collect(&object_folder(&self.root, parts), &(parts.to_owned() + "/"))?;
            }
            None => listing.collect(&self.root, "")?,
        }
        Ok(listing.found)
    }

    /// The newest version, and it stays: whoever linked it may have died before the sync of its folder, and
    /// what a reader builds on must not be taken back by a power loss. A folder with nothing to write costs
    /// one call.
    fn newest_durable(&self, folder: &Path) -> Result<Option<(u64, Record)>, Failure> {
        let newest = self.newest(folder)?;
        if self.syncs && newest.is_some() {
            (self.sync_folder)(folder).map_err(|_| Failure::Local)?;
        }
        Ok(newest)
    }
}

impl ObjectStore for FolderStore {
    fn read(&self, key: &str) -> ReadOutcome {
        match self.newest_durable(&object_folder(&self.root, key)) {
            Ok(Some((number, record))) => match record.body {
                Some(body) => ReadOutcome::Found {
                    version: version(number, record.token),
                    body: Blob::from(body),
                    // D-2 (b) is not for a folder store.
                    stamp_ms: None,
                },
                None => ReadOutcome::Missing,
            },
            Ok(None) => ReadOutcome::Missing,
            Err(Failure::Refused | Failure::Transient) => ReadOutcome::Transient { retry_after_ms: None },
            Err(Failure::Permanent) => ReadOutcome::Permanent,
            Err(Failure::Local) => ReadOutcome::LocalFailure,
        }
    }

    fn create(&self, key: &str, body: &[u8]) -> WriteOutcome {
        outcome(self.write(key, body, None))
    }

    fn replace(&self, key: &str, body: &[u8], version: &Version) -> WriteOutcome {
        outcome(self.write(key, body, Some(version)))
    }

    fn delete(&self, key: &str) -> DeleteOutcome {
        match self.remove(key) {
            Ok(()) => DeleteOutcome::Done,
            Err(Failure::Refused | Failure::Transient) => DeleteOutcome::Transient,
            Err(Failure::Permanent) => DeleteOutcome::Permanent,
            Err(Failure::Local) => DeleteOutcome::LocalFailure,
        }
    }

    fn forget(&self, key: &str) -> DeleteOutcome {
        match fs::remove_dir_all(object_folder(&self.root, key)) {
            Ok(()) => DeleteOutcome::Done,
            Err(error) if error.kind() == io::ErrorKind::NotFound => DeleteOutcome::Done,
            // Whatever is left is deleted as any object is.
            Err(_) => self.delete(key),
        }
    }

    fn list_after(&self, prefix: &str, after: &str, limit: usize) -> ListOutcome {
        match self.list_sized_after(prefix, after, limit) {
            SizedListOutcome::Found(objects) => {
                ListOutcome::Found(objects.into_iter().map(|object| object.key).collect())
            }
            SizedListOutcome::Transient => ListOutcome::Transient,
            SizedListOutcome::Permanent => ListOutcome::Permanent,
            SizedListOutcome::LocalFailure => ListOutcome::LocalFailure,
        }
    }

    fn list_sized_after(&self, prefix: &str, after: &str, limit: usize) -> SizedListOutcome {
        match self.list(prefix, after, limit) {
            Ok(objects) => SizedListOutcome::Found(objects),
            Err(Failure::Refused | Failure::Transient) => SizedListOutcome::Transient,
            Err(Failure::Permanent) => SizedListOutcome::Permanent,
            Err(Failure::Local) => SizedListOutcome::LocalFailure,
        }
    }

    fn create_from(&self, key: &str, size_bytes: u64, content: &mut (dyn Read + Send)) -> WriteOutcome {
        outcome(self.create_large(key, size_bytes, content))
    }

    fn read_into(&self, key: &str, sink: &mut (dyn Write + Send)) -> FetchOutcome {
        self.read_large(key, sink)
    }

    fn name(&self) -> String {
        format!("folder {}", self.root.display())
    }
}

/// A listing under way: it goes through the folders in the order of the keys, and looks into nothing that
/// it does not list.
struct Listing<'a> {
    prefix: &'a str,
    after: &'a str,
    limit: usize,
    found: Vec<Listed>,
}

impl Listing<'_> {
    /// Adds the objects below `folder`, whose keys begin with `above`.
    fn collect(&mut self, folder: &Path, above: &str) -> Result<(), Failure> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // An object and what lies below it are not neighbours: `a`, `a!`, `a/b`.
        let mut ahead: Vec<(String, PathBuf, bool)> = Vec::new();
        for entry in entries {
            let entry = entry?;
            let Some(part) = unescape(&entry.file_name()) else {
                continue;
            };
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let key = format!("{above}{part}");
            if key.starts_with(self.prefix) && key.as_str() > self.after {
                ahead.push((key.clone(), entry.path(), true));
            }
            let below = key + "/";
            let leads_on = below.starts_with(self.prefix) || self.prefix.starts_with(&below);
            if leads_on && (below.as_str() > self.after || self.after.starts_with(&below)) {
                ahead.push((below, entry.path(), false));
            }
        }
        ahead.sort();
        for (key, path, is_object) in ahead {
            if self.found.len() >= self.limit {
                break;
            }
            if !is_object {
                self.collect(&path, &key)?;
            } else if let Some(size_bytes) = large::newest_size(&path)? {
                self.found.push(Listed { key, size_bytes });
            }
        }
        Ok(())
    }
}

fn outcome(result: Result<Version, Failure>) -> WriteOutcome {
    match result {
        Ok(version) => WriteOutcome::Done { version },
        Err(Failure::Refused) => WriteOutcome::Refused,
        Err(Failure::Transient) => WriteOutcome::Transient { retry_after_ms: None },
        Err(Failure::Permanent) => WriteOutcome::Permanent,
        Err(Failure::Local) => WriteOutcome::LocalFailure,
    }
}

/// The number counts, and the token tells apart what a crash of the host may have made count twice.
fn version(number: u64, token: u128) -> Version {
    Version(Blob::from(format!("{number}-{token:032x}").into_bytes()))
}

fn versions(folder: &Path) -> Result<Vec<u64>, Failure> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        numbers.extend(parse_version_file(&entry?.file_name()));
    }
    Ok(numbers)
}

/// None if the file was removed meanwhile.
fn read_record(file: &Path) -> Result<Option<Record>, Failure> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match Record::decode(&bytes) {
        Ok(record) => Ok(Some(record)),
        // A linked file was finished before, so this one was damaged later, or by a power loss in a
        // mode without fsync. It is never overwritten.
        Err(RecordError::Damaged) => Err(Failure::Local),
        Err(RecordError::NewerFormat) => Err(Failure::Permanent),
    }
}

/// Removes what nobody reads any more: all but the newest two versions, and files of the dead.
fn remove_old(folder: &Path, newest: u64) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let old_version = parse_version_file(&name).is_some_and(|number| number + 1 < newest);
        if old_version || (files::is_temporary(&name) && is_abandoned(&entry.path())) {
            // Left for the next write if it fails.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_abandoned(file: &Path) -> bool {
    File::open(file).and_then(|file| file.metadata()).and_then(|metadata| metadata.modified()).is_ok_and(
        |modified| modified.elapsed().is_ok_and(|age| age.as_secs() > TEMPORARY_FILE_LIFETIME_SECS),
    )
}

impl From<io::Error> for Failure {
    // The operating system's errors are not our enum: what is not named here is a failing disk.
    #[allow(clippy::wildcard_enum_match_arm)]
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported | io::ErrorKind::NotADirectory => {
                Self::Permanent
            }
            // A folder or file that vanished under our hands, a signal, too many open files: try again.
            io::ErrorKind::NotFound
            | io::ErrorKind::Interrupted
            | io::ErrorKind::WouldBlock
            | io::ErrorKind::TimedOut => Self::Transient,
            // A full disk, an input/output error, a file system that became read-only (D-33).
            _ => Self::Local,
        }
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
