//! What jobs used at most.

use history::jobs::{self, Observation, Retention};
use history::peaks::{Filter, Measured, Report, Requested, Run, record, runs};

use crate::jobs::seen;
use crate::place::{at, on_each};

/// A source's report about a Worker: the number of samples, and the most memory.
fn report(uid: &str, source: &str, samples: u64, memory_bytes: u64) -> Report {
    Report {
        uid: uid.to_owned(),
        role: "worker".to_owned(),
        source: source.to_owned(),
        program: "resnet".to_owned(),
        image: "train:1".to_owned(),
        measured: Measured {
            samples,
            memory_bytes,
            cpu_millicores: 1500,
            cpu_millicores_sum: samples * 1000,
        },
        requested: Requested { memory_bytes: Some(1 << 30), cpu_millicores: None },
    }
}

fn succeeded(uid: &str, second: i64) -> Observation {
    Observation { finished: Some(at(second)), ..seen(uid, second, "Succeeded") }
}

fn names(runs: &[Run]) -> Vec<&str> {
    runs.iter().map(|run| run.uid.as_str()).collect()
}

#[test]
fn a_repeated_report_replaces_the_one_before_and_sources_are_merged() {
    on_each(async |place| {
        let store = place.open().await;
        jobs::record(&store, &[succeeded("a", 10)]).await.unwrap();
        record(&store, &[report("a", "one", 2, 100)]).await.unwrap();
        let launcher = Report { role: "launcher".to_owned(), ..report("a", "one", 3, 7) };
        let replica = place.open().await;
        record(&replica, &[report("a", "one", 4, 300), report("a", "two", 5, 200), launcher]).await.unwrap();
        let found = runs(&store, Filter::default(), 10).await.unwrap();
        assert_eq!((names(&found), found[0].finished), (vec!["a"], Some(at(10))));
        let (used, requested) = found[0].roles["worker"];
        let merged =
            Measured { samples: 9, memory_bytes: 300, cpu_millicores: 1500, cpu_millicores_sum: 9000 };
        assert_eq!((used, requested.memory_bytes, requested.cpu_millicores), (merged, Some(1 << 30), None));
        assert_eq!(found[0].roles["launcher"].0.memory_bytes, 7);
    });
}

#[test]
fn only_runs_that_succeeded_count_the_newest_of_each_program_first() {
    on_each(async |place| {
        let store = place.open().await;
        let other = Observation { namespace: "team-nlp".to_owned(), ..succeeded("other", 15) };
        let all =
            [succeeded("a", 10), succeeded("b", 20), succeeded("c", 30), seen("failed", 40, "Failed"), other];
        jobs::record(&store, &all).await.unwrap();
        for uid in ["a", "b", "c", "failed", "other"] {
            record(&store, &[report(uid, "one", 1, 1)]).await.unwrap();
        }
        let of = async |namespace, program, most| {
            let found = runs(&store, Filter { namespace, program, ..Filter::default() }, most).await.unwrap();
            names(&found).join(" ")
        };
        assert_eq!(of(None, None, 2).await, "c b other");
        assert_eq!(of(Some("team-cv"), Some("resnet"), 9).await, "c b a");
        assert_eq!(of(Some("team-cv"), Some("bert"), 9).await, "");
    });
}

#[test]
fn peaks_of_a_job_that_is_not_recorded_wait_and_go_with_the_job() {
    on_each(async |place| {
        let store = place.open().await;
        assert!(record(&store, &[report("a", "one", 1, 1)]).await.unwrap().is_empty());
        jobs::record(&store, &[succeeded("a", 10)]).await.unwrap();
        assert_eq!(record(&store, &[report("a", "one", 1, 1)]).await.unwrap(), ["a"]);
        jobs::deleted(&store, "a", at(20)).await.unwrap();
        assert_eq!(runs(&store, Filter::default(), 9).await.unwrap().len(), 1, "also after its deletion");
        jobs::prune(&store, &Retention { deleted_after: at(30), jobs: 9 }).await.unwrap();
        assert!(runs(&store, Filter::default(), 9).await.unwrap().is_empty());
    });
}
