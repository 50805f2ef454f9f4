//! Reports admissions to the audit log of the training service, which joins them with what came through the service.
//!
//! A review is answered without waiting: reports queue up in bounded memory and are sent in batches, again and again
//! until the service has recorded them. Those that a crash loses are in this process's own log.

use std::collections::{BTreeSet, VecDeque};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Resource};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{Mutex, mpsc};
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
    /// `create`, `update` or `delete`.
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
    /// The reason of a refusal.
    pub reason: String,
}

impl Admission {
    /// Describes a write and what was decided about it.
    pub(super) fn of<K>(request: &Request<K>, decision: &Decision) -> Self
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
            status: denial.map(|denial| i32::from(denial.code)),
            reason: denial.map(|denial| denial.message.clone()).unwrap_or_default(),
        }
    }
}

/// Takes reports into an audit log.
pub trait Sink: Send + Sync {
    /// Records admissions; returns the reviews that must be reported again.
    fn record(&self, admissions: Vec<Admission>) -> BoxFuture<'_, Result<Vec<String>, String>>;
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
    fn record(&self, admissions: Vec<Admission>) -> BoxFuture<'_, Result<Vec<String>, String>> {
        Box::pin(async move {
            let body = json!({ "admissions": admissions }).to_string().into_bytes();
            let mut client = self.client.lock().await;
            let recorded = self.send(&mut client, body).await;
            if recorded.is_err() {
                *client = None;
            }
            recorded.map(|recorded| recorded.pending).map_err(|error| error.to_string())
        })
    }
}

/// Reports admissions. Clones share one queue.
#[derive(Clone)]
pub struct Reporter {
    queue: mpsc::Sender<Admission>,
}

impl Reporter {
    /// Creates a reporter and the work that sends its reports, which ends some time after `stop`.
    pub fn new(sink: Arc<dyn Sink>, stop: CancellationToken) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, reports) = mpsc::channel(MOST_WAITING);
        let work = async move {
            let last_chance = async {
                stop.cancelled().await;
                tokio::time::sleep(LAST_CHANCE).await;
            };
            tokio::select! {
                () = send(&*sink, reports) => {}
                () = last_chance => tracing::warn!("some admissions were not reported to the audit log"),
            }
        };
        (Self { queue }, work)
    }

    /// Queues a report.
    pub(super) fn report(&self, admission: Admission) {
        if self.queue.try_send(admission).is_err() {
            tracing::warn!("an admission is not reported to the audit log: too many wait");
        }
    }
}

/// Sends reports until no more can come.
async fn send(sink: &dyn Sink, mut reports: mpsc::Receiver<Admission>) {
    let (mut waiting, mut wait) = (VecDeque::new(), FIRST_WAIT);
    loop {
        if waiting.is_empty() {
            match reports.recv().await {
                Some(report) => waiting.push_back(report),
                None => return,
            }
        }
        while waiting.len() < AT_ONCE
            && let Ok(report) = reports.try_recv()
        {
            waiting.push_back(report);
        }
        let batch: Vec<Admission> = waiting.iter().take(AT_ONCE).cloned().collect();
        match sink.record(batch).await {
            Ok(pending) => {
                let pending: BTreeSet<String> = pending.into_iter().collect();
                let sent: Vec<Admission> = waiting.drain(..waiting.len().min(AT_ONCE)).collect();
                waiting.extend(sent.into_iter().filter(|report| pending.contains(&report.review)));
                wait = FIRST_WAIT;
                if !pending.is_empty() {
                    tokio::time::sleep(AGAIN).await;
                }
            }
            Err(error) => {
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
