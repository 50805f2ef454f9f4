//! Keeps the archive in order: retention, chunks that no row names, chunks that were torn.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::TryStreamExt as _;
use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::read::source_in;
use super::{Archive, Source, codec, put, size};
use crate::error::Error;
use crate::store::micros;

/// What is kept.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Keep lines that are not older than this.
    pub after: Timestamp,
    /// Keep at most this many bytes, compressed, the newest.
    pub bytes: u64,
}

/// The number of parts that one transaction removes.
const REMOVED_AT_ONCE: i64 = 200;
/// How long a chunk may exist before its row does, and a staged file before it becomes a chunk.
pub const GRACE: Duration = Duration::from_secs(3600);

/// Removes parts beyond the retention, the oldest first, some hundred in one call. Returns their number; 0 when all is
/// done.
///
/// # Errors
/// If the store or the object store fails. A chunk that is left over is removed by [`sweep`].
pub async fn prune(archive: &Archive, retention: &Retention) -> Result<usize, Error> {
    let total = sqlx::query("SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM log_parts");
    let total: i64 = archive.store.row(total).await?.map(|row| row.try_get(0)).transpose()?.unwrap_or(0);
    let mut excess = total.saturating_sub(i64::try_from(retention.bytes).unwrap_or(i64::MAX));
    let oldest = sqlx::query(
        "SELECT uid, attempt, source, first_line, last, bytes, object FROM log_parts ORDER BY last, uid, source LIMIT $1",
    );
    let mut removed = Vec::new();
    for row in archive.store.rows(oldest.bind(REMOVED_AT_ONCE)).await? {
        if excess <= 0 && row.try_get::<i64, _>("last")? >= micros(retention.after) {
            break;
        }
        excess -= row.try_get::<i64, _>("bytes")?;
        removed.push(row);
    }
    if removed.is_empty() {
        return Ok(0);
    }
    let mut write = archive.store.write().await?;
    for row in &removed {
        let Source { uid, attempt, container } = source_in(row)?;
        sqlx::query(
            "DELETE FROM log_parts WHERE uid = $1 AND attempt = $2 AND source = $3 AND first_line = $4 AND last = $5",
        )
        .bind(uid)
        .bind(i64::from(attempt))
        .bind(container)
        .bind(row.try_get::<i64, _>("first_line")?)
        .bind(row.try_get::<i64, _>("last")?)
        .execute(&mut *write)
        .await?;
    }
    // A source that may still be followed keeps its row, and with it the number of its next line.
    sqlx::query(
        "DELETE FROM log_sources WHERE last < $1 AND NOT EXISTS (SELECT 1 FROM log_parts p \
         WHERE p.uid = log_sources.uid AND p.attempt = log_sources.attempt AND p.source = log_sources.source)",
    )
    .bind(micros(retention.after))
    .execute(&mut *write)
    .await?;
    write.commit().await?;
    for row in &removed {
        if let Some(object) = row.try_get::<Option<String>, _>("object")? {
            archive.delete(&object).await?;
        }
    }
    Ok(removed.len())
}

/// Removes chunks that no row names and that were written before a time, which is [`GRACE`] ago or earlier. Returns
/// their number.
///
/// # Errors
/// If the store or the object store fails.
pub async fn sweep(archive: &Archive, written_before: Timestamp) -> Result<usize, Error> {
    let mut listed = archive.list();
    let mut removed = 0;
    while let Some(found) = listed.try_next().await? {
        if found.last_modified.timestamp() >= written_before.as_second() {
            continue;
        }
        let query = sqlx::query("SELECT first_line FROM log_parts WHERE object = $1");
        if archive.store.row(query.bind(found.location.to_string())).await?.is_none() {
            archive.delete(found.location.as_ref()).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// What [`repair`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// The number of chunks that were read.
    pub chunks: usize,
    /// The number of those that were cut to what is readable.
    pub truncated: usize,
    /// The number of lines that this lost.
    pub lost_lines: i64,
}

/// Reads all chunks, and cuts those that are not what was written to the whole gzip members at their beginning.
///
/// # Errors
/// If the store or the object store fails.
pub async fn repair(archive: &Archive) -> Result<Repaired, Error> {
    let mut repaired = Repaired::default();
    let mut after = String::new();
    loop {
        let query = sqlx::query(
            "SELECT uid, attempt, source, first_line, lines, first, object, digest FROM log_parts \
             WHERE object > $1 ORDER BY object LIMIT 100",
        );
        let rows = archive.store.rows(query.bind(after.as_str())).await?;
        for row in &rows {
            repaired.chunks += 1;
            if let Some(lost) = repair_one(archive, row).await? {
                repaired.truncated += 1;
                repaired.lost_lines += lost;
            }
        }
        let Some(last) = rows.last() else { return Ok(repaired) };
        after = last.try_get("object")?;
    }
}

/// Repairs one chunk if necessary, and returns the number of lines that are lost.
async fn repair_one(archive: &Archive, row: &AnyRow) -> Result<Option<i64>, Error> {
    let object: String = row.try_get("object")?;
    let data = archive.get(&object).await?.unwrap_or_default();
    if codec::digest(&data) == row.try_get::<String, _>("digest")? {
        return Ok(None);
    }
    let whole = Bytes::copy_from_slice(codec::whole_members(&data));
    let (lines, first): (i64, i64) = (row.try_get("lines")?, row.try_get("first")?);
    let measured = codec::measure(&whole)?;
    let Source { uid, attempt, container } = source_in(row)?;
    let first_line: i64 = row.try_get("first_line")?;
    let query = match measured {
        Some((kept, last)) => sqlx::query(
            "UPDATE log_parts SET lines = $5, last = $6, bytes = $7, object = $8, digest = $9 \
             WHERE uid = $1 AND attempt = $2 AND source = $3 AND object = $4",
        )
        .bind(uid)
        .bind(i64::from(attempt))
        .bind(container)
        .bind(&object)
        .bind(kept)
        .bind(last.max(first))
        .bind(size(&whole))
        .bind(put(archive, &whole).await?)
        .bind(codec::digest(&whole)),
        None => sqlx::query("DELETE FROM log_parts WHERE object = $1").bind(&object),
    };
    archive.store.execute(query).await?;
    archive.delete(&object).await?;
    let lost = lines - measured.map_or(0, |(kept, _)| kept);
    tracing::warn!(object, first_line, lost, "a log chunk was torn and has been truncated");
    Ok(Some(lost))
}

/// Removes the temporary files that a killed process left: the object store's names for them end in `#` and a number,
/// and it lists none of them.
pub(super) fn remove_staged(folder: &Path) -> Result<(), io::Error> {
    for shard in fs::read_dir(folder)? {
        let shard = shard?;
        if !shard.file_type()?.is_dir() {
            continue;
        }
        for file in fs::read_dir(shard.path())? {
            let file = file?;
            let is_staged = file.file_name().to_str().is_some_and(|name| {
                name.rsplit_once('#').is_some_and(|(_, number)| number.bytes().all(|b| b.is_ascii_digit()))
            });
            let age = SystemTime::now().duration_since(file.metadata()?.modified()?);
            if is_staged && age.is_ok_and(|age| age >= GRACE) {
                fs::remove_file(file.path())?;
            }
        }
    }
    Ok(())
}
