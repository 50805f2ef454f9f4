//! The API through the real `kubectl`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::served::{PATIENCE, Served, serve};

/// Returns the `kubectl` that `cargo xtask test` prepared, or else the one on `PATH`.
pub fn program() -> std::ffi::OsString {
    std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into())
}

struct Kubectl {
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Kubectl {
    fn of(served: &Served) -> Self {
        Self { kubeconfig: served.kubeconfig_file(), home: served.state.path().to_owned() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.home);
        command
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    async fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {text}{errors}");
        text
    }

    async fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(!output.status.success(), "kubectl {arguments:?} should have failed");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

fn manifest(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const POD: &str = "apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec:
  containers:
  - {name: main, image: image, command: [sleep, '9']}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_applied_shown_changed_and_deleted() {
    let served = serve().await;
    let kubectl = Kubectl::of(&served);
    let file = manifest(served.state.path(), "pod.yaml", POD);
    assert_eq!(kubectl.ok(&["apply", "-f", &file]).await, "pod/p created\n");
    assert_eq!(kubectl.ok(&["apply", "-f", &file]).await, "pod/p unchanged\n");
    let other = manifest(served.state.path(), "other.yaml", &POD.replace("app: p", "app: q"));
    assert_eq!(kubectl.ok(&["apply", "-f", &other]).await, "pod/p configured\n");
    assert!(kubectl.ok(&["get", "pods", "-o", "wide"]).await.contains('p'));
    assert!(kubectl.ok(&["get", "pod", "p", "-o", "yaml"]).await.contains("app: q"));
    assert!(kubectl.ok(&["get", "pods", "-l", "app in (q,r)", "-o", "name"]).await.contains("pod/p"));
    assert_eq!(kubectl.ok(&["get", "pods", "-l", "app!=q", "-o", "name"]).await, "");
    assert_eq!(kubectl.ok(&["label", "pod", "p", "tier=x"]).await, "pod/p labeled\n");
    assert_eq!(kubectl.ok(&["annotate", "pod", "p", "why=so"]).await, "pod/p annotated\n");
    let patched = kubectl.ok(&["patch", "pod", "p", "-p", r#"{"metadata":{"labels":{"tier":"y"}}}"#]).await;
    assert_eq!(patched, "pod/p patched\n");
    let described = kubectl.ok(&["describe", "pod", "p"]).await;
    assert!(described.contains("tier=y") && described.contains("Image:"), "{described}");
    kubectl.ok(&["wait", "--for=jsonpath={.metadata.labels.tier}=y", "pod/p", "--timeout=10s"]).await;
    assert!(kubectl.ok(&["delete", "-f", &file]).await.starts_with("pod \"p\" deleted"));
    assert!(kubectl.fails(&["get", "pod", "p"]).await.contains("pods \"p\" not found"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_side_apply_dry_run_and_diff_work() {
    let served = serve().await;
    let kubectl = Kubectl::of(&served);
    let file = manifest(served.state.path(), "pod.yaml", POD);
    kubectl.ok(&["apply", "--server-side", "--dry-run=server", "-f", &file]).await;
    assert!(kubectl.fails(&["get", "pod", "p"]).await.contains("not found"));
    assert_eq!(kubectl.ok(&["apply", "--server-side", "-f", &file]).await, "pod/p serverside-applied\n");
    assert_eq!(kubectl.ok(&["apply", "--server-side", "-f", &file]).await, "pod/p serverside-applied\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resources_namespaces_and_permissions_are_listed() {
    let served = serve().await;
    let kubectl = Kubectl::of(&served);
    let resources = kubectl.ok(&["api-resources"]).await;
    for kind in ["Pod", "Job", "CronJob", "ConfigMap", "CustomResourceDefinition"] {
        assert!(resources.contains(kind), "{resources}");
    }
    assert!(kubectl.ok(&["api-versions"]).await.contains("batch/v1"));
    let explained = kubectl.ok(&["explain", "pod.spec.containers.image"]).await;
    assert!(explained.contains("FIELD: image <string>"), "{explained}");
    assert!(kubectl.ok(&["get", "namespaces"]).await.contains("kube-system"));
    assert_eq!(kubectl.ok(&["auth", "can-i", "delete", "pods"]).await.trim(), "yes");
    assert!(kubectl.ok(&["auth", "whoami"]).await.contains("kubernetes-admin"));
    assert!(kubectl.ok(&["version"]).await.contains("Server Version: v1."));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_prints_changes_as_they_come() {
    use std::io::{BufRead as _, BufReader};
    let served = serve().await;
    let kubectl = Kubectl::of(&served);
    let mut command = kubectl.command(&["get", "configmaps", "-w", "-o", "name"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader =
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
    let file = manifest(
        served.state.path(),
        "map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: b}\n",
    );
    kubectl.ok(&["apply", "-f", &file]).await;
    let line = tokio::task::spawn_blocking(move || receiver.recv_timeout(PATIENCE)).await.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    assert_eq!(line.as_deref(), Ok("configmap/m"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn protobuf_bodies_of_create_are_decoded() {
    let served = serve().await;
    let kubectl = Kubectl::of(&served);
    assert_eq!(kubectl.ok(&["create", "namespace", "one"]).await, "namespace/one created\n");
    let map = kubectl.ok(&["create", "configmap", "m", "-n", "one", "--from-literal=a=b"]).await;
    assert_eq!(map, "configmap/m created\n");
    assert_eq!(kubectl.ok(&["get", "configmap", "m", "-n", "one", "-o", "jsonpath={.data.a}"]).await, "b");
    let secret = ["create", "secret", "generic", "s", "--from-literal=a=b"];
    assert_eq!(kubectl.ok(&secret).await, "secret/s created\n");
    assert_eq!(kubectl.ok(&["get", "secret", "s", "-o", "jsonpath={.data.a}"]).await, "Yg==");
    kubectl.ok(&["create", "job", "j", "--image=i", "--", "echo", "x"]).await;
    let command =
        kubectl.ok(&["get", "job", "j", "-o", "jsonpath={.spec.template.spec.containers[0].command}"]).await;
    assert_eq!(command, r#"["echo","x"]"#);
    assert!(kubectl.ok(&["describe", "job", "j"]).await.contains("Completions:"));
    assert!(kubectl.ok(&["describe", "namespace", "one"]).await.contains("Active"));
    assert!(
        kubectl.fails(&["create", "namespace", "one"]).await.contains("namespaces \"one\" already exists")
    );
    assert!(kubectl.fails(&["create", "namespace", "One"]).await.contains("Invalid value: \"One\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cron_job_is_created_shown_and_run_by_hand() {
    let served = serve().await;
    let kubectl = Kubectl::of(&served);
    let create = [
        "create",
        "cronjob",
        "nightly",
        "--image=i",
        "--schedule=0 2 * * *",
        "--restart=Never",
        "--",
        "train",
    ];
    assert_eq!(kubectl.ok(&create).await, "cronjob.batch/nightly created\n");
    let table = kubectl.ok(&["get", "cj"]).await;
    let words: Vec<&str> = table.split_whitespace().collect();
    let heading = ["NAME", "SCHEDULE", "TIMEZONE", "SUSPEND", "ACTIVE", "LAST", "SCHEDULE", "AGE"];
    assert_eq!(words[..8], heading, "{table}");
    assert_eq!(words[8..17], ["nightly", "0", "2", "*", "*", "*", "<none>", "False", "0"], "{table}");
    assert!(kubectl.ok(&["get", "all", "-o", "name"]).await.contains("cronjob.batch/nightly"));
    assert!(kubectl.ok(&["describe", "cronjob", "nightly"]).await.contains("Concurrency Policy:"));
    let run = ["create", "job", "now", "--from=cronjob/nightly"];
    assert_eq!(kubectl.ok(&run).await, "job.batch/now created\n");
    let owner = ["get", "job", "now", "-o", "jsonpath={.metadata.ownerReferences[0].kind}"];
    assert_eq!(kubectl.ok(&owner).await, "CronJob");
    let suspend = ["patch", "cronjob", "nightly", "-p", r#"{"spec":{"suspend":true}}"#];
    assert_eq!(kubectl.ok(&suspend).await, "cronjob.batch/nightly patched\n");
    let shown = "jsonpath={.metadata.generation} {.spec.suspend} {.spec.failedJobsHistoryLimit}";
    assert_eq!(kubectl.ok(&["get", "cronjob", "nightly", "-o", shown]).await, "2 true 1");
    let text = kubectl.fails(&["create", "cronjob", "wrong", "--image=i", "--schedule=* * * * 7"]).await;
    assert!(text.contains("spec.schedule: Invalid value: \"* * * * 7\": end of range (7) above"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_are_applied_and_waited_for() {
    let served = serve().await;
    let kubectl = Kubectl::of(&served);
    let definition = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.test.io}
spec:
  group: test.io
  scope: Namespaced
  names: {plural: boats, kind: Boat, shortNames: [bt]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Sails, type: integer, jsonPath: .spec.sails}]
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {sails: {type: integer}}}}
";
    let file = manifest(served.state.path(), "crd.yaml", definition);
    kubectl.ok(&["apply", "-f", &file]).await;
    kubectl.ok(&["wait", "--for=condition=Established", "crd/boats.test.io", "--timeout=10s"]).await;
    let boat = "apiVersion: test.io/v1\nkind: Boat\nmetadata: {name: b}\nspec: {sails: 3}\n";
    let boat = manifest(served.state.path(), "boat.yaml", boat);
    assert_eq!(kubectl.ok(&["apply", "-f", &boat]).await, "boat.test.io/b created\n");
    let table = kubectl.ok(&["get", "bt"]).await;
    assert_eq!(table.split_whitespace().collect::<Vec<_>>(), ["NAME", "SAILS", "b", "3"], "{table}");
    let patched = kubectl.ok(&["patch", "boat", "b", "--type=merge", "-p", r#"{"spec":{"sails":4}}"#]).await;
    assert_eq!(patched, "boat.test.io/b patched\n");
    let wrong = manifest(
        served.state.path(),
        "wrong.yaml",
        "apiVersion: test.io/v1\nkind: Boat\nmetadata: {name: c}\nspec: {sails: x, oars: 2}\n",
    );
    let text = kubectl.fails(&["apply", "-f", &wrong]).await;
    assert!(text.contains("unknown field \"spec.oars\""), "{text}");
    assert_eq!(
        kubectl.ok(&["delete", "-f", &boat]).await,
        "boat.test.io \"b\" deleted from default namespace\n"
    );
    kubectl.ok(&["delete", "crd", "boats.test.io", "--timeout=10s"]).await;
    assert!(kubectl.fails(&["get", "crd", "boats.test.io"]).await.contains("not found"));
    kubectl.fails(&["get", "boats"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_reports_what_is_missing() {
    let served = serve().await;
    let kubectl = Kubectl::of(&served);
    let file = manifest(served.state.path(), "pod.yaml", POD);
    kubectl.ok(&["apply", "-f", &file]).await;
    let text = kubectl.fails(&["exec", "p", "--", "true"]).await;
    assert!(text.contains("pod p does not have a host assigned"), "{text}");
    let text = kubectl.fails(&["logs", "p", "-c", "other"]).await;
    assert!(text.contains("container other is not valid for pod p"), "{text}");
}
