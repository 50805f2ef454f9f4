//! How long each test binary runs. `cargo` starts each one through `cargo xtask timed RECORD COMMAND…`, which adds a
//! line to the record; a report sorts them.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::steps::{self, Stop};

/// The packages whose tests wait most of their time, for pods and for MPI: half as many again run at once as there are
/// cores.
const WAITING: [&str; 1] = ["stories"];
/// The variable by which Rust's test programs are given the number of tests to run at once.
const THREADS: &str = "RUST_TEST_THREADS";

/// Runs a command and adds its duration to the record: milliseconds, the package, the binary. Returns its exit code.
pub fn run(record: &str, command: &[&str]) -> Result<ExitCode, Stop> {
    let [program, arguments @ ..] = command else {
        return Err(Stop::usage("timed: a record and a command are needed"));
    };
    // cargo describes the package to the binaries that it starts.
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let began = Instant::now();
    let mut command = Command::new(program);
    if WAITING.contains(&package.as_str()) && std::env::var_os(THREADS).is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (cores + cores / 2).to_string());
    }
    let status = command.args(arguments).status();
    let status = status.map_err(|error| Stop::plain(format!("`{program}` could not be started: {error}")))?;
    let line = format!("{}\t{package}\t{}\n", began.elapsed().as_millis(), binary(arguments));
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(record)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(|error| Stop::plain(format!("{record}: {error}")))?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Returns the name of the test binary among a command's arguments: `it` of `/…/deps/it-0123456789abcdef`.
fn binary<'a>(arguments: &[&'a str]) -> &'a str {
    let file = arguments.iter().copied().find(|argument| argument.contains("/deps/")).unwrap_or_default();
    let name = file.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('-').map_or(name, |(name, _)| name)
}

/// Prints the record's times, the longest first.
pub fn report(record: &Path) {
    steps::step("The time of every test binary, in seconds");
    for line in table(&fs::read_to_string(record).unwrap_or_default()) {
        steps::say(&line);
    }
}

fn table(record: &str) -> Vec<String> {
    let line = |line: &str| {
        let (time, name) = line.split_once('\t')?;
        Some((time.parse::<u32>().ok()?, name.replace('\t', " ")))
    };
    let mut times: Vec<(u32, String)> = record.lines().filter_map(line).collect();
    times.sort_by(|a, b| b.cmp(a));
    let total = times.iter().map(|(time, _)| time).sum();
    times.push((total, "all".to_owned()));
    times.iter().map(|(time, name)| format!("    {:>7.1}  {name}", f64::from(*time) / 1000.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_comes_first() {
        let record = "1200\tplan\tplan\n65000\tcli\tit\nnot a line\n40\tapi\tapi\n";
        let lines =
            ["       65.0  cli it", "        1.2  plan plan", "        0.0  api api", "       66.2  all"];
        assert_eq!(table(record), lines);
    }

    #[test]
    fn a_binary_is_known_without_its_hash() {
        let arguments =
            ["--default-signal", "PATH=/bin", "/target/debug/deps/controller_runtime-0a1b", "--exact"];
        assert_eq!(binary(&arguments), "controller_runtime");
    }

    #[test]
    fn the_exit_code_passes_through_and_the_time_is_recorded() {
        let record = std::env::temp_dir().join(format!("xtask-times-{}", std::process::id()));
        let path = record.display().to_string();
        let code = run(&path, &["sh", "-c", "exit 7", "/x/deps/it-1"]).ok();
        let text = fs::read_to_string(&record).unwrap_or_default();
        let _ = fs::remove_file(&record);
        assert_eq!(code, Some(ExitCode::from(7)));
        assert!(text.ends_with("\tit\n"), "{text:?}");
    }
}
