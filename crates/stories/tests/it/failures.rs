//! Jobs fail in every way that people meet: each says which Worker, why, and what to do; and what was not the user's
//! fault goes on by itself. Many jobs share a cluster, and fail beside one another.

use std::time::Duration;

use serde_json::Value;
use stories::{EXAMPLES_IMAGE, Home, places, within};

/// How long a failure may take to be told, on a machine that is busy with other stories.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A job of two Workers whose Launcher is not tried again.
pub struct Job {
    pub name: &'static str,
    pub annotations: &'static str,
    /// What mpirun starts, as arguments in YAML's flow style.
    pub ranks: String,
    pub workers: usize,
    /// More lines of the Launcher's and of the Workers' container, and of their pods.
    pub launcher: &'static str,
    pub launcher_pod: String,
    pub worker: &'static str,
    pub worker_pod: String,
}

pub fn job(name: &'static str, ranks: &str) -> Job {
    Job {
        name,
        annotations: "",
        ranks: ranks.to_owned(),
        workers: 2,
        launcher: "",
        launcher_pod: String::new(),
        worker: "",
        worker_pod: String::new(),
    }
}

/// Ranks that run a line of shell.
pub fn shell(name: &'static str, line: &str) -> Job {
    job(name, &format!("[sh, -c, {}]", serde_json::to_string(line).expect("a line is a string")))
}

impl Job {
    fn manifest(&self) -> String {
        let Job { name, annotations, ranks, workers, launcher, launcher_pod, worker, worker_pod } = self;
        format!(
            "apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: {name}
  annotations: {{{annotations}}}
spec:
  runPolicy: {{backoffLimit: 0}}
  mpiReplicaSpecs:
    Launcher:
      restartPolicy: Never
      template:
        spec:
          {launcher_pod}
          containers:
          - name: mpi
            image: {EXAMPLES_IMAGE}
            command: [mpirun, --allow-run-as-root]
            args: {ranks}
            {launcher}
    Worker:
      replicas: {workers}
      template:
        spec:
          {worker_pod}
          containers:
          - name: mpi
            image: {EXAMPLES_IMAGE}
            {worker}
"
        )
    }
}

pub fn create(home: &Home, jobs: &[Job]) {
    let all: Vec<String> = jobs.iter().map(Job::manifest).collect();
    let file = home.write(&format!("{}.yaml", jobs[0].name), &all.join("---\n"));
    home.kubectl(&["create", "-f", &file]).ended(0);
}

pub fn status(home: &Home, name: &str) -> Value {
    home.odh(&["training", "get", "mpijob", name, "-o", "json"]).json()["status"].clone()
}

/// The job's end; `phase` is the one that it should end in.
pub fn ended(home: &Home, name: &str, phase: &str) -> Value {
    within(PATIENCE, &format!("{name} has ended"), || {
        let status = status(home, name);
        assert!(
            status["phase"] == phase
                || !["Failed", "Succeeded"].contains(&status["phase"].as_str().unwrap_or("")),
            "{name} should be {phase}: {status:#}"
        );
        (status["phase"] == phase).then_some(status)
    })
}

/// The job has failed for this cause, on this Worker, and says what to do and where to read more.
pub fn fails(home: &Home, name: &str, cause: &str, worker: Option<i64>, words: &str) {
    let status = ended(home, name, "Failed");
    let failure = &status["failure"];
    let found = (failure["reason"].as_str(), failure["worker"].as_i64());
    assert_eq!(found, (Some(cause), worker), "{name}: {status:#}");
    let message = failure["message"].as_str().unwrap_or_default();
    assert!(message.contains(words), "{name} does not say {words:?}: {status:#}");
    assert!(failure["suggestion"].as_str().is_some_and(|advice| advice.len() > 20), "{name}: {status:#}");
    let link = format!("#{}", cause.to_lowercase());
    assert!(failure["link"].as_str().is_some_and(|it| it.ends_with(&link)), "{name}: {status:#}");
    assert_eq!(status["phaseReason"], cause, "{name}");
    home.odh(&["training", "describe", "mpijob", name]).ended(0).says(message);
}

#[test]
fn ranks_that_die_are_named_with_their_worker() {
    let home = Home::with_cluster("failures::ranks");
    // In plain mode a rank's parent is a daemon like any other, and host names are the machine's.
    let isolated = home.mode() != "plain";
    let on_rank_1 = |line: &str| format!("if [ \"$OMPI_COMM_WORLD_RANK\" = 1 ]; then {line}; fi; sleep 300");
    let mut missing = shell("missing", "true");
    missing.ranks = "[/data/train, '300']".to_owned();
    missing.worker = "volumeMounts: [{name: data, mountPath: /data}]";
    missing.worker_pod = "volumes: [{name: data, emptyDir: {}}]
          initContainers:
          - name: install
            image: quay.io/opendatahub/mpi-examples:openmpi
            command: [sh, -c, \"case $(hostname) in *-worker-0) cp \\\"$(command -v sleep)\\\" /data/train;; esac\"]
            volumeMounts: [{name: data, mountPath: /data}]"
        .to_owned();
    let abort = "from mpi4py import MPI\nworld = MPI.COMM_WORLD\nworld.Barrier()\nif world.rank == 1: world.Abort(42)\nworld.Barrier()";
    let abort = serde_json::to_string(abort).expect("a program is a string");
    let mut jobs = vec![
        shell("killed", &on_rank_1("kill -9 $$$$")),
        shell("crashed", &on_rank_1("kill -SEGV $$$$")),
        shell("exited", &on_rank_1("echo no data >&2; exit 3")),
        job("aborted", &format!("[python3, -c, {abort}]")),
        shell("wrong-option", "true"),
    ];
    jobs[4].ranks = "[--no-such-option, hostname]".to_owned();
    if isolated {
        jobs.push(shell("daemon", &on_rank_1("kill -9 $PPID")));
        jobs.push(missing);
    }
    create(&home, &jobs);
    fails(&home, "killed", "RankKilled", Some(1), "killed by signal 9");
    fails(&home, "crashed", "RankCrashed", Some(1), "11");
    fails(&home, "exited", "RankExited", Some(1), "exited with code 3");
    fails(&home, "aborted", "RankAborted", Some(1), "42");
    let refused = ended(&home, "wrong-option", "Failed");
    assert!(refused["failure"]["evidence"][0].is_string(), "{refused:#}");
    if isolated {
        fails(&home, "daemon", "DaemonLost", Some(1), "daemon");
        fails(&home, "missing", "ExecutableNotFound", Some(1), "/data/train");
    }
    // What is on record stays when the pods have gone.
    home.kubectl(&["delete", "pods", "--all", "--wait=false"]).ended(0);
    home.kubectl(&["get", "configmap", "exited-attempt-1", "-o", "yaml"])
        .ended(0)
        .says("no data")
        .says("RankExited");
    for job in &jobs {
        let attempts = status(&home, job.name)["attempts"].as_array().map_or(0, Vec::len);
        assert_eq!(attempts, 1, "{} is the user's error and must not be tried again", job.name);
    }
}

#[test]
fn what_the_cluster_does_to_a_job_is_told() {
    let words = ["--nodes", "3", "--gpus", "8", "--node-grace", "10s"];
    let home = Home::with_cluster_and("failures::cluster", &words);
    let isolated = home.mode() != "plain";
    let mut gpus = shell("gpus", "true");
    gpus.workers = 4;
    gpus.worker = "resources: {limits: {nvidia.com/gpu: 8}}";
    let mut secret = shell("secret", "true");
    secret.annotations = "training.opendatahub.io/start-timeout: 30s";
    secret.worker = "env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: no-such-secret, key: token}}}]";
    // A program of MPICH under Open MPI's mpirun.
    let mut foreign = shell("foreign", "true");
    let python = places::mpich_environment().join("bin/python3");
    foreign.ranks = format!("[{}, -c, 'from mpi4py import MPI']", python.display());
    // One that does not know that it was started by any, as its environment was taken from it.
    let mut alone = shell("alone", "true");
    alone.ranks = format!(
        "[env, -i, {}, -c, \"from mpi4py.MPI import COMM_WORLD as w; print('rank', w.rank, 'of', w.size)\"]",
        python.display()
    );
    let mut silent = shell(
        "silent",
        "if [ \"$OMPI_COMM_WORLD_RANK\" = 0 ]; then while [ ! -e \"$GO\" ]; do sleep 1; done; for i in 1 2 3 4 5 6 7 8; do echo goes on; sleep 1; done; else sleep 1; fi",
    );
    silent.annotations = "training.opendatahub.io/stall-timeout: 3s";
    // Not below /tmp, of which every pod has one of its own.
    let go = format!("{}/go-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    silent.ranks = silent.ranks.replace("$GO", &go);
    let mut memory = shell("memory", "true");
    memory.ranks = "[python3, -c, \"x = bytearray(400 << 20); print(len(x))\"]".to_owned();
    memory.worker = "resources: {limits: {memory: 128Mi}}";
    create(
        &home,
        &[
            gpus,
            secret,
            foreign,
            alone,
            silent,
            memory,
            shell("evicted", "sleep 300"),
            shell("dark", "sleep 300"),
        ],
    );
    for name in ["evicted", "dark"] {
        within(PATIENCE, &format!("{name} runs"), || {
            (status(&home, name)["phase"] == "Running").then_some(())
        });
    }
    waits_for_gpus(&home, "gpus");
    is_evicted(&home, "evicted");
    fails(&home, "secret", "MissingReference", Some(0), "no-such-secret");
    let foreign = ended(&home, "foreign", "Failed");
    assert_eq!(foreign["failure"]["reason"], "WrongMpi", "{foreign:#}");
    // Here every rank is alone, and the job succeeds all the same.
    let alone = ended(&home, "alone", "Succeeded");
    let world = condition(&alone, "WorldVerified");
    assert_eq!((&world["status"], &world["reason"]), (&"False".into(), &"WrongMpi".into()), "{alone:#}");
    home.odh(&["training", "describe", "mpijob", "alone"]).ended(0).says("WrongMpi");
    stalls_and_goes_on(&home, "silent", &go);
    wants_too_much_memory(&home, "memory");
    if isolated {
        loses_its_node(&home, "dark");
    }
}

/// Nobody has so many GPUs.
fn waits_for_gpus(home: &Home, name: &str) {
    let waiting = within(PATIENCE, "the job says that it waits for GPUs", || {
        let status = status(home, name);
        (status["waiting"]["reason"] == "Unschedulable").then_some(status)
    });
    assert_eq!(waiting["phase"], "Pending", "{waiting:#}");
}

/// Evicted through the API, as a drain does it.
fn is_evicted(home: &Home, name: &str) {
    let eviction = home.write(
        "eviction.json",
        r#"{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted-worker-1", "namespace": "default"}}"#,
    );
    let path = "/api/v1/namespaces/default/pods/evicted-worker-1/eviction";
    home.kubectl(&["create", "--raw", path, "-f", &eviction]).ended(0);
    fails(home, name, "Evicted", Some(1), "evicted");
}

/// Silence is told, with what was looked at, and fails nothing.
fn stalls_and_goes_on(home: &Home, name: &str, go: &str) {
    within(PATIENCE, "the silent job is stalled", || {
        let stalled = condition(&status(home, name), "Stalled");
        (stalled["status"] == "True" && stalled["message"].as_str()?.contains("2 of 2 Workers are ready"))
            .then_some(())
    });
    std::fs::write(go, "").expect("the file can be written");
    within(PATIENCE, "the silent job goes on", || {
        (condition(&status(home, name), "Stalled")["status"] == "False").then_some(())
    });
    ended(home, name, "Succeeded");
    std::fs::remove_file(go).expect("the file can be removed");
}

/// Where limits are not enforced the job says so, and nobody is killed.
fn wants_too_much_memory(home: &Home, name: &str) {
    let memory = within(PATIENCE, "the job that wants memory has ended", || {
        let status = status(home, name);
        ["Failed", "Succeeded"].contains(&status["phase"].as_str()?).then_some(status)
    });
    if condition(&memory, "LimitsNotEnforced")["status"] == "True" {
        assert_eq!(memory["phase"], "Succeeded", "{memory:#}");
    } else {
        // The Worker's first process lives on; that a rank was killed, and that memory may be why, is all that is known.
        let failure = &memory["failure"];
        assert!(
            ["OutOfMemory", "RankKilled"].contains(&failure["reason"].as_str().unwrap_or("")),
            "{memory:#}"
        );
        assert!(failure["suggestion"].as_str().is_some_and(|it| it.contains("memory")), "{memory:#}");
    }
}

/// A power cut.
fn loses_its_node(home: &Home, name: &str) {
    let pod = home.kubectl(&["get", "pod", "dark-worker-1", "-o", "jsonpath={.spec.nodeName}"]).ended(0);
    home.odh(&["local", "node", "down", pod.stdout.trim()]).ended(0);
    let status = ended(home, name, "Failed");
    assert_eq!(status["failure"]["reason"], "NodeLost", "{status:#}");
    assert!(
        status["failure"]["message"].as_str().is_some_and(|it| it.contains(pod.stdout.trim())),
        "{status:#}"
    );
    home.odh(&["local", "node", "up", pod.stdout.trim()]).ended(0);
}

pub fn condition(status: &Value, type_: &str) -> Value {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default()
}
