//! The history of jobs.

use history::jobs::{
    self, Attempt, Filter, MAX_LAST_LINES_BYTES, Observation, Recorded, Retention, State, Workers, record,
};
use history::{Error, Store};
use serde_json::json;

use crate::place::{at, on_each};

/// A job as seen at a version.
pub fn seen(uid: &str, version: i64, phase: &str) -> Observation {
    Observation {
        uid: uid.to_owned(),
        kind: "MPIJob".to_owned(),
        namespace: "team-cv".to_owned(),
        name: format!("name-of-{uid}"),
        owner: Some("jane".to_owned()),
        created: at(0),
        started: None,
        finished: None,
        version,
        at: at(version),
        state: State {
            phase: phase.to_owned(),
            workers: Workers { running: 1, pending: 0, failed: 0, of: 2 },
            ..State::default()
        },
        shown: format!("{phase} (Shown)"),
        spec: None,
    }
}

async fn history(store: &Store, uid: &str) -> Vec<(i64, String)> {
    let changes = jobs::changes(store, uid, (None, None), 0, 100).await.unwrap();
    changes.into_iter().map(|change| (change.version, change.state.phase)).collect()
}

fn expected(changes: &[(i64, &str)]) -> Vec<(i64, String)> {
    changes.iter().map(|(version, phase)| (*version, (*phase).to_owned())).collect()
}

#[test]
fn only_changes_are_stored_and_each_once() {
    on_each(async |place| {
        let store = place.open().await;
        let all = [seen("a", 10, "Pending"), seen("a", 12, "Pending"), seen("a", 15, "Running")];
        let recorded = record(&store, &all).await.unwrap();
        assert_eq!(recorded, [Recorded::Changed, Recorded::Known, Recorded::Changed]);
        assert_eq!(record(&place.open().await, &all).await.unwrap(), [Recorded::Known; 3]);
        assert_eq!(history(&store, "a").await, expected(&[(10, "Pending"), (15, "Running")]));
        let job = jobs::job(&store, "a").await.unwrap().unwrap();
        assert_eq!((job.phase.as_str(), job.created), ("Running", at(0)));
        let first = jobs::changes(&store, "a", (None, Some(at(15))), 0, 100).await.unwrap();
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].state, seen("a", 10, "Pending").state);
    });
}

#[test]
fn times_that_are_seen_later_than_their_state_are_kept() {
    on_each(async |place| {
        let store = place.open().await;
        let one = Observation { started: Some(at(5)), ..seen("a", 2, "Failed") };
        let two = Observation { finished: Some(at(9)), ..seen("a", 3, "Failed") };
        record(&store, &[one.clone(), two]).await.unwrap();
        record(&store, &[one]).await.unwrap();
        let job = jobs::job(&store, "a").await.unwrap().unwrap();
        assert_eq!((job.started, job.finished), (Some(at(5)), Some(at(9))));
        let again = Observation { finished: None, ..seen("a", 4, "Failed") };
        record(&store, &[again]).await.unwrap();
        assert_eq!(jobs::job(&store, "a").await.unwrap().unwrap().finished, None, "it was started again");
        assert_eq!(history(&store, "a").await, expected(&[(2, "Failed")]));
    });
}

#[test]
fn observations_in_any_order_from_any_replica_give_the_same_history() {
    on_each(async |place| {
        let phases = ["Pending", "Pending", "Running", "Running", "Restarting", "Running", "Succeeded"];
        let all: Vec<Observation> =
            phases.iter().zip(1..).map(|(phase, version)| seen("a", version, phase)).collect();
        let replicas = [place.open().await, place.open().await];
        let reversed: Vec<Observation> = all.iter().rev().cloned().collect();
        let (forward, backward) = (
            async {
                for one in &all {
                    record(&replicas[0], std::slice::from_ref(one)).await.unwrap();
                }
            },
            async {
                for one in &reversed {
                    record(&replicas[1], std::slice::from_ref(one)).await.unwrap();
                }
            },
        );
        futures::join!(forward, backward);
        assert_eq!(
            history(&replicas[0], "a").await,
            expected(&[(1, "Pending"), (3, "Running"), (5, "Restarting"), (6, "Running"), (7, "Succeeded")])
        );
        assert_eq!(jobs::job(&replicas[0], "a").await.unwrap().unwrap().phase, "Succeeded");
    });
}

#[test]
fn specs_and_attempts_outlive_the_job() {
    on_each(async |place| {
        let store = place.open().await;
        let one = Observation { spec: Some((1, json!({"workers": 2}))), ..seen("a", 1, "Pending") };
        let two = Observation { spec: Some((2, json!({"workers": 3}))), ..seen("a", 2, "Pending") };
        record(&store, &[one, two]).await.unwrap();
        let attempt = Attempt {
            number: 0,
            worker: Some("worker-1".to_owned()),
            exit_code: Some(137),
            cause: Some("OutOfMemory".to_owned()),
            evidence: Some(json!([{"line": 3, "text": "nul \u{0}"}])),
            last_lines: Some("line\n".repeat(MAX_LAST_LINES_BYTES)),
            ..Attempt::default()
        };
        jobs::record_attempt(&store, "a", &attempt).await.unwrap();
        let later = Attempt { finished: Some(at(9)), message: Some("a\0b".to_owned()), ..Attempt::default() };
        jobs::record_attempt(&store, "a", &later).await.unwrap();
        jobs::deleted(&store, "a", at(20)).await.unwrap();
        jobs::deleted(&store, "a", at(30)).await.unwrap();

        assert_eq!(jobs::job(&store, "a").await.unwrap().unwrap().deleted, Some(at(20)));
        assert_eq!(jobs::spec(&store, "a", None).await.unwrap().unwrap().spec, json!({"workers": 3}));
        assert_eq!(jobs::spec(&store, "a", Some(1)).await.unwrap().unwrap().spec, json!({"workers": 2}));
        let attempts = jobs::attempts(&store, "a", 0, 10).await.unwrap();
        let [stored] = attempts.as_slice() else { unreachable!() };
        assert_eq!((stored.finished, stored.exit_code), (Some(at(9)), Some(137)));
        assert_eq!(stored.evidence, attempt.evidence);
        assert_eq!(stored.message.as_deref(), Some("a\u{fffd}b"));
        assert_eq!(stored.last_lines.as_ref().unwrap().len(), MAX_LAST_LINES_BYTES / 5 * 5);
        let error = jobs::record_attempt(&store, "unknown", &attempt).await.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    });
}

#[test]
fn pages_of_jobs_hold_each_job_once_newest_first() {
    on_each(async |place| {
        let store = place.open().await;
        let all: Vec<Observation> = (0..25)
            .map(|number| Observation {
                created: at(number / 4),
                namespace: if number % 5 == 0 { "team-nlp" } else { "team-cv" }.to_owned(),
                ..seen(&format!("uid-{number:02}"), 1, "Running")
            })
            .collect();
        record(&store, &all).await.unwrap();
        let filter = Filter { namespace: Some("team-cv".to_owned()), ..Filter::default() };
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = jobs::jobs(&store, &filter, after.as_ref(), 3).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.cursor().to_string().parse().unwrap());
            found.extend(page.into_iter().map(|job| job.uid));
        }
        let mut expected: Vec<String> =
            (0..25).filter(|number| number % 5 != 0).map(|number| format!("uid-{number:02}")).collect();
        expected.reverse();
        assert_eq!(found, expected);
        let narrow = Filter {
            since: Some(at(1)),
            until: Some(at(2)),
            deleted: Some(false),
            kind: Some("MPIJob".to_owned()),
            owner: Some("jane".to_owned()),
            phase: Some("Running".to_owned()),
            name: Some("name-of-uid-06".to_owned()),
            ..Filter::default()
        };
        let found = jobs::jobs(&store, &narrow, None, 10).await.unwrap();
        assert_eq!(found.iter().map(|job| job.uid.as_str()).collect::<Vec<_>>(), ["uid-06"]);
        let deleted = Filter { deleted: Some(true), ..Filter::default() };
        assert_eq!(jobs::jobs(&store, &deleted, None, 10).await.unwrap(), []);
    });
}

#[test]
fn retention_forgets_deleted_jobs_by_age_and_by_number_and_never_one_that_is_there() {
    on_each(async |place| {
        let store = place.open().await;
        let all: Vec<Observation> = (0..10).map(|number| seen(&number.to_string(), 1, "Succeeded")).collect();
        record(&store, &all).await.unwrap();
        for number in 0..8 {
            jobs::deleted(&store, &number.to_string(), at(number)).await.unwrap();
        }
        let left = async || {
            let mut left: Vec<String> = jobs::jobs(&store, &Filter::default(), None, 100)
                .await
                .unwrap()
                .into_iter()
                .map(|job| job.uid)
                .collect();
            left.sort();
            left.concat()
        };
        let age = Retention { deleted_after: at(3), jobs: 1000 };
        assert_eq!(jobs::prune(&store, &age).await.unwrap(), 3);
        assert_eq!(left().await, "3456789");
        let number = Retention { deleted_after: at(0), jobs: 2 };
        assert_eq!(jobs::prune(&store, &number).await.unwrap(), 3);
        assert_eq!(left().await, "6789");
        assert_eq!(jobs::prune(&store, &number).await.unwrap(), 0);
        assert_eq!(history(&store, "3").await, []);
    });
}
