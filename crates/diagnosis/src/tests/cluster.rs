//! Failures that are visible in statuses and events.

use super::super::{
    ContainerFacts, Diagnosis, Ending, Facts, Gpus, Output, PodFacts, Terminated, World, diagnose,
};

fn told(facts: &Facts, text: &str, ending: Ending) -> Diagnosis {
    diagnose(&Output::from(text), ending, facts).unwrap()
}

fn worker(name: &str) -> PodFacts {
    PodFacts { name: name.to_owned(), worker: true, ..PodFacts::default() }
}

fn with_event(reason: &str, message: &str) -> Facts {
    let pod = PodFacts { events: vec![(reason.to_owned(), message.to_owned())], ..worker("train-worker-1") };
    Facts { pods: vec![pod], ..Facts::default() }
}

fn with_job_event(message: &str) -> Facts {
    Facts { events: vec![("FailedCreate".to_owned(), message.to_owned())], ..Facts::default() }
}

fn with_condition(kind: &str, reason: &str, message: &str) -> Facts {
    let conditions = vec![(kind.to_owned(), reason.to_owned(), message.to_owned())];
    Facts { pods: vec![PodFacts { conditions, ..worker("train-worker-1") }], ..Facts::default() }
}

fn with_waiting(reason: &str, message: &str) -> Facts {
    let waiting = Some((reason.to_owned(), message.to_owned()));
    let container = ContainerFacts { name: "mpi".to_owned(), waiting, ..ContainerFacts::default() };
    Facts {
        pods: vec![PodFacts { containers: vec![container], ..worker("train-worker-1") }],
        ..Facts::default()
    }
}

fn with_end(reason: &str, exit_code: i32, message: &str) -> Facts {
    let terminated = Some(Terminated { exit_code, reason: reason.to_owned(), message: message.to_owned() });
    let memory_limit = Some("16Gi".to_owned());
    let container =
        ContainerFacts { name: "mpi".to_owned(), terminated, memory_limit, ..ContainerFacts::default() };
    Facts {
        pods: vec![PodFacts { containers: vec![container], ..worker("train-worker-1") }],
        ..Facts::default()
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn statuses_and_events_get_their_cause() {
    let unschedulable = "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint {gpu: true}. preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling.";
    let lost = PodFacts {
        lost_node: Some(("gpu-7".to_owned(), "Kubelet stopped posting node status.".to_owned())),
        ..worker("train-worker-1")
    };
    let evicted = PodFacts {
        failure: Some(("Evicted".to_owned(), "The node was low on resource: memory.".to_owned())),
        ..worker("train-worker-1")
    };
    let deleted = PodFacts { deleted: true, ..worker("train-worker-1") };
    let one = |pod: PodFacts| Facts { pods: vec![pod], ..Facts::default() };
    for (facts, cause) in [
        (with_end("OOMKilled", 137, ""), "OutOfMemory"),
        (with_end("Error", 137, ""), "RankKilled"),
        (with_end("Error", 1, ""), "WorkerLost"),
        (
            with_end(
                "StartError",
                128,
                "failed to create task: exec: \"/usr/sbin/sshd\": executable file not found in $PATH: unknown",
            ),
            "ExecutableNotFound",
        ),
        (with_end("StartError", 128, "no command specified"), "ExecutableNotFound"),
        (one(evicted), "Evicted"),
        (with_condition("DisruptionTarget", "EvictionByEvictionAPI", "Eviction API: evicting"), "Evicted"),
        (
            with_condition(
                "DisruptionTarget",
                "PreemptionByScheduler",
                "default-scheduler: preempting to accommodate a higher priority pod",
            ),
            "Preempted",
        ),
        (
            with_condition(
                "DisruptionTarget",
                "DeletionByTaintManager",
                "Taint manager: deleting due to NoExecute taint",
            ),
            "NodeLost",
        ),
        (one(lost), "NodeLost"),
        (one(deleted), "WorkerLost"),
        (with_condition("PodScheduled", "Unschedulable", unschedulable), "Unschedulable"),
        (
            with_condition(
                "PodScheduled",
                "Unschedulable",
                "persistentvolumeclaim \"datasets\" not found. not found",
            ),
            "MissingReference",
        ),
        (
            with_event(
                "FailedMount",
                "MountVolume.SetUp failed for volume \"keys\" : secret \"train-ssh\" not found",
            ),
            "MissingReference",
        ),
        (with_waiting("CreateContainerConfigError", "configmap \"settings\" not found"), "MissingReference"),
        (with_waiting("CrashLoopBackOff", "back-off 40s restarting failed container=mpi"), "CrashLoop"),
        (
            with_waiting("ImagePullBackOff", "Back-off pulling image \"registry.example/train:1\""),
            "ImagePull",
        ),
        (
            with_waiting(
                "InvalidImageName",
                "Failed to apply default image tag \"Train:1\": couldn't parse image name",
            ),
            "ImagePull",
        ),
        (
            with_job_event(
                "Error creating: pods \"w\" is forbidden: exceeded quota: compute, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=20, limited: requests.nvidia.com/gpu=24",
            ),
            "QuotaExceeded",
        ),
        (with_job_event("Quota exceeded: 5/5 jobs running"), "QuotaExceeded"),
        (
            with_job_event(
                "Error creating: pods \"w\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false",
            ),
            "AdmissionRefused",
        ),
        (
            with_job_event(
                "Error creating: pods \"w\" is forbidden: unable to validate against any security context constraint: [provider anyuid: Forbidden]",
            ),
            "AdmissionRefused",
        ),
        (
            with_job_event("pods \"w\" is forbidden: no PriorityClass with name nosuch was found"),
            "MissingReference",
        ),
        (with_job_event("pods \"w\" is forbidden: a rule that nobody has heard of"), "AdmissionRefused"),
        (
            with_job_event("Pod \"w\" is invalid: spec.containers[0].image: Required value"),
            "AdmissionRefused",
        ),
        (
            with_job_event(
                "Error creating: admission webhook \"policy.example\" denied the request: image is not signed",
            ),
            "AdmissionRefused",
        ),
    ] {
        let diagnosis = told(&facts, "", Ending::Unknown);
        assert_eq!(diagnosis.cause.word(), cause, "{facts:#?}\n{diagnosis:#?}");
        assert!(diagnosis.evidence.iter().all(|evidence| evidence.line.is_none()));
        if !facts.pods.is_empty() {
            assert_eq!(diagnosis.worker.as_deref(), Some("train-worker-1"), "{diagnosis:#?}");
        }
    }
}

#[test]
fn the_promised_sentences_appear_word_for_word() {
    let out_of_memory = told(&with_end("OOMKilled", 137, ""), "", Ending::Exited(137));
    assert_eq!(out_of_memory.message, "exit code 137 (OOMKilled) – memory limit (16 GB) exceeded");
    assert!(out_of_memory.suggestion.contains("Increase memory allocation"));
    assert!(out_of_memory.suggestion.contains("Reduce batch size"));

    let pull = told(
        &with_event(
            "Failed",
            "Failed to pull image \"registry.example/team/train:1\": rpc error: code = Unknown desc = Error response from daemon: unauthorized: authentication required",
        ),
        "",
        Ending::Unknown,
    );
    assert_eq!(pull.message, "Failed to pull image 'registry.example/team/train:1': authentication required");

    let message = "0/5 nodes are available: 5 Insufficient nvidia.com/gpu. preemption: 0/5 nodes are available: 5 No preemption victims found for incoming pod.";
    let mut facts = with_condition("PodScheduled", "Unschedulable", message);
    facts.gpus = Some(Gpus { requested: 32, available: 24 });
    assert_eq!(told(&facts, "", Ending::Unknown).message, "Insufficient GPUs: requested 32, available 24");

    let blocked = "A process or daemon was unable to complete a TCP connection\nto another process:\n  Local host:    w-1\n  Remote host:   train-launcher\n";
    let blocked = told(&Facts::default(), blocked, Ending::Exited(1));
    assert!(
        blocked.message.starts_with("MPI communication failure – check NetworkPolicies"),
        "{}",
        blocked.message
    );
}

#[test]
fn the_status_distinguishes_an_oom_kill_from_other_kills() {
    let text =
        "mpirun noticed that process rank 1 with PID 6 on node train-worker-1 exited on signal 9 (Killed).\n";
    assert_eq!(told(&Facts::default(), text, Ending::Exited(137)).cause.word(), "RankKilled");
    assert_eq!(told(&with_end("OOMKilled", 137, ""), text, Ending::Exited(137)).cause.word(), "OutOfMemory");
    let counted = ContainerFacts {
        name: "mpi".to_owned(),
        oom_kills: 1,
        memory_limit: Some("512Mi".to_owned()),
        ..ContainerFacts::default()
    };
    let facts = Facts {
        pods: vec![PodFacts { containers: vec![counted], ..worker("train-worker-1") }],
        ..Facts::default()
    };
    let diagnosis = told(&facts, text, Ending::Exited(137));
    assert_eq!(
        diagnosis.message,
        "A process on train-worker-1 was killed because the memory limit (512 MB) was exceeded"
    );
}

#[test]
fn a_rank_is_found_on_its_worker_by_the_hostfile() {
    let text = "MPI_ABORT was invoked on rank 5 in communicator MPI_COMM_WORLD\nwith errorcode 42.\n";
    let world = World { workers: vec!["w-0".to_owned(), "w-1".to_owned(), "w-2".to_owned()], slots: 2 };
    let facts = Facts { world: Some(world), ..Facts::default() };
    assert_eq!(told(&facts, text, Ending::Exited(42)).worker.as_deref(), Some("w-2"));
}

#[test]
fn a_successful_run_stays_so_whatever_its_pods_went_through() {
    assert_eq!(
        diagnose(
            &Output::from(""),
            Ending::Exited(0),
            &with_event("Failed", "Failed to pull image \"a\": i/o timeout")
        ),
        None
    );
}

#[test]
fn a_pod_s_status_becomes_facts() {
    let pod = serde_json::json!({
        "metadata": {"name": "train-worker-1"},
        "spec": {"containers": [{"name": "mpi", "resources": {"limits": {"memory": "16Gi"}}}]},
        "status": {"phase": "Running", "containerStatuses": [{
            "name": "mpi", "image": "", "imageID": "", "ready": false, "restartCount": 1,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
        }]},
    });
    let pod = serde_json::from_value(pod).unwrap();
    let facts = Facts { pods: vec![PodFacts::of(&pod, true)], ..Facts::default() };
    let diagnosis = told(&facts, "", Ending::Unknown);
    assert_eq!(diagnosis.message, "exit code 137 (OOMKilled) – memory limit (16 GB) exceeded");
    assert_eq!(diagnosis.worker.as_deref(), Some("train-worker-1"));
    assert!(diagnosis.evidence[0].text.contains("OOMKilled"), "{diagnosis:#?}");
}

#[test]
fn words_of_ssh_about_hosts_of_others_are_the_programs_own() {
    let workers = vec!["train-worker-0".to_owned(), "train-worker-1".to_owned()];
    let pods = [("train-worker-0", "10.0.0.7"), ("train-worker-1", "10.0.0.8")];
    let pods = pods.map(|(name, address)| PodFacts { address: Some(address.to_owned()), ..worker(name) });
    let facts = Facts { world: Some(World { workers, slots: 1 }), pods: pods.to_vec(), ..Facts::default() };
    let not_launched = "ORTE was unable to reliably start one or more daemons.\n";
    for (cause, before, host, after) in [
        ("ConnectionRefused", "ssh: connect to host ", "train-worker-1", " port 22: Connection refused\n"),
        ("ConnectionRefused", "Connection closed by ", "10.0.0.8", " port 22\n"),
        (
            "ConnectionTimeout",
            "ssh: connect to host ",
            "train-worker-1.train.ns.svc",
            " port 22: Connection timed out\n",
        ),
        ("AuthenticationFailed", "mpi@", "train-worker-1", ": Permission denied (publickey).\n"),
    ] {
        let of = |text: String| told(&facts, &text, Ending::Exited(1)).cause.word();
        let other = if host.starts_with("10.") { "192.0.2.1" } else { "data-store" };
        assert_eq!(of(format!("{before}{host}{after}")), cause, "of the job");
        assert_eq!(of(format!("{before}{other}{after}")), "Unknown", "{before}{other}{after}");
        assert_eq!(of(format!("{before}{other}{after}{not_launched}")), cause, "of a hostfile of its own");
    }
}

#[test]
fn an_image_without_an_ssh_server_leads_to_the_launch_agent() {
    for message in [
        "failed to create task: exec: \"/usr/sbin/sshd\": executable file not found in $PATH: unknown",
        "failed to create task: exec: \"/usr/sbin/sshd\": stat /usr/sbin/sshd: no such file or directory: unknown",
        "container create failed: executable file `/usr/sbin/sshd` not found: No such file or directory",
    ] {
        let found = told(&with_end("StartError", 128, message), "", Ending::Unknown);
        assert_eq!(found.cause.word(), "ExecutableNotFound");
        assert!(found.message.contains("train-worker-1 has no SSH server"), "{}", found.message);
        assert!(found.suggestion.contains("launch: agent"), "{}", found.suggestion);
    }
    let other = "failed to create task: exec: \"/opt/train\": executable file not found in $PATH: unknown";
    let found = told(&with_end("StartError", 128, other), "", Ending::Unknown);
    assert!(found.message.contains("has no /opt/train"), "{}", found.message);
}

#[test]
fn a_name_that_ssh_cannot_resolve_leads_to_a_launcher_that_waits() {
    let output = "ssh: Could not resolve hostname train-worker-0.train.team.svc: Name or service not known\n";
    let found = told(&Facts::default(), output, Ending::Exited(1));
    assert_eq!(found.cause.word(), "HostUnresolvable");
    for way in ["launcherCreationPolicy: WaitForWorkersReady", "launch: agent"] {
        assert!(found.suggestion.contains(way), "{}", found.suggestion);
    }
}

#[test]
fn the_reason_why_an_image_cannot_be_pulled_is_one_line_of_evidence() {
    let image = "registry.example/train:9";
    let reason = format!("failed to resolve reference \"{image}\": {image}: not found");
    let pod = |name: &str, image: &str, reason: &str| PodFacts {
        events: vec![
            ("Failed".to_owned(), format!("Failed to pull image \"{image}\": {reason}")),
            ("BackOff".to_owned(), format!("Back-off pulling image \"{image}\"")),
        ],
        containers: vec![ContainerFacts {
            name: "mpi".to_owned(),
            waiting: Some((
                "ImagePullBackOff".to_owned(),
                format!("Back-off pulling image \"{image}\": ErrImagePull: {reason}"),
            )),
            ..ContainerFacts::default()
        }],
        ..worker(name)
    };
    let pods = vec![pod("train-worker-0", image, &reason), pod("train-worker-1", image, &reason)];
    let found = told(&Facts { pods: pods.clone(), ..Facts::default() }, "", Ending::Unknown);
    assert_eq!((found.cause.word(), found.evidence.len()), ("ImagePull", 1), "{:#?}", found.evidence);
    let other = pod("train-worker-2", "registry.example/other:1", "unauthorized");
    let pods = pods.into_iter().chain([other]).collect();
    let found = told(&Facts { pods, ..Facts::default() }, "", Ending::Unknown);
    assert_eq!(found.evidence.len(), 2, "{:#?}", found.evidence);
}
