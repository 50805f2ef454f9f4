//! What a newcomer types runs as well where the operator has the defaults of its installation, and where the namespace
//! enforces the Pod Security Standard *restricted*: jobs depend on no flag of the operator, because each interface writes
//! what it means into the manifest.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use stories::{EXAMPLES_IMAGE, Home, places};

use crate::documents;

/// By how many seconds a job may be longer than its program: 6, and twice that beside other tests. A name that was asked for too
/// early would cost 30.
const MOST_ADDED: i64 = 12;

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

/// A cluster whose operator, DNS and namespace are as a careful administrator's: the operator has the flags of `deploy/`, the
/// DNS server remembers for 30 s that a name is unknown, as kubeadm sets it up, and the namespace enforces *restricted*.
fn installed(story: &str) -> (Home, Operator) {
    let home = Home::with_cluster_and(story, &["--nodes", "2", "--no-operator", "--dns-negative-ttl", "30s"]);
    let definition = places::repository("deploy/crd/kubeflow.org_mpijobs.yaml");
    home.kubectl(&["apply", "--server-side", "-f", &definition.to_string_lossy()]).ended(0);
    home.kubectl(&["wait", "--for=condition=Established", "crd/mpijobs.kubeflow.org", "--timeout=60s"])
        .ended(0);
    let enforce = "pod-security.kubernetes.io/enforce=restricted";
    home.kubectl(&["label", "namespace", "default", enforce]).ended(0);
    let operator = Operator::start(&home);
    (home, operator)
}

fn manifest(home: &Home, name: &str) -> Value {
    home.odh(&["training", "get", "mpijob", name, "-o", "json"]).ended(0).json()
}

#[test]
fn the_readme_is_right_where_the_operator_was_installed() {
    let (home, _operator) = installed("as_on_a_cluster::readme");
    documents::type_at_home(&home, "README.md");
}

#[test]
fn the_quick_start_is_right_where_the_operator_was_installed() {
    let (home, _operator) = installed("as_on_a_cluster::quick_start");
    documents::type_at_home(&home, "docs/quick-start.md");
}

#[test]
fn what_odh_creates_depends_on_no_flag_of_the_operator() {
    let (home, _operator) = installed("as_on_a_cluster::flags");
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

    let pod = &job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{pod:#}");

    // DNS remembers for 30 s that a name was unknown; no job waits for that.
    create("short", &["sleep", "2"]).ended(0);
    let job = manifest(&home, "short");
    let at = |path: &str| {
        job.pointer(path).and_then(Value::as_str).and_then(|text| text.parse::<jiff::Timestamp>().ok())
    };
    let (created, ended) = (at("/metadata/creationTimestamp"), at("/status/completionTime"));
    let (Some(created), Some(ended)) = (created, ended) else { panic!("{job:#}") };
    let seconds = ended.duration_since(created).as_secs();
    assert!(seconds < 2 + MOST_ADDED, "a program of 2 s took {seconds} s: {job:#}");
}
