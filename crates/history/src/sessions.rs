//! Sessions of browsers, and the one-time addresses that begin them: the same for all replicas of a service, and still there
//! after a restart.
//!
//! What is stored cannot be used by itself. A row is found by the digest of a secret that is not stored, and what it stands
//! for is sealed with a key that follows from that secret.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use crate::error::Error;
use crate::store::{Store, micros, time};

/// What a secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It is the cookie of a session.
    Session,
    /// It is part of an address that begins a session, once.
    Ticket,
}

impl Purpose {
    /// Returns its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Ticket => "ticket",
        }
    }
}

/// What is stored for a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The digest of the secret, as text.
    pub id: String,
    /// The user.
    pub user: String,
    /// By which share the user's rows are counted.
    pub share: String,
    /// When it ends.
    pub ends: Timestamp,
    /// What it stands for, sealed.
    pub sealed: Vec<u8>,
}

/// How many rows of a purpose there are at most.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// In total.
    pub all: usize,
    /// Of one share.
    pub of_share: usize,
}

const COLUMNS: &str = "id, user_name, share, ends, sealed";

/// Stores a row. What has ended by `now` is removed, and of the others as many of the oldest as have no room beside it.
///
/// # Errors
/// If the store fails.
pub async fn put(
    store: &Store,
    purpose: Purpose,
    row: &Sealed,
    most: Most,
    now: Timestamp,
) -> Result<(), Error> {
    let mut write = store.write().await?;
    sqlx::query("DELETE FROM browser_sessions WHERE ends <= $1")
        .bind(micros(now))
        .execute(&mut *write)
        .await?;
    // Rows of a purpose last equally long: the oldest end first.
    sqlx::query(
        "DELETE FROM browser_sessions WHERE purpose = $1 AND id IN (SELECT id FROM browser_sessions \
         WHERE purpose = $1 AND share = $2 ORDER BY ends DESC, id LIMIT $3 OFFSET $4)",
    )
    .bind(purpose.word())
    .bind(&row.share)
    .bind(i64::MAX)
    .bind(room_beside(most.of_share))
    .execute(&mut *write)
    .await?;
    sqlx::query(
        "DELETE FROM browser_sessions WHERE purpose = $1 AND id IN (SELECT id FROM browser_sessions \
         WHERE purpose = $1 ORDER BY ends DESC, id LIMIT $2 OFFSET $3)",
    )
    .bind(purpose.word())
    .bind(i64::MAX)
    .bind(room_beside(most.all))
    .execute(&mut *write)
    .await?;
    sqlx::query(
        "INSERT INTO browser_sessions (purpose, id, user_name, share, ends, sealed) VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(purpose.word())
    .bind(&row.id)
    .bind(&row.user)
    .bind(&row.share)
    .bind(micros(row.ends))
    .bind(row.sealed.clone())
    .execute(&mut *write)
    .await?;
    write.commit().await
}

/// Returns how many rows may be there before one more is stored.
fn room_beside(most: usize) -> i64 {
    i64::try_from(most.saturating_sub(1)).unwrap_or(i64::MAX)
}

/// Returns the row with this id, unless it has ended.
///
/// # Errors
/// If the store fails.
pub async fn get(store: &Store, purpose: Purpose, id: &str, now: Timestamp) -> Result<Option<Sealed>, Error> {
    let query =
        format!("SELECT {COLUMNS} FROM browser_sessions WHERE purpose = $1 AND id = $2 AND ends > $3");
    let query = sqlx::query(sqlx::AssertSqlSafe(query)).bind(purpose.word()).bind(id).bind(micros(now));
    store.row(query).await?.as_ref().map(sealed_of).transpose()
}

/// Removes the row with this id, and returns it unless it has ended. Of several that do so at once, one gets it.
///
/// # Errors
/// If the store fails; the row may then still be there.
pub async fn take(
    store: &Store,
    purpose: Purpose,
    id: &str,
    now: Timestamp,
) -> Result<Option<Sealed>, Error> {
    let query = format!("DELETE FROM browser_sessions WHERE purpose = $1 AND id = $2 RETURNING {COLUMNS}");
    let query = sqlx::query(sqlx::AssertSqlSafe(query)).bind(purpose.word()).bind(id);
    let mut write = store.write().await?;
    let row = query.fetch_optional(&mut *write).await?;
    write.commit().await?;
    let taken = row.as_ref().map(sealed_of).transpose()?;
    Ok(taken.filter(|row| row.ends > now))
}

/// Returns the ids of all rows of a purpose that have not ended.
///
/// # Errors
/// If the store fails.
pub async fn present(store: &Store, purpose: Purpose, now: Timestamp) -> Result<BTreeSet<String>, Error> {
    let query = sqlx::query("SELECT id FROM browser_sessions WHERE purpose = $1 AND ends > $2");
    let rows = store.rows(query.bind(purpose.word()).bind(micros(now))).await?;
    rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// Removes what has ended by `now`.
///
/// # Errors
/// If the store fails.
pub async fn prune(store: &Store, now: Timestamp) -> Result<(), Error> {
    let query = sqlx::query("DELETE FROM browser_sessions WHERE ends <= $1");
    store.execute(query.bind(micros(now))).await.map(drop)
}

fn sealed_of(row: &AnyRow) -> Result<Sealed, Error> {
    Ok(Sealed {
        id: row.try_get("id")?,
        user: row.try_get("user_name")?,
        share: row.try_get("share")?,
        ends: time(row.try_get("ends")?)?,
        sealed: row.try_get::<Vec<u8>, _>("sealed")?,
    })
}
