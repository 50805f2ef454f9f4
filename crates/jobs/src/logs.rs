//! The output of a job's pods, line by line: the Launcher's, some Workers', or all merged.
//!
//! Lines come with the time at which the node wrote them; that is what makes merging and resuming possible. Following
//! survives a broken connection without losing or repeating a line ([`resume`]), waits for a pod that has not
//! started, saying what it waits for, and goes on with the next Launcher when one is retried. Each pod's reader has a
//! bounded buffer, so a slow reader slows the server and not this process's memory.

mod merge;
mod read;
mod resume;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::{Error, Kind, describe, list, view};

/// How many pods are read at once.
pub const MAX_PODS: usize = 256;
/// How many lines of a pod are kept for a reader who is slower than it.
const BUFFERED_LINES: usize = 256;

/// Whose output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// The Launcher's, which has all that `mpirun` passes on.
    #[default]
    Launcher,
    /// Some Workers', by index.
    Workers(Vec<i32>),
    /// Everyone's.
    All,
}

/// Which lines.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Whose output.
    pub which: Which,
    /// The container; the first if not given.
    pub container: Option<String>,
    /// Go on as lines are written.
    pub follow: bool,
    /// Only lines not older than this.
    pub since: Option<Duration>,
    /// Only so many lines from the end, of each pod.
    pub tail: Option<i64>,
    /// The container's run before this one.
    pub previous: bool,
}

/// What a reader is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A line, without its line end.
    Line {
        /// The pod.
        pod: Arc<str>,
        /// When it was written, where the node says so.
        at: Option<Timestamp>,
        /// The line; bytes that are no text are replaced.
        text: String,
    },
    /// Nothing comes yet, and why.
    Waiting {
        /// The pod, or what is waited for.
        pod: Arc<str>,
        /// What it waits for.
        reason: String,
    },
    /// Something about the reading itself.
    Note(String),
}

type Sender = mpsc::Sender<Result<Item, Error>>;

/// Lines as they come. Dropping it ends every connection.
pub struct Logs {
    items: mpsc::Receiver<Result<Item, Error>>,
    _readers: JoinSet<()>,
}

impl Logs {
    /// The next line or note; nothing after the last.
    pub async fn next(&mut self) -> Option<Result<Item, Error>> {
        self.items.recv().await
    }
}

/// A reader's fixed facts.
#[derive(Clone)]
struct Source {
    client: Client,
    kind: Kind,
    namespace: String,
    job: String,
    choice: Choice,
}

/// Begins to read.
///
/// # Errors
/// Where there is no such job, no pod to read from and none to wait for, or the server refuses.
pub async fn logs(
    client: &Client,
    kind: Kind,
    namespace: &str,
    job: &str,
    choice: Choice,
) -> Result<Logs, Error> {
    let object = list::get(client, kind, namespace, job).await?;
    let workers = view::row(&object).workers;
    let targets = targets(&choice.which, workers)?;
    if targets.len() > MAX_PODS {
        return Err(Error::NoPod {
            what: format!("{} pods are more than the {MAX_PODS} that can be read at once", targets.len()),
            advice: "name some workers: --worker 0-99".to_owned(),
        });
    }
    let source =
        Source { client: client.clone(), kind, namespace: namespace.to_owned(), job: job.to_owned(), choice };
    let mut readers = JoinSet::new();
    let (sender, items) = mpsc::channel(BUFFERED_LINES);
    if source.choice.follow {
        for target in targets {
            readers.spawn(read::follow(source.clone(), target, sender.clone()));
        }
    } else {
        let pods = describe::pods(client, kind, namespace, job).await?;
        readers.spawn(merge::merged(source, targets, pods, sender));
    }
    Ok(Logs { items, _readers: readers })
}

/// A pod by its part in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Launcher,
    Worker(i32),
}

impl Target {
    fn matches(self, pod: &describe::PodView) -> bool {
        match self {
            Target::Launcher => pod.role == "launcher",
            Target::Worker(index) => pod.role == "worker" && pod.index == Some(index),
        }
    }

    fn name(self, job: &str) -> String {
        match self {
            Target::Launcher => format!("{job}-launcher"),
            Target::Worker(index) => format!("{job}-worker-{index}"),
        }
    }
}

fn targets(which: &Which, workers: i32) -> Result<Vec<Target>, Error> {
    match which {
        Which::Launcher => Ok(vec![Target::Launcher]),
        Which::All => Ok([Target::Launcher].into_iter().chain((0..workers).map(Target::Worker)).collect()),
        Which::Workers(indices) => match indices.iter().find(|index| **index >= workers || **index < 0) {
            None => Ok(indices.iter().copied().map(Target::Worker).collect()),
            Some(index) => Err(Error::NoPod {
                what: format!("there is no worker {index}"),
                advice: match workers {
                    0 => "this job has no workers".to_owned(),
                    _ => format!("this job has workers 0 to {}", workers - 1),
                },
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_that_do_not_exist_are_named() {
        assert_eq!(targets(&Which::Workers(vec![1]), 2).unwrap(), [Target::Worker(1)]);
        assert_eq!(targets(&Which::All, 2).unwrap().len(), 3);
        let error = targets(&Which::Workers(vec![0, 2]), 2).unwrap_err();
        assert_eq!(error.to_string(), "there is no worker 2");
        assert_eq!(error.hint().as_deref(), Some("this job has workers 0 to 1"));
    }
}
