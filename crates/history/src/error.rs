//! What can go wrong in a store, in terms that the caller can act on.
//!
//! Each error means that the operation did not happen: a transaction commits as a whole or not at all.

use std::fmt::Display;
use std::sync::Arc;

/// An operation on the store failed. Nothing of it was stored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The disk, the quota or the configured maximum size is exhausted.
    #[error("the store is full: {0}")]
    Full(String),
    /// Another writer held the lock for longer than [`crate::store::Settings::lock_timeout`], or has just removed what
    /// this operation builds on.
    #[error("the store is locked by another writer")]
    Locked,
    /// The operation took longer than [`crate::store::Settings::statement_timeout`], or no connection became free.
    #[error("the store did not answer in time")]
    Timeout,
    /// The database or the object store cannot be reached.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The bucket of the log archive fails. What was acknowledged stays in the database until the bucket works.
    #[error("the object storage for logs {fault}: {detail}")]
    Bucket {
        /// What is wrong with it.
        fault: BucketFault,
        /// What it answered.
        detail: String,
    },
    /// Stored data cannot be read back.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// A later release has migrated the store.
    #[error("the store {place} has schema version {found}; this release knows up to {known}")]
    TooNew {
        /// The file of the store, or that it is in PostgreSQL.
        place: String,
        /// The schema version of the store.
        found: i64,
        /// The newest schema version that this release knows.
        known: i64,
    },
    /// The caller's input is not acceptable.
    #[error("{0}")]
    Invalid(String),
    /// Anything else that the database reports.
    #[error("the database reports: {0}")]
    Database(#[source] Arc<sqlx::Error>),
}

/// What is wrong with a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketFault {
    /// It cannot be reached, or it is too slow.
    Away,
    /// Its disks or a quota are exhausted.
    Full,
    /// The credentials are missing or wrong, or they do not permit the request.
    Refused,
    /// There is no such bucket.
    Missing,
}

impl Display for BucketFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Away => "does not answer, or not in time",
            Self::Full => "is full",
            Self::Refused => "refuses access",
            Self::Missing => "has no such bucket",
        })
    }
}

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Try again later.
    Retry,
    /// An administrator must act: free space, upgrade, repair.
    Administrator,
    /// The input is wrong.
    Input,
}

impl Error {
    /// Returns what the caller can do about it.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Locked
            | Self::Timeout
            | Self::Unavailable(_)
            | Self::Bucket { fault: BucketFault::Away, .. } => Class::Retry,
            Self::Bucket { .. }
            | Self::Full(_)
            | Self::Damaged(_)
            | Self::TooNew { .. }
            | Self::Database(_) => Class::Administrator,
            Self::Invalid(_) => Class::Input,
        }
    }

    /// An error for stored data that does not parse.
    pub(crate) fn damaged(what: &str, error: impl Display) -> Self {
        Self::Damaged(format!("{what}: {error}"))
    }
}

/// SQLite's primary result codes (<https://www.sqlite.org/rescode.html>).
mod sqlite {
    pub const BUSY: i64 = 5;
    pub const LOCKED: i64 = 6;
    pub const INTERRUPT: i64 = 9;
    pub const IO: i64 = 10;
    pub const CORRUPT: i64 = 11;
    pub const FULL: i64 = 13;
    pub const CANNOT_OPEN: i64 = 14;
    pub const NOT_A_DATABASE: i64 = 26;
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::PoolTimedOut => Self::Timeout,
            sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => Self::Unavailable(error.to_string()),
            sqlx::Error::Io(io) if io.kind() == std::io::ErrorKind::StorageFull => Self::Full(io.to_string()),
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) => Self::Unavailable(error.to_string()),
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Self::Damaged(error.to_string()),
            sqlx::Error::Database(reported) => {
                let code = reported.code().unwrap_or_default().into_owned();
                let message = reported.message().to_owned();
                of_code(&code, message).unwrap_or_else(|| Self::Database(Arc::new(error)))
            }
            _ => Self::Database(Arc::new(error)),
        }
    }
}

/// Classifies the code of a database: a number in SQLite, five characters (SQLSTATE) in PostgreSQL.
fn of_code(code: &str, message: String) -> Option<Error> {
    match code {
        "53100" | "53200" => return Some(Error::Full(message)),
        "55P03" | "40P01" | "40001" | "23503" => return Some(Error::Locked),
        "57014" => return Some(Error::Timeout),
        "XX001" | "XX002" => return Some(Error::Damaged(message)),
        _ if code.len() == 5 && ["08", "53", "57P"].iter().any(|class| code.starts_with(class)) => {
            return Some(Error::Unavailable(message));
        }
        _ if code.len() == 5 => return None,
        _ => {}
    }
    match code.parse::<i64>().ok()? & 0xff {
        sqlite::BUSY | sqlite::LOCKED => Some(Error::Locked),
        sqlite::INTERRUPT => Some(Error::Timeout),
        sqlite::FULL => Some(Error::Full(message)),
        sqlite::CORRUPT | sqlite::NOT_A_DATABASE => Some(Error::Damaged(message)),
        sqlite::IO | sqlite::CANNOT_OPEN => Some(Error::Unavailable(message)),
        _ => None,
    }
}

impl From<object_store::Error> for Error {
    fn from(error: object_store::Error) -> Self {
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(at) = source {
            let io = at.downcast_ref::<std::io::Error>();
            if io.is_some_and(|io| io.kind() == std::io::ErrorKind::StorageFull) {
                return Self::Full(error.to_string());
            }
            source = at.source();
        }
        match error {
            object_store::Error::NotFound { path, .. } => Self::Damaged(format!("object {path} is missing")),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_both_databases_become_errors_that_a_caller_can_act_on() {
        let class = |code: &str| of_code(code, String::new()).map(|error| error.class());
        assert!(matches!(of_code("13", String::new()), Some(Error::Full(_))));
        assert!(matches!(of_code("53100", String::new()), Some(Error::Full(_))));
        assert!(matches!(of_code("517", String::new()), Some(Error::Locked)), "SQLITE_BUSY_SNAPSHOT");
        assert!(matches!(of_code("55P03", String::new()), Some(Error::Locked)));
        assert!(matches!(of_code("57014", String::new()), Some(Error::Timeout)));
        assert_eq!(class("57P03"), Some(Class::Retry), "PostgreSQL is starting up");
        assert_eq!(class("23505"), None);
        assert_eq!(class("1"), None);
    }
}
