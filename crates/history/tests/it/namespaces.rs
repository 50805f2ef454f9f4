//! Namespaces whose names are used again.

use std::collections::BTreeMap;

use history::jobs::{self, Filter, Observation, record};
use history::namespaces::{Namespace, Tenant, all, forget, learn};
use history::notifications::address::Policy;
use history::notifications::{self, Destination, NewRule, Transitions, deliveries, put_rule};
use history::usage::{self, Group, Period, Resources, Running};
use history::{Store, peaks};
use jiff::Timestamp;

use crate::jobs::seen;
use crate::notifications::ALL;
use crate::place::{at, on_each};

const TEAM: &str = "team-cv";

fn namespace(uid: &str, created: Timestamp) -> Namespace {
    Namespace { name: TEAM.to_owned(), uid: uid.to_owned(), created }
}

fn created(uid: &str, second: i64) -> Observation {
    Observation { created: at(second), ..seen(uid, second, "Succeeded") }
}

async fn put(store: &Store, name: &str) {
    let rule = NewRule {
        id: format!("{TEAM}/{name}"),
        namespace: TEAM.to_owned(),
        job: None,
        owner: "jane".to_owned(),
        subject: String::new(),
        kinds: Vec::new(),
        enabled: true,
        transitions: Transitions::default(),
        condition: None,
        destination: Destination::Webhook { url: "https://example.com/hook".to_owned() },
        secret: None,
    };
    put_rule(store, rule, &Policy::default()).await.unwrap();
}

/// Records what a job used.
async fn used(store: &Store, uid: &str, second: i64) {
    let running = Running {
        uid: uid.to_owned(),
        source: format!("pod-of-{uid}"),
        started: at(second),
        kind: "MPIJob".to_owned(),
        namespace: TEAM.to_owned(),
        job: uid.to_owned(),
        user: "jane".to_owned(),
        resources: Resources { cpu_millicores: 1000, ..Resources::default() },
    };
    usage::record(store, &[running], at(second + 10)).await.unwrap();
}

/// Records a job with what it used.
async fn run(store: &Store, uid: &str, second: i64) {
    record(store, &[created(uid, second)]).await.unwrap();
    used(store, uid, second).await;
    let report = peaks::Report {
        uid: uid.to_owned(),
        role: "worker".to_owned(),
        source: "one".to_owned(),
        program: "train".to_owned(),
        image: "train:1".to_owned(),
        measured: peaks::Measured::default(),
        requested: peaks::Requested::default(),
    };
    peaks::record(store, &[report]).await.unwrap();
}

/// The jobs of the name: in the history, by usage, by peaks.
async fn found(store: &Store, tenant: Tenant) -> [Vec<String>; 3] {
    let filter = Filter { namespace: Some(TEAM.to_owned()), tenant, ..Filter::default() };
    let mut known: Vec<String> =
        jobs::jobs(store, &filter, None, 10).await.unwrap().into_iter().map(|job| job.uid).collect();
    known.sort();
    let period = Period { from: at(-1000), until: at(10_000) };
    let by_job = Group { job: true, ..Group::default() };
    let sums: BTreeMap<_, _> =
        usage::usage(store, period, by_job, (Some(TEAM), tenant), at(10_000)).await.unwrap();
    let used = sums.into_keys().map(|key| key.job.unwrap().1).collect();
    let filter = peaks::Filter { namespace: Some(TEAM), program: None, tenant };
    let mut runs: Vec<String> =
        peaks::runs(store, filter, 10).await.unwrap().into_iter().map(|run| run.uid).collect();
    runs.sort();
    [known, used, runs]
}

fn each(uids: &[&str]) -> [Vec<String>; 3] {
    std::array::from_fn(|_| uids.iter().map(|uid| (*uid).to_owned()).collect())
}

#[test]
fn what_a_namespace_left_is_not_the_next_ones() {
    on_each(async |place| {
        let store = place.open().await;
        learn(&store, &namespace("first", at(0))).await.unwrap();
        put(&store, "news").await;
        run(&store, "a", 10).await;
        assert_eq!(found(&store, Tenant::Present).await, each(&["a"]));
        assert_eq!(deliveries(&store, TEAM, &ALL, None, 10).await.unwrap().len(), 1);
        learn(&store, &namespace("second", at(100))).await.unwrap();
        run(&store, "b", 110).await;
        assert_eq!(found(&store, Tenant::Present).await, each(&["b"]));
        assert_eq!(found(&store, Tenant::Any).await, each(&["a", "b"]));
        assert_eq!(
            notifications::rules(&store, TEAM).await.unwrap().len(),
            0,
            "the rule went with its namespace"
        );
        assert_eq!(deliveries(&store, TEAM, &ALL, None, 10).await.unwrap().len(), 0);
        put(&store, "news").await;
        record(&store, &[seen("a", 20, "Failed")]).await.unwrap();
        assert_eq!(deliveries(&store, TEAM, &ALL, None, 10).await.unwrap().len(), 0, "news of a former job");
        run(&store, "c", 120).await;
        assert_eq!(deliveries(&store, TEAM, &ALL, None, 10).await.unwrap().len(), 1);
    });
}

#[test]
fn a_job_that_is_reported_before_its_namespace_belongs_to_it() {
    on_each(async |place| {
        let store = place.open().await;
        run(&store, "unknown", 5).await;
        learn(&store, &namespace("first", at(0))).await.unwrap();
        assert_eq!(found(&store, Tenant::Present).await, each(&["unknown"]));
        run(&store, "early", 110).await;
        learn(&store, &namespace("second", at(100))).await.unwrap();
        assert_eq!(found(&store, Tenant::Present).await, each(&["early"]));
    });
}

/// A node's clock may be behind the API server's.
#[test]
fn what_a_job_used_by_a_clock_before_its_namespace_counts_for_it() {
    on_each(async |place| {
        let store = place.open().await;
        learn(&store, &namespace("first", at(100))).await.unwrap();
        used(&store, "a", 90).await;
        assert_eq!(found(&store, Tenant::Present).await, each(&[]));
        record(&store, &[created("a", 110)]).await.unwrap();
        let [known, used, _] = found(&store, Tenant::Present).await;
        assert_eq!((known, used), (vec!["a".to_owned()], vec!["a".to_owned()]));
    });
}

#[test]
fn rules_from_before_namespaces_were_known_are_adopted_or_deleted_by_their_age() {
    on_each(async |place| {
        let store = place.open().await;
        put(&store, "kept").await;
        learn(&store, &namespace("first", Timestamp::UNIX_EPOCH)).await.unwrap();
        assert_eq!(notifications::rules(&store, TEAM).await.unwrap().len(), 1);
        forget(&store, TEAM, "first").await.unwrap();
        assert_eq!(notifications::rules(&store, TEAM).await.unwrap().len(), 0, "its namespace is gone");
        put(&store, "older").await;
        learn(&store, &namespace("second", at(0))).await.unwrap();
        assert_eq!(
            notifications::rules(&store, TEAM).await.unwrap().len(),
            0,
            "it is older than the namespace"
        );
    });
}

#[test]
fn a_replica_that_is_behind_does_not_bring_a_namespace_back() {
    on_each(async |place| {
        let store = place.open().await;
        learn(&store, &namespace("second", at(100))).await.unwrap();
        let behind = place.open().await;
        learn(&behind, &namespace("first", at(0))).await.unwrap();
        forget(&behind, TEAM, "first").await.unwrap();
        assert_eq!(all(&store).await.unwrap(), [namespace("second", at(100))]);
    });
}
