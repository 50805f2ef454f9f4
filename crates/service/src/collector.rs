//! Archives the output of jobs' pods: each run of each container is followed from its start, so that what a pod wrote
//! is kept although the pod is deleted with its job.
//!
//! The bounds: [`MOST_FOLLOWED`] containers that run are followed at once, of each namespace equally many if not all can
//! be; others wait and are read when they have ended, if they are still there. Lines are durable within [`FLUSH_EVERY`]. Reading continues where the archive ends, whichever
//! replica wrote it. The numbers of the training that lines contain ([`printed`]) are stored with them.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::jobs::Error as JobError;
use ::jobs::logs::kept::Raw;
use history::Error;
use history::error::Class;
use history::logs::{self, Archive, Line, Position, Source};
use jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::places::{Place, Places};
use crate::pods::{Facts, Run};
use crate::printed;
use crate::store::Kept;

/// The maximum number of running containers that are followed at once.
const MOST_FOLLOWED: usize = 512;
/// The maximum number of ended containers that are read at once.
const MOST_FINISHED: usize = 32;
/// The maximum number of containers that are followed or wait.
const MOST_RUNS: usize = 65_536;
/// How long lines wait to be stored together, how many, and their size in bytes.
const FLUSH_EVERY: Duration = Duration::from_secs(2);
const FLUSH_LINES: usize = 2_000;
const FLUSH_BYTES: usize = 256 << 10;
/// The wait after something failed: first, and at most.
const AGAIN_FIRST: Duration = Duration::from_millis(500);
const AGAIN_LAST: Duration = Duration::from_secs(30);
/// How long a reader waits for the output of pods that were just removed.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);
/// How long a pod's job may be unknown.
const KNOWN_WITHIN: Duration = Duration::from_secs(60);

/// What identifies a run of a container within its job, as the archive's name for it:
/// `PART/CREATED/POD/PLACE:CONTAINER/RESTARTS`. Ordered by age within a part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunName {
    /// `launcher`, `worker-3` or `master-0`; empty if its output is of no part.
    pub part: String,
    /// When the pod was created, in seconds since 1970.
    pub created: i64,
    /// The pod.
    pub pod: String,
    /// The container's place in the pod.
    pub place: usize,
    /// The container.
    pub container: String,
    /// How often it was restarted before.
    pub restarts: i32,
}

impl RunName {
    fn of(facts: &Facts, run: &Run) -> Self {
        Self {
            part: facts.part.clone(),
            created: facts.created.as_second(),
            pod: facts.name.clone(),
            place: run.place,
            container: run.container.clone(),
            restarts: run.restarts,
        }
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, created, pod, place, container, restarts } = self;
        write!(f, "{part}/{created}/{pod}/{place}:{container}/{restarts}")
    }
}

impl FromStr for RunName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let damaged = || Error::Damaged(format!("the archive has output of {text:?}"));
        let [part, created, pod, run, restarts] =
            <[&str; 5]>::try_from(text.split('/').collect::<Vec<_>>()).map_err(|_| damaged())?;
        let (place, container) = run.split_once(':').ok_or_else(damaged)?;
        Ok(Self {
            part: part.to_owned(),
            created: created.parse().map_err(|_| damaged())?,
            pod: pod.to_owned(),
            place: place.parse().map_err(|_| damaged())?,
            container: container.to_owned(),
            restarts: restarts.parse().map_err(|_| damaged())?,
        })
    }
}

/// What may still come from a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// It runs.
    More,
    /// It has ended.
    Ended,
    /// Its pod is gone, or it was restarted: the node has its output no longer.
    Gone,
}

type Key = (String, usize, i32);

/// A run whose output is not archived to its end.
struct Open {
    namespace: String,
    job: String,
    part: String,
    /// Cancelled at its end.
    done: CancellationToken,
}

/// Collects output.
pub struct Collector {
    client: Client,
    board: Arc<Board>,
    kept: Kept,
    stop: CancellationToken,
    /// The runs that are followed, or were and whose pod is still there.
    runs: Mutex<HashMap<Key, watch::Sender<Left>>>,
    /// The runs whose output is not archived to its end.
    open: Mutex<HashMap<Key, Open>>,
    followed: Arc<Places>,
    finished: Arc<Places>,
}

/// The entry in `open` of a task, which goes with it, even if it panics: nobody waits for a task that is gone.
struct Opened {
    collector: Arc<Collector>,
    key: Key,
    done: CancellationToken,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.collector.open().remove(&self.key);
        self.done.cancel();
    }
}

impl Collector {
    /// Creates it with a client as the service's own account.
    pub fn new(client: Client, board: Arc<Board>, kept: Kept, stop: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            client,
            board,
            kept,
            stop,
            runs: Mutex::default(),
            open: Mutex::default(),
            followed: Places::new(MOST_FOLLOWED),
            finished: Places::new(MOST_FINISHED),
        })
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<Key, watch::Sender<Left>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Key, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everything that pods of a job wrote is archived, but not for long: of these parts, or of all.
    pub async fn settled(&self, namespace: &str, job: &str, parts: Option<&BTreeSet<String>>) {
        let is_theirs = |open: &&Open| {
            open.namespace == namespace
                && open.job == job
                && parts.is_none_or(|parts| parts.contains(&open.part))
        };
        let left: Vec<_> = self.open().values().filter(is_theirs).map(|open| open.done.clone()).collect();
        let all = async {
            for done in left {
                done.cancelled().await;
            }
        };
        // What is missing after that is read without.
        let _ = tokio::time::timeout(SETTLED_WITHIN, all).await;
    }

    /// Takes in a change of a pod. Quick: it only starts tasks.
    pub fn hear(self: &Arc<Self>, facts: &Arc<Facts>, gone: bool) {
        let mut runs = self.runs();
        if gone {
            runs.retain(|(uid, ..), left| {
                if *uid == facts.uid {
                    left.send_replace(Left::Gone);
                }
                *uid != facts.uid
            });
            return;
        }
        for run in &facts.runs {
            let left = if run.ended { Left::Ended } else { Left::More };
            let key = (facts.uid.clone(), run.place, run.restarts);
            if let Some(known) = runs.get(&key) {
                known.send_if_modified(|known| std::mem::replace(known, left) != left);
                continue;
            }
            if runs.len() >= MOST_RUNS {
                tracing::warn!(
                    pod = facts.name,
                    "too many containers: the output of this one is not archived"
                );
                continue;
            }
            // The node now has the output of this run in place of that of the run before.
            if let Some(before) = runs.get(&(key.0.clone(), key.1, key.2.saturating_sub(1))) {
                before.send_replace(Left::Gone);
            }
            let (sender, receiver) = watch::channel(left);
            runs.insert(key.clone(), sender);
            let done = CancellationToken::new();
            let open = Open {
                namespace: facts.namespace.clone(),
                job: facts.job_name().to_owned(),
                part: facts.part.clone(),
                done: done.clone(),
            };
            self.open().insert(key.clone(), open);
            let opened = Opened { collector: self.clone(), key, done };
            let (facts, run) = (facts.clone(), run.clone());
            tokio::spawn(async move {
                let collector = &opened.collector;
                collector.stop.run_until_cancelled(collector.collect(&facts, &run, receiver)).await;
            });
        }
    }

    /// Archives all that a container writes.
    async fn collect(&self, facts: &Facts, run: &Run, mut left: watch::Receiver<Left>) {
        let opened = self.kept.wait().await;
        let Some(uid) = self.job_of(facts).await else { return };
        let source = Source { uid, attempt: facts.attempt, container: RunName::of(facts, run).to_string() };
        let mut place = self.place(&facts.namespace, &left).await;
        let (mut wait, mut read_once) = (AGAIN_FIRST, false);
        loop {
            let before = *left.borrow_and_update();
            if before == Left::Gone {
                break;
            }
            let read = tokio::select! {
                biased;
                () = place.displaced() => None,
                read = self.read(&opened.archive, &source, facts, run) => Some(read),
            };
            let Some(read) = read else {
                // Reading goes on later, where the archive then ends.
                place = self.place(&facts.namespace, &left).await;
                continue;
            };
            read_once |= read.is_ok();
            match read {
                // What the container wrote last is there once its end is known.
                Ok(_) if before != Left::More => break,
                Ok(lines) if lines > 0 => wait = AGAIN_FIRST,
                Ok(_) => {}
                Err(Failed::Refused(JobError::NotFound { .. })) => break,
                Err(Failed::Refused(error)) => {
                    tracing::debug!(pod = facts.name, %error, "cannot read a pod's output; trying again");
                }
                Err(Failed::Store(error)) => {
                    tracing::warn!(pod = facts.name, %error, "cannot archive a pod's output; trying again");
                    if error.class() == Class::Input {
                        return;
                    }
                }
            }
            let _ = tokio::time::timeout(wait, left.changed()).await;
            wait = (wait * 2).min(AGAIN_LAST);
        }
        if read_once {
            // Otherwise one that wrote nothing could not be told from one of which nothing is known.
            let noted = logs::note_end(&opened.archive, &source, Timestamp::now()).await;
            self.kept.note(&noted);
        }
    }

    /// Waits for a place to read a container of a namespace: among those that run, or that have ended once it has.
    async fn place(&self, namespace: &str, left: &watch::Receiver<Left>) -> Place {
        tokio::select! {
            place = self.followed.take(namespace) => place,
            place = async {
                let _ = left.clone().wait_for(|left| *left != Left::More).await;
                self.finished.take(namespace).await
            } => place,
        }
    }

    /// Returns the uid of a pod's job, once it is known.
    async fn job_of(&self, facts: &Facts) -> Option<String> {
        let mut moved = self.board.moved();
        let found = async {
            loop {
                moved.borrow_and_update();
                if let Some(job) = facts.job(&self.board) {
                    return Some(job.row.uid.clone());
                }
                moved.changed().await.ok()?;
            }
        };
        tokio::time::timeout(KNOWN_WITHIN, found).await.ok().flatten()
    }

    /// Reads from where the archive ends to the present end; returns the number of new lines.
    async fn read(
        &self,
        archive: &Archive,
        source: &Source,
        facts: &Facts,
        run: &Run,
    ) -> Result<usize, Failed> {
        let position = logs::position(archive, source).await?;
        let pod = (facts.namespace.as_str(), facts.name.as_str(), run.container.as_str());
        let mut raw = Raw::open(&self.client, pod, position.last).await?;
        let sampled = printed::is_sampled(&facts.part, run.place).then(|| facts.part.clone());
        let mut batch = Batch::new(position, sampled);
        let mut flush = Instant::now() + FLUSH_EVERY;
        loop {
            let next = if batch.lines.is_empty() {
                raw.next().await.map(Some)
            } else {
                match tokio::time::timeout_at(flush, raw.next()).await {
                    Ok(next) => next.map(Some),
                    Err(_) => Ok(None),
                }
            };
            match next {
                Ok(Some(Some((at, text)))) => {
                    if batch.lines.is_empty() {
                        flush = Instant::now() + FLUSH_EVERY;
                    }
                    batch.take_in(at.unwrap_or_else(Timestamp::now), text);
                    if !batch.is_full() {
                        continue;
                    }
                    batch.store(archive, source, &self.kept).await?;
                }
                Ok(None) => batch.store(archive, source, &self.kept).await?,
                Ok(Some(None)) => {
                    batch.store(archive, source, &self.kept).await?;
                    return Ok(batch.stored);
                }
                Err(error) => {
                    batch.store(archive, source, &self.kept).await?;
                    return Err(error.into());
                }
            }
        }
    }
}

/// Why reading stopped early.
enum Failed {
    /// The cluster refused, or the connection broke.
    Refused(JobError),
    /// The archive cannot be written.
    Store(Error),
}

impl From<JobError> for Failed {
    fn from(error: JobError) -> Self {
        Self::Refused(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// Lines that wait to be stored.
struct Batch {
    next_line: i64,
    /// The end of what is archived: lines up to it are sent again and dropped.
    replayed: Option<(Timestamp, usize)>,
    lines: Vec<Line>,
    bytes: usize,
    stored: usize,
    /// The part of the job, if numbers of the training are looked for.
    sampled: Option<String>,
}

impl Batch {
    fn new(position: Position, sampled: Option<String>) -> Self {
        let replayed = position.last.map(|last| (last, position.at_last));
        Self { next_line: position.next_line, replayed, lines: Vec::new(), bytes: 0, stored: 0, sampled }
    }

    fn take_in(&mut self, at: Timestamp, text: String) {
        // The archive's times are whole microseconds.
        let at = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
        if let Some((last, count)) = &mut self.replayed {
            if at < *last {
                return;
            }
            if at == *last && *count > 0 {
                *count -= 1;
                return;
            }
            self.replayed = None;
        }
        self.bytes += text.len();
        self.lines.push(Line { at, text });
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= FLUSH_LINES || self.bytes >= FLUSH_BYTES
    }

    async fn store(&mut self, archive: &Archive, source: &Source, kept: &Kept) -> Result<(), Error> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let sampled = self.sampled.as_deref();
        let samples = sampled.map(|part| printed::samples(part, &self.lines)).unwrap_or_default();
        let stored = logs::append_sampled(archive, source, self.next_line, &self.lines, &samples).await;
        kept.note(&stored);
        // Another replica may be ahead, and then numbers the next lines as this one does.
        stored?;
        self.next_line += i64::try_from(self.lines.len()).unwrap_or(i64::MAX);
        self.stored += self.lines.len();
        self.lines.clear();
        self.bytes = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_run_survives_as_text_and_later_runs_are_greater() {
        let run = RunName {
            part: "worker-3".to_owned(),
            created: 1_767_225_600,
            pod: "bert-worker-3".to_owned(),
            place: 0,
            container: "main".to_owned(),
            restarts: 2,
        };
        assert_eq!(run.to_string().parse::<RunName>().unwrap(), run);
        assert!(RunName { created: run.created + 1, restarts: 0, ..run.clone() } > run);
        assert!("launcher/x".parse::<RunName>().is_err());
    }

    #[test]
    fn lines_that_are_archived_are_dropped_when_they_come_again() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let mut batch = Batch::new(Position { next_line: 3, last: Some(at(2)), at_last: 2 }, None);
        for (second, text) in [(1, "a"), (2, "b"), (2, "c"), (2, "d"), (1, "the clock went back")] {
            batch.take_in(at(second), text.to_owned());
        }
        let texts: Vec<&str> = batch.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["d", "the clock went back"]);
    }
}
