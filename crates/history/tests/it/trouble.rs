//! A locked and a full store.

use std::time::Duration;

use history::audit::{self, Verification};
use history::store::{Dialect, Settings};
use history::{Error, Store};
use sqlx::Connection as _;

use crate::audit::entry;
use crate::place::{on_each, on_sqlite};

#[test]
fn a_locked_store_says_so_and_loses_nothing() {
    on_each(async |place| {
        let settings = Settings { lock_timeout: Duration::from_millis(50), ..place.settings() };
        let store = Store::open(settings).await.unwrap();
        audit::append(&store, &[entry("one")]).await.unwrap();
        let mut other = place.raw().await.acquire().await.unwrap().detach();
        let lock = match place.dialect() {
            Dialect::Sqlite => "BEGIN IMMEDIATE",
            Dialect::Postgres => "BEGIN; LOCK TABLE audit_head IN ACCESS EXCLUSIVE MODE",
        };
        sqlx::raw_sql(lock).execute(&mut other).await.unwrap();
        let error = audit::append(&store, &[entry("two")]).await.unwrap_err();
        assert!(matches!(error, Error::Locked), "{error:?}");
        sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
        other.close().await.unwrap();
        assert_eq!(audit::append(&store, &[entry("two")]).await.unwrap(), [Some(2)]);
    });
}

#[test]
fn a_writer_that_is_dropped_halfway_leaves_the_store_usable() {
    on_each(async |place| {
        let store = place.open().await;
        let entries: Vec<_> = (0..500).map(|number| entry(&format!("request {number}"))).collect();
        let dropped = tokio::time::timeout(Duration::from_millis(1), audit::append(&store, &entries)).await;
        let before = if dropped.is_ok() { 500 } else { 0 };
        assert_eq!(audit::append(&store, &[entry("next")]).await.unwrap(), [Some(before + 1)]);
    });
}

#[test]
fn the_used_room_is_a_part_of_each_bound_that_is_known() {
    on_each(async |place| {
        let used = place.open().await.used().await.unwrap();
        assert_eq!((used.disk.is_some(), used.size), (place.dialect() == Dialect::Sqlite, None));
    });
    on_sqlite(async |place| {
        let settings = Settings { max_bytes: Some(2 << 20), ..place.settings() };
        let store = Store::open(settings).await.unwrap();
        let before = store.used().await.unwrap();
        let batch: Vec<_> = (0..10).map(|number| entry(&format!("{number} {}", "x".repeat(8000)))).collect();
        audit::append(&store, &batch).await.unwrap();
        let after = store.used().await.unwrap();
        let (Some(before), Some(after), Some(disk)) = (before.size, after.size, after.disk) else {
            unreachable!("all bounds are known")
        };
        assert!(0.0 < before && before < after && after < 1.0, "{before} {after}");
        assert!((0.0..=1.0).contains(&disk), "{disk}");
    });
}

#[test]
fn a_full_store_says_so_and_keeps_what_it_acknowledged() {
    on_sqlite(async |place| {
        let settings = Settings { max_bytes: Some(1 << 20), ..place.settings() };
        let store = Store::open(settings).await.unwrap();
        let mut acknowledged = 0;
        let error = loop {
            let batch: Vec<_> = (0..10)
                .map(|number| entry(&format!("{acknowledged} {number} {}", "x".repeat(1000))))
                .collect();
            match audit::append(&store, &batch).await {
                Ok(_) => acknowledged += 10,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Full(_)), "{error:?}");
        assert!(acknowledged > 50, "{acknowledged}");
        let Verification::Intact { lines, .. } = audit::verify(&store, &[]).await.unwrap() else {
            unreachable!()
        };
        assert_eq!(lines, acknowledged);
        store.close().await;
        let store = place.open().await;
        audit::append(&store, &[entry("there is room again")]).await.unwrap();
    });
}

#[test]
fn a_store_that_was_full_works_as_soon_as_there_is_room_again() {
    on_sqlite(async |place| {
        let settings = Settings { max_bytes: Some(1 << 20), ..place.settings() };
        let store = Store::open(settings.clone()).await.unwrap();
        audit::append(&store, &[entry("first")]).await.unwrap();
        let others = place.raw().await;
        sqlx::raw_sql("CREATE TABLE others (data TEXT)").execute(&others).await.unwrap();
        for _ in 0..2 * (1 << 20) / 4096 {
            sqlx::raw_sql("INSERT INTO others VALUES (hex(zeroblob(2000)))").execute(&others).await.unwrap();
        }
        // More writers than connections, so that each connection fails.
        let large = |number: u32| entry(&format!("{number} {}", "x".repeat(8000)));
        for number in 0..4 * settings.connections {
            let error = audit::append(&store, &[large(number)]).await.unwrap_err();
            assert!(matches!(error, Error::Full(_)), "{error:?}");
        }
        sqlx::raw_sql("DROP TABLE others").execute(&others).await.unwrap();
        let writers = (0..4 * settings.connections).map(|number| {
            let (store, entry) = (&store, large(1000 + number));
            async move { audit::append(store, &[entry]).await }
        });
        for written in futures::future::join_all(writers).await {
            assert!(written.unwrap().first().is_some_and(Option::is_some));
        }
        let lines = u64::from(1 + 4 * settings.connections);
        assert!(
            matches!(audit::verify(&store, &[]).await.unwrap(), Verification::Intact { lines: found, .. } if found == lines)
        );
    });
}
