//! Records what replicas see of jobs.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::Row as _;

use super::{State, state_of, text_of};
use crate::error::Error;
use crate::notifications;
use crate::store::{Store, Write, micros};

/// The maximum size of a spec in bytes of JSON: what etcd accepts as an object.
pub const MAX_SPEC_BYTES: usize = 1536 << 10;
/// The maximum number of observations in one call.
pub const MAX_OBSERVATIONS: usize = 1000;

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

/// Records that a job was deleted. The first report counts.
///
/// # Errors
/// If the store fails.
pub async fn deleted(store: &Store, uid: &str, at: Timestamp) -> Result<(), Error> {
    let query = sqlx::query("UPDATE jobs SET deleted = $2 WHERE uid = $1 AND deleted IS NULL");
    store.execute(query.bind(uid).bind(micros(at))).await.map(drop)
}
