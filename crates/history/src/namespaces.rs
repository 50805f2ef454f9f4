//! Which namespace has a name now. A namespace can be deleted and its name used again, by others: what was recorded belongs to
//! the namespace's UID, and a name stands for the namespace that has it now.
//!
//! What is recorded is given the UID of the namespace that has the name, if that is not younger. A replica may report a
//! job before the new namespace of its name; what is younger than the new namespace is moved to it once that is known.
//! Kubernetes' times are whole seconds: what was given to the former namespace within the second in which the new one was
//! created stays there.

use jiff::Timestamp;
use sqlx::Row as _;

use crate::error::Error;
use crate::store::{Store, micros, time};

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// When it was created.
    pub created: Timestamp,
}

/// Whose records of a namespace's name are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tenant {
    /// Those of every namespace that has or had the name.
    #[default]
    Any,
    /// Those of the namespace that has the name now.
    Present,
}

impl Tenant {
    /// Returns what queries compare with 1.
    pub(crate) fn is_any(self) -> i64 {
        i64::from(self == Self::Any)
    }
}

/// Records that a namespace is there. Notification rules of another namespace of its name are deleted.
///
/// # Errors
/// If the store fails.
pub async fn learn(store: &Store, namespace: &Namespace) -> Result<(), Error> {
    let Namespace { name, uid, created } = namespace;
    let created = micros(*created);
    let known = sqlx::query("SELECT uid FROM namespaces WHERE name = $1 AND uid = $2").bind(name).bind(uid);
    if store.row(known).await?.is_some() {
        return Ok(());
    }
    let mut write = store.write().await?;
    // A replica that has not seen the new namespace yet does not bring the old one back.
    let stored = sqlx::query(
        "INSERT INTO namespaces (name, uid, created) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET \
         uid = excluded.uid, created = excluded.created WHERE excluded.created >= namespaces.created",
    )
    .bind(name)
    .bind(uid)
    .bind(created)
    .execute(&mut *write)
    .await?;
    if stored.rows_affected() == 0 {
        return Ok(());
    }
    let recorded = [
        "UPDATE jobs SET namespace_uid = $2 \
         WHERE namespace = $1 AND (created > $3 OR (namespace_uid IS NULL AND created >= $3))",
        "UPDATE notification_rules SET namespace_uid = $2 \
         WHERE namespace = $1 AND namespace_uid IS NULL AND created >= $3",
    ];
    for sql in recorded {
        sqlx::query(sql).bind(name).bind(uid).bind(created).execute(&mut *write).await?;
    }
    sqlx::query(
        "UPDATE usage_intervals SET namespace_uid = $2 WHERE namespace = $1 \
         AND (started > $3 OR (namespace_uid IS NULL AND started >= $3) \
            OR uid IN (SELECT j.uid FROM jobs j WHERE j.namespace_uid = $2))",
    )
    .bind(name)
    .bind(uid)
    .bind(namespace.created.as_second())
    .execute(&mut *write)
    .await?;
    sqlx::query(
        "DELETE FROM notification_rules WHERE namespace = $1 AND (namespace_uid IS NULL OR namespace_uid <> $2)",
    )
    .bind(name)
    .bind(uid)
    .execute(&mut *write)
    .await?;
    write.commit().await
}

/// Records that a namespace is gone, and deletes its notification rules.
///
/// # Errors
/// If the store fails.
pub async fn forget(store: &Store, name: &str, uid: &str) -> Result<(), Error> {
    let mut write = store.write().await?;
    sqlx::query("DELETE FROM namespaces WHERE name = $1 AND uid = $2")
        .bind(name)
        .bind(uid)
        .execute(&mut *write)
        .await?;
    sqlx::query("DELETE FROM notification_rules WHERE namespace_uid = $1")
        .bind(uid)
        .execute(&mut *write)
        .await?;
    write.commit().await
}

/// Returns all namespaces that are known to be there.
///
/// # Errors
/// If the store fails.
pub async fn all(store: &Store) -> Result<Vec<Namespace>, Error> {
    let rows = store.rows(sqlx::query("SELECT name, uid, created FROM namespaces ORDER BY name")).await?;
    let namespace = |row: &sqlx::any::AnyRow| {
        Ok(Namespace { name: row.try_get(0)?, uid: row.try_get(1)?, created: time(row.try_get(2)?)? })
    };
    rows.iter().map(namespace).collect()
}
