//! Removes lines from the beginning of the audit log, and records that.

use jiff::{SignedDuration, Timestamp};
use sqlx::Row as _;

use super::{Actor, Anchor, Channel, Entry, Stage, append_one, lock_head, set_head};
use crate::error::Error;
use crate::store::{Store, micros};

/// The verb of the line that records a truncation.
const TRUNCATE: &str = "truncate";
/// The resource of that line.
const AUDIT_LOG: &str = "auditlog";

/// Returns what a line says was truncated, if it records a truncation.
pub(super) fn truncation(entry: &str) -> Option<Anchor> {
    let entry: Entry = serde_json::from_str(entry).ok()?;
    match entry.verb == TRUNCATE && entry.resource == AUDIT_LOG {
        true => serde_json::from_str(entry.reason.as_deref()?).ok(),
        false => None,
    }
}

/// Removes the lines up to an exported one, after recording this as a line of the chain.
///
/// The closing hash shows that the caller has exported these lines; the caller has made the export durable.
///
/// # Errors
/// If the anchor is not that of a present line, or the store fails. Nothing is then removed.
pub async fn truncate(
    store: &Store,
    closing: &Anchor,
    who: &Actor,
    at: Timestamp,
    request: &str,
) -> Result<(), Error> {
    let mut write = store.write().await?;
    let mut head = lock_head(&mut write).await?;
    let row = sqlx::query("SELECT hash FROM audit WHERE seq = $1")
        .bind(closing.seq)
        .fetch_optional(&mut *write)
        .await?;
    let found: Option<String> = row.map(|row| row.try_get(0)).transpose()?;
    if found.as_ref() != Some(&closing.hash) {
        return Err(Error::Invalid(format!(
            "{} is not the hash of audit line {}",
            closing.hash, closing.seq
        )));
    }
    let seal = serde_json::to_string(closing).map_err(|error| Error::damaged("a seal", error))?;
    let entry = Entry {
        at,
        who: who.clone(),
        verb: TRUNCATE.to_owned(),
        resource: AUDIT_LOG.to_owned(),
        namespace: None,
        job: None,
        channel: Channel::Service,
        address: None,
        program: None,
        request: request.to_owned(),
        stage: Stage::ResponseComplete,
        status: None,
        reason: Some(seal),
        review: None,
    };
    append_one(&mut write, &mut head, &entry).await?;
    set_head(&mut write, &head).await?;
    sqlx::query("INSERT INTO audit_seals (through, hash, at) VALUES ($1, $2, $3)")
        .bind(closing.seq)
        .bind(&closing.hash)
        .bind(micros(at))
        .execute(&mut *write)
        .await?;
    sqlx::query("DELETE FROM audit WHERE seq <= $1").bind(closing.seq).execute(&mut *write).await?;
    write.commit().await
}

/// How much older than asked for the oldest line becomes before lines are removed, so that a day has one removal at most.
const SPARE: SignedDuration = SignedDuration::from_hours(24);

/// Removes the lines from before a time as [`truncate`] does, though nobody may have exported them: what is kept for ever fills
/// any disk. Returns whether there were any.
///
/// # Errors
/// If the store fails. Nothing is then removed.
pub async fn forget(store: &Store, before: Timestamp) -> Result<bool, Error> {
    let oldest = store.row(sqlx::query("SELECT at FROM audit ORDER BY seq LIMIT 1")).await?;
    let due = micros(before.checked_sub(SPARE).unwrap_or(Timestamp::MIN));
    match oldest {
        Some(row) if row.try_get::<i64, _>(0)? < due => {}
        _ => return Ok(false),
    }
    let query = sqlx::query("SELECT seq, hash FROM audit WHERE at < $1 ORDER BY seq DESC LIMIT 1");
    let Some(last) = store.row(query.bind(micros(before))).await? else { return Ok(false) };
    let closing = Anchor { seq: last.try_get(0)?, hash: last.try_get(1)? };
    let who = Actor { name: "system:training-service".to_owned(), groups: Vec::new() };
    truncate(store, &closing, &who, store.now().await?, "retention").await?;
    Ok(true)
}
