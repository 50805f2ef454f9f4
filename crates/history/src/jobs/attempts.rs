//! The attempts to run a job.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::MAX_PAGE;
use crate::error::Error;
use crate::store::{Store, micros, optional_time};

/// The maximum size of an attempt's last lines in bytes.
pub const MAX_LAST_LINES_BYTES: usize = 64 << 10;

/// One attempt to run a job, and how it ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attempt {
    /// Its number, as the job counts.
    pub number: u32,
    /// When it started.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub finished: Option<Timestamp>,
    /// How it ended.
    pub phase: Option<String>,
    /// The Worker that failed first.
    pub worker: Option<String>,
    /// The exit code.
    pub exit_code: Option<i64>,
    /// The cause.
    pub cause: Option<String>,
    /// The message for people.
    pub message: Option<String>,
    /// What the cause rests on.
    pub evidence: Option<Value>,
    /// The last lines of the output. Only the last [`MAX_LAST_LINES_BYTES`] are kept.
    pub last_lines: Option<String>,
}

/// Stores an attempt of a recorded job. What an earlier report knew, and this one does not, is kept.
///
/// # Errors
/// If the job was never recorded, or the store fails.
pub async fn record_attempt(store: &Store, uid: &str, attempt: &Attempt) -> Result<(), Error> {
    let Attempt { number, started, finished, phase, worker, exit_code, cause, message, evidence, last_lines } =
        attempt;
    let mut write = store.write().await?;
    let known =
        sqlx::query("SELECT uid FROM jobs WHERE uid = $1").bind(uid).fetch_optional(&mut *write).await?;
    if known.is_none() {
        return Err(Error::Invalid(format!("job {uid} is unknown")));
    }
    // PostgreSQL's texts hold no NUL. JSON escapes it.
    let plain = |text: &Option<String>| text.as_ref().map(|text| text.replace('\0', "\u{fffd}"));
    sqlx::query(
        "INSERT INTO job_attempts \
         (uid, number, started, finished, phase, worker, exit_code, cause, message, evidence, last_lines) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (uid, number) DO UPDATE SET \
         started = COALESCE(excluded.started, job_attempts.started), \
         finished = COALESCE(excluded.finished, job_attempts.finished), \
         phase = COALESCE(excluded.phase, job_attempts.phase), \
         worker = COALESCE(excluded.worker, job_attempts.worker), \
         exit_code = COALESCE(excluded.exit_code, job_attempts.exit_code), \
         cause = COALESCE(excluded.cause, job_attempts.cause), \
         message = COALESCE(excluded.message, job_attempts.message), \
         evidence = COALESCE(excluded.evidence, job_attempts.evidence), \
         last_lines = COALESCE(excluded.last_lines, job_attempts.last_lines)",
    )
    .bind(uid)
    .bind(i64::from(*number))
    .bind(started.map(micros))
    .bind(finished.map(micros))
    .bind(phase)
    .bind(worker)
    .bind(*exit_code)
    .bind(cause)
    .bind(plain(message))
    .bind(evidence.as_ref().map(Value::to_string))
    .bind(plain(last_lines).as_deref().map(last_bytes))
    .execute(&mut *write)
    .await?;
    write.commit().await
}

/// Returns the end of a text that is at most [`MAX_LAST_LINES_BYTES`] long: whole lines where possible.
fn last_bytes(text: &str) -> &str {
    let mut start = text.len().saturating_sub(MAX_LAST_LINES_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let end = text.get(start..).unwrap_or_default();
    match end.split_once('\n') {
        Some((_, whole)) if start > 0 && !whole.is_empty() => whole,
        _ => end,
    }
}

/// Returns a job's attempts in order, at most [`MAX_PAGE`], from a number on.
///
/// # Errors
/// If the store fails.
pub async fn attempts(store: &Store, uid: &str, from: u32, limit: u32) -> Result<Vec<Attempt>, Error> {
    let query = sqlx::query(
        "SELECT number, started, finished, phase, worker, exit_code, cause, message, evidence, last_lines \
         FROM job_attempts WHERE uid = $1 AND number >= $2 ORDER BY number LIMIT $3",
    )
    .bind(uid)
    .bind(i64::from(from))
    .bind(i64::from(limit.min(MAX_PAGE)));
    let attempt = |row: &AnyRow| {
        let number: i64 = row.try_get("number")?;
        let evidence: Option<String> = row.try_get("evidence")?;
        let evidence = evidence.map(|text| serde_json::from_str(&text)).transpose();
        Ok(Attempt {
            number: u32::try_from(number).map_err(|error| Error::damaged("an attempt's number", error))?,
            started: optional_time(row.try_get("started")?)?,
            finished: optional_time(row.try_get("finished")?)?,
            phase: row.try_get("phase")?,
            worker: row.try_get("worker")?,
            exit_code: row.try_get("exit_code")?,
            cause: row.try_get("cause")?,
            message: row.try_get("message")?,
            evidence: evidence.map_err(|error| Error::damaged("an attempt's evidence", error))?,
            last_lines: row.try_get("last_lines")?,
        })
    };
    store.rows(query).await?.iter().map(attempt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_an_attempt_are_cut_at_a_line() {
        assert_eq!(last_bytes("a\nb\n"), "a\nb\n");
        let long = format!("{}\nend ü\n", "ü".repeat(MAX_LAST_LINES_BYTES));
        assert_eq!(last_bytes(&long), "end ü\n");
        let one = "ü".repeat(MAX_LAST_LINES_BYTES);
        assert_eq!(last_bytes(&one).len(), MAX_LAST_LINES_BYTES);
    }
}
