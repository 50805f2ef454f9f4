//! Conditions of rules: what has to hold for a job or a quota, in place of a transition.
//!
//! The caller of this crate evaluates them; this module stores what holds. An alert is a job or a quota for which a rule's
//! condition holds. It is created together with its delivery and deleted when the condition no longer holds, so a rule
//! fires once for each crossing. Several replicas may evaluate at the same time: the evaluation with the newest reading
//! counts, and one with an older reading changes nothing.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Rule, Transition, enqueue_for, rule_columns, rule_of};
use crate::error::Error;
use crate::store::{Store, Write, micros, time};

/// The kind of quotas in transitions and alerts.
pub const QUOTA: &str = "ResourceQuota";
/// The maximum number of alerts of a rule; the caller passes those first that are to be kept.
pub const MAX_OF_RULE: usize = 500;
/// The maximum number of rules with a condition that are evaluated.
const MAX_EVALUATED: i64 = 10_000;
/// The maximum number of alerts that are returned.
const MAX_ALERTS: i64 = 10_000;
/// The number of rules that are stored in one transaction.
const BATCH: usize = 100;

/// What has to hold for a rule to notify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Condition {
    /// A ResourceQuota is used to at least so many percent.
    QuotaUsed {
        /// From 1 to 100.
        percent: u32,
    },
    /// A job has run for longer than this.
    RunsLonger {
        /// The seconds.
        seconds: u32,
    },
    /// A job is stalled.
    Stalled,
}

impl Condition {
    /// Whether it is about quotas, and not about jobs.
    #[must_use]
    pub fn is_of_quotas(self) -> bool {
        matches!(self, Self::QuotaUsed { .. })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QuotaUsed { percent } => write!(f, "a quota is used to at least {percent}%"),
            Self::RunsLonger { seconds } => write!(f, "a job has run for longer than {}", span(*seconds)),
            Self::Stalled => f.write_str("a job is stalled"),
        }
    }
}

/// Writes a time span in the largest unit of which it is a multiple: `36h`, `1d`.
#[must_use]
pub fn span(seconds: u32) -> String {
    let units = [("d", 86_400), ("h", 3_600), ("m", 60)];
    let fits = units.into_iter().find(|(_, unit)| seconds > 0 && seconds.is_multiple_of(*unit));
    fits.map_or_else(|| format!("{seconds}s"), |(word, unit)| format!("{}{word}", seconds / unit))
}

const CONDITIONAL: &str = concat!(
    "SELECT ",
    rule_columns!(),
    " FROM notification_rules WHERE condition IS NOT NULL AND enabled = 1 AND namespace_uid IS NOT DISTINCT FROM \
     (SELECT n.uid FROM namespaces n WHERE n.name = notification_rules.namespace) ORDER BY id LIMIT $1"
);

/// Returns the rules that are to be evaluated: those in force that have a condition.
///
/// # Errors
/// If the store fails.
pub async fn conditional(store: &Store) -> Result<Vec<Rule>, Error> {
    let rows = store.rows(sqlx::query(CONDITIONAL).bind(MAX_EVALUATED)).await?;
    rows.iter().map(rule_of).collect()
}

/// What the evaluation of a rule found.
#[derive(Debug)]
pub struct Evaluation<'r> {
    /// The rule.
    pub rule: &'r Rule,
    /// For what the condition holds, as its delivery reports it. Its time and version are those of the reading.
    pub holds: Vec<Transition>,
    /// Kinds about which nothing could be read: their alerts stay as they are.
    pub unread: Vec<&'static str>,
}

/// Stores what evaluations found, by what was read at a time of the store's clock. What holds and did not hold before
/// becomes an alert and a delivery. Returns the number of new alerts.
///
/// # Errors
/// If the store fails; the evaluation is then repeated.
pub async fn hold(store: &Store, evaluations: &[Evaluation<'_>], read: Timestamp) -> Result<usize, Error> {
    let mut fired = 0;
    for batch in evaluations.chunks(BATCH) {
        let mut write = store.write().await?;
        for evaluation in batch {
            fired += hold_one(&mut write, evaluation, read).await?;
        }
        write.commit().await?;
    }
    Ok(fired)
}

async fn hold_one(write: &mut Write, evaluation: &Evaluation<'_>, read: Timestamp) -> Result<usize, Error> {
    let Evaluation { rule, holds, unread } = evaluation;
    let condition = rule.condition.map(|condition| serde_json::to_string(&condition)).transpose();
    // This locks the rule. It matches nothing if the rule was replaced since it was read, or a later reading is stored.
    let is_newest = sqlx::query(
        "UPDATE notification_rules SET evaluated = $2 WHERE id = $1 AND enabled = 1 AND condition = $3 \
         AND job_uid IS NOT DISTINCT FROM $4 AND (evaluated IS NULL OR evaluated < $2)",
    )
    .bind(&rule.id)
    .bind(micros(read))
    .bind(condition.map_err(|error| Error::Invalid(error.to_string()))?)
    .bind(&rule.job)
    .execute(&mut **write)
    .await?;
    if is_newest.rows_affected() == 0 {
        return Ok(0);
    }
    let rows = sqlx::query("SELECT uid, kind, message FROM alerts WHERE rule_id = $1")
        .bind(&rule.id)
        .fetch_all(&mut **write)
        .await?;
    let mut before = BTreeMap::new();
    for row in &rows {
        let (uid, kind, message): (String, String, String) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        before.insert(uid, (kind, message));
    }
    let mut fired = 0;
    for found in holds.iter().take(MAX_OF_RULE) {
        match before.remove(&found.uid) {
            Some((_, message)) if Some(&message) == found.message.as_ref() => {}
            Some(_) => reword(write, rule, found).await?,
            None => {
                fire(write, rule, &Transition { version: micros(read), at: read, ..found.clone() }).await?;
                fired += 1;
            }
        }
    }
    for (uid, _) in before.iter().filter(|(_, (kind, _))| !unread.contains(&kind.as_str())) {
        sqlx::query("DELETE FROM alerts WHERE rule_id = $1 AND uid = $2")
            .bind(&rule.id)
            .bind(uid)
            .execute(&mut **write)
            .await?;
    }
    Ok(fired)
}

async fn reword(write: &mut Write, rule: &Rule, found: &Transition) -> Result<(), Error> {
    sqlx::query("UPDATE alerts SET message = $3 WHERE rule_id = $1 AND uid = $2")
        .bind(&rule.id)
        .bind(&found.uid)
        .bind(found.message.as_deref().unwrap_or_default())
        .execute(&mut **write)
        .await?;
    Ok(())
}

/// Creates an alert and its delivery.
async fn fire(write: &mut Write, rule: &Rule, found: &Transition) -> Result<(), Error> {
    let body = serde_json::to_string(found).map_err(|error| Error::Invalid(error.to_string()))?;
    sqlx::query(
        "INSERT INTO alerts (rule_id, uid, kind, name, since, message) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (rule_id, uid) DO NOTHING",
    )
    .bind(&rule.id)
    .bind(&found.uid)
    .bind(&found.kind)
    .bind(&found.name)
    .bind(micros(found.at))
    .bind(found.message.as_deref().unwrap_or_default())
    .execute(&mut **write)
    .await?;
    enqueue_for(write, &rule.id, found, &body).await
}

/// Forgets the alerts of a rule that is replaced by one about something else.
pub(super) async fn forget(write: &mut Write, rule: &str) -> Result<(), Error> {
    sqlx::query("DELETE FROM alerts WHERE rule_id = $1").bind(rule).execute(&mut **write).await?;
    Ok(())
}

/// A job or a quota for which a rule's condition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// The rule.
    pub rule: String,
    /// The namespace of both.
    pub namespace: String,
    /// The kind of the job, or [`QUOTA`].
    pub kind: String,
    /// The name of the job or the quota.
    pub name: String,
    /// Since when that is known.
    pub since: Timestamp,
    /// What holds, for people.
    pub message: String,
}

/// Returns what holds for the rules of a namespace, or of all, newest first.
///
/// # Errors
/// If the store fails.
pub async fn alerts(store: &Store, namespace: Option<&str>) -> Result<Vec<Alert>, Error> {
    let query = sqlx::query(
        "SELECT a.rule_id, r.namespace, a.kind, a.name, a.since, a.message FROM alerts a \
         JOIN notification_rules r ON r.id = a.rule_id WHERE r.enabled = 1 AND ($1 IS NULL OR r.namespace = $1) \
         ORDER BY a.since DESC, a.rule_id, a.uid LIMIT $2",
    );
    let alert = |row: &AnyRow| {
        Ok(Alert {
            rule: row.try_get(0)?,
            namespace: row.try_get(1)?,
            kind: row.try_get(2)?,
            name: row.try_get(3)?,
            since: time(row.try_get(4)?)?,
            message: row.try_get(5)?,
        })
    };
    store.rows(query.bind(namespace).bind(MAX_ALERTS)).await?.iter().map(alert).collect()
}

const UNEVALUATED: &str = concat!(
    "SELECT ",
    rule_columns!(),
    " FROM notification_rules WHERE condition IS NOT NULL AND enabled = 1 AND ($1 IS NULL OR namespace = $1) \
     AND (evaluated IS NULL OR evaluated < $2) ORDER BY id LIMIT $3"
);

/// Returns the rules in force of a namespace, or of all, whose conditions were not evaluated since a time.
///
/// # Errors
/// If the store fails.
pub async fn unevaluated(
    store: &Store,
    namespace: Option<&str>,
    since: Timestamp,
) -> Result<Vec<Rule>, Error> {
    let query = sqlx::query(UNEVALUATED).bind(namespace).bind(micros(since));
    store.rows(query.bind(MAX_EVALUATED)).await?.iter().map(rule_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_written_in_words() {
        for (condition, words) in [
            (Condition::QuotaUsed { percent: 90 }, "a quota is used to at least 90%"),
            (Condition::RunsLonger { seconds: 86_400 }, "a job has run for longer than 1d"),
            (Condition::RunsLonger { seconds: 129_600 }, "a job has run for longer than 36h"),
            (Condition::RunsLonger { seconds: 90 }, "a job has run for longer than 90s"),
            (Condition::Stalled, "a job is stalled"),
        ] {
            assert_eq!(condition.to_string(), words);
        }
    }
}
