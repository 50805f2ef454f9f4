//! The operator as a program, against the embedded cluster's TLS port: probes, metrics, logs, signals.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use api::MPIJob;
use cluster::{Cluster, Options};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, Command};

use crate::stage::job;

/// How long a test waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster's API on loopback, with the definition of MPIJob and the namespace `team`.
pub struct Site {
    pub cluster: Cluster,
    pub state: TempDir,
}

impl Site {
    pub async fn new() -> Self {
        let site = Self::bare().await;
        operator::install_crd(&site.cluster.client()).await.unwrap();
        site.add_namespace("team").await;
        site
    }

    /// Without the CRD and the namespace.
    pub async fn bare() -> Self {
        Self::of(false).await
    }

    /// As [`Site::bare`], with the cluster's controllers.
    pub async fn with_controllers() -> Self {
        Self::of(true).await
    }

    async fn of(controllers: bool) -> Self {
        let state = tempfile::tempdir().unwrap();
        let options = Options { controllers, ..Options::new(state.path().join("cluster")) };
        let cluster = Cluster::start(options).await.unwrap();
        let kubeconfig = serde_saphyr::to_string(&cluster.kubeconfig()).unwrap();
        std::fs::write(state.path().join("kubeconfig"), kubeconfig).unwrap();
        Self { cluster, state }
    }

    /// The path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.state.path().join("kubeconfig")
    }

    pub async fn add_namespace(&self, name: &str) {
        let namespaces: Api<Namespace> = Api::all(self.cluster.client());
        let namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    }

    pub async fn submit(&self, job: &Value) {
        let jobs: Api<MPIJob> = Api::namespaced(self.cluster.client(), "team");
        jobs.create(&PostParams::default(), &serde_json::from_value(job.clone()).unwrap()).await.unwrap();
    }

    /// Starts the program with these flags.
    pub fn start(&self, flags: &[&str]) -> Program {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpi-operator"));
        command.env("KUBECONFIG", self.kubeconfig()).env_remove("RUST_LOG");
        command.args(["--health-address", "127.0.0.1:0"]).args(flags);
        let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Program { child, lines }
    }
}

/// The program and its log.
pub struct Program {
    pub child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Program {
    /// Returns the next log line with this message; each line is a JSON object.
    pub async fn line(&mut self, message: &str) -> Value {
        let found = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                // Shown if a test fails.
                eprintln!("{line}");
                let line: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"));
                if line["message"] == message {
                    return line;
                }
            }
            panic!("the program ended without {message:?}");
        };
        tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("it never said {message:?}"))
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Waits for its end and returns its exit code.
    pub async fn end(&mut self) -> Option<i32> {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.unwrap().unwrap().code()
    }
}

/// Returns the status and the body of an answer.
pub async fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Polls until the answer has this status.
pub async fn until_status(address: &str, path: &str, wanted: u16) {
    let found = async {
        while get(address, path).await.0 != wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("{path} never answered {wanted}"));
}

#[tokio::test]
async fn the_program_reports_its_state_and_ends_on_a_signal() {
    let site = Site::new().await;
    let mut program =
        site.start(&["-v=4", "--monitoring-address", "127.0.0.1:0", "--lock-namespace", "team"]);
    let starting = program.line("starting").await;
    assert_eq!(
        (&starting["level"], &starting["version"]),
        (&json!("INFO"), &json!(env!("CARGO_PKG_VERSION")))
    );
    let probes = program.line("serving probes").await["address"].as_str().unwrap().to_owned();
    let metrics = program.line("serving metrics").await["address"].as_str().unwrap().to_owned();
    until_status(&probes, "/readyz", 200).await;
    assert_eq!(get(&probes, "/healthz").await, (200, "ok".to_owned()));
    assert_eq!((get(&probes, "/metrics").await.0, get(&metrics, "/healthz").await.0), (404, 404));
    site.submit(&job("pi", 1, json!({}))).await;
    let pass = program.line("reconciliation ended").await;
    let span = &pass["span"];
    assert_eq!(
        (&span["namespace"], &span["job"], &span["trace"].as_str().unwrap().len()),
        (&json!("team"), &json!("pi"), &32)
    );
    // A job is listed once its status has the Launcher, some passes later.
    let listed = "mpi_operator_job_info{launcher=\"pi-launcher\",namespace=\"team\"} 1";
    let found = async {
        while !get(&metrics, "/metrics").await.1.contains(listed) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("the metrics never list the job");
    program.signal(Signal::SIGTERM);
    program.line("stopping: waiting for reconciliations in progress").await;
    assert_eq!(program.end().await, Some(0));
}

#[tokio::test]
async fn an_invalid_command_line_ends_the_program_with_a_hint() {
    let program = || Command::new(env!("CARGO_BIN_EXE_mpi-operator"));
    let refused = program().arg("-lock-namespaces=x").output().await.unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("--lock-namespace"), "{said}");
    let version = program().arg("-version").output().await.unwrap();
    let said = String::from_utf8_lossy(&version.stdout).into_owned();
    assert!(version.status.success() && said.contains(env!("CARGO_PKG_VERSION")), "{said}");
}
