//! The output of a job's pods, line by line: the Launcher's, some Workers', some ranks', or all merged. A PyTorchJob or TFJob has
//! no Launcher: its Master or Chief takes that place, or else Worker 0.
//!
//! Lines carry the time at which the node wrote them, which makes merging and resuming possible. Following survives a
//! broken connection without losing or repeating a line ([`resume`]). It waits for a pod that has not started,
//! reporting what it waits for, and continues with the next Launcher after a retry. Each pod's reader has a bounded
//! buffer, so a slow consumer slows down the server and does not fill this process's memory.
//!
//! ```text
//! pod ─▶ read ─▶ split ─▶ level ─▶ sieve ─┐
//! pod ─▶ read ─▶ split ─▶ level ─▶ sieve ─┼─▶ merge ─▶ fold ─▶ Logs::next
//! pod ─▶ read ─▶ split ─▶ level ─▶ sieve ─┘
//! ```

pub mod chatter;
pub mod effort;
mod fold;
mod follow;
mod held;
pub mod kept;
pub mod level;
mod line;
mod merge;
mod once;
pub mod pattern;
mod ranks;
mod read;
mod resume;
pub mod sieve;
mod target;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::DynamicObject;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::{Error, JobRef, Kind, list, view};

use fold::Fold;
pub use fold::{WINDOW, ranges};
use kept::{Archive, Kept};
pub use level::Level;
use ranks::Ranks;
pub use resume::Cursor;
use resume::{Resume, Run};
use target::{Target, chosen};

/// The maximum number of pods read at once, each over its own connection.
pub const MAX_PODS: usize = 256;
/// The maximum number of connections being opened at once: a server that gets hundreds at once answers more slowly.
const OPENINGS: usize = 16;
/// The maximum number of lines in a batch.
const BATCH_LINES: usize = 256;
/// The size at which a batch of fewer lines ends, in bytes.
const BATCH_BYTES: usize = 256 << 10;
/// The number of batches buffered per pod for a slow consumer.
const BUFFERED_BATCHES: usize = 4;

/// Whose output to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// The Launcher's, which includes all that `mpirun` forwards. Of a job without one, that of the pod which leads it.
    #[default]
    Launcher,
    /// The Workers' with these indices.
    Workers(Vec<i32>),
    /// All pods'.
    All,
}

/// Which lines to read.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Whose output to read.
    pub which: Which,
    /// Only pods in one of these states, in any case: a phase, or the status that `kubectl get pods` shows. All if
    /// empty. The states are those at the beginning.
    pub states: Vec<String>,
    /// Only lines of these ranks, if the MPI launcher tags lines with their rank.
    pub ranks: Option<Vec<u32>>,
    /// Whether to take off also `[3] `, which a program may have written itself. Other tags of ranks are
    /// always taken off, and this one if the Launcher's command asks for it or ranks are chosen.
    pub split: bool,
    /// Whether to fold lines that several ranks or pods write alike at about the same time.
    pub fold: bool,
    /// The container; the first if not given.
    pub container: Option<String>,
    /// Whether to keep reading as lines are written.
    pub follow: bool,
    /// Only lines that are at most this old.
    pub since: Option<Duration>,
    /// Only this many lines from the end of each pod's log, counted before any filter but that for ranks: of the Launcher's
    /// lines, only those of chosen ranks count.
    pub tail: Option<i64>,
    /// Whether to read the container's previous run.
    pub previous: bool,
    /// An earlier attempt of the job: the end of its Launcher's output is in its record. The current attempt if not given.
    pub attempt: Option<u32>,
    /// Whether to include the lines that launch agents and MPI's starters write themselves ([`chatter`]).
    pub agents: bool,
    /// Where to go on, for each part of the job ([`Cursor::part`]) of which lines were read by an earlier request. Of the others,
    /// nothing was read: `tail` counts no more.
    pub cursors: BTreeMap<String, Cursor>,
    /// The filter for these lines.
    pub wanted: sieve::Wanted,
}

impl Choice {
    /// The time from which to read parts that have no cursor, if others have one: lines are as old as was asked for at first, or
    /// a little older.
    fn since_when_resumed(&self) -> Option<Timestamp> {
        let newest = self.cursors.values().map(Cursor::at).max()?;
        newest.checked_sub(jiff::SignedDuration::try_from(self.since?).ok()?).ok()
    }

    /// Whether only the lines of some ranks are read of this part, so that its last lines are known only after the lines are
    /// filtered by rank.
    fn counts_by_rank(&self, part: &str) -> bool {
        let is_chosen = self.ranks.is_some() || matches!(self.which, Which::Workers(_));
        is_chosen && part == Target::Launcher.part()
    }

    /// From which time on to read a part whose lines were kept, and how many lines from the end.
    pub fn kept_place(&self, part: &str, now: Timestamp) -> (Option<Timestamp>, Option<i64>) {
        let since = || now.checked_sub(jiff::SignedDuration::try_from(self.since?).ok()?).ok();
        match self.cursors.get(part) {
            Some(cursor) => (Some(cursor.at()), None),
            None if self.cursors.is_empty() => (since(), self.tail.filter(|_| !self.counts_by_rank(part))),
            None => (self.since_when_resumed(), None),
        }
    }
}

/// An item for the consumer.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A line without its line end.
    Line {
        /// The pod.
        pod: Arc<str>,
        /// When it was written, if the node reports it.
        at: Option<Timestamp>,
        /// The rank that wrote it, if the MPI launcher tagged it.
        rank: Option<u32>,
        /// Its level, if it is marked with one.
        level: Option<Level>,
        /// The text; invalid UTF-8 is replaced.
        text: String,
        /// Where else the same line was written, if lines are folded.
        also: Vec<Origin>,
        /// Where to go on after it in the output of its pod; `None` if lines before it are still held back.
        cursor: Option<Cursor>,
    },
    /// Lines are missing here: they were removed, or left out for a bound.
    Missing {
        /// The pod.
        pod: Arc<str>,
        /// What is missing, and why.
        text: String,
    },
    /// There is nothing to read yet.
    Waiting {
        /// The pod, or what is waited for.
        pod: Arc<str>,
        /// What it waits for.
        reason: String,
    },
    /// A note about the reading itself.
    Note(String),
}

/// The source of a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The pod.
    pub pod: Arc<str>,
    /// The rank, if the MPI launcher tagged the line.
    pub rank: Option<u32>,
    /// Where to go on after it in the output of its pod; `None` if lines before it are still held back.
    pub cursor: Option<Cursor>,
}

type Batch = Vec<Result<Item, Error>>;

/// The size of an item's text, in bytes.
fn bytes_of(item: &Result<Item, Error>) -> usize {
    match item {
        Ok(Item::Line { text, .. } | Item::Missing { text, .. } | Item::Note(text)) => text.len(),
        Ok(Item::Waiting { reason, .. }) => reason.len(),
        Err(_) => 0,
    }
}

type Sender = mpsc::Sender<Batch>;

/// A stream of lines. Dropping it closes every connection.
pub struct Logs {
    batches: mpsc::Receiver<Batch>,
    items: VecDeque<Result<Item, Error>>,
    evidence: Arc<BTreeSet<String>>,
    /// The lines that others may still join, if lines are folded.
    fold: Option<Fold>,
    /// Whether there was a line, and why not.
    any: bool,
    last_word: Arc<OnceLock<String>>,
    _readers: JoinSet<()>,
}

impl Logs {
    /// Returns the next line or note; `None` after the last. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Item, Error>> {
        while self.items.is_empty() {
            let batch = match &self.fold {
                Some(fold) if !fold.is_empty() => {
                    // What is held back is shown after a moment, even if nothing more is written.
                    tokio::time::timeout(WINDOW, self.batches.recv()).await.ok().flatten()
                }
                _ => match self.batches.recv().await {
                    Some(batch) => Some(batch),
                    None => return self.last_word(),
                },
            };
            self.take_in(batch);
        }
        let item = self.items.pop_front();
        self.any |= matches!(item, Some(Ok(Item::Line { .. })));
        item
    }

    /// What is said at the end, if there was no line.
    fn last_word(&mut self) -> Option<Result<Item, Error>> {
        let word = self.last_word.get().filter(|_| !self.any)?.clone();
        self.any = true;
        Some(Ok(Item::Note(word)))
    }

    /// Takes in a batch, or if there is none, everything that is held back.
    fn take_in(&mut self, batch: Option<Batch>) {
        let Some(fold) = &mut self.fold else {
            self.items.extend(batch.into_iter().flatten());
            return;
        };
        match batch {
            Some(batch) => {
                batch.into_iter().for_each(|item| fold.push(item, |item| self.items.push_back(item)))
            }
            None => fold.flush(|item| self.items.push_back(item)),
        }
    }

    /// Whether this line is evidence for the cause of the job's failure (`status.failure.evidence`).
    pub fn is_evidence(&self, line: &str) -> bool {
        !self.evidence.is_empty() && self.evidence.contains(&diagnosis::as_evidence(line))
    }

    /// Whether [`Logs::next`] would have to wait: a good moment to flush the output.
    pub fn is_dry(&mut self) -> bool {
        while self.items.is_empty() {
            match self.batches.try_recv() {
                Ok(batch) => self.take_in(Some(batch)),
                Err(_) => return true,
            }
        }
        false
    }
}

/// What all readers share.
struct Source {
    client: Client,
    kind: Kind,
    namespace: String,
    job: String,
    choice: Choice,
    openings: Semaphore,
    /// Where the lines of pods that are gone are kept, if anywhere.
    archive: Option<Arc<dyn Archive>>,
    /// The job's ranks, as far as they are known.
    ranks: Option<Ranks>,
    /// Whether the job's command asks for tags of ranks.
    asks_for_tags: bool,
    /// The evidence for the cause of its failure.
    evidence: Arc<BTreeSet<String>>,
    /// Why there was no line, to be said if there was none.
    last_word: Arc<OnceLock<String>>,
    /// Whether the connection to the cluster was lost when it was last used. Several readers find that; one of them reports it.
    is_cut_off: AtomicBool,
    /// The ranks whose lines in the Launcher's output belong to the Workers that are read.
    lent: Option<Vec<u32>>,
}

impl Source {
    fn job_ref(&self) -> JobRef {
        self.kind.job(&self.namespace, &self.job)
    }

    /// The Launcher, if its lines are read for Workers and it is not read as one of them anyway.
    fn lender(&self, targets: &[Target]) -> Option<Target> {
        (self.lent.is_some() && !targets.contains(&Target::Launcher)).then_some(Target::Launcher)
    }

    /// What the lines of a part pass through. Of the Launcher's, when Workers are read, only those of their ranks.
    fn cut(&self, pod: Arc<str>, part: &str, resume: Resume) -> read::Cut {
        let mut choice = self.choice.clone();
        let lent = self.lent.clone().filter(|_| part == Target::Launcher.part());
        let is_lent = lent.is_some();
        choice.ranks = lent.or(choice.ranks);
        let cut = read::Cut::new(pod, part, resume, choice).of_job(
            self.ranks,
            self.asks_for_tags,
            self.evidence.clone(),
        );
        if is_lent { cut.lent(self.last_word.clone()) } else { cut }
    }

    /// What the kept lines of a part pass through.
    fn cut_of(&self, kept: &Kept) -> read::Cut {
        self.cut(kept.pod.as_str().into(), &kept.part, resumed(&kept.part, &self.choice))
    }

    /// Returns what is kept of these targets. The archive says nothing of attempts; an earlier one has a record.
    async fn kept(&self, targets: impl IntoIterator<Item = Target>) -> Vec<Kept> {
        let parts: BTreeSet<String> = targets.into_iter().map(Target::part).collect();
        match &self.archive {
            Some(archive) if self.choice.attempt.is_none() && !parts.is_empty() => {
                // Without the archive, what is there can be read all the same.
                archive.of(&parts).await.unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }
}

/// Starts reading.
///
/// # Errors
/// If the job does not exist, there is no pod to read from or wait for, or the server refuses.
pub async fn logs(
    client: &Client,
    kind: Kind,
    namespace: &str,
    job: &str,
    choice: Choice,
) -> Result<Logs, Error> {
    logs_with(client, (kind, namespace, job), choice, None).await
}

/// The words of the command that starts the job's ranks.
fn command(object: &DynamicObject) -> Vec<&str> {
    let containers = "/spec/mpiReplicaSpecs/Launcher/template/spec/containers";
    let launcher = object.data.pointer(containers).and_then(Value::as_array).into_iter().flatten();
    let containers = launcher.chain(object.data.pointer("/spec/trainer"));
    let words = containers.flat_map(|container| {
        ["command", "args"].into_iter().filter_map(|field| container.get(field)?.as_array()).flatten()
    });
    words.filter_map(Value::as_str).collect()
}

/// Reads only lines that were kept, of a job that is gone.
#[must_use]
pub fn kept_logs(choice: &Choice, kept: Vec<Kept>) -> Logs {
    let fold = choice.fold.then(Fold::default);
    let mut readers = JoinSet::new();
    let (arrive, arrivals) = mpsc::channel(kept.len().max(1));
    let (sender, batches) = mpsc::channel(BUFFERED_BATCHES);
    for kept in kept {
        let (to, from) = read::lane();
        let _ = arrive.try_send(from);
        let resume = resumed(&kept.part, choice);
        let cut = read::Cut::new(kept.pod.as_str().into(), &kept.part, resume, choice.clone());
        readers.spawn(read::replay(kept, cut, to));
    }
    drop(arrive);
    readers.spawn(merge::merge(arrivals, sender, None));
    let (evidence, last_word) = Default::default();
    Logs { batches, items: VecDeque::new(), evidence, fold, any: false, last_word, _readers: readers }
}

/// The place in the kept output of a part at which to go on.
fn resumed(part: &str, choice: &Choice) -> Resume {
    let run = Run { part: part.to_owned(), ..Run::default() };
    Resume::new(run, choice.cursors.get(part)).unwrap_or_default()
}

/// The ranks whose lines are to be read in the Launcher's output, because their Workers' output was asked for.
fn lent(kind: Kind, choice: &Choice, ranks: Option<Ranks>) -> Option<Vec<u32>> {
    let Which::Workers(indices) = &choice.which else { return None };
    let is_whole = choice.ranks.is_none()
        && choice.container.is_none()
        && choice.states.is_empty()
        && choice.attempt.is_none()
        && !choice.previous;
    let ranks = ranks.filter(|_| is_whole && kind.has_launcher())?;
    Some(indices.iter().flat_map(|index| ranks.of_worker(*index)).collect())
}

/// As [`logs`], with an archive of the lines of pods that are gone: it is read in place of those pods, also of pods that
/// are removed while this begins to read them.
///
/// # Errors
/// As [`logs`].
pub async fn logs_with(
    client: &Client,
    (kind, namespace, job): (Kind, &str, &str),
    mut choice: Choice,
    archive: Option<Arc<dyn Archive>>,
) -> Result<Logs, Error> {
    let object = list::get(client, kind, namespace, job).await?;
    choice.split |= plan::prepends_rank(command(&object));
    let failure = view::status(&object).failure;
    let evidence = failure.into_iter().flat_map(|failure| failure.evidence);
    let evidence = Arc::new(evidence.filter(|line| !line.trim().is_empty()).collect::<BTreeSet<_>>());
    let targets = chosen(client, &object, &choice).await?;
    let ranks = Ranks::read(client, &object).await;
    let lent = lent(kind, &choice, ranks);
    let last_word = Arc::new(OnceLock::new());
    let source = Arc::new(Source {
        asks_for_tags: plan::tags_ranks(command(&object)),
        last_word: last_word.clone(),
        ranks,
        evidence: evidence.clone(),
        lent,
        client: client.clone(),
        kind,
        namespace: namespace.to_owned(),
        job: job.to_owned(),
        choice,
        openings: Semaphore::new(OPENINGS),
        is_cut_off: AtomicBool::new(false),
        archive,
    });
    let fold = source.choice.fold.then(Fold::default);
    let mut items = VecDeque::new();
    if source.choice.follow && !view::row(&object).ended {
        // One would wait for these until the job has ended.
        let never = source.choice.ranks.as_deref().and_then(|chosen| ranks::beyond(chosen, ranks));
        items.extend(never.map(|note| Ok(Item::Note(note))));
    }
    let mut readers = JoinSet::new();
    // The Launcher lends lines to Workers, and notes have a channel of their own.
    let (arrive, arrivals) = mpsc::channel(MAX_PODS + 2);
    let (sender, batches) = mpsc::channel(BUFFERED_BATCHES);
    let patience = source.choice.follow.then_some(merge::PATIENCE);
    if source.choice.follow {
        let lender = source.lender(&targets);
        readers.spawn(follow::follow(source, targets.into_iter().chain(lender).collect(), arrive));
    } else {
        once::once(&source, &object, targets, arrive, &mut readers).await?;
    }
    readers.spawn(merge::merge(arrivals, sender, patience));
    Ok(Logs { batches, items, evidence, fold, any: false, last_word, _readers: readers })
}
