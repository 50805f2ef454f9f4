//! Reports admissions to the audit log of the training service, which joins them with what came through the service.
//!
//! A review is answered without waiting: reports queue up in bounded memory and are sent in batches, again and again
//! until the service has recorded them. A batch that the service refuses is halved until the report that it does not
//! accept is found; that one is left out. Reports that are left out, or for which the queue has no room, are counted, and
//! the count is reported as a line of its own. Those that a crash loses are in this process's own log.
//!
//! A user may update a job as often as the API server permits, and a retried update is a review of its own. Of the updates of
//! one user to one job, some are reported each minute, and the others are counted in one report; of the refused creations of
//! one user in one namespace, too, as they can have any number of names.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Resource};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::review::{Decision, Request};

/// The maximum number of reports that wait.
const MOST_WAITING: usize = 10_000;
/// The maximum number of reports sent at once.
const AT_ONCE: usize = 100;
/// When reports are sent again that the service cannot judge yet.
const AGAIN: Duration = Duration::from_millis(500);
/// The first and the longest wait after a failure.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long reports that wait are still sent when this process stops.
const LAST_CHANCE: Duration = Duration::from_secs(5);
/// The most groups of a user that are reported.
const MOST_GROUPS: usize = 100;
/// The most bytes of the changed fields in a report.
const LONGEST_REASON: usize = 512;
/// How many repeated writes of one kind are reported within a time; the others are counted.
const REPORTED: u32 = 20;
const WITHIN: Duration = Duration::from_secs(60);
/// The most kinds of writes that are counted at a time; those of others are all reported.
const MOST_COUNTED: usize = 10_000;
/// The verb of the report about others that were lost.
const LOST: &str = "lost";
/// Where the service takes reports.
const PATH: &str = "/api/v1/audit/admissions";

/// A write as the webhook saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Admission {
    /// The UID of the review.
    pub review: String,
    /// When.
    pub at: String,
    /// The user.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// `create`, `update` or `delete`; `lost` if this is about reports that are missing before it.
    pub verb: String,
    /// The resource: `mpijobs`.
    pub resource: String,
    /// The namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The id of the service's request that created the object, if the object has it.
    pub request: String,
    /// The HTTP status of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
    /// The reason of a refusal, the fields that an update changes, or how many reports are missing.
    pub reason: String,
    /// The program that wrote: the field manager. Empty if it is unknown.
    pub program: String,
}

impl Admission {
    /// Describes a write, the fields that it changes and what was decided about it.
    pub(super) fn of<K>(request: &Request<K>, decision: &Decision, fields: &[String]) -> Self
    where
        K: Resource<DynamicType = ()>,
    {
        let annotations = request.object.as_ref().and_then(|object| object.meta().annotations.as_ref());
        let by = annotations.and_then(|annotations| annotations.get(api::ANNOTATION_REQUEST));
        let denial = decision.denial.as_ref();
        Self {
            review: request.uid.clone(),
            at: Timestamp::now().to_string(),
            user: request.user_info.username.clone(),
            groups: request.user_info.groups.iter().take(MOST_GROUPS).cloned().collect(),
            verb: request.operation.to_lowercase(),
            resource: K::plural(&()).into_owned(),
            namespace: request.namespace.clone(),
            name: request.name.clone(),
            request: by.cloned().unwrap_or_default(),
            program: request.program(),
            status: denial.map(|denial| i32::from(denial.code)),
            reason: match denial {
                Some(denial) => denial.message.clone(),
                None => fields.join(",").chars().take(LONGEST_REASON).collect(),
            },
        }
    }

    /// Returns with which other writes this one is counted: an update with those of its user to the job, a refused creation with
    /// those of its user in the namespace. Nothing else can be repeated without end.
    fn kind(&self) -> Option<Kind> {
        let name = match self.verb.as_str() {
            "update" => self.name.as_str(),
            "create" if self.status.is_some() => "",
            _ => return None,
        };
        let kind: [&str; 5] = [&self.verb, &self.user, &self.resource, &self.namespace, name];
        Some(kind.map(str::to_owned))
    }

    /// Describes reports that are missing before this one.
    fn of_lost(count: u64) -> Self {
        let now = Timestamp::now();
        Self {
            review: format!("{LOST}-{}", now.as_nanosecond()),
            at: now.to_string(),
            user: "mpi-operator".to_owned(),
            verb: LOST.to_owned(),
            reason: format!("{count} reports are missing"),
            ..Self::default()
        }
    }
}

/// Why reports were not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unrecorded {
    /// The audit log refuses them and will refuse them again.
    Refused(String),
    /// The audit log cannot record anything now.
    Failed(String),
}

/// Takes reports into an audit log.
pub trait Sink: Send + Sync {
    /// Records admissions; returns the reviews that must be reported again.
    fn record(&self, admissions: Vec<Admission>) -> BoxFuture<'_, Result<Vec<String>, Unrecorded>>;
}

/// The training service, over REST.
pub struct TrainingService {
    /// The address of the service and the credentials. The files that it refers to are read when the first report is sent,
    /// and again after a failure, because they can be created or changed after this process has started.
    kubeconfig: Kubeconfig,
    client: Mutex<Option<Client>>,
}

impl TrainingService {
    /// Creates it from a kubeconfig whose cluster is the service.
    pub fn new(kubeconfig: Kubeconfig) -> Self {
        Self { kubeconfig, client: Mutex::default() }
    }

    async fn send(
        &self,
        client: &mut Option<Client>,
        body: Vec<u8>,
    ) -> Result<Recorded, Box<dyn Error + Send + Sync>> {
        let client = match client {
            Some(client) => client,
            none => {
                let config =
                    Config::from_custom_kubeconfig(self.kubeconfig.clone(), &KubeConfigOptions::default())
                        .await?;
                none.insert(client::connect(config)?)
            }
        };
        let request = http::Request::post(PATH).header(http::header::CONTENT_TYPE, "application/json");
        Ok(client.request(request.body(body)?).await?)
    }
}

#[derive(Deserialize)]
struct Recorded {
    #[serde(default)]
    pending: Vec<String>,
}

impl Sink for TrainingService {
    fn record(&self, admissions: Vec<Admission>) -> BoxFuture<'_, Result<Vec<String>, Unrecorded>> {
        Box::pin(async move {
            let body = json!({ "admissions": admissions }).to_string().into_bytes();
            let mut client = self.client.lock().await;
            let recorded = self.send(&mut client, body).await;
            if recorded.is_err() {
                *client = None;
            }
            recorded.map(|recorded| recorded.pending).map_err(|error| unrecorded(&*error))
        })
    }
}

/// Tells an answer about the reports from one about the sender, the time or the service.
fn unrecorded(error: &(dyn Error + Send + Sync + 'static)) -> Unrecorded {
    match error.downcast_ref() {
        Some(kube::Error::Api(status)) if matches!(status.code, 400 | 413 | 422) => {
            Unrecorded::Refused(error.to_string())
        }
        _ => Unrecorded::Failed(error.to_string()),
    }
}

/// The verb, user, resource, namespace and, of an update, name of a write that can be repeated without end.
type Kind = [String; 5];

/// Writes of one kind.
struct Writes {
    since: Instant,
    reported: u32,
    /// Those that were not reported: how many, and the last.
    others: Option<(u64, Admission)>,
}

/// Recent writes, by kind.
#[derive(Default)]
struct Recent(Lock<HashMap<Kind, Writes>>);

impl Recent {
    fn writes(&self) -> std::sync::MutexGuard<'_, HashMap<Kind, Writes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.writes().is_empty()
    }

    /// Returns the write if it is to be reported on its own, and counts it otherwise.
    fn pass(&self, write: Admission) -> Option<Admission> {
        let Some(kind) = write.kind() else { return Some(write) };
        let mut recent = self.writes();
        if recent.len() >= MOST_COUNTED && !recent.contains_key(&kind) {
            return Some(write);
        }
        let fresh = || Writes { since: Instant::now(), reported: 0, others: None };
        let writes = recent.entry(kind).or_insert_with(fresh);
        if writes.reported < REPORTED {
            writes.reported += 1;
            return Some(write);
        }
        let before = writes.others.as_ref().map_or(0, |(count, _)| *count);
        writes.others = Some((before + 1, write));
        None
    }

    /// Removes what is at least this old, and returns the reports of those that were counted.
    fn counted(&self, age: Duration) -> Vec<Admission> {
        let mut recent = self.writes();
        let old = recent.extract_if(|_, writes| writes.since.elapsed() >= age);
        let summary = |(count, last): (u64, Admission)| {
            let what = if last.verb == "create" { "refused creations" } else { "updates" };
            let reason = format!("{count} more {what} within a minute; the last one: {}", last.reason);
            Admission { reason, ..last }
        };
        old.filter_map(|(_, writes)| writes.others.map(summary)).collect()
    }
}

/// Reports admissions. Clones share one queue.
#[derive(Clone)]
pub struct Reporter {
    queue: mpsc::Sender<Admission>,
    recent: Arc<Recent>,
    /// How many reports found no room in the queue.
    lost: Arc<AtomicU64>,
}

impl Reporter {
    /// Creates a reporter and the work that sends its reports, which ends some time after `stop`.
    pub fn new(sink: Arc<dyn Sink>, stop: CancellationToken) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, reports) = mpsc::channel(MOST_WAITING);
        let (lost, recent) = (Arc::new(AtomicU64::new(0)), Arc::new(Recent::default()));
        let reporter = Self { queue, lost: lost.clone(), recent: recent.clone() };
        let work = async move {
            let last_chance = async {
                stop.cancelled().await;
                tokio::time::sleep(LAST_CHANCE).await;
            };
            tokio::select! {
                () = send(&*sink, reports, (&lost, &recent)) => {}
                () = last_chance => tracing::warn!("some admissions were not reported to the audit log"),
            }
        };
        (reporter, work)
    }

    /// Queues a report.
    pub(super) fn report(&self, admission: Admission) {
        let Some(admission) = self.recent.pass(admission) else { return };
        if self.queue.try_send(admission).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            tracing::warn!("an admission is not reported to the audit log: too many wait");
        }
    }
}

/// Sends reports until no more can come.
async fn send(
    sink: &dyn Sink,
    mut reports: mpsc::Receiver<Admission>,
    (lost, recent): (&AtomicU64, &Recent),
) {
    let (mut waiting, mut wait, mut at_once) = (VecDeque::new(), FIRST_WAIT, AT_ONCE);
    loop {
        waiting.extend(recent.counted(WITHIN));
        if waiting.is_empty() && lost.load(Ordering::Relaxed) == 0 {
            let counts = !recent.is_empty();
            tokio::select! {
                report = reports.recv() => match report {
                    Some(report) => waiting.push_back(report),
                    None => {
                        waiting.extend(recent.counted(Duration::ZERO));
                        if waiting.is_empty() {
                            return;
                        }
                    }
                },
                () = tokio::time::sleep(WITHIN), if counts => continue,
            }
        }
        let missing = lost.swap(0, Ordering::Relaxed);
        if missing > 0 {
            waiting.push_front(Admission::of_lost(missing));
        }
        while waiting.len() < AT_ONCE
            && let Ok(report) = reports.try_recv()
        {
            waiting.push_back(report);
        }
        let batch: Vec<Admission> = waiting.iter().take(at_once).cloned().collect();
        let size = batch.len();
        match sink.record(batch).await {
            Ok(pending) => {
                let pending: BTreeSet<String> = pending.into_iter().collect();
                let sent: Vec<Admission> = waiting.drain(..size).collect();
                waiting.extend(sent.into_iter().filter(|report| pending.contains(&report.review)));
                (wait, at_once) = (FIRST_WAIT, (at_once * 2).min(AT_ONCE));
                if !pending.is_empty() {
                    tokio::time::sleep(AGAIN).await;
                }
            }
            Err(Unrecorded::Refused(error)) if size <= 1 => {
                let refused = waiting.pop_front();
                tracing::warn!(error, report = ?refused, "the audit log does not accept a report");
                // A log that does not accept the count of missing reports does not get another one about that.
                if refused.is_some_and(|refused| refused.verb != LOST) {
                    lost.fetch_add(1, Ordering::Relaxed);
                }
            }
            Err(Unrecorded::Refused(_)) => at_once = size / 2,
            Err(Unrecorded::Failed(error)) => {
                tracing::warn!(
                    error,
                    reports = waiting.len(),
                    "cannot report admissions to the audit log; trying again"
                );
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log that does not accept some reports.
    #[derive(Default)]
    struct Picky {
        recorded: Lock<Vec<Admission>>,
        knows_lost: bool,
    }

    impl Sink for Picky {
        fn record(&self, admissions: Vec<Admission>) -> BoxFuture<'_, Result<Vec<String>, Unrecorded>> {
            Box::pin(async move {
                let refuses =
                    |report: &Admission| report.user == "bad" || (report.verb == LOST && !self.knows_lost);
                if admissions.iter().any(refuses) {
                    return Err(Unrecorded::Refused("422".to_owned()));
                }
                self.recorded.lock().unwrap().extend(admissions);
                Ok(Vec::new())
            })
        }
    }

    /// What such a log has recorded of reports of these users, if the queue had no room for others before.
    async fn recorded(users: &[&str], without_room: u64, knows_lost: bool) -> Vec<Admission> {
        let sink = Arc::new(Picky { knows_lost, ..Picky::default() });
        let (reporter, work) = Reporter::new(sink.clone(), CancellationToken::new());
        reporter.lost.store(without_room, Ordering::Relaxed);
        for user in users {
            reporter.report(Admission { user: (*user).to_owned(), ..Admission::default() });
        }
        drop(reporter);
        work.await;
        let recorded = sink.recorded.lock().unwrap();
        recorded.clone()
    }

    #[tokio::test]
    async fn a_report_that_is_refused_holds_up_no_other_and_is_counted() {
        let mut users = vec!["good"; 150];
        (users[3], users[97]) = ("bad", "bad");
        let found = recorded(&users, 0, true).await;
        let good = found.iter().filter(|report| report.user == "good").count();
        let lost: Vec<&str> =
            found.iter().filter(|report| report.verb == LOST).map(|report| report.reason.as_str()).collect();
        assert_eq!((good, lost), (148, vec!["1 reports are missing"; 2]));
    }

    #[tokio::test]
    async fn reports_for_which_there_was_no_room_are_counted_in_the_log() {
        let found = recorded(&["good"], 7, true).await;
        assert_eq!((found[0].reason.as_str(), found[1].user.as_str()), ("7 reports are missing", "good"));
        let old = recorded(&["good"], 7, false).await;
        assert_eq!(old.len(), 1, "a log that does not know such a line gets the others");
    }

    #[tokio::test]
    async fn many_updates_of_a_job_are_counted_in_one_report() {
        let sink = Arc::new(Picky { knows_lost: true, ..Picky::default() });
        let (reporter, work) = Reporter::new(sink.clone(), CancellationToken::new());
        for number in 0..500 {
            let update = |name: &str| Admission {
                review: number.to_string(),
                verb: "update".to_owned(),
                name: name.to_owned(),
                reason: "spec.runPolicy.suspend".to_owned(),
                ..Admission::default()
            };
            reporter.report(update("busy"));
            if number == 0 {
                reporter.report(update("other"));
            }
        }
        drop(reporter);
        work.await;
        let recorded = sink.recorded.lock().unwrap();
        assert_eq!(recorded.len(), REPORTED as usize + 2, "the other job's, and the count");
        let last = recorded.last().unwrap();
        assert_eq!((last.review.as_str(), last.name.as_str()), ("499", "busy"));
        assert_eq!(last.reason, "480 more updates within a minute; the last one: spec.runPolicy.suspend");
    }

    #[tokio::test]
    async fn many_refused_creations_in_a_namespace_are_counted_in_one_report_and_others_are_not() {
        let sink = Arc::new(Picky { knows_lost: true, ..Picky::default() });
        let (reporter, work) = Reporter::new(sink.clone(), CancellationToken::new());
        for number in 0..100 {
            let create = |namespace: &str, status: Option<i32>| Admission {
                verb: "create".to_owned(),
                namespace: namespace.to_owned(),
                name: format!("job-{number}"),
                status,
                reason: status.map(|_| "Quota exceeded".to_owned()).unwrap_or_default(),
                ..Admission::default()
            };
            reporter.report(create("full", Some(403)));
            reporter.report(create("free", None));
            if number == 0 {
                reporter.report(create("other", Some(403)));
            }
        }
        drop(reporter);
        work.await;
        let recorded = sink.recorded.lock().unwrap();
        let of = |namespace: &str| recorded.iter().filter(|report| report.namespace == namespace).count();
        assert_eq!((of("free"), of("full"), of("other")), (100, REPORTED as usize + 1, 1));
        let last = recorded.last().unwrap();
        assert_eq!((last.name.as_str(), last.status), ("job-99", Some(403)));
        assert_eq!(last.reason, "80 more refused creations within a minute; the last one: Quota exceeded");
    }

    #[test]
    fn only_an_answer_about_the_reports_refuses_them() {
        let error = |code: u16| kube::Error::Api(Box::new(kube::core::Status { code, ..Default::default() }));
        for code in [400, 413, 422] {
            assert!(matches!(unrecorded(&error(code)), Unrecorded::Refused(_)), "{code}");
        }
        for code in [401, 403, 404, 408, 429, 500, 503] {
            assert!(matches!(unrecorded(&error(code)), Unrecorded::Failed(_)), "{code}");
        }
    }
}
