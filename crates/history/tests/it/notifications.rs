//! Notifications: rules and deliveries.

mod mails;
mod webhooks;

use std::time::Duration;

use history::jobs::{Observation, record};
use history::notifications::address::Policy;
use history::notifications::{
    self, Claim, DeliveryFilter, Destination, LEASE, MAX_TRIES, NewRule, Outcome, Rule, Secret, Transition,
    Transitions, VisibleDeliveries, claim, deliveries, finish, put_rule,
};
use history::{Error, Store};
use jiff::Timestamp;
use sqlx::Row as _;

use crate::jobs::seen;
use crate::place::{at, on_each};

pub fn rule(url: &str, phases: &[&str]) -> NewRule {
    NewRule {
        id: uuid::Uuid::new_v4().to_string(),
        namespace: "team-cv".to_owned(),
        job: None,
        owner: "jane".to_owned(),
        subject: String::new(),
        kinds: Vec::new(),
        enabled: true,
        transitions: Transitions {
            phases: phases.iter().map(|phase| (*phase).to_owned()).collect(),
            ..Transitions::default()
        },
        condition: None,
        destination: Destination::Webhook { url: url.to_owned() },
        secret: Some(Secret::new(vec![7; 32]).unwrap()),
    }
}

/// All deliveries.
pub const ALL: DeliveryFilter = DeliveryFilter { state: None, visible: None };

fn only_dead() -> DeliveryFilter {
    DeliveryFilter { state: Some("dead".to_owned()), ..ALL }
}

async fn with_rule(store: &Store, phases: &[&str]) {
    put_rule(store, rule("https://example.com/hook", phases), &Policy::default()).await.unwrap();
}

fn failure() -> Outcome {
    Outcome {
        status: Some(500),
        error: Some("500".to_owned()),
        permanent: false,
        took: Duration::from_millis(3),
    }
}

fn later(now: Timestamp, wait: Duration) -> Timestamp {
    now.checked_add(wait).unwrap()
}

/// Claims and finishes deliveries until none is due.
async fn claim_all(store: &Store) -> Vec<Claim> {
    let delivered = Outcome { status: Some(200), error: None, ..failure() };
    let mut all = Vec::new();
    loop {
        let claims = claim(store, at(100), 10).await.unwrap();
        if claims.is_empty() {
            return all;
        }
        for claim in &claims {
            assert!(finish(store, claim, &delivered, at(100), 0.5).await.unwrap());
        }
        all.extend(claims);
    }
}

fn phases(claims: &[Claim]) -> Vec<String> {
    let phase = |claim: &Claim| serde_json::from_str::<Transition>(&claim.body).unwrap().phase;
    let mut phases: Vec<String> = claims.iter().map(phase).collect();
    phases.sort();
    phases
}

#[test]
fn each_transition_that_a_rule_names_is_enqueued_once() {
    on_each(async |place| {
        let store = place.open().await;
        with_rule(&store, &["Failed", "Running"]).await;
        let of_another = NewRule { job: Some("another".to_owned()), ..rule("https://example.com/", &[]) };
        put_rule(&store, of_another, &Policy::default()).await.unwrap();
        let elsewhere = NewRule { namespace: "team-nlp".to_owned(), ..rule("https://example.com/", &[]) };
        put_rule(&store, elsewhere, &Policy::default()).await.unwrap();

        let mut more = seen("a", 3, "Running");
        more.state.workers.running = 2;
        let all = [seen("a", 1, "Pending"), seen("a", 2, "Running"), more, seen("a", 5, "Failed")];
        record(&store, &all[..3]).await.unwrap();
        record(&store, &all[3..]).await.unwrap();
        // A replica that lags behind sees a new one, and repeats the others.
        record(&place.open().await, &[seen("a", 4, "Failed")]).await.unwrap();
        record(&place.open().await, &all).await.unwrap();
        assert_eq!(phases(&claim_all(&store).await), ["Failed", "Running"]);
    });
}

#[test]
fn a_delivery_is_claimed_by_one_replica_until_its_lease_expires() {
    on_each(async |place| {
        let replicas = [place.open().await, place.open().await, place.open().await];
        let mut jobs = Vec::new();
        for number in 0..30 {
            let namespace = format!("team-{number}");
            let url = format!("https://example.com/{number}");
            let rule = NewRule { namespace: namespace.clone(), ..rule(&url, &[]) };
            put_rule(&replicas[0], rule, &Policy::default()).await.unwrap();
            jobs.push(Observation { namespace, ..seen(&number.to_string(), 1, "Pending") });
        }
        record(&replicas[0], &jobs).await.unwrap();
        let claims = futures::future::try_join_all(replicas.iter().map(|store| claim(store, at(100), 20)))
            .await
            .unwrap();
        let mut ids: Vec<String> = claims.iter().flatten().map(|claim| claim.id.clone()).collect();
        // One that waited for another's rows may get fewer than it asked for, and gets the others next time.
        ids.extend(claim(&replicas[0], at(100), 20).await.unwrap().into_iter().map(|claim| claim.id));
        ids.extend(claim(&replicas[0], at(100), 20).await.unwrap().into_iter().map(|claim| claim.id));
        ids.sort();
        assert_eq!(ids.len(), 30);
        ids.dedup();
        assert_eq!(ids.len(), 30, "each was claimed once");
        assert_eq!(claim(&replicas[1], later(at(100), LEASE / 2), 20).await.unwrap().len(), 0);

        let expired = later(at(100), LEASE);
        let again = claim(&replicas[1], expired, 32).await.unwrap();
        assert_eq!(again.len(), 30);
        assert!(again.iter().all(|claim| claim.number == 2));
        let stale = claims.iter().flatten().next().unwrap();
        assert!(!finish(&replicas[0], stale, &failure(), expired, 0.5).await.unwrap());
        let own = again.iter().find(|claim| claim.id == stale.id).unwrap();
        assert!(finish(&replicas[1], own, &failure(), expired, 0.5).await.unwrap());
    });
}

#[test]
fn a_delivery_that_fails_is_retried_later_and_at_last_a_dead_letter() {
    on_each(async |place| {
        let store = place.open().await;
        with_rule(&store, &[]).await;
        record(&store, &[seen("a", 1, "Pending")]).await.unwrap();
        let (mut now, mut waits) = (at(100), Vec::new());
        for number in 1..=MAX_TRIES {
            let claims = claim(&store, now, 10).await.unwrap();
            assert_eq!(claims.len(), 1, "try {number}");
            finish(&store, &claims[0], &failure(), now, 1.0).await.unwrap();
            let row = sqlx::query("SELECT due FROM deliveries").fetch_one(&place.raw().await).await.unwrap();
            let due = Timestamp::from_microsecond(row.get(0)).unwrap();
            assert_eq!(
                claim(&store, later(now, (due.duration_since(now) / 2).unsigned_abs()), 10)
                    .await
                    .unwrap()
                    .len(),
                0
            );
            waits.push(due.duration_since(now).as_secs());
            now = due;
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560]);
        let dead = deliveries(&store, "team-cv", &only_dead(), None, 10).await.unwrap();
        assert_eq!(dead.len(), 1);
        assert_eq!((dead[0].tries, dead[0].status), (MAX_TRIES, Some(500)));
        assert_eq!(claim(&store, at(10_000_000), 10).await.unwrap().len(), 0);
        assert!(!notifications::revive(&store, "team-nlp", &dead[0].id).await.unwrap());
        assert!(notifications::revive(&store, "team-cv", &dead[0].id).await.unwrap());
        let claims = claim(&store, at(10_000_000), 10).await.unwrap();
        assert_eq!(claims[0].number, 1);
        let delivered = Outcome { status: Some(200), error: None, ..failure() };
        finish(&store, &claims[0], &delivered, at(10_000_000), 0.0).await.unwrap();
        let tries = notifications::tries(&store, "team-cv", &dead[0].id).await.unwrap();
        let numbers: Vec<i64> = tries.iter().map(|one| one.number).collect();
        assert_eq!(numbers, (1..=MAX_TRIES + 1).collect::<Vec<_>>());
        assert_eq!(tries.iter().filter(|one| one.status == Some(500) && one.milliseconds == 3).count(), 10);
        assert_eq!(notifications::tries(&store, "team-nlp", &dead[0].id).await.unwrap(), []);
        assert_eq!(notifications::prune(&store, Timestamp::MAX).await.unwrap(), 1);
    });
}

#[test]
fn a_receiver_that_does_not_answer_keeps_no_other_waiting() {
    on_each(async |place| {
        let store = place.open().await;
        for number in 0..20 {
            let silent = format!("https://silent.example/{number}");
            put_rule(&store, rule(&silent, &[]), &Policy::default()).await.unwrap();
        }
        let other = NewRule { namespace: "team-nlp".to_owned(), ..rule("https://example.com/", &[]) };
        put_rule(&store, other, &Policy::default()).await.unwrap();
        let jobs: Vec<_> = (0..5).map(|number| seen(&number.to_string(), 1, "Pending")).collect();
        record(&store, &jobs).await.unwrap();
        record(&store, &[Observation { namespace: "team-nlp".to_owned(), ..seen("last", 1, "Pending") }])
            .await
            .unwrap();
        let claims = claim(&store, at(100), 32).await.unwrap();
        let of = |namespace: &str| claims.iter().filter(|claim| claim.namespace == namespace).count();
        assert_eq!((of("team-cv"), of("team-nlp")), (8, 1), "each namespace has a share");
        let destinations: std::collections::BTreeSet<String> =
            claims.iter().map(|claim| format!("{:?}", claim.destination)).collect();
        assert_eq!(destinations.len(), 9, "one at a time for each destination");
        assert_eq!(claim(&store, at(101), 32).await.unwrap().len(), 0, "none of these has answered");
        finish(
            &store,
            claims.iter().find(|claim| claim.namespace == "team-cv").unwrap(),
            &failure(),
            at(101),
            1.0,
        )
        .await
        .unwrap();
        assert_eq!(claim(&store, at(101), 32).await.unwrap().len(), 1);
    });
}

#[test]
fn tests_of_a_rule_have_a_rate() {
    on_each(async |place| {
        let store = place.open().await;
        let mut ids = Vec::new();
        for number in 0..12 {
            let url = format!("https://example.com/{number}");
            ids.push(put_rule(&store, rule(&url, &[]), &Policy::default()).await.unwrap().0.id);
        }
        let test = async |id: &str| notifications::enqueue_test(&store, "team-cv", id).await.unwrap();
        assert!(matches!(test(&ids[0]).await, notifications::Tested::Enqueued(_)));
        assert_eq!(test(&ids[0]).await, notifications::Tested::TooSoon);
        for id in &ids[1..10] {
            assert!(matches!(test(id).await, notifications::Tested::Enqueued(_)));
        }
        assert_eq!(test(&ids[10]).await, notifications::Tested::TooSoon, "the namespace has a share");
    });
}

#[test]
fn of_too_many_deliveries_that_wait_the_newest_stay() {
    on_each(async |place| {
        let store = place.open().await;
        with_rule(&store, &[]).await;
        let jobs: Vec<_> = (0..103).map(|number| seen(&number.to_string(), number + 1, "Pending")).collect();
        record(&store, &jobs).await.unwrap();
        let dead = deliveries(&store, "team-cv", &only_dead(), None, 10).await.unwrap();
        let mut uids: Vec<&str> = dead.iter().map(|delivery| delivery.uid.as_str()).collect();
        uids.sort_unstable();
        assert_eq!(uids, ["0", "1", "2"]);
        assert!(dead[0].error.as_deref().unwrap().contains("too many"), "{:?}", dead[0]);
    });
}

#[test]
fn rules_are_of_their_namespace_bounded_and_their_keys_survive() {
    on_each(async |place| {
        let store = place.open().await;
        let wanted = NewRule { secret: None, ..rule("https://example.com/", &["Failed"]) };
        let (created, is_new) = put_rule(&store, wanted.clone(), &Policy::default()).await.unwrap();
        assert!(is_new && created.secret.bytes().len() >= Secret::MIN_BYTES);
        assert_eq!(notifications::rules(&store, "team-cv").await.unwrap().first(), Some(&created));
        assert!(!notifications::delete_rule(&store, "team-nlp", &created.id).await.unwrap());
        let disabled = NewRule { enabled: false, owner: "joe".to_owned(), ..wanted.clone() };
        let replaced = put_rule(&store, disabled, &Policy::default()).await.unwrap();
        assert_eq!(replaced, (Rule { enabled: false, ..created.clone() }, false), "owner and key stay");
        let stolen = NewRule { namespace: "team-nlp".to_owned(), ..wanted };
        assert!(put_rule(&store, stolen, &Policy::default()).await.is_err());
        assert_eq!(notifications::rule(&store, "team-cv", &created.id).await.unwrap(), Some(replaced.0));
        assert_eq!(notifications::rule(&store, "team-nlp", &created.id).await.unwrap(), None);
        record(&store, &[seen("a", 1, "Failed")]).await.unwrap();
        assert_eq!(claim(&store, at(100), 10).await.unwrap().len(), 0, "a disabled rule");
        assert!(notifications::delete_rule(&store, "team-cv", &created.id).await.unwrap());
        for _ in 0..notifications::MAX_RULES {
            with_rule(&store, &[]).await;
        }
        let error =
            put_rule(&store, rule("https://example.com/", &[]), &Policy::default()).await.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        let private = rule("https://10.0.0.1/", &[]);
        let error = put_rule(&store, private, &Policy::default()).await.unwrap_err();
        assert!(error.to_string().contains("private"), "{error}");
    });
}

#[test]
fn a_rule_belongs_to_whoever_chose_its_destination_and_is_about_that_users_kinds() {
    on_each(async |place| {
        let store = place.open().await;
        let of = |owner: &str, url: &str, kind: &str| NewRule {
            id: "team-cv/news".to_owned(),
            owner: owner.to_owned(),
            subject: format!("subject of {owner}"),
            kinds: vec![kind.to_owned()],
            ..rule(url, &[])
        };
        let policy = Policy::default();
        let janes = of("jane", "https://example.com/1", "PyTorchJob");
        let janes = put_rule(&store, janes, &policy).await.unwrap().0.secret;
        record(&store, &[seen("a", 1, "Pending")]).await.unwrap();
        assert_eq!(deliveries(&store, "team-cv", &ALL, None, 10).await.unwrap(), [], "an MPIJob");
        let keyless = NewRule { secret: None, ..of("joe", "https://example.com/1", "MPIJob") };
        let (same, is_new) = put_rule(&store, keyless, &policy).await.unwrap();
        assert!(same.secret == janes && !is_new, "the key stays with the owner");
        assert_eq!((same.owner.as_str(), &same.kinds[..]), ("jane", &["PyTorchJob".to_owned()][..]));
        let keyless = NewRule { secret: None, ..of("joe", "https://example.com/2", "MPIJob") };
        let (other, is_new) = put_rule(&store, keyless.clone(), &policy).await.unwrap();
        assert!(other.secret != janes && is_new, "jane may know the key before");
        let elsewhere = of("joe", "https://example.com/3", "MPIJob").destination;
        let moved = NewRule { destination: elsewhere, ..keyless };
        let (moved, is_new) = put_rule(&store, moved, &policy).await.unwrap();
        assert!(moved.secret == other.secret && !is_new, "the same owner has it");
        assert_eq!((other.owner.as_str(), other.subject.as_str()), ("joe", "subject of joe"));
        record(&store, &[seen("a", 2, "Running")]).await.unwrap();
        assert_eq!(deliveries(&store, "team-cv", &ALL, None, 10).await.unwrap().len(), 1);
    });
}

#[test]
fn deliveries_are_cut_to_the_kinds_and_the_tests_that_may_be_seen() {
    on_each(async |place| {
        let store = place.open().await;
        with_rule(&store, &[]).await;
        let other = Observation { kind: "PyTorchJob".to_owned(), ..seen("net", 2, "Pending") };
        record(&store, &[seen("a", 1, "Pending"), other]).await.unwrap();
        let rule = notifications::rules(&store, "team-cv").await.unwrap().remove(0).id;
        notifications::enqueue_test(&store, "team-cv", &rule).await.unwrap();
        let uids = async |kinds: &[&str], tests_of: &[&str]| {
            let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            let visible = VisibleDeliveries { kinds: texts(kinds), tests_of: texts(tests_of) };
            let filter = DeliveryFilter { visible: Some(visible), ..ALL };
            let found = deliveries(&store, "team-cv", &filter, None, 10).await.unwrap();
            let mut uids: Vec<String> = found.into_iter().map(|delivery| delivery.uid).collect();
            uids.sort();
            uids.join(" ")
        };
        for _ in ["as recorded", "as migrated"] {
            assert_eq!(uids(&[], &[]).await, "");
            assert_eq!(uids(&["MPIJob"], &[]).await, "a");
            assert_eq!(uids(&["TFJob", "PyTorchJob"], &["team-cv/other"]).await, "net");
            assert_eq!(uids(&["MPIJob"], &[rule.as_str()]).await, "Test a");
            store.migrate_down(12).await.unwrap();
            store.migrate_up().await.unwrap();
        }
    });
}
