//! The progress of a job as a stream of values: accepted, queued, scheduled, Workers ready, Launcher running, ended.
//!
//! Watches the job, its pods and its Warning events, and converts changes into the [`Progress`] that a user wants to
//! see. The conversion is pure ([`tell`]). Memory is bounded: only the last state of the job's own objects is kept.

#[cfg(test)]
mod samples;
mod waiting;
mod warnings;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use api::{Failure, Phase};
use diagnosis::Cause;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DynamicObject;

use crate::describe::{self, EventView, PodView};
use crate::part::is_launcher;
use crate::view::{self, Row};
use crate::{Error, Kind};

use waiting::tell_waiting;
pub(crate) use waiting::{hindrance, standing};
pub use watch::{Watch, watch};

/// A job that has not started and of which nothing was reported for this long: what it is at is reported.
pub(crate) const QUIET: Duration = Duration::from_secs(3);
/// After this time, waiting for a job ends whose pods the API server has refused all along: it goes on only if somebody
/// changes the job or a policy of the cluster.
const REFUSED_FOR: Duration = Duration::from_secs(120);

/// One step of progress, in order of occurrence.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// The job exists in the cluster.
    Accepted,
    /// The job waits for a queue, a resume, a node or similar.
    Waiting {
        /// One CamelCase word: `Queued`, `Suspended`, `Unschedulable`, `Restarting`.
        reason: String,
        /// What it waits for, as text.
        detail: String,
    },
    /// Some of its pods are scheduled.
    Scheduled {
        /// Pods with a node.
        pods: usize,
        /// The number of pods expected.
        of: usize,
    },
    /// Some of its Workers are ready.
    WorkersReady {
        /// The number of ready Workers.
        ready: i32,
        /// The number of Workers requested.
        of: i32,
    },
    /// The Launcher's container runs.
    LauncherRunning {
        /// Its pod.
        pod: String,
    },
    /// An event that may matter.
    Warning(EventView),
    /// The job has ended; its state is final.
    Ended(Outcome),
}

/// How the job ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The job succeeded, with exit code 0.
    Succeeded,
    /// The job failed.
    Failed(Failure),
    /// It was deleted.
    Deleted,
}

/// The observed state of the job's objects.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The job, once observed.
    pub job: Option<DynamicObject>,
    /// Whether it was observed and then deleted.
    pub gone: bool,
    /// Its pods by name.
    pub pods: BTreeMap<String, Pod>,
}

/// What was already reported.
#[derive(Clone, Debug, Default)]
pub struct Told {
    accepted: bool,
    waiting: Option<(String, String)>,
    quiet: Option<(String, String)>,
    scheduled: usize,
    ready: Option<i32>,
    launcher: Option<String>,
    attempt: u32,
    ended: bool,
    warnings: BTreeSet<(String, String, String)>,
    /// Since when the API server has refused the job's pods.
    refused: Option<Instant>,
}

/// Returns the progress since the last call.
pub fn tell(told: &mut Told, seen: &Seen) -> Vec<Progress> {
    let mut news = Vec::new();
    if told.ended {
        return news;
    }
    if seen.gone {
        told.ended = true;
        return vec![Progress::Ended(Outcome::Deleted)];
    }
    let Some(job) = &seen.job else { return news };
    if !told.accepted {
        told.accepted = true;
        news.push(Progress::Accepted);
    }
    let row = view::row(job);
    tell_waiting(told, seen, &row, &mut news);
    tell_pods(told, seen, &row, &mut news);
    if row.has_ended() {
        told.ended = true;
        news.push(Progress::Ended(outcome(job)));
    }
    news
}

/// Returns why the API server refuses the job's pods, once it has done so for [`REFUSED_FOR`].
fn refused(told: &mut Told, seen: &Seen, now: Instant) -> Option<Error> {
    let waiting = seen.job.as_ref().and_then(|job| Some((job, view::status(job).waiting?)));
    let Some((job, waiting)) =
        waiting.filter(|(_, waiting)| waiting.reason == Cause::AdmissionRefused.word())
    else {
        told.refused = None;
        return None;
    };
    let since = *told.refused.get_or_insert(now);
    (now.duration_since(since) >= REFUSED_FOR).then(|| Error::PodsRefused {
        kind: Kind::of(job),
        name: job.name_any(),
        message: waiting.message,
        suggestion: waiting.suggestion,
    })
}

fn tell_pods(told: &mut Told, seen: &Seen, row: &Row, news: &mut Vec<Progress>) {
    let attempt = seen.job.as_ref().map_or(0, |job| plan::attempt_of(&job.metadata));
    if attempt > told.attempt {
        (told.attempt, told.scheduled, told.ready) = (attempt, 0, None);
    }
    // Only pods of an MPIJob carry the number of their attempt as the job does.
    let former = |pod: &Pod| row.kind == Kind::MpiJob && plan::attempt_of(&pod.metadata) != attempt;
    // Nor do pods count that end, such as those of the run before a suspension.
    let leaves = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    let pods: Vec<&Pod> = seen.pods.values().filter(|pod| !former(pod) && !leaves(pod)).collect();
    let placed = |pod: &&&Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let scheduled = pods.iter().filter(placed).count();
    if scheduled > told.scheduled && told.ready.is_none_or(|ready| ready < row.workers.of) {
        told.scheduled = scheduled;
        // The Launcher, which may be one of a TrainJob's nodes, and the Workers, even while not all of them exist.
        let launchers = usize::from(row.kind != Kind::TrainJob);
        let wanted = usize::try_from(row.workers.of).unwrap_or(0) + launchers;
        news.push(Progress::Scheduled { pods: scheduled, of: wanted.max(pods.len()) });
    }
    let views = pods.iter().map(|pod| describe::pod_view(pod));
    let is_worker = |pod: &PodView| pod.role == "worker" || (pod.role == "launcher" && pod.index.is_some());
    let ready = views.filter(|pod| is_worker(pod) && pod.ready).count();
    let ready = i32::try_from(ready).unwrap_or(i32::MAX);
    if ready > told.ready.unwrap_or(0) {
        told.ready = Some(ready);
        news.push(Progress::WorkersReady { ready, of: row.workers.of });
    }
    let launcher = pods
        .iter()
        .filter(|pod| is_launcher(pod) && describe::started(pod))
        .max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
    if let Some(name) = launcher.map(|pod| pod.name_any())
        && told.launcher.as_ref() != Some(&name)
    {
        told.launcher = Some(name.clone());
        news.push(Progress::LauncherRunning { pod: name });
    }
}

/// Returns how a finished job ended.
pub fn outcome(job: &DynamicObject) -> Outcome {
    let row = view::row(job);
    let status = view::status(job);
    if row.phase == Phase::Succeeded {
        return Outcome::Succeeded;
    }
    Outcome::Failed(status.failure.unwrap_or_else(|| {
        let condition = status.conditions.iter().find(|condition| condition.type_ == api::CONDITION_FAILED);
        Failure {
            reason: row.phase_reason.unwrap_or_else(|| "Unknown".to_owned()),
            message: condition.and_then(|condition| condition.message.clone()).unwrap_or_default(),
            ..Failure::default()
        }
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::samples::{job, pod, ready};
    use super::*;

    #[test]
    fn each_step_of_progress_is_reported_once() {
        let mut told = Told::default();
        let mut seen = Seen {
            job: Some(job(json!({"phase": "Pending", "phaseReason": "Initializing"}))),
            ..Seen::default()
        };
        assert_eq!(tell(&mut told, &seen), [Progress::Accepted]);
        seen.pods.extend([pod("pi-worker-0", "worker", ready()), pod("pi-worker-1", "worker", json!({}))]);
        assert_eq!(
            tell(&mut told, &seen),
            [Progress::Scheduled { pods: 1, of: 3 }, Progress::WorkersReady { ready: 1, of: 2 }]
        );
        assert_eq!(tell(&mut told, &seen), []);
        seen.pods.extend([pod("pi-worker-1", "worker", ready()), pod("pi-launcher-x", "launcher", ready())]);
        assert_eq!(
            tell(&mut told, &seen),
            [
                Progress::Scheduled { pods: 3, of: 3 },
                Progress::WorkersReady { ready: 2, of: 2 },
                Progress::LauncherRunning { pod: "pi-launcher-x".into() }
            ]
        );
        let failure = json!({"reason": "WorkerLost", "message": "m", "worker": 1, "exitCode": 137});
        seen.job = Some(job(json!({"phase": "Failed", "phaseReason": "WorkerLost", "failure": failure})));
        let news = tell(&mut told, &seen);
        assert!(
            matches!(&news[..], [Progress::Ended(Outcome::Failed(f))] if f.worker == Some(1) && f.exit_code == Some(137))
        );
        assert_eq!(tell(&mut told, &seen), []);
    }

    #[test]
    fn a_job_whose_pods_are_refused_is_not_waited_for_without_end() {
        let waiting = |reason: &str| {
            let waiting =
                json!({"reason": reason, "message": "violates PodSecurity", "suggestion": "Set it."});
            let job = Some(job(json!({"phase": "Pending", "phaseReason": reason, "waiting": waiting})));
            Seen { job, ..Seen::default() }
        };
        let (mut told, start) = (Told::default(), Instant::now());
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        assert!(refused(&mut told, &waiting("AdmissionRefused"), start).is_none());
        assert!(refused(&mut told, &waiting("AdmissionRefused"), after(119)).is_none());
        let error = refused(&mut told, &waiting("AdmissionRefused"), after(120)).unwrap();
        assert_eq!((error.class().exit_code(), error.reason()), (5, "AdmissionRefused"));
        assert!(error.to_string().contains("violates PodSecurity"), "{error}");
        assert_eq!(error.advice().unwrap().text, "Set it.");
        assert!(refused(&mut told, &waiting("Unschedulable"), after(130)).is_none(), "it may start");
        assert!(refused(&mut told, &waiting("AdmissionRefused"), after(131)).is_none(), "refused again");
        assert!(refused(&mut told, &waiting("AdmissionRefused"), after(251)).is_some());
    }

    #[test]
    fn a_deleted_job_ends() {
        let mut told = Told::default();
        let mut seen = Seen { job: Some(job(json!({}))), ..Seen::default() };
        tell(&mut told, &seen);
        seen.gone = true;
        assert_eq!(tell(&mut told, &seen), [Progress::Ended(Outcome::Deleted)]);
    }
}
