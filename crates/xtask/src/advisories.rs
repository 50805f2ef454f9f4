//! Known vulnerabilities of dependencies: RustSec's advisories, if their database is reachable.
//!
//! The database is a git repository that some machines cannot reach. Without it the check reports that and passes:
//! a new advisory must not stop people who cannot read it from building. With it, an advisory is a failure.

use std::path::Path;
use std::process::Command;

use crate::steps::{self, Stop};

/// How long the database may take to arrive, in seconds.
const PATIENCE_SECONDS: &str = "120";

/// The result of `cargo deny check advisories`.
#[derive(Debug, PartialEq, Eq)]
enum AdvisoryResult {
    /// No advisory affects the dependencies.
    Clean,
    /// There is no database, for this reason.
    NoDatabase(String),
    /// An advisory affects a dependency, or the check itself failed.
    Found,
}

/// Checks the lock file against a fresh database, or else against the one that an earlier check left.
pub fn check(deny: &Path) -> Result<(), Stop> {
    steps::step("Advisories against dependencies");
    let mut reasons = Vec::new();
    for network in [&[][..], &["--offline"]] {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", PATIENCE_SECONDS]).arg(deny);
        command.args(["--log-level", "error", "--all-features"]).args(network).args(["check", "advisories"]);
        // A silent connection ends sooner than a slow one.
        command.env("GIT_HTTP_LOW_SPEED_LIMIT", "1000").env("GIT_HTTP_LOW_SPEED_TIME", "20");
        command.env("GIT_TERMINAL_PROMPT", "0").current_dir(steps::root());
        let output = command
            .output()
            .map_err(|error| Stop::plain(format!("cargo-deny could not be started: {error}")))?;
        let text = String::from_utf8_lossy(&output.stderr);
        match outcome(output.status.code(), &text) {
            AdvisoryResult::Clean => return Ok(()),
            AdvisoryResult::NoDatabase(reason) => reasons.push(reason),
            AdvisoryResult::Found => {
                return Err(Stop::new(
                    format!("cargo deny check advisories failed:\n{}", text.trim_end()),
                    "update the dependency (`cargo update --package NAME`), or record in deny.toml why the advisory does not apply",
                ));
            }
        }
    }
    let reason = reasons.first().map_or("", String::as_str);
    steps::say(&format!("    NOT CHECKED: the database of advisories could not be had ({reason})"));
    Ok(())
}

/// `timeout` exits with 124 when the time is over. Without a database, cargo-deny names it in its output.
fn outcome(code: Option<i32>, text: &str) -> AdvisoryResult {
    const WITHOUT: [&str; 3] = [
        "failed to fetch advisory database",
        "failed to load advisory database",
        "failed to get 'FETCH_HEAD' metadata",
    ];
    let without = text.lines().find(|line| WITHOUT.iter().any(|words| line.contains(words)));
    match (code, without) {
        (Some(0), _) => AdvisoryResult::Clean,
        (Some(124 | 137), _) => AdvisoryResult::NoDatabase(format!("no answer within {PATIENCE_SECONDS} s")),
        (_, Some(line)) => {
            let start = line.find("failed to").unwrap_or(0);
            let reason = line[start..].split(" with cli").next().unwrap_or_default();
            AdvisoryResult::NoDatabase(reason.to_owned())
        }
        _ => AdvisoryResult::Found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_database_does_not_count_as_clean() {
        let unreachable = "2026-11-22 06:24:07 [ERROR] failed to fetch advisory database https://example.org/db with cli: failed to clone: [\"clone\"]\nCloning into '/x'...\n";
        let said = "failed to fetch advisory database https://example.org/db".to_owned();
        assert_eq!(outcome(Some(1), unreachable), AdvisoryResult::NoDatabase(said));
        let never_fetched =
            "[ERROR] failed to get 'FETCH_HEAD' metadata: failed to get HEAD timestamp: [\"-C\"]\n";
        assert!(matches!(outcome(Some(1), never_fetched), AdvisoryResult::NoDatabase(_)));
        assert!(matches!(outcome(Some(124), ""), AdvisoryResult::NoDatabase(_)));
    }

    #[test]
    fn an_advisory_is_a_failure() {
        let found =
            "error[vulnerability]: Use-after-free in example\n  = ID: RUSTSEC-2099-0001\nadvisories FAILED\n";
        assert_eq!(outcome(Some(1), found), AdvisoryResult::Found);
        assert_eq!(outcome(Some(0), ""), AdvisoryResult::Clean);
    }
}
