//! The live view on the terminal: jobs at the top, the selected job's pods and output below.

use std::io;

use jobs::Class;
use jobs::usage::{JobUse, PodUse};
use jobs::view::JobHealth;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, TableState};
use ratatui::{DefaultTerminal, Frame};

use super::{POD_HEADINGS, View, bytes, cores, pod_cells};
use crate::failure::Failure;
use crate::shown::ago;

/// The maximum number of screen rows for pods; the output gets the rest.
const MAX_POD_ROWS: u16 = 10;

/// The terminal under our control; restored when this is dropped, and on a panic.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Takes control of the terminal.
    pub(super) fn begin() -> Result<Screen, Failure> {
        ratatui::try_init().map(Screen).map_err(failed)
    }

    /// Draws the view.
    pub(super) fn draw(&mut self, view: &View) -> Result<(), Failure> {
        self.0.draw(|frame| draw(frame, view)).map(drop).map_err(failed)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::new(Class::Error, "Terminal", format!("cannot draw on this terminal: {error}"))
        .with_hint("print a table instead: odh training top --once")
}

fn draw(frame: &mut Frame, view: &View) {
    let pods = view.chosen().map_or(0, |job| u16::try_from(job.pods.len()).unwrap_or(u16::MAX));
    let jobs = u16::try_from(view.jobs.len()).unwrap_or(u16::MAX).saturating_add(1);
    let half = frame.area().height / 2;
    let [title, list, below, output, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(jobs.clamp(2, half.max(2))),
        Constraint::Length(pods.min(MAX_POD_ROWS) + 2),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(headline(view), title);
    draw_jobs(frame, view, list);
    draw_pods(frame, view, below);
    draw_output(frame, view, output);
    let told = match &view.note {
        Some(note) => Line::styled(format!(" {note}"), Style::new().fg(Color::Yellow)),
        None => Line::styled(
            format!(" ↑↓ choose   s sort ({})   q quit", view.sort.word()),
            Style::new().add_modifier(Modifier::DIM),
        ),
    };
    frame.render_widget(told, keys);
}

fn headline(view: &View) -> Line<'_> {
    let count = |phase| view.jobs.iter().filter(|job| job.row.phase == phase).count();
    let cpu: f64 = view.jobs.iter().filter_map(|job| job.cpu_cores).sum();
    let memory: u64 = view.jobs.iter().filter_map(|job| job.memory_bytes).sum();
    let gpus: u64 = view.jobs.iter().map(|job| job.gpus).sum();
    let text = format!(
        " {}: {} running, {} pending, {} failed, {} succeeded   CPU {}   memory {}   GPUs {gpus}",
        view.title,
        count(api::Phase::Running),
        count(api::Phase::Pending),
        count(api::Phase::Failed),
        count(api::Phase::Succeeded),
        cores(Some(cpu), None),
        bytes(Some(memory), None),
    );
    Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

fn draw_jobs(frame: &mut Frame, view: &View, area: Rect) {
    // One namespace needs no column, and what is short needs no more than it has.
    let first = view.jobs.first().map(|job| &job.row.namespace);
    let several = view.jobs.iter().any(|job| Some(&job.row.namespace) != first);
    let longest = |text: fn(&JobUse) -> usize, heading: &str| {
        u16::try_from(view.jobs.iter().map(text).max().unwrap_or(0).max(heading.len())).unwrap_or(u16::MAX)
    };
    let namespaces = if several { longest(|job| job.row.namespace.len(), "NAMESPACE").min(20) } else { 0 };
    let states = longest(|job| job.row.state.to_string().len(), "STATE");
    let rows = view.jobs.iter().map(|job| {
        let row = &job.row;
        let color = match row.health {
            JobHealth::Succeeded => Color::Green,
            JobHealth::Failed => Color::Red,
            JobHealth::Waiting | JobHealth::Suspended | JobHealth::Degraded | JobHealth::Deleting => {
                Color::Yellow
            }
            JobHealth::Running | JobHealth::Cancelled => Color::Reset,
        };
        Row::new([
            Cell::new(if several { row.namespace.clone() } else { String::new() }),
            Cell::new(row.name.clone()),
            Cell::new(row.state.to_string()).style(Style::new().fg(color)),
            Cell::new(format!("{}/{}", row.workers.running, row.workers.of)),
            Cell::new(cores(job.cpu_cores, None)),
            Cell::new(bytes(job.memory_bytes, None)),
            Cell::new(job.gpus.to_string()),
            Cell::new(ago(row.runtime(view.now))),
        ])
    });
    let widths = [
        Constraint::Length(namespaces),
        Constraint::Fill(1),
        Constraint::Length(states),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(5),
        Constraint::Length(8),
    ];
    let header = Row::new([
        if several { "NAMESPACE" } else { "" },
        "NAME",
        "STATE",
        "WORKERS",
        "CPU",
        "MEMORY",
        "GPUS",
        "RUNTIME",
    ]);
    let table = Table::new(rows, widths)
        .header(header.style(Style::new().add_modifier(Modifier::DIM)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .highlight_symbol("> ");
    let mut state = TableState::default().with_selected((!view.jobs.is_empty()).then_some(view.chosen));
    frame.render_stateful_widget(table, area, &mut state);
}

fn draw_pods(frame: &mut Frame, view: &View, area: Rect) {
    let pods: &[PodUse] = view.chosen().map(|job| job.pods.as_slice()).unwrap_or_default();
    let room = usize::from(area.height.saturating_sub(2));
    let hidden = pods.len().saturating_sub(room);
    let title = match (view.chosen(), hidden) {
        (Some(job), 0) => format!(" {} ", job.row.name),
        (Some(job), hidden) => format!(" {}: {hidden} more pods ", job.row.name),
        (None, _) => " no jobs ".to_owned(),
    };
    let rows = pods.iter().take(room).map(|pod| Row::new(pod_cells(pod)));
    let widths = [
        Constraint::Fill(2),
        Constraint::Fill(1),
        Constraint::Length(16),
        Constraint::Length(14),
        Constraint::Length(5),
        Constraint::Fill(1),
    ];
    let table = Table::new(rows, widths)
        .header(Row::new(POD_HEADINGS).style(Style::new().add_modifier(Modifier::DIM)))
        .block(Block::new().title(title).borders(ratatui::widgets::Borders::TOP));
    frame.render_widget(table, area);
}

fn draw_output(frame: &mut Frame, view: &View, area: Rect) {
    let room = usize::from(area.height.saturating_sub(1));
    let lines: Vec<Line> = view
        .log
        .iter()
        .skip(view.log.len().saturating_sub(room))
        // A tab or an escape sequence in a program's output would overwrite the rest.
        .map(|line| Line::raw(plain(line)))
        .collect();
    let block = Block::new().title(" Launcher output ").borders(ratatui::widgets::Borders::TOP);
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn plain(line: &str) -> String {
    let stripped = anstream::adapter::strip_str(line).to_string().replace('\t', "    ");
    stripped.chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;
    use serde_json::json;

    use super::*;
    use crate::arguments::TopSort;

    fn view() -> View {
        let row = |name: &str, phase: &str| {
            let job = serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
                "metadata": {"name": name, "namespace": "team"},
                "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"containers": []}}}}},
                "status": {"phase": phase}}));
            jobs::view::row(&job.unwrap())
        };
        let pod = PodUse {
            namespace: "team".to_owned(),
            job: "digits".to_owned(),
            name: "digits-worker-0".to_owned(),
            role: "worker".to_owned(),
            state: "Running".to_owned(),
            ended: false,
            node: Some("node-1".to_owned()),
            cpu_cores: Some(1.5),
            cpu_limit: Some(2.0),
            memory_bytes: Some(512 << 20),
            memory_limit: Some(1 << 30),
            gpus: 4,
        };
        let jobs = jobs::usage::of_jobs(vec![row("digits", "Running"), row("pi", "Failed")], &[pod]);
        View {
            title: "namespace team".to_owned(),
            jobs,
            chosen: 0,
            sort: TopSort::Name,
            log: VecDeque::from(["epoch 1".to_owned(), "\u{1b}[31mepoch\t2\u{1b}[0m".to_owned()]),
            note: None,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
        }
    }

    fn drawn(view: &View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(100, 16)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        let text = terminal.backend().to_string();
        text.lines().map(|line| line.trim_matches('"').trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn the_screen_shows_jobs_pods_and_output() {
        let text = drawn(&view());
        let expected = include_str!("screen.golden.txt");
        if std::env::var_os("UPDATE").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/training/top/screen.golden.txt");
            std::fs::write(path, &text).unwrap();
            return;
        }
        assert_eq!(text, expected);
    }

    #[test]
    fn keys_choose_sort_and_quit() {
        let mut view = view();
        assert!(view.press(KeyCode::Down, false) && view.press(KeyCode::Down, false));
        assert_eq!(view.chosen().map(|job| job.row.name.as_str()), Some("pi"));
        view.take_in(view.jobs.iter().rev().cloned().collect());
        assert_eq!(view.chosen().map(|job| job.row.name.as_str()), Some("pi"), "the same job stays chosen");
        assert!(view.press(KeyCode::Char('s'), false));
        assert_eq!(view.jobs[0].row.name, "digits", "by processor");
        assert!(!view.press(KeyCode::Char('q'), false));
        assert!(!view.press(KeyCode::Char('c'), true));
        view.take_in(Vec::new());
        assert!(view.chosen().is_none() && view.press(KeyCode::Down, false));
        assert!(drawn(&view).contains("no jobs"));
    }
}
