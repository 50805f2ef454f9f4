//! The kubelet API: logs, exec, attach, port forwarding and usage; and the folders of pods and their logs.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kubelet::{
    ConnectRequest, ExecRequest, Kubelet, LogError, LogRequest, LogStream, NodeUsage, Process, StreamError,
    StreamRequest,
};

use super::logs::{RunLog, Wanted};
use super::{LocalNode, lock, pod};

/// Runs of a container whose logs are kept: the current one and the previous one.
const KEPT_RUNS: usize = 2;

impl LocalNode {
    /// Returns the folder that the pods of the namespace share ([`PresetValue::Registry`]).
    pub(super) fn registry(&self, pod: &Pod) -> PathBuf {
        let folder =
            self.runtime.join("registry").join(pod.metadata.namespace.as_deref().unwrap_or_default());
        let _ = std::fs::create_dir_all(&folder);
        folder
    }

    /// Returns the folder of everything that lives as long as a pod's containers.
    pub(super) fn pod_folder(&self, uid: &str) -> PathBuf {
        self.runtime.join("pods").join(uid)
    }

    fn pod_log_folder(&self, pod: &Pod) -> PathBuf {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let meta = &pod.metadata;
        self.log_folder_of(&text(&meta.namespace), &text(&meta.name), &text(&meta.uid))
    }

    fn log_folder_of(&self, namespace: &str, pod: &str, uid: &str) -> PathBuf {
        self.log_folder.join(format!("{namespace}_{pod}_{uid}"))
    }

    pub(super) fn begin_log(&self, pod: &Pod, container: &str, restarts: i32) -> io::Result<Arc<RunLog>> {
        let folder = self.pod_log_folder(pod).join(container);
        let key = (pod.metadata.uid.clone().unwrap_or_default(), container.to_owned());
        // Runs before this node's start are known only from their files.
        let known = lock(&self.logs).contains_key(&key);
        let before = if known { Vec::new() } else { RunLog::recall(&folder, KEPT_RUNS) };
        let log = RunLog::create(folder.join(format!("{restarts}.log")))?;
        let mut logs = lock(&self.logs);
        let runs = logs.entry(key).or_insert_with(|| before);
        runs.push(Arc::clone(&log));
        if runs.len() > KEPT_RUNS {
            runs.remove(0).remove();
        }
        Ok(log)
    }

    pub(super) fn forget_logs(&self, pod: &Pod) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        lock(&self.logs).retain(|(owner, _), _| *owner != uid);
        let _ = std::fs::remove_dir_all(self.pod_log_folder(pod));
        let _ = std::fs::remove_file(self.registry(pod).join(pod::hostname(pod)));
    }
}

impl Kubelet for LocalNode {
    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        let LogRequest {
            namespace,
            pod,
            uid,
            container,
            follow,
            tail_lines,
            since,
            timestamps,
            previous,
            limit_bytes,
        } = request;
        let folder = self.log_folder_of(&namespace, &pod, &uid).join(&container);
        let known = lock(&self.logs).get(&(uid, container.clone())).cloned();
        let runs = known.unwrap_or_else(|| RunLog::recall(&folder, KEPT_RUNS));
        let wanted = Wanted { follow, tail_lines, since, timestamps, limit_bytes };
        let outcome = if previous {
            let run = runs.len().checked_sub(2).and_then(|index| runs.get(index)).cloned();
            run.ok_or_else(|| {
                LogError::NotFound(format!(
                    "previous terminated container {container:?} in pod {pod:?} not found"
                ))
            })
        } else {
            runs.last().cloned().ok_or_else(|| {
                LogError::NotReady(format!(
                    "container {container:?} in pod {pod:?} is waiting to start: ContainerCreating"
                ))
            })
        };
        Box::pin(async move { Ok(outcome?.read(wanted)?) })
    }

    fn exec(&self, request: ExecRequest) -> BoxFuture<'static, Result<Process, StreamError>> {
        let node = self.own.upgrade();
        Box::pin(async move {
            let node = node.ok_or_else(|| StreamError::Start("the node is shutting down".to_owned()))?;
            node.exec_for(request).await
        })
    }

    fn attach(&self, request: StreamRequest) -> BoxFuture<'_, Result<Process, StreamError>> {
        Box::pin(async move { self.attach_to(&request) })
    }

    fn connect(&self, request: ConnectRequest) -> BoxFuture<'_, Result<tokio::net::TcpStream, StreamError>> {
        Box::pin(self.connect_to(request))
    }

    fn usage(&self, node: &str) -> BoxFuture<'_, Option<NodeUsage>> {
        let node = node.to_owned();
        Box::pin(async move { self.usage_of(&node).await })
    }

    fn pod_ended(&self, uid: &str) -> BoxFuture<'static, ()> {
        let sandbox = lock(&self.sandboxes).get(uid).cloned();
        Box::pin(async move {
            if let Some(sandbox) = sandbox {
                sandbox.cancelled().await;
            }
        })
    }
}
