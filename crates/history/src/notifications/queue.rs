//! The queue of deliveries: enqueued with what they report, claimed with a lease, tried until one try succeeds
//! or they are dead letters.

use std::time::Duration;

use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;
use uuid::Uuid;

use super::Secret;
use super::deliveries::Delivery;
use super::rules::{Destination, rule};
use super::transition::{TEST, Transition, Transitions};
use crate::error::Error;
use crate::store::{Store, Write, micros, time};

/// How long a claim lasts.
pub const LEASE: Duration = Duration::from_secs(60);
/// The number of tries before a delivery is a dead letter.
pub const MAX_TRIES: i64 = 10;
/// The wait before the second try; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// The maximum wait between two tries.
const MAX_WAIT: Duration = Duration::from_secs(3600);
/// The maximum number of deliveries in one claim.
pub const MAX_CLAIM: u32 = 32;
/// The maximum number of deliveries of a namespace that are sent at a time: a share of what one process sends.
pub const MAX_OF_NAMESPACE: i64 = 8;
/// The maximum number of deliveries of a rule that wait; a newer one takes the place of the oldest.
const MAX_WAITING: i64 = 100;
/// The minimum time between two tests of a rule, and the maximum number of tests of a namespace in this time.
pub const TEST_EVERY: Duration = Duration::from_secs(60);
const MAX_TESTS: i64 = 10;

/// Enqueues a delivery for each rule that a transition matches, in the transaction that stores it.
pub(crate) async fn enqueue(write: &mut Write, transition: &Transition) -> Result<(), Error> {
    let rows = sqlx::query(
        "SELECT id, transitions, kinds FROM notification_rules \
         WHERE namespace = $1 AND enabled = 1 AND condition IS NULL AND (job_uid IS NULL OR job_uid = $2) \
         AND namespace_uid IS NOT DISTINCT FROM (SELECT j.namespace_uid FROM jobs j WHERE j.uid = $2) ORDER BY id",
    )
    .bind(&transition.namespace)
    .bind(&transition.uid)
    .fetch_all(&mut **write)
    .await?;
    let body = serde_json::to_string(transition).map_err(|error| Error::Invalid(error.to_string()))?;
    for row in rows {
        let (rule, transitions): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let damaged = |error| Error::damaged("a notification rule", error);
        let transitions: Transitions = serde_json::from_str(&transitions).map_err(damaged)?;
        let kinds: Vec<String> = serde_json::from_str(&row.try_get::<String, _>(2)?).map_err(damaged)?;
        let is_of_kind = kinds.is_empty() || kinds.contains(&transition.kind);
        if !is_of_kind || !transitions.include(transition) {
            continue;
        }
        enqueue_for(write, &rule, transition, &body).await?;
    }
    Ok(())
}

/// Enqueues a delivery of one rule; `body` is the JSON of the transition.
pub(super) async fn enqueue_for(
    write: &mut Write,
    rule: &str,
    transition: &Transition,
    body: &str,
) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO deliveries (id, rule_id, uid, version, body, created, state, tries, due, kind) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, $8) ON CONFLICT (rule_id, uid, version) DO NOTHING",
    )
    .bind(Uuid::new_v4().to_string())
    .bind(rule)
    .bind(&transition.uid)
    .bind(transition.version)
    .bind(body)
    .bind(micros(transition.at))
    .bind(PENDING)
    .bind(&transition.kind)
    .execute(&mut **write)
    .await?;
    displace(write, rule, transition.at).await
}

/// Gives up the oldest deliveries of a rule if too many wait: a receiver that is away for long, or slow, needs the newest.
async fn displace(write: &mut Write, rule: &str, now: Timestamp) -> Result<(), Error> {
    let rows = sqlx::query(
        "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY created DESC, id DESC) AS place \
         FROM deliveries WHERE rule_id = $1 AND state = 'pending') AS waiting WHERE place > $2",
    )
    .bind(rule)
    .bind(MAX_WAITING)
    .fetch_all(&mut **write)
    .await?;
    for row in rows {
        let id: String = row.try_get(0)?;
        sqlx::query("UPDATE deliveries SET state = 'dead', lease = NULL WHERE id = $1")
            .bind(&id)
            .execute(&mut **write)
            .await?;
        log_try(write, &id, now, &Outcome { error: Some(DISPLACED.to_owned()), ..Outcome::default() })
            .await?;
    }
    Ok(())
}

/// Why a delivery was given up that waited for too long.
const DISPLACED: &str = "given up: too many deliveries of this rule wait";

/// What became of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tested {
    /// It is enqueued.
    Enqueued(Delivery),
    /// There is no such rule.
    NoRule,
    /// The rule was tested a moment ago, or the namespace has too many tests.
    TooSoon,
}

/// Enqueues a test delivery of a rule.
///
/// # Errors
/// If the store fails.
pub async fn enqueue_test(store: &Store, namespace: &str, id: &str) -> Result<Tested, Error> {
    let now = store.now().await?;
    if rule(store, namespace, id).await?.is_none() {
        return Ok(Tested::NoRule);
    }
    let query = sqlx::query(
        "SELECT COUNT(*), COUNT(CASE WHEN d.rule_id = $2 THEN 1 END) FROM deliveries d \
         JOIN notification_rules r ON r.id = d.rule_id WHERE r.namespace = $1 AND d.uid = $3 AND d.created > $4",
    );
    let since = now.checked_sub(TEST_EVERY).unwrap_or(Timestamp::MIN);
    let recent = store.row(query.bind(namespace).bind(id).bind(TEST).bind(micros(since))).await?;
    let (of_namespace, of_rule): (i64, i64) = match &recent {
        Some(row) => (row.try_get(0)?, row.try_get(1)?),
        None => (0, 0),
    };
    if of_rule > 0 || of_namespace >= MAX_TESTS {
        return Ok(Tested::TooSoon);
    }
    let transition = Transition {
        uid: TEST.to_owned(),
        kind: TEST.to_owned(),
        namespace: namespace.to_owned(),
        name: TEST.to_owned(),
        version: micros(now),
        at: now,
        from: None,
        state: TEST.to_owned(),
        phase: TEST.to_owned(),
        reason: None,
        cause: None,
        message: Some("this is a test of a notification rule".to_owned()),
        attempt: 0,
        condition: None,
    };
    let delivery = Delivery {
        id: Uuid::new_v4().to_string(),
        rule: id.to_owned(),
        uid: transition.uid.clone(),
        created: now,
        state: PENDING.to_owned(),
        tries: 0,
        status: None,
        error: None,
    };
    let body = serde_json::to_string(&transition).map_err(|error| Error::Invalid(error.to_string()))?;
    let query = sqlx::query(
        "INSERT INTO deliveries (id, rule_id, uid, version, body, created, state, tries, due, kind) \
         SELECT $1, id, $3, $4, $5, $6, $7, 0, 0, $9 FROM notification_rules \
         WHERE namespace = $8 AND id = $2",
    )
    .bind(&delivery.id)
    .bind(id)
    .bind(&delivery.uid)
    .bind(transition.version)
    .bind(body)
    .bind(micros(now))
    .bind(PENDING)
    .bind(namespace)
    .bind(&transition.kind);
    Ok(if store.execute(query).await? > 0 { Tested::Enqueued(delivery) } else { Tested::NoRule })
}

const PENDING: &str = "pending";
const DELIVERED: &str = "delivered";
const DEAD: &str = "dead";

/// A delivery that this process may send until its lease expires.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The delivery's id, the same at every try.
    pub id: String,
    /// The number of this try, from 1.
    pub number: i64,
    /// When it was enqueued.
    pub created: Timestamp,
    /// The body.
    pub body: String,
    /// The destination.
    pub destination: Destination,
    /// The key that signs it.
    pub secret: Secret,
    /// The rule.
    pub rule: String,
    /// The namespace of the rule.
    pub namespace: String,
    /// The rule's owner, as in [`Rule::subject`].
    pub subject: String,
    /// The kinds of jobs that the rule is about.
    pub kinds: Vec<String>,
    lease: String,
}

impl Claim {
    /// Returns what it is about.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn transition(&self) -> Result<Transition, Error> {
        serde_json::from_str(&self.body).map_err(|error| Error::damaged("a delivery", error))
    }
}

/// Claims deliveries that are due at a time of the store's clock: one of each destination for which none is under way, and
/// of all namespaces in turn, so that neither a slow receiver nor many deliveries of one namespace keep others waiting.
///
/// # Errors
/// If the store fails.
pub async fn claim(store: &Store, now: Timestamp, limit: u32) -> Result<Vec<Claim>, Error> {
    let lease = Uuid::new_v4().to_string();
    let until = micros(now).saturating_add(i64::try_from(LEASE.as_micros()).unwrap_or(i64::MAX));
    let mut write = store.write().await?;
    // The outer condition is evaluated again on the row that another replica has just changed; the inner is not.
    sqlx::query(
        "WITH busy AS (SELECT q.namespace, q.destination FROM deliveries o \
            JOIN notification_rules q ON q.id = o.rule_id \
            WHERE o.state = 'pending' AND o.lease IS NOT NULL AND o.due > $3), \
         firsts AS (SELECT d.id, d.due, r.namespace, \
            ROW_NUMBER() OVER (PARTITION BY r.destination ORDER BY d.due, d.created, d.id) AS place \
            FROM deliveries d JOIN notification_rules r ON r.id = d.rule_id WHERE d.state = 'pending' AND d.due <= $3 \
            AND r.destination NOT IN (SELECT destination FROM busy)), \
         turns AS (SELECT id, due, namespace, ROW_NUMBER() OVER (PARTITION BY namespace ORDER BY due, id) AS turn \
            FROM firsts WHERE place = 1) \
         UPDATE deliveries SET lease = $1, due = $2, tries = tries + 1 WHERE state = 'pending' AND due <= $3 \
         AND id IN (SELECT id FROM turns \
            WHERE turn + (SELECT COUNT(*) FROM busy WHERE busy.namespace = turns.namespace) <= $5 \
            ORDER BY turn, due, id LIMIT $4)",
    )
    .bind(&lease)
    .bind(until)
    .bind(micros(now))
    .bind(i64::from(limit.min(MAX_CLAIM)))
    .bind(MAX_OF_NAMESPACE)
    .execute(&mut *write)
    .await?;
    let rows = sqlx::query(
        "SELECT d.id, d.tries, d.created, d.body, r.destination, r.secret, r.id, r.namespace, r.subject, r.kinds \
         FROM deliveries d \
         JOIN notification_rules r ON r.id = d.rule_id WHERE d.state = 'pending' AND d.lease = $1 ORDER BY d.id",
    )
    .bind(&lease)
    .fetch_all(&mut *write)
    .await?;
    write.commit().await?;
    let claim = |row: &AnyRow| {
        let (destination, kinds): (String, String) = (row.try_get(4)?, row.try_get(9)?);
        let damaged = |error| Error::damaged("a notification rule", error);
        Ok(Claim {
            id: row.try_get(0)?,
            number: row.try_get(1)?,
            created: time(row.try_get(2)?)?,
            body: row.try_get(3)?,
            destination: serde_json::from_str(&destination).map_err(damaged)?,
            secret: Secret(row.try_get(5)?),
            rule: row.try_get(6)?,
            namespace: row.try_get(7)?,
            subject: row.try_get(8)?,
            kinds: serde_json::from_str(&kinds).map_err(damaged)?,
            lease: lease.clone(),
        })
    };
    rows.iter().map(claim).collect()
}

/// Why a try failed.
pub(super) struct Failure {
    pub(super) text: String,
    /// The status of the answer, if there was one.
    pub(super) status: Option<u16>,
    /// Whether another try cannot succeed.
    pub(super) permanent: bool,
}

impl Failure {
    pub(super) fn passing(text: String) -> Self {
        Self { text, status: None, permanent: false }
    }

    pub(super) fn lasting(text: String) -> Self {
        Self { text, status: None, permanent: true }
    }
}

/// How one try went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The status of the answer (HTTP or SMTP), if there was one.
    pub status: Option<u16>,
    /// Why it failed; `None` if it was delivered.
    pub error: Option<String>,
    /// Whether another try cannot succeed.
    pub permanent: bool,
    /// How long it took.
    pub took: Duration,
}

/// Records how a try went: the delivery is done, due again later, or a dead letter. Returns `false` if the lease has
/// passed to another replica meanwhile, and its outcome counts.
///
/// # Errors
/// If the store fails; the delivery is then due again when the lease expires.
pub async fn finish(
    store: &Store,
    claim: &Claim,
    outcome: &Outcome,
    now: Timestamp,
    jitter: f64,
) -> Result<bool, Error> {
    let dead = outcome.permanent || claim.number >= MAX_TRIES;
    let state = match &outcome.error {
        None => DELIVERED,
        Some(_) if dead => DEAD,
        Some(_) => PENDING,
    };
    let due = now.checked_add(wait(claim.number, jitter)).unwrap_or(Timestamp::MAX);
    let mut write = store.write().await?;
    let done = sqlx::query(
        "UPDATE deliveries SET state = $3, due = $4, lease = NULL WHERE id = $1 AND lease = $2 AND state = 'pending'",
    )
    .bind(&claim.id)
    .bind(&claim.lease)
    .bind(state)
    .bind(micros(due))
    .execute(&mut *write)
    .await?;
    if done.rows_affected() == 0 {
        return Ok(false);
    }
    log_try(&mut write, &claim.id, now, outcome).await?;
    write.commit().await?;
    Ok(true)
}

async fn log_try(write: &mut Write, id: &str, now: Timestamp, outcome: &Outcome) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO delivery_log (delivery_id, number, at, milliseconds, status, error) \
         SELECT $1, COALESCE(MAX(number), 0) + 1, $2, $3, $4, $5 FROM delivery_log WHERE delivery_id = $1",
    )
    .bind(id)
    .bind(micros(now))
    .bind(i64::try_from(outcome.took.as_millis()).unwrap_or(i64::MAX))
    .bind(outcome.status.map(i64::from))
    .bind(outcome.error.as_ref().map(|error| error.replace('\0', "\u{fffd}")))
    .execute(&mut **write)
    .await?;
    Ok(())
}

/// Returns the wait after a try: doubling, of which the second half is multiplied with `jitter` from 0 to 1, so that
/// many deliveries that failed together are not tried together.
fn wait(tries: i64, jitter: f64) -> Duration {
    let doublings = u32::try_from(tries.saturating_sub(1).clamp(0, 30)).unwrap_or(30);
    let full = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(doublings)).min(MAX_WAIT);
    let half = full / 2;
    half + half.mul_f64(jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_are_spread() {
        assert_eq!(wait(1, 1.0), FIRST_WAIT);
        assert_eq!(wait(3, 1.0), FIRST_WAIT * 4);
        assert_eq!(wait(3, 0.0), FIRST_WAIT * 2);
        assert_eq!(wait(i64::MAX, 1.0), MAX_WAIT);
    }
}
