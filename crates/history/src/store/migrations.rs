//! The schema, as numbered migrations that are applied in order and can be reverted.
//!
//! All missing migrations run in one transaction under a lock, so several processes may open a store at once, and one
//! that is killed leaves the previous schema.

use sqlx::{AssertSqlSafe, Row as _};

use super::{Dialect, Store, Write};
use crate::error::Error;

/// One step of the schema. Each text may hold several statements; `{BYTES}` is the type of bytes.
struct Migration {
    number: i64,
    up: &'static str,
    down: &'static str,
    /// What only one database has: triggers.
    up_sqlite: &'static str,
    up_postgres: &'static str,
    down_postgres: &'static str,
}

impl Migration {
    /// A step that is the same in both databases.
    const fn for_both(number: i64, up: &'static str, down: &'static str) -> Self {
        Self { number, up, down, up_sqlite: "", up_postgres: "", down_postgres: "" }
    }
}

/// The migrations, in the order of their numbers.
const ALL: &[Migration] = &[
    Migration::for_both(
        1,
        include_str!("../../migrations/0001_jobs.up.sql"),
        include_str!("../../migrations/0001_jobs.down.sql"),
    ),
    Migration {
        number: 2,
        up: include_str!("../../migrations/0002_audit.up.sql"),
        down: include_str!("../../migrations/0002_audit.down.sql"),
        up_sqlite: include_str!("../../migrations/0002_audit.up.sqlite.sql"),
        up_postgres: include_str!("../../migrations/0002_audit.up.postgres.sql"),
        down_postgres: include_str!("../../migrations/0002_audit.down.postgres.sql"),
    },
    Migration::for_both(
        3,
        include_str!("../../migrations/0003_usage.up.sql"),
        include_str!("../../migrations/0003_usage.down.sql"),
    ),
    Migration::for_both(
        4,
        include_str!("../../migrations/0004_notifications.up.sql"),
        include_str!("../../migrations/0004_notifications.down.sql"),
    ),
    Migration::for_both(
        5,
        include_str!("../../migrations/0005_logs.up.sql"),
        include_str!("../../migrations/0005_logs.down.sql"),
    ),
    Migration::for_both(
        6,
        include_str!("../../migrations/0006_log_archive.up.sql"),
        include_str!("../../migrations/0006_log_archive.down.sql"),
    ),
    Migration::for_both(
        7,
        include_str!("../../migrations/0007_gpu_models.up.sql"),
        include_str!("../../migrations/0007_gpu_models.down.sql"),
    ),
    Migration::for_both(
        8,
        include_str!("../../migrations/0008_peaks.up.sql"),
        include_str!("../../migrations/0008_peaks.down.sql"),
    ),
    Migration::for_both(
        9,
        include_str!("../../migrations/0009_namespaces.up.sql"),
        include_str!("../../migrations/0009_namespaces.down.sql"),
    ),
    Migration::for_both(
        10,
        include_str!("../../migrations/0010_rule_rights.up.sql"),
        include_str!("../../migrations/0010_rule_rights.down.sql"),
    ),
    Migration::for_both(
        11,
        include_str!("../../migrations/0011_printed.up.sql"),
        include_str!("../../migrations/0011_printed.down.sql"),
    ),
    Migration::for_both(
        12,
        include_str!("../../migrations/0012_alerts.up.sql"),
        include_str!("../../migrations/0012_alerts.down.sql"),
    ),
    Migration::for_both(
        13,
        include_str!("../../migrations/0013_kinds.up.sql"),
        include_str!("../../migrations/0013_kinds.down.sql"),
    ),
    Migration::for_both(
        14,
        include_str!("../../migrations/0014_sessions.up.sql"),
        include_str!("../../migrations/0014_sessions.down.sql"),
    ),
    Migration::for_both(
        15,
        include_str!("../../migrations/0015_printed_values.up.sql"),
        include_str!("../../migrations/0015_printed_values.down.sql"),
    ),
];

/// The key of PostgreSQL's advisory lock: "odhstore" in ASCII.
const LOCK: i64 = 0x6f64_6873_746f_7265;

/// Applies all missing migrations.
pub(crate) async fn up(store: &Store) -> Result<(), Error> {
    let mut write = begin(store).await?;
    let found = version(&mut write).await?;
    let known = ALL.last().map_or(0, |last| last.number);
    if found > known {
        return Err(Error::TooNew { place: store.settings.location.to_string(), found, known });
    }
    for migration in ALL.iter().filter(|migration| migration.number > found) {
        let own = match store.dialect() {
            Dialect::Sqlite => migration.up_sqlite,
            Dialect::Postgres => migration.up_postgres,
        };
        run(&mut write, store.dialect(), &[migration.up, own]).await?;
        set_version(&mut write, migration.number).await?;
    }
    write.commit().await
}

/// Reverts all migrations above a version, newest first.
pub(crate) async fn down(store: &Store, to: i64) -> Result<(), Error> {
    let mut write = begin(store).await?;
    let found = version(&mut write).await?;
    for migration in ALL.iter().rev().filter(|migration| migration.number > to && migration.number <= found) {
        // SQLite drops triggers with their table.
        let own = match store.dialect() {
            Dialect::Sqlite => "",
            Dialect::Postgres => migration.down_postgres,
        };
        run(&mut write, store.dialect(), &[migration.down, own]).await?;
        let before = ALL.iter().rev().find(|before| before.number < migration.number);
        set_version(&mut write, before.map_or(0, |before| before.number)).await?;
    }
    write.commit().await
}

/// Begins the one migrating transaction of all processes.
async fn begin(store: &Store) -> Result<Write, Error> {
    let mut write = store.write().await?;
    if store.dialect() == Dialect::Postgres {
        // Another replica may be migrating for longer than a statement may usually take.
        sqlx::raw_sql("SET LOCAL lock_timeout = '120s'; SET LOCAL statement_timeout = '120s';")
            .execute(&mut *write)
            .await?;
        sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *write).await?;
    }
    sqlx::raw_sql("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")
        .execute(&mut *write)
        .await?;
    Ok(write)
}

async fn version(write: &mut Write) -> Result<i64, Error> {
    let row = sqlx::query("SELECT version FROM schema_version").fetch_optional(&mut **write).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.unwrap_or(0))
}

async fn set_version(write: &mut Write, version: i64) -> Result<(), Error> {
    sqlx::query("DELETE FROM schema_version").execute(&mut **write).await?;
    sqlx::query("INSERT INTO schema_version (version) VALUES ($1)")
        .bind(version)
        .execute(&mut **write)
        .await?;
    Ok(())
}

async fn run(write: &mut Write, dialect: Dialect, texts: &[&str]) -> Result<(), Error> {
    let bytes = match dialect {
        Dialect::Sqlite => "BLOB",
        Dialect::Postgres => "BYTEA",
    };
    for text in texts.iter().filter(|text| !text.trim().is_empty()) {
        sqlx::raw_sql(AssertSqlSafe(text.replace("{BYTES}", bytes))).execute(&mut **write).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_in_the_order_of_their_numbers() {
        assert!(ALL.iter().map(|migration| migration.number).is_sorted_by(|one, next| one < next));
    }
}
