//! Reads what a Launcher's failed run left behind: its pod as it was seen last, and the end of its log. A Job that gives
//! up deletes the pod of a Launcher that it restarts in place, so this is read when the run is seen to have failed,
//! once for each run, and remembered. A log that cannot be read counts as none: it never fails a pass, nor holds it up
//! for long. What is not there yet is waited for between passes, not in one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::{LABEL_JOB_NAME, LABEL_JOB_ROLE};
use diagnosis::{FailedRun, failed_run};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as WholePod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, LogParams};
use plan::kept::Pod;
use plan::{LauncherRun, Listening, LogSource, ObservedState, OutputRead, ValidJob};

use crate::context::{Context, Shared};
use crate::error::Error;
use crate::memory::{AgentLogs, FailedLauncher, KnownAttempt};
use crate::owned::is_controlled_by;

/// The last lines that are read of a log; of such a log that they are too many bytes, fewer.
const TAIL_LINES: i64 = 200;
const TAILS: [i64; 4] = [TAIL_LINES, 40, 8, 1];
/// The most bytes that are read of a log.
const LOG_BYTES: i64 = 64 * 1024;
/// A log is there by then or not at all.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most pods of a Launcher that are looked at for the one that failed.
const MOST_PODS: u32 = 50;

/// So long the pods' watch may take to show the end of a pod that the API server no longer has.
const POD_WAIT: Duration = Duration::from_secs(1);
/// How often, and how long apart, launch agents' logs are read for what they report of a call's end.
const AGENT_LOOKS: u32 = 10;
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// A job whose log has to wait its turn comes back after this.
const TURN_WAIT: Duration = Duration::from_secs(1);

/// Whether a pass has the logs that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logs {
    /// It has them, as far as they can be read.
    Read,
    /// They may be there after this time: the job has to be observed again.
    Wait(Duration),
}

/// Adds the Launcher's last failed run to what was seen, if there was one.
///
/// # Errors
/// If the Launcher's Job has failed and its pods could not be asked for.
pub(crate) async fn add_failed_run(
    context: &Context,
    job: &ValidJob,
    seen: &mut ObservedState,
    known: &mut KnownAttempt,
) -> Result<Logs, Error> {
    if seen.status.completion_time.is_some() || job.suspended {
        (known.launcher_failed, known.pod_awaited) = (None, None);
        return Ok(Logs::Read);
    }
    let mut pod = seen.failed_launcher_pod().cloned().or_else(|| noted(context, seen));
    if pod.is_none() && known.launcher_failed.is_none() && seen.has_launcher_failed() {
        // The Job's watch is ahead of the pods'.
        if known.pod_awaited.is_none() {
            seen.launcher_pods = launcher_pods(context, job, seen).await?;
            pod = seen.failed_launcher_pod().cloned().or_else(|| noted(context, seen));
        }
        if pod.is_none() {
            let since = known.pod_awaited.get_or_insert_with(Instant::now);
            let left = POD_WAIT.saturating_sub(since.elapsed());
            if !left.is_zero() {
                return Ok(Logs::Wait(left));
            }
        }
    }
    if let Some(pod) = pod
        && let wait @ Logs::Wait(_) = read_failed_run(context, job, pod, seen, known).await
    {
        return Ok(wait);
    }
    let Some(failed) = &mut known.launcher_failed else { return Ok(Logs::Read) };
    seen.launcher_failed = Some(failed.run.clone());
    let logs = ask_about_killed_rank(context, job, seen, failed).await;
    if let Some(run) = &mut seen.launcher_failed {
        run.agent.clone_from(&failed.run.agent);
    }
    Ok(logs)
}

/// Reads the end of the log of a failed Launcher's last run, unless it is known.
async fn read_failed_run(
    context: &Context,
    job: &ValidJob,
    pod: Pod,
    seen: &ObservedState,
    known: &mut KnownAttempt,
) -> Logs {
    let failed = failed_run(&pod);
    let (container, number) = failed
        .as_ref()
        .map_or_else(Default::default, |run| (run.container.clone(), run.restarts - i32::from(run.previous)));
    let id = (pod.metadata.uid.clone().unwrap_or_default(), container, number);
    // A pod that is being deleted may no longer show which of its runs failed.
    let is_known =
        |known: &&mut Box<FailedLauncher>| known.id == id || failed.is_none() && known.id.0 == id.0;
    if let Some(known) = known.launcher_failed.as_mut().filter(is_known) {
        known.run.pod = pod;
        return Logs::Read;
    }
    let run = match failed {
        Some(failed) if seen.lost_node(&pod).is_none() => {
            let Ok(_turn) = context.logs.try_acquire() else { return Logs::Wait(TURN_WAIT) };
            let is_restarted = job.launcher.restart_policy != "Never" && !has_ended(&pod);
            read_run(context, pod, &failed, is_restarted).await
        }
        _ => LauncherRun { pod, ..LauncherRun::default() },
    };
    known.launcher_failed = Some(Box::new(FailedLauncher { id, run, agents: AgentLogs::default() }));
    Logs::Read
}

/// Reads the end of the log of a container's run.
///
/// A container that is restarted in place may already run again, unlike in the pod's status, and its log is then the next
/// run's. So the log of the previous run is asked for after it: if there is one, it is this run's.
pub(crate) async fn read_run(
    context: &Shared,
    pod: Pod,
    run: &FailedRun,
    is_restarted_in_place: bool,
) -> LauncherRun {
    let source = LogSource { pod, container: run.container.clone() };
    if run.previous || !is_restarted_in_place {
        return read(context, source, run.previous).await;
    }
    let latest = read(context, source.clone(), false).await;
    let previous = in_time(tail(context, &source, true, &TAILS)).await;
    match previous.filter(|log| is_of(run, log)) {
        Some(log) => with_log(source.pod, &log),
        None => latest,
    }
}

/// Whether no container of the pod runs again.
fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// Whether the log of a container's previous run is that of this run, and not of the one before it.
fn is_of(run: &FailedRun, log: &str) -> bool {
    let began = run.ended.started_at.as_ref().map(|time| time.0);
    let printed = log.lines().next().and_then(|line| line.split_once(' ')?.0.parse::<Timestamp>().ok());
    run.restarts == 0 || matches!((began, printed), (Some(began), Some(printed)) if printed >= began)
}

/// Asks the launch agent of the Worker on which a rank was killed what it knows of that, if it may know something.
async fn ask_about_killed_rank(
    context: &Context,
    job: &ValidJob,
    seen: &ObservedState,
    failed: &mut FailedLauncher,
) -> Logs {
    if failed.run.agent.is_some() {
        return Logs::Read;
    }
    let worker = plan::wants_agent(job, seen).filter(|(_, worker)| seen.lost_node(worker).is_none());
    if worker.is_none() && failed.agents.looks == 0 {
        return Logs::Read;
    }
    let Ok(_turn) = context.logs.try_acquire() else { return Logs::Wait(TURN_WAIT) };
    let logs = read_agents(context, worker.into_iter().collect(), &mut failed.agents).await;
    if logs == Logs::Read {
        failed.run.agent = Some(failed.agents.words.values().cloned().collect());
    }
    logs
}

/// Reads what the launch agents of these Workers have logged; once they were read, only those that were still busy. An
/// agent may log the end of a call a moment after the Launcher has ended.
async fn read_agents(context: &Context, asked: Vec<(usize, &Pod)>, known: &mut AgentLogs) -> Logs {
    let asked = asked.into_iter().filter(|(index, _)| known.looks == 0 || known.busy.contains(index));
    let logs = asked.map(|(index, worker)| async move { (index, read_agent(context, worker).await) });
    let logs = futures::future::join_all(logs).await;
    known.looks += 1;
    known.busy.clear();
    for (index, words) in logs {
        // A log that can no longer be read leaves what was read of it before.
        let Some(words) = words else {
            known.words.entry(index).or_default();
            continue;
        };
        if plan::is_agent_busy(&words) && known.looks < AGENT_LOOKS {
            known.busy.insert(index);
        }
        known.words.insert(index, words);
    }
    if known.busy.is_empty() { Logs::Read } else { Logs::Wait(LOOK_PAUSE) }
}

/// The lines that a Worker's launch agent has logged; `None` if there is no log to read.
async fn read_agent(context: &Context, worker: &Pod) -> Option<String> {
    let container = worker.spec.as_ref()?.containers.first()?.name.clone();
    let log = read(context, LogSource { pod: worker.clone(), container }, false).await.log?;
    (!log.is_empty()).then(|| plan::agents_lines(&log))
}

/// The pod of this very Launcher that a watch showed to have failed.
fn noted(context: &Context, seen: &ObservedState) -> Option<Pod> {
    context.memory.failed_launcher(&seen.launcher.as_ref()?.uid()?)
}

/// Adds what the Launcher prints, where something rests on it: the time of its last line once the job may be stalled, and
/// the end of its log once it has succeeded.
pub(crate) async fn listen(
    context: &Context,
    job: &ValidJob,
    seen: &mut ObservedState,
    known: &mut KnownAttempt,
    now: Timestamp,
) -> Logs {
    if seen.status.completion_time.is_some() || job.suspended || job.worker_count() < 1 {
        return Logs::Read;
    }
    seen.output.clone_from(&known.output);
    seen.unreadable = known.unreadable;
    seen.success_log.clone_from(&known.success_log);
    seen.agents = heard_out(&known.agents);
    let succeeded = seen.has_launcher_succeeded();
    let is_needed = if succeeded {
        known.success_log.is_none() || !known.agents.busy.is_empty()
    } else {
        Listening::to(job, seen).wants_look(now)
    };
    if !is_needed {
        return Logs::Read;
    }
    let Some(source) = seen.launcher_log() else { return Logs::Read };
    let Ok(_turn) = context.logs.try_acquire() else { return Logs::Wait(TURN_WAIT) };
    if succeeded {
        return read_success(context, job, seen, known, source).await;
    }
    seen.output_read = look(context, &Listening::to(job, seen), &source, now).await;
    known.unreadable = seen.output_read.is_none().then_some(now);
    seen.unreadable = known.unreadable;
    Logs::Read
}

/// Reads the end of the log of a Launcher that has succeeded, and of its Workers' launch agents where the log does not show
/// where its ranks ran.
async fn read_success(
    context: &Context,
    job: &ValidJob,
    seen: &mut ObservedState,
    known: &mut KnownAttempt,
    source: LogSource,
) -> Logs {
    if known.success_log.is_none() {
        let log = read(context, source, false).await.log;
        let is_unreadable = log.is_none();
        known.success_log = Some(log.unwrap_or_default());
        seen.success_log.clone_from(&known.success_log);
        if is_unreadable {
            return Logs::Read;
        }
    }
    let logs = read_agents(context, plan::agents_to_ask(job, seen), &mut known.agents).await;
    seen.agents = heard_out(&known.agents);
    logs
}

/// The lines of those launch agents whose logs are there from their first line on.
fn heard_out(agents: &AgentLogs) -> BTreeMap<usize, String> {
    let whole = agents.words.iter().filter(|(_, words)| plan::is_agent_heard_out(words));
    whole.map(|(index, words)| (*index, words.clone())).collect()
}

/// Reads a running Launcher's output, if it can be read. Once a look was conclusive, only the last line is read until the
/// Launcher prints again.
pub(crate) async fn look(
    context: &Shared,
    listening: &Listening<'_>,
    source: &LogSource,
    now: Timestamp,
) -> Option<OutputRead> {
    if let Some(last) = listening.conclusive() {
        let line = in_time(tail(context, source, false, &[1])).await?;
        if last_time(&line) == last {
            return Some(OutputRead { looked: now, last, log: None });
        }
    }
    let log = in_time(tail(context, source, false, &TAILS)).await?;
    Some(OutputRead { looked: now, last: last_time(&log), log: Some(without_times(&log).0) })
}

/// What is read within the time that a log may take.
async fn in_time(reading: impl Future<Output = Result<String, kube::Error>>) -> Option<String> {
    tokio::time::timeout(PATIENCE, reading).await.ok()?.ok()
}

/// When the last line of a log with times was printed, if there is one.
fn last_time(log: &str) -> Option<Timestamp> {
    log.lines().next_back()?.split_once(' ')?.0.parse().ok()
}

/// The end of a container's log, with times. A server that is asked for so many bytes of so many lines gives the first of
/// those lines and may cut off the last: of longer lines fewer are asked for.
async fn tail(
    context: &Shared,
    source: &LogSource,
    previous: bool,
    tails: &[i64],
) -> Result<String, kube::Error> {
    let LogSource { pod, container } = source;
    let pods: Api<WholePod> = Api::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
    let mut log = String::new();
    for lines in tails {
        let wanted = LogParams {
            container: Some(container.clone()),
            previous,
            tail_lines: Some(*lines),
            limit_bytes: Some(LOG_BYTES),
            timestamps: true,
            ..LogParams::default()
        };
        log = pods.logs(&pod.name_any(), &wanted).await?;
        if i64::try_from(log.len()).is_ok_and(|length| length < LOG_BYTES) {
            break;
        }
    }
    Ok(log)
}

/// The Launcher's pods as the server has them.
async fn launcher_pods(context: &Context, job: &ValidJob, seen: &ObservedState) -> Result<Vec<Pod>, Error> {
    let Some(uid) = seen.launcher.as_ref().and_then(ResourceExt::uid) else { return Ok(Vec::new()) };
    let pods: Api<Pod> = Api::namespaced(context.client.clone(), &job.namespace);
    let selected = format!("{LABEL_JOB_NAME}={},{LABEL_JOB_ROLE}=launcher", job.name);
    let listed = pods.list(&ListParams::default().labels(&selected).limit(MOST_PODS)).await;
    let pods = listed.map_err(Error::request("list the Launcher's pods"))?.items;
    Ok(pods.into_iter().filter(|pod| is_controlled_by(pod, &uid)).collect())
}

/// The run of a container with the end of its log, as far as that can be read.
pub(crate) async fn read(context: &Shared, source: LogSource, previous: bool) -> LauncherRun {
    let log = tokio::time::timeout(PATIENCE, tail(context, &source, previous, &TAILS)).await;
    let LogSource { pod, .. } = source;
    match log {
        Ok(Ok(log)) => return with_log(pod, &log),
        Ok(Err(error)) => tracing::info!(pod = pod.name_any(), %error, "cannot read the Launcher's log"),
        Err(_) => tracing::info!(pod = pod.name_any(), "timed out reading the Launcher's log"),
    }
    LauncherRun { pod, ..LauncherRun::default() }
}

fn with_log(pod: Pod, log: &str) -> LauncherRun {
    let (log, first_output) = without_times(log);
    LauncherRun { pod, log: Some(log), first_output, agent: None }
}

/// A log without the times that stand before its lines, and the first of them where the log is there from its
/// beginning.
fn without_times(log: &str) -> (String, Option<Timestamp>) {
    let mut text = String::with_capacity(log.len());
    let mut first = None;
    for (number, line) in log.split_inclusive('\n').enumerate() {
        let stamped = line.split_once(' ').and_then(|(time, rest)| Some((time.parse().ok()?, rest)));
        if number == 0 {
            first = stamped.map(|(time, _): (Timestamp, &str)| time);
        }
        text.push_str(stamped.map_or(line, |(_, rest)| rest));
    }
    let lines = i64::try_from(log.lines().count()).unwrap_or(i64::MAX);
    let bytes = i64::try_from(log.len()).unwrap_or(i64::MAX);
    (text, first.filter(|_| lines < TAIL_LINES && bytes < LOG_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_previous_log_is_told_from_that_of_an_earlier_run() {
        let run = |restarts: i32| {
            let ended = serde_json::json!({ "exitCode": 1, "startedAt": "2026-01-01T00:00:10Z" });
            let ended = serde_json::from_value(ended).unwrap();
            FailedRun { container: "main".to_owned(), restarts, previous: false, ended }
        };
        let (earlier, own) = ("2026-01-01T00:00:05.1Z a\n", "2026-01-01T00:00:10.1Z a\n");
        assert!(is_of(&run(0), own) && is_of(&run(0), ""), "there is no earlier run");
        assert!(is_of(&run(1), own));
        assert!(!is_of(&run(1), earlier) && !is_of(&run(1), ""));
    }

    #[test]
    fn a_log_loses_its_times_and_tells_the_first() {
        let log = "2026-01-01T00:00:01.5Z rank 0\n2026-01-01T00:00:02Z \nno time here\n";
        let (text, first) = without_times(log);
        assert_eq!(text, "rank 0\n\nno time here\n");
        assert_eq!(first, Some("2026-01-01T00:00:01.5Z".parse().unwrap()));
        let long = "2026-01-01T00:00:01Z rank 0\n".repeat(200);
        assert_eq!(without_times(&long).1, None, "its beginning may be cut off");
        assert_eq!(without_times("").1, None);
    }
}
