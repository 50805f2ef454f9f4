//! A real Prometheus, which scrapes what this test exposes as the kubelet's cAdvisor and NVIDIA's DCGM exporter do.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use service::contract::GetMetricsRequest;
use service::{Prometheus, Settings};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::stage::{JANE, JOE, OTHER_TEAM, PATIENCE, Stage, TEAM, call};

/// How one series grows or stays.
#[derive(Clone, Copy)]
enum Level {
    /// A gauge.
    Is(f64),
    /// A counter that grows by this much a second.
    Grows(f64),
}

/// What is exposed at one path.
type Series = (String, Level);

/// Exposes metrics on loopback, and counts the scrapes.
struct Exporter {
    address: SocketAddr,
    series: Arc<Mutex<Vec<(&'static str, Series)>>>,
    scrapes: watch::Receiver<u32>,
}

impl Exporter {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let series = Arc::<Mutex<Vec<(&'static str, Series)>>>::default();
        let (count, scrapes) = watch::channel(0);
        let (exposed, begun) = (series.clone(), now());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (exposed, count) = (exposed.clone(), count.clone());
                let expose = service_fn(move |request: Request<Incoming>| {
                    let text = text(&exposed.lock().unwrap(), request.uri().path(), begun);
                    count.send_modify(|count| *count += 1);
                    async move {
                        let format = "text/plain; version=0.0.4; charset=utf-8";
                        Response::builder().header("content-type", format).body(Full::<Bytes>::from(text))
                    }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), expose));
            }
        });
        Self { address, series, scrapes }
    }

    fn expose(&self, path: &'static str, series: String, value: Level) {
        self.series.lock().unwrap().push((path, (series, value)));
    }

    /// Waits until everything exposed now was scraped twice.
    async fn scraped(&mut self) {
        // Three targets, and a scrape that is on its way.
        let wanted = *self.scrapes.borrow() + 9;
        tokio::time::timeout(PATIENCE, self.scrapes.wait_for(|count| *count >= wanted))
            .await
            .unwrap()
            .unwrap();
    }
}

/// The time, as exactly as an exposition has it.
fn now() -> Timestamp {
    Timestamp::from_millisecond(Timestamp::now().as_millisecond()).unwrap()
}

fn text(all: &[(&str, Series)], path: &str, begun: Timestamp) -> String {
    let now = now();
    let elapsed = now.duration_since(begun).as_secs_f64();
    let mut text = String::new();
    for (_, (series, value)) in all.iter().filter(|(at, _)| *at == path) {
        match value {
            Level::Is(value) => writeln!(text, "{series} {value}"),
            // cAdvisor says when it counted.
            Level::Grows(rate) => writeln!(text, "{series} {} {}", rate * elapsed, now.as_millisecond()),
        }
        .unwrap();
    }
    text
}

/// A Prometheus that scrapes the exporter every second: `/cadvisor` and `/dcgm` with the labels of what is measured, and
/// `/dcgm-of-target`, whose labels give way to those of the exporter's own pod.
async fn prometheus(exporter: &Exporter) -> (Child, SocketAddr, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let job = |name: &str, honours: bool, labels: Value| {
        json!({ "job_name": name, "metrics_path": format!("/{name}"), "honor_labels": honours,
            "static_configs": [{ "targets": [exporter.address.to_string()], "labels": labels }] })
    };
    let own = json!({ "namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-x7k2p" });
    let config = json!({ "global": { "scrape_interval": "1s", "scrape_timeout": "1s" }, "scrape_configs": [
        job("cadvisor", true, json!({ "node": "node-0" })),
        job("dcgm", true, own.clone()),
        job("dcgm-of-target", false, own)] });
    let file = folder.path().join("prometheus.yml");
    std::fs::write(&file, config.to_string()).unwrap();
    let mut command = Command::new("prometheus");
    command.arg("--config.file").arg(file).arg("--storage.tsdb.path").arg(folder.path().join("data"));
    command.arg("--web.listen-address=127.0.0.1:0").stderr(Stdio::piped()).kill_on_drop(true);
    let mut child =
        command.spawn().unwrap_or_else(|error| panic!("prometheus: {error}; `cargo xtask test` installs it"));
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let started = async {
        // It says the two in either order.
        let (mut address, mut is_ready) = (None, false);
        loop {
            let line = lines.next_line().await.unwrap().unwrap();
            is_ready |= line.contains("Server is ready");
            if line.contains("msg=\"Listening on\"") {
                address = line.split("address=").nth(1).map(|address| address.trim().parse().unwrap());
            }
            if let Some(address) = address.filter(|_| is_ready) {
                return address;
            }
        }
    };
    let address = tokio::time::timeout(PATIENCE, started).await.unwrap();
    // Its log must not fill the pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (child, address, folder)
}

/// A container's or a pod's labels as cAdvisor has them.
fn cadvisor(metric: &str, namespace: &str, pod: &str, more: &str) -> String {
    format!("{metric}{{id=\"/kubepods.slice/x\",namespace=\"{namespace}\",pod=\"{pod}\",{more}}}")
}

/// A GPU's labels as the DCGM exporter has them.
fn dcgm(metric: &str, gpu: u32, of: &str) -> String {
    format!(
        "{metric}{{gpu=\"{gpu}\",UUID=\"GPU-{gpu}\",device=\"nvidia{gpu}\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"node-0\"{of}}}"
    )
}

fn of_pod(namespace: &str, pod: &str) -> String {
    format!(",container=\"main\",namespace=\"{namespace}\",pod=\"{pod}\"")
}

/// Exposes what a pod uses: of each rate and level, `factor` times as much.
fn expose_pod(exporter: &Exporter, namespace: &str, pod: &str, factor: f64) {
    let grows = |metric: &str, more: &str, rate: f64| {
        exporter.expose("/cadvisor", cadvisor(metric, namespace, pod, more), Level::Grows(rate * factor));
    };
    let network = "container=\"\",image=\"registry.k8s.io/pause:3.9\",interface=\"eth0\",name=\"x\"";
    grows("container_network_receive_bytes_total", network, 1_048_576.0);
    grows("container_network_transmit_bytes_total", network, 524_288.0);
    grows("container_cpu_usage_seconds_total", "container=\"main\",cpu=\"total\"", 0.5);
    // The pod's cgroup counts its containers again.
    grows("container_cpu_usage_seconds_total", "container=\"\",cpu=\"total\"", 0.5);
    let memory = |container: &str, mib: f64| {
        let more = format!("container=\"{container}\"");
        let series = cadvisor("container_memory_working_set_bytes", namespace, pod, &more);
        exporter.expose("/cadvisor", series, Level::Is(mib * factor * 1_048_576.0));
    };
    memory("main", 256.0);
    memory("", 257.0);
}

fn expose_gpu(exporter: &Exporter, path: &'static str, gpu: u32, of: &str, levels: [f64; 3]) {
    let metrics = ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE"];
    for (metric, level) in metrics.into_iter().zip(levels) {
        exporter.expose(path, dcgm(metric, gpu, of), Level::Is(level));
    }
}

/// A service with a Prometheus at an address.
async fn stage(url: &str, token: Option<PathBuf>, authorities: &[CertificateDer<'static>]) -> Stage {
    let prometheus = Some(Prometheus::new(url, token, authorities).unwrap());
    Stage::with(Settings { prometheus, rate: 10_000, burst: 10_000, ..Settings::default() }).await
}

/// A running job with a Launcher and two Workers, which request two GPUs each.
async fn job(stage: &Stage, namespace: &str) {
    stage.job_with(namespace, "a", json!({ "nvidia.com/gpu": 2 })).await;
    for index in 0..2 {
        let name = format!("a-worker-{index}");
        stage.pod_with(namespace, "a", "worker", &name, json!({ "nvidia.com/gpu": 2 })).await;
    }
    stage.pod_with(namespace, "a", "launcher", "a-launcher-x", json!({})).await;
    let now = Timestamp::now().to_string();
    stage.status(namespace, "a", json!({ "phase": "Running", "startTime": now })).await;
}

fn path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/jobs/mpijob/a/metrics")
}

/// Asks until the metrics are as wanted.
async fn until(stage: &Stage, namespace: &str, token: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let asked = async {
        loop {
            let metrics = stage.get(&path(namespace), token).await.json();
            if wanted(&metrics) {
                return metrics;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap()
}

fn pod<'m>(metrics: &'m Value, name: &str) -> &'m Value {
    metrics["pods"].as_array().into_iter().flatten().find(|pod| pod["name"] == name).unwrap_or(&Value::Null)
}

/// The last value of each series of a pod, by its name and GPU.
fn last(pod: &Value) -> Vec<(String, i64)> {
    let series = pod["measured"].as_array().into_iter().flatten();
    series
        .map(|series| {
            let name =
                [series["name"].as_str().unwrap(), series["gpu"].as_str().unwrap_or_default()].join(" ");
            assert_eq!(series["source"], "prometheus");
            let values = series["values"].as_array().unwrap();
            assert_eq!(values.len(), series["seconds"].as_array().unwrap().len());
            assert!(values.len() <= 241 && series["start"].as_str().is_some());
            (name.trim().to_owned(), values.last().unwrap().as_i64().unwrap())
        })
        .collect()
}

fn series(all: &[(&str, i64)]) -> Vec<(String, i64)> {
    all.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

/// What the pods of two namespaces use.
fn expose_all(exporter: &Exporter) {
    for (namespace, name, factor) in [
        (TEAM, "a-launcher-x", 0.25),
        (TEAM, "a-worker-0", 1.0),
        (TEAM, "a-worker-1", 2.0),
        (OTHER_TEAM, "a-worker-0", 8.0),
        // Other jobs', although the names begin or end alike.
        (TEAM, "ba-worker-0", 16.0),
        (TEAM, "a-worker-01", 16.0),
    ] {
        expose_pod(exporter, namespace, name, factor);
    }
    expose_gpu(exporter, "/dcgm", 0, &of_pod(TEAM, "a-worker-0"), [90.0, 70_000.0, 600.4]);
    expose_gpu(exporter, "/dcgm", 1, &of_pod(TEAM, "a-worker-0"), [91.0, 71_000.0, 610.6]);
    expose_gpu(exporter, "/dcgm-of-target", 2, &of_pod(TEAM, "a-worker-1"), [20.0, 7_000.0, 150.0]);
    expose_gpu(exporter, "/dcgm-of-target", 3, &of_pod(OTHER_TEAM, "a-worker-0"), [1.0, 2.0, 3.0]);
}

async fn assert_same_over_grpc(stage: &Stage, wanted: &[(&str, i64)]) {
    let request = GetMetricsRequest {
        namespace: TEAM.to_owned(),
        kind: "mpijob".to_owned(),
        name: "a".to_owned(),
        ..GetMetricsRequest::default()
    };
    let over_grpc = stage.grpc().await.get_metrics(call(JANE, request.clone())).await.unwrap().into_inner();
    let worker = over_grpc.pods.iter().find(|pod| pod.name == "a-worker-0").unwrap();
    let measured: Vec<(String, i64)> = worker
        .measured
        .iter()
        .map(|one| {
            (format!("{} {}", one.name, one.gpu).trim().to_owned(), i64::from(*one.values.last().unwrap()))
        })
        .collect();
    assert_eq!(measured, series(wanted));
    let refused = stage.grpc().await.get_metrics(call(JOE, request)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
}

async fn assert_kept_after_its_end(stage: &Stage, exporter: &mut Exporter, wanted: &[(&str, i64)]) {
    let end = Timestamp::now();
    stage.status(TEAM, "a", json!({ "phase": "Succeeded", "completionTime": end.to_string() })).await;
    for name in ["a-worker-0", "a-worker-1", "a-launcher-x"] {
        stage.delete_pod(TEAM, name).await;
    }
    exporter.scraped().await;
    let ended = until(stage, TEAM, JANE, |metrics| pod(metrics, "a-launcher-x").is_null()).await;
    assert_eq!(last(pod(&ended, "a-worker-0")), series(wanted), "by the names that an MPIJob's Workers have");
    for series in pod(&ended, "a-worker-0")["measured"].as_array().unwrap() {
        let start: Timestamp = series["start"].as_str().unwrap().parse().unwrap();
        let last =
            start.as_second() + series["seconds"].as_array().unwrap().last().unwrap().as_i64().unwrap();
        assert!(last <= end.as_second(), "nothing after its end: {series}");
    }
}

#[tokio::test]
async fn network_gpus_and_power_of_a_jobs_own_pods_come_from_prometheus() {
    let mut exporter = Exporter::start().await;
    let (_prometheus, address, _folder) = prometheus(&exporter).await;
    let stage = stage(&format!("http://{address}"), None, &[]).await;
    job(&stage, TEAM).await;
    job(&stage, OTHER_TEAM).await;
    expose_all(&exporter);
    exporter.scraped().await;

    let is_whole = |metrics: &Value| {
        let network = |name: &str| pod(metrics, name)["measured"][0]["name"] == "networkReceivedKib";
        let usage =
            |name: &str| pod(metrics, name)["seconds"].as_array().is_some_and(|points| points.len() > 1);
        ["a-launcher-x", "a-worker-0", "a-worker-1"].iter().all(|name| network(name) && usage(name))
            && last(pod(metrics, "a-worker-1")).len() == 5
    };
    let seen = until(&stage, TEAM, JANE, is_whole).await;
    assert_eq!(seen["pods"].as_array().unwrap().len(), 3, "{seen:#}");
    let worker = pod(&seen, "a-worker-0");
    let wanted = [
        ("networkReceivedKib", 1024),
        ("networkSentKib", 512),
        ("gpuUtilizationPercent 0", 90),
        ("gpuUtilizationPercent 1", 91),
        ("gpuMemoryMib 0", 70_000),
        ("gpuMemoryMib 1", 71_000),
        ("powerWatts 0", 600),
        ("powerWatts 1", 611),
    ];
    assert_eq!(last(worker), series(&wanted));
    assert_eq!((&worker["role"], &worker["index"]), (&json!("Worker"), &json!(0)));
    let of_last = |pod: &Value, field: &str| pod[field].as_array().unwrap().last().unwrap().clone();
    assert_eq!((of_last(worker, "cpuMillis"), of_last(worker, "memoryMib")), (json!(500), json!(256)));
    let second = [
        ("networkReceivedKib", 2048),
        ("networkSentKib", 1024),
        ("gpuUtilizationPercent 2", 20),
        ("gpuMemoryMib 2", 7_000),
        ("powerWatts 2", 150),
    ];
    assert_eq!(last(pod(&seen, "a-worker-1")), series(&second));
    assert_eq!(
        last(pod(&seen, "a-launcher-x")),
        series(&[("networkReceivedKib", 256), ("networkSentKib", 128)])
    );
    assert_eq!(seen["notes"], json!([]), "nothing is missing");

    // A job of the same name in another namespace is another job, and its caller sees no other.
    assert_eq!(stage.get(&path(TEAM), JOE).await.status, 403);
    let theirs = until(&stage, OTHER_TEAM, JOE, |metrics| last(pod(metrics, "a-worker-0")).len() == 5).await;
    assert_eq!(last(pod(&theirs, "a-worker-0"))[0].1, 8 * 1024);
    assert_eq!(last(pod(&theirs, "a-worker-0"))[2], ("gpuUtilizationPercent 3".to_owned(), 1));

    assert_same_over_grpc(&stage, &wanted).await;

    // Once it has ended and its pods are gone, it has what it had while it ran.
    assert_kept_after_its_end(&stage, &mut exporter, &wanted).await;
}

fn notes(metrics: &Value) -> Vec<&str> {
    metrics["notes"].as_array().into_iter().flatten().map(|note| note.as_str().unwrap()).collect()
}

const NO_SAMPLES: &str =
    "CPU and memory: no samples; they are taken while the job runs, if the cluster has a metrics API";

#[tokio::test]
async fn what_prometheus_does_not_have_is_a_note() {
    let mut exporter = Exporter::start().await;
    let (_prometheus, address, _folder) = prometheus(&exporter).await;
    let stage = stage(&format!("http://{address}/"), None, &[]).await;
    stage.job_with(TEAM, "a", json!({ "nvidia.com/gpu": 2 })).await;
    let before = stage.get(&path(TEAM), JANE).await.json();
    assert_eq!(
        notes(&before),
        [
            "GPUs: no telemetry before a pod of the job has started",
            "Network: no telemetry before a pod of the job has started",
            NO_SAMPLES
        ]
    );
    stage.pod_with(TEAM, "a", "worker", "a-worker-0", json!({ "nvidia.com/gpu": 2 })).await;
    stage.status(TEAM, "a", json!({ "phase": "Running", "startTime": Timestamp::now().to_string() })).await;
    let network =
        "Network: no telemetry; Prometheus has no container_network_receive_bytes_total of the job's pods";
    let none = until(&stage, TEAM, JANE, |metrics| {
        notes(metrics).contains(&"GPUs: no telemetry; Prometheus has no metrics of NVIDIA's DCGM exporter")
    })
    .await;
    assert_eq!(notes(&none)[1..], [network, NO_SAMPLES]);

    // An exporter without access to the kubelet's list of devices.
    expose_gpu(&exporter, "/dcgm", 0, "", [90.0, 70_000.0, 600.0]);
    exporter.scraped().await;
    until(&stage, TEAM, JANE, |metrics| {
        notes(metrics)[0].starts_with("GPUs: no telemetry; the metrics of NVIDIA's DCGM exporter in Prometheus do not name the job's pods")
    })
    .await;

    // A part of a GPU has no utilization of its own.
    let part = format!(",GPU_I_ID=\"3\",GPU_I_PROFILE=\"1g.10gb\"{}", of_pod(TEAM, "a-worker-0"));
    exporter.expose("/dcgm", dcgm("DCGM_FI_DEV_FB_USED", 0, &part), Level::Is(5000.0));
    exporter.scraped().await;
    let parted = until(&stage, TEAM, JANE, |metrics| !pod(metrics, "a-worker-0").is_null()).await;
    assert_eq!(last(pod(&parted, "a-worker-0")), series(&[("gpuMemoryMib 0/3", 5000)]));
    assert_eq!(
        notes(&parted)[0],
        "GPUs: Prometheus has no DCGM_FI_DEV_GPU_UTIL and no DCGM_FI_DEV_POWER_USAGE of the job's pods"
    );
}

#[tokio::test]
async fn a_prometheus_that_is_away_or_silent_costs_its_part_and_nothing_else() {
    // Nobody listens at the first; the kernel accepts connections to the second, and nobody reads them.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for (address, fault) in
        [(gone, "cannot be reached"), (silent.local_addr().unwrap(), "does not answer within 5 s")]
    {
        let stage = stage(&format!("http://{address}"), None, &[]).await;
        job(&stage, TEAM).await;
        let note = format!("Prometheus {fault}: what it measures is missing or incomplete");
        let seen = until(&stage, TEAM, JANE, |metrics| notes(metrics).contains(&note.as_str())).await;
        assert_eq!(notes(&seen)[1..], ["GPUs: no telemetry", "Network: no telemetry", NO_SAMPLES]);
        assert!(!seen.to_string().contains(&address.to_string()), "no address: {seen}");
    }
    let stage = Stage::new().await;
    job(&stage, TEAM).await;
    let without = stage.get(&path(TEAM), JANE).await.json();
    let why = "the service is not connected to a Prometheus";
    let [gpus, network] = ["GPUs", "Network"].map(|what| format!("{what}: no telemetry; {why}"));
    assert_eq!(notes(&without), [gpus.as_str(), network.as_str(), NO_SAMPLES]);
}

/// Stands before a Prometheus as an authorizing proxy does: TLS, and the present token or nothing.
async fn guard(address: SocketAddr, token: Arc<Mutex<String>>) -> (SocketAddr, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = CertificateDer::from_pem_slice(made.cert.pem().as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap();
    let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build_http::<Incoming>();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, token, client) = (acceptor.clone(), token.clone(), client.clone());
            let pass = service_fn(move |mut request: Request<Incoming>| {
                let wanted = format!("Bearer {}", token.lock().unwrap());
                let is_known = request
                    .headers()
                    .get("authorization")
                    .is_some_and(|sent| sent.as_bytes() == wanted.as_bytes());
                let path = request.uri().path_and_query().unwrap().to_string();
                *request.uri_mut() = format!("http://{address}{path}").parse().unwrap();
                let client = client.clone();
                async move {
                    use http_body_util::BodyExt as _;
                    if !is_known {
                        let refused = Response::builder().status(StatusCode::FORBIDDEN);
                        return Ok(refused
                            .body(Full::<Bytes>::default().map_err(|never| match never {}).boxed())
                            .unwrap());
                    }
                    client.request(request).await.map(|answer| answer.map(|body| body.boxed()))
                }
            });
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let connection = hyper::server::conn::http1::Builder::new();
                let _ = connection.serve_connection(TokioIo::new(stream), pass).await;
            });
        }
    });
    (own, certificate)
}

#[tokio::test]
async fn a_token_is_read_again_for_each_query_and_sent_to_a_trusted_server_only() {
    let mut exporter = Exporter::start().await;
    let (_prometheus, address, folder) = prometheus(&exporter).await;
    let token = Arc::new(Mutex::new("first".to_owned()));
    let (guard, certificate) = guard(address, token.clone()).await;
    let (url, file) = (format!("https://localhost:{}", guard.port()), folder.path().join("token"));
    std::fs::write(&file, "first\n").unwrap();
    let fault = |fault: &str| format!("Prometheus {fault}: what it measures is missing or incomplete");

    let stranger = stage(&url, Some(file.clone()), &[]).await;
    job(&stranger, TEAM).await;
    until(&stranger, TEAM, JANE, |metrics| notes(metrics).contains(&fault("cannot be reached").as_str()))
        .await;

    let stage = stage(&url, Some(file.clone()), &[certificate]).await;
    job(&stage, TEAM).await;
    expose_pod(&exporter, TEAM, "a-worker-0", 1.0);
    exporter.scraped().await;
    let has_network = |metrics: &Value| last(pod(metrics, "a-worker-0")).len() == 2;
    until(&stage, TEAM, JANE, has_network).await;
    // Kubernetes replaces the tokens of pods.
    "second".clone_into(&mut token.lock().unwrap());
    let refused = stage.get(&path(TEAM), JANE).await.json();
    assert_eq!(notes(&refused)[0], fault("refuses the service's token (HTTP 403)"));
    std::fs::write(&file, "second").unwrap();
    assert!(has_network(&stage.get(&path(TEAM), JANE).await.json()));
    std::fs::remove_file(&file).unwrap();
    let without = stage.get(&path(TEAM), JANE).await.json();
    assert_eq!(notes(&without)[0], fault("cannot be asked, because the service cannot read its token"));
}
