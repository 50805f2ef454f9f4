//! Rules: who wants to know what, and where it goes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::alerts::{self, Condition};
use super::transition::Transitions;
use super::{Secret, address};
use crate::error::Error;
use crate::store::{Store, Write, micros, time};

/// The maximum number of rules of a namespace.
pub const MAX_RULES: i64 = 100;

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
    /// The key that signs its deliveries; without it, the present key stays as long as the owner does, or a random one is
    /// created.
    pub secret: Option<Secret>,
}

/// Creates or replaces a rule. Returns it, and whether its key is new. Its creation stays, and so does its owner unless
/// another destination is chosen: the user who chooses a destination is responsible for what goes there. The key of another
/// owner, who may know it, does not sign what goes there.
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
    let created = before.as_ref().map_or(now, |before| before.created);
    let about = (condition, job.as_deref(), enabled);
    let is_about_another = before
        .as_ref()
        .is_some_and(|before| (before.condition, before.job.as_deref(), before.enabled) != about);
    let (owner, subject, kinds, known) = match before {
        Some(before) if before.owner == owner => (owner, subject, kinds, Some(before.secret)),
        Some(before) if before.destination == destination => {
            (before.owner, before.subject, before.kinds, Some(before.secret))
        }
        _ => (owner, subject, kinds, None),
    };
    let is_new_secret = secret.is_some() || known.is_none();
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
pub(super) use rule_columns;

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

pub(super) fn rule_of(row: &AnyRow) -> Result<Rule, Error> {
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
