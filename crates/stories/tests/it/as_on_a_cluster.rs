//! What a newcomer types runs as well where the operator has the defaults of its installation: jobs depend on no flag of
//! the operator, because each interface writes what it means into the manifest.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use stories::{EXAMPLES_IMAGE, Home, places};

/// The operator with the flags of `deploy/`, but for those that name its pod or a port of it.
struct Operator(Child);

impl Operator {
    fn start(home: &Home) -> Operator {
        let deployment = std::fs::read_to_string(places::repository("deploy/base/deployment.yaml"))
            .expect("the deployment can be read");
        let is_place =
            |flag: &str| ["--lock-namespace", "--monitoring-port", "--webhook-port"].contains(&flag);
        let flags = deployment.lines().filter_map(|line| line.trim().strip_prefix("- --"));
        let flags = flags.map(|flag| format!("--{flag}"));
        let flags: Vec<String> = flags.filter(|flag| !flag.split('=').next().is_some_and(is_place)).collect();
        let log = File::create(home.operator_log()).expect("the log can be made");
        let mut command = Command::new(places::operator());
        command.args(["--lock-namespace", "default", "--health-address", "127.0.0.1:0"]).args(flags);
        command.env("KUBECONFIG", home.path().join("kubeconfig")).env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Operator(command.spawn().expect("the operator can be started"))
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.0.kill().expect("it can be killed");
        self.0.wait().expect("it has ended");
    }
}

fn manifest(home: &Home, name: &str) -> Value {
    home.odh(&["training", "get", "mpijob", name, "-o", "json"]).ended(0).json()
}

#[test]
fn a_job_as_the_readme_creates_it_runs_with_the_operators_own_defaults() {
    let options = ["--nodes", "2", "--no-operator", "--dns-negative-ttl", "30s"];
    let home = Home::with_cluster_and("as_on_a_cluster", &options);
    let definition = places::repository("deploy/crd/kubeflow.org_mpijobs.yaml");
    home.kubectl(&["apply", "--server-side", "-f", &definition.to_string_lossy()]).ended(0);
    home.kubectl(&["wait", "--for=condition=Established", "crd/mpijobs.kubeflow.org", "--timeout=60s"])
        .ended(0);
    let _operator = Operator::start(&home);

    let ranks = r#"echo "rank $OMPI_COMM_WORLD_RANK on $(hostname)""#;
    let words = ["--workers", "2", "--image", EXAMPLES_IMAGE, "--wait", "--timeout", "5m"];
    let create = |name: &str, command: &[&str]| {
        let first = ["training", "create", "mpijob", "--name", name];
        home.odh(&[&first[..], &words, &["--"], command].concat())
    };
    create("hello", &["mpirun", "sh", "-c", ranks]).ended(0);
    home.odh(&["training", "logs", "mpijob", "hello"]).ended(0).says("rank 1 on hello-worker-1");

    // What mpirun is ours for is tagged, and shown without the tag, by rank and by Worker.
    create("ours", &["sh", "-c", ranks]).ended(0);
    let all = home.odh(&["training", "logs", "mpijob", "ours"]).ended(0).says("rank 1 on ours-worker-1");
    assert!(!all.stdout.contains("<stdout>"), "a tag is shown:\n{}", all.stdout);
    let one = home.odh(&["training", "logs", "mpijob", "ours", "--rank", "1"]).ended(0);
    assert!(one.stdout.contains("rank 1") && !one.stdout.contains("rank 0"), "{}", one.stdout);

    let job = manifest(&home, "ours");
    assert_eq!(job["metadata"]["annotations"]["training.opendatahub.io/launch"], "agent", "{job:#}");
    assert_eq!(job["spec"]["launcherCreationPolicy"], "WaitForWorkersReady", "{job:#}");
    assert_eq!(job["spec"]["runPolicy"]["backoffLimit"], 0, "{job:#}");
    assert_eq!(job["spec"]["runPolicy"]["cleanPodPolicy"], "Running", "{job:#}");

    home.odh(&["training", "delete", "mpijob", "hello", "--yes"]).ended(0);
    home.odh(&["training", "create", "-f", "examples/hello.yaml", "--wait", "--timeout", "5m"]).ended(0);

    // A namespace that enforces the strictest standard: the pods meet it, though nobody asked for that.
    home.kubectl(&["create", "namespace", "strict"]).ended(0);
    let enforce = "pod-security.kubernetes.io/enforce=restricted";
    home.kubectl(&["label", "namespace", "strict", enforce]).ended(0);
    let first = ["training", "create", "mpijob", "--name", "strict", "-n", "strict"];
    home.odh(&[&first[..], &words, &["--", "sh", "-c", ranks]].concat()).ended(0);
    home.odh(&["training", "logs", "mpijob", "strict", "-n", "strict"])
        .ended(0)
        .says("rank 1 on strict-worker-1");
}
