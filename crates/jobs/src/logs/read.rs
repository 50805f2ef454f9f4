//! Reads one pod's output: once, or following it through breaks, restarts and retries.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, LogParams};

use super::merge::shared;
use super::resume::{Resume, split};
use super::{Item, Sender, Source, Target};
use crate::progress;
use crate::{Attempt, Error, describe, explain, view};

/// The longest line that is kept in one piece; longer ones are cut.
const MAX_LINE_BYTES: usize = 1024 * 1024;
/// How often in a row a connection may break before it is given up, and the pauses between.
const MAX_BREAKS: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Reads a pod's output to its present end.
pub(super) async fn once(source: Source, pod: String, sender: Sender) {
    let mut resume = Resume::default();
    let parameters = parameters(&source, None, false);
    if let Err(Stop::Failed(error)) = connection(&source, &pod, &parameters, &mut resume, &sender).await {
        let _ = sender.send(Err(error)).await;
    }
}

/// Follows a pod's output until it has ended for good; a retried Launcher counts as the same.
pub(super) async fn follow(source: Source, target: Target, sender: Sender) {
    let mut read = BTreeSet::new();
    loop {
        let pod = match next_pod(&source, target, &read, &sender).await {
            Ok(Some(pod)) => pod,
            Ok(None) | Err(Stop::ReaderGone) => return,
            Err(Stop::Failed(error)) => {
                let _ = sender.send(Err(error)).await;
                return;
            }
        };
        match follow_pod(&source, &pod.name_any(), &sender).await {
            Ok(()) => {}
            Err(Stop::ReaderGone) => return,
            Err(Stop::Failed(error)) => {
                let _ = sender.send(Err(error)).await;
                return;
            }
        }
        read.insert(pod.metadata.uid.unwrap_or_default());
        if target != Target::Launcher {
            return;
        }
    }
}

/// Why reading does not go on.
enum Stop {
    /// Nobody listens any more.
    ReaderGone,
    /// It cannot.
    Failed(Error),
}

async fn send(sender: &Sender, item: Item) -> Result<(), Stop> {
    sender.send(Ok(item)).await.map_err(|_| Stop::ReaderGone)
}

/// The next pod of that part that has begun to run and was not read; nothing once the job has ended without one.
async fn next_pod(
    source: &Source,
    target: Target,
    read: &BTreeSet<String>,
    sender: &Sender,
) -> Result<Option<Pod>, Stop> {
    let mut watch = progress::watch(&source.client, source.kind, &source.namespace, &source.job);
    let mut told = None;
    loop {
        let unread = |pod: &&Pod| {
            target.matches(&describe::pod_view(pod))
                && !read.contains(pod.metadata.uid.as_deref().unwrap_or(""))
        };
        let candidate = watch
            .pods()
            .values()
            .filter(unread)
            .min_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
        let waiting = match candidate {
            Some(pod) if describe::started(pod) || describe::ended(pod) => return Ok(Some(pod.clone())),
            Some(pod) => {
                Some((pod.name_any(), describe::waits_for(pod).unwrap_or_else(|| "its container".to_owned())))
            }
            None => not_made(watch.job()).map(|reason| (target.name(&source.job), reason)),
        };
        if let Some((name, reason)) = waiting
            && told.as_ref() != Some(&reason)
        {
            send(sender, Item::Waiting { pod: shared(&name), reason: reason.clone() }).await?;
            told = Some(reason);
        }
        if !watch.step().await.map_err(Stop::Failed)? {
            return Ok(None);
        }
    }
}

/// Why there is no pod yet, where the job says so.
fn not_made(job: Option<&DynamicObject>) -> Option<String> {
    let row = view::row(job?);
    match row.reason.as_deref() {
        Some("Suspended") => Some("the job to be resumed: it is suspended".to_owned()),
        Some("Queued") => Some("the job to leave its queue".to_owned()),
        _ => None,
    }
}

async fn follow_pod(source: &Source, pod: &str, sender: &Sender) -> Result<(), Stop> {
    let mut resume = Resume::default();
    let mut breaks = 0;
    let mut pause = FIRST_PAUSE;
    loop {
        let from = resume.again();
        let parameters = parameters(source, from, true);
        let broken = match connection(source, pod, &parameters, &mut resume, sender).await {
            Err(Stop::ReaderGone) => return Err(Stop::ReaderGone),
            Err(Stop::Failed(error)) => Some(error),
            Ok(lines) => {
                if lines > 0 {
                    (breaks, pause) = (0, FIRST_PAUSE);
                }
                None
            }
        };
        if finished(source, pod).await {
            return Ok(());
        }
        breaks += 1;
        if breaks > MAX_BREAKS {
            let detail =
                broken.map_or_else(|| "the server keeps ending it".to_owned(), |error| error.to_string());
            return Err(Stop::Failed(Error::BrokenStream { what: format!("the log of {pod}"), detail }));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Whether nothing more will be written: the pod has ended or is gone. Not knowing counts as no.
async fn finished(source: &Source, pod: &str) -> bool {
    let api: Api<Pod> = Api::namespaced(source.client.clone(), &source.namespace);
    match api.get_opt(pod).await {
        Ok(Some(pod)) => describe::ended(&pod) || first_container_ended_for_good(&pod),
        Ok(None) => true,
        Err(_) => false,
    }
}

fn first_container_ended_for_good(pod: &Pod) -> bool {
    let never = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()) == Some("Never");
    never && describe::pod_view(pod).exit_code.is_some()
}

fn parameters(source: &Source, from: Option<jiff::Timestamp>, follow: bool) -> LogParams {
    let choice = &source.choice;
    let since = choice.since.map(|since| i64::try_from(since.as_secs().max(1)).unwrap_or(i64::MAX));
    LogParams {
        container: choice.container.clone(),
        follow,
        previous: choice.previous,
        timestamps: true,
        since_time: from,
        since_seconds: since.filter(|_| from.is_none()),
        tail_lines: choice.tail.filter(|_| from.is_none()),
        ..LogParams::default()
    }
}

/// Reads one connection to its end; the number of new lines.
async fn connection(
    source: &Source,
    pod: &str,
    parameters: &LogParams,
    resume: &mut Resume,
    sender: &Sender,
) -> Result<usize, Stop> {
    let attempt = Attempt { verb: "get", what: "pods/log", name: pod, namespace: &source.namespace };
    let api: Api<Pod> = Api::namespaced(source.client.clone(), &source.namespace);
    let parameters = with_container(&api, pod, parameters).await;
    let stream =
        api.log_stream(pod, &parameters).await.map_err(|error| Stop::Failed(refusal(error, attempt)))?;
    futures::pin_mut!(stream);
    let name: Arc<str> = shared(pod);
    let mut line = Vec::new();
    let mut lines = 0;
    while read_line(&mut stream, &mut line).await.map_err(|error| broken(pod, &error))? {
        let text = String::from_utf8_lossy(&line);
        let (at, text) = split(&text);
        if at.is_none_or(|at| resume.is_new(at)) {
            lines += 1;
            send(sender, Item::Line { pod: name.clone(), at, text: text.to_owned() }).await?;
        }
    }
    Ok(lines)
}

/// A pod with several containers needs one named: the first is the MPI container.
async fn with_container(api: &Api<Pod>, pod: &str, parameters: &LogParams) -> LogParams {
    let mut parameters = parameters.clone();
    if parameters.container.is_none()
        && let Ok(pod) = api.get(pod).await
    {
        parameters.container =
            pod.spec.and_then(|spec| spec.containers.into_iter().next()).map(|first| first.name);
    }
    parameters
}

fn refusal(error: kube::Error, attempt: Attempt<'_>) -> Error {
    match explain(error, attempt) {
        Error::NotFound { name, .. } => Error::NoPod {
            what: format!("pod {name} is gone"),
            advice: "see what is left: odh training describe mpijob NAME".to_owned(),
        },
        other => other,
    }
}

fn broken(pod: &str, error: &std::io::Error) -> Stop {
    Stop::Failed(Error::BrokenStream { what: format!("the log of {pod}"), detail: error.to_string() })
}

/// One line without its end into `line`; `false` at the end of the stream.
async fn read_line(stream: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    loop {
        let buffer = futures::AsyncBufReadExt::fill_buf(stream).await?;
        if buffer.is_empty() {
            return Ok(!line.is_empty());
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(buffer.len());
        let room = MAX_LINE_BYTES.saturating_sub(line.len());
        line.extend_from_slice(buffer.get(..taken.min(room)).unwrap_or_default());
        stream.consume_unpin(taken + usize::from(end.is_some()));
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(true);
        }
    }
}
