//! A data scientist runs TrainJobs of Kubeflow Trainer with a runtime that the platform team maintains: a training that
//! reports its progress, Workers that fail, and the verbs of the command line.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use stories::{Home, first_process_of, kill_process, places, quoted, within};

/// How long anything may take, on a machine that is busy with other stories.
const PATIENCE: Duration = Duration::from_secs(240);

/// A TrainJob of two nodes whose ranks run a line of shell.
fn shell(name: &str, line: &str) -> String {
    format!(
        "apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: {name}
spec:
  runtimeRef:
    name: openmpi
  trainer:
    numNodes: 2
    command: [mpirun, --allow-run-as-root]
    args: [sh, -c, {}]
",
        quoted(line)
    )
}

fn job(home: &Home, name: &str) -> Value {
    home.kubectl(&["get", "trainjob", name, "-o", "json"]).ended(0).json()
}

/// The message of the job's condition, once it is true.
fn ended(home: &Home, name: &str, condition: &str) -> String {
    within(PATIENCE, &format!("{name} is {condition}"), || {
        let job = job(home, name);
        let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let holds = |it: &&Value| {
            it["status"] == "True" && ["Complete", "Failed"].contains(&it["type"].as_str().unwrap_or(""))
        };
        let found = conditions.iter().find(holds)?;
        assert_eq!(found["type"], condition, "{job:#}");
        Some(found["message"].as_str().unwrap_or_default().to_owned())
    })
}

#[test]
fn a_training_reports_its_progress_and_completes() {
    let home = Home::with_cluster("trainjob::digits");
    home.kubectl(&["get", "clustertrainingruntimes"]).ended(0).says("openmpi").says("deepspeed-distributed");
    let manifest = places::repository("examples/trainjob.yaml");
    home.kubectl(&["create", "-f", &manifest.to_string_lossy()]).ended(0);
    within(PATIENCE, "the progress is in the status", || {
        let shown = home.kubectl(&["get", "trainjob", "digits", "-o", "yaml"]).ended(0).stdout;
        ["trainerStatus:", "progressPercentage:", "estimatedRemainingSeconds:", "name: loss"]
            .iter()
            .all(|field| shown.contains(field))
            .then_some(())
    });
    assert_eq!(ended(&home, "digits", "Complete"), "jobset completed successfully");
    let status = job(&home, "digits")["status"].clone();
    assert_eq!(status["trainerStatus"]["progressPercentage"], 100, "{status:#}");
    let metrics = status["trainerStatus"]["metrics"].as_array().cloned().unwrap_or_default();
    let accuracy =
        metrics.iter().find(|metric| metric["name"] == "accuracy").expect("the accuracy is reported");
    let accuracy: f64 = accuracy["value"].as_str().unwrap_or_default().parse().expect("it is a number");
    assert!(accuracy > 0.95, "the model learned little: {status:#}");
    let logs = home.odh(&["training", "logs", "trainjob", "digits"]).ended(0);
    // The Launcher is one of the four.
    for host in ["node-0-0", "node-0-1", "node-0-2", "launcher-0-0"] {
        assert!(logs.stdout.contains(&format!("on digits-{host} ")), "{}", logs.stdout);
    }
    home.odh(&["training", "list"]).ended(0).says("TrainJob").says("Succeeded");
    home.odh(&["training", "wait", "trainjob", "digits"]).ended(0);
    home.odh(&["training", "delete", "trainjob", "digits", "--yes"]).ended(0);
    stories::eventually("nothing of it is left", || {
        let selected = ["-l", "training.opendatahub.io/trainjob=digits", "-o", "name"];
        let words = [&["get", "jobs,pods,services,configmaps,secrets"][..], &selected].concat();
        home.kubectl(&words).ended(0).stdout.is_empty()
    });
}

#[test]
fn a_worker_that_fails_is_named_with_its_cause() {
    let home = Home::with_cluster("trainjob::failures");
    let exits = shell(
        "exits",
        "if [ \"$OMPI_COMM_WORLD_RANK\" = 1 ]; then sleep 2; echo no data >&2; exit 3; fi; sleep 300",
    );
    let long = shell("long", "echo started on $(hostname); exec sleep 3600");
    let both = home.write("both.yaml", &format!("{exits}---\n{long}"));
    home.kubectl(&["create", "-f", &both]).ended(0);
    let message = ended(&home, "exits", "Failed");
    for words in
        ["jobset failed due to one or more job failures", "RankExited", "Rank 1", "exited with code 3"]
    {
        assert!(message.contains(words), "{message}");
    }
    home.kubectl(&["get", "configmap", "exits-attempt-1", "-o", "yaml"]).ended(0).says("no data");
    home.odh(&["training", "explain", "exits"]).ended(0).says("exited with code 3");
    home.odh(&["training", "describe", "exits"]).ended(0).says("Failed (RankExited)").says("no data");
    home.odh(&["training", "wait", "exits"]).ended(100);
    within(PATIENCE, "both ranks of the other job started", || {
        let logs = home.odh(&["training", "logs", "long"]);
        (logs.stdout.matches("started on").count() == 2).then_some(())
    });
    kill_process(first_process_of("long-node-0-0").expect("its agent runs"));
    let message = ended(&home, "long", "Failed");
    for words in ["WorkerLost", "Worker 0 (long-node-0-0)", "exit code 137"] {
        assert!(message.contains(words), "{message}");
    }
    home.odh(&["training", "list", "--status", "failed"]).ended(0).says("WorkerLost");
    home.odh(&["training", "explain", "long"]).ended(0).says("long-node-0-0").says("137").says("Evidence:");
    stories::eventually("nothing runs any more", || {
        let running = ["get", "pods", "--field-selector", "status.phase=Running", "-o", "name"];
        home.kubectl(&running).ended(0).stdout.is_empty()
    });
}

#[test]
fn a_rank_that_raises_an_exception_stalls_a_trainjob_as_it_does_an_mpijob() {
    let home = Home::with_cluster("trainjob::stalls");
    let program = "import time\nfrom mpi4py import MPI\ntime.sleep(1)\nif MPI.COMM_WORLD.rank == 1:\n    \
                   raise ValueError('loss is NaN')\nMPI.COMM_WORLD.Barrier()\n";
    let raises = shell("raises", &format!("python {}", home.write("raises.py", program)));
    let silent = shell("silent", "echo started; exec sleep 3600")
        .replace("metadata:\n", "metadata:\n  annotations: {training.opendatahub.io/stall-timeout: 5s}\n");
    let both = home.write("both.yaml", &format!("{raises}---\n{silent}"));
    home.kubectl(&["create", "-f", &both]).ended(0);
    let stalled = |name: &str, reason: &str| {
        within(PATIENCE, &format!("{name} is stalled"), || {
            let conditions = job(&home, name)["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.into_iter().find(|it| it["type"] == "Stalled")?;
            assert_eq!((&found["status"], &found["reason"]), (&"True".into(), &reason.into()), "{found}");
            Some(())
        });
    };
    stalled("raises", "PythonException");
    home.odh(&["training", "list"]).ended(0).says("Running (PythonException)");
    let explained = home.odh(&["training", "explain", "raises"]).ended(0);
    explained.says("Stalled").says("ValueError: loss is NaN").says("python -m mpi4py");
    home.kubectl(&["get", "trainjob", "raises"]).ended(0).says("Stalled");
    stalled("silent", "NoOutput");
    home.odh(&["training", "explain", "silent"]).ended(0).says("No output for");
    home.odh(&["training", "suspend", "silent"]).ended(0);
    within(PATIENCE, "a suspended job is not stalled", || {
        let conditions = job(&home, "silent")["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().all(|it| it["type"] == "Suspended").then_some(())
    });
}

#[test]
fn a_trainjob_whose_job_the_server_refuses_fails_with_the_servers_words() {
    let home = Home::with_cluster("trainjob::refused");
    let resources = "    resourcesPerNode: {requests: {cpu: 500m}, limits: {cpu: 100m}}\n";
    let manifest = home.write("refused.yaml", &(shell("refused", "true") + resources));
    home.kubectl(&["create", "-f", &manifest]).ended(0);
    let message = ended(&home, "refused", "Failed");
    for words in ["AdmissionRefused", "the API server rejects it", "cpu", "Correct spec.trainer"] {
        assert!(message.contains(words), "{message}");
    }
    home.odh(&["training", "list"]).ended(0).says("Failed (AdmissionRefused)");
    home.odh(&["training", "explain", "refused"]).ended(0).says("AdmissionRefused").says("What to do:");
    stories::eventually("nothing runs any more", || {
        home.kubectl(&["get", "pods", "-o", "name"]).ended(0).stdout.is_empty()
    });
}

#[test]
fn what_a_trainjob_asks_for_on_its_nodes_reaches_every_rank() {
    let home = Home::with_cluster("trainjob::reaches");
    let line = "mkdir -p /home/mpiuser && echo here > /home/mpiuser/mine && echo \"$(hostname) has LR=$LR\"";
    let flags = ["--workers", "2", "--memory", "256Mi", "--env", "LR=0.1", "--wait", "--", "sh", "-c", line];
    for runtime in ["openmpi", "horovod"] {
        let create = ["training", "create", "trainjob", runtime, "--runtime", runtime];
        home.odh(&[&create[..], &flags].concat()).ended(0);
        let logs = home.odh(&["training", "logs", runtime]).ended(0).stdout;
        for host in ["node-0-0", "launcher-0-0"] {
            assert!(logs.contains(&format!("{runtime}-{host} has LR=0.1")), "{logs}");
        }
    }
    let jobs = home.kubectl(&["get", "jobs", "-o", "json"]).ended(0).json();
    for job in jobs["items"].as_array().expect("it is a list") {
        let limits = &job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"];
        assert_eq!(limits["memory"], "256Mi", "{job:#}");
    }
}

#[test]
fn every_mpi_starts_ranks_on_a_launcher_that_is_one_of_the_nodes() {
    let image =
        |tag: &str, folder: PathBuf| format!("quay.io/opendatahub/mpi-examples:{tag}={}", folder.display());
    let mpich = image("mpich", places::mpich_environment());
    let intel = image("intel", places::intel_environment());
    let home = Home::with_cluster_and("trainjob::mpis", &["--image", &mpich, "--image", &intel]);
    // With an mpiexec of its own, and with that of the runtime, whose options differ.
    for (runtime, starter) in [
        ("openmpi", &["mpiexec"][..]),
        ("mpich", &["mpiexec"]),
        ("intel-mpi", &["mpiexec"]),
        ("mpich", &[]),
        ("intel-mpi", &[]),
    ] {
        let name = format!("{runtime}{}", starter.len());
        let create =
            ["training", "create", "trainjob", &name, "--runtime", runtime, "--workers", "3", "--wait", "--"];
        let program = ["sh", "-c", "echo \"a rank on $(hostname)\""];
        home.odh(&[&create[..], starter, &program].concat()).ended(0);
        let logs = home.odh(&["training", "logs", &name]).ended(0).stdout;
        for host in ["node-0-0", "node-0-1", "launcher-0-0"] {
            assert!(logs.contains(&format!("a rank on {name}-{host}")), "{logs}");
        }
    }
}

#[test]
fn a_launcher_that_is_started_again_is_explained_by_its_last_run() {
    let home = Home::with_cluster("trainjob::again");
    let again = shell("again", "echo no data in /data >&2; exit 3")
        .replace("name: openmpi", "name: deepspeed-distributed");
    let manifest = home.write("again.yaml", &again);
    home.kubectl(&["create", "-f", &manifest]).ended(0);
    within(PATIENCE, "the Launcher waits to be started again", || {
        let shown = home.odh(&["training", "explain", "again"]).ended(0).stdout;
        assert!(!shown.contains("sshd"), "{shown}");
        let words = ["Retrying", "RankExited", "exited with code 3", "has run", "no data in /data"];
        words.iter().all(|word| shown.contains(word)).then_some(())
    });
    home.odh(&["training", "delete", "again", "--yes"]).ended(0);
}

#[test]
fn the_verbs_of_the_command_line_know_trainjobs() {
    let home = Home::with_cluster("trainjob::verbs");
    let listed = home.odh(&["training", "runtimes"]).ended(0).says("FRAMEWORK").says("OpenMPI").stdout;
    assert!(listed.contains("deepspeed-distributed"), "{listed}");
    let objects = home.odh(&["training", "runtimes", "-o", "json"]).ended(0).json();
    let found = objects["items"].as_array().cloned().unwrap_or_default();
    let openmpi = found.iter().find(|runtime| runtime["reference"] == "openmpi").expect("it is listed");
    assert_eq!((&openmpi["kind"], &openmpi["nodes"]), (&"ClusterTrainingRuntime".into(), &1.into()));
    let gate = home.gate("gate");
    let line = format!("echo rank started; until test -e {gate}; do sleep 0.1; done");
    let create =
        ["training", "create", "trainjob", "flags", "--runtime", "openmpi", "--workers", "2", "--suspend"];
    home.odh(&[&create[..], &["--env", "A=1", "--", "sh", "-c", &line]].concat())
        .ended(0)
        .says("trainjob/flags created");
    home.odh(&["training", "get", "flags"]).ended(0).says("Suspended");
    home.odh(&["training", "explain", "flags"]).ended(0).says("suspended");
    home.odh(&["training", "resume", "flags"]).ended(0);
    within(PATIENCE, "both ranks started", || {
        let logs = home.odh(&["training", "logs", "trainjob", "flags"]);
        (logs.stdout.matches("rank started").count() == 2).then_some(())
    });
    let listed = home.kubectl(&["get", "trainjob", "flags"]).ended(0).stdout;
    assert!(listed.contains("flags") && !listed.contains("Suspended"), "it was resumed: {listed}");
    home.odh(&["training", "scale", "flags", "--workers", "3"]).ended(5).says("workers=3");
    home.odh(&["training", "top", "flags"]).ended(0).says("flags-node-0-0");
    let described = home.odh(&["training", "describe", "flags"]).ended(0).stdout;
    for said in ["flags-node-0-0", "2 of 2 ready", "OpenMPI", "openmpi", "rank started"] {
        assert!(described.contains(said), "{said}: {described}");
    }
    home.odh(&["training", "exec", "flags", "--worker", "0", "--", "hostname"])
        .ended(0)
        .says("flags-node-0-0");
    // The Launcher is the other one.
    home.odh(&["training", "exec", "flags", "--worker", "1", "--", "hostname"])
        .ended(0)
        .says("flags-launcher-0-0");
    let all = home.odh(&["training", "logs", "flags", "--all"]).ended(0).stdout;
    assert_eq!(all.matches("rank started").count(), 2, "{all}");
    home.odh(&["training", "suspend", "flags"]).ended(0);
    stories::eventually("its pods are gone", || {
        home.kubectl(&["get", "pods", "-o", "name"]).ended(0).stdout.is_empty()
    });
    home.write("gate", "");
    home.odh(&["training", "resume", "flags"]).ended(0);
    home.odh(&["training", "wait", "flags", "--timeout", "120s"]).ended(0);
    home.odh(&["training", "events", "flags"]).ended(0).says("AllJobsCompleted");
    home.odh(&["training", "clone", "flags", "--name", "again", "--wait"]).ended(0);
    // It has not started, and everybody who waits for it learns why.
    let greedy = ["training", "create", "trainjob", "greedy", "--runtime", "openmpi", "--memory", "900Ti"];
    home.odh(&[&greedy[..], &["--wait", "--timeout", "10s", "--", "true"]].concat())
        .ended(8)
        .says("Unschedulable: ");
    home.odh(&["training", "get", "greedy"]).ended(0).says("Pending");
    home.odh(&["training", "create", "trainjob", "none", "--runtime", "nothing", "--", "true"])
        .ended(5)
        .says("\"nothing\" does not exist");
    let exported = home.odh(&["training", "export", "flags"]).ended(0).stdout;
    assert!(exported.contains("kind: TrainJob") && !exported.contains("jobsStatus"), "{exported}");
    let manifest = places::repository("examples/trainjob.yaml");
    home.odh(&["local", "run", &manifest.to_string_lossy()]).ended(0).says("final accuracy");
    home.odh(&["training", "delete", "--all", "--yes"]).ended(0);
}
