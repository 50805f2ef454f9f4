//! Packets between a job's pods are dropped or rejected, from the beginning or later, or ssh is refused: the job
//! reports both ends and what to check.

use stories::{EXAMPLES_IMAGE, Home, Job, a_process_of, in_network_of, permits_root, quoted, within};

use crate::command_line::machine_has;
use crate::failures::{PATIENCE, condition, create, fails, status};
use crate::implementations::{image, image_name, implementations};

/// The ports on which Open MPI's ranks listen for one another, and on which mpirun listens for its daemons.
const RANKS: &str = "1024-2047";
const MPIRUN: &str = "32768-60999";
const CAUSE: &str = "MPI communication failure – check NetworkPolicies";

/// Two ranks that add their numbers over the network once the gate is open.
fn adding(name: &'static str, gate: &str) -> Job {
    let program =
        "from mpi4py import MPI; print('begun', flush=True); print(MPI.COMM_WORLD.allreduce(1), flush=True)";
    let mut adding = Job::python(name, program);
    adding.annotations = "training.opendatahub.io/stall-timeout: 5s";
    adding.launcher_pod = format!(
        "initContainers:
          - name: gate
            image: {EXAMPLES_IMAGE}
            command: [sh, -c, 'while [ ! -e {gate} ]; do sleep 0.1; done']"
    );
    adding
}

/// Two ranks that communicate all the time, and report when they have begun. A waiting rank yields the processor.
fn talking(name: &'static str) -> Job {
    let program = "import time\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\nworld.allreduce(1)\nif world.rank == 0: print('they talk', flush=True)\nwhile True: time.sleep(0.1); world.allreduce(1)";
    let ranks = format!("[--mca, mpi_yield_when_idle, '1', python3, -c, {}]", quoted(program));
    let mut talking = Job::new(name, &ranks);
    talking.annotations = "training.opendatahub.io/stall-timeout: 5s";
    talking
}

/// Blocks new connections from another pod to these ports of a pod, as a firewall does.
fn shut(home: &Home, pod: &str, ports: &str, other: &str, verdict: &str) {
    filter(home, pod, other, &format!("tcp dport {ports} ct state new {verdict}"));
}

/// Adds a rule for packets that one pod gets from another.
fn filter(home: &Home, pod: &str, other: &str, rule: &str) {
    let address = within(PATIENCE, &format!("{other} has an address"), || {
        let pod = home.kubectl(&["get", "pod", other, "-o", "jsonpath={.status.podIP}"]);
        (pod.code == 0 && !pod.stdout.is_empty()).then_some(pod.stdout)
    });
    let rules = format!(
        "add table inet shut; add chain inet shut in {{ type filter hook input priority 0; }}; add rule inet shut in ip saddr {address} {rule}"
    );
    in_network_of(process_of(pod), &["nft", &rules]);
}

fn process_of(pod: &str) -> i32 {
    within(PATIENCE, &format!("{pod} runs"), || a_process_of(pod))
}

#[test]
fn packets_that_do_not_arrive_are_reported_with_both_ends() {
    let home = Home::with_cluster("network::packets");
    if home.mode() == "plain" || !permits_root() || !machine_has(&home, "nft") {
        return;
    }
    let gate = home.gate("gate");
    let verdicts = ["drop", "reject with tcp reset"];
    let ranks = ["ranks-dropped", "ranks-rejected"];
    let back = ["back-dropped", "back-rejected"];
    let mut jobs: Vec<Job> = ranks.iter().chain(&back).map(|name| adding(name, &gate)).collect();
    jobs.push(talking("parted"));
    create(&home, &jobs);
    for (name, verdict) in ranks.iter().zip(verdicts) {
        let workers = [format!("{name}-worker-0"), format!("{name}-worker-1")];
        shut(&home, &workers[0], RANKS, &workers[1], verdict);
        shut(&home, &workers[1], RANKS, &workers[0], verdict);
    }
    for (name, verdict) in back.iter().zip(verdicts) {
        let worker = format!("{name}-worker-1");
        shut(&home, &format!("{name}-launcher"), MPIRUN, &worker, verdict);
        // By default the kernel retries for one or two minutes.
        in_network_of(process_of(&worker), &["sh", "-c", "echo 2 >/proc/sys/net/ipv4/tcp_syn_retries"]);
    }
    within(PATIENCE, "the ranks of a job talk to each other", || {
        home.odh(&["training", "logs", "mpijob", "parted"]).stdout.contains("they talk").then_some(())
    });
    filter(&home, "parted-worker-0", "parted-worker-1", "drop");
    std::fs::write(&gate, "").expect("the file can be written");
    for name in back {
        fails(&home, name, "CallbackBlocked", Some(1), CAUSE);
    }
    for name in ranks.into_iter().chain(["parted"]) {
        hangs(&home, name);
    }
}

/// Open MPI waits for ever; the hang, its cause and the remedy are reported.
fn hangs(home: &Home, name: &str) {
    let message = within(PATIENCE, &format!("{name} is known to hang"), || {
        let status = status(home, name);
        let stalled = condition(&status, "Stalled");
        assert!(status["completionTime"].is_null(), "{name}: {status:#}");
        (stalled["reason"] == "PeerUnreachable").then(|| stalled["message"].as_str().map(str::to_owned))?
    });
    for words in [
        CAUSE,
        &format!("{name}-worker-0"),
        &format!("{name}-worker-1"),
        "Allow all traffic between the pods",
    ] {
        assert!(message.contains(words), "{name} does not say {words:?}: {message}");
    }
    home.odh(&["training", "explain", "mpijob", name])
        .ended(0)
        .says("PeerUnreachable")
        .says("odh help causes PeerUnreachable");
}

/// A job whose second Worker refuses what the Launcher's ssh offers.
fn by_ssh(name: &str, image: &str, second: &str) -> String {
    let keys =
        "env: [{name: SSH_DIRECTORY, value: /home/mpiuser/.ssh}, {name: SSH_WAIT_SECONDS, value: '2'}]";
    format!(
        "apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: {name}
  annotations: {{training.opendatahub.io/launch: ssh}}
spec:
  sshAuthMountPath: /home/mpiuser/.ssh
  runPolicy: {{backoffLimit: 0}}
  mpiReplicaSpecs:
    Launcher:
      restartPolicy: Never
      template:
        spec:
          containers:
          - name: mpi
            image: {image}
            command: [mpirun, --allow-run-as-root, hostname]
            {keys}
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: mpi
            image: {image}
            command:
            - sh
            - -ec
            - |
              case $(hostname) in *-worker-0) exec sshd-worker;; esac
              {second}
            {keys}
"
    )
}

#[test]
fn refused_ssh_is_reported_with_the_worker_and_the_reason() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let all = implementations();
    let wheel = all.iter().find(|one| one.name == "wheel").expect("there is one from a wheel");
    let mapping = format!("{}={}", image_name(wheel), image(folder.path(), wheel).display());
    let home = Home::with_cluster_and("network::ssh", &["--image", &mapping]);
    if home.mode() == "plain" {
        return;
    }
    let other_key = "cp -r \"$SSH_DIRECTORY\" \"$TMPDIR/keys\" && cd \"$TMPDIR/keys\" && rm -f authorized_keys && ssh-keygen -q -t ed25519 -N '' -f other && cp other.pub authorized_keys && SSH_DIRECTORY=$TMPDIR/keys exec sshd-worker";
    let jobs = [
        by_ssh("refused", &image_name(wheel), "exec sleep 300"),
        by_ssh("wrong-key", &image_name(wheel), &format!("export TMPDIR=${{TMPDIR:-/tmp}}; {other_key}")),
    ];
    let manifest = home.write("ssh.yaml", &jobs.join("---\n"));
    home.kubectl(&["create", "-f", &manifest]).ended(0);
    fails(&home, "refused", "ConnectionRefused", Some(1), "refused-worker-1");
    fails(&home, "wrong-key", "AuthenticationFailed", Some(1), "wrong-key-worker-1");
}

#[test]
fn a_launcher_that_waits_for_its_workers_loses_no_time_to_a_cache_of_names() {
    let home = Home::with_cluster_and("network::negative-cache", &["--dns-negative-ttl", "10m"]);
    if home.mode() == "plain" {
        return;
    }
    let gate = home.gate("gate");
    let mut early = Job::shell("early", "echo ran");
    early.worker_pod = format!(
        "initContainers:
          - name: gate
            image: {EXAMPLES_IMAGE}
            command: [sh, -c, 'while [ ! -e {gate} ]; do sleep 0.1; done']"
    );
    create(&home, &[early]);
    within(PATIENCE, "the Launcher has asked for a name that does not exist yet", || {
        let launcher = "training.kubeflow.org/job-name=early,training.kubeflow.org/job-role=launcher";
        home.kubectl(&["logs", "-l", launcher]).stdout.contains("ould not resolve").then_some(())
    });
    std::fs::write(&gate, "").expect("the file can be written");
    within(PATIENCE, "all pods of the first job run", || {
        let status = status(&home, "early");
        (status["phase"] == "Running" && status["replicaStatuses"]["Worker"]["active"] == 2).then_some(())
    });
    let patient = Job::shell("patient", "echo ran").manifest();
    let policy = "spec:\n  launcherCreationPolicy: WaitForWorkersReady\n  runPolicy";
    let file = home.write("patient.yaml", &patient.replacen("spec:\n  runPolicy", policy, 1));
    home.odh(&["training", "create", "-f", &file, "--wait", "--timeout", "4m"]).ended(0);
    assert_eq!(status(&home, "early")["phase"], "Running", "its names are still unknown");
    let hosts = home.kubectl(&["exec", "early-worker-0", "--", "cat", "/etc/hosts"]).ended(0).stdout;
    assert!(hosts.contains("early-worker-0") && !hosts.contains("early-worker-1"), "{hosts}");
}
