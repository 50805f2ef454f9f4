//! Reads the output of a job's pods.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use jobs::logs::sieve::{MAX_CONTEXT, Wanted};
use jobs::logs::{self, Choice, Item, Logs, Which};
use regex::RegexBuilder;

use crate::contract::{LogItem, ReadLogsRequest};
use crate::filter::kind;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::{count, time};
use crate::service::Service;

/// The longest pattern, and the most memory that a compiled one may take.
const LONGEST_PATTERN: usize = 1_000;
const PATTERN_SIZE: usize = 1 << 20;

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
    Ok(Choice {
        which,
        ranks: Some(ranks).filter(|ranks| !ranks.is_empty()),
        container: Some(request.container.clone()).filter(|container| !container.is_empty()),
        follow: request.follow,
        since: since.map(Duration::from_secs),
        tail: request.tail.map(i64::from),
        previous: request.previous,
        wanted: Wanted {
            grep: pattern("grep", &request.grep)?,
            exclude: pattern("exclude", &request.exclude)?,
            context,
        },
    })
}

fn pattern(field: &str, text: &str) -> Result<Option<regex::Regex>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    if text.len() > LONGEST_PATTERN {
        let fault = format!("is longer than {LONGEST_PATTERN} bytes");
        return Err(Problem::invalid(field, fault, "search for less"));
    }
    let built = RegexBuilder::new(text).size_limit(PATTERN_SIZE).build();
    built
        .map(Some)
        .map_err(|error| Problem::invalid(field, error.to_string(), "see docs.rs/regex for the syntax"))
}

fn log_item(lines: &Logs, item: Item) -> LogItem {
    let of = |kind: &str, pod: &str, text: String| LogItem {
        r#type: kind.to_owned(),
        pod: pod.to_owned(),
        text,
        ..LogItem::default()
    };
    match item {
        Item::Line { pod, at, rank, text } => LogItem {
            at: time(at),
            rank: rank.map(count),
            evidence: lines.is_evidence(&text),
            ..of("line", &pod, text)
        },
        Item::Waiting { pod, reason } => of("waiting", &pod, reason),
        Item::Note(text) => of("note", "", text),
    }
}
