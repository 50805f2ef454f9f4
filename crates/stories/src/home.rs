//! A person's home: an `ODH_HOME` of its own, the commands typed in it, and its cluster.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::modes::{self, Mode};

/// The image name that the examples use; stories map it to the examples' environment.
pub const EXAMPLES_IMAGE: &str = "quay.io/opendatahub/mpi-examples:openmpi";

/// Paths that `cargo xtask test` has prepared.
pub mod places {
    use std::path::{Path, PathBuf};

    fn given(variable: &str) -> PathBuf {
        let value = std::env::var_os(variable)
            .unwrap_or_else(|| panic!("{variable} is not set: run the stories with `cargo xtask test`"));
        PathBuf::from(value)
    }

    /// The program `odh`.
    pub fn odh() -> PathBuf {
        given("ODH")
    }

    /// The program `mpi-operator`, which is built beside `odh`.
    pub fn operator() -> PathBuf {
        odh().with_file_name("mpi-operator")
    }

    /// The environment with Open MPI, mpi4py and the example programs.
    pub fn examples_environment() -> PathBuf {
        given("ODH_EXAMPLES_ENVIRONMENT")
    }

    /// The environment with Open MPI 5, mpi4py and the example programs.
    pub fn openmpi5_environment() -> PathBuf {
        given("ODH_OPENMPI5_ENVIRONMENT")
    }

    /// The environment with MPICH and mpi4py.
    pub fn mpich_environment() -> PathBuf {
        given("ODH_MPICH_ENVIRONMENT")
    }

    /// The environment with Intel MPI and mpi4py.
    pub fn intel_environment() -> PathBuf {
        given("ODH_INTEL_ENVIRONMENT")
    }

    /// The program `kubectl`, of a current release.
    pub fn kubectl() -> PathBuf {
        given("KUBECTL")
    }

    /// A file of the repository.
    pub fn repository(path: &str) -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        here.ancestors().nth(2).unwrap_or(here).join(path)
    }
}

/// The result of a command.
#[derive(Debug)]
pub struct Answer {
    /// The command, as typed.
    pub typed: String,
    /// Its exit code; 128 + n for a signal n.
    pub code: i32,
    /// Its stdout: data.
    pub stdout: String,
    /// Its stderr: messages for people.
    pub stderr: String,
}

impl Answer {
    fn of(typed: String, output: &Output) -> Answer {
        use std::os::unix::process::ExitStatusExt;
        let code = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Answer { typed, code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Fails the story unless the command ended with this exit code.
    #[track_caller]
    pub fn ended(self, code: i32) -> Answer {
        assert!(
            self.code == code,
            "`{}` ended with {}, expected {code}\n--- stdout\n{}\n--- stderr\n{}",
            self.typed,
            self.code,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Fails the story unless the output contains this text.
    #[track_caller]
    pub fn says(self, text: &str) -> Answer {
        assert!(
            self.stdout.contains(text) || self.stderr.contains(text),
            "`{}` does not say {text:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.typed,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Parses stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("`{}` printed no JSON ({error}):\n{}", self.typed, self.stdout))
    }
}

/// A person's home, possibly with a cluster in it. Dropping it ends the cluster.
pub struct Home {
    folder: TempDir,
    odh: PathBuf,
    /// Words before each command, e.g. those that change the user.
    prefix: Vec<String>,
}

impl Home {
    /// Creates an empty home.
    pub fn new() -> Home {
        Home::for_user(places::odh(), Vec::new())
    }

    /// Creates an empty home for commands with this prefix and this `odh`.
    pub fn for_user(odh: PathBuf, prefix: Vec<String>) -> Home {
        // Not in /tmp, because every pod has its own: a story's files must be visible in its pods.
        let folder = tempfile::Builder::new().prefix("odh-story-").tempdir_in("/var/tmp");
        let folder = folder.expect("a folder can be made");
        Home { folder, odh, prefix }
    }

    /// Creates a home with a running cluster, in the mode that it chooses on this machine. Records the mode for the
    /// story.
    pub fn with_cluster(story: &str) -> Home {
        Home::with_cluster_and(story, &[])
    }

    /// The same with more arguments for `odh local up`.
    pub fn with_cluster_and(story: &str, words: &[&str]) -> Home {
        let home = Home::new();
        home.up(words);
        modes::record(story, &home.mode(), false);
        home
    }

    /// Creates a home with a running cluster in a given mode.
    pub fn with_mode(story: &str, mode: Mode) -> Home {
        Home::with_mode_and(story, mode, &[])
    }

    /// The same with more arguments for `odh local up`.
    pub fn with_mode_and(story: &str, mode: Mode, words: &[&str]) -> Home {
        let home = Home::new();
        home.up(&[&["--mode", mode.word()], words].concat());
        assert_eq!(home.mode(), mode.word(), "the cluster runs in another mode than it was told to");
        modes::record(story, mode.word(), true);
        home
    }

    /// Returns the home's folder, where files may be put.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of a file that does not exist yet, for pods to wait for.
    pub fn gate(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }

    /// Returns the folder of the cluster's state.
    pub fn state(&self) -> PathBuf {
        self.path().join("odh")
    }

    /// Returns the path for the log of an operator that the story starts itself. It is printed if the story fails.
    pub fn operator_log(&self) -> PathBuf {
        self.path().join("operator.log")
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, text).expect("the file can be written");
        path.to_string_lossy().into_owned()
    }

    /// Starts the cluster with the examples' environment mapped.
    pub fn up(&self, words: &[&str]) -> Answer {
        let image = format!("{EXAMPLES_IMAGE}={}", places::examples_environment().display());
        let mut all = vec!["local", "up", "--image", &image];
        all.extend(words);
        self.odh(&all).ended(0)
    }

    /// Returns the mode that the cluster reports.
    pub fn mode(&self) -> String {
        let status = self.odh(&["local", "status", "-o", "json"]).ended(0).json();
        status["mode"].as_str().expect("the status names the mode").to_owned()
    }

    /// Runs an `odh` command to its end.
    pub fn odh(&self, words: &[&str]) -> Answer {
        run(self.command(&self.odh, words), format!("odh {}", words.join(" ")))
    }

    /// Runs a `kubectl` command to its end.
    pub fn kubectl(&self, words: &[&str]) -> Answer {
        run(self.kubectl_command(words), format!("kubectl {}", words.join(" ")))
    }

    /// Evicts a pod through the API, as a drain does.
    pub fn evict(&self, pod: &str) {
        let text = format!(
            r#"{{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {{"name": "{pod}", "namespace": "default"}}}}"#
        );
        let eviction = self.write("eviction.json", &text);
        let path = format!("/api/v1/namespaces/default/pods/{pod}/eviction");
        self.kubectl(&["create", "--raw", &path, "-f", &eviction]).ended(0);
    }

    /// Runs a script as a pipeline or a person would, with `odh` on its path, in the home's folder.
    pub fn script(&self, text: &str, words: &[&str]) -> Answer {
        let mut all = vec!["-euo", "pipefail", "-c", text, "script"];
        all.extend(words);
        let mut command = self.command(Path::new("bash"), &all);
        let places = std::env::var_os("PATH").unwrap_or_default();
        let first = self.odh.parent().map(Path::to_path_buf).into_iter();
        let path = std::env::join_paths(first.chain(std::env::split_paths(&places)));
        command.env("PATH", path.unwrap_or(places)).current_dir(self.path());
        run(command, text.to_owned())
    }

    /// Returns an `odh` command for the story to start itself.
    pub fn odh_command(&self, words: &[&str]) -> Command {
        self.command(&self.odh, words)
    }

    /// Returns a `kubectl` command for the story to start itself.
    pub fn kubectl_command(&self, words: &[&str]) -> Command {
        let kubeconfig = self.path().join("kubeconfig");
        if !kubeconfig.exists() {
            let text = self.odh(&["local", "kubeconfig"]).ended(0).stdout;
            std::fs::write(&kubeconfig, text).expect("the kubeconfig can be written");
        }
        let mut command = self.command(&places::kubectl(), words);
        command.env("KUBECONFIG", kubeconfig);
        command
    }

    /// Prints what the cluster holds, to show why a story failed: the cluster is gone afterwards.
    #[expect(clippy::print_stderr, reason = "the test harness shows it with the failure")]
    fn report(&self) {
        let kubeconfig = self.path().join("kubeconfig");
        if !kubeconfig.exists() {
            return;
        }
        let kubectl = |words: &[&str]| {
            let mut command = self.command(&places::kubectl(), &["--request-timeout=10s"]);
            let output = command.args(words).env("KUBECONFIG", &kubeconfig).output();
            output.map_or_else(
                |error| error.to_string(),
                |output| {
                    let text = String::from_utf8_lossy(&output.stdout).into_owned();
                    text + &String::from_utf8_lossy(&output.stderr)
                },
            )
        };
        for words in [
            &["get", "mpijobs,trainjobs,pods,jobs", "-A", "-o", "wide"][..],
            &["get", "events", "-A", "--sort-by=.metadata.creationTimestamp"],
            &[
                "get",
                "mpijobs",
                "-A",
                "-o",
                "jsonpath={range .items[*]}{.metadata.name}: {.status}{\"\\n\"}{end}",
            ],
        ] {
            eprintln!("--- kubectl {}\n{}", words.join(" "), last_lines(&kubectl(words), 80));
        }
        for pod in kubectl(&["get", "pods", "-o", "name"]).lines() {
            eprintln!("--- kubectl logs {pod}\n{}", last_lines(&kubectl(&["logs", pod, "--tail=20"]), 20));
        }
        if let Ok(log) = std::fs::read_to_string(self.operator_log()) {
            eprintln!("--- the operator's log\n{}", last_lines(&log, 40));
        }
    }

    fn command(&self, program: &Path, words: &[&str]) -> Command {
        let mut all: Vec<String> = self.prefix.clone();
        all.push(program.to_string_lossy().into_owned());
        all.extend(words.iter().map(|word| (*word).to_owned()));
        let mut command = Command::new(&all[0]);
        command.args(&all[1..]);
        command.env("ODH_HOME", self.state()).env("HOME", self.path()).env("NO_COLOR", "1");
        command.env_remove("KUBECONFIG").stdin(Stdio::null()).current_dir(places::repository(""));
        command
    }
}

impl Default for Home {
    fn default() -> Home {
        Home::new()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.report();
        }
        // A story that failed half-way must not leave its cluster running; if the story ended it, this does
        // nothing.
        let _ = self.command(&self.odh, &["local", "down", "--purge"]).output();
    }
}

fn last_lines(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(most)..].join("\n")
}

fn run(mut command: Command, typed: String) -> Answer {
    let output = command.output().unwrap_or_else(|error| panic!("`{typed}` cannot be started: {error}"));
    Answer::of(typed, &output)
}
