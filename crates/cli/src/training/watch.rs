//! `--watch` of `get` and `list`: redraws in place on a terminal, prints a line for each change elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use jobs::list::Selection;
use jobs::live::{Change, Key, live};
use jobs::pick::Pick;
use jobs::progress::{self, Outcome};
use jobs::view::{self, Row};
use jobs::{Error, Kind};
use kube::api::DynamicObject;

use super::rows::{Columns, none, of_several_kinds, printed, rows_cells, state};
use crate::arguments::{Get, List, Output};
use crate::connect::Connection;
use crate::console::{Console, FAINT, styled};
use crate::failure::Failure;
use crate::table::{self, screen_columns};
use crate::{object, output};

/// The interval at which ages are redrawn, and the maximum delay before a change is drawn.
const TICK: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(100);
/// Lines kept free on the screen: for the heading, the note about omitted jobs, and the cursor.
const SPARE_LINES: usize = 3;

/// `list --watch`; runs until it is interrupted.
pub async fn many(
    console: &Console,
    connection: &Connection,
    list: &List,
    selection: &Selection,
    pick: &Pick,
) -> Result<u8, Failure> {
    let mut live = live(&connection.client, selection);
    if let Some(columns) = redrawn(list.output) {
        let mut screen = Screen::default();
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                change = live.next() => {
                    change?;
                    // Changes that arrive together are drawn together.
                    let more = async { loop { if let Err(error) = live.next().await { return error } } };
                    if let Ok(error) = tokio::time::timeout(PAUSE, more).await {
                        return Err(error.into());
                    }
                }
                _ = tick.tick() => {}
            }
            let now = Timestamp::now();
            let rows = pick.from(live.rows().values().collect(), |row: &&Row| (*row).clone(), now);
            let text = match rows.is_empty() {
                true => none(selection.namespace.as_deref(), !live.rows().is_empty()) + "\n",
                false => {
                    let wide = list.output == Output::Wide;
                    let columns_of = Columns {
                        wide,
                        with_namespace: list.all_namespaces,
                        kinds: of_several_kinds(rows.iter().copied()),
                    };
                    let (headings, cells) = rows_cells(rows, columns_of, now);
                    let shown = cells.len().min(lines_of_screen().saturating_sub(SPARE_LINES).max(1));
                    let mut text =
                        table::fitted(&headings, cells.get(..shown).unwrap_or_default(), Some(columns));
                    if shown < cells.len() {
                        text.push_str(&styled(FAINT, &format!("… and {} more\n", cells.len() - shown)));
                    }
                    text
                }
            };
            screen.draw(console, &text)?;
        }
    }
    let mut lines = Lines::new(list.output, list.all_namespaces);
    loop {
        match live.next().await? {
            Change::Job(job) if pick.wants(&view::row(&job)) => console.data(&lines.changed(&job)?)?,
            Change::Gone(key) => console.data(&lines.gone(&key))?,
            Change::Job(_) | Change::Listed => {}
        }
    }
}

/// `get NAME --watch`; ends when the job has ended.
pub async fn one(
    console: &Console,
    connection: &Connection,
    get: &Get,
    (kind, name): (Kind, String),
) -> Result<u8, Failure> {
    let mut watch = progress::watch(&connection.client, kind, &connection.namespace, &name);
    let mut lines = Lines::new(get.output, false);
    let mut screen = Screen::default();
    let mut tick = tokio::time::interval(TICK);
    let redrawn = redrawn(get.output).is_some();
    loop {
        let ended = tokio::select! {
            news = watch.next() => match news? {
                Some(progress::Progress::Ended(outcome)) => Some(outcome),
                Some(_) => None,
                None => return Err(Error::BrokenStream { what: "the watch".to_owned(), detail: "the server closed it".to_owned() }.into()),
            },
            _ = tick.tick() => None,
        };
        if let Some(job) = watch.job() {
            match redrawn {
                true => screen.draw(
                    console,
                    &printed(std::slice::from_ref(job), get.output, false, false, Timestamp::now())?,
                )?,
                false => console.data(&lines.changed(job)?)?,
            }
        }
        match ended {
            Some(Outcome::Deleted) => {
                return Err(Error::Deleted { kind, name }.into());
            }
            Some(_) => return Ok(0),
            None => {}
        }
    }
}

/// The width of the screen, if the output is redrawn on one.
fn redrawn(output: Output) -> Option<usize> {
    screen_columns().filter(|_| matches!(output, Output::Table | Output::Wide))
}

fn lines_of_screen() -> usize {
    terminal_size::terminal_size().map_or(24, |(_, height)| usize::from(height.0))
}

/// The last drawing, to be drawn over.
#[derive(Default)]
struct Screen {
    last: String,
}

impl Screen {
    fn draw(&mut self, console: &Console, text: &str) -> Result<(), Failure> {
        if self.last == text {
            return Ok(());
        }
        let lines = self.last.lines().count();
        // Up to the first drawn line, then clear everything below.
        let back = if lines == 0 { String::new() } else { format!("\u{1b}[{lines}A\u{1b}[J") };
        self.last = text.to_owned();
        console.drawing(&back, text)
    }
}

/// What was printed for each job, so that a line is printed only for a visible change.
struct Lines {
    output: Output,
    with_namespace: bool,
    widths: Vec<usize>,
    said: BTreeMap<Key, String>,
}

impl Lines {
    fn new(output: Output, with_namespace: bool) -> Lines {
        Lines { output, with_namespace, widths: Vec::new(), said: BTreeMap::new() }
    }

    /// Returns the text for a job that is new or changed; empty if no change is visible.
    fn changed(&mut self, job: &DynamicObject) -> Result<String, Failure> {
        let row = view::row(job);
        let key = (row.kind, row.namespace.clone(), row.name.clone());
        let seen = match self.output {
            Output::Table | Output::Wide => {
                format!("{} {}/{}", state(&row, false), row.workers.running, row.workers.of)
            }
            Output::Name => String::new(),
            _ => job.metadata.resource_version.clone().unwrap_or_default(),
        };
        if self.said.get(&key) == Some(&seen) {
            return Ok(String::new());
        }
        self.said.insert(key, seen);
        match self.output {
            Output::Table | Output::Wide => Ok(self.line(&row)),
            Output::Name => Ok(object::name(job) + "\n"),
            // One object per line, so that a reader can separate them.
            Output::Json => Ok(object::value(job).to_string() + "\n"),
            Output::Yaml => Ok(format!("---\n{}", output::text(&object::value(job), Output::Yaml)?)),
            Output::Template(_) => {
                let text = output::text(&object::value(job), self.output)?;
                Ok(if text.ends_with('\n') { text } else { text + "\n" })
            }
        }
    }

    fn gone(&mut self, key: &Key) -> String {
        let (kind, namespace, name) = key;
        if self.said.remove(key).is_none() || !matches!(self.output, Output::Table | Output::Wide) {
            return String::new();
        }
        match self.with_namespace {
            true => format!("{namespace}   {}/{name} deleted\n", kind.word()),
            false => format!("{}/{name} deleted\n", kind.word()),
        }
    }

    /// Formats a line of a table whose later rows are unknown: columns grow, and never shrink.
    fn line(&mut self, row: &Row) -> String {
        let columns =
            Columns { wide: self.output == Output::Wide, with_namespace: self.with_namespace, kinds: true };
        let (headings, cells) = rows_cells([row], columns, Timestamp::now());
        let first = self.widths.is_empty();
        self.widths.resize(headings.len(), 0);
        let titles: Vec<String> = headings.iter().map(|heading| styled(FAINT, heading)).collect();
        let mut text = String::new();
        for line in std::iter::once(&titles).filter(|_| first).chain(&cells) {
            for (cell, width) in line.iter().zip(&mut self.widths) {
                *width = (*width).max(table::seen_width(cell));
            }
        }
        for line in std::iter::once(&titles).filter(|_| first).chain(&cells) {
            text.push_str(&table::line(line, &self.widths));
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(name: &str, phase: &str, ready: i32, version: &str) -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": name, "namespace": "team", "resourceVersion": version},
            "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"containers": []}}}}},
            "status": {"phase": phase, "workers": {"running": ready, "pending": 0, "failed": 0, "of": 2}}}))
        .unwrap()
    }

    #[test]
    fn a_line_is_printed_for_each_visible_change() {
        let mut lines = Lines::new(Output::Table, false);
        let plain = |text: String| anstream::adapter::strip_str(&text).to_string();
        assert_eq!(
            plain(lines.changed(&job("a", "Pending", 0, "1")).unwrap()),
            "KIND     NAME   STATE     WORKERS   RUNTIME   AGE\nMPIJob   a      Pending   0/2       -         -\n"
        );
        assert_eq!(lines.changed(&job("a", "Pending", 0, "2")).unwrap(), "");
        assert_eq!(
            plain(lines.changed(&job("longer", "Running", 2, "3")).unwrap()),
            "MPIJob   longer   Running   2/2       -         -\n"
        );
        let key = |name: &str| (jobs::Kind::MpiJob, "team".to_owned(), name.to_owned());
        assert_eq!(lines.gone(&key("a")), "mpijob/a deleted\n");
        assert_eq!(lines.gone(&key("never-seen")), "");
    }

    #[test]
    fn json_output_has_one_object_per_line() {
        let mut lines = Lines::new(Output::Json, false);
        let text = lines.changed(&job("a", "Pending", 0, "1")).unwrap()
            + &lines.changed(&job("a", "Pending", 0, "2")).unwrap();
        let phases: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(phases.len(), 2);
        assert_eq!(phases[1]["metadata"]["resourceVersion"], "2");
        let mut lines = Lines::new(Output::parse("jsonpath={.status.phase}").unwrap(), false);
        assert_eq!(lines.changed(&job("a", "Running", 0, "1")).unwrap(), "Running\n");
    }
}
