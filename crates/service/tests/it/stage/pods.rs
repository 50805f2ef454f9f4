//! Pods, and the node that plays them: what they write, use and run.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use cluster::apiserver::ApiServer;
use cluster::apiserver::kubelet::{
    ExecRequest, Kubelet, LogError, LogRequest, LogStream, NodeUsage, PodUsage, Process, StreamError, Used,
};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use semantics::local_images::ID_OF_THE_MACHINE;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Stage;
use super::servers::Server;

/// The node of pods that have written something.
const NODE: &str = "node-0";

impl Stage {
    /// Creates a pod of a job that requests something and has not started.
    pub async fn pod_with(&self, namespace: &str, job: &str, role: &str, name: &str, limits: Value) {
        let labels = json!({ api::LABEL_JOB_NAME: job, api::LABEL_JOB_ROLE: role });
        self.create_pod(namespace, name, labels, limits).await;
    }

    async fn create_pod(&self, namespace: &str, name: &str, labels: Value, limits: Value) {
        let metadata = json!({ "name": name, "namespace": namespace, "labels": labels });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": { "nodeName": NODE, "containers": [{ "name": "main", "image": "i",
                "resources": { "limits": limits } }] } });
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.admin.clone(), namespace);
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    /// Creates a pod of a job on the node that has the pods' output.
    pub async fn pod(&self, namespace: &str, job: &str, role: &str, name: &str) {
        let labels = json!({ api::LABEL_JOB_NAME: job, api::LABEL_JOB_ROLE: role });
        self.labelled_pod(namespace, name, labels).await;
    }

    /// The same with other labels.
    pub async fn labelled_pod(&self, namespace: &str, name: &str, labels: Value) {
        self.create_pod(namespace, name, labels, json!({})).await;
        let state = json!({ "terminated": { "exitCode": 0, "finishedAt": "2026-01-01T00:00:30Z" } });
        let status = json!({ "phase": "Succeeded", "containerStatuses": [{ "name": "main", "image": "i", "imageID": "",
            "ready": false, "restartCount": 0, "state": state }] });
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.admin.clone(), namespace);
        let patch = Patch::Merge(json!({ "status": status }));
        pods.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates a Worker's pod that ran this machine's own programs, because the embedded cluster does not know its image.
    pub async fn unmapped_pod(&self, namespace: &str, job: &str, name: &str, image: &str) {
        self.pod(namespace, job, "worker", name).await;
        let state = json!({ "terminated": { "exitCode": 0, "finishedAt": "2026-01-01T00:00:30Z" } });
        let status = json!({ "containerStatuses": [{ "name": "main", "image": image, "imageID": ID_OF_THE_MACHINE,
            "ready": false, "restartCount": 0, "state": state }] });
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.admin.clone(), namespace);
        let patch = Patch::Merge(json!({ "status": status }));
        pods.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates a running pod of a job, on a node that runs commands on this machine.
    pub async fn runs(
        &self,
        namespace: &str,
        job: &str,
        role: &str,
        name: &str,
        volumes: Value,
        mounts: Value,
    ) {
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": namespace,
                "labels": { api::LABEL_JOB_NAME: job, api::LABEL_JOB_ROLE: role } },
            "spec": { "nodeName": NODE, "volumes": volumes,
                "containers": [{ "name": "main", "image": "i", "volumeMounts": mounts }] } });
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.admin.clone(), namespace);
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let state = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
        let status = json!({ "phase": "Running", "containerStatuses": [{ "name": "main", "image": "i", "imageID": "",
            "ready": true, "restartCount": 0, "state": state }] });
        let patch = Patch::Merge(json!({ "status": status }));
        pods.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        self.embedded().kubelets.register(NODE, Arc::new(Commands));
    }

    /// The embedded server, for what only its node can play.
    fn embedded(&self) -> &ApiServer {
        match &self.server {
            Server::Embedded(server) => server,
            Server::Real(_) => panic!("this test needs a node that writes output or measures pods"),
        }
    }

    /// Deletes a pod at once.
    pub async fn delete_pod(&self, namespace: &str, name: &str) {
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.admin.clone(), namespace);
        let now = kube::api::DeleteParams::default().grace_period(0);
        pods.delete(name, &now).await.unwrap();
    }

    /// Lets a node answer for its pods.
    pub async fn node(&self, kubelet: Arc<dyn Kubelet>) {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.admin.clone());
        let node = json!({ "metadata": { "name": NODE } });
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        self.embedded().kubelets.register(NODE, kubelet);
    }

    /// Says what pods have written: the pod, the second of the line, its text.
    pub fn output(&self, lines: Vec<(String, i64, String)>) {
        self.embedded().kubelets.register(NODE, Arc::new(Played { lines, pods: Vec::new() }));
    }

    /// Lets the pods write a line, and end, once `end` is cancelled. `opened` is cancelled when somebody reads their output.
    pub fn output_later(&self, line: &'static str, opened: CancellationToken, end: CancellationToken) {
        self.embedded().kubelets.register(NODE, Arc::new(Unfinished { line, opened, end }));
    }

    /// Says what pods use: the pod, billionths of a core, bytes.
    pub async fn uses(&self, namespace: &str, used: &[(&str, u64, u64)]) {
        let api: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.admin.clone(), namespace);
        let mut pods = Vec::new();
        for (name, cpu_nanocores, memory_bytes) in used {
            let used = Used { cpu_nanocores: *cpu_nanocores, memory_bytes: *memory_bytes, ..Used::default() };
            pods.push(PodUsage {
                namespace: namespace.to_owned(),
                name: (*name).to_owned(),
                uid: api.get(name).await.unwrap().uid().unwrap(),
                containers: vec![("main".to_owned(), used)],
                traffic: None,
            });
        }
        self.node(Arc::new(Played { lines: Vec::new(), pods })).await;
    }

    /// The UID of a pod.
    pub async fn uid_of_pod(&self, namespace: &str, name: &str) -> String {
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.admin.clone(), namespace);
        pods.get(name).await.unwrap().uid().unwrap()
    }
}

/// A node that has its pods' output and usage, and nothing else.
struct Played {
    lines: Vec<(String, i64, String)>,
    pods: Vec<PodUsage>,
}

impl Kubelet for Played {
    fn usage(&self, _node: &str) -> BoxFuture<'_, Option<NodeUsage>> {
        let pods = self.pods.clone();
        let (time, window, node) = (Timestamp::now(), Duration::from_secs(15), Used::default());
        async move { Some(NodeUsage { time, window, node, pods }) }.boxed()
    }

    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        let lines: Vec<&(String, i64, String)> =
            self.lines.iter().filter(|(pod, ..)| *pod == request.pod).collect();
        let tail = request.tail_lines.and_then(|tail| usize::try_from(tail).ok()).unwrap_or(lines.len());
        let at = |second: &i64| Timestamp::from_second(1_767_225_600 + second).unwrap();
        let written: String = lines[lines.len().saturating_sub(tail)..]
            .iter()
            .map(|(_, second, text)| match request.timestamps {
                true => format!("{:.9} {text}\n", at(second)),
                false => format!("{text}\n"),
            })
            .collect();
        async move { Ok(futures::stream::iter([Ok(written.into())]).boxed()) }.boxed()
    }
}

/// A node that runs the commands of `exec` on this machine.
struct Commands;

impl Kubelet for Commands {
    fn usage(&self, _node: &str) -> BoxFuture<'_, Option<NodeUsage>> {
        async { None }.boxed()
    }

    fn logs(&self, _request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        async { Err(LogError::NotFound("no log".to_owned())) }.boxed()
    }

    fn exec(&self, request: ExecRequest) -> BoxFuture<'static, Result<Process, StreamError>> {
        async move {
            let mut command = tokio::process::Command::new(&request.command[0]);
            command
                .args(&request.command[1..])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
            let mut child = command.spawn().map_err(|error| StreamError::Start(error.to_string()))?;
            let stdout = tokio_util::io::ReaderStream::new(child.stdout.take().unwrap());
            let stdout = stdout.filter_map(|chunk| async { chunk.ok() }).boxed();
            let ended = async move { child.wait().await.ok().and_then(|status| status.code()) }.boxed();
            Ok(Process { stdin: None, stdout: Some(stdout), stderr: None, resize: None, ended })
        }
        .boxed()
    }
}

/// A node whose pods write one line and end when a test says so.
struct Unfinished {
    line: &'static str,
    opened: CancellationToken,
    end: CancellationToken,
}

impl Kubelet for Unfinished {
    fn usage(&self, _node: &str) -> BoxFuture<'_, Option<NodeUsage>> {
        async { None }.boxed()
    }

    fn logs(&self, _request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        let (line, end) = (self.line, self.end.clone());
        let rest = async move {
            end.cancelled().await;
            Ok(if line.is_empty() { String::new() } else { format!("2026-01-01T00:00:01Z {line}\n") }.into())
        };
        self.opened.cancel();
        async { Ok(futures::stream::once(rest).boxed()) }.boxed()
    }
}
