//! What a log archive needs: the lines of one container as the node has them, and a way to read lines that were kept
//! as if their pods were still there.

use std::collections::BTreeSet;
use std::pin::Pin;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{AsyncBufRead, AsyncBufReadExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, LogParams};

use super::Which;
use super::line::take_line;
use super::resume::{split, whole_second};
use super::target::{LEADING, ROLES, Target};
use crate::describe::PodView;
use crate::{Attempt, Error, Kind};

/// The lines of one container, as the node has them.
pub struct Raw {
    stream: Pin<Box<dyn AsyncBufRead + Send>>,
    what: String,
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
}

impl Raw {
    /// Opens a container's output: from the second that a time is in, and as long as the container writes.
    ///
    /// # Errors
    /// If the server refuses, or the pod is gone.
    pub async fn open(
        client: &Client,
        (namespace, pod, container): (&str, &str, &str),
        since: Option<Timestamp>,
    ) -> Result<Self, Error> {
        let parameters = LogParams {
            container: Some(container.to_owned()),
            follow: true,
            timestamps: true,
            since_time: since.map(whole_second),
            ..LogParams::default()
        };
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let attempt = Attempt { verb: "get", what: "pods/log", name: pod, namespace };
        let stream = api.log_stream(pod, &parameters).await;
        let stream = stream.map_err(|error| Error::from_kube(error, attempt))?;
        Ok(Self { stream: Box::pin(stream), what: format!("the log of {pod}"), line: Vec::new() })
    }

    /// Returns the next line without its line end, and when it was written; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// If the connection breaks.
    pub async fn next(&mut self) -> Result<Option<(Option<Timestamp>, String)>, Error> {
        loop {
            let buffer = self.stream.fill_buf().await;
            let broken = |error: std::io::Error| Error::BrokenStream {
                what: self.what.clone(),
                detail: error.to_string(),
            };
            let buffer = buffer.map_err(broken)?;
            if buffer.is_empty() && self.line.is_empty() {
                return Ok(None);
            }
            let ends = buffer.is_empty();
            let (taken, whole) = take_line(buffer, &mut self.line);
            self.stream.consume_unpin(taken);
            if whole || ends {
                let line = std::mem::take(&mut self.line);
                let text = String::from_utf8_lossy(&line);
                let (at, text) = split(&text);
                return Ok(Some((at, text.to_owned())));
            }
        }
    }
}

/// The lines of a container that were kept.
pub struct Kept {
    /// The part of the job that its pod was: `launcher`, `worker-3` or `master-0`, as [`part`] writes it.
    pub part: String,
    /// The pod.
    pub pod: String,
    /// The lines, oldest first.
    pub lines: BoxStream<'static, Result<(Timestamp, String), Error>>,
}

/// Where lines of pods that are gone are kept.
pub trait Archive: Send + Sync {
    /// Returns what is kept of these parts of the job. A part of which nothing is known is left out; one that wrote nothing
    /// has no lines.
    ///
    /// # Errors
    /// If the archive cannot be read.
    fn of<'a>(&'a self, parts: &'a BTreeSet<String>) -> BoxFuture<'a, Result<Vec<Kept>, Error>>;
}

/// Returns the part of its job that a pod is; empty if it is none whose output is read.
pub fn part(pod: &PodView) -> String {
    Target::of(pod).map(Target::part).unwrap_or_default()
}

/// Returns the parts of a job that a choice asks for, as far as they are among those kept.
///
/// # Errors
/// If it asks for a Worker that is not among them.
pub fn parts(kind: Kind, which: &Which, kept: &BTreeSet<String>) -> Result<BTreeSet<String>, Error> {
    let part = |target: Target| target.part();
    match which {
        Which::All => Ok(kept.clone()),
        Which::Launcher if kind.has_launcher() => Ok(BTreeSet::from([part(Target::Launcher)])),
        Which::Launcher => {
            let mut leading = ROLES.into_iter().take(LEADING).map(|role| part(Target::Replica(role, 0)));
            let leader = leading.find(|leading| kept.contains(leading));
            Ok(BTreeSet::from([leader.unwrap_or_else(|| part(Target::Worker(0)))]))
        }
        Which::Workers(indices) => {
            let wanted: BTreeSet<String> = indices.iter().map(|index| part(Target::Worker(*index))).collect();
            match wanted.difference(kept).next() {
                None => Ok(wanted),
                Some(missing) => Err(Error::NoPod {
                    what: format!("no output of {missing} was kept"),
                    advice: "ask for the parts that wrote something".into(),
                }),
            }
        }
    }
}
