//! Golden transcripts against a cluster: `tests/transcripts/cluster/*.txt` hold commands, on a terminal and without
//! one, and their complete output. `endings.rs` has every exit code of every command.
//!
//! The cluster is an API in this process, without a node: the objects of [`stage`] do not change, so that the output
//! is always the same. Times, identifiers and ports are replaced. `UPDATE=1` rewrites the files; read the diff.
//! `TRANSCRIPT=read` replays a single one.
//!
//! ```text
//! $ odh …              a command without a terminal: its stdout, its stderr after "! ", its exit code
//! % odh …              a command on a pseudo-terminal of 100 columns: the final screen, its exit code
//! < y                  input typed on that terminal, once a question or a list of keys is shown
//! @ delete mpijob pi   what happens after the command's first output: a job is deleted,
//! @ fail mpijob pi     fails (or `succeed`s), or
//! @ interrupt          the command gets SIGINT; followed by "after WORD", once the terminal shows that word
//! ```

mod cast;
pub mod stage;
mod terminal;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use regex::Regex;

use crate::odh::{Home, Said};
use stage::Stage;

/// The time after which a command is considered hung.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn commands_on_a_cluster_match_their_transcripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/cluster");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    if let Some(only) = std::env::var_os("TRANSCRIPT") {
        paths.retain(|path| path.file_stem() == Some(&only));
    }
    assert!(!paths.is_empty(), "no transcripts");
    // Each transcript has its own cluster.
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let checks: Vec<_> = paths.iter().map(|path| scope.spawn(|| check(path))).collect();
        checks.into_iter().filter_map(|check| check.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "these differ (UPDATE=1 rewrites):\n{}", wrong.join("\n"));
}

fn check(path: &Path) -> Option<String> {
    let expected = std::fs::read_to_string(path).unwrap();
    let actual = replay(&expected);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &actual).unwrap();
        return None;
    }
    (actual != expected).then(|| difference(&path.display().to_string(), &expected, &actual))
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let stage = Stage::set();
    let list = |more: &str| words(&format!("training list -n team-cv {more}"));
    let coloured = |text: &str| text.contains("\u{1b}[");
    assert!(coloured(&terminal::raw(stage.command(&list("")))));
    let mut without = stage.command(&list(""));
    without.env("NO_COLOR", "1");
    assert!(!coloured(&terminal::raw(without)));
    assert!(!coloured(&terminal::raw(stage.command(&list("--color never")))));
    let off_it = |more: &str| plain(stage.command(&list(more)).stdin(Stdio::null()), |_| {}).0;
    assert!(!coloured(&off_it("")));
    assert!(coloured(&off_it("--color always")));
}

/// The lines around the first difference, as whole transcripts are too long for a log.
fn difference(name: &str, expected: &str, actual: &str) -> String {
    let (expected, actual): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let same = expected.iter().zip(&actual).take_while(|(a, b)| a == b).count();
    let part = |lines: &[&str]| {
        lines
            .iter()
            .skip(same.saturating_sub(5))
            .take(20)
            .map(|line| format!("  {line}\n"))
            .collect::<String>()
    };
    format!("{name}, line {}: expected\n{}but it is\n{}", same + 1, part(&expected), part(&actual))
}

/// A command of a transcript, with its input and the concurrent event.
struct Step<'t> {
    line: &'t str,
    typed: Option<&'t str>,
    meanwhile: Option<&'t str>,
}

fn steps(transcript: &str) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for line in transcript.lines() {
        if line.starts_with("$ odh") || line.starts_with("% odh") {
            steps.push(Step { line, typed: None, meanwhile: None });
        } else if let Some(step) = steps.last_mut() {
            if let Some(typed) = line.strip_prefix("< ") {
                step.typed = Some(typed);
            } else if let Some(what) = line.strip_prefix("@ ") {
                step.meanwhile = Some(what);
            }
        }
    }
    steps
}

/// Replays the transcript; comments (`# …`) before the first command are kept.
fn replay(transcript: &str) -> String {
    let stage = Stage::set();
    let mut text: String =
        transcript.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    if !text.is_empty() {
        text.push('\n');
    }
    for step in steps(transcript) {
        writeln!(text, "{}", step.line).unwrap();
        for (mark, said) in [("<", step.typed), ("@", step.meanwhile)] {
            if let Some(said) = said {
                writeln!(text, "{mark} {said}").unwrap();
            }
        }
        let (terminal, line) = (step.line.starts_with('%'), &step.line["$ odh".len()..]);
        let words = words(line);
        let (said, code) = match terminal {
            true => {
                let (what, after) = match step.meanwhile.and_then(|what| what.split_once(" after ")) {
                    Some((what, after)) => (Some(what), after),
                    None => (step.meanwhile, ""),
                };
                terminal::run(stage.command(&words), step.typed, after, |pid| stage.meanwhile(what, pid))
            }
            false => {
                plain(stage.command(&words).stdin(Stdio::null()), |pid| stage.meanwhile(step.meanwhile, pid))
            }
        };
        let said = normal(&said, stage.home());
        writeln!(
            text,
            "{}{}[exit {code}]\n",
            said,
            if said.is_empty() || said.ends_with('\n') { "" } else { "\n" }
        )
        .unwrap();
    }
    text
}

/// Splits words like a shell.
pub fn words(line: &str) -> Vec<String> {
    shlex::split(line).unwrap()
}

/// Returns stdout, then stderr with `! ` before each line, and the exit code.
fn plain(command: &mut std::process::Command, meanwhile: impl FnOnce(Pid)) -> (String, i32) {
    let Said { code, out: mut text, err } = observe(command, meanwhile);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for line in err.lines() {
        writeln!(text, "! {line}").unwrap();
    }
    (text, code)
}

/// Runs a command without a terminal. The concurrent event happens at the first output, on stdout or stderr.
pub fn observe(command: &mut std::process::Command, meanwhile: impl FnOnce(Pid)) -> Said {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = pid(&child);
    let _watchdog = Watchdog::of(pid);
    let (said, says) = mpsc::channel();
    let out = read(child.stdout.take().unwrap(), said.clone());
    let err = read(child.stderr.take().unwrap(), said);
    if says.recv().is_ok() {
        meanwhile(pid);
    }
    let (out, err) = (out.join().unwrap(), err.join().unwrap());
    Said { code: code(child.wait().unwrap()), out, err }
}

/// Reads to the end, and signals when the first line has arrived.
fn read(from: impl Read + Send + 'static, said: mpsc::Sender<()>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut text = String::new();
        if from.read_line(&mut text).unwrap() > 0 {
            let _ = said.send(());
        }
        drop(said);
        from.read_to_string(&mut text).unwrap();
        text
    })
}

/// The exit code as a shell reports it.
fn code(ended: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0))
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

/// Ends a command that hangs, so that its transcript shows it; active until it is dropped.
struct Watchdog(Option<mpsc::Sender<()>>);

impl Watchdog {
    fn of(pid: Pid) -> Watchdog {
        let (over, waits) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            if waits.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = kill(pid, Signal::SIGKILL);
            }
        });
        Watchdog(Some(over))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

fn interrupt(pid: Pid) {
    kill(pid, Signal::SIGINT).unwrap();
}

/// Replaces what differs between runs. Columns, whose widths depend on it, are separated by three blanks.
fn normal(text: &str, home: &Home) -> String {
    static VARYING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        [
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
            (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
            (r#"(resourceVersion"?: ?)"?\d+"?"#, "${1}N"),
            (r"127\.0\.0\.1:\d+", "ADDRESS"),
            (r"(?m)^(! )? *\d+\.\ds ", "${1}SPAN "),
            (r"\b\d+(s|m|h|d)(\d+(s|m|h))?\b", "SPAN"),
            (r"(\S) {2,}", "$1   "),
            // A job that is gone before the first look is reported without this line.
            (r"(?m)^(! )?SPAN deleted\n", ""),
            // Which of these are reported depends on which list the server answers first.
            (r"(?m)^(! )?SPAN (accepted|.* pods scheduled|Workers ready .*|Launcher running .*)\n", ""),
            (r#"(?m)^(! )?\{"progress":\{.*"step":"(Accepted|Scheduled|WorkersReady|LauncherRunning)".*\n"#, ""),
        ]
        .map(|(pattern, name)| (Regex::new(pattern).unwrap(), name))
        .into_iter()
        .collect()
    });
    let place = home.path().display().to_string();
    let text = text.replace(&place, "HOME");
    unwrapped(
        &VARYING.iter().fold(text, |text, (pattern, name)| pattern.replace_all(&text, *name).into_owned()),
    )
}

/// Joins the lines of a text that goes on below its column: where it is wrapped depends on the widths of the others.
fn unwrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.split('\n') {
        let below = line.strip_prefix(&" ".repeat(30)).map(str::trim_start).filter(|rest| !rest.is_empty());
        match (below, lines.last_mut()) {
            (Some(rest), Some(last)) if last.contains("   ") => {
                last.push(' ');
                last.push_str(rest);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}
