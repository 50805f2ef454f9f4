//! Compares the embedded server with recorded answers of a real one, and checks the page of known differences.

use conformance::run::Twins;
use conformance::{known, recorded};
use futures::StreamExt as _;

const RECORDED: &str = include_str!("../../recorded.jsonl");
const PAGE: &str = "docs/reference/twin-replay.md";
/// Concurrent programs.
const SIDE_BY_SIDE: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn recorded_programs_are_answered_as_a_real_server_answered_them() {
    let list = known::list().unwrap();
    let twins = Twins::start(None, list.clone()).await.unwrap();
    let records = recorded::read(RECORDED).unwrap();
    assert!(!records.is_empty());
    let mut checked = futures::stream::iter(&records)
        .map(|record| async { (record.program.seed, recorded::check(&twins, record, &list).await.unwrap()) })
        .buffer_unordered(SIDE_BY_SIDE);
    let mut different = Vec::new();
    while let Some((seed, differences)) = checked.next().await {
        different.extend(differences.iter().map(|difference| format!("program {seed}, {difference}")));
    }
    drop(checked);
    twins.stop().await;
    assert!(
        different.is_empty(),
        "{} of {} programs:\n{}",
        different.len(),
        records.len(),
        different.join("\n")
    );
}

#[test]
fn generated_page_of_known_differences_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let page = known::page(&known::list().unwrap());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), page, "run `cargo xtask gen`");
}
