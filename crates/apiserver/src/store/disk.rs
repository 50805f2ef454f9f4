//! The journal on disk: one file with all objects, each as the JSON that the API returned last.
//!
//! The file is a [`redb`] database: a single writer and copy-on-write pages with checksums. If the process is
//! killed during a write, the previous state remains. A separate thread writes all pending writes in one
//! transaction and syncs once, so many writers share one sync (group commit).
//!
//! An object that cannot be read back doesn't prevent startup: its bytes are moved to a file of its own
//! beside the store ([`SET_ASIDE`]), and the store opens without it.
//!
//! While the disk fails (full, read-only, unplugged), pending writes are kept and retried, and new ones are
//! rejected before they change memory. Memory is therefore never more than one batch ahead of the file.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use redb::{Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::{Event, Journal, Key, Record, Resource, Verb};

#[cfg(test)]
mod tests;

/// By resource and key: the object's JSON. Its `metadata.resourceVersion` is its revision.
const OBJECTS: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("objects");
/// Metadata of the file.
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");
/// Key in [`ABOUT`]: the file's format version.
const FORMAT: &str = "format";
/// Key in [`ABOUT`]: the revision of the last write.
const REVISION: &str = "revision";

/// The size of the page cache in bytes; small, because objects are read only once, at startup.
const CACHE_BYTES: usize = 2 << 20;
/// The retry interval while the disk fails.
const RETRY: Duration = Duration::from_millis(500);
/// The number of revisions to skip at each start. A client may have seen a write that never became durable,
/// and its revision must not be reused. Greater than the number of writes that can be pending at once.
const REVISION_GAP: u64 = 100_000;

/// The folder beside the store's file for unreadable objects, each in its own file: `RESOURCE/KEY.json`.
/// Characters that aren't allowed in a file name are written as `%XX`.
pub const SET_ASIDE: &str = "unreadable";
/// The maximum length of a file name made from a key, in bytes.
const MAX_FILE_NAME: usize = 200;

/// A migration to the next format. It changes the tables in the transaction that also writes the new format
/// version.
type Step = fn(&redb::WriteTransaction) -> Result<(), redb::Error>;
/// The migrations from format 1 on; the present format is their number plus one.
const STEPS: [Step; 0] = [];

/// An error while opening a store's file.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An error of the operating system.
    #[error("the store {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Another process has the file open.
    #[error("the store {path} is in use by another process")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A later release wrote the file.
    #[error(
        "the store {path} has format {found}; this release reads up to {known}: use the release that wrote it"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's format.
        found: u64,
        /// The newest format that this release reads.
        known: u64,
    },
    /// The file isn't a store, or is damaged.
    #[error("the store {path} cannot be read: {source}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// redb's error.
        source: Box<redb::Error>,
    },
}

/// Opens the file, or creates it.
type Opener = Box<dyn Fn() -> Result<Database, DatabaseError> + Send>;

/// The contents of a file.
pub(super) struct Loaded {
    /// The revision to continue from.
    pub revision: u64,
    /// All objects.
    pub objects: Vec<(Resource, Record)>,
}

/// An object that cannot be read back.
struct Unreadable {
    resource: String,
    key: String,
    json: Vec<u8>,
    why: String,
}

/// The journal on disk; its thread writes the file.
pub struct Disk {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    progress: watch::Sender<Progress>,
}

#[derive(Default)]
struct Queue {
    writes: Vec<Write>,
    ended: bool,
}

/// A pending write.
struct Write {
    resource: Resource,
    event: Arc<Event>,
}

#[derive(Debug, Clone, Default)]
struct Progress {
    /// Every write up to this revision is durable.
    durable: u64,
    /// The present error of the disk, if any.
    refusal: Option<Arc<io::Error>>,
}

impl Disk {
    /// Opens the file or creates it, and migrates an older format.
    ///
    /// # Errors
    /// See [`OpenError`]; the file is unchanged then.
    pub(super) fn open(path: &Path) -> Result<(Self, Loaded), OpenError> {
        let file = path.to_owned();
        Self::begin(path, Box::new(move || builder().create(&file)), &STEPS)
    }

    /// Same as [`Disk::open`], with an opener that tests can choose; `path` is only used in errors.
    fn begin(path: &Path, opener: Opener, steps: &[Step]) -> Result<(Self, Loaded), OpenError> {
        let database = prepare(path, &opener, steps)?;
        let (loaded, unreadable) = load(&database).map_err(|source| damaged(path, source))?;
        set_aside(path, &database, &unreadable)?;
        let (progress, _) = watch::channel(Progress { durable: loaded.revision, refusal: None });
        let shared = Arc::new(Shared { queue: Mutex::default(), wake: Condvar::new(), progress });
        let path = path.to_owned();
        let writer = Writer { path: path.clone(), opener, database: Some(database), shared: shared.clone() };
        let thread = std::thread::Builder::new()
            .name("store".into())
            .spawn(move || writer.run())
            .map_err(|source| OpenError::Io { path, source })?;
        Ok((Self { shared, thread: Some(thread) }, loaded))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Journal for Disk {
    fn ready(&self) -> io::Result<()> {
        self.shared.progress.borrow().refusal.as_ref().map_or(Ok(()), |refusal| Err(again(refusal)))
    }

    fn append(&self, resource: &Resource, event: &Arc<Event>) {
        self.shared.lock().writes.push(Write { resource: resource.clone(), event: event.clone() });
        self.shared.wake.notify_one();
    }

    fn durable(&self, revision: u64) -> BoxFuture<'static, io::Result<()>> {
        let mut progress = self.shared.progress.subscribe();
        async move {
            let known = progress.wait_for(|now| now.durable >= revision || now.refusal.is_some()).await;
            let known = known.map_err(|_| io::Error::other("the store is closed"))?;
            match &known.refusal {
                Some(refusal) if known.durable < revision => Err(again(refusal)),
                _ => Ok(()),
            }
        }
        .boxed()
    }
}

/// Copies an error's kind and message, because the error itself cannot be shared.
fn again(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

impl Shared {
    // A panic cannot leave the queue inconsistent.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for writes and takes all of them; `None` once the journal has ended and the queue is empty.
    fn take(&self) -> Option<Vec<Write>> {
        let mut queue = self.lock();
        while queue.writes.is_empty() {
            if queue.ended {
                return None;
            }
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        Some(std::mem::take(&mut queue.writes))
    }

    /// Waits for the retry interval or until the journal ends; returns whether it has ended.
    fn pause(&self) -> bool {
        let queue = self.lock();
        let paused = self.wake.wait_timeout_while(queue, RETRY, |queue| !queue.ended);
        paused.map_or_else(|error| error.into_inner().0.ended, |(queue, _)| queue.ended)
    }
}

/// Runs on the thread that writes the file.
struct Writer {
    path: PathBuf,
    opener: Opener,
    /// `None` after a failure, because redb requires the file to be opened again.
    database: Option<Database>,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(mut self) {
        while let Some(batch) = self.shared.take() {
            let Some(last) = batch.last().map(|write| write.event.revision()) else { continue };
            while let Err(error) = self.write(&batch) {
                tracing::error!(path = %self.path.display(), %error, "the store cannot be written; trying again");
                self.database = None;
                self.shared.progress.send_modify(|now| now.refusal = Some(Arc::new(io_error(error))));
                if self.shared.pause() {
                    return;
                }
            }
            self.shared.progress.send_modify(|now| *now = Progress { durable: last, refusal: None });
        }
    }

    fn write(&mut self, batch: &[Write]) -> Result<(), redb::Error> {
        let database = match self.database.take() {
            Some(database) => database,
            None => (self.opener)()?,
        };
        let database = self.database.insert(database);
        let transaction = database.begin_write()?;
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            for Write { resource, event } in batch {
                let key = (resource.as_str(), event.record.key.as_str());
                match event.verb {
                    Verb::Added | Verb::Modified => objects.insert(key, event.record.json().as_ref())?,
                    Verb::Deleted => objects.remove(key)?,
                };
            }
            if let Some(last) = batch.last() {
                transaction.open_table(ABOUT)?.insert(REVISION, last.event.revision())?;
            }
        }
        transaction.commit()?;
        Ok(())
    }
}

fn io_error(error: redb::Error) -> io::Error {
    match error {
        redb::Error::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Opens or creates the file and runs the missing migrations, all in one transaction.
fn prepare(path: &Path, opener: &Opener, steps: &[Step]) -> Result<Database, OpenError> {
    let database = opener().map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse { path: path.to_owned() },
        other => damaged(path, other.into()),
    })?;
    let known = steps.len() as u64 + 1;
    let upgrade = || -> Result<u64, redb::Error> {
        let transaction = database.begin_write()?;
        let found = {
            let mut about = transaction.open_table(ABOUT)?;
            transaction.open_table(OBJECTS)?;
            let found = about.get(FORMAT)?.map_or(known, |found| found.value());
            about.insert(FORMAT, known)?;
            found
        };
        if found > known {
            transaction.abort()?;
            return Ok(found);
        }
        for step in steps.iter().skip(usize::try_from(found.saturating_sub(1)).unwrap_or(usize::MAX)) {
            step(&transaction)?;
        }
        transaction.commit()?;
        Ok(found)
    };
    let found = upgrade().map_err(|source| damaged(path, source))?;
    if found > known {
        return Err(OpenError::Newer { path: path.to_owned(), found, known });
    }
    Ok(database)
}

fn load(database: &Database) -> Result<(Loaded, Vec<Unreadable>), redb::Error> {
    let transaction = database.begin_read()?;
    let written = transaction.open_table(ABOUT)?.get(REVISION)?.map(|revision| revision.value());
    let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
    for entry in transaction.open_table(OBJECTS)?.iter()? {
        let (key, json) = entry?;
        let ((resource, key), json) = (key.value(), json.value());
        match revision_of(json) {
            Ok(revision) => {
                let record = Record::from_json(Key::from_text(key), revision, Bytes::copy_from_slice(json));
                objects.push((Resource::from_text(resource), record));
            }
            Err(why) => {
                let (resource, key) = (resource.to_owned(), key.to_owned());
                unreadable.push(Unreadable { resource, key, json: json.to_vec(), why });
            }
        }
    }
    let revision = written.map_or(1, |revision| revision + REVISION_GAP);
    Ok((Loaded { revision, objects }, unreadable))
}

/// Reads the revision of an object, and sees that all of it can be parsed, as it will be when somebody asks for it.
fn revision_of(json: &[u8]) -> Result<u64, String> {
    let value: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let revision = value["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
    revision.ok_or_else(|| "it has no resourceVersion".to_owned())
}

/// Moves unreadable objects from the store into files beside it. They are removed from the store only after
/// their files are synced.
fn set_aside(path: &Path, database: &Database, unreadable: &[Unreadable]) -> Result<(), OpenError> {
    if unreadable.is_empty() {
        return Ok(());
    }
    let root = path.with_file_name(SET_ASIDE);
    for object in unreadable {
        let folder = root.join(file_name(&object.resource));
        let file = folder.join(format!("{}.json", file_name(&object.key)));
        let keep = || {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&file)?;
            file.write_all(&object.json)?;
            file.sync_all()
        };
        keep().map_err(|source| OpenError::Io { path: file.clone(), source })?;
        let Unreadable { resource, key, why, .. } = object;
        tracing::error!(%resource, %key, %why, file = %file.display(), "an object of the store cannot be read: set aside");
    }
    let remove = || -> Result<(), redb::Error> {
        let transaction = database.begin_write()?;
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            for Unreadable { resource, key, .. } in unreadable {
                objects.remove((resource.as_str(), key.as_str()))?;
            }
        }
        transaction.commit()?;
        Ok(())
    };
    remove().map_err(|source| damaged(path, source))
}

/// Encodes a text as a file name; a long one is truncated.
fn file_name(text: &str) -> String {
    let mut name = String::new();
    for byte in text.bytes() {
        match char::from(byte) {
            plain @ ('a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.')
                if plain != '.' || !name.is_empty() =>
            {
                name.push(plain);
            }
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    if name.len() > MAX_FILE_NAME {
        // The digest keeps long names with the same prefix distinct.
        let digest = Sha256::digest(text.as_bytes());
        let digest = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>();
        name.truncate(MAX_FILE_NAME - digest.len() - 1);
        name = format!("{name}.{digest}");
    }
    name
}

fn damaged(path: &Path, error: redb::Error) -> OpenError {
    let path = path.to_owned();
    match error {
        redb::Error::Io(source) => OpenError::Io { path, source },
        source => OpenError::Damaged { path, source: Box::new(source) },
    }
}
