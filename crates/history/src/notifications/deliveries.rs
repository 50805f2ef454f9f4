//! What became of deliveries, and how each try went.

use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::transition::TEST;
use crate::error::Error;
use crate::store::{Cursor, Store, micros, time};

/// The maximum number of rows in one page.
pub const MAX_PAGE: u32 = 500;

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
