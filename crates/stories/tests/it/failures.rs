//! Jobs fail in all the ways that people meet. Each reports which Worker, why, and what to do; failures that are
//! not the user's fault are retried. Many jobs share a cluster and fail side by side.

use std::time::Duration;

use serde_json::Value;
use stories::{Home, Job, places, quoted, within};

/// How long it may take to report a failure, on a machine that is busy with other stories.
pub const PATIENCE: Duration = Duration::from_secs(240);

pub fn create(home: &Home, jobs: &[Job]) {
    let all: Vec<String> = jobs.iter().map(Job::manifest).collect();
    let file = home.write(&format!("{}.yaml", jobs[0].name), &all.join("---\n"));
    home.kubectl(&["create", "-f", &file]).ended(0);
}

pub fn status(home: &Home, name: &str) -> Value {
    home.odh(&["training", "get", "mpijob", name, "-o", "json"]).json()["status"].clone()
}

/// Waits for the job's end, which must be in this phase.
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

/// Checks that the job has failed for this cause, on this Worker, and says what to do and where to read more.
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
    // In plain mode a rank's parent is an ordinary daemon, and host names are the machine's.
    let isolated = home.mode() != "plain";
    // Open MPI 4's mpirun does not name a rank that ends before mpirun knows that all of them run.
    let on_rank_1 =
        |line: &str| format!("if [ \"$OMPI_COMM_WORLD_RANK\" = 1 ]; then sleep 2; {line}; fi; sleep 300");
    let mut missing = Job::shell("missing", "true");
    missing.ranks = "[/data/train, '300']".to_owned();
    missing.worker = "volumeMounts: [{name: data, mountPath: /data}]".to_owned();
    missing.worker_pod = "volumes: [{name: data, emptyDir: {}}]
          initContainers:
          - name: install
            image: quay.io/opendatahub/mpi-examples:openmpi
            command: [sh, -c, \"case $(hostname) in *-worker-0) cp \\\"$(command -v sleep)\\\" /data/train;; esac\"]
            volumeMounts: [{name: data, mountPath: /data}]"
        .to_owned();
    let abort = "from mpi4py import MPI\nworld = MPI.COMM_WORLD\nworld.Barrier()\nif world.rank == 1: world.Abort(42)\nworld.Barrier()";
    let mut jobs = vec![
        Job::shell("killed", &on_rank_1("kill -9 $$$$")),
        Job::shell("crashed", &on_rank_1("kill -SEGV $$$$")),
        Job::shell("exited", &on_rank_1("echo no data >&2; exit 3")),
        Job::python("aborted", abort),
        Job::shell("wrong-option", "true"),
    ];
    jobs[4].ranks = "[--no-such-option, hostname]".to_owned();
    if isolated {
        jobs.push(missing);
    }
    // Restarts are allowed, but these failures must not cause one.
    jobs.iter_mut().for_each(|job| job.annotations = "training.opendatahub.io/max-gang-restarts: '2'");
    if isolated {
        jobs.push(Job::shell("daemon", &on_rank_1("kill -9 $PPID")));
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
    // The record stays when the pods are gone.
    home.kubectl(&["delete", "pods", "--all", "--wait=false"]).ended(0);
    home.kubectl(&["get", "configmap", "exited-attempt-1", "-o", "yaml"])
        .ended(0)
        .says("no data")
        .says("RankExited");
    for job in &jobs {
        let attempts = status(&home, job.name)["attempts"].as_array().map_or(0, Vec::len);
        assert_eq!(attempts, 1, "{} must not be tried again", job.name);
    }
}

#[test]
fn what_the_cluster_does_to_a_job_is_reported() {
    let words = ["--nodes", "3", "--gpus", "8", "--node-grace", "10s"];
    let home = Home::with_cluster_and("failures::cluster", &words);
    let isolated = home.mode() != "plain";
    let mut gpus = Job::shell("gpus", "true");
    gpus.workers = 4;
    gpus.worker = "resources: {limits: {nvidia.com/gpu: 8}}".to_owned();
    let mut secret = Job::shell("secret", "true");
    secret.annotations = "training.opendatahub.io/start-timeout: 30s";
    secret.worker =
        "env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: no-such-secret, key: token}}}]".to_owned();
    // A program of MPICH under Open MPI's mpirun.
    let mut foreign = Job::shell("foreign", "true");
    let python = places::mpich_environment().join("bin/python3");
    foreign.ranks = format!("[{}, -c, 'from mpi4py import MPI']", python.display());
    // One that does not know that mpirun started it, because its environment was removed.
    let mut alone = Job::shell("alone", "true");
    alone.ranks = format!(
        "[env, -i, {}, -c, \"from mpi4py.MPI import COMM_WORLD as w; print('rank', w.rank, 'of', w.size)\"]",
        python.display()
    );
    // Ranks that print nothing: on both Workers, and both on one, which has a single slot.
    let quiet = Job::shell("quiet", "sleep 3");
    let one = "collapsed-worker-0.collapsed.default.svc:2";
    let collapsed = Job::new("collapsed", &format!("[-n, '2', --host, '{one}', sleep, '3']"));
    // One rank succeeds, and mpirun waits for the other.
    let mut half =
        Job::shell("half", "if [ \"$OMPI_COMM_WORLD_RANK\" = 1 ]; then sleep 2; else sleep 600; fi");
    half.annotations = "training.opendatahub.io/stall-timeout: 3s";
    let mut silent = Job::shell(
        "silent",
        "if [ \"$OMPI_COMM_WORLD_RANK\" = 0 ]; then while [ ! -e \"$GO\" ]; do sleep 1; done; for i in 1 2 3 4 5 6 7 8; do echo goes on; sleep 1; done; else sleep 1; fi",
    );
    silent.annotations = "training.opendatahub.io/stall-timeout: 3s";
    let go = home.gate("go");
    silent.ranks = silent.ranks.replace("$GO", &go);
    let hungry = "import os, time; x = bytearray((400 << 20) * int(os.environ['OMPI_COMM_WORLD_RANK'])); print(len(x)); time.sleep(2)";
    let mut memory = Job::python("memory", hungry);
    memory.worker = "resources: {limits: {memory: 128Mi}}".to_owned();
    create(
        &home,
        &[
            gpus,
            secret,
            foreign,
            alone,
            quiet,
            collapsed,
            half,
            silent,
            memory,
            Job::shell("evicted", "sleep 300"),
            Job::shell("dark", "sleep 300"),
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
    // Every Worker has the same program, so no single one is named.
    fails(&home, "foreign", "WrongMpi", None, "another MPI");
    // Here every rank is alone, and the job still succeeds.
    has_its_world_verified(&home, "alone", "False", "WrongMpi", "");
    home.odh(&["training", "describe", "mpijob", "alone"]).ended(0).says("WrongMpi");
    has_its_world_verified(&home, "quiet", "True", "RanksSeen", "2 ranks were seen on 2 Workers");
    has_its_world_verified(
        &home,
        "collapsed",
        "False",
        "Collapsed",
        "2 ranks ran on collapsed-worker-0 only",
    );
    stalls_and_goes_on(&home, "silent", &go);
    wants_too_much_memory(&home, "memory");
    explains_a_silence_by_ranks_that_ended(&home, "half");
    if isolated {
        loses_its_node(&home, "dark");
    }
}

/// No node has so many GPUs.
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

/// It succeeds, with this result for where its ranks ran.
fn has_its_world_verified(home: &Home, name: &str, verified: &str, reason: &str, words: &str) {
    let status = ended(home, name, "Succeeded");
    let world = condition(&status, "WorldVerified");
    assert_eq!((&world["status"], &world["reason"]), (&verified.into(), &reason.into()), "{status:#}");
    assert!(world["message"].as_str().is_some_and(|message| message.contains(words)), "{status:#}");
}

/// The silence is reported with the evidence, and fails nothing.
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

/// The other ranks may wait for them; the job does not fail for that.
fn explains_a_silence_by_ranks_that_ended(home: &Home, name: &str) {
    within(PATIENCE, "a rank that has ended explains the others' silence", || {
        let stalled = condition(&status(home, name), "Stalled");
        let words = format!("Ranks 1 on {name}-worker-1 have ended");
        (stalled["reason"] == "SilentHang" && stalled["message"].as_str()?.contains(&words)).then_some(())
    });
}

/// If limits are not enforced, the job says so, and nothing is killed.
fn wants_too_much_memory(home: &Home, name: &str) {
    let memory = within(PATIENCE, "the job that wants memory has ended", || {
        let status = status(home, name);
        ["Failed", "Succeeded"].contains(&status["phase"].as_str()?).then_some(status)
    });
    if condition(&memory, "LimitsNotEnforced")["status"] == "True" {
        assert_eq!(memory["phase"], "Succeeded", "{memory:#}");
    } else {
        // The Worker's first process survives, so it was the launch agent that saw the memory limit as the reason.
        fails(home, name, "OutOfMemory", Some(1), "memory limit (128 MiB) was exceeded");
        assert!(
            memory["failure"]["suggestion"].as_str().is_some_and(|it| it.contains("memory")),
            "{memory:#}"
        );
    }
}

/// As a kubelet reports it whose registry requires credentials. This cluster pulls no images, so the test plays the
/// kubelet of a node that nothing else runs.
fn has_an_image_that_cannot_be_pulled(home: &Home) {
    let node = home.write(
        "node.yaml",
        "apiVersion: v1\nkind: Node\nmetadata: {name: elsewhere}\nspec: {taints: [{key: elsewhere, effect: NoSchedule}]}\n",
    );
    home.kubectl(&["create", "-f", &node]).ended(0);
    let mut pull = Job::shell("pull", "true");
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

/// One Worker is admitted, the other is not.
fn exceeds_a_quota(home: &Home) {
    home.kubectl(&["create", "namespace", "tight"]).ended(0);
    home.kubectl(&["create", "quota", "pods", "--hard=pods=1", "-n", "tight"]).ended(0);
    let manifest = home.write("quota.yaml", &Job::shell("quota", "true").manifest());
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
    // If both Workers are on it, the first is named.
    let worker = if node_of(0) == node { 0 } else { 1 };
    home.odh(&["local", "node", "down", &node]).ended(0);
    fails(home, name, "NodeLost", Some(worker), &node);
    home.odh(&["local", "node", "up", &node]).ended(0);
}

pub fn condition(status: &Value, type_: &str) -> Value {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default()
}

#[test]
fn a_launcher_that_is_restarted_in_place_shows_the_run_that_failed() {
    let home = Home::with_cluster("failures::in-place");
    let mark = home.gate("mark");
    let script = format!(
        "if [ -e {mark} ]; then trap '' TERM; echo the next run; while :; do sleep 0.2; done; fi; touch {mark}; echo the first run; exit 3"
    );
    let mut job = Job::shell("in-place", "true");
    job.restart_policy = "OnFailure";
    // The next run ignores that it is asked to end, so the pod is still there when the job has failed.
    job.launcher_pod = "terminationGracePeriodSeconds: 20".to_owned();
    let program = format!("command: [sh, -c, {}]\n            args: []", quoted(&script));
    let manifest = job
        .manifest()
        .replace("command: [mpirun, --allow-run-as-root]\n            args: [sh, -c, \"true\"]", &program);
    assert!(manifest.contains("the first run"), "{manifest}");
    let file = home.write("in-place.yaml", &manifest);
    let failed = home.odh(&["training", "create", "-f", &file, "--wait"]).ended(100);
    let explained = home.odh(&["training", "explain", "mpijob", "in-place"]).ended(0);
    for shown in [failed.stdout + &failed.stderr, explained.stdout] {
        assert!(shown.contains("exit code 3") && !shown.contains("143"), "{shown}");
        assert!(shown.contains("the first run") && !shown.contains("the next run"), "{shown}");
    }
}
