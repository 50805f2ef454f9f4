//! Reads one pod's output, either up to its current end, or following it through broken connections.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use diagnosis::Tags;
use futures::{AsyncBufRead, AsyncBufReadExt, FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, LogParams};
use tokio::sync::mpsc;

use super::chatter;
use super::effort::Effort;
use super::held::{Held, MAX_HELD_BYTES};
use super::kept::Kept;
use super::level::Levels;
use super::line::take_line;
use super::ranks::{Ranks, TagsSeen, no_line_of};
use super::resume::{Novelty, Resume, Run, split, whole_second};
use super::sieve::{Found, Sieve, Wanted};
use super::{BATCH_BYTES, BATCH_LINES, BUFFERED_BATCHES, Batch, Choice, Item, Source, Target, bytes_of};
use crate::part::speaking_container;
use crate::{Action, Advice, Attempt, Error, JobRef, describe};

/// The maximum number of consecutive broken connections, and the pauses between attempts.
const MAX_BREAKS: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Words of an API server about a container, or a previous run of one, that a pod does not have.
const NOT_THERE: [&str; 2] = [" is not valid for pod ", "previous terminated container "];
/// How the line begins by which a node of the embedded cluster reports that it has removed lines.
const NODE_REMOVED: &str = "odh-node: ";

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
    /// Which pod of the job it is, unless a record is read.
    target: Option<Target>,
    /// The container that runs MPI is read unless another one was requested, or an init container keeps it from starting.
    container: Option<String>,
    never_restarted: bool,
    cut: Cut,
    lane: Lane,
}

/// What the lines of one pod pass through, wherever they come from: what was read before, the ranks' tags, the levels, the
/// filter.
pub(super) struct Cut {
    pod: Arc<str>,
    /// Which lines are wanted.
    choice: Choice,
    /// The evidence for the cause of the job's failure, which is never hidden.
    evidence: Arc<BTreeSet<String>>,
    resume: Resume,
    tags: Tags,
    levels: Levels,
    sieve: Sieve<Result<Item, Error>>,
    /// What its search has cost.
    effort: Effort,
    /// When the last line was written.
    last: Option<jiff::Timestamp>,
    /// Whether the pod is a Worker, whose output has much of the launch agent.
    is_worker: bool,
    /// Whether it is the Launcher's output, of which only the lines of chosen ranks are read.
    is_of_ranks: bool,
    /// The ranks that a line was tagged with, and whether there were other lines, if ranks were chosen of a Launcher.
    tagged: Option<(BTreeSet<u32>, bool)>,
    /// The ranks that the job has.
    ranks: Option<Ranks>,
    /// Whether its command asks for tags of ranks.
    asks_for_tags: bool,
    /// Where to say why there are no lines, if the ranks are those of Workers that were chosen, to which the Launcher lends their
    /// lines: the Workers may have written lines of their own.
    lent: Option<Arc<OnceLock<String>>>,
    /// Whether it was noted that the Launcher waits for the Workers.
    noted_wait: bool,
    /// The last lines of the chosen ranks, until all that there is was read.
    held: Option<Held>,
}

impl Cut {
    /// What the lines of a part of the job pass through.
    pub(super) fn new(pod: Arc<str>, part: &str, resume: Resume, choice: Choice) -> Cut {
        let is_of_ranks = choice.ranks.is_some() && part == Target::Launcher.part();
        let held = choice.tail.filter(|_| is_of_ranks && choice.cursors.is_empty()).map(Held::new);
        Cut {
            pod,
            resume,
            tags: Tags::new(choice.split || choice.ranks.is_some()),
            levels: Levels::default(),
            sieve: Sieve::new(choice.wanted.clone()),
            effort: Effort::default(),
            last: None,
            is_worker: part.starts_with("worker-"),
            is_of_ranks,
            tagged: is_of_ranks.then(Default::default),
            ranks: None,
            asks_for_tags: false,
            evidence: Arc::default(),
            lent: None,
            noted_wait: false,
            held,
            choice,
        }
    }

    /// With what is known of the job: its ranks, whether their lines are to be tagged, and the evidence for the cause of its failure.
    pub(super) fn of_job(
        self,
        ranks: Option<Ranks>,
        asks_for_tags: bool,
        evidence: Arc<BTreeSet<String>>,
    ) -> Cut {
        Cut { ranks, asks_for_tags, evidence, ..self }
    }

    /// As the Launcher's, which lends lines to Workers.
    pub(super) fn lent(self, word: Arc<OnceLock<String>>) -> Cut {
        Cut { lent: Some(word), ..self }
    }

    /// Adds a line to the batch if it is new; returns whether it is. The batch still has to be [filtered](Cut::pass_on).
    fn take_in(&mut self, at: Option<jiff::Timestamp>, text: &str, batch: &mut Batch) -> bool {
        let removed = text.strip_prefix(NODE_REMOVED);
        match at.map(|at| self.resume.novelty(at)) {
            Some(Novelty::Known) => return false,
            Some(Novelty::AfterGap) if removed.is_none() => {
                let text = "lines are missing here: they were removed before they could be read".to_owned();
                batch.push(Ok(Item::Missing { pod: self.pod.clone(), text }));
            }
            _ => {}
        }
        if let Some(text) = removed {
            batch.push(Ok(Item::Missing { pod: self.pod.clone(), text: text.to_owned() }));
        } else if !self.hides(text) {
            self.pass(at, text, batch);
        } else if !self.is_worker && !self.noted_wait && chatter::is_wait(text) {
            self.noted_wait = true;
            batch.push(Ok(Item::Note("the Launcher waits until its Workers answer".to_owned())));
        }
        true
    }

    fn hides(&self, text: &str) -> bool {
        !self.choice.agents
            && chatter::is_chatter(text, self.is_worker)
            && !self.evidence.contains(&diagnosis::as_evidence(text))
    }

    /// Takes the ranks' tags off.
    fn pass(&mut self, at: Option<jiff::Timestamp>, line: &str, batch: &mut Batch) {
        self.last = at;
        let mut tags = std::mem::take(&mut self.tags);
        tags.take_off(line, |rank, text| self.add(rank, text.into_owned(), batch));
        self.tags = tags;
    }

    fn add(&mut self, rank: Option<u32>, text: String, batch: &mut Batch) {
        let Cut { pod, choice, resume, levels, tagged, last, held, .. } = self;
        if let Some((found, others)) = tagged {
            *others |= rank.is_none();
            found.extend(rank);
        }
        if choice.ranks.as_ref().is_some_and(|wanted| !rank.is_some_and(|rank| wanted.contains(&rank))) {
            return;
        }
        let level = levels.next(rank, &text);
        let (pod, at, also, cursor) = (pod.clone(), *last, Vec::new(), resume.cursor());
        let item = Ok(Item::Line { pod, at, rank, level, text, also, cursor });
        match held {
            Some(held) => held.push(item),
            None => batch.push(item),
        }
    }

    /// Sends the lines of a batch that are wanted, with the lines around them, and empties it.
    async fn pass_on(&mut self, batch: &mut Batch, lane: &Lane) -> Result<(), Stop> {
        let mut rest = std::mem::take(batch);
        while !rest.is_empty() {
            let (found, mut searched) = self.search(rest).await.map_err(Stop::TooSlow)?;
            rest = searched.split_off(found.len());
            let (mut wanted, mut bytes) = (Batch::new(), 0);
            for (item, found) in searched.into_iter().zip(found) {
                self.sieve.push(found, bytes_of(&item), item, |item| {
                    bytes += bytes_of(&item);
                    wanted.push(item);
                });
                if wanted.len() >= BATCH_LINES || bytes >= BATCH_BYTES {
                    bytes = 0;
                    send(std::mem::take(&mut wanted), lane).await?;
                }
            }
            if !wanted.is_empty() {
                send(wanted, lane).await?;
            }
        }
        Ok(())
    }

    /// Searches the first items of a batch, at least one; returns what was found in them, and the whole batch.
    async fn search(&mut self, batch: Batch) -> Result<(Vec<Found>, Batch), Error> {
        let wanted = self.sieve.wanted();
        if !wanted.reads_text() {
            let found = batch.iter().map(|item| find(wanted, item)).collect();
            return Ok((found, batch));
        }
        let wanted = wanted.clone();
        self.effort.turn(move |until| (find_until(&wanted, &batch, until), batch)).await
    }

    /// Adds the lines that were held; what comes later is passed on at once.
    fn release(&mut self, batch: &mut Batch) {
        let Some(held) = self.held.take() else { return };
        if held.is_cut {
            let text =
                format!("lines are left out here: the last ones have more than {} MiB", MAX_HELD_BYTES >> 20);
            batch.push(Ok(Item::Missing { pod: self.pod.clone(), text }));
        }
        batch.extend(held.lines);
    }

    /// Adds what ranks have not ended, and a note about chosen ranks without a line.
    fn finish(&mut self, batch: &mut Batch) {
        let mut tags = std::mem::take(&mut self.tags);
        tags.finish(|rank, text| self.add(rank, text, batch));
        self.release(batch);
        self.note_missing(batch);
    }

    /// Adds a note about chosen ranks of which there was no line. Without any line, there is nothing to say yet.
    fn note_missing(&mut self, batch: &mut Batch) {
        let Some((found, others)) = self.tagged.take() else { return };
        let wanted = self.choice.ranks.iter().flatten();
        let missing: Vec<u32> = wanted.copied().filter(|rank| !found.contains(rank)).collect();
        // Ranks of a Worker that were not chosen one by one may have printed nothing, and a part of a log may lack theirs.
        let is_part = self.choice.since.is_some() || !self.choice.cursors.is_empty();
        let is_news = if self.lent.is_some() || is_part { found.is_empty() } else { !missing.is_empty() };
        if !is_news || (!others && found.is_empty()) {
            return;
        }
        let tags = match () {
            () if !found.is_empty() => TagsSeen::Some,
            () if self.asks_for_tags => TagsSeen::AskedFor,
            () => TagsSeen::None,
        };
        let note = no_line_of(&missing, self.ranks, tags);
        match &self.lent {
            // Only the Launcher's current pod and former ones have one, and all say the same.
            Some(word) => {
                let _ = word.set(note);
            }
            None => batch.push(Ok(Item::Note(note))),
        }
    }
}

/// Why reading stops.
enum Stop {
    /// The consumer is gone.
    ReaderGone,
    /// The pod was removed before anything of it was read.
    Gone(Error),
    /// An error that cannot be retried.
    Failed(Error),
    /// The search is too slow.
    TooSlow(Error),
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
    /// A reader of a pod; `None` if all of its output was read before the place at which reading goes on.
    pub(super) fn new(source: Arc<Source>, pod: &Pod, lane: Lane) -> Option<Reader> {
        let spec = pod.spec.as_ref();
        let target = Target::of(&describe::pod_view(pod));
        let part = target.map(Target::part).unwrap_or_default();
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let run = Run::new(part.clone(), created, pod.metadata.uid.as_deref().unwrap_or_default());
        let resume = Resume::new(run, source.choice.cursors.get(&part))?;
        Some(Reader {
            name: pod.name_any().into(),
            target,
            container: source.choice.container.clone().or_else(|| speaking_container(pod)),
            never_restarted: spec.and_then(|spec| spec.restart_policy.as_deref()) == Some("Never"),
            cut: source.cut(pod.name_any().into(), &part, resume),
            source,
            lane,
        })
    }

    /// A reader of what a record keeps, under the record's name.
    pub(super) fn of_record(source: Arc<Source>, name: &str, lane: Lane) -> Reader {
        Reader {
            name: name.into(),
            target: None,
            container: None,
            never_restarted: true,
            cut: source.cut(name.into(), &Target::Launcher.part(), Resume::default()),
            source,
            lane,
        }
    }

    /// Passes on the lines of a text.
    pub(super) async fn written(mut self, text: String) {
        let lines: Vec<&str> = text.lines().collect();
        let tail = self.source.choice.tail.filter(|_| self.cut.held.is_none());
        let tail = tail.and_then(|tail| usize::try_from(tail).ok()).unwrap_or(lines.len());
        for lines in lines[lines.len().saturating_sub(tail)..].chunks(BATCH_LINES) {
            let mut batch = Vec::new();
            for line in lines {
                self.take_in(line.as_bytes(), &mut batch);
            }
            if let Err(stop) = self.cut.pass_on(&mut batch, &self.lane).await {
                return stopped(stop, &self.lane).await;
            }
        }
        self.finish().await;
    }

    /// Reads up to the current end.
    pub(super) async fn once(mut self) {
        let from = self.cut.resume.again();
        match self.connection(from, false).await {
            Ok(_) => self.finish().await,
            Err(Stop::Gone(error)) => self.removed(Some(error)).await,
            Err(stop) => stopped(stop, &self.lane).await,
        }
    }

    /// Reads until no more output can come.
    pub(super) async fn follow(mut self) {
        if self.cut.held.is_some() {
            let from = self.cut.resume.again();
            // What goes wrong here goes wrong again below, where it is dealt with.
            if let Err(Stop::ReaderGone) = self.connection(from, false).await {
                return;
            }
            let mut batch = Vec::new();
            self.cut.release(&mut batch);
            if let Err(stop) = self.cut.pass_on(&mut batch, &self.lane).await {
                return stopped(stop, &self.lane).await;
            }
        }
        match self.through_breaks().await {
            Ok(()) => self.finish().await,
            // A pod that was removed while it was followed has nothing more to say.
            Err(Stop::Gone(_)) => self.removed(None).await,
            Err(stop) => stopped(stop, &self.lane).await,
        }
    }

    /// Passes on what is to be said at the end.
    async fn finish(mut self) {
        let mut batch = Vec::new();
        self.cut.finish(&mut batch);
        if let Err(stop) = self.cut.pass_on(&mut batch, &self.lane).await {
            stopped(stop, &self.lane).await;
        }
    }

    /// Passes on what is kept of the pod, which was removed; otherwise the error, if there is one.
    async fn removed(self, error: Option<Error>) {
        match (self.source.kept(self.target).await.pop(), error) {
            (Some(kept), _) => {
                let cut = self.source.cut_of(&kept);
                replay(kept, cut, self.lane).await;
            }
            // A Launcher that is gone has no lines to lend, which is no fault of the Worker's log.
            (None, Some(_)) if self.cut.lent.is_some() => {}
            (None, Some(error)) => stopped(Stop::Failed(error), &self.lane).await,
            (None, None) => {}
        }
    }

    async fn through_breaks(&mut self) -> Result<(), Stop> {
        let (mut breaks, mut any) = (0, false);
        let mut pause = FIRST_PAUSE;
        loop {
            let from = self.cut.resume.again();
            let broken = match self.connection(from, true).await {
                Err(stop @ (Stop::ReaderGone | Stop::TooSlow(_))) => return Err(stop),
                Err(Stop::Gone(error) | Stop::Failed(error)) => Some(error),
                Ok(lines) => {
                    any = true;
                    if lines > 0 {
                        (breaks, pause) = (0, FIRST_PAUSE);
                    }
                    None
                }
            };
            // A broken connection may have left unread output, even if its pod has ended since.
            let cut = matches!(broken, Some(Error::BrokenStream { .. } | Error::Unreachable { .. }));
            match self.left().await {
                Left::Gone => match broken {
                    Some(error) if !any => return Err(Stop::Gone(error)),
                    _ => return Ok(()),
                },
                Left::Ended if !cut => return Ok(()),
                Left::Ended | Left::More => {}
            }
            breaks += 1;
            // One break is common, and soon mended.
            if cut && breaks > 1 && !self.source.is_cut_off.swap(true, Ordering::Relaxed) {
                self.note("the connection to the cluster is lost; trying again".to_owned()).await?;
            }
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

    async fn note(&self, note: String) -> Result<(), Stop> {
        send(vec![Ok(Item::Note(note))], &self.lane).await
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
        let is_first = choice.cursors.is_empty() && from.is_none();
        LogParams {
            container: self.container.clone(),
            follow,
            previous: choice.previous,
            timestamps: true,
            since_time: from.or_else(|| choice.since_when_resumed()).map(whole_second),
            since_seconds: since.filter(|_| is_first),
            tail_lines: choice.tail.filter(|_| is_first && !self.cut.is_of_ranks),
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
        let stream = opened.map_err(|error| refusal(error, attempt, source.job_ref()))?;
        if source.is_cut_off.swap(false, Ordering::Relaxed) {
            self.note("the connection to the cluster is back".to_owned()).await?;
        }
        futures::pin_mut!(stream);
        let mut line = Vec::new();
        let (mut lines, mut bytes) = (0, 0);
        let mut batch = Vec::new();
        loop {
            // Lines are passed on before waiting for more.
            let ready = stream.fill_buf().now_or_never().is_some();
            if !batch.is_empty() && (!ready || batch.len() >= BATCH_LINES || bytes >= BATCH_BYTES) {
                self.cut.pass_on(&mut batch, &self.lane).await?;
                bytes = 0;
            }
            let more = read_line(&mut stream, &mut line).await;
            if !more.map_err(|error| self.broken(&error))? {
                break;
            }
            lines += usize::from(self.take_in(&line, &mut batch));
            bytes += line.len();
        }
        self.cut.pass_on(&mut batch, &self.lane).await?;
        Ok(lines)
    }

    /// Adds a line to the batch if it is new; returns whether it is.
    fn take_in(&mut self, line: &[u8], batch: &mut Batch) -> bool {
        let text = String::from_utf8_lossy(line);
        let (at, text) = split(&text);
        self.cut.take_in(at, text, batch)
    }

    fn broken(&self, error: &std::io::Error) -> Stop {
        let what = format!("the log of {}", self.name);
        Stop::Failed(Error::BrokenStream { what, detail: error.to_string() })
    }
}

/// Passes kept lines through the filters of a choice.
pub(super) async fn replay(kept: Kept, mut cut: Cut, lane: Lane) {
    if let Err(stop) = replayed(kept, &mut cut, &lane).await {
        stopped(stop, &lane).await;
    }
}

async fn replayed(kept: Kept, cut: &mut Cut, lane: &Lane) -> Result<(), Stop> {
    let Kept { part: _, pod: _, mut lines } = kept;
    let _ = cut.resume.again();
    let (mut batch, mut bytes) = (Batch::new(), 0);
    while let Some(line) = lines.next().await {
        match line {
            Ok((at, text)) => {
                bytes += text.len();
                cut.take_in(Some(at), &text, &mut batch);
            }
            Err(error) => batch.push(Err(error)),
        }
        if batch.len() >= BATCH_LINES || bytes >= BATCH_BYTES {
            cut.pass_on(&mut batch, lane).await?;
            bytes = 0;
        }
    }
    cut.finish(&mut batch);
    cut.pass_on(&mut batch, lane).await
}

async fn send(batch: Batch, lane: &Lane) -> Result<(), Stop> {
    lane.send(batch).await.map_err(|_| Stop::ReaderGone)
}

/// Passes on why reading stopped.
async fn stopped(stop: Stop, lane: &Lane) {
    if let Stop::Gone(error) | Stop::Failed(error) | Stop::TooSlow(error) = stop {
        // If the consumer is gone, nobody wants to know.
        let _ = lane.send(vec![Err(error)]).await;
    }
}

fn find(wanted: &Wanted, item: &Result<Item, Error>) -> Found {
    match item {
        Ok(Item::Line { text, level, .. }) => wanted.find(text, *level),
        _ => Found::Unsearched,
    }
}

/// Searches the first items of a batch: at least one, and no other one after a time.
fn find_until(wanted: &Wanted, batch: &[Result<Item, Error>], until: Instant) -> Vec<Found> {
    let mut found = Vec::new();
    for item in batch {
        found.push(find(wanted, item));
        if Instant::now() >= until {
            break;
        }
    }
    found
}

fn refusal(error: kube::Error, attempt: Attempt<'_>, job: JobRef) -> Stop {
    // What is named does not exist, though the API server calls the request bad.
    if let kube::Error::Api(status) = &error
        && status.code == 400
        && NOT_THERE.iter().any(|words| status.message.contains(words))
    {
        let advice = Advice::from("see the pods and their containers").with(Action::Describe(job));
        return Stop::Failed(Error::NoPod { what: status.message.clone(), advice });
    }
    match Error::from_kube(error, attempt) {
        Error::NotFound { name, .. } => Stop::Gone(Error::NoPod {
            what: format!("pod {name} no longer exists"),
            advice: Advice::from("see the remaining pods").with(Action::Describe(job)),
        }),
        other => Stop::Failed(other),
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
        let (taken, whole) = take_line(buffer, line);
        stream.consume_unpin(taken);
        if whole {
            return Ok(true);
        }
    }
}
