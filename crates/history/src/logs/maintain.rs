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

/// Removes parts beyond the retention, some hundred in one call: first those that are too old. Where the bytes are too
/// many, only a namespace with more than its equal share of them loses parts, its oldest. Returns their number; 0 when
/// all is done.
///
/// # Errors
/// If the store or the object store fails. A chunk that is left over is removed by [`sweep`].
pub async fn prune(archive: &Archive, retention: &Retention) -> Result<usize, Error> {
    let mut removed = outdated(archive, retention.after).await?;
    if removed.is_empty() {
        removed = beyond_share(archive, retention.bytes).await?;
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

/// Returns the oldest parts of those that end before a time.
async fn outdated(archive: &Archive, after: Timestamp) -> Result<Vec<AnyRow>, Error> {
    let query = sqlx::query(
        "SELECT uid, attempt, source, first_line, last, bytes, object FROM log_parts WHERE last < $1 \
         ORDER BY last, uid, source LIMIT $2",
    );
    archive.store.rows(query.bind(micros(after)).bind(REMOVED_AT_ONCE)).await
}

/// Returns the oldest parts of the namespace that holds most, as far as that is beyond its share of `most` bytes; none if
/// all namespaces together hold no more. Jobs that are not recorded yet count as one namespace.
async fn beyond_share(archive: &Archive, most: u64) -> Result<Vec<AnyRow>, Error> {
    let sums = sqlx::query(
        "SELECT COALESCE(j.namespace, '') AS namespace, CAST(SUM(p.bytes) AS BIGINT) AS held \
         FROM log_parts p LEFT JOIN jobs j ON j.uid = p.uid GROUP BY COALESCE(j.namespace, '')",
    );
    let mut holders: Vec<(i64, String)> = Vec::new();
    for row in archive.store.rows(sums).await? {
        holders.push((row.try_get("held")?, row.try_get("namespace")?));
    }
    holders.sort();
    let held: Vec<i64> = holders.iter().map(|(held, _)| *held).collect();
    let share = equal_share(&held, i64::try_from(most).unwrap_or(i64::MAX));
    let (Some(share), Some((richest, namespace))) = (share, holders.pop()) else { return Ok(Vec::new()) };
    let total: i64 = held.iter().sum();
    let mut excess = (richest - share).min(total.saturating_sub(i64::try_from(most).unwrap_or(i64::MAX)));
    let oldest = sqlx::query(
        "SELECT p.uid AS uid, p.attempt AS attempt, p.source AS source, p.first_line AS first_line, \
         p.last AS last, p.bytes AS bytes, p.object AS object \
         FROM log_parts p LEFT JOIN jobs j ON j.uid = p.uid WHERE COALESCE(j.namespace, '') = $1 \
         ORDER BY p.last, p.uid, p.source LIMIT $2",
    );
    let mut beyond = Vec::new();
    for row in archive.store.rows(oldest.bind(namespace).bind(REMOVED_AT_ONCE)).await? {
        if excess <= 0 {
            break;
        }
        excess -= row.try_get::<i64, _>("bytes")?;
        beyond.push(row);
    }
    Ok(beyond)
}

/// Returns how much each holder may keep so that all together keep at most this much, and nobody loses anything while
/// another one keeps more (max-min fairness); `None` if all may keep what they hold. The least is first.
fn equal_share(held: &[i64], most: i64) -> Option<i64> {
    let mut left = most;
    for (held, count) in held.iter().zip((1..=held.len()).rev()) {
        let share = left / i64::try_from(count).unwrap_or(i64::MAX);
        if *held > share {
            return Some(share);
        }
        left -= held;
    }
    None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_holders_of_more_than_an_equal_share_lose_something() {
        assert_eq!(equal_share(&[], 10), None);
        assert_eq!(equal_share(&[1, 2, 7], 10), None);
        assert_eq!(equal_share(&[11], 10), Some(10));
        assert_eq!(equal_share(&[1, 2, 90], 10), Some(7));
        assert_eq!(equal_share(&[1, 50, 90], 11), Some(5));
        assert_eq!(equal_share(&[3, 3, 3], 0), Some(0));
    }
}
