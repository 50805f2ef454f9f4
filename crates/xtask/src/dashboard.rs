//! The web dashboard: builds it, checks its sources, and tests it in a real browser.
//!
//! Uses the machine's Node if it is new enough, else one from PyPI. What has not changed is not built again.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment;
use crate::needs;
use crate::steps::{self, Stop};

/// The oldest usable Node, as `dashboard/package.json` has it in `engines`.
const OLDEST_NODE: (u32, u32) = (20, 19);
/// What the installed packages are made from.
const PACKAGES: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];
/// What the built dashboard is made from, in addition.
const SOURCES: [&str; 6] = ["index.html", "public", "scripts", "service-proxy.ts", "src", "vite.config.ts"];

/// Installs Node, if this machine has none, and the dashboard's packages.
pub fn install() -> Result<(), Stop> {
    Node::prepare().map(drop)
}

/// Builds `dashboard/dist` if its sources have changed.
pub fn build() -> Result<(), Stop> {
    let made_from = stamp_of(&[&PACKAGES[..], &SOURCES[..]].concat())?;
    let stamp = folder().join("node_modules/.dist-made-from");
    let is_built = folder().join("dist/index.html").is_file();
    if is_built && fs::read_to_string(&stamp).is_ok_and(|found| found == made_from) {
        return Ok(());
    }
    let node = Node::prepare()?;
    steps::step("Building the dashboard");
    node.npm_quietly(&["run", "build"])?;
    fs::write(&stamp, made_from).map_err(|error| Stop::io(&stamp, &error))
}

/// Checks the generated types, the types, the lints and the unit tests, and that the first load keeps to its budget.
pub fn check() -> Result<(), Stop> {
    let node = Node::prepare()?;
    steps::step("The dashboard's sources");
    node.npm(&["run", "--silent", "types:check"]).map_err(|stop| {
        Stop::new(
            stop.what,
            "run `npm --prefix dashboard run types`, and read what has changed in the contract",
        )
    })?;
    node.npm(&["run", "--silent", "typecheck"])?;
    node.npm(&["run", "--silent", "lint"])
        .map_err(|stop| Stop::new(stop.what, "run `npm --prefix dashboard run format`"))?;
    node.npm(&["run", "--silent", "test"])?;
    build()
}

/// Tests the built dashboard in a browser, against a cluster with real jobs. Screenshots go to `target/`.
pub fn in_a_browser(odh: &Path, examples: &Path, kubectl: &Path) -> Result<(), Stop> {
    build()?;
    let node = Node::prepare()?;
    steps::step("The dashboard in a browser");
    let mut command = node.command(&["run", "--silent", "e2e"]);
    command.env("ODH", odh).env("ODH_EXAMPLES_ENVIRONMENT", examples).env("KUBECTL", kubectl);
    command.env("DASHBOARD_SCREENSHOTS", steps::target().join("dashboard-screenshots"));
    if let Some(chromium) = needs::place_of("chromium") {
        command.env("CHROMIUM", chromium);
    }
    steps::run(&mut command)
}

fn folder() -> PathBuf {
    steps::root().join("dashboard")
}

/// Node and npm, with the dashboard's packages installed.
struct Node {
    /// The folder with both programs, if they are not on `PATH`.
    programs: Option<PathBuf>,
}

impl Node {
    fn prepare() -> Result<Node, Stop> {
        let programs = if is_on_path() { None } else { Some(environment::node()?) };
        let node = Node { programs };
        node.install()?;
        Ok(node)
    }

    /// Installs the packages of the lock file, unless they are there.
    fn install(&self) -> Result<(), Stop> {
        let made_from = stamp_of(&PACKAGES)?;
        let stamp = folder().join("node_modules/.made-from");
        if fs::read_to_string(&stamp).is_ok_and(|found| found == made_from) {
            return Ok(());
        }
        steps::say("    installing the dashboard's packages");
        self.npm_quietly(&["ci", "--no-audit", "--no-fund"]).map_err(|stop| {
            Stop::new(
                stop.what,
                "check that this machine reaches the registry that npm is set up for, then run it again",
            )
        })?;
        fs::write(&stamp, made_from).map_err(|error| Stop::io(&stamp, &error))
    }

    fn npm(&self, arguments: &[&str]) -> Result<(), Stop> {
        steps::run(&mut self.command(arguments))
    }

    fn npm_quietly(&self, arguments: &[&str]) -> Result<(), Stop> {
        steps::run_quietly(&mut self.command(arguments))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let program = self.programs.as_ref().map_or_else(|| "npm".into(), |programs| programs.join("npm"));
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder());
        if let Some(programs) = &self.programs {
            command.env("PATH", with_folder(programs));
        }
        command
    }
}

/// Whether this machine has npm and a Node that is new enough.
fn is_on_path() -> bool {
    let found = steps::output_of("node", &["--version"]);
    steps::find_program("npm").is_some()
        && found.as_deref().and_then(version).is_some_and(|version| version >= OLDEST_NODE)
}

/// Returns the first two numbers of `v20.19.1`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix('v')?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn with_folder(programs: &Path) -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(programs.to_path_buf()).chain(env::split_paths(&path));
    env::join_paths(folders).unwrap_or(path)
}

/// Returns a text that changes with the content or the name of any of these files, and with the checkout's place.
fn stamp_of(names: &[&str]) -> Result<String, Stop> {
    let mut hasher = DefaultHasher::new();
    for name in names {
        add(&folder().join(name), &mut hasher)?;
    }
    Ok(format!("{}\n{:016x}\n", folder().display(), hasher.finish()))
}

fn add(path: &Path, hasher: &mut DefaultHasher) -> Result<(), Stop> {
    hasher.write(path.as_os_str().as_encoded_bytes());
    if !path.is_dir() {
        hasher.write(&fs::read(path).map_err(|error| Stop::io(path, &error))?);
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(|error| Stop::io(path, &error))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().try_for_each(|path| add(path, hasher))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_node_is_read_and_compared() {
        assert_eq!(version("v20.19.1"), Some((20, 19)));
        assert!(version("v22.1.0") >= Some(OLDEST_NODE));
        assert!(version("v18.20.0") < Some(OLDEST_NODE));
        assert_eq!(version("20"), None);
    }

    #[test]
    fn a_stamp_changes_with_the_files_it_is_made_of() {
        let packages = stamp_of(&PACKAGES).ok().unwrap();
        assert_eq!(packages, stamp_of(&PACKAGES).ok().unwrap());
        assert_ne!(packages, stamp_of(&["package.json"]).ok().unwrap());
    }
}
