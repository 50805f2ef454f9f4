//! Reads the output of a job's pods.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use jobs::logs::sieve::{self, MAX_CONTEXT, Wanted};
use jobs::logs::{self, Choice, Item, Logs, Which};

use crate::contract::{LogItem, LogOrigin, ReadLogsRequest};
use crate::filter::kind;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::{count, time};
use crate::service::Service;

/// The most states of pods to ask for.
const MOST_STATES: usize = 20;

/// Reads a job's output.
pub async fn read_logs(
    _service: Arc<Service>,
    caller: Arc<Caller>,
    request: ReadLogsRequest,
) -> Result<BoxStream<'static, Result<LogItem, Problem>>, Problem> {
    let kind = kind(&request.kind)?;
    let choice = choice(&request)?;
    let lines = logs::logs(&caller.client, kind, &request.namespace, &request.name, choice).await?;
    let items = stream::unfold(lines, |mut lines| async move {
        let item = lines.next().await?;
        let item = item.map(|item| log_item(&lines, item)).map_err(Problem::from);
        Some((item, lines))
    });
    Ok(items.boxed())
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
        wanted: Wanted {
            grep: pattern("grep", &request.grep)?,
            exclude: pattern("exclude", &request.exclude)?,
            level,
            context,
        },
    })
}

fn pattern(field: &str, text: &str) -> Result<Option<regex::Regex>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let built = sieve::pattern(text, false);
    built.map(Some).map_err(|fault| Problem::invalid(field, fault, "send a regular expression"))
}

fn log_item(lines: &Logs, item: Item) -> LogItem {
    let of = |kind: &str, pod: &str, text: String| LogItem {
        r#type: kind.to_owned(),
        pod: pod.to_owned(),
        text,
        ..LogItem::default()
    };
    match item {
        Item::Line { pod, at, rank, level, text, also } => LogItem {
            at: time(at),
            rank: rank.map(count),
            level: level.map(|level| level.to_string()).unwrap_or_default(),
            also: also
                .iter()
                .map(|origin| LogOrigin { pod: origin.pod.to_string(), rank: origin.rank.map(count) })
                .collect(),
            evidence: lines.is_evidence(&text),
            ..of("line", &pod, text)
        },
        Item::Waiting { pod, reason } => of("waiting", &pod, reason),
        Item::Note(text) => of("note", "", text),
    }
}
