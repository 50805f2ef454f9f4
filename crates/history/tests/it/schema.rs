//! Opening and migrating.

use std::os::unix::fs::PermissionsExt as _;

use history::store::{Dialect, Location};
use history::{Error, Store};
use sqlx::Row as _;

use crate::place::{Place, on_each, on_sqlite};

/// Everything that makes up the schema, as text.
async fn schema(place: &Place) -> Vec<String> {
    let queries: &[&'static str] = match place.dialect() {
        Dialect::Sqlite => &["SELECT type || ' ' || name || ' ' || COALESCE(sql, '') FROM sqlite_master"],
        Dialect::Postgres => &[
            "SELECT CAST(table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable AS TEXT) \
             FROM information_schema.columns WHERE table_schema = 'public'",
            "SELECT CAST(indexdef AS TEXT) FROM pg_indexes WHERE schemaname = 'public'",
            "SELECT CAST(pg_get_triggerdef(oid) AS TEXT) FROM pg_trigger WHERE NOT tgisinternal",
            "SELECT CAST(pg_get_constraintdef(oid) AS TEXT) FROM pg_constraint \
             WHERE connamespace = 'public'::regnamespace",
            "SELECT CAST(proname || prosrc AS TEXT) FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
        ],
    };
    let pool = place.raw().await;
    let mut found = Vec::new();
    for query in queries {
        let rows = sqlx::query(*query).fetch_all(&pool).await.unwrap();
        found.extend(rows.iter().map(|row| row.get::<String, _>(0)));
    }
    found.sort();
    found
}

#[test]
fn every_migration_can_be_reverted_and_applied_again() {
    on_each(async |place| {
        let store = place.open().await;
        let newest = schema(place).await;
        assert!(newest.len() > 20, "{newest:?}");
        for version in (0..=9).rev() {
            store.migrate_down(version).await.unwrap();
        }
        let nothing = schema(place).await;
        assert!(nothing.iter().all(|part| part.contains("schema_version")), "{nothing:?}");
        store.migrate_up().await.unwrap();
        assert_eq!(schema(place).await, newest);
    });
}

#[test]
fn replicas_that_start_together_migrate_once() {
    on_each(async |place| {
        let opened = futures::future::join_all((0..8).map(|_| Store::open(place.settings()))).await;
        for store in opened {
            store.unwrap().now().await.unwrap();
        }
    });
}

#[test]
fn a_store_of_a_newer_program_is_refused_and_left_alone() {
    on_each(async |place| {
        place.open().await.close().await;
        sqlx::query("UPDATE schema_version SET version = 99").execute(&place.raw().await).await.unwrap();
        let before = schema(place).await;
        let error = Store::open(place.settings()).await.unwrap_err();
        assert!(matches!(error, Error::TooNew { found: 99, .. }), "{error}");
        let named = match &place.location {
            Location::File(file) => file.display().to_string(),
            Location::Postgres(_) => "in PostgreSQL".to_owned(),
        };
        let expected = format!("the store {named} has schema version 99; this release knows up to ");
        assert!(error.to_string().starts_with(&expected), "{error}");
        assert_eq!(schema(place).await, before);
    });
}

#[test]
fn only_the_owner_can_read_the_files() {
    on_sqlite(async |place| {
        let store = place.open().await;
        store.now().await.unwrap();
        let Location::File(file) = &place.location else { unreachable!() };
        let folder = file.parent().unwrap();
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap()).collect();
        assert!(files.len() > 1, "the log is there too: {files:?}");
        for file in files {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
        }
    });
}
