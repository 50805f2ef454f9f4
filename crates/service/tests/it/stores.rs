//! The same tests with SQLite and with PostgreSQL. Tests that look at what is kept run with both one after the other
//! (`on_each`). All others run with SQLite, and once more in a second process of this program with PostgreSQL.

use std::path::Path;
use std::process::Command;

use service::Keep;

use crate::place;

/// Set to `postgres` to keep everything of a stage in PostgreSQL.
const STORE: &str = "ODH_TEST_STORE";
/// Modules whose tests run with both, or need no store.
const WITH_BOTH: [&str; 8] =
    ["auditing::", "contract::", "install::", "keeping::", "kills::", "newer::", "notifying::", "traces::"];

/// Where a stage keeps everything: in this folder, or in a database of its own.
pub async fn keep(folder: &Path) -> Keep {
    if std::env::var_os(STORE).is_none() {
        return Keep::in_folder(folder);
    }
    let place = place::postgres().await.unwrap();
    Keep { logs: Some(folder.join("logs")), ..Keep::in_database(place.settings()) }
}

#[test]
fn every_test_passes_with_postgresql_too() {
    if std::env::var_os(STORE).is_some() || place::programs().is_none() {
        return;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.env(STORE, "postgres").args(["--test-threads", "2", "--skip", "every_method::"]);
    WITH_BOTH.iter().for_each(|module| {
        again.args(["--skip", module]);
    });
    let output = again.output().unwrap();
    let [text, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "with PostgreSQL:\n{text}\n{errors}");
    assert!(!text.contains("running 0 tests"), "{text}");
}
