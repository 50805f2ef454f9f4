//! `cargo xtask specs`: runs the conformance specs that Kubernetes publishes for its API against the embedded
//! cluster.
//!
//! The table of `docs/reference/conformance.md` lists the specs, and which of them pass. The task fails if a spec
//! fails that passed before. The specs are built once from Kubernetes' Go modules into the target folder; only the
//! program around them is ours (`conformance/specs/specs_test.go`). Each spec runs in a process of its own. Specs
//! that need pods run upstream's own test program, agnhost, which is built likewise and replaces its image.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::build::{self, Profile};
use crate::environment;
use crate::go_programs;
use crate::steps::{self, Stop};

/// The document with the table.
const TABLE: &str = "docs/reference/conformance.md";
/// The number of specs that run in parallel.
const AT_ONCE: usize = 4;
/// The time limit of a spec: the slowest waits up to ten minutes for a list to expire.
const TIMEOUT: &str = "--ginkgo.timeout=15m";
/// The image of upstream's test programs, as v1.36.3 names it (`test/utils/image/manifest.go`).
const IMAGE: &str = "registry.k8s.io/e2e-test-images/agnhost:2.63.0";
/// What a spec logs before it gives up.
const REFUSED_DEFINITION: &str = "Unexpected error while creating CustomResourceDefinition";
/// Names a program that is built already.
const PROGRAM: &str = "ODH_SPECS_PROGRAM";

/// A line of the table.
struct Spec {
    name: String,
    passes: bool,
}

/// The result of a spec.
struct SpecResult {
    passed: bool,
    seconds: f64,
}

/// Runs the specs whose names contain one of `words`, or all; with `--kubeconfig FILE`, against that cluster.
pub fn run(words: &[&str]) -> Result<(), Stop> {
    let (given, words) = match words {
        ["--kubeconfig", file, rest @ ..] => (Some(PathBuf::from(file)), rest),
        words => (None, words),
    };
    let mut specs = table(&fs::read_to_string(steps::root().join(TABLE)).unwrap_or_default());
    specs.retain(|spec| words.is_empty() || words.iter().any(|word| spec.name.contains(word)));
    if specs.is_empty() {
        return Err(Stop::usage(format!("no spec of {TABLE} is called so")));
    }
    let program = match std::env::var_os(PROGRAM) {
        Some(program) => PathBuf::from(program),
        None => built()?,
    };
    let kubectl = environment::tools()?.join("bin/kubectl");
    let folder = steps::target().join("specs");
    fs::create_dir_all(&folder).map_err(|error| Stop::io(&folder, &error))?;
    match given {
        Some(kubeconfig) => judge(&specs, &Runner { program, kubectl, kubeconfig, folder }),
        None => {
            let odh = build::programs(Profile::Dev)?;
            let home = folder.join("home");
            let image = format!("{IMAGE}={}", image()?.display());
            local(&odh, &home, &["down", "--purge"])?;
            local(&odh, &home, &["up", "--no-operator", "--image", &image])?;
            let kubeconfig = home.join("kubeconfig");
            let judged = judge(&specs, &Runner { program, kubectl, kubeconfig, folder });
            local(&odh, &home, &["down", "--purge"]).and(judged)
        }
    }
}

fn local(odh: &Path, home: &Path, words: &[&str]) -> Result<(), Stop> {
    steps::run_quietly(Command::new(odh).arg("local").args(words).env("ODH_HOME", home))
}

/// Parses the table: rows with a name in backquotes in the first cell, and the cluster's result in the second.
fn table(text: &str) -> Vec<Spec> {
    let row = |line: &str| {
        let mut cells = line.trim().trim_matches('|').split('|').map(str::trim);
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?.to_owned();
        Some(Spec { name, passes: cells.next()? == "passes" })
    };
    text.lines().filter_map(row).collect()
}

struct Runner {
    program: PathBuf,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    folder: PathBuf,
}

fn judge(specs: &[Spec], runner: &Runner) -> Result<(), Stop> {
    steps::step(&format!("Running {} specs", specs.len()));
    let outcomes = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(spec) = specs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = runner.run(&spec.name);
                    let (word, name) = (if outcome.passed { "pass" } else { "FAIL" }, &spec.name);
                    steps::say(&format!("    {word} {:6.1} s  {name}", outcome.seconds));
                    outcomes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((spec, outcome));
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let passed = outcomes.iter().filter(|(_, outcome)| outcome.passed).count();
    steps::step(&format!("{passed} of {} pass", specs.len()));
    let worse: Vec<&str> = outcomes
        .iter()
        .filter(|(spec, outcome)| spec.passes && !outcome.passed)
        .map(|(spec, _)| spec.name.as_str())
        .collect();
    if worse.is_empty() {
        return Ok(());
    }
    Err(Stop::new(
        format!("these passed once:\n  {}", worse.join("\n  ")),
        format!("what each said stands in {}", runner.folder.display()),
    ))
}

impl Runner {
    fn run(&self, name: &str) -> SpecResult {
        let started = Instant::now();
        let output = Command::new(&self.program)
            .args(["--provider=skeleton", "--ginkgo.v", "--ginkgo.no-color", TIMEOUT])
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .arg(format!("--kubectl-path={}", self.kubectl.display()))
            .arg(format!("--ginkgo.focus={}", pattern(name)))
            .stdin(Stdio::null())
            .output();
        let (said, ended_well) = match output {
            Ok(output) => ([output.stdout, output.stderr].concat(), output.status.success()),
            Err(error) => (error.to_string().into_bytes(), false),
        };
        let file: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        // The log is for people only; ignore a failure to write it.
        let _ = fs::write(self.folder.join(format!("{file}.log")), &said);
        let passed = ended_well && ran_to_its_end(&String::from_utf8_lossy(&said));
        SpecResult { passed, seconds: started.elapsed().as_secs_f64() }
    }
}

/// Returns whether a spec ran, and did not give up early, which counts as a success where it needs a definition that the
/// server refuses (upstream's `test/utils/crd/crd_util.go`).
fn ran_to_its_end(said: &str) -> bool {
    // A name that matches no spec ends well, too.
    said.contains("Ran 1 of") && !said.contains(REFUSED_DEFINITION)
}

/// Returns a regular expression that matches this name only. It does not match a longer name, because every name is
/// followed by `[Conformance]`.
fn pattern(name: &str) -> String {
    let mut pattern = String::new();
    for letter in name.chars() {
        if !letter.is_ascii_alphanumeric() && letter != ' ' {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern + r" \["
}

/// Returns the program with the specs. Builds it if it is missing or its source has changed.
fn built() -> Result<PathBuf, Stop> {
    let folder = go_programs::kube_folder()?;
    let (program, stamp) = (folder.join("specs.test"), folder.join("specs.made-from"));
    let source = steps::root().join("conformance/specs/specs_test.go");
    let text = fs::read_to_string(&source).map_err(|error| Stop::io(&source, &error))?;
    if program.is_file() && fs::read_to_string(&stamp).is_ok_and(|found| found == text) {
        return Ok(program);
    }
    steps::step("Building the specs from Kubernetes' Go modules (some six minutes of processor time, once)");
    let module = go_programs::kubernetes_module(&folder, "specs")?;
    fs::write(module.join("specs_test.go"), &text).map_err(|error| Stop::io(&module, &error))?;
    go_programs::go(&module, &["mod", "tidy"])?;
    go_programs::go(&module, &["test", "-c", "-o", &program.display().to_string(), "."])?;
    fs::write(&stamp, text).map_err(|error| Stop::io(&stamp, &error))?;
    Ok(program)
}

/// Returns the folder that replaces agnhost's image. Creates it if it is missing.
fn image() -> Result<PathBuf, Stop> {
    let folder = go_programs::kube_folder()?;
    let image = folder.join("agnhost-image");
    let program = image.join("bin/agnhost");
    if program.is_file() {
        return Ok(image);
    }
    steps::step("Building agnhost from Kubernetes' Go modules (some four minutes of processor time, once)");
    let entrypoint = image.join("etc/entrypoint");
    fs::create_dir_all(image.join("etc"))
        .and_then(|()| fs::create_dir_all(image.join("bin")))
        .and_then(|()| fs::write(&entrypoint, "agnhost\n"))
        .map_err(|error| Stop::io(&image, &error))?;
    let package = "k8s.io/kubernetes/test/images/agnhost";
    let module = go_programs::kubernetes_module(&folder, "agnhost")?;
    go_programs::go(&module, &["mod", "edit", "-tool", package])?;
    go_programs::go(&module, &["mod", "tidy"])?;
    let made = program.display().to_string();
    go_programs::go(&module, &["build", "-trimpath", "-ldflags", "-s -w", "-o", &made, package])?;
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_that_gives_up_does_not_pass() {
        assert!(ran_to_its_end("Ran 1 of 890 Specs in 33.2 seconds"));
        assert!(!ran_to_its_end("Ran 0 of 890 Specs in 0.1 seconds"));
        assert!(!ran_to_its_end(&format!("{REFUSED_DEFINITION}: no\nRan 1 of 890 Specs in 33.2 seconds")));
    }

    #[test]
    fn the_table_is_read_and_nothing_else() {
        let text = "| Spec | Embedded |\n|---|---|\n| `Watchers (a) [b]` | passes | passes |\n| `x` | fails: no | - |\n| y | passes |";
        let found: Vec<(String, bool)> = table(text).into_iter().map(|s| (s.name, s.passes)).collect();
        assert_eq!(found, [("Watchers (a) [b]".to_owned(), true), ("x".to_owned(), false)]);
        assert_eq!(pattern("A [b] c."), r"A \[b\] c\. \[");
    }
}
