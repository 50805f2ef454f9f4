//! `logs`: prints lines to stdout, prefixed with the pod if there are several.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use jobs::logs::pattern::Pattern;
use jobs::logs::sieve::Wanted;
use jobs::logs::{Choice, Item, Level, Origin, Which, ranges};
use jobs::progress::Outcome;
use jobs::wait::Ended;
use serde_json::{Value, json};

use super::{several, wait};
use crate::arguments::{Global, Logs, Output};
use crate::connect::{Connection, connect};
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
/// The style of matches of a pattern.
const FOUND: Style = AnsiColor::Red.on_default().bold();
/// The style of evidence for a failure's cause.
const EVIDENCE: Style = AnsiColor::Red.on_default().bold().underline();
/// The maximum size of the output buffer, in bytes.
const MAX_GATHERED_BYTES: usize = 64 * 1024;

/// `odh training logs mpijob NAME`
pub async fn run(console: &Console, global: &Global, logs: &Logs) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let which = which(logs);
    let of_several = match &which {
        Which::Launcher => false,
        Which::Workers(indices) => indices.len() > 1,
        Which::All => true,
    };
    let choice = choice(logs, which);
    let (kind, job) = several::one(&connection, &logs.target).await?;
    if logs.failed {
        return failed(console, &connection, kind, &job).await;
    }
    let mut lines = jobs::logs::logs(&connection.client, kind, &connection.namespace, &job, choice).await?;
    let mut text = Text::new(logs, &job, of_several);
    let (mut any, mut noted) = (false, false);
    let mut evidence = None;
    while let Some(item) = lines.next().await {
        match item {
            Ok(Item::Line { pod, at, rank, level, text: line, also, cursor: _ }) => {
                any = true;
                let is_evidence = lines.is_evidence(&line);
                if is_evidence && evidence.is_none() {
                    evidence = Some(line.clone());
                }
                let at = at.filter(|_| logs.timestamps || logs.output == Output::Json);
                let (at, first) = (at.map(|at| at.to_string()), Origin { pod, rank, cursor: None });
                let said =
                    Said { line: &line, at: at.as_deref(), level, first: &first, also: &also, is_evidence };
                text.push(&said);
            }
            other => {
                // Flush the earlier lines first.
                text.show(console)?;
                noted = true;
                match other? {
                    Item::Waiting { pod, reason } => {
                        console.note(&format!("{pod} has not started: it waits for {reason}"));
                    }
                    Item::Note(note) => console.note(&note),
                    Item::Missing { pod, text } => console.warn(&format!("{pod}: {text}")),
                    Item::Line { .. } => {}
                }
            }
        }
        if text.gathered.len() >= MAX_GATHERED_BYTES || lines.is_dry() {
            text.show(console)?;
        }
    }
    text.show(console)?;
    if logs.follow {
        note_the_end(console, &connection, kind, &job).await;
    }
    if let Some(line) = evidence.filter(|_| console.live && !logs.follow) {
        console.note(&format!(
            "this line shows the cause of the failure: {}\nwhat to do: odh training explain {} {job} -n {}",
            line.trim(),
            kind.word(),
            connection.namespace
        ));
    }
    let of_workers = logs.worker.is_some() && !logs.agent && kind.has_launcher();
    if !any && !noted && !of_workers && logs.rank.is_none() {
        let found = jobs::list::get(&connection.client, kind, &connection.namespace, &job).await;
        let has_ended = found.is_ok_and(|found| jobs::view::row(&found).has_ended());
        console.note(&nothing_written(logs, kind, has_ended));
    }
    if !any && !noted && of_workers {
        console.note(&format!(
            "these Workers wrote nothing themselves; the output of their ranks is in the Launcher's: odh training logs {job} -n {}",
            connection.namespace
        ));
    }
    Ok(0)
}

/// Says how a job ended whose output was followed, if it has.
async fn note_the_end(console: &Console, connection: &Connection, kind: jobs::Kind, job: &str) {
    let ended = match jobs::list::get(&connection.client, kind, &connection.namespace, job).await {
        Ok(object) => Ended::of(object),
        Err(jobs::Error::NotFound { .. }) => Some(Ended { object: None, outcome: Outcome::Deleted }),
        // The output is complete without it.
        Err(_) => None,
    };
    let Some(ended) = ended else { return };
    console.note(&wait::told(kind, job, &ended));
    if ended.class() == Some(jobs::Class::JobFailed) {
        console.note(&format!(
            "what to do: odh training explain {} {job} -n {}",
            kind.word(),
            connection.namespace
        ));
    }
}

/// Says that there is no line to show: whether nothing was written, or nothing that was asked for.
fn nothing_written(logs: &Logs, kind: jobs::Kind, has_ended: bool) -> String {
    let is_filtered = logs.grep.is_some()
        || logs.exclude.is_some()
        || logs.level.is_some()
        || logs.since.is_some()
        || logs.tail == Some(0);
    if is_filtered {
        return "no line matches".to_owned();
    }
    let who = match (kind.has_launcher(), logs.all, &logs.worker) {
        (true, false, None) => "the Launcher has",
        (true, true, _) => "the Launcher and the Workers have",
        (_, _, Some(_)) => "these Workers have",
        (false, ..) => "the job has",
    };
    format!("{who} written nothing{}", if has_ended { "" } else { " yet" })
}

/// The maximum number of lines shown of what failed.
const MOST_LAST_LINES: usize = 50;

/// Shows the last lines of what failed.
async fn failed(
    console: &Console,
    connection: &Connection,
    kind: jobs::Kind,
    name: &str,
) -> Result<u8, Failure> {
    let (client, namespace) = (&connection.client, &connection.namespace);
    let job = jobs::list::get(client, kind, namespace, name).await?;
    if jobs::view::row(&job).phase != api::Phase::Failed {
        console.note(&format!("{}/{name} has not failed", kind.word()));
        return Ok(0);
    }
    let pods = jobs::describe::pods(client, kind, namespace, name).await?;
    let lines = jobs::last_lines::last_lines(client, &job, &pods, MOST_LAST_LINES).await;
    console.raw(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    Ok(0)
}

fn which(logs: &Logs) -> Which {
    match (&logs.worker, logs.all) {
        (Some(indices), _) => Which::Workers(indices.0.clone()),
        (None, true) => Which::All,
        (None, false) => Which::Launcher,
    }
}

fn choice(logs: &Logs, which: Which) -> Choice {
    let ranks =
        logs.rank.as_ref().map(|ranks| ranks.0.iter().filter_map(|rank| u32::try_from(*rank).ok()).collect());
    Choice {
        which,
        states: logs.state.clone(),
        ranks,
        split: logs.fold,
        fold: logs.fold,
        container: logs.container.clone(),
        follow: logs.follow,
        since: logs.since,
        tail: logs.tail.map(i64::from),
        previous: logs.previous,
        attempt: logs.attempt,
        agents: logs.agent,
        wanted: Wanted {
            grep: logs.grep.clone(),
            exclude: logs.exclude.clone(),
            level: logs.level,
            context: logs.around.unwrap_or(0),
        },
        ..Choice::default()
    }
}

/// A line, where it was written, and whether it is evidence for the cause of the job's failure.
struct Said<'a> {
    line: &'a str,
    at: Option<&'a str>,
    level: Option<Level>,
    first: &'a Origin,
    also: &'a [Origin],
    is_evidence: bool,
}

impl Said<'_> {
    fn origins(&self) -> impl Iterator<Item = &Origin> {
        std::iter::once(self.first).chain(self.also)
    }

    /// The ranks that wrote the line.
    fn ranks(&self) -> Vec<u32> {
        self.origins().filter_map(|origin| origin.rank).collect()
    }

    fn object(&self) -> Value {
        let mut object = json!({ "pod": &*self.first.pod, "time": self.at, "line": self.line });
        if let Some(fields) = object.as_object_mut() {
            let mut put =
                |name: &str, value: Option<Value>| fields.extend(value.map(|value| (name.to_owned(), value)));
            put("rank", self.first.rank.map(Value::from));
            put("level", self.level.map(|level| level.to_string().into()));
            put("evidence", self.is_evidence.then(|| true.into()));
            if !self.also.is_empty() {
                let pods: BTreeSet<&str> = self.origins().map(|origin| &*origin.pod).collect();
                put("pods", (pods.len() > 1).then(|| json!(pods)));
                let ranks = self.ranks();
                put("ranks", (!ranks.is_empty()).then(|| json!(ranks)));
            }
        }
        object
    }
}

/// Formatted lines waiting to be written.
struct Text<'a> {
    asked: &'a Logs,
    job: &'a str,
    several: bool,
    prefixes: BTreeMap<Arc<str>, String>,
    gathered: String,
}

impl<'a> Text<'a> {
    fn new(asked: &'a Logs, job: &'a str, several: bool) -> Self {
        Text { asked, job, several, prefixes: BTreeMap::new(), gathered: String::new() }
    }

    fn push(&mut self, said: &Said<'_>) {
        let Text { asked, job, several, prefixes, gathered } = self;
        let Origin { pod, rank, cursor: _ } = said.first;
        if asked.output == Output::Json {
            gathered.push_str(&said.object().to_string());
            gathered.push('\n');
            return;
        }
        if asked.fold && (rank.is_some() || !said.also.is_empty()) {
            gathered.push_str(&styled(FAINT, &format!("{:<10} | ", sources(job, said))));
        } else if *several {
            let next = prefixes.len();
            gathered.push_str(prefixes.entry(pod.clone()).or_insert_with(|| prefix(job, pod, next)));
        }
        let of_several = asked.rank.as_ref().is_some_and(|ranks| ranks.0.len() > 1) && !asked.fold;
        if let Some(rank) = rank.filter(|_| of_several) {
            let color = COLORS[usize::try_from(rank).unwrap_or(0) % COLORS.len()].on_default();
            gathered.push_str(&styled(color, &format!("rank {rank:<4} | ")));
        }
        if let Some(at) = said.at.filter(|_| asked.timestamps) {
            gathered.push_str(&styled(FAINT, at));
            gathered.push(' ');
        }
        if said.is_evidence {
            gathered.push_str(&styled(EVIDENCE, said.line));
        } else {
            highlight(said.line, &[&asked.grep, &asked.highlight], gathered);
        }
        gathered.push('\n');
    }

    fn show(&mut self, console: &Console) -> Result<(), Failure> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let shown = console.raw(&self.gathered);
        self.gathered.clear();
        shown
    }
}

/// The ranks or pods that wrote a line: `ranks 0-7`, `rank 3`, `workers 0-3`, `launcher and 2 more`.
fn sources(job: &str, said: &Said<'_>) -> String {
    let several = |noun: &str, numbers: Vec<u32>| match numbers.len() {
        1 => format!("{noun} {}", ranges(numbers)),
        _ => format!("{noun}s {}", ranges(numbers)),
    };
    let ranks = said.ranks();
    if !ranks.is_empty() {
        return several("rank", ranks);
    }
    let number = |origin: &Origin| short(job, &origin.pod).strip_prefix("worker-")?.parse().ok();
    match said.origins().map(number).collect::<Option<Vec<u32>>>() {
        Some(workers) => several("worker", workers),
        None if said.also.is_empty() => short(job, &said.first.pod).to_owned(),
        None => format!("{} and {} more", short(job, &said.first.pod), said.also.len()),
    }
}

fn short<'p>(job: &str, pod: &'p str) -> &'p str {
    let short = pod.strip_prefix(job).and_then(|rest| rest.strip_prefix('-')).unwrap_or(pod);
    if short.starts_with("launcher") { "launcher" } else { short }
}

fn prefix(job: &str, pod: &str, number: usize) -> String {
    let short = short(job, pod);
    styled(COLORS[number % COLORS.len()].on_default(), &format!("{short:<10} | "))
}

/// Appends the line, with the patterns' matches in colour.
fn highlight(line: &str, patterns: &[&Option<Pattern>], into: &mut String) {
    let mut marks: Vec<(usize, usize)> = patterns
        .iter()
        .filter_map(|pattern| pattern.as_ref())
        .flat_map(|pattern| pattern.find_iter(line).map(|found| (found.start(), found.end())))
        .filter(|(start, end)| start < end)
        .collect();
    marks.sort_unstable();
    let mut done = 0;
    for (start, end) in marks {
        let start = start.max(done);
        if start < end {
            into.push_str(line.get(done..start).unwrap_or_default());
            into.push_str(&styled(FOUND, line.get(start..end).unwrap_or_default()));
            done = end;
        }
    }
    into.push_str(line.get(done..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::arguments::{self, Command, TrainingVerb};

    #[test]
    fn an_empty_log_says_who_has_written_nothing() {
        let said = |line: &str, has_ended: bool| {
            let line = format!("odh training logs pi {line}");
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            let parsed = arguments::parse(&words).unwrap();
            let Command::Training { verb: TrainingVerb::Logs(logs) } = parsed.command else {
                panic!("{line}")
            };
            nothing_written(&logs, jobs::Kind::MpiJob, has_ended)
        };
        assert_eq!(said("", false), "the Launcher has written nothing yet");
        assert_eq!(said("", true), "the Launcher has written nothing");
        assert_eq!(said("--all", false), "the Launcher and the Workers have written nothing yet");
        assert_eq!(said("--worker 0 --agent", false), "these Workers have written nothing yet");
        assert_eq!(said("--grep x", true), "no line matches");
    }

    #[test]
    fn overlapping_matches_are_marked_once() {
        let marked = |line: &str, one: &str, other: Option<&str>| {
            let mut text = String::new();
            let pattern = |text: &str| Pattern::new(text, false).ok();
            let (one, other) = (pattern(one), other.and_then(pattern));
            highlight(line, &[&one, &other], &mut text);
            text.replace(&FOUND.render().to_string(), "<").replace(&FOUND.render_reset().to_string(), ">")
        };
        assert_eq!(marked("loss=0.5 acc=1", "loss", None), "<loss>=0.5 acc=1");
        assert_eq!(marked("loss=0.5 acc=1", "loss=0", Some("=0.5|acc")), "<loss=0><.5> <acc>=1");
        assert_eq!(marked("nothing", "x*", None), "nothing");
    }

    #[test]
    fn a_prefix_is_short_and_keeps_its_width() {
        let shown = |job: &str, pod: &str| anstream::adapter::strip_str(&prefix(job, pod, 9)).to_string();
        assert_eq!(shown("pi", "pi-worker-12"), "worker-12  | ");
        assert_eq!(shown("pi", "pi-launcher-x7k2p"), "launcher   | ");
        assert_eq!(shown("pi", "pix-worker-0"), "pix-worker-0 | ");
    }

    #[test]
    fn the_sources_of_a_folded_line_are_summed_up() {
        let origin = |pod: &str, rank: Option<u32>| Origin { pod: Arc::from(pod), rank, cursor: None };
        let said = |first: &Origin, also: &[Origin]| {
            let said = Said { line: "x", at: None, level: None, first, also, is_evidence: false };
            sources("pi", &said)
        };
        let launcher = |rank| origin("pi-launcher-x", Some(rank));
        assert_eq!(said(&launcher(0), &[launcher(1), launcher(2), launcher(7)]), "ranks 0-2,7");
        assert_eq!(said(&launcher(3), &[]), "rank 3");
        let worker = |index: u32| origin(&format!("pi-worker-{index}"), None);
        assert_eq!(said(&worker(0), &[worker(1)]), "workers 0-1");
        assert_eq!(said(&origin("pi-launcher-x", None), &[worker(1)]), "launcher and 1 more");
    }
}
