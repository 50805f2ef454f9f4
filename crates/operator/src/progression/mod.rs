//! Progress by the annotations of the Open Data Hub build of Trainer (`opendatahub-io/trainer`, `pkg/rhai/progression`):
//! the program of a job with `trainer.opendatahub.io/progression-tracking: "true"` serves its metrics, and the operator
//! asks for them from time to time, and reads the last ones from the termination message. It writes them to the annotation
//! `trainer.opendatahub.io/trainerStatus`, and to `status.trainerStatus` unless the program reports there itself.
//!
//! All of this is beside the passes over jobs, which never wait for a program. Only pods of the job itself are asked.

mod metrics;
mod mpijobs;
mod poll;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{
    ANNOTATION_METRICS_POLL_INTERVAL, ANNOTATION_METRICS_PORT, ANNOTATION_PROGRESSION_TRACKING,
    ANNOTATION_TRAINER_STATUS, MPIJob, TrainJob, TrainerStatus,
};
use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use plan::ReportingKind;
use plan::kept::Pod;
use semantics::is_ready;
use serde_json::json;

use crate::context::Shared;
use crate::error::Error;
use crate::progress::{self, Target};
use crate::slim::Slim;
use metrics::Progression;
pub(crate) use mpijobs::tracked as mpijobs;
use poll::poll;

/// How often jobs are looked through for one whose turn it is, which costs no request.
const LOOK: Duration = Duration::from_secs(2);
/// Programs asked at once.
const AT_ONCE: usize = 16;
/// The most pods of a job that are asked in one turn.
const MOST_ASKED: usize = 2;
/// The interval of a job that names none, and the bounds for those that do.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);
const SHORTEST_INTERVAL: Duration = Duration::from_secs(5);
const LONGEST_INTERVAL: Duration = Duration::from_secs(300);
/// The port of a job that names none; those below 1024 are not asked.
const DEFAULT_PORT: u16 = 28080;
const LOWEST_PORT: u16 = 1024;

/// A job whose program is asked.
pub(crate) struct Tracked {
    pub target: Target,
    pub uid: String,
    pub annotations: BTreeMap<String, String>,
    /// `status.trainerStatus`.
    pub reported: Option<TrainerStatus>,
    /// Whether it succeeded, once it has ended.
    pub outcome: Option<bool>,
    /// The pods that may run its program, the likeliest first.
    pub pods: Vec<Arc<Pod>>,
}

/// Whether a job asks for it.
pub(crate) fn is_tracked(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(ANNOTATION_PROGRESSION_TRACKING).is_some_and(|value| value == "true")
}

impl Tracked {
    fn interval(&self) -> Duration {
        let text = self.annotations.get(ANNOTATION_METRICS_POLL_INTERVAL).map(String::as_str);
        let seconds = |text: &str| text.parse().ok().map(Duration::from_secs);
        let interval = text.and_then(|text| seconds(text).or_else(|| plan::parse_duration(text)));
        interval.unwrap_or(DEFAULT_INTERVAL).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL)
    }

    fn port(&self) -> u16 {
        let port = self.annotations.get(ANNOTATION_METRICS_PORT).and_then(|port| port.parse().ok());
        port.filter(|port| *port >= LOWEST_PORT).unwrap_or(DEFAULT_PORT)
    }

    /// What was written last.
    fn known(&self) -> Option<Progression> {
        self.annotations.get(ANNOTATION_TRAINER_STATUS).and_then(|text| Progression::of_annotation(text))
    }

    /// Where the program may answer: at the pods that are ready.
    fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let ready = self.pods.iter().filter(|pod| is_ready(&***pod));
        let ip = |pod: &Arc<Pod>| pod.status.as_ref()?.pod_ip.as_ref()?.parse::<IpAddr>().ok();
        ready.filter_map(ip).take(MOST_ASKED).map(|ip| SocketAddr::new(ip, self.port()))
    }

    /// The last progress of a program that has ended, from a termination message.
    fn last_words(&self) -> Option<Progression> {
        let statuses = self.pods.iter().filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref());
        let ended = statuses.flatten().filter_map(|status| status.state.as_ref()?.terminated.as_ref());
        let mut read = ended.filter_map(|ended| Progression::read(ended.message.as_ref()?));
        read.find(|read| read.progress_percentage.is_some())
    }

    /// The key of its turns: a job that ends has one at once.
    fn turn(&self) -> (String, bool) {
        (self.uid.clone(), self.outcome.is_some())
    }

    /// Returns its progress now, if there is anything new.
    async fn look(&self) -> Option<Progression> {
        let Some(has_succeeded) = self.outcome else {
            for address in self.addresses() {
                if let Some(found) = poll(address).await {
                    return Some(found);
                }
            }
            return None;
        };
        let known = self.known();
        if known.as_ref().is_some_and(Progression::is_final) {
            return None;
        }
        let mut last = self.last_words().or(known)?;
        last.conclude(has_succeeded);
        Some(last)
    }

    /// Whether the program reports by the protocol, too: then the status is newer than what was written last.
    fn reports_itself(&self) -> bool {
        let written = self.known().and_then(|known| known.updated());
        let reported = self.reported.as_ref().and_then(|status| Some(status.last_updated_time.as_ref()?.0));
        reported.is_some_and(|reported| written.is_none_or(|written| written < reported))
    }
}

/// Asks the programs of these jobs for as long as it is polled.
pub(crate) async fn track(shared: &Shared, jobs: impl Fn() -> Vec<Tracked>) {
    let mut next: HashMap<(String, bool), Instant> = HashMap::new();
    loop {
        tokio::time::sleep(LOOK).await;
        let (tracked, now) = (jobs(), Instant::now());
        let there: HashSet<_> = tracked.iter().map(Tracked::turn).collect();
        next.retain(|turn, _| there.contains(turn));
        let due = tracked.into_iter().filter(|job| next.get(&job.turn()).is_none_or(|at| *at <= now));
        let due: Vec<Tracked> = due.collect();
        next.extend(due.iter().map(|job| (job.turn(), now + job.interval())));
        futures::stream::iter(due).for_each_concurrent(AT_ONCE, |job| take_turn(shared, job)).await;
    }
}

async fn take_turn(shared: &Shared, job: Tracked) {
    let Some(found) = job.look().await else { return };
    if let Err(error) = write(shared, &job, found).await {
        let Target { namespace, name, .. } = &job.target;
        tracing::warn!(namespace, name, %error, "cannot write the progress of a job");
    }
}

/// Writes the annotation, then the status.
async fn write(shared: &Shared, job: &Tracked, mut found: Progression) -> Result<(), Error> {
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    found.last_updated_time = Some(now.to_string());
    let Some(text) = found.annotation() else { return Ok(()) };
    let Target { kind, namespace, name } = &job.target;
    // With the UID, so that it never lands on a new job of the same name.
    let metadata = json!({ "uid": job.uid, "annotations": { ANNOTATION_TRAINER_STATUS: text } });
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(json!({ "metadata": metadata })));
    let _permit = shared.writes.acquire().await;
    let client = shared.client.clone();
    let written = match kind {
        ReportingKind::MpiJob => {
            let jobs: Api<Slim<MPIJob>> = Api::namespaced(client, namespace);
            jobs.patch(name, &parameters, &patch).await.map(drop)
        }
        ReportingKind::TrainJob => {
            let jobs: Api<Slim<TrainJob>> = Api::namespaced(client, namespace);
            jobs.patch(name, &parameters, &patch).await.map(drop)
        }
    };
    written.map_err(Error::request("annotate the job"))?;
    if job.reports_itself() {
        return Ok(());
    }
    let status = found.trainer_status(now);
    progress::write(&shared.client, &job.target, &status).await.map_err(Error::request("write the status"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn tracked(annotations: Value) -> Tracked {
        let (namespace, name) = ("team".to_owned(), "digits".to_owned());
        Tracked {
            target: Target { kind: ReportingKind::MpiJob, namespace, name },
            uid: "1a2b".to_owned(),
            annotations: serde_json::from_value(annotations).unwrap(),
            reported: None,
            outcome: None,
            pods: Vec::new(),
        }
    }

    fn pod(ip: &str, ready: &str, message: &str) -> Arc<Pod> {
        let state = json!({ "terminated": { "exitCode": 0, "message": message } });
        let pod = json!({ "status": { "podIP": ip, "conditions": [{ "type": "Ready", "status": ready }],
            "containerStatuses": [{ "name": "main", "state": state }] } });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn intervals_and_ports_have_bounds_and_defaults() {
        for (text, seconds) in
            [("45s", 45), ("2m", 120), ("7", 7), ("1s", 5), ("0", 5), ("1h", 300), ("soon", 30), ("", 30)]
        {
            let job = tracked(json!({ ANNOTATION_METRICS_POLL_INTERVAL: text }));
            assert_eq!(job.interval(), Duration::from_secs(seconds), "{text}");
        }
        for (text, port) in [("8080", 8080), ("80", 28080), ("70000", 28080), ("http", 28080)] {
            assert_eq!(tracked(json!({ ANNOTATION_METRICS_PORT: text })).port(), port, "{text}");
        }
        let job = tracked(json!({}));
        assert_eq!((job.interval(), job.port()), (DEFAULT_INTERVAL, DEFAULT_PORT));
    }

    #[test]
    fn only_ready_pods_are_asked_and_few_of_them() {
        let mut job = tracked(json!({}));
        job.pods = vec![
            pod("10.0.0.1", "False", ""),
            pod("10.0.0.2", "True", ""),
            pod("nonsense", "True", ""),
            pod("fd00::3", "True", ""),
            pod("10.0.0.4", "True", ""),
        ];
        let addresses: Vec<String> = job.addresses().map(|address| address.to_string()).collect();
        assert_eq!(addresses, ["10.0.0.2:28080", "[fd00::3]:28080"]);
    }

    #[test]
    fn a_program_that_reports_itself_is_not_overruled() {
        let annotated =
            |time: &str| json!({ ANNOTATION_TRAINER_STATUS: json!({ "lastUpdatedTime": time }).to_string() });
        let reported = |time: &str| serde_json::from_value(json!({ "lastUpdatedTime": time })).unwrap();
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:30Z");
        for (annotations, status, expected) in [
            (json!({}), None, false),
            (json!({}), Some(reported(early)), true),
            (annotated(late), Some(reported(late)), false),
            (annotated(late), Some(reported(early)), false),
            (annotated(early), Some(reported(late)), true),
        ] {
            let job = Tracked { reported: status, ..tracked(annotations) };
            assert_eq!(job.reports_itself(), expected);
        }
    }

    #[tokio::test]
    async fn the_end_is_told_once_by_the_last_words_or_else_by_what_is_known() {
        let known =
            json!({ "progressPercentage": 40, "lastUpdatedTime": "2026-01-01T00:00:00Z" }).to_string();
        let mut job = tracked(json!({ ANNOTATION_TRAINER_STATUS: known }));
        job.outcome = Some(false);
        job.pods = vec![pod("10.0.0.1", "False", "Killed")];
        let last = job.look().await.unwrap();
        assert_eq!(last.estimated_remaining_time_summary.as_deref(), Some("failed at 40%"));
        job.pods.push(pod("10.0.0.2", "False", r#"{"progressPercentage": 90}"#));
        let last = job.look().await.unwrap();
        assert_eq!(last.estimated_remaining_time_summary.as_deref(), Some("failed at 90%"));
        job.annotations.insert(ANNOTATION_TRAINER_STATUS.to_owned(), last.annotation().unwrap());
        assert_eq!(job.look().await, None);
        let unknown = Tracked { outcome: Some(true), ..tracked(json!({})) };
        assert_eq!(unknown.look().await, None, "nothing is made up");
    }
}
