//! The local store in RocksDB.
//!
//! Its own write-ahead log is off: ours is the truth. There is one column family, so whatever a flush
//! leaves on disk is a prefix of the entries applied, and the record of the end in it says which.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use dexzd_core::engine::{Change, StateRead};
use dexzd_core::ids::Position;
use dexzd_core::log::{Chain, LogEnd};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, FlushOptions, LogLevel, Options, ReadOptions,
    WriteBatch, WriteOptions,
};

use super::error::{LocalReadFailed, LocalStoreError};
use super::identity::{self, IDENTITY_FILE, LocalStoreKind};
use super::place::{Frozen, ROCKS_FOLDER, io_error};
use super::{LocalStore, RESERVED_KEY_PREFIX};

/// Where the end stands, in the same batch as the changes that led to it.
const END_KEY: &[u8] = &[RESERVED_KEY_PREFIX, b'e'];
/// A flush is due after so much was applied: a kill loses that from memory, and replaying it from the
/// log takes a fraction of a second.
const FLUSH_AFTER_BYTES: u64 = 24 << 20;
/// Larger than what is applied between two flushes, so that flushes happen when we ask for them; two of
/// them bound the memory when one is being flushed.
const WRITE_BUFFER_BYTES: usize = 32 << 20;
const WRITE_BUFFERS: i32 = 2;
/// A file of a snapshot is uploaded as a whole, and four at a time: what that takes is bounded by this, and
/// a compaction makes fewer bytes new to the next snapshot.
const TABLE_FILE_BYTES: u64 = 32 << 20;
/// Data, index and filter blocks together: memory does not grow with the state.
const BLOCK_CACHE_BYTES: usize = 64 << 20;
const BLOOM_BITS_PER_KEY: f64 = 10.0;
/// One for flushes and one for compactions: the figures are for two cores.
const BACKGROUND_JOBS: i32 = 2;
/// Open table files keep their readers in memory.
const OPEN_FILES: i32 = 512;
/// A checkpoint is opened only to ask it for its end.
const OPEN_CHECKPOINT_FILES: i32 = 16;
/// Only what a person needs who looks into a failure.
const INFO_LOG_FILES: usize = 2;

/// RocksDB, tuned for many small records in little memory.
pub struct RocksStore {
    folder: PathBuf,
    db: DB,
    write_options: WriteOptions,
    end: Mutex<LogEnd>,
    durable: Mutex<LogEnd>,
    unflushed_bytes: AtomicU64,
    failed: AtomicBool,
}

impl RocksStore {
    /// Opens the store of `node_id` in `folder`, or creates it.
    ///
    /// # Errors
    ///
    /// See [`super::open_local_store`].
    pub fn open(folder: &Path, node_id: &str) -> Result<Self, LocalStoreError> {
        identity::claim(folder, LocalStoreKind::RocksDb, node_id)?;
        let db_folder = folder.join(ROCKS_FOLDER);
        let failed = |action, error: &rocksdb::Error| LocalStoreError::Library {
            folder: db_folder.clone(),
            action,
            detail: error.to_string(),
        };
        let db = DB::open(&options(), &db_folder).map_err(|error| failed("open", &error))?;
        let end = match db.get(END_KEY).map_err(|error| failed("read", &error))? {
            Some(bytes) => decode_end(&bytes).ok_or_else(|| LocalStoreError::Damaged {
                file: db_folder.clone(),
                detail: format!("the record of its end has {} bytes, not 40", bytes.len()),
            })?,
            None => LogEnd::default(),
        };
        let mut write_options = WriteOptions::default();
        write_options.disable_wal(true);
        Ok(Self {
            folder: db_folder,
            db,
            write_options,
            end: Mutex::new(end),
            durable: Mutex::new(end),
            unflushed_bytes: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        })
    }

    fn failure(&self, action: &'static str, error: &rocksdb::Error) -> LocalStoreError {
        self.failed.store(true, Ordering::Release);
        LocalStoreError::Library { folder: self.folder.clone(), action, detail: error.to_string() }
    }

    fn check_usable(&self) -> Result<(), LocalStoreError> {
        if self.failed.load(Ordering::Acquire) {
            return Err(LocalStoreError::FailedBefore { folder: self.folder.clone() });
        }
        Ok(())
    }
}

impl StateRead for RocksStore {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        match self.db.get(key) {
            Ok(value) => value,
            Err(error) => LocalReadFailed::unwind(self.failure("read", &error)),
        }
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let to = to.min(&[RESERVED_KEY_PREFIX]);
        if from >= to {
            return;
        }
        let mut read_options = ReadOptions::default();
        read_options.set_iterate_upper_bound(to);
        let mut iterator = self.db.raw_iterator_opt(read_options);
        iterator.seek(from);
        while let Some((key, value)) = iterator.item() {
            if !visit(key, value) {
                return;
            }
            iterator.next();
        }
        if let Err(error) = iterator.status() {
            LocalReadFailed::unwind(self.failure("scan", &error));
        }
    }
}

impl LocalStore for RocksStore {
    fn apply(&self, end: LogEnd, changes: &[Change]) -> Result<(), LocalStoreError> {
        self.check_usable()?;
        let mut batch = WriteBatch::default();
        for Change { key, value } in changes {
            assert!(key.first() != Some(&RESERVED_KEY_PREFIX), "the core uses no key of the local store");
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        batch.put(END_KEY, encode_end(end));
        let bytes = batch.size_in_bytes() as u64;
        self.db.write_opt(batch, &self.write_options).map_err(|error| self.failure("write", &error))?;
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = end;
        self.unflushed_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn end(&self) -> LogEnd {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn durable_end(&self) -> LogEnd {
        *self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wants_flush(&self) -> bool {
        self.unflushed_bytes.load(Ordering::Relaxed) >= FLUSH_AFTER_BYTES
    }

    fn flush(&self) -> Result<LogEnd, LocalStoreError> {
        self.check_usable()?;
        // What is applied from here on may be flushed too; only what was there before is promised.
        let end = self.end();
        self.unflushed_bytes.store(0, Ordering::Relaxed);
        let mut flush_options = FlushOptions::default();
        flush_options.set_wait(true);
        self.db.flush_opt(&flush_options).map_err(|error| self.failure("flush", &error))?;
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if durable.position < end.position {
            *durable = end;
        }
        Ok(*durable)
    }

    fn checkpoint(&self, folder: &Path) -> Result<Frozen, LocalStoreError> {
        self.check_usable()?;
        let frozen = self.freeze(folder);
        if frozen.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        frozen
    }
}

impl RocksStore {
    fn freeze(&self, folder: &Path) -> Result<Frozen, LocalStoreError> {
        fs::create_dir(folder).map_err(|source| io_error("cannot create", folder, source))?;
        let identity = folder.join(IDENTITY_FILE);
        let own = self.folder.parent().expect("the files of RocksDB lie in a folder of the store");
        fs::copy(own.join(IDENTITY_FILE), &identity)
            .map_err(|source| io_error("cannot write", &identity, source))?;
        let frozen = folder.join(ROCKS_FOLDER);
        // It flushes what is in memory and links the table files; without a write-ahead log they are all.
        Checkpoint::new(&self.db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(&frozen))
            .map_err(|error| self.failure("make a checkpoint of itself", &error))?;
        // Before it is opened: that leaves files of its own.
        let mut files = Self::list(&frozen)?;
        files.push(IDENTITY_FILE.to_owned());
        Ok(Frozen { end: self.end_of(&frozen)?, files })
    }

    fn list(frozen: &Path) -> Result<Vec<String>, LocalStoreError> {
        let unlistable = |source| io_error("cannot list", frozen, source);
        let mut files = Vec::new();
        for entry in fs::read_dir(frozen).map_err(unlistable)? {
            let entry = entry.map_err(unlistable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // RocksDB makes itself a new file of that name, and ours stands beside its folder.
            if entry.file_type().map_err(unlistable)?.is_file() && name != IDENTITY_FILE {
                files.push(name);
            }
        }
        Ok(files)
    }

    /// How far a checkpoint is: applying went on while it was made.
    fn end_of(&self, frozen: &Path) -> Result<LogEnd, LocalStoreError> {
        let mut options = options();
        options.create_if_missing(false);
        options.set_max_open_files(OPEN_CHECKPOINT_FILES);
        let opened = DB::open_for_read_only(&options, frozen, false);
        let bytes = opened
            .and_then(|opened| opened.get(END_KEY))
            .map_err(|error| self.failure("read its own checkpoint", &error))?;
        match bytes {
            Some(bytes) => decode_end(&bytes).ok_or_else(|| LocalStoreError::Damaged {
                file: frozen.to_path_buf(),
                detail: format!("the record of its end has {} bytes, not 40", bytes.len()),
            }),
            None => Ok(LogEnd::default()),
        }
    }
}

fn options() -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(BLOCK_CACHE_BYTES));
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    blocks.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
    blocks.set_optimize_filters_for_memory(true);
    blocks.set_block_size(8 << 10);
    blocks.set_format_version(5);

    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_target_file_size_base(TABLE_FILE_BYTES);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_max_write_buffer_number(WRITE_BUFFERS);
    options.set_max_background_jobs(BACKGROUND_JOBS);
    options.set_max_open_files(OPEN_FILES);
    options.set_level_compaction_dynamic_level_bytes(true);
    // A stall of writes would hold up the log: compaction may lag behind a burst instead.
    options.set_level_zero_file_num_compaction_trigger(4);
    options.set_level_zero_slowdown_writes_trigger(40);
    options.set_level_zero_stop_writes_trigger(60);
    // Damaged bytes are an error, never a shorter database.
    options.set_paranoid_checks(true);
    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(INFO_LOG_FILES);
    options.set_max_log_file_size(1 << 20);
    options
}

fn encode_end(end: LogEnd) -> [u8; 40] {
    let mut bytes = [0; 40];
    bytes[..8].copy_from_slice(&end.position.0.to_be_bytes());
    bytes[8..].copy_from_slice(&end.chain.0);
    bytes
}

fn decode_end(bytes: &[u8]) -> Option<LogEnd> {
    let (position, chain) = bytes.split_first_chunk::<8>()?;
    Some(LogEnd { position: Position(u64::from_be_bytes(*position)), chain: Chain(chain.try_into().ok()?) })
}
