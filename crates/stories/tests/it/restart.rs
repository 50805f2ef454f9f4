//! Machines fail under a job that writes checkpoints: it continues from the last one without help.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use stories::{Home, first_process_of, kill_process, places, within};

/// How long each step may take, on a machine that is busy with other stories.
const PATIENCE: Duration = Duration::from_secs(300);

/// Returns the example with another name and additions to its Workers and its Launcher.
fn example(name: &str, epochs: usize, worker: &str, launcher: &str) -> String {
    let path = places::repository("examples/checkpoint.yaml");
    let text = std::fs::read_to_string(path).expect("the example can be read");
    let changed = text
        .replace("name: checkpoint\n", &format!("name: {name}\n"))
        .replace("\"40\"", &format!("\"{epochs}\""))
        .replace("--checkpoint, /checkpoints", &format!("--checkpoint, /checkpoints/{name}"))
        .replace("          # More for the Worker.\n", worker)
        .replace("          # More for the Launcher.\n", launcher);
    assert!(changed.contains(&format!("\"{epochs}\"")) && changed.contains(name), "the example has changed");
    changed
}

fn job(home: &Home, name: &str) -> Value {
    home.odh(&["training", "get", "mpijob", name, "-o", "json"]).json()
}

fn restarted(home: &Home, name: &str) {
    within(PATIENCE, &format!("{name} is at its second attempt"), || {
        let attempt = &job(home, name)["metadata"]["annotations"]["training.opendatahub.io/attempt"];
        (attempt == "2").then_some(())
    });
}

/// Waits until the job has succeeded at the second attempt, with the first recorded with one of these causes.
fn succeeded(home: &Home, name: &str, causes: &[&str]) {
    let status = within(PATIENCE, &format!("{name} has succeeded"), || {
        let status = job(home, name)["status"].clone();
        assert!(status["phase"] != "Failed", "{name}: {status:#}");
        (status["phase"] == "Succeeded").then_some(status)
    });
    let outcomes: Vec<&Value> = status["attempts"].as_array().map_or(Vec::new(), |all| all.iter().collect());
    assert_eq!(outcomes.len(), 2, "{status:#}");
    assert_eq!(outcomes[0]["outcome"], "Failed", "{status:#}");
    let cause = outcomes[0]["reason"].as_str().unwrap_or_default();
    assert!(causes.contains(&cause), "{status:#}");
    assert_eq!(outcomes[1]["outcome"], "Succeeded", "{status:#}");
    home.kubectl(&["get", "configmap", &format!("{name}-attempt-1"), "-o", "yaml"]).ended(0).says(cause);
    home.odh(&["training", "describe", "mpijob", name]).ended(0).says("MPIJobRestarting");
}

#[test]
fn a_gang_that_loses_a_worker_goes_on_from_its_checkpoint() {
    let home = Home::with_cluster_and("restart::phases", &["--nodes", "2", "--gpus", "1"]);
    if home.mode() == "plain" {
        return;
    }
    let claim = places::repository("examples/checkpoint-claim.yaml");
    home.kubectl(&["apply", "-f", &claim.to_string_lossy()]).ended(0);
    let gate = home.gate("gate");
    // One GPU is taken, so the second of two Workers with one GPU each has to wait.
    let holder = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: holder}}\nspec:\n  terminationGracePeriodSeconds: 0\n  containers:\n  - name: main\n    image: {}\n    command: [sleep, '600']\n    resources: {{limits: {{nvidia.com/gpu: 1}}}}\n",
        stories::EXAMPLES_IMAGE
    );
    let holder = home.write("holder.yaml", &holder);
    home.kubectl(&["apply", "-f", &holder]).ended(0);
    home.kubectl(&["wait", "--for=condition=Ready", "pod/holder", "--timeout=60s"]).ended(0);
    let wait = format!(
        "          terminationGracePeriodSeconds: 1\n          initContainers:\n          - name: wait\n            image: {}\n            command: [sh, -c, 'while [ ! -e {gate} ]; do sleep 0.2; done']\n",
        stories::EXAMPLES_IMAGE
    );
    let jobs = [
        example("running", 60, "", ""),
        example("pending", 2, "", "").replace(
            "              # Resources of the Worker.\n",
            "              resources: {limits: {nvidia.com/gpu: 1}}\n",
        ),
        example("starting", 2, "", &wait),
    ];
    let manifest = home.write("jobs.yaml", &jobs.join("---\n"));
    home.kubectl(&["create", "-f", &manifest]).ended(0);

    // Pending: one of two Workers runs, and dies.
    let first = within(PATIENCE, "a Worker of the pending job runs", || {
        let pods = home.kubectl(&[
            "get",
            "pods",
            "-l",
            "training.kubeflow.org/job-name=pending,training.kubeflow.org/job-role=worker",
            "--field-selector",
            "status.phase=Running",
            "-o",
            "name",
        ]);
        pods.stdout.lines().next().map(|line| line.trim_start_matches("pod/").to_owned())
    });
    kill_process(within(PATIENCE, "its agent runs", || first_process_of(&first)));
    restarted(&home, "pending");
    home.kubectl(&["delete", "pod", "holder", "--wait=false"]).ended(0);

    // Starting: both Workers run, the Launcher does not yet.
    kill_process(within(PATIENCE, "the agent of the starting job runs", || {
        first_process_of("starting-worker-1")
    }));
    restarted(&home, "starting");
    std::fs::write(&gate, "").expect("the file can be written");

    // Running: some epochs are done.
    within(PATIENCE, "two epochs are done", || {
        home.odh(&["training", "logs", "mpijob", "running"]).stdout.contains("epoch  2").then_some(())
    });
    kill_process(within(PATIENCE, "the agent of the running job runs", || {
        first_process_of("running-worker-1")
    }));
    restarted(&home, "running");

    for name in ["pending", "starting", "running"] {
        succeeded(&home, name, &["WorkerLost"]);
    }
    std::fs::remove_file(&gate).expect("the file can be removed");
    went_on(&home, "running");
}

/// Checks that the second attempt continued where the first was.
fn went_on(home: &Home, name: &str) {
    let logs = home.odh(&["training", "logs", "mpijob", name]).ended(0).says("going on after epoch");
    assert!(!logs.stdout.contains("epoch  1 "), "it began at the first epoch:\n{}", logs.stdout);
}

fn has_begun(home: &Home, name: &str) {
    within(PATIENCE, &format!("{name} has done two epochs"), || {
        home.odh(&["training", "logs", "mpijob", name]).stdout.contains("epoch  2").then_some(())
    });
}

/// The operator as a process of its own, which ends with the story. It is started again if it ends by itself, as a
/// Deployment does: on a machine that is busy for longer than its lease, it loses the lease and exits.
struct Operator {
    process: Arc<Mutex<Child>>,
    is_over: Arc<AtomicBool>,
    restarts: Option<JoinHandle<()>>,
}

impl Operator {
    fn start(home: &Home) -> Operator {
        // The file is written by the first command that needs it.
        home.kubectl(&["version"]).ended(0);
        let (kubeconfig, log) = (home.path().join("kubeconfig"), home.operator_log());
        let spawn = move || {
            let mut command = Command::new(places::operator());
            let arguments = ["--default-launch", "agent", "--health-address", "127.0.0.1:0"];
            command.args(arguments).args(["--lease-duration", "5", "--lock-namespace", "default"]);
            command.env("KUBECONFIG", &kubeconfig).env_remove("RUST_LOG");
            let log = File::options().create(true).append(true).open(&log).expect("the log can be opened");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            command.spawn().expect("the operator can be started")
        };
        let (process, is_over) = (Arc::new(Mutex::new(spawn())), Arc::new(AtomicBool::new(false)));
        let restarts = std::thread::spawn({
            let (process, is_over) = (process.clone(), is_over.clone());
            move || {
                while !is_over.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(200));
                    let mut process = process.lock().expect("the lock is free");
                    let has_ended = process.try_wait().expect("its state can be read").is_some();
                    if has_ended && !is_over.load(Ordering::SeqCst) {
                        *process = spawn();
                    }
                }
            }
        });
        Operator { process, is_over, restarts: Some(restarts) }
    }
}

impl Drop for Operator {
    /// Kills it with SIGKILL.
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let mut process = self.process.lock().expect("the lock is free");
        process.kill().expect("it can be killed");
        process.wait().expect("it has ended");
        drop(process);
        self.restarts.take().map(JoinHandle::join);
    }
}

#[test]
fn an_eviction_and_a_lost_node_restart_the_gang_though_the_operator_is_killed_meanwhile() {
    // Long enough that a busy machine does not lose a node that is up.
    let words = ["--nodes", "3", "--node-grace", "20s", "--no-operator"];
    let home = Home::with_cluster_and("restart::operator", &words);
    if home.mode() == "plain" {
        return;
    }
    let definition = places::repository("deploy/crd/kubeflow.org_mpijobs.yaml");
    home.kubectl(&["apply", "--server-side", "-f", &definition.to_string_lossy()]).ended(0);
    let established = "--for=condition=Established";
    home.kubectl(&["wait", established, "crd/mpijobs.kubeflow.org", "--timeout=60s"]).ended(0);
    let claim = places::repository("examples/checkpoint-claim.yaml");
    home.kubectl(&["apply", "-f", &claim.to_string_lossy()]).ended(0);
    let operator = Operator::start(&home);
    let start = |name: &str| {
        let manifest = home.write(&format!("{name}.yaml"), &example(name, 40, "", ""));
        home.kubectl(&["create", "-f", &manifest]).ended(0);
        has_begun(&home, name);
    };

    start("evicted");
    home.evict("evicted-worker-1");
    within(PATIENCE, "the eviction is seen", || {
        let pod =
            home.kubectl(&["get", "pod", "evicted-worker-1", "-o", "jsonpath={.metadata.deletionTimestamp}"]);
        (pod.code != 0 || !pod.stdout.is_empty()).then_some(())
    });
    // The operator dies while it handles the eviction.
    drop(operator);
    let operator = Operator::start(&home);
    restarted(&home, "evicted");
    // If the pod is gone before either operator has seen it evicted, all that is known is that it is lost.
    succeeded(&home, "evicted", &["Evicted", "WorkerLost"]);
    went_on(&home, "evicted");

    start("dark");
    let node = home.kubectl(&["get", "pod", "dark-worker-1", "-o", "jsonpath={.spec.nodeName}"]).ended(0);
    home.odh(&["local", "node", "down", node.stdout.trim()]).ended(0);
    restarted(&home, "dark");
    drop(operator);
    let _operator = Operator::start(&home);
    succeeded(&home, "dark", &["NodeLost"]);
    went_on(&home, "dark");
}
