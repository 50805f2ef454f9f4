//! Usage over time.

use std::collections::BTreeMap;

use history::Store;
use history::jobs::{self, Observation};
use history::namespaces::Tenant;
use history::usage::{self, End, Group, Key, Period, Resources, Running, Used, ended, record};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};

use crate::jobs::seen;
use crate::place::{at, on_each};

/// The end of a source.
fn end(uid: &str, source: &str, second: i64) -> End {
    End { uid: uid.to_owned(), source: source.to_owned(), at: at(second) }
}

fn running(job: u8, source: u8, started: i64, gpus: u64) -> Running {
    Running {
        uid: format!("uid-{job}"),
        source: format!("pod-{source}"),
        started: at(started),
        kind: "MPIJob".to_owned(),
        namespace: format!("team-{}", job % 2),
        job: format!("job-{job}"),
        user: "jane".to_owned(),
        resources: Resources {
            cpu_millicores: 1500,
            memory_bytes: 1 << 30,
            gpus: BTreeMap::from([("nvidia.com/gpu".to_owned(), gpus)]),
            gpu_model: String::new(),
        },
    }
}

const BY_NAMESPACE: Group = Group { namespace: true, kind: false, user: false, job: false };

fn gpu_seconds(used: &BTreeMap<Key, Used>) -> BTreeMap<String, u128> {
    let sum = |used: &Used| used.gpu_seconds.values().sum::<u128>();
    used.iter()
        .map(|(key, used)| (key.namespace.clone().unwrap(), sum(used)))
        .filter(|(_, sum)| *sum > 0)
        .collect()
}

/// A pod in a period: job, pod, start, length if it has ended, GPUs.
type Pod = (u8, u8, i64, Option<i64>, u64);

#[test]
fn gpu_seconds_are_those_of_a_count_second_by_second() {
    on_each(async |place| {
        let pod = (0_u8..4, 0_u8..3, 0_i64..50, proptest::option::of(0_i64..40), 1_u64..5);
        let case = (proptest::collection::vec(pod, 0..12), 0_i64..60, 0_i64..60);
        let mut runner = TestRunner::new(Config { cases: 1, failure_persistence: None, ..Config::default() });
        let store = place.open().await;
        for round in 0..20_i64 {
            let (pods, from, length) = case.new_tree(&mut runner).unwrap().current();
            // One start of a source has one end: a later report of the same start would change it.
            let pods: BTreeMap<(u8, u8, i64), Pod> =
                pods.into_iter().map(|pod| ((pod.0, pod.1, pod.2), pod)).collect();
            let base = round * 1000;
            let (from, until, now) = (base + from, base + from + length, base + 100);
            for (job, source, start, _, gpus) in pods.values() {
                record(&store, &[running(*job, *source, base + start, *gpus)], at(base + start))
                    .await
                    .unwrap();
            }
            let mut ends: BTreeMap<(u8, u8), Vec<i64>> = BTreeMap::new();
            for (job, source, start, length, _) in pods.values() {
                let Some(length) = length else { continue };
                let name = (format!("uid-{job}"), format!("pod-{source}"));
                ended(&store, &[end(&name.0, &name.1, base + start + length)]).await.unwrap();
                ends.entry((*job, *source)).or_default().push(base + start + length);
            }
            let mut expected: BTreeMap<String, u128> = BTreeMap::new();
            for second in from..until.min(now) {
                let mut most: BTreeMap<(u8, u8), u64> = BTreeMap::new();
                for (job, source, start, _, gpus) in pods.values() {
                    // The first end that is not before the start.
                    let own = ends.get(&(*job, *source)).into_iter().flatten();
                    let end = own.copied().filter(|end| *end >= base + start).min().unwrap_or(now);
                    if (base + start..end).contains(&second) {
                        let most = most.entry((*job, *source)).or_default();
                        *most = (*most).max(*gpus);
                    }
                }
                for ((job, _), gpus) in most {
                    *expected.entry(format!("team-{}", job % 2)).or_default() += u128::from(gpus);
                }
            }
            let period = Period { from: at(from), until: at(until) };
            let used =
                usage::usage(&store, period, BY_NAMESPACE, (None, Tenant::Any), at(now)).await.unwrap();
            assert_eq!(gpu_seconds(&used), expected, "{pods:?} in {period:?}");
            usage::end_unseen(&store, at(base + 999)).await.unwrap();
            usage::prune(&store, at(base + 999)).await.unwrap();
        }
    });
}

#[test]
fn gpus_are_also_summed_by_the_model_that_their_pods_ask_for() {
    on_each(async |place| {
        let store = place.open().await;
        let mut of_model = running(0, 0, 10, 2);
        of_model.resources.gpu_model = "H100".to_owned();
        record(&store, &[of_model, running(0, 1, 10, 1)], at(12)).await.unwrap();
        let period = Period { from: at(0), until: at(30) };
        let used = usage::usage(&store, period, BY_NAMESPACE, (None, Tenant::Any), at(30)).await.unwrap();
        let used = used.values().next().unwrap();
        let resource = || "nvidia.com/gpu".to_owned();
        let by_model =
            BTreeMap::from([((resource(), String::new()), 20), ((resource(), "H100".to_owned()), 40)]);
        assert_eq!(used.gpu_model_seconds, by_model);
        assert_eq!(used.gpu_seconds, BTreeMap::from([(resource(), 60)]));
    });
}

/// The kinds of what was used.
async fn kinds(store: &Store) -> Vec<(String, u128)> {
    let by_kind = Group { kind: true, ..Group::default() };
    let period = Period { from: at(0), until: at(30) };
    let used = usage::usage(store, period, by_kind, (None, Tenant::Any), at(30)).await.unwrap();
    used.into_iter().map(|(key, used)| (key.kind.unwrap(), used.gpu_seconds["nvidia.com/gpu"])).collect()
}

#[test]
fn usage_is_summed_by_the_kind_of_the_job() {
    on_each(async |place| {
        let store = place.open().await;
        let other = Running { kind: "PyTorchJob".to_owned(), ..running(2, 0, 10, 3) };
        record(&store, &[running(0, 0, 10, 1), other, running(4, 0, 20, 1)], at(20)).await.unwrap();
        assert_eq!(kinds(&store).await, [("MPIJob".to_owned(), 20 + 10), ("PyTorchJob".to_owned(), 60)]);
        let period = Period { from: at(0), until: at(30) };
        let by = async |group: Group| {
            usage::usage(&store, period, group, (None, Tenant::Any), at(30)).await.unwrap()
        };
        let mut merged = Used::default();
        by(Group { kind: true, ..BY_NAMESPACE }).await.into_values().for_each(|used| merged.merge(used));
        assert_eq!(by(BY_NAMESPACE).await.into_values().collect::<Vec<_>>(), [merged]);
    });
}

#[test]
fn usage_from_before_kinds_were_recorded_has_the_kind_of_its_job() {
    on_each(async |place| {
        let store = place.open().await;
        let of = |job, gpus| Running { kind: "PyTorchJob".to_owned(), ..running(job, 0, 10, gpus) };
        let known = Observation { kind: "PyTorchJob".to_owned(), ..seen("uid-0", 10, "Running") };
        jobs::record(&store, &[known]).await.unwrap();
        record(&store, &[of(0, 1), of(2, 2)], at(20)).await.unwrap();
        store.migrate_down(12).await.unwrap();
        store.migrate_up().await.unwrap();
        let expected = [("MPIJob".to_owned(), 40), ("PyTorchJob".to_owned(), 20)];
        assert_eq!(kinds(&store).await, expected, "a job that is not known is an MPIJob");
    });
}

#[test]
fn two_replicas_that_see_the_same_pods_count_them_once() {
    on_each(async |place| {
        let replicas = [place.open().await, place.open().await];
        let one: Vec<Running> = (0..8).map(|pod| running(0, pod, 10, 2)).collect();
        // The other replica has noticed the start three seconds later.
        let two: Vec<Running> = (0..8).rev().map(|pod| running(0, pod, 13, 2)).collect();
        futures::try_join!(record(&replicas[0], &one, at(14)), record(&replicas[1], &two, at(14))).unwrap();
        record(&replicas[1], &one, at(20)).await.unwrap();
        ended(&replicas[0], &[end("uid-0", "pod-0", 20)]).await.unwrap();
        ended(&replicas[1], &[end("uid-0", "pod-0", 22)]).await.unwrap();
        let period = Period { from: at(0), until: at(30) };
        let used = usage::usage(&replicas[0], period, BY_NAMESPACE, (Some("team-0"), Tenant::Any), at(1000))
            .await
            .unwrap();
        assert_eq!(gpu_seconds(&used), BTreeMap::from([("team-0".to_owned(), 2 * 10 + 7 * 2 * 20)]));
    });
}

#[test]
fn a_pod_whose_end_was_missed_ends_when_it_was_last_seen() {
    on_each(async |place| {
        let store = place.open().await;
        record(&store, &[running(0, 0, 10, 1), running(0, 1, 10, 1)], at(12)).await.unwrap();
        record(&store, &[running(0, 1, 10, 1)], at(50)).await.unwrap();
        assert_eq!(usage::end_unseen(&store, at(40)).await.unwrap(), 1);
        let all = Group { namespace: true, kind: true, user: true, job: true };
        let period = Period { from: at(0), until: at(1000) };
        let used = usage::usage(&store, period, all, (None, Tenant::Any), at(60)).await.unwrap();
        let key = Key {
            namespace: Some("team-0".to_owned()),
            kind: Some("MPIJob".to_owned()),
            user: Some("jane".to_owned()),
            job: Some(("job-0".to_owned(), "uid-0".to_owned())),
        };
        let used = &used[&key];
        assert_eq!(used.gpu_seconds["nvidia.com/gpu"], 2 + 50);
        assert_eq!(used.cpu_millicore_seconds, 1500 * 52);
        assert_eq!(used.memory_byte_seconds, (1 << 30) * 52);
    });
}
