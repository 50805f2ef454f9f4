//! Evaluates the conditions of notification rules: jobs that run for long or stall, from the board, and quotas that fill
//! up, read as the service's own account. What holds becomes alerts and deliveries in the store, with the rights of each
//! rule's owner checked at the delivery ([`crate::owners`]).
//!
//! Every replica evaluates; the store keeps the newest evaluation and fires once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ::jobs::Kind;
use ::jobs::overview::{QuotaLevel, QuotaResource, quota_levels};
use futures::StreamExt as _;
use history::notifications::alerts::{self, Condition, Evaluation, QUOTA, span};
use history::notifications::{Rule, Transition};
use history::{Error, Store};
use jiff::Timestamp;
use kube::Client;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::board::{Board, Entry};
use crate::recorder::Recorder;
use crate::store::Kept;
use crate::tenants::Tenants;

/// How many intervals are between two evaluations: 30 seconds, unless the service is set up otherwise.
const EVALUATE_EVERY: u32 = 6;
/// How long the quotas of a namespace may take to be read, and how many namespaces are read at a time.
const PATIENCE: Duration = Duration::from_secs(10);
const AT_ONCE: usize = 8;
/// The phase of a quota in deliveries.
const QUOTA_USED: &str = "QuotaUsed";

/// The quotas by namespace; `None` if they could not be read.
type Quotas = BTreeMap<String, Option<Vec<QuotaLevel>>>;

/// Evaluates the conditions of rules.
pub struct Conditions {
    own: Client,
    board: Arc<Board>,
    recorder: Arc<Recorder>,
    wake: Notify,
}

impl Conditions {
    /// Creates it from a client as the service's own account, and from what the watches fill.
    pub fn new(own: &Client, board: &Arc<Board>, recorder: &Arc<Recorder>) -> Arc<Self> {
        let (own, board, recorder) = (own.clone(), board.clone(), recorder.clone());
        Arc::new(Self { own, board, recorder, wake: Notify::new() })
    }

    /// Evaluates as soon as possible, because a rule has changed.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Evaluates until `stop`.
    pub async fn run(
        self: Arc<Self>,
        tenants: Arc<Tenants>,
        kept: Kept,
        every: Duration,
        stop: CancellationToken,
    ) {
        let work = async {
            let opened = kept.wait().await;
            tenants.known().await;
            loop {
                // Before the jobs are known, every alert about one would seem to be over.
                let is_ready = self.recorder.knows(Kind::MpiJob);
                if is_ready {
                    let evaluated = self.evaluate(&opened.store).await;
                    kept.note(&evaluated);
                    if let Err(error) = evaluated {
                        tracing::warn!(%error, "cannot evaluate notification rules; trying again");
                    }
                }
                let pause = if is_ready { every * EVALUATE_EVERY } else { every };
                let _ = tokio::time::timeout(pause, self.wake.notified()).await;
            }
        };
        stop.run_until_cancelled(work).await;
    }

    async fn evaluate(&self, store: &Store) -> Result<usize, Error> {
        let rules = alerts::conditional(store).await?;
        if rules.is_empty() {
            return Ok(0);
        }
        let read = store.now().await?;
        let quotas = self.quotas(&rules).await;
        let (_, jobs) = self.board.snapshot(|entry| !entry.row.ended);
        let unread: Vec<&'static str> =
            Kind::ALL.into_iter().filter(|kind| !self.recorder.knows(*kind)).map(Kind::name).collect();
        let evaluations: Vec<Evaluation<'_>> = rules
            .iter()
            .filter_map(|rule| {
                let holds = holding(rule, &jobs, &quotas, read)?;
                Some(Evaluation { rule, holds, unread: unread.clone() })
            })
            .collect();
        alerts::hold(store, &evaluations, read).await
    }

    /// Reads the quotas that rules are about.
    async fn quotas(&self, rules: &[Rule]) -> Quotas {
        let is_of_quotas =
            |rule: &&Rule| matches!(rule.condition, Some(condition) if condition.is_of_quotas());
        let mut places: Vec<&str> =
            rules.iter().filter(is_of_quotas).map(|rule| rule.namespace.as_str()).collect();
        places.dedup();
        let read: Vec<_> = places.into_iter().map(|namespace| self.levels(namespace.to_owned())).collect();
        futures::stream::iter(read).buffer_unordered(AT_ONCE).collect().await
    }

    async fn levels(&self, namespace: String) -> (String, Option<Vec<QuotaLevel>>) {
        let levels = match tokio::time::timeout(PATIENCE, quota_levels(&self.own, &namespace)).await {
            Ok(Ok(levels)) => Some(levels),
            Ok(Err(error)) => {
                tracing::warn!(namespace, %error, "cannot read quotas that notification rules are about");
                None
            }
            Err(_) => None,
        };
        (namespace, levels)
    }
}

/// Returns for what a rule's condition holds; `None` if that is unknown.
fn holding(rule: &Rule, jobs: &[Arc<Entry>], quotas: &Quotas, now: Timestamp) -> Option<Vec<Transition>> {
    let condition = rule.condition?;
    let about = |entry: &&Arc<Entry>| {
        let row = &entry.row;
        !row.ended
            && row.namespace == rule.namespace
            && rule.job.as_ref().is_none_or(|uid| *uid == row.uid)
            && (rule.kinds.is_empty() || rule.kinds.contains(&row.kind))
    };
    // The oldest first: those that hold already keep their places among the most that a rule may have.
    let jobs = jobs.iter().rev().filter(about);
    Some(match condition {
        Condition::QuotaUsed { percent } => {
            let levels = quotas.get(&rule.namespace)?.as_ref()?;
            levels.iter().filter_map(|level| used(rule, condition, level, percent)).collect()
        }
        Condition::RunsLonger { seconds } => jobs
            .filter_map(|entry| {
                let ran = now.as_second().saturating_sub(entry.running_since?.as_second());
                let message = || format!("It has run for longer than {}", span(seconds));
                (ran > i64::from(seconds)).then(|| job(entry, condition, message()))
            })
            .collect(),
        Condition::Stalled => jobs
            .filter(|entry| entry.stalled)
            .map(|entry| {
                let known = Some(entry.row.message.clone()).filter(|message| !message.is_empty());
                job(
                    entry,
                    condition,
                    known.unwrap_or_else(|| "It runs, and nothing shows that it goes on".into()),
                )
            })
            .collect(),
    })
}

/// A job for which a condition holds. The store sets its time and version.
fn job(entry: &Entry, condition: Condition, message: String) -> Transition {
    let row = &entry.row;
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Transition {
        uid: row.uid.clone(),
        kind: row.kind.clone(),
        namespace: row.namespace.clone(),
        name: row.name.clone(),
        version: 0,
        at: Timestamp::UNIX_EPOCH,
        from: None,
        state: row.state.clone(),
        phase: row.phase.clone(),
        reason: some(&row.phase_reason),
        cause: some(&row.cause),
        message: Some(message),
        attempt: 0,
        condition: Some(condition),
    }
}

/// A quota, if any of its resources is used to so many percent.
fn used(rule: &Rule, condition: Condition, level: &QuotaLevel, percent: u32) -> Option<Transition> {
    let over: Vec<&QuotaResource> =
        level.resources.iter().filter(|resource| resource.percent >= percent).collect();
    let fullest = over.first()?;
    let words = |resource: &&QuotaResource| {
        let QuotaResource { resource, used, hard, percent, .. } = resource;
        format!("{resource}: {used} of {hard} used ({percent}%)")
    };
    Some(Transition {
        uid: level.uid.clone(),
        kind: QUOTA.to_owned(),
        namespace: rule.namespace.clone(),
        name: level.name.clone(),
        version: 0,
        at: Timestamp::UNIX_EPOCH,
        from: None,
        state: format!("Used to {}%", fullest.percent),
        phase: QUOTA_USED.to_owned(),
        reason: None,
        cause: None,
        message: Some(over.iter().map(words).collect::<Vec<_>>().join(", ")),
        attempt: 0,
        condition: Some(condition),
    })
}

/// Reads how long a job may run before a rule notifies.
pub fn run_time(text: &str) -> Option<u32> {
    let seconds = ::jobs::pick::length(text)?.as_secs();
    u32::try_from(seconds).ok().filter(|seconds| (10..=365 * 86_400).contains(seconds))
}

#[cfg(test)]
mod tests {
    use history::notifications::{Destination, Secret, Transitions};
    use serde_json::{Value, json};

    use super::*;

    fn rule(condition: Condition) -> Rule {
        Rule {
            id: "team/a".to_owned(),
            namespace: "team".to_owned(),
            job: None,
            owner: "jane".to_owned(),
            subject: String::new(),
            kinds: vec!["MPIJob".to_owned()],
            created: Timestamp::UNIX_EPOCH,
            enabled: true,
            disabled_because: None,
            transitions: Transitions::default(),
            condition: Some(condition),
            destination: Destination::Email { to: "jane@example.com".to_owned() },
            secret: Secret::new(vec![7; 32]).unwrap(),
        }
    }

    fn entry(kind: &str, namespace: &str, name: &str, status: Value) -> Arc<Entry> {
        let object = json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": kind,
            "metadata": { "name": name, "namespace": namespace, "uid": name,
                "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": {}, "status": status });
        Arc::new(Entry::of(&serde_json::from_value(object).unwrap()))
    }

    fn running() -> Value {
        json!({ "phase": "Running", "startTime": "2026-01-01T00:00:00Z" })
    }

    fn names(rule: &Rule, jobs: &[Arc<Entry>], now: &str) -> Vec<String> {
        let found = holding(rule, jobs, &Quotas::new(), now.parse().unwrap()).unwrap();
        found.into_iter().map(|transition| transition.name).collect()
    }

    #[test]
    fn a_job_runs_longer_than_a_time_only_after_it_and_while_it_runs() {
        let jobs = [
            entry("MPIJob", "team", "long", running()),
            entry(
                "MPIJob",
                "team",
                "ended",
                json!({ "phase": "Succeeded", "startTime": "2026-01-01T00:00:00Z" }),
            ),
            entry("MPIJob", "team", "waits", json!({ "phase": "Pending" })),
            entry("MPIJob", "other", "elsewhere", running()),
            entry("PyTorchJob", "team", "of-another-kind", running()),
        ];
        let rule = rule(Condition::RunsLonger { seconds: 86_400 });
        assert_eq!(names(&rule, &jobs, "2026-01-02T00:00:00Z"), [""; 0], "not longer yet");
        assert_eq!(names(&rule, &jobs, "2026-01-02T00:00:01Z"), ["long"]);
        let of_another = Rule { job: Some("waits".to_owned()), ..rule };
        assert_eq!(names(&of_another, &jobs, "2026-01-03T00:00:00Z"), [""; 0]);
    }

    #[test]
    fn a_job_is_stalled_when_its_operator_says_so_and_not_when_it_is_tried_again() {
        let stalled = json!({ "phase": "Running", "conditions": [{ "type": "Stalled", "status": "True",
            "reason": "NoOutput", "message": "Nothing was printed for 10 minutes" }] });
        let retried = json!({ "phase": "Running", "phaseReason": "Retrying",
            "waiting": { "reason": "OutOfMemory", "message": "a rank was killed" } });
        let jobs = [
            entry("MPIJob", "team", "silent", stalled),
            entry("MPIJob", "team", "retried", retried),
            entry("MPIJob", "team", "busy", running()),
        ];
        let found = holding(&rule(Condition::Stalled), &jobs, &Quotas::new(), Timestamp::UNIX_EPOCH).unwrap();
        let [silent] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((silent.name.as_str(), silent.state.as_str()), ("silent", "Running (Stalled)"));
        assert_eq!(silent.message.as_deref(), Some("Nothing was printed for 10 minutes"));
    }

    #[test]
    fn a_quota_that_cannot_be_read_is_unknown_and_not_free() {
        let resource = |resource: &str, percent: u32| QuotaResource {
            quota: "compute".to_owned(),
            resource: resource.to_owned(),
            used: percent.to_string(),
            hard: "100".to_owned(),
            percent,
        };
        let level = |percent| QuotaLevel {
            uid: "q".to_owned(),
            name: "compute".to_owned(),
            resources: vec![resource("requests.cpu", percent), resource("requests.memory", 10)],
        };
        let rule = rule(Condition::QuotaUsed { percent: 90 });
        let of = |levels: Option<Vec<QuotaLevel>>| {
            holding(&rule, &[], &Quotas::from([("team".to_owned(), levels)]), Timestamp::UNIX_EPOCH)
        };
        assert!(of(None).is_none());
        assert_eq!(of(Some(vec![level(89)])), Some(Vec::new()));
        let full = of(Some(vec![level(90)])).unwrap();
        assert_eq!(full[0].message.as_deref(), Some("requests.cpu: 90 of 100 used (90%)"));
        assert_eq!((full[0].kind.as_str(), full[0].state.as_str()), ("ResourceQuota", "Used to 90%"));
    }

    #[test]
    fn a_run_time_is_ten_seconds_to_a_year() {
        for (text, seconds) in [("10s", Some(10)), ("24h", Some(86_400)), ("365d", Some(31_536_000))] {
            assert_eq!(run_time(text), seconds, "{text}");
        }
        for text in ["", "9s", "366d", "soon", "-1h", "2026-01-31"] {
            assert_eq!(run_time(text), None, "{text}");
        }
    }
}
