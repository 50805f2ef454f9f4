//! `kill -9` at any moment loses nothing that was acknowledged.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use history::audit::{self, Verification};
use history::jobs;
use history::logs::maintain::{repair, sweep};
use history::logs::{Archive, Line, Selection, append, next_line, pack_due};
use history::notifications::address::Policy;
use history::notifications::{self, Destination, NewRule, Transitions};
use history::store::{Location, Settings};
use history::{Error, Store};
use jiff::Timestamp;

use crate::audit::entry;
use crate::bucket::{on_each_archive, open_archive};
use crate::jobs::seen;
use crate::logs::source;
use crate::notifications::ALL;
use crate::place::at;

/// Where the child's store is.
const STORE: &str = "HISTORY_TEST_STORE";
/// Where the child's chunks are: the address of a server, if there is one, and a folder.
const ENDPOINT: &str = "HISTORY_TEST_ENDPOINT";
const CHUNKS: &str = "HISTORY_TEST_CHUNKS";
/// The number of the child's first step.
const FIRST: &str = "HISTORY_TEST_FIRST";
/// What the child prints before the number of a step that was acknowledged.
const ACKNOWLEDGED: &str = "acknowledged ";
/// How often the child is killed.
const ROUNDS: usize = 6;

#[test]
fn what_was_acknowledged_survives_a_kill_at_any_moment() {
    if std::env::var_os(STORE).is_some() {
        return child();
    }
    on_each_archive(async |home| {
        let place = home.place;
        let text = place_as_text(&place.location);
        let rule = NewRule {
            id: "rule".to_owned(),
            namespace: "team-cv".to_owned(),
            job: None,
            owner: "jane".to_owned(),
            subject: String::new(),
            kinds: Vec::new(),
            enabled: true,
            transitions: Transitions::default(),
            condition: None,
            destination: Destination::Webhook { url: "https://example.com/".to_owned() },
            secret: None,
        };
        notifications::put_rule(&place.open().await, rule, &Policy::default()).await.unwrap();
        let (mut acknowledged, mut first) = (Vec::new(), 0);
        for round in 0..ROUNDS {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "kills::what_was_acknowledged_survives_a_kill_at_any_moment",
                    "--nocapture",
                ])
                .envs([(STORE, text.as_str()), (FIRST, &first.to_string())])
                .env(CHUNKS, home.folder())
                .envs(home.endpoint().map(|endpoint| (ENDPOINT, endpoint)))
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let number =
                |line: &String| line.strip_prefix(ACKNOWLEDGED).and_then(|number| number.parse::<i64>().ok());
            let before = acknowledged.len();
            let until = before + 1 + round * 7;
            while acknowledged.len() < until {
                acknowledged.extend(number(&lines.next().unwrap().unwrap()));
            }
            // SIGKILL, while it is at the next step.
            child.kill().unwrap();
            // A line that the kill cut off acknowledges nothing.
            acknowledged.extend(lines.map_while(Result::ok).filter_map(|line| number(&line)));
            child.wait().unwrap();
            first = acknowledged.last().unwrap() + 1;
        }
        let archive = home.archive().await;
        check(&place.open().await, &archive, &acknowledged).await;
    });
}

async fn check(store: &Store, archive: &Archive, acknowledged: &[i64]) {
    let Verification::Intact { lines, .. } = audit::verify(store, &[]).await.unwrap() else { unreachable!() };
    assert!(lines >= u64::try_from(acknowledged.len()).unwrap());
    assert_eq!(repair(archive).await.unwrap().truncated, 0);
    sweep(archive, Timestamp::MAX).await.unwrap();
    let all = Selection { uid: "uid".to_owned(), ..Selection::default() };
    let logs = crate::logs::texts(archive, &all).await;
    let mut once = logs.clone();
    once.dedup();
    assert_eq!(once, logs, "no line twice");
    for number in acknowledged {
        let request = entry(&format!("request {number}"));
        assert_eq!(audit::append(store, &[request]).await.unwrap(), [None], "audit line {number}");
        let job = jobs::job(store, &format!("job {number}")).await.unwrap();
        assert!(job.is_some(), "job {number}");
        assert!(logs.contains(&format!("w: of step {number}")), "log line {number}");
    }
    // Jobs and notifications are stored together or not at all.
    let jobs = jobs::jobs(store, &jobs::Filter::default(), None, 1000).await.unwrap().len();
    let deliveries = notifications::deliveries(store, "team-cv", &ALL, None, 500).await.unwrap().len();
    assert_eq!(deliveries, jobs);
}

fn place_as_text(location: &Location) -> String {
    match location {
        Location::File(path) => path.display().to_string(),
        Location::Postgres(url) => url.clone(),
    }
}

fn child() {
    let text = std::env::var(STORE).unwrap();
    let location = match text.starts_with("postgres://") {
        true => Location::Postgres(text),
        false => Location::File(text.into()),
    };
    let first: i64 = std::env::var(FIRST).unwrap().parse().unwrap();
    let chunks = std::env::var_os(CHUNKS).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(Settings::new(location)).await.unwrap();
        let archive =
            open_archive(store.clone(), std::env::var(ENDPOINT).ok(), std::path::Path::new(&chunks)).await;
        // Bounded, in case that nobody kills it.
        for number in first..first + 10_000 {
            step(&store, &archive, number).await.unwrap();
            let mut out = std::io::stdout().lock();
            // One write, so that the line arrives whole.
            out.write_all(format!("\n{ACKNOWLEDGED}{number}\n").as_bytes()).unwrap();
            out.flush().unwrap();
        }
    });
}

async fn step(store: &Store, archive: &Archive, number: i64) -> Result<(), Error> {
    audit::append(store, &[entry(&format!("request {number}"))]).await?;
    jobs::record(store, &[seen(&format!("job {number}"), 1, "Pending")]).await?;
    let next = next_line(archive, &source("w")).await?;
    let line = Line { at: at(number), text: format!("of step {number}") };
    append(archive, &source("w"), next, &[line]).await?;
    if number % 5 == 4 {
        pack_due(archive, Timestamp::MAX).await?;
    }
    Ok(())
}
