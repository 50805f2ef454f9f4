//! The program on the store of a later release.

use history::store::Location;

use crate::place::on_each;
use crate::site::Site;
use crate::stage::PATIENCE;

#[test]
fn the_program_ends_at_a_store_of_a_later_release_and_names_it() {
    on_each(async |place| {
        let site = Site::new().await;
        place.open().await.close().await;
        sqlx::query("UPDATE schema_version SET version = 999").execute(&place.raw().await).await.unwrap();
        let ended = tokio::time::timeout(PATIENCE, site.command(place, &[]).output()).await;
        let output = ended.unwrap().unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{log}");
        let named = match &place.location {
            Location::File(file) => file.display().to_string(),
            Location::Postgres(_) => "in PostgreSQL".to_owned(),
        };
        let refusal = format!("the store {named} has schema version 999; this release knows up to ");
        for part in [refusal.as_str(), ": upgrade the training service, or give it another store"] {
            assert!(log.contains(part), "{part}: {log}");
        }
        if let Location::Postgres(url) = &place.location {
            assert!(!log.contains(url), "the address may hold a password: {log}");
        }
        site.cluster.stop().await;
    });
}
