//! Conditions of rules: each crossing is an alert and a delivery, once.

use history::jobs::record;
use history::namespaces::{Namespace, learn};
use history::notifications::address::Policy;
use history::notifications::alerts::{self, Condition, Evaluation, QUOTA, conditional, hold, unevaluated};
use history::notifications::{self, NewRule, Rule, Transition, Transitions, deliveries, put_rule};
use history::{Error, Store};
use jiff::ToSpan as _;

use crate::jobs::seen;
use crate::notifications::{ALL, rule};
use crate::place::{at, on_each};

const QUOTAS: Condition = Condition::QuotaUsed { percent: 90 };

fn about_quotas() -> NewRule {
    NewRule { id: "team-cv/full".to_owned(), condition: Some(QUOTAS), ..rule("https://example.com/", &[]) }
}

async fn put(store: &Store, rule: NewRule) -> Rule {
    put_rule(store, rule, &Policy::default()).await.unwrap().0
}

/// The quota as an evaluation finds it.
fn full(uid: &str) -> Transition {
    Transition {
        uid: uid.to_owned(),
        kind: QUOTA.to_owned(),
        namespace: "team-cv".to_owned(),
        name: "compute".to_owned(),
        version: 0,
        at: at(0),
        from: None,
        state: "Used to 92%".to_owned(),
        phase: "QuotaUsed".to_owned(),
        reason: None,
        cause: None,
        message: Some("requests.cpu: 46 of 50 used (92%)".to_owned()),
        attempt: 0,
        condition: Some(QUOTAS),
    }
}

async fn evaluated(store: &Store, rule: &Rule, holds: Vec<Transition>, second: i64) -> Result<usize, Error> {
    hold(store, &[Evaluation { rule, holds, unread: Vec::new() }], at(second)).await
}

async fn sent(store: &Store) -> usize {
    deliveries(store, "team-cv", &ALL, None, 100).await.unwrap().len()
}

async fn names(store: &Store) -> Vec<String> {
    alerts::alerts(store, Some("team-cv")).await.unwrap().into_iter().map(|alert| alert.name).collect()
}

#[test]
fn a_condition_fires_once_for_each_crossing() {
    on_each(async |place| {
        let store = place.open().await;
        let rule = put(&store, about_quotas()).await;
        assert_eq!(evaluated(&store, &rule, vec![full("q")], 10).await.unwrap(), 1);
        let fuller =
            Transition { message: Some("requests.cpu: 50 of 50 used (100%)".to_owned()), ..full("q") };
        assert_eq!(evaluated(&store, &rule, vec![fuller], 20).await.unwrap(), 0, "it holds already");
        let found = alerts::alerts(&store, None).await.unwrap();
        let [alert] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((alert.kind.as_str(), alert.rule.as_str(), alert.since), (QUOTA, "team-cv/full", at(10)));
        assert_eq!(alert.message, "requests.cpu: 50 of 50 used (100%)", "as it is now");
        assert_eq!(alerts::alerts(&store, Some("team-nlp")).await.unwrap(), []);
        assert_eq!(evaluated(&store, &rule, Vec::new(), 30).await.unwrap(), 0);
        assert_eq!((names(&store).await, sent(&store).await), (Vec::new(), 1), "it is below again");
        assert_eq!(evaluated(&store, &rule, vec![full("q"), full("another")], 40).await.unwrap(), 2);
        assert_eq!(sent(&store).await, 3);
        let claims = notifications::claim(&store, at(100), 1).await.unwrap();
        let body = claims[0].transition().unwrap();
        assert_eq!((body.at, body.condition, body.phase.as_str()), (at(10), Some(QUOTAS), "QuotaUsed"));
    });
}

#[test]
fn of_several_replicas_the_newest_reading_counts_and_each_crossing_is_sent_once() {
    on_each(async |place| {
        let replicas = [place.open().await, place.open().await, place.open().await];
        let rule = put(&replicas[0], about_quotas()).await;
        let all = replicas.iter().zip(10..).map(|(store, second)| {
            let rule = &rule;
            async move { evaluated(store, rule, vec![full("q")], second).await.unwrap() }
        });
        let fired: usize = futures::future::join_all(all).await.into_iter().sum();
        assert_eq!((fired, sent(&replicas[0]).await), (1, 1));
        // One that read before the crossing, and stores that later.
        assert_eq!(evaluated(&replicas[1], &rule, Vec::new(), 9).await.unwrap(), 0);
        assert_eq!(names(&replicas[2]).await, ["compute"]);
        assert_eq!(evaluated(&replicas[2], &rule, vec![full("q")], 20).await.unwrap(), 0);
        assert_eq!(sent(&replicas[0]).await, 1);
    });
}

#[test]
fn a_rule_about_something_else_begins_again() {
    on_each(async |place| {
        let store = place.open().await;
        let rule = put(&store, about_quotas()).await;
        evaluated(&store, &rule, vec![full("q")], 10).await.unwrap();
        put(&store, NewRule { owner: "joe".to_owned(), ..about_quotas() }).await;
        assert_eq!(names(&store).await, ["compute"], "the same rule");
        let stricter = NewRule { condition: Some(Condition::QuotaUsed { percent: 50 }), ..about_quotas() };
        let stricter = put(&store, stricter).await;
        assert_eq!(names(&store).await, [""; 0]);
        // An evaluation of the rule as it was has no effect.
        assert_eq!(evaluated(&store, &rule, vec![full("q")], 20).await.unwrap(), 0);
        assert_eq!(evaluated(&store, &stricter, vec![full("q")], 20).await.unwrap(), 1);
        let silent =
            put(&store, NewRule { enabled: false, condition: stricter.condition, ..about_quotas() }).await;
        assert_eq!(evaluated(&store, &silent, vec![full("q")], 30).await.unwrap(), 0);
        assert_eq!(names(&store).await, [""; 0]);
        assert_eq!(conditional(&store).await.unwrap(), []);
    });
}

#[test]
fn what_could_not_be_read_stays_and_a_rule_that_is_not_evaluated_is_known_as_such() {
    on_each(async |place| {
        let store = place.open().await;
        let rule = put(&store, about_quotas()).await;
        let unknown = async |second| {
            let rules = unevaluated(&store, Some("team-cv"), at(second)).await.unwrap();
            rules.into_iter().map(|rule| rule.id).collect::<Vec<_>>()
        };
        assert_eq!(unknown(0).await, ["team-cv/full"], "it was never evaluated");
        let job = Transition { kind: "TFJob".to_owned(), ..full("job") };
        evaluated(&store, &rule, vec![full("q"), job], 10).await.unwrap();
        assert_eq!((unknown(10).await, unknown(11).await), (Vec::new(), vec!["team-cv/full".to_owned()]));
        let unread = vec!["TFJob"];
        hold(&store, &[Evaluation { rule: &rule, holds: Vec::new(), unread }], at(20)).await.unwrap();
        let kinds: Vec<String> =
            alerts::alerts(&store, None).await.unwrap().into_iter().map(|alert| alert.kind).collect();
        assert_eq!(kinds, ["TFJob"]);
    });
}

#[test]
fn a_rule_with_a_condition_is_about_no_transition_and_about_its_own_namespace() {
    on_each(async |place| {
        let store = place.open().await;
        let of_failures = Transitions { phases: vec!["Failed".to_owned()], ..Transitions::default() };
        put(&store, NewRule { transitions: of_failures, ..about_quotas() }).await;
        record(&store, &[seen("a", 1, "Failed")]).await.unwrap();
        assert_eq!(sent(&store).await, 0);
        assert_eq!(conditional(&store).await.unwrap().len(), 1);
        let now = store.now().await.unwrap();
        let namespace =
            |uid: &str, created| Namespace { name: "team-cv".to_owned(), uid: uid.to_owned(), created };
        learn(&store, &namespace("first", now - 10.seconds())).await.unwrap();
        assert_eq!(conditional(&store).await.unwrap().len(), 1);
        learn(&store, &namespace("second", now + 10.seconds())).await.unwrap();
        assert_eq!(conditional(&store).await.unwrap(), [], "it was of the former namespace");
    });
}
