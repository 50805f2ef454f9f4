//! Reads the output of a job's pods: of those that are there from the cluster, of those that are gone from the archive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use history::logs::{self as archive, Archive, Selection, Source};
use history::namespaces::Tenant;
use jiff::Timestamp;
use jobs::logs::kept::{self, Kept};
use jobs::logs::sieve::{MAX_CONTEXT, Wanted};
use jobs::logs::{self, Choice, Cursor, Item, Logs, Which};
use jobs::{Error, Kind};

use super::tenant;
use crate::collector::RunName;
use crate::contract::{LogItem, LogOrigin, ReadLogsRequest};
use crate::filter::kind;
use crate::identity::Caller;
use crate::patterns;
use crate::problem::Problem;
use crate::row::{count, time};
use crate::service::Service;

/// The most states of pods to ask for.
const MOST_STATES: usize = 20;
/// The most places to go on at: one of each pod, and of those before them.
const MOST_CURSORS: usize = 2 * logs::MAX_PODS;
/// What is read, in the words of errors.
const ARCHIVED: &str = "the archived output";

/// A run of a container whose lines are archived.
type Run = (RunName, Source);

/// Reads a job's output.
pub async fn read_logs(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: ReadLogsRequest,
) -> Result<BoxStream<'static, Result<LogItem, Problem>>, Problem> {
    let kind = kind(&request.kind)?;
    let mut choice = choice(&request)?;
    let sent = [("grep", &request.grep), ("exclude", &request.exclude)];
    let sent = sent.into_iter().filter(|(_, text)| !text.is_empty());
    let compiled = patterns::compile(sent.map(|(field, text)| (field, text.clone())).collect()).await?;
    let (patterns, memory) = compiled.into_parts();
    let mut patterns = patterns.into_iter();
    if !request.grep.is_empty() {
        choice.wanted.grep = patterns.next();
    }
    choice.wanted.exclude = patterns.next();
    let of_job = Arc::new(OfJob { service, caller: caller.clone(), kind, request, choice });
    let (choice, request) = (&of_job.choice, &of_job.request);
    let job = (kind, request.namespace.as_str(), request.name.as_str());
    let lines = match logs::logs_with(&caller.client, job, choice.clone(), Some(of_job.clone())).await {
        Err(error @ (Error::NotFound { .. } | Error::NoPod { .. })) => {
            if matches!(error, Error::NotFound { .. }) {
                // The job may have been deleted a moment ago.
                of_job.service.collector.settled(&request.namespace, &request.name, None).await;
            }
            let kept = of_job.all().await.ok().filter(|kept| !kept.is_empty());
            logs::kept_logs(choice, kept.ok_or(error)?)
        }
        read => read?,
    };
    let items = stream::unfold((lines, memory), |(mut lines, memory)| async move {
        let item = lines.next().await?;
        let item = item.map(|item| log_item(&lines, item)).map_err(Problem::from);
        Some((item, (lines, memory)))
    });
    Ok(items.boxed())
}

/// What is archived of a job, as one request reads it.
struct OfJob {
    service: Arc<Service>,
    caller: Arc<Caller>,
    kind: Kind,
    request: ReadLogsRequest,
    choice: Choice,
}

impl OfJob {
    /// Returns everything that the request asks for.
    async fn all(&self) -> Result<Vec<Kept>, Problem> {
        let Some((archive, runs)) = self.runs().await? else { return Ok(Vec::new()) };
        let parts = kept::parts(self.kind, &self.choice.which, &runs.keys().cloned().collect())?;
        Ok(self.lines(&archive, runs, &parts))
    }

    /// Returns the archive, and the run to read of each part of the job: the last of one container.
    async fn runs(&self) -> Result<Option<(Archive, BTreeMap<String, Run>)>, Problem> {
        let Self { service, caller, kind, request, choice } = self;
        let opened = service.kept.opened()?;
        // The archive does not know the states of pods.
        if !choice.states.is_empty() {
            return Ok(None);
        }
        let key = (*kind, request.namespace.clone(), request.name.clone());
        let uid = match service.board.get(&key) {
            Some(job) => Some(job.row.uid.clone()),
            None => {
                let tenant = tenant::of(service, caller, "get", &[*kind]).await?;
                last_of_name(&opened.store, *kind, request, tenant).await?
            }
        };
        let Some(uid) = uid else { return Ok(None) };
        let runs = runs(archive::sources(&opened.archive, &uid, None).await?, choice)?;
        Ok(Some((opened.archive.clone(), runs)))
    }

    /// Returns the lines of these parts. They are read once somebody reads them.
    fn lines(&self, archive: &Archive, runs: BTreeMap<String, Run>, parts: &BTreeSet<String>) -> Vec<Kept> {
        let now = Timestamp::now();
        let of = |(part, (run, source)): (String, Run)| {
            let (since, tail) = self.choice.kept_place(&part, now);
            let selection = Selection {
                uid: source.uid,
                attempt: Some(source.attempt),
                containers: vec![source.container],
                since,
                until: None,
            };
            let lines = lines_of(archive.clone(), selection, tail);
            Kept { part, pod: run.pod, lines: stream::once(lines).try_flatten().boxed() }
        };
        runs.into_iter().filter(|(part, _)| parts.contains(part)).map(of).collect()
    }
}

impl kept::Archive for OfJob {
    fn of<'a>(&'a self, parts: &'a BTreeSet<String>) -> BoxFuture<'a, Result<Vec<Kept>, Error>> {
        async move {
            // Their pods may have been removed a moment ago.
            self.service.collector.settled(&self.request.namespace, &self.request.name, Some(parts)).await;
            let runs = self.runs().await.map_err(|problem| Error::BrokenStream {
                what: ARCHIVED.to_owned(),
                detail: problem.to_string(),
            })?;
            Ok(runs.map(|(archive, runs)| self.lines(&archive, runs, parts)).unwrap_or_default())
        }
        .boxed()
    }
}

/// Returns the uid of the newest job of a name that the history has.
async fn last_of_name(
    store: &history::Store,
    kind: Kind,
    request: &ReadLogsRequest,
    tenant: Tenant,
) -> Result<Option<String>, Problem> {
    let filter = history::jobs::Filter {
        namespace: Some(request.namespace.clone()),
        kind: Some(kind.name().to_owned()),
        name: Some(request.name.clone()),
        tenant,
        ..history::jobs::Filter::default()
    };
    Ok(history::jobs::jobs(store, &filter, None, 1).await?.pop().map(|job| job.uid))
}

/// Returns the run to read of each part: the last one, or with `previous` the one before. The container is the first, or
/// the one that was asked for.
fn runs(sources: Vec<Source>, choice: &Choice) -> Result<BTreeMap<String, Run>, Problem> {
    let mut all: BTreeMap<String, Vec<(u32, RunName, Source)>> = BTreeMap::new();
    for source in sources {
        let run: RunName = source.container.parse()?;
        let is_wanted = match &choice.container {
            Some(container) => run.container == *container,
            None => run.place == 0,
        };
        if is_wanted {
            all.entry(run.part.clone()).or_default().push((source.attempt, run, source));
        }
    }
    let last = all.into_iter().filter_map(|(part, mut runs)| {
        runs.sort();
        let back = usize::from(choice.previous) + 1;
        let place = runs.len().checked_sub(back)?;
        let (_, run, source) = runs.swap_remove(place);
        Some((part, (run, source)))
    });
    Ok(last.collect())
}

type Lines = BoxStream<'static, Result<(Timestamp, String), Error>>;

/// Opens the lines of one run.
async fn lines_of(archive: Archive, selection: Selection, tail: Option<i64>) -> Result<Lines, Error> {
    // The error itself may name places and addresses of the service.
    let broken = |error: history::Error| Error::BrokenStream {
        what: ARCHIVED.to_owned(),
        detail: Problem::from(error).message,
    };
    if let Some(tail) = tail {
        let most = usize::try_from(tail).unwrap_or(0);
        let lines = archive::tail(&archive, &selection, most).await.map_err(broken)?;
        return Ok(stream::iter(lines).map(|(_, line)| (line.at, line.text)).map(Ok).boxed());
    }
    let reader = archive::read(&archive, &selection).await.map_err(broken)?;
    let lines = stream::unfold(Some(reader), move |reader| async move {
        let mut reader = reader?;
        match reader.next().await {
            Ok(Some((_, line))) => Some((Ok((line.at, line.text)), Some(reader))),
            Ok(None) => None,
            Err(error) => Some((Err(broken(error)), None)),
        }
    });
    Ok(lines.boxed())
}

fn choice(request: &ReadLogsRequest) -> Result<Choice, Problem> {
    let which = match (request.all, request.worker.is_empty()) {
        (true, true) => Which::All,
        (false, true) => Which::Launcher,
        (false, false) => Which::Workers(request.worker.clone()),
        (true, false) => {
            return Err(Problem::invalid("worker", "is given together with all", "give one of them"));
        }
    };
    let ranks: Result<Vec<u32>, _> = request.rank.iter().map(|rank| u32::try_from(*rank)).collect();
    let ranks = ranks.map_err(|_| Problem::invalid("rank", "is negative", "ranks begin at 0"))?;
    let since = request.since_seconds.map(u64::try_from).transpose();
    let since = since.map_err(|_| Problem::invalid("sinceSeconds", "is negative", "use 0 or more"))?;
    let context = usize::try_from(request.context).ok().filter(|context| *context <= MAX_CONTEXT);
    let context = context.ok_or_else(|| {
        Problem::invalid("context", format!("is not between 0 and {MAX_CONTEXT}"), "ask for fewer lines")
    })?;
    if request.tail.is_some_and(|tail| tail < 0) {
        return Err(Problem::invalid("tail", "is negative", "use 0 or more"));
    }
    let level = Some(request.level.as_str()).filter(|level| !level.is_empty()).map(str::parse).transpose();
    let level = level.map_err(|fault: String| Problem::invalid("level", fault, ""))?;
    if request.state.len() > MOST_STATES {
        return Err(Problem::invalid(
            "state",
            "has too many states",
            format!("ask for {MOST_STATES} at most"),
        ));
    }
    Ok(Choice {
        agents: request.agents,
        cursors: cursors(&request.cursor)?,
        which,
        states: request.state.clone(),
        split: request.split,
        fold: request.fold,
        ranks: Some(ranks).filter(|ranks| !ranks.is_empty()),
        container: Some(request.container.clone()).filter(|container| !container.is_empty()),
        follow: request.follow,
        since: since.map(Duration::from_secs),
        tail: request.tail.map(i64::from),
        previous: request.previous,
        wanted: Wanted { level, context, ..Wanted::default() },
        ..Choice::default()
    })
}

/// Reads the places at which to go on: of each part of the job, the last one.
fn cursors(sent: &[String]) -> Result<BTreeMap<String, Cursor>, Problem> {
    // A browser's header has several of them in one text.
    let all: Vec<&str> = sent.iter().flat_map(|text| text.split(',')).map(str::trim).collect();
    if all.len() > MOST_CURSORS {
        let fault = format!("has {} values", all.len());
        return Err(Problem::invalid("cursor", fault, "send the last one of each pod"));
    }
    let mut cursors = BTreeMap::new();
    for text in all.into_iter().filter(|text| !text.is_empty()) {
        let cursor: Cursor =
            text.parse().map_err(|fault| Problem::invalid("cursor", fault, "send it as it came"))?;
        let before = cursors.remove(cursor.part());
        cursors.insert(cursor.part().to_owned(), before.map_or(cursor.clone(), |before| cursor.max(before)));
    }
    Ok(cursors)
}

/// A place in the output of a pod, as text.
fn place(cursor: Option<Cursor>) -> String {
    cursor.map(|cursor| cursor.to_string()).unwrap_or_default()
}

fn log_item(lines: &Logs, item: Item) -> LogItem {
    let of = |kind: &str, pod: &str, text: String| LogItem {
        r#type: kind.to_owned(),
        pod: pod.to_owned(),
        text,
        ..LogItem::default()
    };
    match item {
        Item::Line { pod, at, rank, level, text, also, cursor } => LogItem {
            at: time(at),
            cursor: place(cursor),
            rank: rank.map(count),
            level: level.map(|level| level.to_string()).unwrap_or_default(),
            also: also
                .iter()
                .map(|origin| LogOrigin {
                    pod: origin.pod.to_string(),
                    rank: origin.rank.map(count),
                    cursor: place(origin.cursor.clone()),
                })
                .collect(),
            evidence: lines.is_evidence(&text),
            ..of("line", &pod, text)
        },
        Item::Missing { pod, text } => of("missing", &pod, text),
        Item::Waiting { pod, reason } => of("waiting", &pod, reason),
        Item::Note(text) => of("note", "", text),
    }
}
