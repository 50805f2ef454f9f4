//! Keeps what a Launcher's failed run left behind: its pod as it was seen last, and the end of its log. A Job that gives
//! up deletes the pod of a Launcher that it restarts in place, so this is read when the run is seen to have failed,
//! once for each run, and remembered. A log that cannot be read is none: it never fails a pass, nor holds it up long.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{LABEL_JOB_NAME, LABEL_JOB_ROLE};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as WholePod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, LogParams};
use plan::diagnosis::failed_run;
use plan::kept::Pod;
use plan::{LauncherRun, Outlook, OutputSeen, Seen, ValidJob};

use crate::context::Context;
use crate::error::Error;
use crate::memory::RunId;
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

/// How often, and how long apart, the pods' watch is looked at again for the end of a pod that is gone.
const LOOKS: u32 = 10;
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// How often a launch agent's log is looked at for what it has to say of a call's end.
const AGENT_LOOKS: u32 = 10;

/// Whether a pass has the logs that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logs {
    /// It has them, as far as they can be read.
    Read,
    /// Too many logs are being read for other jobs; this job has to be retried.
    Busy,
}

/// Adds the Launcher's last failed run to what was seen, if there was one.
///
/// # Errors
/// If the Launcher's Job has failed and its pods could not be asked for.
pub(crate) async fn keep(context: &Context, job: &ValidJob, seen: &mut Seen) -> Result<Logs, Error> {
    if seen.status.completion_time.is_some() || job.suspended {
        context.memory.of(&job.uid, |memory| memory.launcher_failed = None);
        context.memory.forget_launcher(&job.namespace, &job.name);
        return Ok(Logs::Read);
    }
    let remembered = context.memory.of(&job.uid, |memory| memory.launcher_failed.clone());
    let mut pod = seen.failed_launcher_pod().cloned().or_else(|| noted(context, job, seen));
    if pod.is_none() && remembered.is_none() && seen.has_launcher_failed() {
        // The Job's watch is ahead of the pods'.
        seen.launcher_pods = launcher_pods(context, job, seen).await?;
        pod = seen.failed_launcher_pod().cloned();
        for _ in 0..LOOKS {
            if pod.is_some() {
                break;
            }
            tokio::time::sleep(LOOK_PAUSE).await;
            pod = noted(context, job, seen);
        }
    }
    let Some(pod) = pod else {
        seen.launcher_failed = remembered.map(|known| known.1);
        return Ok(Logs::Read);
    };
    let failed = failed_run(&pod);
    let id = failed.as_ref().map(|run| {
        let number = run.restarts - i32::from(run.previous);
        (pod.metadata.uid.clone().unwrap_or_default(), run.container.clone(), number)
    });
    let id = id.unwrap_or_else(|| (pod.metadata.uid.clone().unwrap_or_default(), String::new(), 0));
    let run = match (remembered.map(|known| *known), failed) {
        (Some((known, run)), _) if known == id => LauncherRun { pod, ..run },
        (_, Some(failed)) if !is_on_lost_node(&pod, seen) => {
            let Ok(_turn) = context.logs.try_acquire() else { return Ok(Logs::Busy) };
            read(context, pod, &failed.container, failed.previous).await
        }
        _ => LauncherRun { pod, ..LauncherRun::default() },
    };
    let unasked = run.agent.is_none();
    seen.launcher_failed = Some(run);
    remember(context, job, seen, &id);
    if unasked
        && let Some(worker) = plan::wants_agent(job, seen).cloned()
        && !is_on_lost_node(&worker, seen)
    {
        let Ok(_turn) = context.logs.try_acquire() else { return Ok(Logs::Busy) };
        let words = ask_agent(context, &worker).await;
        seen.launcher_failed.as_mut().into_iter().for_each(|run| run.agent = Some(words.clone()));
        remember(context, job, seen, &id);
    }
    Ok(Logs::Read)
}

fn remember(context: &Context, job: &ValidJob, seen: &Seen, id: &RunId) {
    let remembered = seen.launcher_failed.clone().map(|run| Box::new((id.clone(), run)));
    context.memory.of(&job.uid, |memory| memory.launcher_failed = remembered);
}

/// Whether the pod's node no longer reports, so that nobody can return the pod's log.
fn is_on_lost_node(pod: &Pod, seen: &Seen) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
    node.is_some_and(|node| seen.lost_nodes.contains_key(node))
}

/// What the launch agent of a Worker has written into its log, once it has told of the end of the calls that it told of: that
/// it may do a moment after the Launcher has ended.
async fn ask_agent(context: &Context, worker: &Pod) -> String {
    let Some(container) = worker.spec.as_ref().and_then(|spec| spec.containers.first()) else {
        return String::new();
    };
    let mut words = String::new();
    for _ in 0..AGENT_LOOKS {
        let log = read(context, worker.clone(), &container.name, false).await.log;
        let Some(log) = log.filter(|log| !log.is_empty()) else { break };
        words = plan::agents_lines(&log);
        if !plan::is_agent_busy(&words) {
            break;
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    words
}

/// What the launch agents of Workers have to say of a run that succeeded, by the Workers' indices, where nothing else tells
/// where its ranks ran; only those that were heard from their first word.
async fn ask_agents(context: &Context, job: &ValidJob, seen: &Seen) -> BTreeMap<usize, String> {
    let asked = plan::agents_to_ask(job, seen);
    let told = asked.into_iter().map(|(index, pod)| async move { (index, ask_agent(context, pod).await) });
    let told = futures::future::join_all(told).await;
    told.into_iter().filter(|(_, words)| plan::is_agent_heard_out(words)).collect()
}

/// The pod of this very Launcher that a watch showed to have failed.
fn noted(context: &Context, job: &ValidJob, seen: &Seen) -> Option<Pod> {
    let launcher = seen.launcher.as_ref()?.uid()?;
    context.memory.failed_launcher(&job.namespace, &job.name).filter(|pod| is_controlled_by(pod, &launcher))
}

/// What a Launcher that still runs has printed, where the job ends without it: for the record.
pub(crate) async fn add_last_words(context: &Context, seen: &mut Seen, outlook: &Outlook) {
    if !matches!(outlook, Outlook::Failed(_) | Outlook::Restarting(_)) || seen.launcher_failed.is_some() {
        return;
    }
    let Some((pod, container)) = newest_pod(seen) else { return };
    if is_on_lost_node(&pod, seen) {
        return;
    }
    seen.launcher_failed = Some(read(context, pod, &container, false).await);
}

/// What the Launcher prints, where something rests on it: the time of its last line once the job may be stalled, and the
/// end of its log once it has succeeded.
pub(crate) async fn listen(context: &Context, job: &ValidJob, seen: &mut Seen) -> Logs {
    if seen.status.completion_time.is_some() || job.suspended || job.worker_count() < 1 {
        return Logs::Read;
    }
    (seen.output, seen.success_log, seen.agents) = context
        .memory
        .of(&job.uid, |memory| (memory.output.clone(), memory.success_log.clone(), memory.agents.clone()));
    let succeeded = seen.has_launcher_succeeded();
    let now = Timestamp::now();
    let unread = succeeded && seen.success_log.is_none();
    if !unread && !plan::wants_look(job, seen, now) {
        return Logs::Read;
    }
    let Some((pod, container)) = newest_pod(seen).filter(|(pod, _)| !is_on_lost_node(pod, seen)) else {
        return Logs::Read;
    };
    let Ok(_turn) = context.logs.try_acquire() else { return Logs::Busy };
    if succeeded {
        let log = read(context, pod, &container, false).await.log;
        let was_read = log.is_some();
        seen.success_log = Some(log.unwrap_or_default());
        if was_read {
            seen.agents = ask_agents(context, job, seen).await;
        }
    } else if let Some(output) = look(context, job, seen, &pod, &container, now).await {
        seen.output = Some(output);
    }
    let kept = (seen.output.clone(), seen.success_log.clone(), seen.agents.clone());
    context.memory.of(&job.uid, |memory| (memory.output, memory.success_log, memory.agents) = kept);
    Logs::Read
}

/// The Launcher's newest pod and the container of it that launches.
fn newest_pod(seen: &Seen) -> Option<(Pod, String)> {
    let pod = seen.launcher_pods.iter().max_by_key(|pod| pod.creation_timestamp())?;
    let container = pod.spec.as_ref()?.containers.first()?;
    Some((pod.clone(), container.name.clone()))
}

/// When a running Launcher printed its last line, and what the end of its output says; nothing if that cannot be known. Once
/// a look was conclusive, only the last line is read until the Launcher prints again.
async fn look(
    context: &Context,
    job: &ValidJob,
    seen: &Seen,
    pod: &Pod,
    container: &str,
    now: Timestamp,
) -> Option<OutputSeen> {
    if let Some(known) = seen.output.as_ref().filter(|_| plan::is_conclusive(seen)) {
        let line = in_time(tail(context, pod, container, false, &[1])).await?;
        if last_time(&line) == known.last {
            return Some(OutputSeen { looked: now, ..known.clone() });
        }
    }
    let log = in_time(tail(context, pod, container, false, &TAILS)).await?;
    let last = last_time(&log);
    let found = plan::silence(seen, last, now)
        .and_then(|silent| plan::hang(job, seen, &without_times(&log).0, silent));
    Some(OutputSeen { looked: now, last, found })
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
    context: &Context,
    pod: &Pod,
    container: &str,
    previous: bool,
    tails: &[i64],
) -> Result<String, kube::Error> {
    let pods: Api<WholePod> = Api::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
    let mut log = String::new();
    for lines in tails {
        let wanted = LogParams {
            container: Some(container.to_owned()),
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
async fn launcher_pods(context: &Context, job: &ValidJob, seen: &Seen) -> Result<Vec<Pod>, Error> {
    let Some(uid) = seen.launcher.as_ref().and_then(ResourceExt::uid) else { return Ok(Vec::new()) };
    let pods: Api<Pod> = Api::namespaced(context.client.clone(), &job.namespace);
    let selected = format!("{LABEL_JOB_NAME}={},{LABEL_JOB_ROLE}=launcher", job.name);
    let listed = pods.list(&ListParams::default().labels(&selected).limit(MOST_PODS)).await;
    let pods = listed.map_err(Error::request("list the Launcher's pods"))?.items;
    Ok(pods.into_iter().filter(|pod| is_controlled_by(pod, &uid)).collect())
}

/// The run of a pod's container with the end of its log, as far as that can be read.
async fn read(context: &Context, pod: Pod, container: &str, previous: bool) -> LauncherRun {
    let name = pod.name_any();
    match tokio::time::timeout(PATIENCE, tail(context, &pod, container, previous, &TAILS)).await {
        Ok(Ok(log)) => {
            let (log, first_output) = without_times(&log);
            return LauncherRun { pod, log: Some(log), first_output, agent: None };
        }
        Ok(Err(error)) => tracing::info!(pod = name, %error, "cannot read the Launcher's log"),
        Err(_) => tracing::info!(pod = name, "timed out reading the Launcher's log"),
    }
    LauncherRun { pod, ..LauncherRun::default() }
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
