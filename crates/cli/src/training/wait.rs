//! `wait`, and what `create --wait` and `local run` share with it: progress until the end, and the resulting exit
//! code.

use std::time::Duration;

use jobs::last_lines::MOST_LINES;
use jobs::logs::{Choice, Item, Logs};
use jobs::progress::{self, Outcome, Progress};
use jobs::wait::{Ended, still_running};
use jobs::{Class, Error, Kind, view};
use kube::Client;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::several;
use crate::arguments::{Global, Output, Wait};
use crate::connect::{Connection, connect};
use crate::console::{Console, error_line};
use crate::failure::Failure;
use crate::interrupt::{self, Interruption};
use crate::shown::Shown;
use crate::{advice, object};

/// How long to wait for the next line of outstanding output once the job has ended.
const DRAIN: Duration = Duration::from_secs(5);
/// A practically infinite time, for waiting without a timeout.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The job to follow, and how.
pub struct Follow<'a> {
    /// The cluster.
    pub client: &'a Client,
    /// The job's kind.
    pub kind: Kind,
    /// The job's namespace.
    pub namespace: &'a str,
    /// The job's name.
    pub name: &'a str,
    /// Whether to print the Launcher's output.
    pub logs: bool,
    /// The time limit.
    pub timeout: Option<Duration>,
    /// The hint after Ctrl-C.
    pub interrupted_hint: &'a str,
}

/// `odh training wait JOB…`
pub async fn run(console: &Console, global: &Global, wait: &Wait) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let mut named = several::many(console, &connection, &wait.several).await?;
    if named.len() > 1 {
        return all(console, &connection, wait, named).await;
    }
    let Some((kind, name)) = named.pop() else { return Ok(0) };
    let hint = format!(
        "the job keeps running; wait again with: odh training wait {} {name} -n {}",
        kind.word(),
        connection.namespace
    );
    let follow = quietly(&connection, wait, (kind, &name), &hint);
    let ended = follow_to_end(console, &follow, &mut Interruption::listen()).await?;
    if wait.output.shows_objects()
        && let Some(object) = &ended.object
    {
        console.data(&object::text(&object::value(object), wait.output)?)?;
    }
    ending(console, &follow, &ended, wait.propagate_exit_code).await
}

/// Waits for a job without its output.
fn quietly<'a>(
    connection: &'a Connection,
    wait: &Wait,
    (kind, name): (Kind, &'a str),
    interrupted_hint: &'a str,
) -> Follow<'a> {
    let (client, namespace) = (&connection.client, connection.namespace.as_str());
    Follow { client, kind, namespace, name, logs: false, timeout: wait.timeout, interrupted_hint }
}

/// Waits for several jobs at once, or for the first of them; the worst end determines the exit code.
async fn all(
    console: &Console,
    connection: &Connection,
    wait: &Wait,
    named: Vec<(Kind, String)>,
) -> Result<u8, Failure> {
    let mut interruption = Interruption::listen();
    let hint = "the jobs keep running";
    let mut waiting = JoinSet::new();
    for (kind, name) in named {
        let (client, namespace, timeout) =
            (connection.client.clone(), connection.namespace.clone(), wait.timeout);
        waiting.spawn(async move {
            let ended = jobs::wait::wait(&client, kind, &namespace, &name, timeout, |_| {}).await;
            (kind, name, ended)
        });
    }
    let mut each = several::Each::default();
    let mut objects = Vec::new();
    loop {
        let ended = tokio::select! {
            ended = waiting.join_next() => ended,
            () = interruption.came() => {
                return Err(interrupt::failure("interrupted while waiting for several jobs", hint));
            }
        };
        let Some(ended) = ended else { break };
        let (kind, name, ended) = ended.map_err(|error| {
            Failure::new(Class::Error, "Waiting", format!("waiting for a job ended: {error}"))
        })?;
        let follow = quietly(connection, wait, (kind, &name), hint);
        let code = match ended {
            Ok(ended) => {
                objects.extend(ended.object.as_ref().map(object::value));
                ending(console, &follow, &ended, wait.propagate_exit_code).await
            }
            Err(error) => Err(error.into()),
        };
        if let Err(failure) = code {
            each.failed(console, &failure);
        }
        if wait.any {
            break;
        }
    }
    if wait.output.shows_objects() && !objects.is_empty() {
        console.data(&object::text(&object::together(objects, true), wait.output)?)?;
    }
    Ok(each.ending(0))
}

/// Shows progress, and output if requested, until the job has ended.
pub async fn follow_to_end(
    console: &Console,
    follow: &Follow<'_>,
    interruption: &mut Interruption,
) -> Result<Ended, Failure> {
    let shown = Shown::begin(console, follow.name);
    let ended = until_end(console, follow, &shown, interruption).await;
    shown.end();
    ended
}

async fn until_end(
    console: &Console,
    follow: &Follow<'_>,
    shown: &Shown,
    interruption: &mut Interruption,
) -> Result<Ended, Failure> {
    let watch = progress::watch(follow.client, follow.kind, follow.namespace, follow.name);
    let mut watch = watch.ending_if_refused();
    let mut logs: Option<Logs> = None;
    let stop = interruption.came();
    let over = sleep_until(Instant::now() + follow.timeout.unwrap_or(FOR_EVER));
    tokio::pin!(stop, over);
    let outcome = loop {
        tokio::select! {
            news = watch.next() => match news? {
                Some(Progress::Ended(outcome)) => break outcome,
                Some(news) => {
                    shown.step(&news);
                    if follow.logs && logs.is_none() && matches!(news, Progress::LauncherRunning { .. }) {
                        logs = Some(open(follow).await?);
                    }
                }
                None => return Err(Error::BrokenStream { what: "the watch".to_owned(), detail: "the server closed it".to_owned() }.into()),
            },
            item = next(&mut logs), if logs.is_some() => match item {
                Some(item) => print(console, shown, item)?,
                None => logs = None,
            },
            () = &mut over => {
                let job = follow.kind.job(follow.namespace, follow.name);
                return Err(still_running(&job, watch.job(), follow.timeout.unwrap_or_default()).into());
            }
            () = &mut stop => {
                return Err(interrupt::failure(format!("interrupted while waiting for {}/{}", follow.kind.word(), follow.name), follow.interrupted_hint));
            }
        }
    };
    let all_shown = drain(async || next(&mut logs).await, |item| print(console, shown, item), stop).await?;
    if !all_shown {
        let (word, name, namespace) = (follow.kind.word(), follow.name, follow.namespace);
        let text = format!(
            "the end of the output may be missing here; for all of it: odh training logs {word} {name} -n {namespace}"
        );
        shown.aside(|| console.warn(&text));
    }
    shown.step(&Progress::Ended(outcome.clone()));
    Ok(Ended { object: watch.job().cloned(), outcome })
}

async fn open(follow: &Follow<'_>) -> Result<Logs, Failure> {
    let choice = Choice { follow: true, ..Choice::default() };
    Ok(jobs::logs::logs(follow.client, follow.kind, follow.namespace, follow.name, choice).await?)
}

async fn next(logs: &mut Option<Logs>) -> Option<Result<Item, Error>> {
    match logs {
        Some(logs) => logs.next().await,
        None => None,
    }
}

/// Prints an item. A log that cannot be read ends only the log, not the wait: how the job ends is more important.
fn print(console: &Console, shown: &Shown, item: Result<Item, Error>) -> Result<(), Failure> {
    match item {
        Ok(Item::Line { text, .. }) => {
            // With output for programs, stdout is reserved for the object.
            shown.aside(|| match console.output {
                Output::Json | Output::Yaml => {
                    console.event(&serde_json::json!({ "log": text }));
                    Ok(())
                }
                Output::Template(_) => {
                    error_line(&text);
                    Ok(())
                }
                Output::Table | Output::Wide | Output::Name => console.data(&(text + "\n")),
            })
        }
        Ok(Item::Waiting { .. }) => Ok(()),
        Ok(Item::Note(note) | Item::Missing { text: note, .. }) => {
            shown.aside(|| console.note(&note));
            Ok(())
        }
        Err(error) => {
            shown.aside(|| console.warn(&format!("the output cannot be shown: {error}")));
            Ok(())
        }
    }
}

/// Shows the outstanding output of a job that has ended; returns whether that was all. Only the time in which no line arrives counts:
/// long output, or a slow reader of it, loses nothing. `stop` leaves out the rest.
async fn drain(
    mut next: impl AsyncFnMut() -> Option<Result<Item, Error>>,
    mut print: impl FnMut(Result<Item, Error>) -> Result<(), Failure>,
    mut stop: impl Future<Output = ()> + Unpin,
) -> Result<bool, Failure> {
    let mut ends = Instant::now() + DRAIN;
    loop {
        let item = tokio::select! {
            biased;
            () = &mut stop => return Ok(false),
            item = next() => item,
            () = sleep_until(ends) => return Ok(false),
        };
        let Some(item) = item else { return Ok(true) };
        let is_line = matches!(item, Ok(Item::Line { .. }));
        print(item)?;
        if is_line {
            ends = Instant::now() + DRAIN;
        }
    }
}

/// Converts the end of a job into this command's result: a line and 0, or a failure with its code.
pub async fn ending(
    console: &Console,
    follow: &Follow<'_>,
    ended: &Ended,
    propagate: bool,
) -> Result<u8, Failure> {
    let (kind, name) = (follow.kind, follow.name);
    let mut failure = match &ended.outcome {
        Outcome::Succeeded => {
            if matches!(console.output, Output::Table | Output::Wide | Output::Name) {
                console.data(&format!("{}\n", told(kind, name, ended)))?;
            }
            if let Some(row) = ended.object.as_ref().map(view::row).filter(|row| row.cause.is_some()) {
                console.warn(&format!("{}: {}", row.state, row.message.unwrap_or_default()));
            }
            return Ok(0);
        }
        Outcome::Deleted => Error::Deleted { kind, name: name.to_owned() }.into(),
        Outcome::Failed(failure) => failed(follow, ended, failure).await,
    };
    if propagate {
        let pods = jobs::wait::launcher_exit_code(follow.client, follow.kind, follow.namespace, name)
            .await
            .ok()
            .flatten();
        // The pod may have been cleaned up; the job's own record stays.
        let code = pods.or(match &ended.outcome {
            Outcome::Failed(failure) if failure.worker.is_none() => failure.exit_code,
            _ => None,
        });
        failure.passed_on = code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0);
    }
    Err(failure)
}

fn ran_for(ended: &Ended) -> String {
    let runtime = ended.object.as_ref().and_then(|object| view::row(object).runtime(jiff::Timestamp::now()));
    runtime.map_or_else(String::new, |runtime| format!(" after {}", view::duration(runtime)))
}

/// How a job ended, in one line.
pub fn told(kind: Kind, name: &str, ended: &Ended) -> String {
    let (job, ran) = (format!("{}/{name}", kind.word()), ran_for(ended));
    match &ended.outcome {
        Outcome::Succeeded => format!("{job} succeeded{ran}"),
        Outcome::Deleted => Error::Deleted { kind, name: name.to_owned() }.to_string(),
        Outcome::Failed(_) if ended.class() == Some(Class::Cancelled) => format!("{job} was cancelled{ran}"),
        Outcome::Failed(failure) => {
            let said = if failure.message.is_empty() { &failure.reason } else { &failure.message };
            let place = plan::place(failure).map_or_else(String::new, |place| format!(" ({place})"));
            format!("{job} failed{ran}: {said}{place}")
        }
    }
}

/// The failure of a job: its message, and the last lines of what failed unless they were shown anyway.
async fn failed(follow: &Follow<'_>, ended: &Ended, failure: &api::Failure) -> Failure {
    let (kind, name) = (follow.kind, follow.name);
    let word = kind.word();
    let class = ended.class().unwrap_or(Class::JobFailed);
    let mut shown = Failure::new(class, &failure.reason, told(kind, name, ended));
    shown.hints.extend(failure.suggestion.as_deref().map(advice::with_flags));
    if let Some(object) = ended.object.as_ref().filter(|_| !follow.logs) {
        let pods =
            jobs::describe::pods(follow.client, kind, follow.namespace, name).await.unwrap_or_default();
        let lines = jobs::last_lines::last_lines(follow.client, object, &pods, MOST_LINES).await;
        shown.excerpt = (!lines.is_empty()).then(|| lines.join("\n").into());
    }
    shown.with_hint(format!("for details: odh training describe {word} {name} -n {}", follow.namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: String) -> Item {
        Item::Line {
            pod: "pi-launcher".into(),
            at: None,
            rank: None,
            level: None,
            text,
            also: Vec::new(),
            cursor: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn outstanding_output_is_shown_to_its_end_however_long_that_takes() {
        let mut lines = (0..10).map(|number| line(number.to_string()));
        let slow = async || {
            tokio::time::sleep(DRAIN - Duration::from_secs(1)).await;
            lines.next().map(Ok)
        };
        let mut shown = 0;
        let count = |_| {
            shown += 1;
            Ok(())
        };
        assert!(drain(slow, count, std::future::pending()).await.unwrap());
        assert_eq!(shown, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn output_that_comes_no_more_or_is_interrupted_is_known_to_be_left_out() {
        let notes = async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some(Ok::<_, Error>(Item::Note("still waiting".to_owned())))
        };
        let begun = Instant::now();
        assert!(!drain(notes, |_| Ok(()), std::future::pending()).await.unwrap());
        assert!(begun.elapsed() < 2 * DRAIN, "only lines are progress");
        let endless = async || Some(Ok(line("more".to_owned())));
        assert!(!drain(endless, |_| Ok(()), std::future::ready(())).await.unwrap());
    }
}
