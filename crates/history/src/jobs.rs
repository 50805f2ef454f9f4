//! The history of jobs: every change of a job's state, its attempts and its specs, kept after the job is deleted.
//!
//! Several replicas watch the same jobs and may miss or repeat observations. An observation is identified by the job's
//! uid and resourceVersion; Kubernetes' resourceVersions increase (KEP-5504), so observations that arrive late find
//! their place. Only changes are stored: a state that equals the one before it is not.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use crate::error::Error;
use crate::namespaces::Tenant;
use crate::notifications;
use crate::store::{Cursor, Store, Write, micros, optional_time, time};

/// The maximum size of an attempt's last lines in bytes.
pub const MAX_LAST_LINES_BYTES: usize = 64 << 10;
/// The maximum size of a spec in bytes of JSON: what etcd accepts as an object.
pub const MAX_SPEC_BYTES: usize = 1536 << 10;
/// The maximum number of observations in one call.
pub const MAX_OBSERVATIONS: usize = 1000;
/// The maximum number of rows in one page.
pub const MAX_PAGE: u32 = 1000;

/// The state of a job at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// `Pending`, `Running`, `Succeeded` or `Failed`.
    pub phase: String,
    /// Why: `Queued`, `Suspended`, or the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The cause of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The number of the attempt, as the job counts; 0 if its kind counts none.
    pub attempt: u32,
    /// The Workers.
    pub workers: Workers,
}

/// The number of a job's Workers by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workers {
    /// Running.
    pub running: u32,
    /// Not running yet.
    pub pending: u32,
    /// Failed.
    pub failed: u32,
    /// All that the job asks for.
    pub of: u32,
}

/// A spec of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// `metadata.generation`.
    pub generation: i64,
    /// When it was first seen.
    pub at: Timestamp,
    /// The spec.
    pub spec: Value,
}

/// A job as a replica has just seen it.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Its uid.
    pub uid: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its owner.
    pub owner: Option<String>,
    /// When it was created.
    pub created: Timestamp,
    /// When it started to run.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub finished: Option<Timestamp>,
    /// Its resourceVersion.
    pub version: i64,
    /// When this state was reached, as far as known.
    pub at: Timestamp,
    /// Its state.
    pub state: State,
    /// Its state as every interface shows it, for notifications.
    pub shown: String,
    /// Its generation and spec.
    pub spec: Option<(i64, Value)>,
}

/// What an observation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// A change of the job's state, which is now stored.
    Changed,
    /// No change of its state.
    Known,
}

/// Stores observations, and enqueues the notifications about their transitions, in one transaction. The results are
/// in the order of the observations.
///
/// # Errors
/// If there are too many observations, a spec is too large, or the store fails. Nothing is then stored.
pub async fn record(store: &Store, observations: &[Observation]) -> Result<Vec<Recorded>, Error> {
    if observations.len() > MAX_OBSERVATIONS {
        return Err(Error::Invalid(format!(
            "at most {MAX_OBSERVATIONS} observations may be recorded at once"
        )));
    }
    let mut results = vec![Recorded::Known; observations.len()];
    let mut news: Vec<usize> = Vec::new();
    for (place, observation) in observations.iter().enumerate() {
        if !is_known(store, observation).await? {
            news.push(place);
        }
    }
    if news.is_empty() {
        return Ok(results);
    }
    // All replicas lock jobs in the same order, so they cannot wait for one another in a circle.
    news.sort_by_key(|place| observations.get(*place).map(|seen| (seen.uid.as_str(), seen.version)));
    let mut write = store.write().await?;
    for place in news {
        if let (Some(observation), Some(result)) = (observations.get(place), results.get_mut(place)) {
            *result = record_one(&mut write, observation).await?;
        }
    }
    write.commit().await?;
    Ok(results)
}

/// Whether storing an observation would change nothing. Costs one read, and no lock.
async fn is_known(store: &Store, observation: &Observation) -> Result<bool, Error> {
    let Observation { uid, version, state, spec, started, finished, .. } = observation;
    let generation = spec.as_ref().map(|(generation, _)| *generation);
    let query = sqlx::query(
        "SELECT state, (SELECT COUNT(*) FROM job_specs WHERE uid = $1 AND generation = $3), \
         (SELECT COUNT(*) FROM jobs WHERE uid = $1 AND (version > $2 OR ( \
            COALESCE($4, started, 0) = COALESCE(started, 0) AND COALESCE($5, 0) = COALESCE(finished, 0)))) \
         FROM job_states WHERE uid = $1 AND version <= $2 ORDER BY version DESC LIMIT 1",
    )
    .bind(uid)
    .bind(version)
    .bind(generation)
    .bind(started.map(micros))
    .bind(finished.map(micros));
    let Some(row) = store.row(query).await? else { return Ok(false) };
    let (stored, specs, times): (String, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    Ok(stored == text_of(state)? && (generation.is_none() || specs > 0) && times > 0)
}

async fn record_one(write: &mut Write, seen: &Observation) -> Result<Recorded, Error> {
    lock_job(write, seen).await?;
    record_spec(write, seen).await?;
    let state = text_of(&seen.state)?;
    let before = neighbour(write, seen, Side::Before).await?;
    update_job(write, seen).await?;
    if before.as_ref().is_some_and(|(_, before)| *before == state) {
        return Ok(Recorded::Known);
    }
    let after = neighbour(write, seen, Side::After).await?;
    if let Some((version, _)) = after.as_ref().filter(|(_, after)| *after == state) {
        // That change was this one, seen late.
        sqlx::query("DELETE FROM job_states WHERE uid = $1 AND version = $2")
            .bind(&seen.uid)
            .bind(*version)
            .execute(&mut **write)
            .await?;
    }
    sqlx::query("INSERT INTO job_states (uid, version, at, state) VALUES ($1, $2, $3, $4)")
        .bind(&seen.uid)
        .bind(seen.version)
        .bind(micros(seen.at))
        .bind(&state)
        .execute(&mut **write)
        .await?;
    update_job(write, seen).await?;
    let parsed = |stored: Option<(i64, String)>| stored.map(|(_, text)| state_of(&text)).transpose();
    let (before, after) = (parsed(before)?, parsed(after)?);
    let is_transition = |from: Option<&State>, to: &State| from.is_none_or(|from| key(from) != key(to));
    // A later state with the same phase, reason and cause has been notified of already.
    if is_transition(before.as_ref(), &seen.state)
        && after.is_none_or(|after| is_transition(Some(&after), &seen.state))
    {
        notifications::enqueue(write, &transition(seen, before)).await?;
    }
    Ok(Recorded::Changed)
}

/// What notifications are about.
fn key(state: &State) -> (&str, Option<&str>, Option<&str>) {
    (&state.phase, state.reason.as_deref(), state.cause.as_deref())
}

fn transition(seen: &Observation, before: Option<State>) -> notifications::Transition {
    notifications::Transition {
        uid: seen.uid.clone(),
        kind: seen.kind.clone(),
        namespace: seen.namespace.clone(),
        name: seen.name.clone(),
        version: seen.version,
        at: seen.at,
        from: before.map(|before| before.phase),
        state: seen.shown.clone(),
        phase: seen.state.phase.clone(),
        reason: seen.state.reason.clone(),
        cause: seen.state.cause.clone(),
        message: seen.state.message.clone(),
        attempt: seen.state.attempt,
        condition: None,
    }
}

/// Creates the job's row if it is missing, and locks it until the transaction ends.
async fn lock_job(write: &mut Write, seen: &Observation) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO jobs (uid, kind, namespace, name, owner, created, started, finished, version, phase, reason, cause, \
         namespace_uid) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, \
         (SELECT n.uid FROM namespaces n WHERE n.name = $3 AND n.created <= $6)) \
         ON CONFLICT (uid) DO UPDATE SET version = jobs.version, \
         namespace_uid = COALESCE(jobs.namespace_uid, excluded.namespace_uid)",
    )
    .bind(&seen.uid)
    .bind(&seen.kind)
    .bind(&seen.namespace)
    .bind(&seen.name)
    .bind(&seen.owner)
    .bind(micros(seen.created))
    .bind(seen.started.map(micros))
    .bind(seen.finished.map(micros))
    .bind(seen.version)
    .bind(&seen.state.phase)
    .bind(&seen.state.reason)
    .bind(&seen.state.cause)
    .execute(&mut **write)
    .await?;
    Ok(())
}

async fn record_spec(write: &mut Write, seen: &Observation) -> Result<(), Error> {
    let Some((generation, spec)) = &seen.spec else { return Ok(()) };
    let text = serde_json::to_string(spec).map_err(|error| Error::Invalid(error.to_string()))?;
    if text.len() > MAX_SPEC_BYTES {
        return Err(Error::Invalid(format!(
            "the spec of job {} has {} bytes, and {MAX_SPEC_BYTES} are allowed",
            seen.uid,
            text.len()
        )));
    }
    sqlx::query(
        "INSERT INTO job_specs (uid, generation, at, spec) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (uid, generation) DO NOTHING",
    )
    .bind(&seen.uid)
    .bind(*generation)
    .bind(micros(seen.at))
    .bind(text)
    .execute(&mut **write)
    .await?;
    Ok(())
}

enum Side {
    Before,
    After,
}

/// Returns the stored state at or before an observation's version, or the first after it.
async fn neighbour(
    write: &mut Write,
    seen: &Observation,
    side: Side,
) -> Result<Option<(i64, String)>, Error> {
    let sql = match side {
        Side::Before => {
            "SELECT version, state FROM job_states WHERE uid = $1 AND version <= $2 ORDER BY version DESC LIMIT 1"
        }
        Side::After => {
            "SELECT version, state FROM job_states WHERE uid = $1 AND version > $2 ORDER BY version LIMIT 1"
        }
    };
    let row = sqlx::query(sql).bind(&seen.uid).bind(seen.version).fetch_optional(&mut **write).await?;
    row.map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose()
}

/// Updates the job's present state, unless a later one is known.
async fn update_job(write: &mut Write, seen: &Observation) -> Result<(), Error> {
    sqlx::query(
        "UPDATE jobs SET version = $2, phase = $3, reason = $4, cause = $5, started = COALESCE($6, started), \
         finished = $7, owner = COALESCE($8, owner) WHERE uid = $1 AND version <= $2",
    )
    .bind(&seen.uid)
    .bind(seen.version)
    .bind(&seen.state.phase)
    .bind(&seen.state.reason)
    .bind(&seen.state.cause)
    .bind(seen.started.map(micros))
    .bind(seen.finished.map(micros))
    .bind(&seen.owner)
    .execute(&mut **write)
    .await?;
    Ok(())
}

fn text_of(state: &State) -> Result<String, Error> {
    serde_json::to_string(state).map_err(|error| Error::Invalid(error.to_string()))
}

fn state_of(text: &str) -> Result<State, Error> {
    serde_json::from_str(text).map_err(|error| Error::damaged("a job's state", error))
}

/// Records that a job was deleted. The first report counts.
///
/// # Errors
/// If the store fails.
pub async fn deleted(store: &Store, uid: &str, at: Timestamp) -> Result<(), Error> {
    let query = sqlx::query("UPDATE jobs SET deleted = $2 WHERE uid = $1 AND deleted IS NULL");
    store.execute(query.bind(uid).bind(micros(at))).await.map(drop)
}

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

/// A job that is or was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its uid.
    pub uid: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its owner.
    pub owner: Option<String>,
    /// When it was created.
    pub created: Timestamp,
    /// When it started to run.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub finished: Option<Timestamp>,
    /// When it was deleted.
    pub deleted: Option<Timestamp>,
    /// Its last known phase.
    pub phase: String,
    /// Its last known reason.
    pub reason: Option<String>,
    /// Its last known cause.
    pub cause: Option<String>,
}

impl Job {
    /// Returns the place of this job in [`jobs`], to continue after.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor::new(self.created, &self.uid)
    }
}

/// Which jobs to return. `None` does not restrict.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The namespace.
    pub namespace: Option<String>,
    /// The kind.
    pub kind: Option<String>,
    /// The name.
    pub name: Option<String>,
    /// The owner.
    pub owner: Option<String>,
    /// The last known phase.
    pub phase: Option<String>,
    /// Created from this time on.
    pub since: Option<Timestamp>,
    /// Created before this time.
    pub until: Option<Timestamp>,
    /// Whether the job was deleted.
    pub deleted: Option<bool>,
    /// Of which namespaces of a name.
    pub tenant: Tenant,
}

const JOB: &str = "SELECT uid, kind, namespace, name, owner, created, started, finished, deleted, phase, reason, cause \
                   FROM jobs WHERE uid = $1";

const JOBS: &str = "SELECT uid, kind, namespace, name, owner, created, started, finished, deleted, phase, reason, cause \
     FROM jobs WHERE ($1 IS NULL OR namespace = $1) AND ($2 IS NULL OR kind = $2) AND ($3 IS NULL OR name = $3) \
     AND ($4 IS NULL OR owner = $4) AND ($5 IS NULL OR phase = $5) AND ($6 IS NULL OR created >= $6) \
     AND ($7 IS NULL OR created < $7) AND ($8 IS NULL OR ($8 = 1 AND deleted IS NOT NULL) \
     OR ($8 = 0 AND deleted IS NULL)) AND ($9 IS NULL OR created < $9 OR (created = $9 AND uid < $10)) \
     AND ($12 = 1 OR namespace_uid = (SELECT n.uid FROM namespaces n WHERE n.name = jobs.namespace)) \
     ORDER BY created DESC, uid DESC LIMIT $11";

/// Returns jobs, newest first, after a cursor.
///
/// # Errors
/// If the store fails.
pub async fn jobs(
    store: &Store,
    filter: &Filter,
    after: Option<&Cursor>,
    limit: u32,
) -> Result<Vec<Job>, Error> {
    let Filter { namespace, kind, name, owner, phase, since, until, deleted, tenant } = filter;
    let query = sqlx::query(JOBS)
        .bind(namespace)
        .bind(kind)
        .bind(name)
        .bind(owner)
        .bind(phase)
        .bind(since.map(micros))
        .bind(until.map(micros))
        .bind(deleted.map(i64::from))
        .bind(after.map(Cursor::micros))
        .bind(after.map(Cursor::id))
        .bind(i64::from(limit.min(MAX_PAGE)))
        .bind(tenant.is_any());
    store.rows(query).await?.iter().map(job_of).collect()
}

/// Returns one job.
///
/// # Errors
/// If the store fails.
pub async fn job(store: &Store, uid: &str) -> Result<Option<Job>, Error> {
    store.row(sqlx::query(JOB).bind(uid)).await?.as_ref().map(job_of).transpose()
}

fn job_of(row: &AnyRow) -> Result<Job, Error> {
    Ok(Job {
        uid: row.try_get("uid")?,
        kind: row.try_get("kind")?,
        namespace: row.try_get("namespace")?,
        name: row.try_get("name")?,
        owner: row.try_get("owner")?,
        created: time(row.try_get("created")?)?,
        started: optional_time(row.try_get("started")?)?,
        finished: optional_time(row.try_get("finished")?)?,
        deleted: optional_time(row.try_get("deleted")?)?,
        phase: row.try_get("phase")?,
        reason: row.try_get("reason")?,
        cause: row.try_get("cause")?,
    })
}

/// A change of a job's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The resourceVersion that it was seen at; the place to continue after.
    pub version: i64,
    /// When.
    pub at: Timestamp,
    /// The state from then on.
    pub state: State,
}

/// Returns a job's changes in a range of time, oldest first, after a version.
///
/// # Errors
/// If the store fails.
pub async fn changes(
    store: &Store,
    uid: &str,
    range: (Option<Timestamp>, Option<Timestamp>),
    after: i64,
    limit: u32,
) -> Result<Vec<Change>, Error> {
    let query = sqlx::query(
        "SELECT version, at, state FROM job_states WHERE uid = $1 AND version > $2 \
         AND ($3 IS NULL OR at >= $3) AND ($4 IS NULL OR at < $4) ORDER BY version LIMIT $5",
    )
    .bind(uid)
    .bind(after)
    .bind(range.0.map(micros))
    .bind(range.1.map(micros))
    .bind(i64::from(limit.min(MAX_PAGE)));
    let change = |row: &AnyRow| {
        let state: String = row.try_get(2)?;
        Ok(Change { version: row.try_get(0)?, at: time(row.try_get(1)?)?, state: state_of(&state)? })
    };
    store.rows(query).await?.iter().map(change).collect()
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

/// Returns the spec of a job at a generation, or the newest.
///
/// # Errors
/// If the store fails.
pub async fn spec(store: &Store, uid: &str, generation: Option<i64>) -> Result<Option<Spec>, Error> {
    let query = sqlx::query(
        "SELECT generation, at, spec FROM job_specs WHERE uid = $1 AND ($2 IS NULL OR generation = $2) \
         ORDER BY generation DESC LIMIT 1",
    );
    let Some(row) = store.row(query.bind(uid).bind(generation)).await? else { return Ok(None) };
    let text: String = row.try_get(2)?;
    let spec = serde_json::from_str(&text).map_err(|error| Error::damaged("a job's spec", error))?;
    Ok(Some(Spec { generation: row.try_get(0)?, at: time(row.try_get(1)?)?, spec }))
}

/// How long the history of deleted jobs is kept. Jobs that are there are always kept.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Keep what was deleted after this time.
    pub deleted_after: Timestamp,
    /// Keep at most so many deleted jobs, those deleted last.
    pub jobs: u32,
}

/// The number of jobs that one transaction forgets.
const PRUNED_AT_ONCE: i64 = 200;

/// Forgets deleted jobs beyond the retention, some hundred in one call. Returns their number; 0 when all is done.
///
/// # Errors
/// If the store fails.
pub async fn prune(store: &Store, retention: &Retention) -> Result<u64, Error> {
    let query = sqlx::query(
        "DELETE FROM jobs WHERE uid IN (SELECT uid FROM ( \
           SELECT uid, deleted, ROW_NUMBER() OVER (ORDER BY deleted DESC, uid) AS place \
           FROM jobs WHERE deleted IS NOT NULL) AS gone \
         WHERE deleted < $1 OR place > $2 ORDER BY deleted LIMIT $3)",
    );
    let bounds = query.bind(micros(retention.deleted_after)).bind(i64::from(retention.jobs));
    store.execute(bounds.bind(PRUNED_AT_ONCE)).await
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
