//! Notifications about jobs: who wants to know what, and deliveries that survive a crash.
//!
//! A delivery is enqueued in the transaction that stores the state change, so neither exists without the other. A
//! replica claims due deliveries with a lease and sends them; another replica may claim them again only after the lease
//! has expired, and a send takes less time than the lease. A delivery may still arrive twice, if a replica dies between
//! the answer and its record: its id is the same each time.

pub mod address;
pub mod alerts;
pub mod deliver;
pub mod mail;
pub mod signature;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::Row as _;
use sqlx::any::AnyRow;
use uuid::Uuid;

use self::alerts::Condition;
use crate::error::Error;
use crate::store::{Cursor, Store, Write, micros, time};

/// The maximum number of rules of a namespace.
pub const MAX_RULES: i64 = 100;
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
/// The maximum number of rows in one page.
pub const MAX_PAGE: u32 = 500;
/// The maximum number of deliveries of a namespace that are sent at a time: a share of what one process sends.
pub const MAX_OF_NAMESPACE: i64 = 8;
/// The maximum number of deliveries of a rule that wait; a newer one takes the place of the oldest.
const MAX_WAITING: i64 = 100;
/// The minimum time between two tests of a rule, and the maximum number of tests of a namespace in this time.
pub const TEST_EVERY: Duration = Duration::from_secs(60);
const MAX_TESTS: i64 = 10;

/// A key that signs deliveries. It is never printed or serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// The minimum length of a key in bytes.
    pub const MIN_BYTES: usize = 24;
    /// The maximum length of a key in bytes.
    pub const MAX_BYTES: usize = 64;

    /// Takes a key.
    ///
    /// # Errors
    /// If it is too short or too long.
    pub fn new(bytes: Vec<u8>) -> Result<Self, Error> {
        match (Self::MIN_BYTES..=Self::MAX_BYTES).contains(&bytes.len()) {
            true => Ok(Self(bytes)),
            false => Err(Error::Invalid(format!(
                "a signing key has {} to {} bytes",
                Self::MIN_BYTES,
                Self::MAX_BYTES
            ))),
        }
    }

    /// Creates a random key.
    ///
    /// # Errors
    /// If the machine has no entropy.
    pub fn random() -> Result<Self, Error> {
        let mut bytes = vec![0; 32];
        getrandom::fill(&mut bytes).map_err(|error| Error::Unavailable(error.to_string()))?;
        Ok(Self(bytes))
    }

    /// Returns the key.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Which transitions a rule is about. An empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Transitions {
    /// The new phase is one of these.
    #[serde(default)]
    pub phases: Vec<String>,
    /// The new reason is one of these.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// The new cause is one of these.
    #[serde(default)]
    pub causes: Vec<String>,
}

impl Transitions {
    /// Whether they include a transition.
    #[must_use]
    pub fn include(&self, transition: &Transition) -> bool {
        let one_of = |list: &[String], value: Option<&str>| {
            list.is_empty() || value.is_some_and(|value| list.iter().any(|other| other == value))
        };
        one_of(&self.phases, Some(&transition.phase))
            && one_of(&self.reasons, transition.reason.as_deref())
            && one_of(&self.causes, transition.cause.as_deref())
    }
}

/// Where a delivery goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Destination {
    /// A POST to this URL.
    Webhook {
        /// The URL: `https`, with a host and without credentials.
        url: String,
    },
    /// An e-mail.
    Email {
        /// The recipient's address.
        to: String,
    },
}

/// Who wants to know what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its id.
    pub id: String,
    /// The namespace of the jobs.
    pub namespace: String,
    /// The only job, by uid; without it, all jobs of the namespace.
    pub job: Option<String>,
    /// Who chose its destination.
    pub owner: String,
    /// The owner as the caller of this crate identifies it, to ask for its rights again.
    pub subject: String,
    /// The kinds of jobs that it is about; all if empty.
    pub kinds: Vec<String>,
    /// When it was created.
    pub created: Timestamp,
    /// Whether it is in force.
    pub enabled: bool,
    /// Why it was taken out of force, if nobody asked for that.
    pub disabled_because: Option<String>,
    /// The transitions.
    pub transitions: Transitions,
    /// What has to hold in place of a transition.
    pub condition: Option<Condition>,
    /// The destination.
    pub destination: Destination,
    /// The key that signs its deliveries.
    pub secret: Secret,
}

/// A rule to be created or to replace one.
#[derive(Clone, Debug)]
pub struct NewRule {
    /// Its id, unique over all namespaces.
    pub id: String,
    /// The namespace of the jobs.
    pub namespace: String,
    /// The only job, by uid; without it, all jobs of the namespace.
    pub job: Option<String>,
    /// Who creates or replaces it.
    pub owner: String,
    /// The same as the caller of this crate identifies it, to ask for its rights again.
    pub subject: String,
    /// The kinds of jobs that the owner may see; all if empty.
    pub kinds: Vec<String>,
    /// Whether it is in force.
    pub enabled: bool,
    /// The transitions; without effect if there is a condition.
    pub transitions: Transitions,
    /// What has to hold in place of a transition.
    pub condition: Option<Condition>,
    /// The destination.
    pub destination: Destination,
    /// The key that signs its deliveries; without it, the present key stays, or a random one is created.
    pub secret: Option<Secret>,
}

/// Creates or replaces a rule. Returns it, and whether its key is new. Its creation stays, and so does its owner unless
/// another destination is chosen: the user who chooses a destination is responsible for what goes there.
///
/// # Errors
/// If the destination is not valid, the namespace has [`MAX_RULES`] rules, the id is that of a rule of another
/// namespace, or the store fails.
pub async fn put_rule(store: &Store, rule: NewRule, policy: &address::Policy) -> Result<(Rule, bool), Error> {
    match &rule.destination {
        Destination::Webhook { url } => drop(policy.target(url)?),
        Destination::Email { to } => policy.email(to)?,
    }
    let NewRule {
        id,
        namespace,
        job,
        owner,
        subject,
        kinds,
        enabled,
        transitions,
        condition,
        destination,
        secret,
    } = rule;
    let now = store.now().await?;
    let mut write = store.write().await?;
    let query = sqlx::query(RULE_BY_ID).bind(&namespace).bind(&id);
    let before = query.fetch_optional(&mut *write).await?.as_ref().map(rule_of).transpose()?;
    let is_new_secret = secret.is_some() || before.is_none();
    let created = before.as_ref().map_or(now, |before| before.created);
    let known = before.as_ref().map(|before| before.secret.clone());
    let about = (condition, job.as_deref(), enabled);
    let is_about_another = before
        .as_ref()
        .is_some_and(|before| (before.condition, before.job.as_deref(), before.enabled) != about);
    let others = before.filter(|before| before.destination == destination && before.owner != owner);
    let (owner, subject, kinds) = match others {
        Some(before) => (before.owner, before.subject, before.kinds),
        None => (owner, subject, kinds),
    };
    let secret = secret.or(known).map_or_else(Secret::random, Ok)?;
    let disabled_because = None;
    let rule = Rule {
        id,
        namespace,
        job,
        owner,
        subject,
        kinds,
        created,
        enabled,
        disabled_because,
        transitions,
        condition,
        destination,
        secret,
    };
    store_rule(&mut write, &rule).await?;
    if is_about_another {
        alerts::forget(&mut write, &rule.id).await?;
    }
    write.commit().await?;
    Ok((rule, is_new_secret))
}

async fn store_rule(write: &mut Write, rule: &Rule) -> Result<(), Error> {
    let text = |error: serde_json::Error| Error::Invalid(error.to_string());
    let stored = sqlx::query(
        "INSERT INTO notification_rules \
         (id, namespace, job_uid, owner, created, enabled, transitions, destination, secret, namespace_uid, \
         subject, kinds, condition) \
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, (SELECT n.uid FROM namespaces n WHERE n.name = $2), $11, $12, $13 \
         WHERE (SELECT COUNT(*) FROM notification_rules WHERE namespace = $2 AND id <> $1) < $10 \
         ON CONFLICT (id) DO UPDATE SET job_uid = excluded.job_uid, enabled = excluded.enabled, \
         owner = excluded.owner, subject = excluded.subject, kinds = excluded.kinds, disabled_because = NULL, \
         transitions = excluded.transitions, destination = excluded.destination, secret = excluded.secret, \
         namespace_uid = excluded.namespace_uid, condition = excluded.condition, evaluated = NULL \
         WHERE notification_rules.namespace = excluded.namespace",
    )
    .bind(&rule.id)
    .bind(&rule.namespace)
    .bind(&rule.job)
    .bind(&rule.owner)
    .bind(micros(rule.created))
    .bind(i64::from(rule.enabled))
    .bind(serde_json::to_string(&rule.transitions).map_err(text)?)
    .bind(serde_json::to_string(&rule.destination).map_err(text)?)
    .bind(rule.secret.bytes())
    .bind(MAX_RULES)
    .bind(&rule.subject)
    .bind(serde_json::to_string(&rule.kinds).map_err(text)?)
    .bind(rule.condition.map(|condition| serde_json::to_string(&condition)).transpose().map_err(text)?)
    .execute(&mut **write)
    .await?;
    if stored.rows_affected() == 0 {
        return Err(Error::Invalid(format!("a namespace has at most {MAX_RULES} notification rules")));
    }
    Ok(())
}

/// Takes a rule out of force, with its deliveries that wait, and says why.
///
/// # Errors
/// If the store fails.
pub async fn disable(store: &Store, id: &str, because: &str) -> Result<(), Error> {
    let mut write = store.write().await?;
    sqlx::query(
        "UPDATE notification_rules SET enabled = 0, disabled_because = $2 WHERE id = $1 AND enabled = 1",
    )
    .bind(id)
    .bind(because)
    .execute(&mut *write)
    .await?;
    sqlx::query(
        "UPDATE deliveries SET state = 'dead', lease = NULL WHERE rule_id = $1 AND state = 'pending'",
    )
    .bind(id)
    .execute(&mut *write)
    .await?;
    write.commit().await
}

/// Deletes a rule of a namespace, with its deliveries. Returns whether it was there.
///
/// # Errors
/// If the store fails.
pub async fn delete_rule(store: &Store, namespace: &str, id: &str) -> Result<bool, Error> {
    let query = sqlx::query("DELETE FROM notification_rules WHERE namespace = $1 AND id = $2");
    Ok(store.execute(query.bind(namespace).bind(id)).await? > 0)
}

/// The columns that [`rule_of`] reads.
macro_rules! rule_columns {
    () => {
        "id, namespace, job_uid, owner, created, enabled, transitions, destination, secret, subject, kinds, \
         disabled_because, condition"
    };
}
use rule_columns;

const RULE: &str =
    concat!("SELECT ", rule_columns!(), " FROM notification_rules WHERE namespace = $1 ORDER BY id LIMIT $2");

const RULE_BY_ID: &str =
    concat!("SELECT ", rule_columns!(), " FROM notification_rules WHERE namespace = $1 AND id = $2");

/// Returns a rule of a namespace.
///
/// # Errors
/// If the store fails.
pub async fn rule(store: &Store, namespace: &str, id: &str) -> Result<Option<Rule>, Error> {
    let query = sqlx::query(RULE_BY_ID).bind(namespace).bind(id);
    store.row(query).await?.as_ref().map(rule_of).transpose()
}

/// Returns the rules of a namespace.
///
/// # Errors
/// If the store fails.
pub async fn rules(store: &Store, namespace: &str) -> Result<Vec<Rule>, Error> {
    let rows = store.rows(sqlx::query(RULE).bind(namespace).bind(MAX_RULES)).await?;
    rows.iter().map(rule_of).collect()
}

fn rule_of(row: &AnyRow) -> Result<Rule, Error> {
    let damaged = |error: serde_json::Error| Error::damaged("a notification rule", error);
    Ok(Rule {
        id: row.try_get("id")?,
        namespace: row.try_get("namespace")?,
        job: row.try_get("job_uid")?,
        owner: row.try_get("owner")?,
        subject: row.try_get("subject")?,
        kinds: serde_json::from_str(&row.try_get::<String, _>("kinds")?).map_err(damaged)?,
        disabled_because: row.try_get("disabled_because")?,
        created: time(row.try_get("created")?)?,
        enabled: row.try_get::<i64, _>("enabled")? != 0,
        condition: row
            .try_get::<Option<String>, _>("condition")?
            .map(|text| serde_json::from_str(&text))
            .transpose()
            .map_err(damaged)?,
        transitions: serde_json::from_str(&row.try_get::<String, _>("transitions")?).map_err(damaged)?,
        destination: serde_json::from_str(&row.try_get::<String, _>("destination")?).map_err(damaged)?,
        secret: Secret(row.try_get("secret")?),
    })
}

/// A job has entered another phase, reason or cause, or a rule's condition has begun to hold for a job or a quota. Its JSON
/// is the body of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Transition {
    /// The job's uid.
    pub uid: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The resourceVersion.
    pub version: i64,
    /// When.
    pub at: Timestamp,
    /// The phase before, if there was one.
    pub from: Option<String>,
    /// The state as every interface shows it; empty in deliveries of an earlier version.
    #[serde(default)]
    pub state: String,
    /// The phase.
    pub phase: String,
    /// The reason.
    pub reason: Option<String>,
    /// The cause.
    pub cause: Option<String>,
    /// The message for people.
    pub message: Option<String>,
    /// The number of the attempt.
    pub attempt: u32,
    /// The condition that has begun to hold, if this is not a transition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
}

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
async fn enqueue_for(
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

/// The kind and the phase of a test delivery.
pub const TEST: &str = "Test";

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
struct Failure {
    text: String,
    /// The status of the answer, if there was one.
    status: Option<u16>,
    /// Whether another try cannot succeed.
    permanent: bool,
}

impl Failure {
    fn passing(text: String) -> Self {
        Self { text, status: None, permanent: false }
    }

    fn lasting(text: String) -> Self {
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

/// The state of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its id.
    pub id: String,
    /// The rule.
    pub rule: String,
    /// The job's uid.
    pub uid: String,
    /// When it was enqueued.
    pub created: Timestamp,
    /// `pending`, `delivered` or `dead`.
    pub state: String,
    /// The number of tries so far.
    pub tries: i64,
    /// What the last recorded try reported.
    pub status: Option<i64>,
    /// Its error.
    pub error: Option<String>,
}

impl Delivery {
    /// Returns the place of this delivery in [`deliveries`], to continue after.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor::new(self.created, &self.id)
    }
}

/// Which deliveries to return. The default is all.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    /// Only those in this state.
    pub state: Option<String>,
    /// Only those that may be seen.
    pub visible: Option<VisibleDeliveries>,
}

/// Which deliveries may be seen.
#[derive(Clone, Debug, Default)]
pub struct VisibleDeliveries {
    /// Those about these kinds: of jobs, or [`alerts::QUOTA`].
    pub kinds: Vec<String>,
    /// Tests of the rules with these ids.
    pub tests_of: Vec<String>,
}

/// Writes words, which have no commas, as a text in which queries look for `,word,`.
fn listed(words: &[String]) -> String {
    words.iter().fold(",".to_owned(), |text, word| text + word + ",")
}

/// Returns the deliveries of a namespace's rules, newest first, after a cursor.
///
/// # Errors
/// If the store fails.
pub async fn deliveries(
    store: &Store,
    namespace: &str,
    filter: &DeliveryFilter,
    after: Option<&Cursor>,
    limit: u32,
) -> Result<Vec<Delivery>, Error> {
    let query = sqlx::query(
        "SELECT d.id, d.rule_id, d.uid, d.created, d.state, d.tries, l.status, l.error FROM deliveries d \
         JOIN notification_rules r ON r.id = d.rule_id LEFT JOIN delivery_log l ON l.delivery_id = d.id \
         AND l.number = (SELECT MAX(number) FROM delivery_log WHERE delivery_id = d.id) \
         WHERE r.namespace = $1 AND ($2 IS NULL OR d.state = $2) \
         AND ($3 IS NULL OR d.created < $3 OR (d.created = $3 AND d.id < $4)) \
         AND ($6 IS NULL OR $6 LIKE '%,' || d.kind || ',%' \
            OR (d.kind = $8 AND $7 LIKE '%,' || d.rule_id || ',%')) \
         ORDER BY d.created DESC, d.id DESC LIMIT $5",
    )
    .bind(namespace)
    .bind(filter.state.as_deref())
    .bind(after.map(Cursor::micros))
    .bind(after.map(Cursor::id))
    .bind(i64::from(limit.min(MAX_PAGE)))
    .bind(filter.visible.as_ref().map(|visible| listed(&visible.kinds)))
    .bind(filter.visible.as_ref().map(|visible| listed(&visible.tests_of)))
    .bind(TEST);
    let delivery = |row: &AnyRow| {
        Ok(Delivery {
            id: row.try_get(0)?,
            rule: row.try_get(1)?,
            uid: row.try_get(2)?,
            created: time(row.try_get(3)?)?,
            state: row.try_get(4)?,
            tries: row.try_get(5)?,
            status: row.try_get(6)?,
            error: row.try_get(7)?,
        })
    };
    store.rows(query).await?.iter().map(delivery).collect()
}

/// One recorded try of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    /// Its number, from 1.
    pub number: i64,
    /// When its outcome was recorded.
    pub at: Timestamp,
    /// How long it took, in milliseconds.
    pub milliseconds: i64,
    /// The status of the answer, if there was one.
    pub status: Option<i64>,
    /// Why it failed; `None` if it was delivered.
    pub error: Option<String>,
}

/// Returns the tries of a delivery of a namespace's rules in order, the last [`MAX_PAGE`] of them.
///
/// # Errors
/// If the store fails.
pub async fn tries(store: &Store, namespace: &str, id: &str) -> Result<Vec<Try>, Error> {
    let query = sqlx::query(
        "SELECT l.number, l.at, l.milliseconds, l.status, l.error FROM delivery_log l \
         JOIN deliveries d ON d.id = l.delivery_id JOIN notification_rules r ON r.id = d.rule_id \
         WHERE r.namespace = $1 AND d.id = $2 ORDER BY l.number DESC LIMIT $3",
    );
    let one = |row: &AnyRow| {
        Ok(Try {
            number: row.try_get(0)?,
            at: time(row.try_get(1)?)?,
            milliseconds: row.try_get(2)?,
            status: row.try_get(3)?,
            error: row.try_get(4)?,
        })
    };
    let rows = store.rows(query.bind(namespace).bind(id).bind(i64::from(MAX_PAGE))).await?;
    rows.iter().rev().map(one).collect()
}

/// Makes a dead letter of a namespace due again, as if it had never been tried. Returns whether there was one.
///
/// # Errors
/// If the store fails.
pub async fn revive(store: &Store, namespace: &str, id: &str) -> Result<bool, Error> {
    let query = sqlx::query(
        "UPDATE deliveries SET state = 'pending', due = 0, tries = 0 WHERE id = $2 AND state = 'dead' \
         AND rule_id IN (SELECT id FROM notification_rules WHERE namespace = $1)",
    );
    Ok(store.execute(query.bind(namespace).bind(id)).await? > 0)
}

/// Forgets deliveries that ended before a time, and their log. Returns their number.
///
/// # Errors
/// If the store fails.
pub async fn prune(store: &Store, before: Timestamp) -> Result<u64, Error> {
    let query = sqlx::query(
        "DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE state <> 'pending' AND created < $1 \
         ORDER BY created LIMIT 500)",
    );
    store.execute(query.bind(micros(before))).await
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

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::new(b"an-unguessable-key-of-24".to_vec()).unwrap();
        assert!(!format!("{secret:?}").contains("unguessable"));
        assert!(Secret::new(b"short".to_vec()).is_err());
    }
}
