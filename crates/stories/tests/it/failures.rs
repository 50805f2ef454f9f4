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

/// Whether Open MPI's mpirun ended without its last text, the one that names the rank, as it does now and then on a busy
/// machine: then nobody knows the Worker.
fn is_rank_untold(home: &Home, name: &str, cause: &str) -> bool {
    let told = ["noticed that process rank", "detected that one or more processes"];
    let record = home.kubectl(&["get", "configmap", &format!("{name}-attempt-1"), "-o", "yaml"]).stdout;
    ["RankKilled", "RankCrashed", "RankExited"].contains(&cause)
        && !told.iter().any(|text| record.contains(text))
}

/// The job has failed for this cause, on this Worker, and says what to do and where to read more.
pub fn fails(home: &Home, name: &str, cause: &str, worker: Option<i64>, words: &str) {
    let status = ended(home, name, "Failed");
    let failure = &status["failure"];
    assert_eq!(failure["reason"], cause, "{name}: {status:#}");
    let named = failure["worker"].as_i64();
    assert!(named == worker || named.is_none() && is_rank_untold(home, name, cause), "{name}: {status:#}");
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
    let hungry = "import os, time; x = bytearray((400 << 20) * int(os.environ['OMPI_COMM_WORLD_RANK'])); print(len(x)); time.sleep(2)";
    memory.ranks =
        format!("[python3, -c, {}]", serde_json::to_string(hungry).expect("a program is a string"));
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
    home.evict("evicted-worker-1");
    fails(&home, "evicted", "Evicted", Some(1), "evicted");
    has_an_image_that_cannot_be_pulled(&home);
    exceeds_a_quota(&home);
    fails(&home, "secret", "MissingReference", Some(0), "no-such-secret");
    // Every Worker has the same program: it is nobody's in particular.
    fails(&home, "foreign", "WrongMpi", None, "another MPI");
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
    let told = &waiting["waiting"];
    assert_eq!(told["message"], "Insufficient GPUs: requested 32, available 24", "{waiting:#}");
    assert!(told["suggestion"].as_str().is_some_and(|it| it.contains("add nodes")), "{waiting:#}");
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
        // The Worker's first process lives on: that memory was the reason is what the launch agent saw.
        fails(home, name, "OutOfMemory", Some(1), "memory limit (128 MiB) was exceeded");
        assert!(
            memory["failure"]["suggestion"].as_str().is_some_and(|it| it.contains("memory")),
            "{memory:#}"
        );
    }
}

/// As a kubelet has it whose registry wants to know who asks: this cluster pulls no images, so a node that nobody runs stands
/// in for one that does.
fn has_an_image_that_cannot_be_pulled(home: &Home) {
    let node = home.write(
        "node.yaml",
        "apiVersion: v1\nkind: Node\nmetadata: {name: elsewhere}\nspec: {taints: [{key: elsewhere, effect: NoSchedule}]}\n",
    );
    home.kubectl(&["create", "-f", &node]).ended(0);
    let mut pull = shell("pull", "true");
    pull.annotations = "training.opendatahub.io/start-timeout: 5s";
    pull.worker_pod = "nodeName: elsewhere".to_owned();
    create(home, &[pull]);
    within(PATIENCE, "its second Worker is there", || {
        (home.kubectl(&["get", "pod", "pull-worker-1"]).code == 0).then_some(())
    });
    let why = r#"Back-off pulling image \"registry.example/train:1\": ErrImagePull: rpc error: code = Unknown desc = unauthorized: authentication required"#;
    let status = format!(
        r#"{{"status": {{"phase": "Pending", "conditions": [{{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}}],
            "containerStatuses": [{{"name": "mpi", "image": "registry.example/train:1", "imageID": "", "ready": false, "restartCount": 0,
            "state": {{"waiting": {{"reason": "ImagePullBackOff", "message": "{why}"}}}}}}]}}}}"#
    );
    home.kubectl(&["patch", "pod", "pull-worker-1", "--subresource=status", "--type=merge", "-p", &status])
        .ended(0);
    fails(
        home,
        "pull",
        "ImagePull",
        Some(1),
        "Failed to pull image 'registry.example/train:1': authentication required",
    );
}

/// One Worker is let in, the other is not.
fn exceeds_a_quota(home: &Home) {
    home.kubectl(&["create", "namespace", "tight"]).ended(0);
    home.kubectl(&["create", "quota", "pods", "--hard=pods=1", "-n", "tight"]).ended(0);
    let manifest = home.write("quota.yaml", &shell("quota", "true").manifest());
    home.kubectl(&["create", "-n", "tight", "-f", &manifest]).ended(0);
    let waiting = within(PATIENCE, "the job says that a quota holds it up", || {
        let job = home.odh(&["training", "get", "mpijob", "quota", "-n", "tight", "-o", "json"]).json();
        let waiting = job["status"]["waiting"].clone();
        (waiting["reason"] == "QuotaExceeded").then_some(waiting)
    });
    let message = waiting["message"].as_str().unwrap_or_default();
    for words in ["Quota exceeded", "requested: pods=1, used: pods=1, limited: pods=1"] {
        assert!(message.contains(words), "{waiting:#}");
    }
    assert!(
        waiting["suggestion"].as_str().is_some_and(|it| it.contains("ask an administrator")),
        "{waiting:#}"
    );
    home.odh(&["training", "explain", "mpijob", "quota", "-n", "tight"]).ended(0).says("QuotaExceeded");
}

/// A power cut.
fn loses_its_node(home: &Home, name: &str) {
    let node_of = |index: i64| {
        let pod = format!("{name}-worker-{index}");
        home.kubectl(&["get", "pod", &pod, "-o", "jsonpath={.spec.nodeName}"]).ended(0).stdout
    };
    let node = node_of(1);
    // Of two Workers on it the first is named.
    let worker = if node_of(0) == node { 0 } else { 1 };
    home.odh(&["local", "node", "down", &node]).ended(0);
    fails(home, name, "NodeLost", Some(worker), &node);
    home.odh(&["local", "node", "up", &node]).ended(0);
}

pub fn condition(status: &Value, type_: &str) -> Value {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default()
}
