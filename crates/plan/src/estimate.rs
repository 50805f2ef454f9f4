//! Estimates when a resource becomes free, from what the jobs that hold it are expected to take.
//!
//! The input is how much is missing and who holds how much; the output is a range and what it rests on, or
//! [`Estimate::Unknown`] if nothing supports one. A job's end is expected, in this order, from the remaining time that its
//! program reports, from past jobs of the same user and shape, or from all past jobs; a deadline bounds each of them, and
//! alone gives a range from now on. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::{MPIJob, Phase, WORKER};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceRequirements;
use semantics::Quantity;
use serde::Serialize;

use crate::owner::owner;

/// The minimum number of finished jobs for an estimate.
const FEWEST_EXAMPLES: usize = 3;

/// How long something takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "estimate", rename_all_fields = "camelCase")]
pub enum Estimate {
    /// Probably between these.
    Range {
        /// The least, in seconds from now.
        low_seconds: i64,
        /// The most, in seconds from now.
        high_seconds: i64,
        /// What it rests on.
        basis: Vec<Basis>,
    },
    /// Nothing supports an estimate.
    Unknown,
}

/// Something that an estimate rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Basis {
    /// What it is.
    pub source: Source,
    /// The number of jobs.
    pub jobs: usize,
}

/// The kinds of things that an estimate rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Source {
    /// The remaining time that programs of running jobs report.
    Progress,
    /// Past jobs of the same users and shapes as the running ones.
    SimilarJobs,
    /// All past jobs.
    EndedJobs,
    /// The deadlines of running jobs.
    Deadlines,
    /// The jobs ahead in the queue.
    QueueOrder,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.jobs;
        let (s, have) = if count == 1 { ("", "has") } else { ("s", "have") };
        match self.source {
            Source::Progress => write!(f, "the progress of {count} running job{s}"),
            Source::SimilarJobs => write!(f, "{count} job{s} of the same user and shape that {have} ended"),
            Source::EndedJobs => write!(f, "{count} job{s} that {have} ended"),
            Source::Deadlines => write!(f, "the deadline{s} of {count} running job{s}"),
            Source::QueueOrder => write!(f, "{count} job{s} ahead in the queue"),
        }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Estimate::Range { low_seconds, high_seconds, basis } => {
                let basis: Vec<String> = basis.iter().map(Basis::to_string).collect();
                write!(f, "{} (from {})", range(*low_seconds, *high_seconds), basis.join(" and "))
            }
            Estimate::Unknown => f.write_str(
                "unknown (too few jobs have ended for an estimate, and the running jobs have no deadline)",
            ),
        }
    }
}

fn range(low: i64, high: i64) -> String {
    let minutes = |seconds: i64| (seconds + 59) / 60;
    match (minutes(low), minutes(high)) {
        (_, 0 | 1) => "1 minute".to_owned(),
        (low, high) if low == high => format!("{high} minutes"),
        (low, high) => format!("{low} to {high} minutes"),
    }
}

/// A running job, and how much it holds of the resource.
pub(crate) struct Holder<'a> {
    pub job: &'a MPIJob,
    pub held: Quantity,
}

/// What is known about how long jobs take.
pub(crate) struct Experience<'a> {
    /// All visible jobs.
    pub jobs: &'a [MPIJob],
    /// The remaining time that programs report, in seconds, by the job's UID.
    pub remaining_seconds: &'a BTreeMap<String, i64>,
    pub now: Timestamp,
}

/// The ends of the running jobs, and what they rest on.
#[derive(Default)]
struct Ends {
    /// The earliest and the latest end, in seconds from now, and what is released then.
    at: Vec<(i64, i64, Quantity)>,
    progress: usize,
    deadlines: usize,
    similar: BTreeSet<usize>,
    ended: BTreeSet<usize>,
}

/// Estimates when this much will be free. `ahead` is the number of jobs whose needs `missing` includes.
pub(crate) fn estimate(
    missing: Quantity,
    holders: &[Holder<'_>],
    ahead: usize,
    experience: &Experience<'_>,
) -> Estimate {
    let examples = Examples::of(experience.jobs);
    let mut ends = Ends::default();
    for holder in holders {
        ends.expect(holder, &examples, experience);
    }
    let until = |pick: fn(&(i64, i64, Quantity)) -> i64| -> Option<i64> {
        let mut sorted: Vec<(i64, Quantity)> = ends.at.iter().map(|end| (pick(end), end.2)).collect();
        sorted.sort_by_key(|(at, _)| *at);
        let mut freed = Quantity::ZERO;
        sorted.into_iter().find_map(|(at, held)| {
            freed = held.plus(freed);
            (missing <= freed).then_some(at)
        })
    };
    let (Some(low_seconds), Some(high_seconds)) = (until(|end| end.0), until(|end| end.1)) else {
        return Estimate::Unknown;
    };
    let basis = [
        (Source::Progress, ends.progress),
        (Source::SimilarJobs, ends.similar.len()),
        (Source::EndedJobs, ends.ended.len()),
        (Source::Deadlines, ends.deadlines),
        (Source::QueueOrder, ahead),
    ];
    let basis = basis.into_iter().filter(|(_, jobs)| *jobs > 0);
    Estimate::Range {
        low_seconds,
        high_seconds,
        basis: basis.map(|(source, jobs)| Basis { source, jobs }).collect(),
    }
}

impl Ends {
    fn expect(&mut self, holder: &Holder<'_>, examples: &Examples, experience: &Experience<'_>) {
        let Some(status) = &holder.job.status else { return };
        let Some(started) = status.start_time.as_ref().filter(|_| !holder.held.is_zero()) else { return };
        let elapsed = experience.now.as_second() - started.0.as_second();
        let deadline = holder.job.spec.run_policy.as_ref().and_then(|policy| policy.active_deadline_seconds);
        let uid = holder.job.metadata.uid.as_deref().unwrap_or_default();
        let (low, high) = if let Some(left) = experience.remaining_seconds.get(uid) {
            self.progress += 1;
            // The program's own estimate is taken to be off by a quarter at most.
            (elapsed + left * 3 / 4, elapsed + left * 5 / 4)
        } else {
            let similar = likeness(holder.job).and_then(|like| examples.alike.get(&like));
            let similar = similar.map_or(&[][..], Vec::as_slice);
            let (learned, used) = match quartiles(similar) {
                Some(learned) => (Some((learned, similar)), &mut self.similar),
                None => (examples.quartiles.map(|learned| (learned, &examples.all[..])), &mut self.ended),
            };
            match (learned, deadline) {
                // It has run longer than any before it, so past durations do not help.
                (Some(((_, high), _)), None) if elapsed > high => return,
                (Some(((low, high), of)), _) => {
                    used.extend(of.iter().map(|(at, _)| *at));
                    (low, if elapsed > high { i64::MAX } else { high })
                }
                (None, Some(deadline)) => (0, deadline),
                (None, None) => return,
            }
        };
        self.deadlines += usize::from(deadline.is_some());
        let bounded = |at: i64| (deadline.map_or(at, |deadline| at.min(deadline)) - elapsed).max(0);
        self.at.push((bounded(low), bounded(high), holder.held));
    }
}

/// The durations of past jobs in seconds, shortest first, each with its place among the jobs.
struct Examples {
    all: Vec<(usize, i64)>,
    quartiles: Option<(i64, i64)>,
    /// Those of similar jobs.
    alike: BTreeMap<String, Vec<(usize, i64)>>,
}

impl Examples {
    fn of(jobs: &[MPIJob]) -> Self {
        let lasted = |job: &MPIJob| {
            let status = job.status.as_ref().filter(|status| status.phase == Some(Phase::Succeeded))?;
            let (started, ended) = (status.start_time.as_ref()?, status.completion_time.as_ref()?);
            Some(ended.0.as_second() - started.0.as_second()).filter(|seconds| *seconds >= 0)
        };
        let mut found: Vec<(usize, i64, &MPIJob)> =
            jobs.iter().enumerate().filter_map(|(at, job)| Some((at, lasted(job)?, job))).collect();
        found.sort_unstable_by_key(|(at, seconds, _)| (*seconds, *at));
        let mut alike = BTreeMap::<String, Vec<(usize, i64)>>::new();
        for (at, seconds, job) in &found {
            if let Some(like) = likeness(job) {
                alike.entry(like).or_default().push((*at, *seconds));
            }
        }
        let all: Vec<(usize, i64)> = found.into_iter().map(|(at, seconds, _)| (at, seconds)).collect();
        Self { quartiles: quartiles(&all), all, alike }
    }
}

/// The first quartile and the maximum, if there are enough examples.
fn quartiles(examples: &[(usize, i64)]) -> Option<(i64, i64)> {
    if examples.len() < FEWEST_EXAMPLES {
        return None;
    }
    let at = |part: usize| examples.get((examples.len() - 1) * part / 4).map(|(_, seconds)| *seconds);
    at(1).zip(at(4))
}

/// What similar jobs share: the same user, or the same namespace if the user is unknown, and Workers that are the same in
/// number, image and resources.
fn likeness(job: &MPIJob) -> Option<String> {
    let whose = match owner(&job.metadata) {
        Some(owner) => (Some(owner), None),
        None => (None, job.metadata.namespace.as_ref()),
    };
    serde_json::to_string(&(whose, shape(job)?)).ok()
}

/// The number of Workers, and the image and resources of each of their containers.
type Shape<'j> = (i32, Vec<(&'j Option<String>, &'j Option<ResourceRequirements>)>);

fn shape(job: &MPIJob) -> Option<Shape<'_>> {
    let workers = job.spec.mpi_replica_specs.get(WORKER)?;
    let containers = workers.template.spec.as_ref()?.containers.iter();
    let parts = containers.map(|container| (&container.image, &container.resources)).collect();
    Some((workers.replicas.unwrap_or(0), parts))
}

#[cfg(test)]
mod tests {
    use api::ANNOTATION_OWNER;
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn job(uid: &str, owner: &str, image: &str, deadline: Option<i64>, status: Value) -> MPIJob {
        serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": uid, "namespace": "team", "uid": uid, "annotations": {ANNOTATION_OWNER: owner}},
            "spec": {"runPolicy": {"activeDeadlineSeconds": deadline}, "mpiReplicaSpecs": {"Worker": {"replicas": 2,
                "template": {"spec": {"containers": [{"name": "w", "image": image}]}}}}},
            "status": status}))
        .unwrap()
    }

    fn ended(owner: &str, image: &str, minutes: i64) -> MPIJob {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let end = Timestamp::from_second(start.as_second() + minutes * 60).unwrap();
        job("", owner, image, None, json!({"phase": "Succeeded", "startTime": start, "completionTime": end}))
    }

    /// What is said of a need of four that this running job, in its tenth minute, holds.
    fn said(running: &MPIJob, past: Vec<MPIJob>, left: Option<i64>, ahead: usize) -> String {
        let remaining_seconds = left.map(|left| ("r".to_owned(), left)).into_iter().collect();
        let experience =
            Experience { jobs: &past, remaining_seconds: &remaining_seconds, now: NOW.parse().unwrap() };
        let four = Quantity::ONE.times(4);
        estimate(four, &[Holder { job: running, held: four }], ahead, &experience).to_string()
    }

    fn running(deadline: Option<i64>) -> MPIJob {
        job("r", "jane", "a", deadline, json!({"phase": "Running", "startTime": "2026-01-01T11:50:00Z"}))
    }

    #[test]
    fn reported_progress_comes_first_and_a_deadline_bounds_it() {
        let past = || vec![ended("jane", "a", 20), ended("jane", "a", 20), ended("jane", "a", 20)];
        assert_eq!(
            said(&running(None), past(), Some(2400), 0),
            "30 to 50 minutes (from the progress of 1 running job)"
        );
        assert_eq!(
            said(&running(Some(2400)), past(), Some(2400), 0),
            "30 minutes (from the progress of 1 running job and the deadline of 1 running job)"
        );
    }

    #[test]
    fn past_jobs_of_the_same_user_and_shape_are_preferred() {
        let others = || (0..4).map(|_| ended("joe", "a", 60)).chain([ended("jane", "b", 60)]);
        let similar = [30, 30, 40].map(|minutes| ended("jane", "a", minutes));
        assert_eq!(
            said(&running(None), others().chain(similar).collect(), None, 0),
            "20 to 30 minutes (from 3 jobs of the same user and shape that have ended)"
        );
        let few = [30, 40].map(|minutes| ended("jane", "a", minutes));
        assert_eq!(
            said(&running(None), others().chain(few).collect(), None, 2),
            "30 to 50 minutes (from 7 jobs that have ended and 2 jobs ahead in the queue)"
        );
    }

    #[test]
    fn without_any_support_the_wait_is_unknown() {
        assert!(said(&running(None), Vec::new(), None, 1).starts_with("unknown"));
        let overdue = vec![ended("jane", "a", 1), ended("jane", "a", 1), ended("jane", "a", 1)];
        assert!(said(&running(None), overdue.clone(), None, 0).starts_with("unknown"));
        assert_eq!(
            said(&running(Some(1200)), overdue, None, 0),
            "0 to 10 minutes (from 3 jobs of the same user and shape that have ended and the deadline of 1 running job)"
        );
        assert_eq!(
            said(&running(Some(1200)), Vec::new(), None, 0),
            "0 to 10 minutes (from the deadline of 1 running job)"
        );
    }
}
