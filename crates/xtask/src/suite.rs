//! Runs what `cargo xtask test` consists of, several pieces at a time, because most of them spend their time waiting for
//! pods, leases and processes: the test binaries of the workspace, and the checks that `test` adds.
//!
//! `cargo` builds the binaries and lists them: `cargo test` starts each one through `cargo xtask listed RECORD COMMAND…`,
//! which records the command and runs nothing. The output of each piece goes to a file below `target/test-output`; that
//! of a piece that fails is printed, too.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::steps::{self, Stop};

/// The pieces that run longest, in the order in which they start: what starts last should end soon.
const LONGEST: [&str; 8] = [
    "stories it",
    "service it",
    "dashboard in a browser",
    "operator it",
    "cli it",
    "sdk",
    "launch it",
    "cluster it",
];
/// How many pieces run at once, beside those that leave the processor to others.
const AT_ONCE: usize = 2;
/// The pieces beside which none runs but a patient one: several clusters with MPI at once keep all cores busy.
const ALONE: [&str; 1] = ["stories it"];
/// The packages whose tests wait most of their time, for pods and for MPI: half as many again run at once as there are
/// cores.
const WAITING: [&str; 1] = ["stories"];
/// The variable by which Rust's test programs are given the number of tests to run at once.
const THREADS: &str = "RUST_TEST_THREADS";
/// How long a piece may run. The longest, the dashboard in a browser, takes some 20 minutes on two cores that others use.
const LIMIT: Duration = Duration::from_secs(45 * 60);
/// The same for a piece that leaves the processor to others: it may make no progress until they have ended.
const PATIENT_LIMIT: Duration = Duration::from_secs(60 * 60);
/// How many tests that failed are named for each piece.
const MOST_FAILURES: usize = 20;
/// How often the scheduler looks whether a piece has ended.
const LOOK: Duration = Duration::from_millis(100);
/// How long nothing is printed before a line reports what still runs.
const QUIET: Duration = Duration::from_secs(60);

/// A program that passes or fails.
pub struct Piece {
    /// A test binary has its package and its own name, e.g. `service it`.
    name: String,
    command: Command,
    /// Whether it leaves the processor to others, so that it does not count among those that run at once.
    is_patient: bool,
}

impl Piece {
    /// Anything but a test binary.
    pub fn new(name: &str, command: Command) -> Piece {
        Piece { name: name.to_owned(), command, is_patient: false }
    }

    /// The same with the processor time that others leave.
    pub fn patient(name: &str, command: &Command) -> Piece {
        let mut patient = Command::new("nice");
        patient.arg("-n19").arg(command.get_program()).args(command.get_args());
        Piece { is_patient: true, ..Piece::new(name, patient) }
    }
}

/// Adds a command that `cargo` would run to the record: the folder, the package, the words of the command.
pub fn list(record: &str, command: &[&str]) -> Result<ExitCode, Stop> {
    // cargo describes the package to the binaries that it starts.
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let line = [&[folder.as_str(), &package], command].concat().join("\t") + "\n";
    let written = OpenOptions::new().create(true).append(true).open(record);
    written
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(|error| Stop::io(Path::new(record), &error))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs all pieces. Returns an error that names those that failed.
pub fn run(pieces: Vec<Piece>) -> Result<(), Stop> {
    let outputs = steps::target().join("test-output");
    // Output of an earlier run would be taken for this one's.
    let _ = fs::remove_dir_all(&outputs);
    fs::create_dir_all(&outputs).map_err(|error| Stop::io(&outputs, &error))?;
    let mut pool = Pool { waiting: in_order(pieces), running: Vec::new(), ended: Vec::new(), outputs };
    let mut printed = Instant::now();
    while !(pool.waiting.is_empty() && pool.running.is_empty()) {
        while let Some(piece) = pool.next() {
            pool.start(piece)?;
        }
        std::thread::sleep(LOOK);
        if pool.collect()? {
            printed = Instant::now();
        } else if printed.elapsed() > QUIET {
            printed = Instant::now();
            steps::say(&pool.progress());
        }
    }
    steps::step("Durations in seconds");
    table(&pool.ended).iter().for_each(|line| steps::say(line));
    pool.outcome()
}

/// Has `cargo` build every test binary and list it. Each will run the tests whose name contains the filter, or all.
///
/// They run with the listed programs only, so that a program missing from the list is missing everywhere, and with the
/// signals reset, because an ignored signal (SIGINT under `nohup` or in a script's background) stays ignored in all child
/// processes. `equip` gives each binary its environment.
pub fn binaries(filter: &[&str], path: &Path, equip: &dyn Fn(&mut Command)) -> Result<Vec<Piece>, Stop> {
    let record = steps::target().join("test-binaries.tsv");
    let _ = fs::remove_file(&record);
    let this = std::env::current_exe().map_err(|error| Stop::plain(format!("own program: {error}")))?;
    let words = [&this.display().to_string(), "listed", &record.display().to_string()]
        .map(|word| format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")));
    let runner = format!("target.'cfg(unix)'.runner=[{}]", words.join(", "));
    let mut command = steps::cargo_command();
    command.args(["test", "--workspace", "--config", &runner]).args(filter);
    steps::run_quietly(&mut command)?;
    let text = fs::read_to_string(&record).map_err(|error| Stop::io(&record, &error))?;
    let mut found: Vec<Piece> = text.lines().filter_map(binary).collect();
    number_doubles(&mut found);
    for piece in &mut found {
        piece.command.env("PATH", path);
        equip(&mut piece.command);
    }
    Ok(found)
}

/// Reads a line of the record.
fn binary(line: &str) -> Option<Piece> {
    let mut words = line.split('\t');
    let (folder, package, program) = (words.next()?, words.next()?, words.next()?);
    let file = program.rsplit('/').next().unwrap_or_default();
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    let mut command = Command::new("env");
    command.args(["--default-signal", program]).args(words).current_dir(folder);
    if WAITING.contains(&package) && std::env::var_os(THREADS).is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (cores + cores / 2).to_string());
    }
    Some(Piece::new(&format!("{package} {name}"), command))
}

/// Numbers pieces of the same name, so that each has an output of its own: a package may have a program that is named
/// like its library.
fn number_doubles(pieces: &mut [Piece]) {
    let mut seen = BTreeMap::new();
    for piece in pieces {
        let count = seen.entry(piece.name.clone()).and_modify(|count| *count += 1).or_insert(1);
        if *count > 1 {
            piece.name = format!("{} ({count})", piece.name);
        }
    }
}

fn in_order(mut pieces: Vec<Piece>) -> VecDeque<Piece> {
    pieces.sort_by_key(|piece| LONGEST.iter().position(|name| *name == piece.name).unwrap_or(LONGEST.len()));
    pieces.into()
}

/// A piece that runs.
struct Running {
    name: String,
    is_patient: bool,
    child: Child,
    began: Instant,
    output: PathBuf,
}

impl Running {
    fn limit(&self) -> Duration {
        if self.is_patient { PATIENT_LIMIT } else { LIMIT }
    }
}

/// A piece that has ended.
struct Ended {
    name: String,
    took: Duration,
    passed: bool,
    /// The names of the tests that failed.
    failures: Vec<String>,
}

struct Pool {
    waiting: VecDeque<Piece>,
    running: Vec<Running>,
    ended: Vec<Ended>,
    outputs: PathBuf,
}

impl Pool {
    /// The next piece that may run beside those that do.
    fn next(&mut self) -> Option<Piece> {
        let busy: Vec<&str> =
            self.running.iter().filter(|running| !running.is_patient).map(|running| &*running.name).collect();
        let is_free = busy.len() < AT_ONCE && !busy.iter().any(|name| ALONE.contains(name));
        let may = |piece: &Piece| {
            piece.is_patient || (is_free && (busy.is_empty() || !ALONE.contains(&piece.name.as_str())))
        };
        let at = self.waiting.iter().position(may)?;
        self.waiting.remove(at)
    }

    fn start(&mut self, Piece { name, mut command, is_patient }: Piece) -> Result<(), Stop> {
        let output = self.outputs.join(format!("{}.txt", name.replace([' ', '/', '(', ')'], "-")));
        let file = File::create(&output).map_err(|error| Stop::io(&output, &error))?;
        let errors = file.try_clone().map_err(|error| Stop::io(&output, &error))?;
        let child = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
        let child = child.map_err(|error| Stop::plain(format!("{name} could not be started: {error}")))?;
        self.running.push(Running { name, is_patient, child, began: Instant::now(), output });
        Ok(())
    }
    /// Reports the pieces that have ended, and kills one that exceeds the limit. Returns whether one has ended.
    fn collect(&mut self) -> Result<bool, Stop> {
        let mut still = Vec::new();
        let before = self.ended.len();
        for mut running in self.running.drain(..) {
            let took = running.began.elapsed();
            let too_long = took > running.limit();
            if too_long {
                // One that ends at this moment cannot be killed, and need not be.
                let _ = running.child.kill();
            }
            let status = running.child.try_wait().map_err(|error| Stop::plain(error.to_string()))?;
            let Some(status) = status else {
                still.push(running);
                continue;
            };
            let passed = status.success() && !too_long;
            let text = fs::read_to_string(&running.output).unwrap_or_default();
            report(&running, &text, took, (passed, too_long));
            let failures = if passed { Vec::new() } else { failures(&text) };
            self.ended.push(Ended { name: running.name, took, passed, failures });
        }
        self.running = still;
        Ok(self.ended.len() > before)
    }

    /// What runs, and how many tests of it have ended.
    fn progress(&self) -> String {
        let one = |running: &Running| {
            let text = fs::read_to_string(&running.output).unwrap_or_default();
            let done = text.lines().filter(|line| line.starts_with("test ")).count();
            format!("{} ({done} tests, {} s)", running.name, running.began.elapsed().as_secs())
        };
        let all: Vec<String> = self.running.iter().map(one).collect();
        format!("    …        running: {}; {} to go", all.join(", "), self.waiting.len())
    }

    fn outcome(&self) -> Result<(), Stop> {
        let failed: Vec<String> =
            self.ended.iter().filter(|ended| !ended.passed).map(name_failures).collect();
        if failed.is_empty() {
            return Ok(());
        }
        Err(Stop::plain(format!("failed: {}", failed.join(", "))))
    }
}

/// Returns the name of a piece that failed, with the tests that did.
fn name_failures(ended: &Ended) -> String {
    if ended.failures.is_empty() {
        return ended.name.clone();
    }
    let shown = ended.failures.iter().take(MOST_FAILURES).cloned();
    let more = ended.failures.len().saturating_sub(MOST_FAILURES);
    let rest = (more > 0).then(|| format!("{more} more"));
    format!("{} ({})", ended.name, shown.chain(rest).collect::<Vec<_>>().join("; "))
}

/// Returns the names of the tests that failed, as Rust's test programs, pytest and Vitest print them.
fn failures(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = without_colour(line);
        let line = line.trim();
        let rust = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"));
        let pytest = line.strip_prefix("FAILED ").map(|rest| rest.split(" - ").next().unwrap_or(rest));
        let vitest = line.strip_prefix("FAIL ");
        let name = rust.or(pytest).or(vitest).map(|name| name.trim().to_owned());
        found.extend(name.filter(|name| !found.contains(name)).into_iter().collect::<Vec<_>>());
    }
    found
}

/// Returns a line without the escape sequences by which a terminal shows colours.
fn without_colour(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

/// Prints the result of a binary, and all its output if it failed.
fn report(running: &Running, text: &str, took: Duration, (passed, too_long): (bool, bool)) {
    if !passed {
        steps::say(text);
    }
    if too_long {
        steps::say(&format!("{} was ended after {} s", running.name, running.limit().as_secs()));
    }
    let result = text.lines().rev().find(|line| line.starts_with("test result: "));
    steps::say(&format!(
        "    {:>7.1}  {}  {}",
        took.as_secs_f64(),
        running.name,
        if passed { "" } else { "FAILED" }
    ));
    result.into_iter().for_each(steps::say);
}

fn table(ended: &[Ended]) -> Vec<String> {
    let mut times: Vec<(Duration, &str)> =
        ended.iter().map(|ended| (ended.took, ended.name.as_str())).collect();
    times.sort_by(|a, b| b.cmp(a));
    let total = times.iter().map(|(took, _)| *took).sum();
    times.push((total, "all"));
    times.iter().map(|(took, name)| format!("    {:>7.1}  {name}", took.as_secs_f64())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_comes_first() {
        let ended = |name: &str, millis| Ended {
            name: name.to_owned(),
            took: Duration::from_millis(millis),
            passed: true,
            failures: Vec::new(),
        };
        let lines =
            ["       65.0  cli it", "        1.2  plan plan", "        0.0  api api", "       66.2  all"];
        assert_eq!(table(&[ended("plan plan", 1200), ended("cli it", 65000), ended("api api", 40)]), lines);
    }

    #[test]
    fn a_binary_is_known_without_its_hash() {
        let line = "/crates/controller-runtime\tcontroller-runtime\t/deps/controller_runtime-0a1b\t--exact";
        let found = binary(line).unwrap();
        assert_eq!(found.name, "controller-runtime controller_runtime");
        assert_eq!(found.command.get_current_dir(), Some(Path::new("/crates/controller-runtime")));
        let words: Vec<_> = found.command.get_args().collect();
        assert_eq!(words, ["--default-signal", "/deps/controller_runtime-0a1b", "--exact"]);
    }

    #[test]
    fn stories_run_beside_nothing_but_patient_pieces() {
        let piece = |name: &str| Piece::new(name, Command::new("true"));
        let waiting = VecDeque::from(vec![
            piece("stories it"),
            piece("service it"),
            Piece { is_patient: true, ..piece("lints") },
        ]);
        let mut pool = Pool { waiting, running: vec![], ended: vec![], outputs: std::env::temp_dir() };
        let mut started = Vec::new();
        while let Some(piece) = pool.next() {
            started.push(piece.name.clone());
            pool.start(piece).ok().unwrap();
        }
        pool.running.iter_mut().for_each(|running| drop(running.child.wait()));
        assert_eq!(started, ["stories it", "lints"]);
        assert_eq!(pool.waiting.len(), 1);
    }

    #[test]
    fn pieces_of_the_same_name_are_numbered() {
        let mut pieces = ["a", "b", "a"].map(|name| Piece::new(name, Command::new("true")));
        number_doubles(&mut pieces);
        assert_eq!(pieces.map(|piece| piece.name), ["a", "b", "a (2)"]);
    }

    #[test]
    fn what_runs_long_starts_first() {
        let line = |name: &str| binary(&format!("/f\t{name}\t/deps/it-1")).unwrap();
        let order = in_order(vec![line("api"), line("cli"), line("plan"), line("service")]);
        let names: Vec<&str> = order.iter().map(|piece| piece.name.as_str()).collect();
        assert_eq!(names, ["service it", "cli it", "api it", "plan it"]);
    }

    #[test]
    fn a_failure_is_reported_by_the_name_of_its_piece() {
        let outputs = std::env::temp_dir().join(format!("xtask-suite-{}", std::process::id()));
        fs::create_dir_all(&outputs).unwrap();
        let mut pool = Pool { waiting: VecDeque::new(), running: vec![], ended: vec![], outputs };
        for (name, code) in [("a it", "exit 0"), ("b it", "echo 'test a::b ... FAILED'; exit 7")] {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", code]);
            pool.start(Piece::new(name, command)).ok().unwrap();
        }
        while !pool.running.is_empty() {
            pool.collect().ok().unwrap();
        }
        let output = fs::read_to_string(pool.outputs.join("b-it.txt")).unwrap();
        fs::remove_dir_all(&pool.outputs).unwrap();
        assert_eq!(output, "test a::b ... FAILED\n");
        assert_eq!(pool.outcome().err().unwrap().what, "failed: b it (a::b)");
    }

    #[test]
    fn the_tests_that_failed_are_named() {
        let text = "test a ... ok\ntest b::c ... FAILED\ntest b::c ... FAILED\n\
            FAILED tests/test_jobs.py::test_a[x] - AssertionError: no\n\
            \u{1b}[41m\u{1b}[1m FAIL \u{1b}[22m\u{1b}[49m job.e2e.ts\u{1b}[2m > \u{1b}[22mthe page\n";
        let names = ["b::c", "tests/test_jobs.py::test_a[x]", "job.e2e.ts > the page"];
        assert_eq!(failures(text), names);
        let ended = |count: usize| Ended {
            name: "a it".to_owned(),
            took: Duration::ZERO,
            passed: false,
            failures: (0..count).map(|number| number.to_string()).collect(),
        };
        assert_eq!(name_failures(&ended(0)), "a it");
        assert_eq!(name_failures(&ended(2)), "a it (0; 1)");
        assert!(name_failures(&ended(MOST_FAILURES + 3)).ends_with("; 19; 3 more)"));
    }
}
