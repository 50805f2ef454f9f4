//! `status.failure`: who failed, why, and what to do. Facts from a pod's status come first; the Launcher's output
//! explains the rest. A known cause is never replaced by a less specific one.

use api::Failure;

use crate::change::ChildKind;
use crate::kept::Pod;
use crate::notice::ApplyFailure;
use crate::objects::worker_name;
use crate::observed::{LauncherRun, ObservedState, is_failed, worker_index};
use crate::validate::ValidJob;
use diagnosis::{
    Cause, Confidence, Ending, Facts, FailedRun, Output, PodFacts, PodFailure, Retry, World, agent_begins,
    diagnose, failed_run, last_words, of_infrastructure, of_init_container, of_unstartable, of_worker,
};

/// A pod's failure in the form of `status.failure`.
pub(crate) fn failure_of(failure: PodFailure, who: &str, pod: String, worker: Option<i32>) -> Failure {
    Failure {
        reason: failure.cause.word().to_owned(),
        message: format!("{who} failed: {}", failure.message),
        suggestion: Some(failure.suggestion),
        link: Some(failure.cause.link()),
        pod: Some(pod),
        container: failure.container,
        worker,
        exit_code: failure.exit_code,
        ended_early: None,
        evidence: Vec::new(),
    }
}

/// Where a job failed, as it stands behind what happened: `Worker 1, exit code 137`; `None` if neither is known.
#[must_use]
pub fn place(failure: &Failure) -> Option<String> {
    let worker = failure.worker.map(|worker| format!("{WORKER_WORD}{worker}"));
    let code = failure.exit_code.map(|code| format!("{CODE_WORDS}{code}"));
    let known: Vec<String> = worker.into_iter().chain(code).collect();
    (!known.is_empty()).then(|| known.join(", "))
}

const WORKER_WORD: &str = "Worker ";
const CODE_WORDS: &str = "exit code ";

/// Where a job failed, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The Worker's index.
    pub worker: Option<i32>,
    /// The container's exit code.
    pub exit_code: Option<i32>,
}

/// Reads what [`place`] wrote; `None` if the text is none.
#[must_use]
pub fn read_place(text: &str) -> Option<Place> {
    let number = |text: &str, words: &str| text.strip_prefix(words)?.parse().ok();
    if let Some((worker, code)) = text.split_once(", ") {
        let (worker, exit_code) = (number(worker, WORKER_WORD)?, number(code, CODE_WORDS)?);
        return Some(Place { worker: Some(worker), exit_code: Some(exit_code) });
    }
    let (worker, exit_code) = (number(text, WORKER_WORD), number(text, CODE_WORDS));
    (worker.is_some() || exit_code.is_some()).then_some(Place { worker, exit_code })
}

/// The first pod, or Job of pods, that the server will never accept as its template defines it.
pub(crate) fn refused_template(failures: &[ApplyFailure]) -> Option<&ApplyFailure> {
    let is_template = |kind: ChildKind| matches!(kind, ChildKind::Pod | ChildKind::Job);
    failures.iter().find(|failure| failure.creating && failure.invalid && is_template(failure.kind))
}

/// The failure of a job of which the server refuses a template for good; `field` is where a user corrects it.
pub(crate) fn refusal(who: &str, field: &str, refused: &ApplyFailure) -> Failure {
    let cause = Cause::AdmissionRefused;
    Failure {
        reason: cause.word().to_owned(),
        message: format!("{who} failed: the API server rejects it: {}", refused.message),
        suggestion: Some(format!(
            "Correct {field} and create the job again; if a policy rejects it, ask an administrator of the cluster."
        )),
        link: Some(cause.link()),
        ..Failure::default()
    }
}

/// Why the Launcher's Job failed, given the reason and message of its condition: because of a failed Worker, else the
/// Launcher.
pub(crate) fn launcher_failure(job: &ValidJob, seen: &ObservedState, reason: &str, message: &str) -> Failure {
    let failed = seen.workers.iter().filter(|pod| is_failed(pod));
    let worker =
        failed.filter_map(|pod| Some((worker_index(&job.name, pod)?, pod))).min_by_key(|(index, _)| *index);
    if let Some((index, pod)) = worker {
        let name = worker_name(&job.name, index);
        return failure_of(
            of_worker(pod),
            &format!("Worker {index} ({name})"),
            name,
            i32::try_from(index).ok(),
        );
    }
    if reason == "DeadlineExceeded" {
        return Failure {
            reason: Cause::Timeout.word().to_owned(),
            message: format!("The job exceeded its deadline: {message}"),
            suggestion: Some(
                "Raise runPolicy.activeDeadlineSeconds, or give the job more Workers.".to_owned(),
            ),
            link: Some(Cause::Timeout.link()),
            ..Failure::default()
        };
    }
    let of_run = of_failed_run(job, seen).map(|(failure, ..)| failure);
    of_run.or_else(|| seen.status.failure.clone()).unwrap_or_else(|| Failure {
        reason: Cause::Unknown.word().to_owned(),
        message: format!("The Launcher failed and its pod no longer exists: {message}"),
        suggestion: Some(Cause::Unknown.texts().suggestion.to_owned()),
        link: Some(Cause::Unknown.link()),
        ..Failure::default()
    })
}

/// The Worker, with its index, whose launch agent may know why a rank was killed: the kernel may have killed it when
/// memory ran out, which only the agent in the container can see.
#[must_use]
pub fn wants_agent<'a>(job: &ValidJob, seen: &'a ObservedState) -> Option<(usize, &'a Pod)> {
    let (failure, cause, _) = of_failed_run(job, seen)?;
    let index = usize::try_from(failure.worker?).ok().filter(|_| cause == Cause::RankKilled)?;
    let pod = *seen.by_index(job).get(index)?;
    let container = pod?.spec.as_ref()?.containers.first()?;
    let limits = container.resources.as_ref()?.limits.as_ref()?;
    Some((index, pod.filter(|_| limits.memory.is_some())?))
}

/// The lines that the launch agent itself wrote to a Worker's log.
#[must_use]
pub fn agents_lines(log: &str) -> String {
    log.lines().filter(|line| line.starts_with(AGENT_PREFIX)).map(|line| format!("{line}\n")).collect()
}

/// Whether the launch agent has not yet logged the end of a call. It logs its findings before that.
#[must_use]
pub fn is_agent_busy(log: &str) -> bool {
    let ends = |line: &&str| line.contains(" ended with code ") || line.contains(" lost its caller");
    log.lines().filter(|line| agent_begins(line)).count() > log.lines().filter(ends).count()
}

/// Whether the log has the launch agent's lines from the very first on.
#[must_use]
pub fn is_agent_heard_out(log: &str) -> bool {
    log.lines().any(|line| line.starts_with(&format!("{AGENT_PREFIX}serving on ")))
}

/// The prefix of the launch agent's own lines.
const AGENT_PREFIX: &str = "odh-launch: ";

/// Why the Launcher's last run failed, if retrying is useless: MPI's launcher itself reported the error, and the user
/// must fix it. Output that the program could have printed is too weak a reason to end a job.
pub(crate) fn users_error(job: &ValidJob, seen: &ObservedState) -> Option<Failure> {
    let (failure, cause, confidence) = of_failed_run(job, seen)?;
    (cause.retry() == Retry::Useless && confidence >= Confidence::Medium).then_some(failure)
}

/// Why a run has failed although its Launcher ended with 0: `prterun` of Open MPI 5 does so after it has lost a daemon, and
/// with it the ranks of a Worker.
pub(crate) fn failed_success(job: &ValidJob, seen: &ObservedState) -> Option<Failure> {
    let output = Output::from(seen.success_log.as_deref()?);
    let facts = Facts { world: world(job), ..Facts::default() };
    let found =
        diagnose(&output, Ending::Exited(0), &facts).filter(|found| found.cause == Cause::DaemonLost)?;
    Some(Failure {
        reason: found.cause.word().to_owned(),
        message: format!(
            "{}, though the Launcher ended with exit code 0",
            found.message.trim_end_matches('.')
        ),
        suggestion: Some(found.suggestion),
        link: Some(found.link),
        pod: seen.newest_launcher_pod().and_then(|pod| pod.metadata.name.clone()),
        worker: found.worker.as_deref().and_then(|worker| index_of(&job.name, worker)),
        exit_code: Some(0),
        ended_early: Some(false),
        evidence: found.evidence.into_iter().map(|evidence| evidence.text).collect(),
        ..Failure::default()
    })
}

/// What the Launcher's last failed run shows, by its pod's status and its output.
fn of_failed_run(job: &ValidJob, seen: &ObservedState) -> Option<(Failure, Cause, Confidence)> {
    let pod = seen.failed_launcher_pod()?;
    Some(failure_of_run(pod, seen.launcher_failed.as_ref(), facts(job, seen), |worker| {
        index_of(&job.name, worker)
    }))
}

/// What a failed run of the Launcher shows. `run` is the run whose output was read, which may be that of another pod;
/// `facts` are those of the job's pods; `index_of` returns the index of the Worker of this name.
pub(crate) fn failure_of_run(
    pod: &Pod,
    run: Option<&LauncherRun>,
    mut facts: Facts,
    index_of: impl Fn(&str) -> Option<i32>,
) -> (Failure, Cause, Confidence) {
    let name = pod.metadata.name.clone().unwrap_or_default();
    if let Some(failure) = of_infrastructure(pod) {
        let cause = failure.cause;
        return (failure_of(failure, "Launcher", name, None), cause, Confidence::High);
    }
    let ended = failed_run(pod);
    if let Some(told) = of_init(pod, ended.as_ref(), run) {
        return told;
    }
    let code = ended.as_ref().map(|run| run.ended.exit_code);
    let run = run.filter(|run| run.pod.metadata.uid == pod.metadata.uid);
    // A Launcher that printed nothing explains as little as one whose log is gone.
    let log = run.and_then(|run| run.log.as_deref()).filter(|log| !log.trim().is_empty());
    // Among the Launcher's pods only the failed one counts, and it may be gone.
    facts.pods.retain(|pod| pod.worker);
    let mut own = PodFacts::of(pod, false);
    own.ignore_back_off();
    facts.pods.insert(0, own);
    let ending = code.map_or(Ending::Unknown, Ending::Exited);
    let agent = run.and_then(|run| run.agent.as_deref()).unwrap_or_default();
    let output = Output::from(format!("{}{agent}", log.unwrap_or_default()).as_str());
    let found = diagnose(&output, ending, &facts);
    let worker = found.as_ref().and_then(|found| found.worker.as_deref()).and_then(index_of);
    let confidence = found.as_ref().map_or(Confidence::Low, |found| found.confidence);
    let evidence =
        found.iter().flat_map(|found| &found.evidence).map(|evidence| evidence.text.clone()).collect();
    let (cause, message, suggestion) = match found {
        Some(found) if found.cause != Cause::Unknown || log.is_some() => {
            (found.cause, found.message, found.suggestion)
        }
        _ => without_log(ended.as_ref()),
    };
    let failure = Failure {
        reason: cause.word().to_owned(),
        message,
        suggestion: Some(suggestion),
        link: Some(cause.link()),
        pod: Some(name),
        container: ended.map(|run| run.container),
        worker,
        exit_code: code,
        ended_early: None,
        evidence,
    };
    (failure, cause, confidence)
}

/// What a run shows of which an init container failed: MPI never ran, and the output is that container's.
fn of_init(
    pod: &Pod,
    ended: Option<&FailedRun>,
    run: Option<&LauncherRun>,
) -> Option<(Failure, Cause, Confidence)> {
    let FailedRun { container, ended, .. } = ended?;
    let unstartable = of_unstartable(pod).filter(|found| found.container.as_ref() == Some(container));
    let of_init = of_init_container(pod, container, ended)?;
    let mut found = unstartable.unwrap_or(of_init);
    (found.container, found.exit_code) = (Some(container.clone()), Some(ended.exit_code));
    let cause = found.cause;
    let name = pod.metadata.name.clone().unwrap_or_default();
    let run = run.filter(|run| run.pod.metadata.uid == pod.metadata.uid);
    let log = run.and_then(|run| run.log.as_deref()).unwrap_or_default();
    let evidence = last_words(log, None, MOST_INIT_LINES);
    let mut failure = failure_of(found, &format!("Launcher ({name})"), name, None);
    if let Some(last) = evidence.last() {
        failure.message = format!("{}; it printed: {last}", failure.message);
    }
    Some((Failure { evidence, ..failure }, cause, Confidence::High))
}

/// The lines of a failed init container that are evidence.
const MOST_INIT_LINES: usize = 6;

/// The facts about the job and its existing pods.
pub(crate) fn facts(job: &ValidJob, seen: &ObservedState) -> Facts {
    let launchers = seen.launcher_pods.iter().map(|pod| PodFacts::of(pod, false));
    let pods = launchers.chain(seen.workers.iter().map(|pod| PodFacts::of(pod, true))).collect();
    Facts { pods, world: world(job), mpi: Some(job.implementation.name()), ..Facts::default() }
}

/// Exit codes that mpirun passes on from a rank; its own failures are 1 and the codes above the range.
const RANK_CODES: std::ops::RangeInclusive<i32> = 2..=123;

/// The cause when only the end of a run is known.
fn without_log(run: Option<&FailedRun>) -> (Cause, String, String) {
    let (cause, message) = match run {
        Some(FailedRun { container, ended, .. }) => {
            let code = ended.exit_code;
            let message = format!("The Launcher's container {container:?} ended with exit code {code}");
            if RANK_CODES.contains(&code) {
                (
                    Cause::RankExited,
                    format!("{message}, as it does when a rank fails with this code; its output is unknown"),
                )
            } else {
                (Cause::Unknown, message)
            }
        }
        None => (Cause::Unknown, "The Launcher's pod failed".to_owned()),
    };
    (cause, message, cause.texts().suggestion.to_owned())
}

/// Maps ranks to Workers; `None` if the Launcher's host takes ranks too, or slots are not fixed.
pub(crate) fn world(job: &ValidJob) -> Option<World> {
    let slots = u32::try_from(job.slots).ok().filter(|slots| *slots > 0 && !job.launcher_as_worker)?;
    let workers = (0..job.worker_count()).map(|index| worker_name(&job.name, index)).collect();
    Some(World { workers, slots })
}

fn index_of(job: &str, worker: &str) -> Option<i32> {
    worker.strip_prefix(job)?.strip_prefix("-worker-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_failure_is_read_as_it_was_written() {
        for (worker, exit_code) in [(Some(1), Some(137)), (Some(0), None), (None, Some(1))] {
            let written = place(&Failure { worker, exit_code, ..Failure::default() }).unwrap();
            assert_eq!(read_place(&written), Some(Place { worker, exit_code }), "{written}");
        }
        assert_eq!(place(&Failure::default()), None);
        for other in ["", "137", "Worker", "Worker x", "exit code 1, Worker 1", "Worker 1, code 2"] {
            assert_eq!(read_place(other), None, "{other}");
        }
    }
}
