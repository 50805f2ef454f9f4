//! The database: opened, migrated and bounded, and how everything else in this crate reads and writes it.
//!
//! Queries are the same text for SQLite and PostgreSQL (`$1` is a parameter in both); the few differences are in
//! [`Dialect`]. Times are whole microseconds since 1970 in UTC.

mod migrations;
mod used;

use std::fmt;
use std::fs::{DirBuilder, OpenOptions};
use std::ops::{Deref, DerefMut};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use sqlx::any::{AnyArguments, AnyPoolOptions, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AnyPool, AssertSqlSafe, Connection as _, Row as _, Transaction};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;
use tracing::{Instrument as _, Span};

pub use self::used::Used;
use crate::error::Error;

/// Which database a store is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite, in a file of this machine.
    Sqlite,
    /// PostgreSQL, on a server.
    Postgres,
}

/// Where a store is.
#[derive(Clone)]
pub enum Location {
    /// A SQLite database in this file. The file is created with mode 0600, its folder with mode 0700.
    File(PathBuf),
    /// A PostgreSQL database, as a URL: `postgres://user:password@host/database`.
    Postgres(String),
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            // The URL may hold a password.
            Self::Postgres(_) => f.write_str("Postgres(…)"),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            // The URL may hold a password.
            Self::Postgres(_) => f.write_str("in PostgreSQL"),
        }
    }
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it is.
    pub location: Location,
    /// The maximum number of connections.
    pub connections: u32,
    /// The maximum duration of one statement, and of the wait for a connection.
    pub statement_timeout: Duration,
    /// The maximum wait for a lock that another writer holds.
    pub lock_timeout: Duration,
    /// The maximum size of a SQLite database in bytes; beyond it, writes fail with [`Error::Full`].
    pub max_bytes: Option<u64>,
}

impl Settings {
    /// Returns the default settings for a location.
    #[must_use]
    pub fn new(location: Location) -> Self {
        Self {
            location,
            connections: 8,
            statement_timeout: Duration::from_secs(20),
            lock_timeout: Duration::from_secs(5),
            max_bytes: None,
        }
    }
}

/// The page size of a SQLite database in bytes, its default.
const PAGE_BYTES: u64 = 4096;

/// An open store. Clones share its connections.
#[derive(Clone)]
pub struct Store {
    pool: AnyPool,
    dialect: Dialect,
    settings: Arc<Settings>,
    /// SQLite has one writer at a time and lets others poll for the lock, which is unfair. Within a process, writers
    /// wait here, first come first served.
    writer: Arc<Mutex<()>>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a store, creates it if necessary, and migrates it to the newest schema.
    ///
    /// # Errors
    /// If it cannot be reached or created, or is newer than this program.
    pub async fn open(settings: Settings) -> Result<Self, Error> {
        let store = Self::connect(settings).await?;
        migrations::up(&store).await?;
        Ok(store)
    }

    /// Opens a store and leaves its schema as it is.
    async fn connect(settings: Settings) -> Result<Self, Error> {
        sqlx::any::install_default_drivers();
        let (url, dialect) = match &settings.location {
            Location::File(path) => (file_url(&prepare_file(path)?), Dialect::Sqlite),
            Location::Postgres(url) => (url.clone(), Dialect::Postgres),
        };
        let first: Arc<str> = first_statements(dialect, &settings).into();
        let pool = AnyPoolOptions::new()
            .max_connections(settings.connections)
            .acquire_timeout(settings.statement_timeout)
            .after_connect(move |connection, _| {
                let first = Arc::clone(&first);
                async move { sqlx::raw_sql(AssertSqlSafe(first)).execute(connection).await.map(drop) }.boxed()
            })
            .after_release(|connection, _| is_reusable(connection).boxed())
            .connect(&url)
            .await?;
        Ok(Self { pool, dialect, settings: Arc::new(settings), writer: Arc::default() })
    }

    /// Closes all connections. Writes that returned are durable without it.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Which database it is in.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Reverts the migrations above this version, newest first; 0 leaves an empty database.
    ///
    /// # Errors
    /// If the database fails; the schema is then unchanged.
    pub async fn migrate_down(&self, to: i64) -> Result<(), Error> {
        migrations::down(self, to).await
    }

    /// Applies all missing migrations, as [`Store::open`] does.
    ///
    /// # Errors
    /// If the database fails; the schema is then unchanged.
    pub async fn migrate_up(&self) -> Result<(), Error> {
        migrations::up(self).await
    }

    /// Returns the database's time. Several replicas compare times only with this clock, so skew between them does no
    /// harm.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn now(&self) -> Result<Timestamp, Error> {
        let sql = match self.dialect {
            Dialect::Sqlite => "SELECT CAST(unixepoch('subsec') * 1000000 AS BIGINT)",
            Dialect::Postgres => "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
        };
        match self.row(sqlx::query(sql)).await? {
            Some(row) => time(row.try_get(0)?),
            None => Err(Error::Damaged("the database does not know the time".to_owned())),
        }
    }

    /// Begins a transaction that writes. Dropping it rolls it back.
    pub(crate) async fn write(&self) -> Result<Write, Error> {
        self.begin().instrument(span("BEGIN", self.dialect)).await
    }

    async fn begin(&self) -> Result<Write, Error> {
        let turn = match self.dialect {
            Dialect::Sqlite => {
                let turn = timeout(self.settings.lock_timeout, Arc::clone(&self.writer).lock_owned()).await;
                Some(turn.map_err(|_| Error::Locked)?)
            }
            Dialect::Postgres => None,
        };
        let begin = match self.dialect {
            // A transaction that takes the lock only at its first write cannot wait for it: what it read is then old.
            Dialect::Sqlite => "BEGIN IMMEDIATE",
            Dialect::Postgres => "BEGIN",
        };
        Ok(Write { transaction: self.pool.begin_with(begin).await?, _turn: turn, dialect: self.dialect })
    }

    /// Begins a transaction whose reads all see the same state.
    pub(crate) async fn snapshot(&self) -> Result<Transaction<'static, Any>, Error> {
        let begin = match self.dialect {
            Dialect::Sqlite => "BEGIN",
            Dialect::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        };
        Ok(self.pool.begin_with(begin).await?)
    }

    /// Returns all rows of a query.
    pub(crate) async fn rows(&self, query: Query<'_, Any, AnyArguments>) -> Result<Vec<AnyRow>, Error> {
        timeout(self.settings.statement_timeout, query.fetch_all(&self.pool))
            .instrument(span("query", self.dialect))
            .await
            .map_err(|_| Error::Timeout)?
            .map_err(Error::from)
    }

    /// Returns the only row of a query, if any.
    pub(crate) async fn row(&self, query: Query<'_, Any, AnyArguments>) -> Result<Option<AnyRow>, Error> {
        timeout(self.settings.statement_timeout, query.fetch_optional(&self.pool))
            .instrument(span("query", self.dialect))
            .await
            .map_err(|_| Error::Timeout)?
            .map_err(Error::from)
    }

    /// Runs one statement that writes, as a transaction of its own. Returns the number of rows.
    pub(crate) async fn execute(&self, query: Query<'_, Any, AnyArguments>) -> Result<u64, Error> {
        let mut write = self.write().await?;
        let done = query.execute(&mut *write).await?;
        write.commit().await?;
        Ok(done.rows_affected())
    }
}

/// A transaction that writes. Dropping it rolls it back.
pub(crate) struct Write {
    // First, so that it is dropped before the next writer may begin.
    transaction: Transaction<'static, Any>,
    dialect: Dialect,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Write {
    /// Makes it durable.
    pub(crate) async fn commit(self) -> Result<(), Error> {
        Ok(self.transaction.commit().instrument(span("COMMIT", self.dialect)).await?)
    }
}

impl Deref for Write {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        &self.transaction
    }
}

impl DerefMut for Write {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.transaction
    }
}

/// Returns the span of an operation on the database, for traces. It has neither the statement nor its values.
fn span(operation: &'static str, dialect: Dialect) -> Span {
    let system = match dialect {
        Dialect::Sqlite => "sqlite",
        Dialect::Postgres => "postgresql",
    };
    tracing::debug_span!("store", otel.name = operation, otel.kind = "client", db.system.name = system)
}

/// Whether the next user of a connection may begin a transaction on it. A full or failing disk makes SQLite roll back by
/// itself, and the rollback that follows then fails: the connection counts as in a transaction forever and refuses the next
/// one. Such a connection is closed.
async fn is_reusable(connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    // A rollback that was only queued is carried out before this returns.
    connection.ping().await?;
    Ok(!connection.is_in_transaction())
}

/// Returns the statements that each new connection begins with.
fn first_statements(dialect: Dialect, settings: &Settings) -> String {
    let statement = settings.statement_timeout.as_millis();
    let lock = settings.lock_timeout.as_millis();
    match dialect {
        Dialect::Sqlite => {
            // WAL with FULL syncs the log at each commit: what was acknowledged survives a power cut. A container may have
            // no place for temporary files.
            let mut text = format!(
                "PRAGMA busy_timeout = {lock}; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                 PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;"
            );
            if let Some(bytes) = settings.max_bytes {
                text.push_str(&format!(" PRAGMA max_page_count = {};", (bytes / PAGE_BYTES).max(1)));
            }
            text
        }
        Dialect::Postgres => format!(
            "SET statement_timeout = {statement}; SET lock_timeout = {lock}; \
             SET idle_in_transaction_session_timeout = 60000; SET synchronous_commit = on;"
        ),
    }
}

/// Creates the folder and the file of a SQLite database, readable by their owner only. SQLite gives its log and its
/// index the mode of the file.
fn prepare_file(path: &Path) -> Result<PathBuf, Error> {
    let failed = |error: std::io::Error| {
        let text = format!("{}: {error}", path.display());
        match error.kind() {
            std::io::ErrorKind::StorageFull => Error::Full(text),
            _ => Error::Unavailable(text),
        }
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    }
    let file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path).map_err(failed)?;
    // It may exist from elsewhere, with a wider mode.
    file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    std::path::absolute(path).map_err(failed)
}

/// Returns the URL of an absolute path, with everything but plain characters escaped.
fn file_url(path: &Path) -> String {
    let mut url = String::from("sqlite://");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                url.push(char::from(*byte))
            }
            other => url.push_str(&format!("%{other:02X}")),
        }
    }
    url.push_str("?mode=rw");
    url
}

/// A place in a list that is ordered by time, newest first. As text: the time in microseconds, a dot, an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    micros: i64,
    id: String,
}

impl Cursor {
    pub(crate) fn new(at: Timestamp, id: &str) -> Self {
        Self { micros: micros(at), id: id.to_owned() }
    }

    pub(crate) fn micros(&self) -> i64 {
        self.micros
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.micros, self.id)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = || Error::Invalid("the continue token is not valid".to_owned());
        let (micros, id) = text.split_once('.').ok_or_else(invalid)?;
        let micros = micros.parse().map_err(|_| invalid())?;
        time(micros).map_err(|_| invalid())?;
        Ok(Self { micros, id: id.to_owned() })
    }
}

/// Returns a stored time.
pub(crate) fn time(microseconds: i64) -> Result<Timestamp, Error> {
    Timestamp::from_microsecond(microseconds).map_err(|error| Error::damaged("a time", error))
}

/// Returns a stored time that may be absent.
pub(crate) fn optional_time(microseconds: Option<i64>) -> Result<Option<Timestamp>, Error> {
    microseconds.map(time).transpose()
}

/// Returns how a time is stored.
pub(crate) fn micros(time: Timestamp) -> i64 {
    time.as_microsecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_as_text_and_garbage_is_refused() {
        let cursor = Cursor::new(Timestamp::UNIX_EPOCH, "a.b");
        assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
        for bad in ["", "x", "x.y", "99999999999999999999.y", "9223372036854775807.y"] {
            assert!(bad.parse::<Cursor>().is_err(), "{bad}");
        }
    }
}
