//! `top`: the resource usage of jobs and their pods, once as a table, or live on a terminal.

mod screen;

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::time::Duration;

use jiff::Timestamp;
use jobs::Class;
use jobs::list::Selection;
use jobs::logs::{Choice, Item, Logs};
use jobs::usage::{self, JobUse, PodUse};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;

use super::rows::{self, state};
use crate::arguments::{Global, Output, Top, TopSort};
use crate::connect::{Connection, connect};
use crate::console::Console;
use crate::failure::Failure;
use crate::shown::ago;
use crate::{object, table};
use screen::Screen;

/// The maximum number of output lines kept for the selected job.
const MAX_LOG_LINES: usize = 200;

/// `odh training top`
pub async fn run(console: &Console, global: &Global, top: &Top) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let live = !top.once
        && matches!(top.output, Output::Table | Output::Wide)
        && std::io::stdout().is_terminal()
        && std::io::stdin().is_terminal();
    if live {
        return watch(&connection, top).await;
    }
    let jobs = seen(&connection, top).await?;
    if jobs.is_empty() && !top.output.shows_objects() {
        console.note(&rows::none(namespace(&connection, top), false));
        return Ok(0);
    }
    let text = match top.output {
        Output::Json | Output::Yaml | Output::Template(_) => {
            let value = serde_json::to_value(&jobs).unwrap_or_default();
            object::text(&serde_json::json!({ "items": value }), top.output)?
        }
        Output::Name => {
            jobs.iter().map(|job| format!("{}/{}\n", job.row.kind.word(), job.row.name)).collect()
        }
        Output::Table | Output::Wide => tables(&jobs, top),
    };
    console.data(&text)?;
    Ok(0)
}

fn namespace<'a>(connection: &'a Connection, top: &Top) -> Option<&'a str> {
    (!top.all_namespaces).then_some(connection.namespace.as_str())
}

/// Reads the current usage, sorted as requested.
async fn seen(connection: &Connection, top: &Top) -> Result<Vec<JobUse>, Failure> {
    let namespace = namespace(connection, top);
    let selection =
        Selection { kind: top.kind(), namespace: namespace.map(str::to_owned), labels: top.selector.clone() };
    let (rows, pods) = tokio::join!(
        jobs::list::rows(&connection.client, &selection),
        usage::pods(&connection.client, namespace)
    );
    let rows = rows?.into_iter().filter(|row| top.names().is_empty() || top.names().contains(&row.name));
    let mut jobs = usage::of_jobs(rows.collect(), &pods?);
    if let Some(missing) = top.names().iter().find(|name| !jobs.iter().any(|job| job.row.name == **name)) {
        return Err(Failure::new(
            Class::NotFound,
            "NotFound",
            format!("training job \"{missing}\" not found"),
        )
        .with_hint("see all jobs: odh training list"));
    }
    sort(&mut jobs, top.sort);
    Ok(jobs)
}

fn sort(jobs: &mut [JobUse], by: TopSort) {
    let cpu = |job: &JobUse| job.cpu_cores.unwrap_or(-1.0);
    match by {
        TopSort::Cpu => jobs.sort_by(|a, b| cpu(b).total_cmp(&cpu(a))),
        TopSort::Memory => jobs.sort_by_key(|job| std::cmp::Reverse(job.memory_bytes)),
        TopSort::Gpus => jobs.sort_by_key(|job| std::cmp::Reverse(job.gpus)),
        TopSort::Name => {}
    }
}

/// The table of jobs, or of the pods of the named jobs.
fn tables(jobs: &[JobUse], top: &Top) -> String {
    let now = Timestamp::now();
    if top.names().is_empty() {
        let mut headings = vec!["NAME", "STATE", "WORKERS", "CPU", "MEMORY", "GPUS", "RUNTIME"];
        if top.all_namespaces {
            headings.insert(0, "NAMESPACE");
        }
        let rows: Vec<Vec<String>> = jobs
            .iter()
            .map(|job| {
                let row = &job.row;
                let mut cells = vec![
                    row.name.clone(),
                    state(row, false),
                    format!("{}/{}", row.workers.running, row.workers.of),
                    cores(job.cpu_cores, None),
                    bytes(job.memory_bytes, None),
                    job.gpus.to_string(),
                    ago(row.runtime(now)),
                ];
                if top.all_namespaces {
                    cells.insert(0, row.namespace.clone());
                }
                cells
            })
            .collect();
        return table::fitted(&headings, &rows, table::screen_columns());
    }
    let rows: Vec<Vec<String>> = jobs.iter().flat_map(|job| &job.pods).map(pod_cells).collect();
    table::fitted(&POD_HEADINGS, &rows, table::screen_columns())
}

const POD_HEADINGS: [&str; 6] = ["POD", "STATE", "CPU", "MEMORY", "GPUS", "NODE"];

fn pod_cells(pod: &PodUse) -> Vec<String> {
    vec![
        pod.name.clone(),
        pod.state.clone(),
        cores(pod.cpu_cores, pod.cpu_limit),
        bytes(pod.memory_bytes, pod.memory_limit),
        pod.gpus.to_string(),
        pod.node.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

/// Formats CPU cores as kubectl does, and the limit.
fn cores(used: Option<f64>, limit: Option<f64>) -> String {
    let number = |cores: f64| match cores < 10.0 {
        true => format!("{:.0}m", cores * 1_000.0),
        false => format!("{cores:.1}"),
    };
    match (used, limit) {
        (None, _) => "-".to_owned(),
        (Some(used), None) => number(used),
        (Some(used), Some(limit)) => format!("{} of {}", number(used), number(limit)),
    }
}

/// Formats bytes in the unit that leaves three digits, and their share of the limit.
fn bytes(used: Option<u64>, limit: Option<u64>) -> String {
    let Some(used) = used else { return "-".to_owned() };
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let part = |amount: u64| amount as f64;
    let (mut amount, mut unit) = (part(used) / 1024.0, "Ki");
    for larger in ["Mi", "Gi", "Ti"] {
        if amount < 1_000.0 {
            break;
        }
        (amount, unit) = (amount / 1024.0, larger);
    }
    let amount = if amount < 10.0 { format!("{amount:.1}{unit}") } else { format!("{amount:.0}{unit}") };
    match limit.filter(|limit| *limit > 0) {
        Some(limit) => format!("{amount} ({:.0}%)", part(used) * 100.0 / part(limit)),
        None => amount,
    }
}

/// The content of the live view.
struct View {
    title: String,
    jobs: Vec<JobUse>,
    chosen: usize,
    sort: TopSort,
    log: VecDeque<String>,
    note: Option<String>,
    now: Timestamp,
}

impl View {
    fn chosen(&self) -> Option<&JobUse> {
        self.jobs.get(self.chosen)
    }

    /// The identity of the selected job.
    fn key(&self) -> Option<(jobs::Kind, String, String)> {
        self.chosen().map(|job| (job.row.kind, job.row.namespace.clone(), job.row.name.clone()))
    }

    /// Takes over new data; the selection stays on the same job.
    fn take_in(&mut self, mut jobs: Vec<JobUse>) {
        sort(&mut jobs, self.sort);
        let key = self.key();
        let same = |job: &JobUse| {
            key.as_ref().is_some_and(|(kind, namespace, name)| {
                (job.row.kind, &job.row.namespace, &job.row.name) == (*kind, namespace, name)
            })
        };
        let last = jobs.len().saturating_sub(1);
        self.chosen = jobs.iter().position(same).unwrap_or_else(|| self.chosen.min(last));
        self.jobs = jobs;
        self.now = Timestamp::now();
    }

    /// Handles a key; returns `false` to end the view.
    fn press(&mut self, code: KeyCode, control: bool) -> bool {
        let last = self.jobs.len().saturating_sub(1);
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('c') if control => return false,
            KeyCode::Down | KeyCode::Char('j') => self.chosen = (self.chosen + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::Home => self.chosen = 0,
            KeyCode::End => self.chosen = last,
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    TopSort::Name => TopSort::Cpu,
                    TopSort::Cpu => TopSort::Memory,
                    TopSort::Memory => TopSort::Gpus,
                    TopSort::Gpus => TopSort::Name,
                };
                let jobs = std::mem::take(&mut self.jobs);
                self.take_in(jobs);
            }
            _ => {}
        }
        true
    }
}

async fn watch(connection: &Connection, top: &Top) -> Result<u8, Failure> {
    let place = namespace(connection, top)
        .map_or_else(|| "all namespaces".to_owned(), |name| format!("namespace {name}"));
    let mut view = View {
        title: place,
        jobs: seen(connection, top).await?,
        chosen: 0,
        sort: top.sort,
        log: VecDeque::new(),
        note: None,
        now: Timestamp::now(),
    };
    let mut keys = keys();
    let mut screen = Screen::begin()?;
    let mut tick = tokio::time::interval(top.interval.max(Duration::from_millis(200)));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut followed = None;
    let mut logs: Option<Logs> = None;
    loop {
        if followed != view.key() {
            followed = view.key();
            view.log.clear();
            logs = open(connection, &view).await;
        }
        screen.draw(&view)?;
        tokio::select! {
            _ = tick.tick() => match seen(connection, top).await {
                Ok(jobs) => {
                    view.note = None;
                    view.take_in(jobs);
                }
                // A server that does not answer for a while does not end the view.
                Err(failure) => view.note = Some(failure.message),
            },
            key = keys.recv() => match key {
                Some(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                    if !view.press(key.code, key.modifiers.contains(KeyModifiers::CONTROL)) {
                        return Ok(0);
                    }
                }
                Some(_) => {}
                None => return Ok(0),
            },
            line = next(&mut logs), if logs.is_some() => match line {
                Some(line) => {
                    view.log.push_back(line);
                    if view.log.len() > MAX_LOG_LINES {
                        view.log.pop_front();
                    }
                    // Draw lines that are already available together with this one.
                    while let Some(logs) = logs.as_mut().filter(|_| view.log.len() < MAX_LOG_LINES) {
                        if logs.is_dry() {
                            break;
                        }
                        view.log.extend(logs.next().await.and_then(said));
                    }
                }
                None => logs = None,
            },
        }
    }
}

/// Reads key presses in a separate thread, which ends with the process.
fn keys() -> mpsc::Receiver<Event> {
    let (to, from) = mpsc::channel(16);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if to.blocking_send(event).is_err() {
                return;
            }
        }
    });
    from
}

async fn open(connection: &Connection, view: &View) -> Option<Logs> {
    let (kind, namespace, name) = view.key()?;
    let lines = i64::try_from(MAX_LOG_LINES / 2).ok();
    let choice = Choice { follow: true, tail: lines, ..Choice::default() };
    jobs::logs::logs(&connection.client, kind, &namespace, &name, choice).await.ok()
}

async fn next(logs: &mut Option<Logs>) -> Option<String> {
    loop {
        let item = logs.as_mut()?.next().await?;
        if let Some(line) = said(item) {
            return Some(line);
        }
    }
}

/// The line to show for an item, if any.
fn said(item: Result<Item, jobs::Error>) -> Option<String> {
    match item {
        Ok(Item::Line { text, .. }) => Some(text),
        Ok(Item::Waiting { pod, reason }) => Some(format!("{pod} waits for {reason}")),
        Ok(Item::Note(note) | Item::Missing { text: note, .. }) => Some(note),
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        assert_eq!(cores(Some(0.25), None), "250m");
        assert_eq!(cores(Some(1.5), Some(2.0)), "1500m of 2000m");
        assert_eq!(cores(Some(31.97), Some(32.0)), "32.0 of 32.0");
        assert_eq!(cores(None, Some(2.0)), "-");
        assert_eq!(bytes(Some(512), None), "0.5Ki");
        assert_eq!(bytes(Some(300 << 20), Some(1 << 30)), "300Mi (29%)");
        assert_eq!(bytes(Some(3 << 30), None), "3.0Gi");
        assert_eq!(bytes(None, Some(1)), "-");
    }
}
