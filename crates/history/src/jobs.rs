//! The history of jobs: every change of a job's state, its attempts and its specs, kept after the job is deleted.
//!
//! Several replicas watch the same jobs and may miss or repeat observations. An observation is identified by the job's
//! uid and resourceVersion; Kubernetes' resourceVersions increase (KEP-5504), so observations that arrive late find
//! their place. Only changes are stored: a state that equals the one before it is not.

mod attempts;
mod record;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::Row as _;
use sqlx::any::AnyRow;

pub use self::attempts::{Attempt, MAX_LAST_LINES_BYTES, attempts, record_attempt};
pub use self::record::{MAX_OBSERVATIONS, MAX_SPEC_BYTES, Observation, Recorded, deleted, record};
use crate::error::Error;
use crate::namespaces::Tenant;
use crate::store::{Cursor, Store, micros, optional_time, time};

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

fn text_of(state: &State) -> Result<String, Error> {
    serde_json::to_string(state).map_err(|error| Error::Invalid(error.to_string()))
}

fn state_of(text: &str) -> Result<State, Error> {
    serde_json::from_str(text).map_err(|error| Error::damaged("a job's state", error))
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
