//! Security, probes and storage of pods: enforced where the mode can, reported where it cannot.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use cluster::node::{ModeChoice, ModeKind};
use k8s_openapi::api::core::v1::{Event, Pod, Secret};
use kube::api::{Api, DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::pods::{create, ended, in_each_mode, phase, pod, pods, start_if_permitted, terminated, until};

const BOUND: Duration = Duration::from_secs(30);

/// Waits for an event with this reason and returns its message.
async fn told(client: &kube::Client, name: &str, reason: &str) -> String {
    let events: Api<Event> = Api::namespaced(client.clone(), "team");
    let look = async {
        loop {
            let all = events.list(&ListParams::default()).await.unwrap();
            let found = all.items.into_iter().find(|event| {
                event.reason.as_deref() == Some(reason) && event.involved_object.name.as_deref() == Some(name)
            });
            if let Some(event) = found {
                return event.message.unwrap_or_default();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(BOUND, look).await.unwrap_or_else(|_| panic!("{name}: no event {reason}"))
}

fn with_context(name: &str, script: &str, context: Value) -> Value {
    let mut made = pod(name, script);
    made["spec"]["containers"][0]["securityContext"] = context;
    made
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn security_contexts_are_enforced_or_reported() {
    in_each_mode(|client, mode| async move {
        let script = "grep -E 'CapBnd|NoNewPrivs' /proc/self/status; \
            touch /odh-test-no 2>/dev/null || echo no root; touch /tmp/no 2>/dev/null || echo no tmp; \
            echo yes > /odh-test-data/yes && cat /odh-test-data/yes; echo x > /dev/null && echo null";
        let mut spec = with_context("sealed", script, json!({"readOnlyRootFilesystem": true,
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}));
        spec["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
        spec["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "data", "mountPath": "/odh-test-data"}]);
        create(&client, spec).await;
        let (_, log) = ended(&client, "sealed").await;
        assert!(log.contains("NoNewPrivs:\t1"), "{mode}: {log}");
        if mode.isolates() {
            assert!(log.contains("CapBnd:\t0000000000000400\n"), "{mode}: {log}");
            assert!(log.ends_with("no root\nno tmp\nyes\nnull\n"), "{mode}: {log}");
        } else {
            let why = told(&client, "sealed", "SecurityNotEnforced").await;
            assert!(why.contains("readOnlyRootFilesystem") && why.contains("capabilities.add"), "{why}");
        }
        create(&client, pod("usual", "grep -E 'CapBnd|NoNewPrivs' /proc/self/status")).await;
        let (_, log) = ended(&client, "usual").await;
        assert!(log.contains("NoNewPrivs:\t0"), "{mode}: {log}");
        if mode.isolates() {
            assert!(log.contains("CapBnd:\t00000000a80425fb\n"), "{mode}: {log}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsupported_security_settings_are_rejected_with_a_reason() {
    in_each_mode(|client, mode| async move {
        create(&client, with_context("privileged", "true", json!({"privileged": true}))).await;
        let why = told(&client, "privileged", "Failed").await;
        assert!(why.contains("this node does not run privileged containers"), "{mode}: {why}");
        create(&client, with_context("flies", "true", json!({"capabilities": {"add": ["FLY"]}}))).await;
        assert!(told(&client, "flies", "Failed").await.contains("unknown capability \"FLY\""));
        create(&client, with_context("root", "true", json!({"runAsNonRoot": true, "runAsUser": 0}))).await;
        assert!(told(&client, "root", "Failed").await.contains("runAsNonRoot"));
        let mut unsafe_one = pod("unsafe", "true");
        unsafe_one["spec"]["securityContext"] = json!({"sysctls": [{"name": "kernel.msgmax", "value": "1"}]});
        create(&client, unsafe_one).await;
        let failed = until(&client, "unsafe", "failed", |pod| phase(pod) == Some("Failed")).await.unwrap();
        assert_eq!(failed.status.unwrap().reason.as_deref(), Some("SysctlForbidden"), "{mode}");
        for name in ["privileged", "flies", "root"] {
            pods(&client).delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sysctls_groups_and_volume_owners_are_set_or_reported() {
    in_each_mode(|client, mode| async move {
        let mut spec = pod(
            "tuned",
            "cat /proc/sys/net/ipv4/tcp_fin_timeout; id -G; stat -c %g /odh-test-data; \
             echo $LIMIT; cat /odh-test-info/memory; echo; cat /odh-test-one",
        );
        spec["spec"]["securityContext"] = json!({"fsGroup": 4321, "supplementalGroups": [5432],
            "sysctls": [{"name": "net.ipv4.tcp_fin_timeout", "value": "17"}]});
        spec["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}, {"name": "info", "downwardAPI": {"items": [
            {"path": "memory", "resourceFieldRef": {"containerName": "main", "resource": "limits.memory", "divisor": "1Mi"}}]}}]);
        let container = &mut spec["spec"]["containers"][0];
        container["resources"] = json!({"limits": {"memory": "64Mi"}});
        container["env"] = json!([{"name": "PART", "value": "memory"},
            {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}}]);
        container["volumeMounts"] = json!([{"name": "data", "mountPath": "/odh-test-data"},
            {"name": "info", "mountPath": "/odh-test-info"},
            {"name": "info", "mountPath": "/odh-test-one", "subPathExpr": "$(PART)"}]);
        create(&client, spec).await;
        let (_, log) = ended(&client, "tuned").await;
        let lines: Vec<&str> = log.lines().collect();
        if mode.isolates() {
            assert_eq!(lines[0], "17", "{mode}: {log}");
            assert_eq!(lines[3..], ["67108864", "64", "64"], "{mode}: {log}");
        } else {
            assert!(told(&client, "tuned", "SecurityNotEnforced").await.contains("sysctls"));
        }
        if mode == ModeKind::Root {
            assert!(lines[1].split(' ').any(|group| group == "5432"), "{log}");
            assert_eq!(lines[2], "4321", "{log}");
        } else {
            assert!(told(&client, "tuned", "SecurityNotEnforced").await.contains("supplementalGroups"));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mounted_secret_is_updated_and_keeps_its_mode() {
    in_each_mode(|client, mode| async move {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), "team");
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": "key"}, "stringData": {"key": "old"}}))
        .unwrap();
        secrets.create(&PostParams::default(), &secret).await.unwrap();
        let script = "stat -L -c %a /odh-test-key/key; while grep -q old /odh-test-key/key; do sleep 0.05; done; \
            cat /odh-test-key/key";
        let mut spec = pod("follows", script);
        spec["spec"]["volumes"] = json!([{"name": "key", "secret": {"secretName": "key", "defaultMode": 0o400}}]);
        spec["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "key", "mountPath": "/odh-test-key"}]);
        create(&client, spec).await;
        until(&client, "follows", "running", |pod| phase(pod) == Some("Running")).await;
        let patch = json!({"stringData": {"key": "new"}});
        secrets.patch("key", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        assert_eq!(ended(&client, "follows").await.1, "400\nnew", "{mode}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_exceeds_its_volume_limit_is_evicted() {
    in_each_mode(|client, mode| async move {
        let mut spec = pod("writes", "head -c 3000000 /dev/zero > /odh-test-data/big; exec sleep 600");
        spec["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]);
        spec["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "data", "mountPath": "/odh-test-data"}]);
        create(&client, spec).await;
        let mut small = pod("memory", "head -c 3000000 /dev/zero > /odh-test-data/big || echo full");
        small["spec"]["volumes"] =
            json!([{"name": "data", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]);
        small["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "data", "mountPath": "/odh-test-data"}]);
        create(&client, small).await;
        let evicted = until(&client, "writes", "evicted", |pod| phase(pod) == Some("Failed")).await.unwrap();
        let status = evicted.status.unwrap();
        assert_eq!(status.reason.as_deref(), Some("Evicted"), "{mode}");
        assert!(
            status.message.unwrap().contains("Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\"")
        );
        let (_, log) = ended(&client, "memory").await;
        assert_eq!(log.contains("full"), mode.isolates(), "{mode}: {log}");
    })
    .await;
}

/// An HTTPS server with an untrusted certificate.
const HTTPS: &str = "import http.server, ssl
class H(http.server.BaseHTTPRequestHandler):
  def do_GET(self):
    self.send_response(200 if self.path == '/well' else 500); self.end_headers()
s = http.server.HTTPServer(('', 8443), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain('/odh-test-tls/cert', '/odh-test-tls/key')
s.socket = c.wrap_socket(s.socket, server_side=True); s.serve_forever()";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_use_https_and_grpc() {
    in_each_mode(|client, mode| async move {
        if !mode.isolates() {
            // Without a network of its own, the pod would use the machine's ports.
            return;
        }
        let probed = |name: &str, path: &str| {
            let mut spec = pod(name, "");
            let container = &mut spec["spec"]["containers"][0];
            container["command"] = json!(["python3", "-c", HTTPS]);
            container["volumeMounts"] = json!([{"name": "tls", "mountPath": "/odh-test-tls"}]);
            container["readinessProbe"] =
                json!({"httpGet": {"path": path, "port": 8443, "scheme": "HTTPS"}, "periodSeconds": 1});
            spec["spec"]["volumes"] = json!([{"name": "tls", "secret": {"secretName": "tls"}}]);
            spec
        };
        let made = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap();
        let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "tls"},
            "stringData": {"cert": made.cert.pem(), "key": made.signing_key.serialize_pem()}}))
        .unwrap();
        Api::namespaced(client.clone(), "team").create(&PostParams::default(), &secret).await.unwrap();
        create(&client, probed("well", "/well")).await;
        create(&client, probed("ill", "/ill")).await;
        let mut grpc = pod("grpc", "exec sleep 600");
        grpc["spec"]["containers"][0]["readinessProbe"] = json!({"grpc": {"port": 9000}, "periodSeconds": 1});
        create(&client, grpc).await;
        let ready = |pod: Option<&Pod>| {
            let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.clone()).unwrap_or_default();
            conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True")
        };
        until(&client, "well", "ready", ready).await;
        let unhealthy = async {
            loop {
                let why = told(&client, "ill", "Unhealthy").await;
                if !why.is_empty() {
                    return why;
                }
            }
        };
        let why = unhealthy.await;
        assert!(why.contains("statuscode: 500") || why.contains("connection refused"), "{mode}: {why}");
        let why = told(&client, "grpc", "Unhealthy").await;
        assert!(why.contains("dial tcp") && why.contains(":9000"), "{mode}: {why}");
        for name in ["well", "ill", "grpc"] {
            pods(&client).delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn termination_messages_hooks_and_sidecars_behave_as_with_kubelet() {
    in_each_mode(|client, mode| async move {
        let mut spec = pod("speaks", "cat /odh-test-data/sidecar /odh-test-data/hook; exit 3");
        spec["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
        let mounts = json!([{"name": "data", "mountPath": "/odh-test-data"}]);
        let wait = "until [ -e /odh-test-data/hook ]; do sleep 0.02; done; cat /odh-test-data/sidecar; echo logged; exit 3";
        let container = &mut spec["spec"]["containers"][0];
        container["command"] = json!(["sh", "-c", wait]);
        container["volumeMounts"] = mounts.clone();
        container["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
        container["lifecycle"] = json!({"postStart": {"exec": {"command": ["touch", "/odh-test-data/hook"]}}});
        spec["spec"]["initContainers"] = json!([{"name": "sidecar", "image": "i", "restartPolicy": "Always",
            "command": ["sh", "-c", "echo beside > /odh-test-data/sidecar; exec sleep 600"],
            "startupProbe": {"exec": {"command": ["test", "-s", "/odh-test-data/sidecar"]}, "periodSeconds": 1},
            "volumeMounts": mounts}]);
        create(&client, spec).await;
        let (pod, log) = ended(&client, "speaks").await;
        assert_eq!(log, "beside\nlogged\n", "{mode}");
        let how = terminated(&pod);
        assert_eq!(how["exitCode"], 3, "{mode}: {how}");
        assert!(how["message"].as_str().unwrap().ends_with("logged\n"), "{mode}: {how}");
    })
    .await;
}

/// Prints what a shell in a pod finds in the cluster's state directory.
const LOOK: &str = "for f in admin.token pki/ca.key service-accounts.key run volumes; do test -e $1/$f && echo found $f; done; ls -A $1; true";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_does_not_see_the_clusters_own_files() {
    for mode in [ModeChoice::Rootless, ModeChoice::Root] {
        // Not below /tmp, because pods have their own.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let Some(cluster) = start_if_permitted(mode, dir.path()).await else { continue };
        let client = cluster.client();
        let state = dir.path().canonicalize().unwrap().join("c");
        assert!(state.join("admin.token").exists());
        let look = |name: &str, path: &Path| {
            let mut spec = pod(name, LOOK);
            let path = path.display().to_string();
            spec["spec"]["containers"][0]["command"] = json!(["sh", "-c", LOOK, "sh", path]);
            spec
        };
        // Directly, and through the parent folder mounted elsewhere.
        let mut plain = look("plain", &state);
        let mut root =
            look("by-host-path", &Path::new("/odh-test-machine").join(state.strip_prefix("/").unwrap()));
        root["spec"]["initContainers"] = json!([{"name": "first", "image": "x",
            "command": ["sh", "-c", format!("test -z \"$({LOOK})\""), "sh", state]}]);
        root["spec"]["volumes"] = json!([{"name": "machine", "hostPath": {"path": "/"}}]);
        root["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "machine", "mountPath": "/odh-test-machine"}]);
        for (spec, user) in [(&mut plain, 0), (&mut root, 0)] {
            // A process with the capability to mount must not be able to uncover it.
            spec["spec"]["containers"][0]["securityContext"] = match mode {
                ModeChoice::Rootless => json!({"runAsUser": user, "capabilities": {"add": ["SYS_ADMIN"]}}),
                _ => json!({"runAsUser": user}),
            };
            let command = &mut spec["spec"]["containers"][0]["command"];
            command[2] = json!(format!("umount $1 2>/dev/null; unshare -m umount $1 2>/dev/null; {LOOK}"));
        }
        create(&client, plain).await;
        create(&client, root).await;
        for name in ["plain", "by-host-path"] {
            let (done, log) = ended(&client, name).await;
            assert_eq!((phase(Some(&done)), log.as_str()), (Some("Succeeded"), ""), "{mode:?} {name}");
        }
        // Any hostPath that leads into the folder is rejected.
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&state, &link).unwrap();
        for (name, path) in [("direct", state.clone()), ("by-link", link.join("pki"))] {
            let mut spec = pod(name, "true");
            spec["spec"]["volumes"] = json!([{"name": "v", "hostPath": {"path": path}}]);
            spec["spec"]["containers"][0]["volumeMounts"] =
                json!([{"name": "v", "mountPath": "/odh-test-v"}]);
            create(&client, spec).await;
            let why = told(&client, name, "FailedMount").await;
            assert!(why.contains("belongs to the cluster itself"), "{mode:?}: {why}");
        }
        cluster.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sub_path_is_created_only_within_its_volume() {
    in_each_mode(|client, mode| async move {
        if !mode.isolates() {
            return;
        }
        let outside = tempfile::tempdir_in("/var/tmp").unwrap();
        let target = outside.path().display().to_string();
        let mut spec = pod("below", "echo kept > /odh-test-below/file && cat /odh-test-below/file");
        spec["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
        spec["spec"]["initContainers"] = json!([{"name": "first", "image": "x",
            "command": ["sh", "-c", format!("ln -s {target} /odh-test-whole/away")],
            "volumeMounts": [{"name": "v", "mountPath": "/odh-test-whole"}]}]);
        let mount = |below: &str| json!([{"name": "v", "mountPath": "/odh-test-below", "subPath": below}]);
        spec["spec"]["containers"][0]["volumeMounts"] = mount("new/deep");
        create(&client, spec.clone()).await;
        assert_eq!(ended(&client, "below").await.1, "kept\n", "{mode}");
        spec["metadata"]["name"] = json!("away");
        spec["spec"]["containers"][0]["volumeMounts"] = mount("away/made");
        create(&client, spec).await;
        let failed = until(&client, "away", "failed", |pod| phase(pod) == Some("Failed")).await.unwrap();
        let how = terminated(&failed);
        assert!(how["message"].as_str().unwrap().contains("points outside the volume"), "{mode}: {how}");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0, "{mode}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_cannot_spoof_its_source_address() {
    in_each_mode(|client, mode| async move {
        if !mode.isolates() {
            return;
        }
        let receive = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('', 5000))\nprint('bound', flush=True)\n\
            while True:\n  text, sender = s.recvfrom(99)\n  print(text.decode(), flush=True)\n  if text == b'true': break";
        let mut spec = pod("receiver", "");
        spec["spec"]["containers"][0]["command"] = json!(["python3", "-c", receive]);
        create(&client, spec).await;
        let bound = until(&client, "receiver", "running", |pod| phase(pod) == Some("Running")).await.unwrap();
        let to = bound.status.unwrap().pod_ip.unwrap();
        let follow = LogParams { follow: true, ..LogParams::default() };
        let mut log = pods(&client).log_stream("receiver", &follow).await.unwrap();
        let mut word = [0; 6];
        futures::io::AsyncReadExt::read_exact(&mut log, &mut word).await.unwrap();
        // Datagrams with forged headers, then a genuine one. They take the same route, so they arrive in
        // order.
        let send = format!(
            "import socket, struct, time\nraw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)\n\
             def packet(sender, text):\n  udp = struct.pack('!HHHH', 1, 5000, 8 + len(text), 0) + text\n  \
             return struct.pack('!BBHHHBBH4s4s', 69, 0, 20 + len(udp), 1, 0, 64, 17, 0, socket.inet_aton(sender), socket.inet_aton('{to}')) + udp\n\
             for sender in ['10.77.200.200', '{to}', '169.254.1.1', '10.96.0.1', '192.0.2.1']:\n  raw.sendto(packet(sender, b'false ' + sender.encode()), ('{to}', 0))\n\
             own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nown.sendto(b'true', ('{to}', 5000))\nprint('sent')"
        );
        let mut spec = pod("sender", "");
        spec["spec"]["containers"][0]["command"] = json!(["python3", "-c", send]);
        spec["spec"]["containers"][0]["securityContext"] = json!({"runAsUser": 0});
        create(&client, spec).await;
        assert_eq!(ended(&client, "sender").await.1, "sent\n", "{mode}");
        assert_eq!(ended(&client, "receiver").await.1, "bound\ntrue\n", "{mode}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_memory_has_the_size_that_container_runtimes_give_it_or_that_of_its_volume() {
    in_each_mode(|client, mode| async move {
        if !mode.isolates() {
            return;
        }
        let size = "import os\nfound = os.statvfs('/dev/shm')\nprint(found.f_frsize * found.f_blocks)";
        let mut usual = pod("usual", "");
        usual["spec"]["containers"][0]["command"] = json!(["python3", "-c", size]);
        let mut larger = usual.clone();
        create(&client, usual).await;
        larger["metadata"]["name"] = json!("larger");
        larger["spec"]["volumes"] =
            json!([{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "96Mi"}}]);
        larger["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "shm", "mountPath": "/dev/shm"}]);
        create(&client, larger).await;
        assert_eq!(ended(&client, "usual").await.1, format!("{}\n", 64 << 20), "{mode}");
        assert_eq!(ended(&client, "larger").await.1, format!("{}\n", 96 << 20), "{mode}");
    })
    .await;
}

#[tokio::test]
async fn state_files_are_private_to_their_owner() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("c");
    let loose = std::fs::Permissions::from_mode(0o777);
    std::fs::create_dir_all(state.join("pki")).unwrap();
    for folder in [state.clone(), state.join("pki")] {
        std::fs::set_permissions(folder, loose.clone()).unwrap();
    }
    let mut options = cluster::Options::new(&state);
    (options.controllers, options.durable) = (false, true);
    let cluster = cluster::Cluster::start(options).await.unwrap();
    let mode = |name: &str| std::fs::metadata(state.join(name)).unwrap().permissions().mode() & 0o777;
    for (name, expected) in
        [("", 0o700), ("pki", 0o700), ("store.redb", 0o600), ("admin.token", 0o600), ("pki/ca.key", 0o600)]
    {
        assert_eq!(mode(name), expected, "{name}");
    }
    cluster.stop().await;
}
