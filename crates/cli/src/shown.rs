//! Progress for people: a line that is redrawn on a terminal, plain lines elsewhere, JSON lines for programs.

use std::cell::Cell;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jobs::progress::{Outcome, Progress};
use jobs::view;
use serde_json::{Value, json};

use crate::console::{BAD, CAREFUL, Console, FAINT, GOOD, error_line, safe, styled};

/// The interval at which the line is redrawn.
const TICK: Duration = Duration::from_millis(120);

/// A job's progress on stderr.
pub struct Shown {
    console: Console,
    bar: Option<ProgressBar>,
    name: String,
    began: Instant,
    /// When a step that may be left out was last printed.
    printed: Cell<Option<Instant>>,
}

/// Without a terminal, steps of the same stage are printed this far apart: a log needs no line for each of a hundred pods.
const APART: Duration = Duration::from_secs(5);

impl Shown {
    /// Starts showing progress; `name` is the job's.
    pub fn begin(console: &Console, name: &str) -> Shown {
        let bar = console.live.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {prefix} {wide_msg}") {
                bar.set_style(style);
            }
            bar.set_prefix(name.to_owned());
            bar.enable_steady_tick(TICK);
            bar
        });
        Shown {
            console: *console,
            bar,
            name: name.to_owned(),
            began: Instant::now(),
            printed: Cell::new(None),
        }
    }

    /// Shows one step.
    pub fn step(&self, progress: &Progress) {
        if self.console.output.is_for_programs() {
            let mut value = value(progress);
            value["job"] = self.name.clone().into();
            value["time"] = jiff::Timestamp::now().to_string().into();
            self.console.event(&json!({ "progress": value }));
            return;
        }
        if self.bar.is_none() && self.is_left_out(progress) {
            return;
        }
        let lasting =
            matches!(progress, Progress::Warning(_) | Progress::Ended(_) | Progress::Waiting { .. });
        match &self.bar {
            Some(bar) if !lasting => bar.set_message(safe(&words(progress)).into_owned()),
            _ => self.line(&words(progress)),
        }
    }

    /// Whether a step is one of many of its stage, and the one before it was printed a moment ago.
    fn is_left_out(&self, progress: &Progress) -> bool {
        let is_between = match progress {
            Progress::Scheduled { pods, of } => pods < of,
            Progress::WorkersReady { ready, of } => ready < of,
            _ => false,
        };
        if !is_between {
            return false;
        }
        let is_soon = self.printed.get().unwrap_or(self.began).elapsed() < APART;
        if !is_soon {
            self.printed.set(Some(Instant::now()));
        }
        is_soon
    }

    /// Prints a permanent line above the redrawn one.
    pub fn line(&self, text: &str) {
        let seconds = self.began.elapsed().as_secs_f64();
        let line = format!("{} {text}", styled(FAINT, &format!("{seconds:6.1}s")));
        self.aside(|| error_line(&line));
    }

    /// Runs `print` with the redrawn line out of the way.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Removes the redrawn line for good.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Describes one step for people.
pub fn words(progress: &Progress) -> String {
    match progress {
        Progress::Accepted => "accepted".to_owned(),
        Progress::Waiting { reason, detail } => format!("{}: {detail}", styled(CAREFUL, reason)),
        Progress::Scheduled { pods, of } => format!("{pods} of {of} pods scheduled"),
        Progress::WorkersReady { ready, of } => format!("Workers ready {ready}/{of}"),
        Progress::LauncherRunning { pod } => format!("Launcher running ({pod})"),
        Progress::Warning(event) => {
            format!("{} {}: {} ({})", styled(CAREFUL, "warning:"), event.reason, event.message, event.object)
        }
        Progress::Ended(Outcome::Succeeded) => styled(GOOD, "succeeded"),
        Progress::Ended(Outcome::Deleted) => styled(CAREFUL, "deleted"),
        Progress::Ended(Outcome::Failed(failure)) if failure.reason == "Cancelled" => {
            styled(CAREFUL, "cancelled")
        }
        Progress::Ended(Outcome::Failed(failure)) if failure.reason == "Unknown" => styled(BAD, "failed"),
        Progress::Ended(Outcome::Failed(failure)) => format!("{} {}", styled(BAD, "failed:"), failure.reason),
    }
}

/// Describes one step for programs.
fn value(progress: &Progress) -> Value {
    match progress {
        Progress::Accepted => json!({ "step": "Accepted" }),
        Progress::Waiting { reason, detail } => {
            json!({ "step": "Waiting", "reason": reason, "detail": detail })
        }
        Progress::Scheduled { pods, of } => json!({ "step": "Scheduled", "pods": pods, "of": of }),
        Progress::WorkersReady { ready, of } => json!({ "step": "WorkersReady", "ready": ready, "of": of }),
        Progress::LauncherRunning { pod } => json!({ "step": "LauncherRunning", "pod": pod }),
        Progress::Warning(event) => {
            json!({ "step": "Warning", "reason": event.reason, "object": event.object, "message": event.message })
        }
        Progress::Ended(outcome) => json!({ "step": "Ended", "outcome": match outcome {
            Outcome::Succeeded => "Succeeded",
            Outcome::Failed(_) => "Failed",
            Outcome::Deleted => "Deleted",
        } }),
    }
}

/// Formats an age for a list.
pub fn ago(age: Option<Duration>) -> String {
    age.map_or_else(|| "-".to_owned(), view::duration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Color, Output};

    #[test]
    fn a_log_has_a_line_for_each_stage_and_not_for_each_pod() {
        let shown = Shown::begin(&Console::new(Color::Never, Output::Table), "pi");
        assert!(shown.is_left_out(&Progress::Scheduled { pods: 1, of: 101 }));
        assert!(shown.is_left_out(&Progress::WorkersReady { ready: 7, of: 100 }));
        assert!(!shown.is_left_out(&Progress::Scheduled { pods: 101, of: 101 }));
        assert!(!shown.is_left_out(&Progress::LauncherRunning { pod: "pi-launcher-x".to_owned() }));
    }
}
