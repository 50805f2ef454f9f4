//! `logs`: lines to stdout, with the pod before each where there are several.

use std::collections::BTreeMap;
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use jobs::logs::{Choice, Item, Which};

use crate::arguments::{Global, Logs, Output};
use crate::connect::connect;
use crate::console::{Console, FAINT, styled};
use crate::failure::Failure;

/// The colours of pods, in turn.
const COLORS: [AnsiColor; 6] = [
    AnsiColor::Cyan,
    AnsiColor::Green,
    AnsiColor::Yellow,
    AnsiColor::Magenta,
    AnsiColor::Blue,
    AnsiColor::BrightRed,
];

/// `odh training logs mpijob NAME`
pub async fn run(console: &Console, global: &Global, logs: &Logs) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let which = match (&logs.worker, logs.all) {
        (Some(indices), _) => Which::Workers(indices.0.clone()),
        (None, true) => Which::All,
        (None, false) => Which::Launcher,
    };
    let several = match &which {
        Which::Launcher => false,
        Which::Workers(indices) => indices.len() > 1,
        Which::All => true,
    };
    let choice = Choice {
        which,
        container: logs.container.clone(),
        follow: logs.follow,
        since: logs.since,
        tail: logs.tail.map(i64::from),
        previous: logs.previous,
    };
    let job = &logs.target.name;
    let mut lines =
        jobs::logs::logs(&connection.client, logs.target.kind.into(), &connection.namespace, job, choice)
            .await?;
    let mut prefixes = Prefixes { job: job.clone(), several, known: BTreeMap::new() };
    while let Some(item) = lines.next().await {
        match item.map_err(|error| named(error, job))? {
            Item::Line { pod, at, text } => {
                console.data(&line(
                    &mut prefixes,
                    logs,
                    &pod,
                    at.map(|at| at.to_string()).as_deref(),
                    &text,
                ))?;
            }
            Item::Waiting { pod, reason } => {
                console.note(&format!("{pod} has not started: it waits for {reason}"))
            }
            Item::Note(note) => console.note(&note),
        }
    }
    Ok(0)
}

/// Hints speak of `NAME`; here it is known.
fn named(error: jobs::Error, job: &str) -> Failure {
    let mut failure = Failure::from(error);
    failure.hint = failure.hint.map(|hint| hint.replace("NAME", job));
    failure
}

struct Prefixes {
    job: String,
    several: bool,
    known: BTreeMap<Arc<str>, String>,
}

impl Prefixes {
    fn of(&mut self, pod: &Arc<str>) -> &str {
        let next = self.known.len();
        self.known.entry(pod.clone()).or_insert_with(|| {
            let short = pod.strip_prefix(&format!("{}-", self.job)).unwrap_or(pod);
            let short = if short.starts_with("launcher") { "launcher" } else { short };
            let color: Style = COLORS[next % COLORS.len()].on_default();
            styled(color, &format!("{short:<10} | "))
        })
    }
}

fn line(prefixes: &mut Prefixes, logs: &Logs, pod: &Arc<str>, at: Option<&str>, text: &str) -> String {
    if logs.output == Output::Json {
        return format!("{}\n", serde_json::json!({ "pod": &**pod, "time": at, "line": text }));
    }
    let prefix = if prefixes.several { prefixes.of(pod) } else { "" };
    match at.filter(|_| logs.timestamps) {
        Some(at) => format!("{prefix}{} {text}\n", styled(FAINT, at)),
        None => format!("{prefix}{text}\n"),
    }
}
