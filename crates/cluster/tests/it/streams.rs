//! exec, attach and port forwarding with kube-rs and the real `kubectl`, in every mode that this machine
//! permits.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cluster::node::ModeKind;
use futures::{SinkExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{Api, AttachParams, AttachedProcess, DeleteParams, TerminalSize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};

use crate::pods::{MODES, create, phase, pod, start_if_permitted, until};
use crate::served::client_of;

const BOUND: Duration = Duration::from_secs(60);

/// A cluster in one mode, with a client over TLS.
struct Stage {
    mode: ModeKind,
    client: kube::Client,
    kubeconfig: PathBuf,
    folder: PathBuf,
}

async fn on_each_stage<F: Future<Output = ()>>(test: impl Fn(Arc<Stage>) -> F) {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let Some(cluster) = start_if_permitted(mode, dir.path()).await else { continue };
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, serde_json::to_string(&cluster.kubeconfig()).unwrap()).unwrap();
        let stage = Stage {
            mode: cluster.mode().unwrap().kind,
            client: client_of(cluster.kubeconfig()).await,
            kubeconfig,
            folder: dir.path().to_owned(),
        };
        test(Arc::new(stage)).await;
        soon(cluster.stop()).await;
        assert!(!dir.path().join("c/run").exists(), "{mode:?}: the runtime directory is left");
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.expect("this should have happened by now")
}

impl Stage {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "team")
    }

    /// Starts a pod that does nothing.
    async fn idle(&self, name: &str) {
        create(&self.client, pod(name, "exec sleep 600")).await;
        until(&self.client, name, "running", |pod| phase(pod) == Some("Running")).await;
    }

    async fn exec(&self, name: &str, command: &[&str], params: AttachParams) -> AttachedProcess {
        soon(self.pods().exec(name, command.to_vec(), &params)).await.unwrap()
    }

    /// Runs a command, and returns its output and status.
    async fn run(&self, name: &str, script: &str) -> (String, Option<Status>) {
        let mut process = self.exec(name, &["sh", "-c", script], AttachParams::default().stderr(false)).await;
        finish(&mut process).await
    }

    fn kubectl(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(crate::kubectl::program());
        command.arg("-n").arg("team").args(arguments).env("KUBECONFIG", &self.kubeconfig);
        command.env("HOME", &self.folder).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    async fn told(&self, arguments: &[&str]) -> Output {
        soon(self.kubectl(arguments).output()).await.unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn finish(process: &mut AttachedProcess) -> (String, Option<Status>) {
    let mut output = String::new();
    let ended = process.take_status().unwrap();
    soon(process.stdout().unwrap().read_to_string(&mut output)).await.unwrap();
    (output, soon(ended).await)
}

fn code(status: Option<Status>) -> i32 {
    let status = status.unwrap();
    if status.status.as_deref() == Some("Success") {
        return 0;
    }
    let causes = status.details.and_then(|details| details.causes).unwrap();
    let cause = causes.into_iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"));
    cause.unwrap().message.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_runs_in_the_container_and_returns_its_status() {
    on_each_stage(|stage| async move {
        let mut idle = pod("idle", "exec sleep 600");
        idle["spec"]["containers"][0]["env"] = json!([{"name": "COLOUR", "value": "green"}]);
        idle["spec"]["containers"][0]["workingDir"] = json!("/tmp");
        create(&stage.client, idle).await;
        until(&stage.client, "idle", "running", |pod| phase(pod) == Some("Running")).await;
        let (output, status) = stage.run("idle", "echo $COLOUR; pwd; hostname; exit 3").await;
        assert_eq!(code(status), 3);
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(lines[..2], ["green", "/tmp"], "{}", stage.mode);
        if stage.mode.isolates() {
            assert_eq!(lines[2], "idle", "{}", stage.mode);
            // The container has a PID namespace: its first process has the ID 1.
            assert_eq!(stage.run("idle", "cat /proc/1/comm").await.0, "sleep\n", "{}", stage.mode);
        }
        let mut process = stage.exec("idle", &["no-such-program"], AttachParams::default()).await;
        let status = soon(process.take_status().unwrap()).await.unwrap();
        let message = status.message.unwrap();
        assert!(message.contains("executable file not found in $PATH"), "{message}");
        // Large output arrives completely, even if the client is slow.
        let (output, status) = stage.run("idle", "head -c 3000000 /dev/zero | tr '\\0' x").await;
        assert_eq!((output.len(), code(status)), (3_000_000, 0), "{}", stage.mode);
        let refused = stage.pods().exec("idle", ["true"], &AttachParams::default().container("other")).await;
        assert!(refused.is_err());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standard_input_and_terminal_resizing_work() {
    on_each_stage(|stage| async move {
        stage.idle("idle").await;
        let params = AttachParams::default().stdin(true).stderr(false);
        let mut process = stage.exec("idle", &["sh", "-c", "read line; echo got $line"], params).await;
        process.stdin().unwrap().write_all(b"words\n").await.unwrap();
        let (output, status) = finish(&mut process).await;
        assert_eq!((output.as_str(), code(status)), ("got words\n", 0), "{}", stage.mode);

        let shell = AttachParams::interactive_tty();
        let script = "tty; trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.05; done";
        let mut process = stage.exec("idle", &["sh", "-c", script], shell).await;
        let mut resize = process.terminal_size().unwrap();
        let mut output = process.stdout().unwrap();
        let mut shown = String::new();
        let mut chunk = [0; 256];
        while !shown.contains("ready") {
            let count = soon(output.read(&mut chunk)).await.unwrap();
            shown.push_str(&text(&chunk[..count]));
        }
        resize.send(TerminalSize { width: 91, height: 33 }).await.unwrap();
        let ended = process.take_status().unwrap();
        soon(output.read_to_string(&mut shown)).await.unwrap();
        assert_eq!(code(soon(ended).await), 5);
        assert!(shown.contains("/dev/pts/") && shown.contains("33 91"), "{}: {shown}", stage.mode);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_end_with_their_client_or_their_pod() {
    on_each_stage(|stage| async move {
        stage.idle("idle").await;
        let here = stage.folder.join("gone");
        let mut volume = pod("other", "exec sleep 600");
        volume["spec"]["volumes"] = json!([{"name": "v", "hostPath": {"path": stage.folder}}]);
        volume["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/odh-test-v"}]);
        create(&stage.client, volume).await;
        until(&stage.client, "other", "running", |pod| phase(pod) == Some("Running")).await;
        // The terminal hangs up when the client disconnects.
        let script = "trap 'echo bye > /odh-test-v/gone; exit' HUP; echo ready; while :; do sleep 0.05; done";
        let mut process = stage.exec("other", &["sh", "-c", script], AttachParams::interactive_tty()).await;
        let mut chunk = [0; 64];
        assert!(soon(process.stdout().unwrap().read(&mut chunk)).await.unwrap() > 0);
        process.abort();
        soon(async {
            while !here.exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        // An exec process ends with its container, and the client gets its status.
        let params = AttachParams::default().stderr(false);
        let mut process = stage.exec("idle", &["sh", "-c", "echo up; exec sleep 600"], params).await;
        let mut output = process.stdout().unwrap();
        assert!(soon(output.read(&mut chunk)).await.unwrap() > 0);
        stage.pods().delete("idle", &DeleteParams::default().grace_period(0)).await.unwrap();
        let status = soon(process.take_status().unwrap()).await;
        assert_eq!(code(status), 137, "{}", stage.mode);
        let refused = stage.pods().exec("idle", ["true"], &AttachParams::default()).await;
        assert!(refused.is_err());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_attach_to_the_streams_of_a_container() {
    on_each_stage(|stage| async move {
        let mut talks = pod("talks", "while read line; do echo heard $line; echo aside >&2; done");
        talks["spec"]["containers"][0]["stdin"] = json!(true);
        talks["spec"]["containers"][0]["stdinOnce"] = json!(true);
        create(&stage.client, talks).await;
        until(&stage.client, "talks", "running", |pod| phase(pod) == Some("Running")).await;
        let params = AttachParams::default().stdin(true);
        let mut process = soon(stage.pods().attach("talks", &params)).await.unwrap();
        let mut output = process.stdout().unwrap();
        let mut errors = process.stderr().unwrap();
        let mut input = process.stdin().unwrap();
        input.write_all(b"one\n").await.unwrap();
        let mut chunk = [0; 64];
        let count = soon(output.read(&mut chunk)).await.unwrap();
        assert_eq!(text(&chunk[..count]), "heard one\n", "{}", stage.mode);
        let count = soon(errors.read(&mut chunk)).await.unwrap();
        assert_eq!(text(&chunk[..count]), "aside\n", "{}", stage.mode);
        // Standard input ends when the first client disconnects (`stdinOnce`).
        drop((input, output, errors));
        process.abort();
        until(&stage.client, "talks", "ended", |pod| phase(pod) == Some("Succeeded")).await;

        let mut tty = pod("tty", "read line; echo heard $line; tty");
        tty["spec"]["containers"][0]["stdin"] = json!(true);
        tty["spec"]["containers"][0]["tty"] = json!(true);
        create(&stage.client, tty).await;
        until(&stage.client, "tty", "running", |pod| phase(pod) == Some("Running")).await;
        let mut process = soon(stage.pods().attach("tty", &AttachParams::interactive_tty())).await.unwrap();
        process.stdin().unwrap().write_all(b"two\n").await.unwrap();
        let mut shown = String::new();
        soon(process.stdout().unwrap().read_to_string(&mut shown)).await.unwrap();
        assert!(shown.contains("heard two") && shown.contains("/dev/pts/"), "{}: {shown:?}", stage.mode);
        until(&stage.client, "tty", "ended", |pod| phase(pod) == Some("Succeeded")).await;
        let log = stage.pods().logs("tty", &Default::default()).await.unwrap();
        assert!(log.contains("heard two"), "{}: {log:?}", stage.mode);
    })
    .await;
}

const ECHO: &str = "import socket, sys
s = socket.create_server(('127.0.0.1', 0 if len(sys.argv) > 1 else 8080))
print(s.getsockname()[1], flush=True)
while True:
  c, _ = s.accept()
  while data := c.recv(65536): c.sendall(data.upper())
  c.close()";

/// Starts a pod that echoes in upper case, on its loopback only, and returns its port.
async fn echo(stage: &Stage) -> u16 {
    let mut server = pod("echo", "");
    let mut command = vec!["python3", "-c", ECHO];
    // In plain mode, pods use the machine's ports.
    command.extend((!stage.mode.isolates()).then_some("any"));
    server["spec"]["containers"][0]["command"] = json!(command);
    create(&stage.client, server).await;
    until(&stage.client, "echo", "running", |pod| phase(pod) == Some("Running")).await;
    soon(async {
        loop {
            let log = stage.pods().logs("echo", &Default::default()).await.unwrap_or_default();
            if let Ok(port) = log.trim().parse() {
                return port;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ports_are_forwarded_over_a_websocket() {
    on_each_stage(|stage| async move {
        let port = echo(&stage).await;
        let mut forwarder = soon(stage.pods().portforward("echo", &[port])).await.unwrap();
        let mut stream = forwarder.take_stream(port).unwrap();
        let body = vec![b'a'; 1 << 20];
        let (mut from, mut to) = tokio::io::split(&mut stream);
        let mut back = vec![0; body.len()];
        soon(async { tokio::try_join!(to.write_all(&body), from.read_exact(&mut back)).unwrap() }).await;
        assert!(back.iter().all(|byte| *byte == b'A'), "{}", stage.mode);
        drop(stream);
        // Nothing listens there, which the error channel reports.
        let closed = soon(stage.pods().portforward("echo", &[1])).await;
        let why = soon(closed.unwrap().take_error(1).unwrap()).await.unwrap();
        assert!(why.contains("failed to connect to localhost:1"), "{}: {why}", stage.mode);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_runs_copies_and_attaches() {
    on_each_stage(|stage| async move {
        stage.idle("idle").await;
        let told = stage.told(&["exec", "idle", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]).await;
        assert_eq!(told.status.code(), Some(7), "{}: {}", stage.mode, text(&told.stderr));
        assert_eq!(text(&told.stdout), "out\n");
        assert!(text(&told.stderr).starts_with("err\n"), "{}", text(&told.stderr));

        let mut child = stage.kubectl(&["exec", "-i", "idle", "--", "wc", "-c"]);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(&vec![b'x'; 200_000]).await.unwrap();
        drop(input);
        let output = soon(child.wait_with_output()).await.unwrap();
        assert_eq!(text(&output.stdout).trim(), "200000", "{}", stage.mode);

        let (there, back) = (stage.folder.join("there"), stage.folder.join("back"));
        let bytes: Vec<u8> = (0..300_000u32).map(|number| (number % 251) as u8).collect();
        std::fs::write(&there, &bytes).unwrap();
        // Without a mount namespace, the pod's path is on the machine.
        let inside = stage.folder.join("inside");
        let inside = if stage.mode.isolates() { "/tmp/inside" } else { inside.to_str().unwrap() };
        let remote = format!("idle:{inside}");
        let told = stage.told(&["cp", there.to_str().unwrap(), &remote]).await;
        assert!(told.status.success(), "{}: {}", stage.mode, text(&told.stderr));
        let told = stage.told(&["cp", &remote, back.to_str().unwrap()]).await;
        assert!(told.status.success(), "{}: {}", stage.mode, text(&told.stderr));
        assert!(std::fs::read(&back).unwrap() == bytes, "{}", stage.mode);
        let told = stage.told(&["exec", "absent", "--", "true"]).await;
        assert!(text(&told.stderr).contains("pods \"absent\" not found"), "{}", text(&told.stderr));
    })
    .await;
}

/// Returns the local port that `kubectl port-forward` listens on.
async fn local_port(output: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> u16 {
    let mut line = String::new();
    soon(output.read_line(&mut line)).await.unwrap();
    let address = line.strip_prefix("Forwarding from 127.0.0.1:").unwrap_or_else(|| panic!("{line:?}"));
    address.split(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_forwards_ports() {
    // Over a WebSocket, which is the default, and over SPDY, like older versions.
    for websockets in ["true", "false"] {
        on_each_stage(|stage| async move {
            let port = echo(&stage).await.to_string();
            let mut command = stage.kubectl(&["port-forward", "pod/echo", &format!(":{port}"), ":1"]);
            command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
            command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut output = tokio::io::BufReader::new(child.stdout.take().unwrap());
            let local = local_port(&mut output).await;
            let body = vec![b'a'; 1 << 20];
            let talk = |body: Vec<u8>| async move {
                let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", local)).await.unwrap();
                let (mut from, mut to) = stream.split();
                let mut back = vec![0; body.len()];
                tokio::try_join!(to.write_all(&body), from.read_exact(&mut back)).unwrap();
                back
            };
            // The server handles them one after another; all share one connection.
            let all = futures::future::join_all((0..4).map(|_| talk(body.clone())));
            let all = soon(all).await;
            assert!(all.concat().iter().all(|byte| *byte == b'A'), "{}", stage.mode);
            soon(child.kill()).await.unwrap();
            let mut command = stage.kubectl(&["exec", "-i", "echo", "--", "sh", "-c", "cat; exit 4"]);
            command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(b"through").await.unwrap();
            let told = soon(child.wait_with_output()).await.unwrap();
            assert_eq!(
                (text(&told.stdout).as_str(), told.status.code()),
                ("through", Some(4)),
                "{}",
                stage.mode
            );
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_port_forward_fails_on_a_closed_port_or_a_deleted_pod() {
    on_each_stage(|stage| async move {
        stage.idle("idle").await;
        for gone in [false, true] {
            let mut command = stage.kubectl(&["port-forward", "pod/idle", ":1"]);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut output = tokio::io::BufReader::new(child.stdout.take().unwrap());
            let local = local_port(&mut output).await;
            if gone {
                stage.pods().delete("idle", &DeleteParams::default().grace_period(0)).await.unwrap();
            } else {
                let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", local)).await.unwrap();
                assert_eq!(soon(stream.read(&mut [0; 9])).await.unwrap_or(0), 0);
            }
            let told = soon(child.wait_with_output()).await.unwrap();
            let errors = text(&told.stderr);
            assert_eq!(told.status.code(), Some(1), "{}: {errors}", stage.mode);
            assert!(errors.contains("lost connection to pod"), "{}: {errors}", stage.mode);
            assert_eq!(
                errors.contains("failed to connect to localhost:1"),
                !gone,
                "{}: {errors}",
                stage.mode
            );
        }
    })
    .await;
}

async fn ask(stage: &Stage, path: &str) -> serde_json::Value {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    soon(stage.client.request(request)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_of_pods_and_nodes_is_reported() {
    on_each_stage(|stage| async move {
        let mut busy =
            pod("busy", "i=0; x=$(head -c 30000000 /dev/zero | tr '\\0' x); while :; do i=1; done");
        let idle = json!({"name": "idle", "image": "i", "command": ["sleep", "600"]});
        busy["metadata"]["labels"] = json!({"app": "busy"});
        busy["spec"]["containers"].as_array_mut().unwrap().push(idle);
        create(&stage.client, busy).await;
        until(&stage.client, "busy", "running", |pod| phase(pod) == Some("Running")).await;
        let path = "/apis/metrics.k8s.io/v1beta1/namespaces/team/pods";
        let number = |value: &serde_json::Value, suffix: &str| -> u64 {
            value.as_str().unwrap().strip_suffix(suffix).unwrap().parse().unwrap()
        };
        let mut last = serde_json::Value::Null;
        let used = async {
            loop {
                last = ask(&stage, &format!("{path}/busy")).await;
                let main = &last["containers"][1]["usage"];
                if number(&main["cpu"], "n") > 40_000_000 && number(&main["memory"], "Ki") > 20_000 {
                    return last.clone();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let used = tokio::time::timeout(BOUND, used).await;
        let used = used.unwrap_or_else(|_| panic!("{}: it does not look busy: {last}", stage.mode));
        assert_eq!((&used["containers"][0]["name"], &used["kind"]), (&json!("idle"), &json!("PodMetrics")));
        assert!(number(&used["containers"][0]["usage"]["cpu"], "n") < 20_000_000, "{}: {used}", stage.mode);
        assert!(number(&used["containers"][0]["usage"]["memory"], "Ki") < 20_000, "{}: {used}", stage.mode);
        let none = ask(&stage, &format!("{path}?labelSelector=app%3Dother")).await;
        assert_eq!((&none["kind"], &none["items"]), (&json!("PodMetricsList"), &json!([])));
        let node = ask(&stage, "/apis/metrics.k8s.io/v1beta1/nodes/node-0").await;
        assert!(number(&node["usage"]["memory"], "Ki") > 10_000, "{node}");
        let summary = ask(&stage, "/api/v1/nodes/node-0/proxy/stats/summary").await;
        let pod = &summary["pods"][0];
        assert_eq!(pod["podRef"]["name"], "busy", "{summary}");
        assert_eq!(pod["network"]["rxBytes"].is_u64(), stage.mode.isolates(), "{summary}");
        let told = stage.told(&["top", "pod", "--containers"]).await;
        assert!(told.status.success(), "{}", text(&told.stderr));
        assert_eq!(text(&told.stdout).lines().count(), 3, "{}", text(&told.stdout));
        let told = stage.told(&["top", "node"]).await;
        assert!(text(&told.stdout).contains("node-0"), "{}{}", text(&told.stdout), text(&told.stderr));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_without_an_upgrade_are_rejected() {
    on_each_stage(|stage| async move {
        stage.idle("idle").await;
        let path = "/api/v1/namespaces/team/pods/idle/exec?command=true&stdout=1";
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let error = stage.client.request::<serde_json::Value>(request).await.unwrap_err();
        let kube::Error::Api(status) = error else { panic!("{error}") };
        assert!(status.code == 400 && status.message.starts_with("Upgrade request required"), "{status:?}");
        let none = AttachParams::default().stdout(false).stderr(false);
        assert!(stage.pods().exec("idle", ["true"], &none).await.is_err());
        // Many sessions, a few at a time: all permits are released.
        let runs = (0..20).map(|number| {
            let stage = Arc::clone(&stage);
            async move { stage.run("idle", &format!("echo {number}")).await.0 }
        });
        let outputs: Vec<String> = futures::stream::iter(runs).buffer_unordered(5).collect().await;
        assert_eq!(outputs.len(), 20);
    })
    .await;
}
