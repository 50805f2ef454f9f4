//! The CronJob controller's decision: takes a CronJob, its Jobs and the time, returns which Job to create, which ones to
//! delete, and what to report. Pure and deterministic; it cannot fail.
//!
//! Rules: `syncCronJob` and `cleanupFinishedJobs` of `pkg/controller/cronjob`, Kubernetes 1.36. Three things differ. The
//! last missed time is found exactly, not estimated from the distance of the first two. The deadline applies to this
//! time, so that a missed run is reported. A schedule applies from its change on: upstream may at once start the Job of a
//! time before it.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use semantics::Schedule;

use super::template;
use crate::job::finished_condition;
use controller_runtime::record::Note;

/// More missed times than these are worth a warning.
const MISSED_MAX: usize = 100;
/// How long after a due time to look, so that no clock is before it (upstream's `nextScheduleDelta`).
const AFTER_DUE: Duration = Duration::from_millis(100);

/// The input of the decision.
#[derive(Debug)]
pub struct ObservedCronJob<'a> {
    /// The CronJob, as the API has it.
    pub cron_job: &'a CronJob,
    /// The Jobs that it controls, ordered by name.
    pub jobs: &'a [Arc<Job>],
    /// From the previous step; empty after a start.
    pub memory: &'a Memory,
    /// The wall clock.
    pub now: Timestamp,
}

/// What is remembered from one step to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// The schedule and its time zone.
    schedule: Option<(String, Option<String>)>,
    /// When they were changed last.
    changed: Option<Timestamp>,
    /// The Events of conditions that last, each with the due time that it is about. They are recorded once.
    lasting: Vec<(Option<Timestamp>, Note)>,
}

/// The actions of one step, in order.
#[derive(Debug, Default)]
pub struct Plan {
    /// Finished Jobs beyond the limits of the history, to delete.
    pub prune: Vec<Arc<Job>>,
    /// Running Jobs to delete before the next one is created.
    pub replace: Vec<ObjectReference>,
    /// The scheduled time of the Job to create.
    pub start: Option<Timestamp>,
    /// The status, without the Job to create.
    pub status: CronJobStatus,
    /// Events to record.
    pub notes: Vec<Note>,
    /// When to run again even if nothing changes.
    pub again: Option<Duration>,
    /// For the next step.
    pub memory: Memory,
}

/// Decides the next step for a CronJob.
pub fn decide(seen: &ObservedCronJob) -> Plan {
    let CronJob { metadata, spec, status } = seen.cron_job;
    let status = status.clone().unwrap_or_default();
    let mut plan = Plan { prune: beyond_history(seen), status, memory: remember(seen), ..Plan::default() };
    settle(seen, &mut plan);
    if metadata.deletion_timestamp.is_none() && spec.suspend != Some(true) {
        match schedule(spec) {
            Ok(schedule) => start(seen, &schedule, &mut plan),
            Err(note) => plan.memory.lasting.push((None, note)),
        }
    }
    report_unexpected(seen, &mut plan);
    let fresh = plan.memory.lasting.iter().filter(|known| !seen.memory.lasting.contains(known));
    plan.notes.extend(fresh.map(|(_, note)| note.clone()));
    plan
}

fn remember(seen: &ObservedCronJob) -> Memory {
    let CronJobSpec { schedule, time_zone, .. } = &seen.cron_job.spec;
    let schedule = Some((schedule.clone(), time_zone.clone()));
    let is_changed = seen.memory.schedule.is_some() && seen.memory.schedule != schedule;
    let changed = if is_changed { Some(seen.now) } else { seen.memory.changed };
    Memory { schedule, changed, ..Memory::default() }
}

/// Returns the finished Jobs beyond the limits of the history: those that started first.
fn beyond_history(seen: &ObservedCronJob) -> Vec<Arc<Job>> {
    let spec = &seen.cron_job.spec;
    let limits =
        [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)];
    let mut beyond = Vec::new();
    for (end, limit) in limits {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
        let ended = |job: &&Arc<Job>| {
            job.metadata.deletion_timestamp.is_none()
                && finished_condition(job).is_some_and(|condition| condition.type_ == end)
        };
        let mut jobs: Vec<&Arc<Job>> = seen.jobs.iter().filter(ended).collect();
        jobs.sort_by_key(|job| {
            let started =
                job.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
            (started.is_none(), started, job.name_any())
        });
        let surplus = jobs.len().saturating_sub(limit);
        beyond.extend(jobs.into_iter().take(surplus).cloned());
    }
    beyond
}

/// Accounts for Jobs that have ended or are gone.
fn settle(seen: &ObservedCronJob, plan: &mut Plan) {
    let mut active = plan.status.active.take().unwrap_or_default();
    for job in seen.jobs {
        let Some(end) = finished_condition(job) else { continue };
        if let Some(position) = active.iter().position(|reference| reference.uid == job.metadata.uid) {
            active.remove(position);
            let message = format!("Saw completed job: {}, condition: {}", job.name_any(), end.type_);
            plan.notes.push(Note::normal("SawCompletedJob", message));
        }
        let completed = job.status.as_ref().and_then(|status| status.completion_time.as_ref());
        let completed = completed.filter(|_| end.type_ == "Complete").map(|time| time.0);
        let known = plan.status.last_successful_time.as_ref().map(|time| time.0);
        plan.status.last_successful_time = completed.max(known).map(Time);
    }
    active.retain(|reference| {
        // The cache has every Job that this controller created, so what it lacks is gone.
        let is_there = seen.jobs.iter().any(|job| job.metadata.uid == reference.uid);
        if !is_there {
            let name = reference.name.as_deref().unwrap_or_default();
            plan.notes.push(Note::normal("MissingJob", format!("Active job went missing: {name}")));
        }
        is_there
    });
    plan.status.active = Some(active).filter(|active| !active.is_empty());
}

/// Reports running Jobs that the status does not have. The one to start may exist already: then its creation was not
/// recorded.
fn report_unexpected(seen: &ObservedCronJob, plan: &mut Plan) {
    let active = plan.status.active.as_deref().unwrap_or_default();
    let starting = plan.start.map(|time| template::name(seen.cron_job, time));
    let unexpected = seen.jobs.iter().filter(|job| {
        finished_condition(job).is_none()
            && job.metadata.deletion_timestamp.is_none()
            && active.iter().all(|reference| reference.uid != job.metadata.uid)
            && job.metadata.name != starting
    });
    plan.memory.lasting.extend(unexpected.map(|job| {
        let name = job.name_any();
        let message = format!("Saw a job that the controller did not create or forgot: {name}");
        (None, Note::warning("UnexpectedJob", message))
    }));
}

fn schedule(spec: &CronJobSpec) -> Result<Schedule, Note> {
    let zone = match &spec.time_zone {
        None => TimeZone::UTC,
        Some(name) => semantics::time_zone(name).ok_or_else(|| {
            let message = format!("invalid timeZone: {name:?}: unknown time zone {name}");
            Note::warning("UnknownTimeZone", message)
        })?,
    };
    Schedule::parse(&spec.schedule, zone).map_err(|error| {
        let message = format!("unparseable schedule: {:?} : {error}", spec.schedule);
        Note::warning("UnparseableSchedule", message)
    })
}

/// Decides whether the Job of the last due time starts, and when to look again.
fn start(seen: &ObservedCronJob, schedule: &Schedule, plan: &mut Plan) {
    let (spec, now) = (&seen.cron_job.spec, seen.now);
    let last = plan.status.last_schedule_time.as_ref().or(seen.cron_job.metadata.creation_timestamp.as_ref());
    let from = last.map_or(now, |time| time.0).max(plan.memory.changed.unwrap_or(Timestamp::MIN));
    let due = schedule.last(from, now);
    let next = schedule.next(due.unwrap_or(from));
    plan.again =
        next.map(|next| Duration::try_from(next.duration_since(now)).unwrap_or_default() + AFTER_DUE);
    let mut report = |note| plan.memory.lasting.push((due, note));
    let Some(due) = due else {
        if next.is_none() {
            let why = "time difference between two schedules is less than 1 second";
            report(Note::warning("InvalidSchedule", format!("invalid schedule: {} : {why}", spec.schedule)));
        }
        return;
    };
    let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    let earliest = deadline.and_then(|deadline| now.checked_sub(deadline).ok()).unwrap_or(Timestamp::MIN);
    if due < earliest {
        let missed = due.strftime("%a, %d %b %Y %H:%M:%S +0000");
        report(Note::warning("MissSchedule", format!("Missed scheduled time to start a job: {missed}")));
        return;
    }
    if has_many(schedule, from.max(earliest), now) {
        let message =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        report(Note::warning("TooManyMissedTimes", message));
    }
    let active = plan.status.active.as_deref().unwrap_or_default();
    let name = template::name(seen.cron_job, due);
    if active.iter().any(|reference| reference.name.as_ref() == Some(&name)) {
        return;
    }
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            report(Note::normal("JobAlreadyActive", message));
            return;
        }
        Some("Replace") => plan.replace = active.to_vec(),
        _ => {}
    }
    plan.start = Some(due);
}

/// Returns whether more than [`MISSED_MAX`] times of a schedule lie between two times.
fn has_many(schedule: &Schedule, from: Timestamp, until: Timestamp) -> bool {
    let times = std::iter::successors(schedule.next(from), |time| schedule.next(*time));
    times.take(MISSED_MAX + 1).take_while(|time| *time <= until).count() > MISSED_MAX
}
