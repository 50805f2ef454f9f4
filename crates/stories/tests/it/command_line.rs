//! Nothing but the command line: a pipeline, a user who changes a job, one who finds out why it failed, teams that
//! share a cluster, and mistakes with their remedies.
//!
//! Proves: FR-RES-001, SC-006, FR-RES-005.

use std::time::Duration;

use stories::{EXAMPLES_IMAGE, Home, within};

/// Returns the result of a check of `odh local doctor`.
pub fn machine_has(home: &Home, check: &str) -> bool {
    let found = home.odh(&["local", "doctor", "-o", "json"]).json();
    let checks = found["checks"].as_array().expect("the doctor lists checks");
    checks.iter().any(|known| known["name"] == check && known["verdict"] == "ok")
}

/// A typical pipeline: create, poll until the end, print the logs of a failure, pass the exit code on.
const PIPELINE: &str = r#"
job=$(odh training create -f "$1" -o jsonpath='{.metadata.name}')
for _ in $(seq 600); do
  phase=$(odh training get mpijob "$job" -o jsonpath='{.status.phase}')
  case $phase in Succeeded|Failed) break ;; esac
  sleep 0.1
done
code=0
odh training wait mpijob "$job" --timeout 60s -o json > "$job.json" || code=$?
if [ $code = 100 ]; then
  odh training logs mpijob "$job"
  odh training explain mpijob "$job" -o json > "$job.why.json"
fi
exit $code
"#;

#[test]
fn a_pipeline_a_change_and_a_failure_that_is_understood() {
    let home = Home::with_cluster_and("command_line::alone", &["--gpus", "2"]);
    let shut = shut_off(&home);
    a_pipeline(&home);
    a_change(&home);
    a_failure_understood(&home);
    mistakes(&home);
    a_wrong_image(&home);
    if shut {
        is_told_what_shuts_it_off(&home);
    }
}

/// How long a Launcher waits for unreachable Workers; enough for them to start on a busy machine.
const START_TIMEOUT: &str = "training.opendatahub.io/start-timeout=45s";

/// Creates a job in a namespace where nobody may connect to Workers. Returns `false` if policies are not enforced.
fn shut_off(home: &Home) -> bool {
    if home.mode() == "plain" || !machine_has(home, "nft") {
        return false;
    }
    home.kubectl(&["create", "namespace", "shut"]).ended(0);
    let policy = home.write(
        "policy.yaml",
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: shut, namespace: shut}\nspec:\n  podSelector: {matchLabels: {training.kubeflow.org/job-role: worker}}\n  policyTypes: [Ingress]\n",
    );
    home.kubectl(&["create", "-f", &policy]).ended(0);
    let words = ["training", "create", "mpijob", "alone", "-n", "shut", "--workers", "2", "--retries", "0"];
    let more = ["--annotation", START_TIMEOUT, "--image", EXAMPLES_IMAGE, "--", "hostname"];
    home.odh(&[&words[..], &more[..]].concat()).ended(0);
    true
}

fn is_told_what_shuts_it_off(home: &Home) {
    let job = ["mpijob", "alone", "-n", "shut"];
    home.odh(&[&["training", "wait"], &job[..], &["--timeout", "150s"]].concat())
        .ended(100)
        .says("check NetworkPolicies");
    home.odh(&[&["training", "explain"], &job[..]].concat())
        .ended(0)
        .says("Cause:")
        .says("Allow traffic between all pods of the job");
    home.odh(&[&["training", "delete"], &job[..], &["--yes"]].concat()).ended(0);
}

/// The tag does not exist: the image is not pulled, and the remedy is to clone the job with the right one.
fn a_wrong_image(home: &Home) {
    let wrong = EXAMPLES_IMAGE.replace("openmpi", "openmip");
    let words = ["training", "create", "mpijob", "slip", "--workers", "1", "--retries", "0"];
    home.odh(&[&words[..], &["--image", &wrong, "--", "echo", "here"]].concat())
        .ended(0)
        .says("other tags of it are, so its pods will not start");
    within(Duration::from_secs(60), "it is explained that the image cannot be had", || {
        let why = home.odh(&["training", "explain", "mpijob", "slip", "-o", "json"]).ended(0).json();
        (why["cause"] == "ImagePull").then_some(())
    });
    home.odh(&["training", "explain", "mpijob", "slip"])
        .ended(0)
        .says(&format!("Failed to pull image '{wrong}': no such image or tag"))
        .says("the only known tags are")
        .says("The local cluster pulls no images: correct the tag")
        .says("Correct the image's name and tag");
    home.odh(&["training", "describe", "mpijob", "slip"]).ended(0).says("Pull");
    home.odh(&["training", "logs", "mpijob", "slip", "--worker", "0"]).ended(3).says("Pull");
    let image = format!("image={EXAMPLES_IMAGE}");
    let clone = ["training", "clone", "mpijob", "slip", "--name", "right", "--set", &image];
    home.odh(&[&clone[..], &["--wait", "--timeout", "90s"]].concat()).ended(0);
    home.odh(&["training", "delete", "mpijob", "slip", "right", "--yes"]).ended(0);
}

fn a_pipeline(home: &Home) {
    let job = |name: &str, command: &str| {
        let words = [
            "training",
            "create",
            "mpijob",
            name,
            "--workers",
            "2",
            "--retries",
            "0",
            "--image",
            EXAMPLES_IMAGE,
        ];
        let dry = [&words[..], &["--dry-run=client", "-o", "yaml", "--", "sh", "-c", command]].concat();
        home.write(&format!("{name}.yaml"), &home.odh(&dry).ended(0).stdout)
    };
    let good = job("good", "echo loss 0.1");
    let bad = job("bad", "echo loss is nan; exit 3");
    home.script(PIPELINE, &[&good]).ended(0);
    home.script(PIPELINE, &[&bad]).ended(100).says("loss is nan");
    let why = std::fs::read_to_string(home.path().join("bad.why.json")).expect("the explanation is there");
    let why: serde_json::Value = serde_json::from_str(&why).expect("it is JSON");
    assert_eq!(why["state"], "Failed", "{why}");
    assert!(why["advice"].is_string(), "{why}");
    home.script(PIPELINE, &[&bad]).ended(7);
}

fn a_change(home: &Home) {
    let command = "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE";
    let create = ["training", "create", "mpijob", "four", "--workers", "4", "--image", EXAMPLES_IMAGE];
    // Its Workers stay, so that what one of them said can be read later.
    let watched = ["--clean-pods", "None", "--wait", "--timeout", "90s", "--", "sh", "-c", command];
    home.odh(&[&create[..], &watched[..]].concat()).ended(0).says("Launcher running").says("succeeded");
    home.odh(&["training", "logs", "mpijob", "four"]).ended(0).says("rank 3 of 4");
    home.odh(&["training", "logs", "mpijob", "four", "--worker", "2"]).ended(0);
    home.script(
        "odh training export mpijob four | sed 's/replicas: 4/replicas: 2/; s/name: four$/name: two/' > two.yaml
         odh training create -f two.yaml --wait --timeout 90s
         odh training compare mpijob four two -o json > compared.json",
        &[],
    )
    .ended(0);
    home.odh(&["training", "logs", "mpijob", "two"]).ended(0).says("rank 1 of 2");
    home.odh(&["training", "retry", "mpijob", "two", "--wait", "--timeout", "90s"])
        .ended(0)
        .says("mpijob/two-retry-2 succeeded");
    let compared = home.odh(&["training", "compare", "mpijob", "two", "-o", "json"]).ended(0).json();
    assert_eq!(compared["columns"], serde_json::json!(["two", "two-retry-2"]));
    home.odh(&["training", "templates", "save", "mpijob", "two", "--name", "pair"]).ended(0);
    home.odh(&["training", "templates", "use", "pair", "--name", "one", "--set", "workers=1", "--wait"])
        .ended(0)
        .says("mpijob/one succeeded");
    home.odh(&["training", "delete", "mpijob", "one", "two", "--yes"]).ended(0);
}

/// A Worker's rank takes more memory than allowed: the kernel stops it if limits are enforced, else its own limit
/// does.
fn a_failure_understood(home: &Home) {
    let enforced = machine_has(home, "cgroups");
    let takes = "python3 -c 'x = bytearray(300 << 20); print(len(x))'";
    let command = if enforced { format!("exec {takes}") } else { format!("ulimit -v $KIB; exec {takes}") };
    let words =
        ["training", "create", "mpijob", "hungry", "--workers", "2", "--memory", "96Mi", "--retries", "0"];
    let more = [
        "-e",
        "KIB=98304",
        "--image",
        EXAMPLES_IMAGE,
        "--wait",
        "--timeout",
        "90s",
        "--",
        "sh",
        "-c",
        &command,
    ];
    home.odh(&[&words[..], &more[..]].concat()).ended(100);
    home.odh(&["training", "list"]).ended(0).says("hungry").says("Failed");
    home.odh(&["training", "explain", "mpijob", "hungry"]).ended(0).says("memory");
    home.odh(&[
        "training",
        "clone",
        "mpijob",
        "hungry",
        "--name",
        "fed",
        "--set",
        "worker.memory=1Gi",
        "--set",
        "env.KIB=2097152",
        "--wait",
        "--timeout",
        "90s",
    ])
    .ended(0);
    home.odh(&["training", "compare", "mpijob", "hungry", "fed"])
        .ended(0)
        .says("Failed")
        .says("Succeeded")
        .says("resources.limits.memory");
}

fn mistakes(home: &Home) {
    let create = |name: &'static str, more: &[&str]| {
        let words = ["training", "create", "mpijob", name, "--workers", "2", "--retries", "0"];
        home.odh(&[&words[..], more].concat())
    };
    // Too many GPUs: reported at creation, and again as the reason for waiting.
    create("greedy", &["--gpus", "8", "--image", EXAMPLES_IMAGE, "--", "true"])
        .ended(0)
        .says("Insufficient GPUs: a Worker requests 8, but the largest node has 2");
    within(Duration::from_secs(60), "it is explained what the job waits for", || {
        let why = home.odh(&["training", "explain", "mpijob", "greedy", "-o", "json"]).ended(0).json();
        (why["cause"] == "Unschedulable" && why["advice"].is_string()).then_some(())
    });
    home.odh(&["training", "suspend", "mpijob", "greedy"]).ended(0);
    home.odh(&["training", "explain", "mpijob", "greedy"]).ended(0).says("odh training resume mpijob greedy");
    home.odh(&["training", "delete", "mpijob", "greedy", "--yes"]).ended(0);
    // An image without the program.
    create("wrong", &["--image", EXAMPLES_IMAGE, "--wait", "--timeout", "90s", "--", "no-such-program"])
        .ended(100)
        .says("no-such-program");
    home.odh(&["training", "explain", "mpijob", "wrong"])
        .ended(0)
        .says("ExecutableNotFound")
        .says("What to do");
    // A typing error is reported with its place and a suggestion.
    let manifest = home.write(
        "typo.yaml",
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata:\n  name: a\nspec:\n  slotPerWorker: 2\n",
    );
    home.odh(&["training", "create", "-f", &manifest])
        .ended(5)
        .says("typo.yaml:6:3: spec.slotPerWorker: unknown field; did you mean \"slotsPerWorker\"?");
}

#[test]
fn two_teams_do_not_see_each_other_and_keep_to_their_quotas() {
    let home = Home::with_cluster("command_line::teams");
    let person = |name: &str, team: &str| {
        let made =
            home.odh(&["local", "user", name, "--role", "edit", "-n", team, "-o", "json"]).ended(0).json();
        made["kubeconfig"].as_str().expect("it says where the kubeconfig is").to_owned()
    };
    let (anna, ben) = (person("anna", "team-a"), person("ben", "team-b"));
    let by = |who: &str, words: &[&str]| home.odh(&[&["--kubeconfig", who], words].concat());
    let run = ["--image", EXAMPLES_IMAGE, "--", "sleep", "3600"];
    let create = |who: &str, name: &str, more: &[&str]| {
        by(who, &[&["training", "create", "mpijob", name], more, &run[..]].concat())
    };
    home.kubectl(&["create", "quota", "small", "--hard=pods=4", "-n", "team-a"]).ended(0);
    create(&anna, "wide", &["--workers", "8"])
        .ended(6)
        .says("Quota exceeded: 9 of pods requested, 0 of 4 used, 4 left (quota small)")
        .says("at most 3 Workers");
    create(&anna, "narrow", &["--workers", "2"]).ended(0);
    home.kubectl(&["annotate", "namespace", "team-b", "training.opendatahub.io/max-concurrent-jobs=1"])
        .ended(0);
    create(&ben, "first", &["--workers", "1"]).ended(0);
    create(&ben, "second", &["--workers", "1"]).ended(6).says("Quota exceeded: 1/1 jobs running");
    create(&ben, "second", &["--workers", "1", "--no-preflight"])
        .ended(6)
        .says("Quota exceeded: 1/1 jobs running");
    // Neither sees or touches the other's jobs.
    create(&ben, "guest", &["--workers", "1", "-n", "team-a"])
        .ended(4)
        .says("Error: User 'ben' lacks 'create' permission for MPIJobs in namespace 'team-a'");
    create(&ben, "guest", &["--workers", "1", "-n", "team-a", "--no-preflight"])
        .ended(4)
        .says("Error: User 'ben' lacks 'create' permission for MPIJobs in namespace 'team-a'");
    for (verb, words) in [
        ("list", &["list", "-n", "team-a"][..]),
        ("get", &["get", "mpijob", "narrow", "-n", "team-a"]),
        ("get", &["explain", "mpijob", "narrow", "-n", "team-a"]),
        ("get", &["suspend", "mpijob", "narrow", "-n", "team-a"]),
        ("get", &["delete", "mpijob", "narrow", "-n", "team-a", "--yes"]),
    ] {
        by(&ben, &[&["training"], words].concat())
            .ended(4)
            .says(&format!("User 'ben' lacks '{verb}' permission for MPIJobs in namespace 'team-a'"));
    }
    by(&ben, &["training", "preflight", "-n", "team-a"]).ended(4).says("no");
    by(&anna, &["training", "list"]).ended(0).says("narrow");
    home.odh(&["training", "list", "-A"]).ended(0).says("narrow").says("first");
    by(&anna, &["training", "delete", "mpijob", "narrow", "--yes"]).ended(0);
}
