//! Reads one pod's output, either up to its current end, or following it through broken connections.

use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt, FutureExt};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, LogParams};
use tokio::sync::mpsc;

use super::level::Levels;
use super::resume::{Resume, split};
use super::sieve::Sieve;
use super::tag;
use super::{BATCH_LINES, BUFFERED_BATCHES, Batch, Item, Source};
use crate::{Action, Advice, Attempt, Error, JobRef, describe};

/// The maximum length of a line, in bytes; longer lines are cut.
const MAX_LINE_BYTES: usize = 1024 * 1024;
/// The maximum number of consecutive broken connections, and the pauses between attempts.
const MAX_BREAKS: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The channel for a reader's lines.
pub(super) type Lane = mpsc::Sender<Batch>;

/// Creates a channel for one pod's lines.
pub(super) fn lane() -> (Lane, mpsc::Receiver<Batch>) {
    mpsc::channel(BUFFERED_BATCHES)
}

/// The reader of one pod, and its position in the output.
pub(super) struct Reader {
    source: Arc<Source>,
    name: Arc<str>,
    /// The first container is the one that trains; it is read unless another one was requested.
    container: Option<String>,
    never_restarted: bool,
    resume: Resume,
    levels: Levels,
    sieve: Sieve<Item>,
    lane: Lane,
}

/// Why reading stops.
enum Stop {
    /// The consumer is gone.
    ReaderGone,
    /// An error that cannot be retried.
    Failed(Error),
}

/// Whether a pod may write more output.
enum Left {
    /// It may write more.
    More,
    /// It has ended; its output can still be read.
    Ended,
    /// The pod no longer exists.
    Gone,
}

impl Reader {
    pub(super) fn new(source: Arc<Source>, pod: &Pod, lane: Lane) -> Reader {
        let spec = pod.spec.as_ref();
        let first = || spec?.containers.first().map(|container| container.name.clone());
        Reader {
            name: pod.name_any().into(),
            container: source.choice.container.clone().or_else(first),
            never_restarted: spec.and_then(|spec| spec.restart_policy.as_deref()) == Some("Never"),
            resume: Resume::default(),
            levels: Levels::default(),
            sieve: Sieve::new(source.choice.wanted.clone()),
            source,
            lane,
        }
    }

    /// Reads up to the current end.
    pub(super) async fn once(mut self) {
        if let Err(Stop::Failed(error)) = self.connection(None, false).await {
            let _ = self.lane.send(vec![Err(error)]).await;
        }
    }

    /// Reads until no more output can come.
    pub(super) async fn follow(mut self) {
        if let Err(Stop::Failed(error)) = self.through_breaks().await {
            let _ = self.lane.send(vec![Err(error)]).await;
        }
    }

    async fn through_breaks(&mut self) -> Result<(), Stop> {
        let mut breaks = 0;
        let mut pause = FIRST_PAUSE;
        loop {
            let from = self.resume.again();
            let broken = match self.connection(from, true).await {
                Err(Stop::ReaderGone) => return Err(Stop::ReaderGone),
                Err(Stop::Failed(error)) => Some(error),
                Ok(lines) => {
                    if lines > 0 {
                        (breaks, pause) = (0, FIRST_PAUSE);
                    }
                    None
                }
            };
            // A broken connection may have left unread output, even if its pod has ended since.
            let cut = matches!(broken, Some(Error::BrokenStream { .. } | Error::Unreachable { .. }));
            match self.left().await {
                Left::Gone => return Ok(()),
                Left::Ended if !cut => return Ok(()),
                Left::Ended | Left::More => {}
            }
            breaks += 1;
            if breaks > MAX_BREAKS {
                let detail = broken
                    .map_or_else(|| "the server keeps closing it".to_owned(), |error| error.to_string());
                return Err(Stop::Failed(Error::BrokenStream {
                    what: format!("the log of {}", self.name),
                    detail,
                }));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.source.client.clone(), &self.source.namespace)
    }

    /// Whether more output may come. If this is unknown, it may.
    async fn left(&self) -> Left {
        match self.api().get_opt(&self.name).await {
            Ok(Some(pod)) => {
                let ended = || self.never_restarted && describe::pod_view(&pod).exit_code.is_some();
                if semantics::has_ended(&pod) || ended() { Left::Ended } else { Left::More }
            }
            Ok(None) => Left::Gone,
            Err(_) => Left::More,
        }
    }

    fn parameters(&self, from: Option<jiff::Timestamp>, follow: bool) -> LogParams {
        let choice = &self.source.choice;
        let since = choice.since.map(|since| i64::try_from(since.as_secs().max(1)).unwrap_or(i64::MAX));
        LogParams {
            container: self.container.clone(),
            follow,
            previous: choice.previous,
            timestamps: true,
            since_time: from,
            since_seconds: since.filter(|_| from.is_none()),
            tail_lines: choice.tail.filter(|_| from.is_none()),
            ..LogParams::default()
        }
    }

    /// Reads one connection to its end; returns the number of new lines.
    async fn connection(&mut self, from: Option<jiff::Timestamp>, follow: bool) -> Result<usize, Stop> {
        let source = self.source.clone();
        let attempt =
            Attempt { verb: "get", what: "pods/log", name: &self.name, namespace: &source.namespace };
        let opening = source.openings.acquire().await;
        let opened = self.api().log_stream(&self.name, &self.parameters(from, follow)).await;
        drop(opening);
        let stream = opened.map_err(|error| Stop::Failed(refusal(error, attempt, source.job_ref())))?;
        futures::pin_mut!(stream);
        let mut line = Vec::new();
        let mut lines = 0;
        let mut batch = Vec::new();
        loop {
            // Lines are passed on before waiting for more.
            let ready = stream.fill_buf().now_or_never().is_some();
            if !batch.is_empty() && (!ready || batch.len() >= BATCH_LINES) {
                self.lane.send(std::mem::take(&mut batch)).await.map_err(|_| Stop::ReaderGone)?;
            }
            let more = read_line(&mut stream, &mut line).await;
            if !more.map_err(|error| self.broken(&error))? {
                break;
            }
            lines += usize::from(self.take_in(&line, &mut batch));
        }
        if !batch.is_empty() {
            self.lane.send(batch).await.map_err(|_| Stop::ReaderGone)?;
        }
        Ok(lines)
    }

    /// Adds a line to the batch if it is new and wanted; returns whether it is new.
    fn take_in(&mut self, line: &[u8], batch: &mut Batch) -> bool {
        let text = String::from_utf8_lossy(line);
        let (at, text) = split(&text);
        if !at.is_none_or(|at| self.resume.is_new(at)) {
            return false;
        }
        let choice = &self.source.choice;
        // Tags that stay on the line are not part of what the rank wrote either.
        let tagged = tag::split(text);
        let written = tagged.map_or(text, |(_, rest)| rest);
        let (rank, text) = match tagged {
            Some((rank, rest)) if choice.split || choice.ranks.is_some() => (Some(rank), rest),
            _ => (None, text),
        };
        if choice.ranks.as_ref().is_some_and(|wanted| !rank.is_some_and(|rank| wanted.contains(&rank))) {
            return true;
        }
        let level = self.levels.next(rank, written);
        let (pod, also) = (self.name.clone(), Vec::new());
        let item = Item::Line { pod, at, rank, level, text: text.to_owned(), also };
        self.sieve.push(text, level, item, |item| batch.push(Ok(item)));
        true
    }

    fn broken(&self, error: &std::io::Error) -> Stop {
        let what = format!("the log of {}", self.name);
        Stop::Failed(Error::BrokenStream { what, detail: error.to_string() })
    }
}

fn refusal(error: kube::Error, attempt: Attempt<'_>, job: JobRef) -> Error {
    match Error::from_kube(error, attempt) {
        Error::NotFound { name, .. } => Error::NoPod {
            what: format!("pod {name} no longer exists"),
            advice: Advice::from("see the remaining pods").with(Action::Describe(job)),
        },
        other => other,
    }
}

/// Reads one line without its line end into `line`; returns `false` at the end of the stream.
async fn read_line(stream: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    loop {
        let buffer = stream.fill_buf().await?;
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
