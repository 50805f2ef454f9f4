//! Pods on the embedded cluster, bound to its node by the tests: real processes in every mode that this
//! machine permits.

use std::path::Path;
use std::time::Duration;

use cluster::node::{ModeChoice, ModeKind};
use cluster::{Cluster, Options};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret};
use kube::api::{Api, DeleteParams, LogParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use crate::control::event_in;

const BOUND: Duration = Duration::from_secs(30);

pub async fn start(mode: ModeChoice, state: &Path) -> Result<Cluster, cluster::Error> {
    start_with(mode, Options::new(state.join("c"))).await
}

async fn start_with(mode: ModeChoice, mut options: Options) -> Result<Cluster, cluster::Error> {
    options.mode = mode;
    options.gpus = 2;
    options.controllers = false;
    options.sandbox_program = vec![env!("CARGO_BIN_EXE_cluster-sandbox").into()];
    let cluster = Cluster::start(options).await?;
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("team".to_owned());
    Api::all(cluster.client()).create(&PostParams::default(), &namespace).await.unwrap();
    Ok(cluster)
}

/// Runs a test in each mode that the machine permits.
pub async fn in_each_mode<F: Future<Output = ()>>(test: impl Fn(kube::Client, ModeKind) -> F) {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let Some(cluster) = start_if_permitted(mode, dir.path()).await else { continue };
        let kind = cluster.mode().unwrap().kind;
        test(cluster.client(), kind).await;
        cluster.stop().await;
        assert!(!dir.path().join("c/run").exists(), "{mode:?}: the runtime directory is left");
    }
}

pub const MODES: [ModeChoice; 3] = [ModeChoice::Rootless, ModeChoice::Root, ModeChoice::Plain];

/// Starts a cluster in a mode, if this machine permits it; plain processes are always permitted.
pub async fn start_if_permitted(mode: ModeChoice, dir: &Path) -> Option<Cluster> {
    match start(mode, dir).await {
        Ok(cluster) => Some(cluster),
        Err(error) if mode != ModeChoice::Plain => {
            println!("{mode:?} is not tested: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub fn pods(client: &kube::Client) -> Api<Pod> {
    Api::namespaced(client.clone(), "team")
}

pub fn pod(name: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": "node-0", "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "example.com/none:1", "command": ["sh", "-c", script]}]},
    })
}

pub async fn create(client: &kube::Client, pod: Value) {
    let pod: Pod = serde_json::from_value(pod).unwrap();
    pods(client).create(&PostParams::default(), &pod).await.unwrap();
}

pub fn phase(pod: Option<&Pod>) -> Option<&str> {
    pod?.status.as_ref()?.phase.as_deref()
}

pub async fn until(
    client: &kube::Client,
    name: &str,
    what: &str,
    test: impl Fn(Option<&Pod>) -> bool,
) -> Option<Pod> {
    let reached = await_condition(pods(client), name, |pod: Option<&Pod>| test(pod));
    match tokio::time::timeout(BOUND, reached).await {
        Ok(pod) => pod.unwrap(),
        Err(_) => {
            let now = pods(client)
                .get_opt(name)
                .await
                .unwrap()
                .map(|pod| serde_json::to_string_pretty(&pod.status));
            panic!("{name} does not become {what}: {now:?}")
        }
    }
}

pub async fn ended(client: &kube::Client, name: &str) -> (Pod, String) {
    let pod =
        until(client, name, "ended", |pod| matches!(phase(pod), Some("Succeeded" | "Failed"))).await.unwrap();
    let log = pods(client).logs(name, &LogParams::default()).await.unwrap();
    (pod, log)
}

pub fn terminated(pod: &Pod) -> Value {
    let state = pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].state.clone().unwrap();
    serde_json::to_value(state.terminated.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_below_tmp_are_visible_in_pods() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let program = dir.path().join("other/bin/greet");
    for folder in ["own/bin", "other/bin"] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    std::fs::write(&program, "#!/bin/sh\necho hello\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for mode in MODES {
        let state = tempfile::tempdir().unwrap();
        let mut options = Options::new(state.path().join("c"));
        for name in ["own", "other"] {
            options.images.insert(format!("example.com/{name}:1"), dir.path().join(name));
        }
        let Ok(cluster) = start_with(mode, options).await else { continue };
        let mut greeting = pod("greeting", &program.display().to_string());
        greeting["spec"]["containers"][0]["image"] = json!("example.com/own:1");
        create(&cluster.client(), greeting).await;
        let (_, log) = ended(&cluster.client(), "greeting").await;
        assert_eq!(log, "hello\n", "{mode:?}");
        cluster.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_runs_to_its_end_and_reports_the_result() {
    in_each_mode(|client, mode| async move {
        create(&client, pod("good", "echo hello; echo $HOSTNAME; hostname")).await;
        create(&client, pod("bad", "echo oops >&2; exit 3")).await;
        create(&client, {
            let mut missing = pod("missing", "");
            missing["spec"]["containers"][0]["command"] = json!(["no-such-program"]);
            missing
        })
        .await;
        let (good, log) = ended(&client, "good").await;
        assert_eq!(phase(Some(&good)), Some("Succeeded"));
        assert!(log.starts_with("hello\ngood\n"), "{mode}: {log}");
        if mode.isolates() {
            assert_eq!(log, "hello\ngood\ngood\n", "{mode}");
        }
        assert_eq!(terminated(&good)["reason"], "Completed");
        let annotations = good.metadata.annotations.unwrap();
        assert_eq!(annotations[semantics::local_nodes::ANNOTATION_NODE_MODE], mode.as_str());
        let (bad, log) = ended(&client, "bad").await;
        assert_eq!((phase(Some(&bad)), log.as_str()), (Some("Failed"), "oops\n"), "{mode}");
        assert_eq!(
            (&terminated(&bad)["reason"], &terminated(&bad)["exitCode"]),
            (&json!("Error"), &json!(3))
        );
        let missing = until(&client, "missing", "failed", |pod| phase(pod) == Some("Failed")).await.unwrap();
        let how = terminated(&missing);
        assert_eq!((&how["reason"], &how["exitCode"]), (&json!("StartError"), &json!(128)), "{mode}");
        assert!(how["message"].as_str().unwrap().contains("executable file not found in $PATH"), "{how}");
        for name in ["good", "bad", "missing"] {
            pods(&client).delete(name, &DeleteParams::default()).await.unwrap();
            until(&client, name, "gone", |pod| pod.is_none()).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volumes_and_variables_are_set_without_writing_to_the_machine() {
    in_each_mode(|client, mode| async move {
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": "hostfile"}, "data": {"hostfile": "worker-0 slots=1\n", "extra": "x"},
        }))
        .unwrap();
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": "key"}, "stringData": {"ssh-privatekey": "secret"},
        }))
        .unwrap();
        Api::namespaced(client.clone(), "team").create(&PostParams::default(), &map).await.unwrap();
        Api::namespaced(client.clone(), "team").create(&PostParams::default(), &secret).await.unwrap();
        let script = "cat /etc/mpi/hostfile; cat /odh-test-model/deep/key/ssh-privatekey; echo; \
             stat -c %a $(readlink -f /etc/mpi/hostfile); echo $GREETING $NAME $CPU; \
             echo data > /odh-test-data/file && cat /odh-test-data/file; \
             touch /etc/mpi/no 2>/dev/null || echo read-only; echo kept > ${TMPDIR:-/tmp}/x; id -u";
        let mut spec = pod("volumes", script);
        spec["spec"]["volumes"] = json!([
            {"name": "config", "configMap": {"name": "hostfile", "items": [{"key": "hostfile", "path": "hostfile", "mode": 0o444}]}},
            {"name": "key", "secret": {"secretName": "key", "defaultMode": 0o600}},
            {"name": "data", "emptyDir": {}},
        ]);
        spec["spec"]["containers"][0]["volumeMounts"] = json!([
            {"name": "config", "mountPath": "/etc/mpi"},
            {"name": "key", "mountPath": "/odh-test-model/deep/key"},
            {"name": "data", "mountPath": "/odh-test-data"},
        ]);
        spec["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "2"}});
        spec["spec"]["containers"][0]["env"] = json!([
            {"name": "WHO", "value": "world"}, {"name": "GREETING", "value": "hello-$(WHO)-$$(WHO)"},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        ]);
        create(&client, spec).await;
        let (ended_pod, log) = ended(&client, "volumes").await;
        let lines: Vec<&str> = log.lines().collect();
        let shared = ["worker-0 slots=1", "secret", "444", "hello-world-$(WHO) volumes 2", "data"];
        assert_eq!(lines[..5], shared, "{mode}: {log}");
        assert_eq!(phase(Some(&ended_pod)), Some("Succeeded"));
        if mode.isolates() {
            assert_eq!(lines[5], "read-only", "{mode}: {log}");
            let uid = match (mode, nix::unistd::geteuid().as_raw()) {
                (ModeKind::Rootless, 0) => 65532,
                (_, uid) => uid,
            };
            assert_eq!(lines[6], uid.to_string(), "{mode}: {log}");
        }
        for path in ["/etc/mpi", "/odh-test-model", "/odh-test-data"] {
            assert!(!Path::new(path).exists(), "{mode}: {path} was made on the machine");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_reports_and_awaits_a_missing_config_map() {
    in_each_mode(|client, mode| async move {
        let mut spec = pod("waits", "echo $COLOUR");
        spec["spec"]["containers"][0]["env"] = json!([
            {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "paint", "key": "colour"}}},
        ]);
        create(&client, spec).await;
        let waiting = |pod: Option<&Pod>| -> Option<(String, String)> {
            let state = pod?
                .status
                .as_ref()?
                .container_statuses
                .as_ref()?
                .first()?
                .state
                .as_ref()?
                .waiting
                .clone()?;
            Some((state.reason?, state.message?))
        };
        let stuck = until(&client, "waits", "told what is missing", |pod| waiting(pod).is_some()).await;
        let (reason, message) = waiting(stuck.as_ref()).unwrap();
        assert_eq!(
            (reason.as_str(), message.as_str()),
            ("CreateContainerConfigError", "configmap \"paint\" not found")
        );
        let map: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": "paint"}, "data": {"colour": "green"}}))
                .unwrap();
        Api::namespaced(client.clone(), "team").create(&PostParams::default(), &map).await.unwrap();
        assert_eq!(ended(&client, "waits").await.1, "green\n", "{mode}");
        for reason in ["Failed", "LocalEnvironment", "Created", "Started"] {
            event_in(&client, "team", "waits", reason).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_resolve_each_other_and_may_use_low_ports() {
    in_each_mode(|client, mode| async move {
        if !mode.isolates() {
            return;
        }
        let server = "import socket\ns = socket.create_server(('', 80))\nc, _ = s.accept()\nc.sendall(b'hi from ' + socket.gethostname().encode())\nc.close()";
        let mut spec = pod("server", "");
        spec["spec"]["containers"][0]["command"] = json!(["python3", "-c", server]);
        spec["spec"]["subdomain"] = json!("job");
        create(&client, spec).await;
        let call = "import socket, time\nfor _ in range(100):\n  try:\n    print(socket.create_connection(('server.job.team.svc', 80)).recv(99).decode()); break\n  except OSError: time.sleep(0.05)";
        let mut spec = pod("client", "");
        spec["spec"]["containers"][0]["command"] = json!(["python3", "-c", call]);
        create(&client, spec).await;
        assert_eq!(ended(&client, "client").await.1, "hi from server\n", "{mode}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_decide_readiness_and_liveness() {
    in_each_mode(|client, mode| async move {
        let mut spec = pod("probed", "sleep 0.3; touch $TMP_FLAG; sleep 600");
        let container = &mut spec["spec"]["containers"][0];
        container["env"] = json!([{"name": "TMP_FLAG", "value": "/odh-test-flag/ready"}]);
        container["volumeMounts"] = json!([{"name": "flag", "mountPath": "/odh-test-flag"}]);
        container["readinessProbe"] = json!({"exec": {"command": ["test", "-e", "/odh-test-flag/ready"]}, "periodSeconds": 1});
        container["livenessProbe"] = json!({"exec": {"command": ["test", "!", "-e", "/odh-test-flag/dead"]}, "periodSeconds": 1, "failureThreshold": 1});
        spec["spec"]["volumes"] = json!([{"name": "flag", "emptyDir": {}}]);
        container_policy(&mut spec, "Never");
        create(&client, spec).await;
        let ready = |pod: Option<&Pod>| {
            pod.and_then(|pod| pod.status.as_ref()?.conditions.clone())
                .is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
        };
        until(&client, "probed", "ready", ready).await;
        // Process 1 ignores SIGTERM, so the deletion takes the whole grace period of one second.
        pods(&client).delete("probed", &DeleteParams::default()).await.unwrap();
        until(&client, "probed", "gone", |pod| pod.is_none()).await;
        println!("{mode}: probed");
    })
    .await;
}

fn container_policy(spec: &mut Value, policy: &str) {
    spec["spec"]["restartPolicy"] = json!(policy);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_is_restarted_after_its_init_containers_ran_once() {
    in_each_mode(|client, mode| async move {
        let mut spec = pod("again", "echo run >> /odh-test-count/n; test $(wc -l < /odh-test-count/n) -ge 2");
        let mounts = json!([{"name": "count", "mountPath": "/odh-test-count"}]);
        spec["spec"]["volumes"] = json!([{"name": "count", "emptyDir": {}}]);
        spec["spec"]["containers"][0]["volumeMounts"] = mounts.clone();
        spec["spec"]["initContainers"] = json!([{"name": "first", "image": "x",
            "command": ["sh", "-c", "test ! -e /odh-test-count/n"], "volumeMounts": mounts}]);
        container_policy(&mut spec, "OnFailure");
        create(&client, spec).await;
        let (pod, _) = ended(&client, "again").await;
        let statuses = pod.status.unwrap().container_statuses.unwrap();
        assert_eq!(statuses[0].restart_count, 1, "{mode}");
        assert_eq!(statuses[0].last_state.clone().unwrap().terminated.unwrap().exit_code, 1);
        let previous = LogParams { previous: true, ..LogParams::default() };
        assert!(pods(&client).logs("again", &previous).await.is_ok(), "{mode}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_followed_while_it_grows() {
    in_each_mode(|client, mode| async move {
        create(&client, pod("talks", "echo one; sleep 0.5; echo two")).await;
        until(&client, "talks", "running", |pod| matches!(phase(pod), Some("Running" | "Succeeded"))).await;
        let follow = LogParams { follow: true, ..LogParams::default() };
        let mut stream = pods(&client).log_stream("talks", &follow).await.unwrap();
        let mut text = Vec::new();
        tokio::time::timeout(BOUND, futures::io::AsyncReadExt::read_to_end(&mut stream, &mut text))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "one\ntwo\n", "{mode}");
    })
    .await;
}

/// Returns the number of processes with this marker in their environment.
pub fn marked(marker: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| {
        std::fs::read(entry.path().join("environ"))
            .is_ok_and(|text| text.windows(marker.len()).any(|part| part == marker.as_bytes()))
    })
    .count()
}

fn mounts_and_links() -> (String, usize) {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    (mounts, std::fs::read_dir("/sys/class/net").unwrap().count())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exceeding_the_memory_limit_is_reported_as_oom_killed() {
    for mode in [ModeChoice::Rootless, ModeChoice::Root, ModeChoice::Plain] {
        let dir = tempfile::tempdir().unwrap();
        let Ok(cluster) = start(mode, dir.path()).await else { continue };
        let client = cluster.client();
        let limits = cluster.mode().unwrap().limits;
        let mut spec = pod("greedy", "");
        spec["spec"]["containers"][0]["command"] =
            json!(["python3", "-c", "x = bytearray(200 << 20)\nprint(len(x))"]);
        spec["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "64Mi", "cpu": "1"}});
        create(&client, spec).await;
        let pod = until(&client, "greedy", "ended", |pod| matches!(phase(pod), Some("Succeeded" | "Failed")))
            .await
            .unwrap();
        match limits {
            Ok(()) => assert_eq!(
                (&terminated(&pod)["reason"], &terminated(&pod)["exitCode"]),
                (&json!("OOMKilled"), &json!(137)),
                "{mode:?}"
            ),
            Err(why) => {
                println!("{mode:?}: limits are not enforced: {why}");
                let conditions = pod.status.unwrap().conditions.unwrap();
                assert!(
                    conditions
                        .iter()
                        .any(|c| c.type_ == cluster::node::LIMITS_NOT_ENFORCED && c.status == "True")
                );
            }
        }
        cluster.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_pods_start_and_leave_nothing_behind() {
    let before = mounts_and_links();
    for (mode, count) in [(ModeChoice::Rootless, 100), (ModeChoice::Root, 20), (ModeChoice::Plain, 20)] {
        let marker = format!("ODH_TEST_MARK={mode:?}-{}", std::process::id());
        let dir = tempfile::tempdir().unwrap();
        let Ok(cluster) = start(mode, dir.path()).await else { continue };
        let client = cluster.client();
        let (key, value) = marker.split_once('=').unwrap();
        let began = std::time::Instant::now();
        let made = (0..count).map(|number| {
            let mut spec = pod(&format!("many-{number}"), "trap '' TERM; (setsid sleep 600 &) ; sleep 600");
            spec["spec"]["containers"][0]["env"] = json!([{"name": key, "value": value}]);
            create(&client, spec)
        });
        futures::future::join_all(made).await;
        for number in 0..count {
            until(&client, &format!("many-{number}"), "running", |pod| phase(pod) == Some("Running")).await;
        }
        println!("{mode:?}: {count} pods running after {:?}", began.elapsed());
        assert!(marked(&marker) >= count, "{mode:?}");
        // One pod is deleted through the API, the others end with the cluster.
        pods(&client).delete("many-0", &DeleteParams::default()).await.unwrap();
        until(&client, "many-0", "gone", |pod| pod.is_none()).await;
        let stopping = std::time::Instant::now();
        cluster.stop().await;
        println!("{mode:?}: stopped after {:?}", stopping.elapsed());
        assert_eq!(marked(&marker), 0, "{mode:?}: processes are left");
        assert!(!dir.path().join("c/run").exists(), "{mode:?}: the runtime directory is left");
        assert_eq!(mounts_and_links(), before, "{mode:?}: mounts or interfaces are left");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_is_reported_with_its_signal() {
    in_each_mode(|client, mode| async move {
        let marker = format!("kill-{mode}-{}", std::process::id());
        let mut spec = pod("victim", "exec sleep 600");
        spec["spec"]["containers"][0]["env"] = json!([{"name": "ODH_TEST_VICTIM", "value": marker}]);
        create(&client, spec).await;
        until(&client, "victim", "running", |pod| phase(pod) == Some("Running")).await;
        let entry = std::fs::read_dir("/proc").unwrap().flatten().find(|entry| {
            std::fs::read(entry.path().join("environ"))
                .is_ok_and(|text| text.windows(marker.len()).any(|part| part == marker.as_bytes()))
        });
        let pid: i32 = entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
        let pod = until(&client, "victim", "failed", |pod| phase(pod) == Some("Failed")).await.unwrap();
        let how = terminated(&pod);
        assert_eq!(
            (&how["exitCode"], &how["signal"], &how["reason"]),
            (&json!(137), &json!(9), &json!("Error")),
            "{mode}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_registers_with_its_capacity() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(ModeChoice::Auto, dir.path()).await.unwrap();
    println!("auto: {:?}", cluster.mode());
    let node = Api::<Node>::all(cluster.client()).get("node-0").await.unwrap();
    let status = node.status.unwrap();
    assert_eq!(status.allocatable.unwrap()["nvidia.com/gpu"].0, "2");
    assert!(status.conditions.unwrap().iter().any(|c| c.type_ == "Ready" && c.status == "True"));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_with_extreme_durations_can_be_deleted() {
    in_each_mode(|client, mode| async move {
        let probe = json!({"exec": {"command": ["true"]}, "initialDelaySeconds": i32::MAX, "periodSeconds": i32::MAX,
            "timeoutSeconds": i32::MAX, "failureThreshold": i32::MAX});
        let mut spec = pod("patient", "trap 'exit 0' TERM; echo ready > ${TMPDIR:-/tmp}/ready; while :; do sleep 0.05; done");
        spec["spec"]["terminationGracePeriodSeconds"] = json!(i64::MAX);
        spec["spec"]["activeDeadlineSeconds"] = json!(i32::MAX);
        let container = &mut spec["spec"]["containers"][0];
        container["livenessProbe"] = probe.clone();
        container["readinessProbe"] = json!({"exec": {"command": ["sh", "-c", "test -e ${TMPDIR:-/tmp}/ready"]},
            "periodSeconds": i32::MAX, "timeoutSeconds": i32::MAX});
        container["resources"] = json!({"limits": {"cpu": "9E", "memory": "7E", "ephemeral-storage": "7E"}});
        create(&client, spec).await;
        let ready = |pod: Option<&Pod>| {
            pod.and_then(|pod| pod.status.as_ref()?.conditions.clone())
                .is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
        };
        until(&client, "patient", "ready", ready).await;
        pods(&client).delete("patient", &DeleteParams::default()).await.unwrap();
        until(&client, "patient", "gone", |pod| pod.is_none()).await;
        println!("{mode}: patient");
    })
    .await;
}
