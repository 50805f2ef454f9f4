//! The log archive: the lines of every container of a job, compressed, kept after the pods are gone.
//!
//! [`append`] compresses a batch into a part that is a row of the store; when it returns, the batch is durable. Later,
//! [`pack_due`] replaces small parts by a chunk in the object store: the chunk is written first (locally: to a temporary
//! file that is synced and renamed), then one transaction replaces the rows. A process that is killed in between leaves
//! a chunk that no row names, and [`maintain::sweep`] removes it.
//!
//! Lines have numbers, counted from the start of the container. A line that several replicas report is stored once.
//! A part is a sequence of gzip members, so its beginning is readable even where its end is lost.

mod bucket;
mod codec;
pub mod maintain;
mod read;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt as _;
use futures::stream::BoxStream;
use jiff::Timestamp;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _};
use sqlx::Row as _;
use uuid::Uuid;

pub use self::bucket::Bucket;
pub use self::read::{MAX_TAIL_LINES, Reader, Selection, read, read_from, tail};
use crate::error::Error;
use crate::series::{self, Samples};
use crate::store::{Store, Write, micros};

/// The maximum number of lines in a batch.
pub const MAX_BATCH_LINES: usize = 10_000;
/// The maximum size of a batch in bytes.
pub const MAX_BATCH_BYTES: usize = 4 << 20;
/// The compressed size of a chunk, at which no more parts are added.
const CHUNK_BYTES: i64 = 512 << 10;
/// How often the position of a source that grows is read.
const POSITION_TRIES: usize = 8;
/// The maximum number of parts that become one chunk.
const CHUNK_PARTS: i64 = 256;

/// The archive: an index in a store, and chunks in an object store.
#[derive(Clone, Debug)]
pub struct Archive {
    store: Store,
    objects: Arc<dyn ObjectStore>,
    /// The folder of chunks that were written before there was a bucket.
    earlier: Option<Arc<dyn ObjectStore>>,
    is_bucket: bool,
}

impl Archive {
    /// An archive with its chunks in a folder of this machine, created with mode 0700 if necessary.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn in_folder(store: Store, folder: &Path) -> Result<Self, Error> {
        let objects = open_folder(folder)?;
        Ok(Self { store, objects, earlier: None, is_bucket: false })
    }

    /// An archive with its chunks in memory: they end with the process.
    #[must_use]
    pub fn in_memory(store: Store) -> Self {
        Self { store, objects: Arc::new(InMemory::new()), earlier: None, is_bucket: false }
    }

    /// An archive with its chunks in a bucket, which other stores may share. Chunks that an archive `in_folder` wrote before
    /// are read there. Asks the bucket for nothing, so this succeeds while it is away.
    ///
    /// # Errors
    /// If the settings are not valid, the folder cannot be read, or the store fails.
    pub async fn in_bucket(store: Store, bucket: &Bucket, earlier: Option<&Path>) -> Result<Self, Error> {
        let earlier = earlier.filter(|folder| folder.is_dir()).map(open_folder).transpose()?;
        let objects = bucket::open(bucket, &own_id(&store).await?)?;
        Ok(Self { store, objects, earlier, is_bucket: true })
    }

    /// Whether chunks are files of this machine, which only [`maintain::repair`] checks. A bucket checks its own.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        !self.is_bucket
    }

    /// Returns a chunk, or `None` if it is not there.
    async fn get(&self, object: &str) -> Result<Option<Bytes>, Error> {
        match read_whole(&self.objects, object).await {
            Err(error) if bucket::is_absent(&error) => {}
            found => return found.map(Some).map_err(|error| self.failed(error)),
        }
        let Some(earlier) = &self.earlier else { return Ok(None) };
        match read_whole(earlier, object).await {
            Err(error) if bucket::is_absent(&error) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    async fn put(&self, object: &str, data: Bytes) -> Result<(), Error> {
        let put = self.objects.put(&Key::from(object), data.into()).await;
        put.map(drop).map_err(|error| self.failed(error))
    }

    /// Deletes a chunk, if it is there.
    async fn delete(&self, object: &str) -> Result<(), Error> {
        let key = Key::from(object);
        let unless_absent = |deleted: object_store::Result<()>| match deleted {
            Err(error) if bucket::is_absent(&error) => Ok(()),
            deleted => deleted,
        };
        if let Some(earlier) = &self.earlier {
            unless_absent(earlier.delete(&key).await)?;
        }
        unless_absent(self.objects.delete(&key).await).map_err(|error| self.failed(error))
    }

    fn list(&self) -> BoxStream<'_, Result<ObjectMeta, Error>> {
        Box::pin(self.objects.list(None).map_err(|error| self.failed(error)))
    }

    fn failed(&self, error: object_store::Error) -> Error {
        if self.is_bucket { bucket::failed(&error) } else { error.into() }
    }
}

async fn read_whole(objects: &Arc<dyn ObjectStore>, object: &str) -> object_store::Result<Bytes> {
    objects.get(&Key::from(object)).await?.bytes().await
}

fn open_folder(folder: &Path) -> Result<Arc<dyn ObjectStore>, Error> {
    let failed = |error: std::io::Error| Error::Unavailable(format!("{}: {error}", folder.display()));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    maintain::remove_staged(folder).map_err(failed)?;
    Ok(Arc::new(LocalFileSystem::new_with_prefix(folder)?.with_fsync(true)))
}

/// Returns what keeps the chunks of this store apart from those of others in the same bucket: a sweep removes every chunk that
/// its own store does not name.
async fn own_id(store: &Store) -> Result<String, Error> {
    let new = Uuid::new_v4().simple().to_string();
    let query =
        sqlx::query("INSERT INTO log_archive (single, id) VALUES (1, $1) ON CONFLICT (single) DO NOTHING");
    store.execute(query.bind(new)).await?;
    let row = store.row(sqlx::query("SELECT id FROM log_archive")).await?;
    Ok(row.ok_or_else(|| Error::damaged("the archive", "it has no id"))?.try_get(0)?)
}

/// A container whose lines are archived.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The job's uid.
    pub uid: String,
    /// The job's attempt; 0 if its kind counts none.
    pub attempt: u32,
    /// The run of a container, in the words of the caller: it begins with line 0.
    pub container: String,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When it was written. Within a source, time does not go back: a line that claims to be older than the line before
    /// it is archived with that line's time.
    pub at: Timestamp,
    /// Its text, without a line feed.
    pub text: String,
}

/// Archives lines of a source, of which the first has the number `first`, and returns the number of the next line to
/// append. What was archived before is not archived again.
///
/// # Errors
/// If the batch exceeds its maximum or holds a line feed, or the store fails. Nothing is then archived.
pub async fn append(archive: &Archive, source: &Source, first: i64, lines: &[Line]) -> Result<i64, Error> {
    append_sampled(archive, source, first, lines, &Samples::default()).await
}

/// As [`append`], with the samples that these lines contain: lines and samples are stored together, so that each sample is
/// stored once, like its line.
///
/// # Errors
/// As [`append`].
pub async fn append_sampled(
    archive: &Archive,
    source: &Source,
    first: i64,
    lines: &[Line],
    samples: &Samples,
) -> Result<i64, Error> {
    let bytes: usize = lines.iter().map(|line| line.text.len()).sum();
    if lines.len() > MAX_BATCH_LINES || bytes > MAX_BATCH_BYTES {
        return Err(Error::Invalid(format!(
            "a batch of log lines has at most {MAX_BATCH_LINES} lines and {MAX_BATCH_BYTES} bytes"
        )));
    }
    if first < 0 || lines.iter().any(|line| line.text.contains('\n')) {
        return Err(Error::Invalid("a batch of log lines has a negative number or a line feed".to_owned()));
    }
    let mut write = archive.store.write().await?;
    let (next, last) = lock_source(&mut write, source).await?;
    let known = usize::try_from(next.saturating_sub(first)).unwrap_or(0);
    let Some(fresh) = lines.get(known..).filter(|fresh| !fresh.is_empty()) else { return Ok(next) };
    let part = codec::encode(fresh, last)?;
    let first_line = first.max(next);
    let count = i64::try_from(fresh.len()).unwrap_or(i64::MAX);
    sqlx::query(
        "INSERT INTO log_parts (uid, attempt, source, first_line, lines, first, last, bytes, data) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(&source.uid)
    .bind(i64::from(source.attempt))
    .bind(&source.container)
    .bind(first_line)
    .bind(count)
    .bind(part.first)
    .bind(part.last)
    .bind(size(&part.data))
    .bind(part.data.as_slice())
    .execute(&mut *write)
    .await?;
    let next = first_line + count;
    sqlx::query(
        "UPDATE log_sources SET next_line = $4, last = $5 WHERE uid = $1 AND attempt = $2 AND source = $3",
    )
    .bind(&source.uid)
    .bind(i64::from(source.attempt))
    .bind(&source.container)
    .bind(next)
    .bind(part.last)
    .execute(&mut *write)
    .await?;
    series::add(&mut write, &source.uid, samples, known).await?;
    write.commit().await?;
    Ok(next)
}

/// Records that a source ended at a time, so that one that wrote nothing is known too. Changes nothing if it is known.
///
/// # Errors
/// If the store fails.
pub async fn note_end(archive: &Archive, source: &Source, at: Timestamp) -> Result<(), Error> {
    let mut write = archive.store.write().await?;
    sqlx::query(
        "INSERT INTO log_sources (uid, attempt, source, next_line, last) VALUES ($1, $2, $3, 0, $4) \
         ON CONFLICT (uid, attempt, source) DO NOTHING",
    )
    .bind(&source.uid)
    .bind(i64::from(source.attempt))
    .bind(&source.container)
    .bind(micros(at))
    .execute(&mut *write)
    .await?;
    write.commit().await
}

/// Creates a source's row if it is missing, and locks it until the transaction ends. Returns its next line's number and
/// its last line's time.
async fn lock_source(write: &mut Write, source: &Source) -> Result<(i64, i64), Error> {
    let row = sqlx::query(
        "INSERT INTO log_sources (uid, attempt, source, next_line, last) VALUES ($1, $2, $3, 0, $4) \
         ON CONFLICT (uid, attempt, source) DO UPDATE SET next_line = log_sources.next_line RETURNING next_line, last",
    )
    .bind(&source.uid)
    .bind(i64::from(source.attempt))
    .bind(&source.container)
    .bind(micros(Timestamp::MIN))
    .fetch_one(&mut **write)
    .await?;
    Ok((row.try_get(0)?, row.try_get(1)?))
}

fn size(data: &[u8]) -> i64 {
    i64::try_from(data.len()).unwrap_or(i64::MAX)
}

/// Returns the number of the next line that the archive expects of a source: a replica that begins to follow a container
/// skips what is before it.
///
/// # Errors
/// If the store fails.
pub async fn next_line(archive: &Archive, source: &Source) -> Result<i64, Error> {
    let query =
        sqlx::query("SELECT next_line FROM log_sources WHERE uid = $1 AND attempt = $2 AND source = $3");
    let query = query.bind(&source.uid).bind(i64::from(source.attempt)).bind(&source.container);
    Ok(archive.store.row(query).await?.map(|row| row.try_get(0)).transpose()?.unwrap_or(0))
}

/// How far a source is archived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The number of the next line.
    pub next_line: i64,
    /// The time of the last line, if there is one.
    pub last: Option<Timestamp>,
    /// The number of lines with that time, up to [`MAX_TAIL_LINES`].
    pub at_last: usize,
}

/// Returns how far a source is archived: a replica that begins to follow a container continues there, although the node
/// may have dropped what is before it.
///
/// # Errors
/// If the store fails, or the source grows too fast to say.
pub async fn position(archive: &Archive, source: &Source) -> Result<Position, Error> {
    let selection = Selection {
        uid: source.uid.clone(),
        attempt: Some(source.attempt),
        containers: vec![source.container.clone()],
        ..Selection::default()
    };
    for _ in 0..POSITION_TRIES {
        let next_line = next_line(archive, source).await?;
        let Some((_, line)) = tail(archive, &selection, 1).await?.pop() else {
            return Ok(Position { next_line, ..Position::default() });
        };
        let since = Selection { since: Some(line.at), ..selection.clone() };
        let at_last = tail(archive, &since, MAX_TAIL_LINES).await?;
        // Another replica may have appended something meanwhile.
        if self::next_line(archive, source).await? == next_line {
            return Ok(Position { next_line, last: Some(line.at), at_last: at_last.len() });
        }
    }
    Err(Error::Locked)
}

/// Returns the sources of a job, of one attempt or of all, in order.
///
/// # Errors
/// If the store fails.
pub async fn sources(archive: &Archive, uid: &str, attempt: Option<u32>) -> Result<Vec<Source>, Error> {
    let query = sqlx::query(
        "SELECT attempt, source FROM log_sources WHERE uid = $1 AND ($2 IS NULL OR attempt = $2) \
         ORDER BY attempt, source",
    );
    let rows = archive.store.rows(query.bind(uid).bind(attempt.map(i64::from))).await?;
    rows.iter().map(|row| source_of(uid, row.try_get(0)?, row.try_get(1)?)).collect()
}

fn source_of(uid: &str, attempt: i64, container: String) -> Result<Source, Error> {
    let attempt = u32::try_from(attempt).map_err(|error| Error::damaged("an attempt's number", error))?;
    Ok(Source { uid: uid.to_owned(), attempt, container })
}

/// Packs the small parts of sources that have enough of them, or whose last line is older than a time. Returns the
/// number of sources that it packed, at most 100; 0 when all is done.
///
/// # Errors
/// If the store or the object store fails. What was not packed stays as it is.
pub async fn pack_due(archive: &Archive, older_than: Timestamp) -> Result<usize, Error> {
    let query = sqlx::query(
        "SELECT p.uid, p.attempt, p.source FROM log_parts p WHERE p.object IS NULL \
         GROUP BY p.uid, p.attempt, p.source \
         HAVING SUM(p.bytes) >= $1 OR COUNT(*) >= $2 OR MAX(p.last) < $3 LIMIT 100",
    );
    let query = query.bind(CHUNK_BYTES).bind(CHUNK_PARTS).bind(micros(older_than));
    let mut packed = 0;
    for row in archive.store.rows(query).await? {
        let uid: String = row.try_get(0)?;
        packed += usize::from(pack(archive, &source_of(&uid, row.try_get(1)?, row.try_get(2)?)?).await?);
    }
    Ok(packed)
}

/// Replaces the first small parts of a source by one chunk. Returns `false` if another replica was faster.
async fn pack(archive: &Archive, source: &Source) -> Result<bool, Error> {
    let query = sqlx::query(
        "SELECT first_line, lines, first, last, bytes, data FROM log_parts \
         WHERE uid = $1 AND attempt = $2 AND source = $3 AND object IS NULL ORDER BY first_line LIMIT $4",
    );
    let query = query.bind(&source.uid).bind(i64::from(source.attempt)).bind(&source.container);
    let rows = archive.store.rows(query.bind(CHUNK_PARTS)).await?;
    let mut packer = codec::Packer::default();
    let mut numbers: Vec<i64> = Vec::new();
    let (mut lines, mut range, mut bytes) = (0_i64, None::<(i64, i64)>, 0_i64);
    for row in &rows {
        let first_line: i64 = row.try_get(0)?;
        let follows = numbers.first().is_none_or(|first| first + lines == first_line);
        if !follows || bytes >= CHUNK_BYTES {
            break;
        }
        packer.add(row.try_get::<Vec<u8>, _>(5)?)?;
        lines += row.try_get::<i64, _>(1)?;
        let (first, last): (i64, i64) = (row.try_get(2)?, row.try_get(3)?);
        range = Some((range.map_or(first, |(first, _)| first), last));
        bytes += row.try_get::<i64, _>(4)?;
        numbers.push(first_line);
    }
    let Some((first, last)) = range else { return Ok(false) };
    let part = Chunk { numbers, lines, first, last, data: packer.finish()?.into() };
    let object = put(archive, &part.data).await?;
    match replace(archive, source, &part, &object).await {
        Ok(true) => Ok(true),
        // No row names it.
        Ok(false) => archive.delete(&object).await.map(|()| false),
        // The commit may have happened all the same, so the chunk must stay.
        Err(error) => Err(error),
    }
}

/// A chunk that replaces parts.
struct Chunk {
    /// The numbers of the first lines of these parts.
    numbers: Vec<i64>,
    lines: i64,
    first: i64,
    last: i64,
    data: Bytes,
}

/// Writes a chunk under a new name, which it returns.
async fn put(archive: &Archive, data: &Bytes) -> Result<String, Error> {
    let name = Uuid::new_v4().simple().to_string();
    let object = format!("{}/{name}.gz", name.get(..2).unwrap_or_default());
    archive.put(&object, data.clone()).await?;
    Ok(object)
}

/// Replaces parts by a chunk in one transaction, if all of them are still there.
async fn replace(archive: &Archive, source: &Source, chunk: &Chunk, object: &str) -> Result<bool, Error> {
    let mut write = archive.store.write().await?;
    let (Some(from), Some(through)) = (chunk.numbers.first(), chunk.numbers.last()) else { return Ok(false) };
    let gone = sqlx::query(
        "DELETE FROM log_parts WHERE uid = $1 AND attempt = $2 AND source = $3 AND object IS NULL \
         AND first_line >= $4 AND first_line <= $5",
    )
    .bind(&source.uid)
    .bind(i64::from(source.attempt))
    .bind(&source.container)
    .bind(*from)
    .bind(*through)
    .execute(&mut *write)
    .await?;
    if usize::try_from(gone.rows_affected()).ok() != Some(chunk.numbers.len()) {
        return Ok(false);
    }
    sqlx::query(
        "INSERT INTO log_parts (uid, attempt, source, first_line, lines, first, last, bytes, object, digest) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(&source.uid)
    .bind(i64::from(source.attempt))
    .bind(&source.container)
    .bind(*from)
    .bind(chunk.lines)
    .bind(chunk.first)
    .bind(chunk.last)
    .bind(size(&chunk.data))
    .bind(object)
    .bind(codec::digest(&chunk.data))
    .execute(&mut *write)
    .await?;
    write.commit().await?;
    Ok(true)
}
