//! Measures the training service beside the API server's own lists, in one process and one run: lists of 100 rows among
//! many jobs, creations and their checks, how soon open streams see a change, and how soon a written line. The API server is asked for as many rows, over TLS from as
//! many connections, and its answers are not decoded either. With the variable `KUBECONFIG_OF_PEER`, the lists of the server
//! of that kubeconfig are measured too, after as many jobs were created there.
//!
//! `cargo run --release -p service --example bench_service [JOBS] [STREAMS]` prints one JSON object.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made ends")]
#![expect(clippy::print_stdout, reason = "prints its result")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::apiserver::auth::users::{self, Person};
use cluster::apiserver::kubelet::{Kubelet, LogError, LogRequest, LogStream};
use cluster::{Cluster, Options};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Client, ResourceExt as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use service::{Keep, Service, Settings, tls};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

/// How long each measurement takes.
const FOR: Duration = Duration::from_secs(5);
/// The connections that ask at once.
const CONNECTIONS: usize = 8;
const TEAM: &str = "team";
/// Names the kubeconfig of a server whose lists are measured too.
const PEER: &str = "KUBECONFIG_OF_PEER";
/// The job whose output is read: its Workers, and the lines of each.
const LOGGED: &str = "job-0";
const WORKERS: usize = 100;
const LINES: usize = 2000;
const NODE: &str = "node-0";
/// How often each Worker writes a line that is followed, how many, and what comes before the time in it.
const WRITES_EACH: Duration = Duration::from_millis(500);
const WRITES: u32 = 10;
const WRITTEN: &str = "written=";
/// The rows of a list.
const ROWS: usize = 100;
/// The forms of a list: the Table that kubectl requests, metadata only, and whole objects.
const FORMS: [(&str, &str); 3] = [
    ("table", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    ("metadata", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
    ("objects", "application/json"),
];

fn job(name: &str) -> DynamicObject {
    let template = json!({ "spec": { "containers": [{ "name": "main", "image": "train:1",
        "command": ["mpirun", "python", "train.py"],
        "resources": { "limits": { "cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1 } } }] } });
    let workers = if name == LOGGED { WORKERS } else { 8 };
    serde_json::from_value(json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": { "name": name, "labels": { "team": "vision" } },
        "spec": { "mpiReplicaSpecs": { "Launcher": { "replicas": 1, "template": template },
            "Worker": { "replicas": workers, "template": template } } } }))
    .unwrap()
}

/// A server over TLS, and who asks it.
struct Target {
    host: String,
    address: SocketAddr,
    config: Arc<ClientConfig>,
    token: String,
}

struct Served {
    admin: Client,
    service: Target,
    api: Target,
    _cluster: Cluster,
    _folder: TempDir,
}

/// Creates the namespace and the jobs.
async fn fill(admin: &Client, jobs: usize) {
    let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
    let definition = api::mpijob_crd();
    if definitions.get_opt(&definition.name_any()).await.unwrap().is_none() {
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    await_condition(definitions, &definition.name_any(), is_crd_established()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    let namespace = serde_json::from_value(json!({ "metadata": { "name": TEAM } })).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let api = jobs::Kind::MpiJob.api(admin, TEAM);
    futures::stream::iter(0..jobs)
        .for_each_concurrent(32, |at| {
            let api = api.clone();
            async move {
                api.create(&PostParams::default(), &job(&format!("job-{at}"))).await.unwrap();
            }
        })
        .await;
}

fn trusting(authorities: impl IntoIterator<Item = CertificateDer<'static>>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    authorities.into_iter().for_each(|authority| roots.add(authority).unwrap());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

/// The server of a kubeconfig with a token, and a client of it.
async fn target_of(kubeconfig: Kubeconfig) -> (Target, Client) {
    let text = serde_json::to_value(&kubeconfig).unwrap();
    let token = text.pointer("/users/0/user/token").unwrap().as_str().unwrap().to_owned();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let (host, port) = (config.cluster_url.host().unwrap(), config.cluster_url.port_u16().unwrap_or(443));
    let address = tokio::net::lookup_host((host, port)).await.unwrap().next().unwrap();
    let authorities = config.root_cert.iter().flatten().map(|der| CertificateDer::from(der.clone()));
    let target = Target { host: host.to_owned(), address, config: trusting(authorities), token };
    (target, Client::try_from(config).unwrap())
}

/// The token of one of many users.
fn token_of(number: usize) -> String {
    format!("token-of-user-{number}-with-a-stream")
}

async fn serve(jobs: usize, streams: usize) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { controllers: false, ..Options::new(folder.path().join("cluster")) };
    let cluster = Cluster::start(options).await.unwrap();
    let admin = cluster.client();
    let later = Timestamp::now() + 1.hour();
    let person = |number| {
        let groups = vec!["system:masters".to_owned()];
        Person::new(&format!("user-{number}"), groups, &token_of(number), later)
    };
    let people: Vec<Person> = (0..streams).map(person).collect();
    users::save(&folder.path().join("cluster").join(users::FILE), &people).unwrap();
    fill(&admin, jobs).await;
    let (api, _) = target_of(cluster.kubeconfig()).await;
    let nobody = cluster.client_of_credentials();
    let settings =
        Settings { rate: 1_000_000, burst: 1_000_000, streams: streams + 1, ..Settings::default() };
    let stop = CancellationToken::new();
    let keep = Keep::in_folder(&folder.path().join("kept"));
    let service = Service::start(&admin, &nobody, settings, &keep, &stop);
    service.ready().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (acceptor, authority) = tls::for_this_machine().unwrap();
    tokio::spawn(service::serve(listener, acceptor, service, stop));
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
    let service = Target {
        host: "localhost".to_owned(),
        address,
        config: trusting([authority]),
        token: api.token.clone(),
    };
    Served { admin, service, api, _cluster: cluster, _folder: folder }
}

/// What a measurement of requests gave.
struct Measured {
    per_second: f64,
    /// The time of the 95th of 100.
    p95_milliseconds: f64,
    /// The size of the last answer.
    bytes: usize,
}

impl Measured {
    fn json(&self) -> Value {
        json!({ "perSecond": self.per_second.round(), "p95Ms": self.p95_milliseconds, "bytes": self.bytes })
    }
}

impl Target {
    async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from(self.host.clone()).unwrap();
        let stream = TlsConnector::from(self.config.clone()).connect(name, stream).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    fn request(&self, method: &str, path: &str, accept: &str, body: Bytes) -> Request<Full<Bytes>> {
        let request = Request::builder().method(method).uri(path).header("host", &self.host);
        let request = request.header("accept", accept).header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {}", self.token));
        request.body(Full::new(body)).unwrap()
    }

    fn get(&self, path: &str) -> Request<Full<Bytes>> {
        self.request("GET", path, "application/json", Bytes::new())
    }

    fn create(&self, number: u64) -> Request<Full<Bytes>> {
        let manifest = serde_json::to_string(&job(&format!("made-{number}"))).unwrap();
        let body = json!({ "manifest": manifest, "skipChecks": true }).to_string();
        self.request("POST", "/api/v1/namespaces/team/jobs", "application/json", body.into())
    }

    /// What stands before a creation: permission, quota, limits, and when the job could start. Each time another user asks.
    fn check(&self, user: usize) -> Request<Full<Bytes>> {
        let manifest = serde_json::to_string(&job("checked")).unwrap();
        let body = json!({ "manifest": manifest }).to_string();
        let path = format!("/api/v1/namespaces/{TEAM}/availability");
        let mut request = self.request("POST", &path, "application/json", body.into());
        let bearer = format!("Bearer {}", token_of(user)).parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        request
    }

    /// Asks over several connections. Answers are read and not decoded.
    async fn ask(&self, request: impl Fn(u64) -> Request<Full<Bytes>> + Sync) -> Measured {
        let (begun, count) = (Instant::now(), AtomicU64::new(0));
        let ask = |_| async {
            let mut sender = self.connect().await;
            let (mut times, mut bytes) = (Vec::new(), 0);
            while begun.elapsed() < FOR {
                let sent = Instant::now();
                let number = count.fetch_add(1, Ordering::Relaxed);
                let response = sender.send_request(request(number)).await.unwrap();
                assert!(response.status().is_success(), "{}", response.status());
                bytes = response.into_body().collect().await.unwrap().to_bytes().len();
                times.push(sent.elapsed());
                sender.ready().await.unwrap();
            }
            (times, bytes)
        };
        let asked = futures::future::join_all((0..CONNECTIONS).map(ask)).await;
        let bytes = asked.iter().map(|(_, bytes)| *bytes).max().unwrap_or_default();
        let mut times: Vec<Duration> = asked.into_iter().flat_map(|(times, _)| times).collect();
        times.sort();
        let late = times.get(times.len() * 95 / 100).copied().unwrap_or_default();
        Measured {
            per_second: times.len() as f64 / begun.elapsed().as_secs_f64(),
            p95_milliseconds: late.as_secs_f64() * 1e3,
            bytes,
        }
    }

    /// Measures an API server's own lists, in each form.
    async fn lists(&self) -> Value {
        let path = format!("/apis/kubeflow.org/v2beta1/namespaces/{TEAM}/mpijobs?limit={ROWS}");
        let mut found = serde_json::Map::new();
        for (form, accept) in FORMS {
            let measured = self.ask(|_| self.request("GET", &path, accept, Bytes::new())).await;
            found.insert(form.to_owned(), measured.json());
        }
        Value::Object(found)
    }
}

/// A node whose pods have written as many lines each, at the same times; those that are followed write now.
struct Scribe;

/// The output of a pod that writes a line with its time at intervals.
fn written_now() -> LogStream {
    let lines = futures::stream::iter(0..WRITES).then(|_| async {
        tokio::time::sleep(WRITES_EACH).await;
        let now = Timestamp::now();
        Ok(Bytes::from(format!("{now:.9} {WRITTEN}{}\n", now.as_millisecond())))
    });
    lines.boxed()
}

impl Kubelet for Scribe {
    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        if request.follow {
            return async { Ok(written_now()) }.boxed();
        }
        let line = move |at: usize| {
            let time = Timestamp::from_millisecond(1_767_225_600_000 + at as i64).unwrap();
            format!("{time:.9} [step {at}] loss=0.123 samples/s=4567 of {}\n", request.pod)
        };
        // As a node sends it: in parts of some KiB.
        let parts =
            (0..LINES / 50).map(move |part| (part * 50..(part + 1) * 50).map(&line).collect::<String>());
        let parts: Vec<Result<Bytes, std::io::Error>> = parts.map(|part| Ok(part.into())).collect();
        async { Ok(futures::stream::iter(parts).boxed()) }.boxed()
    }
}

impl Served {
    /// Reads the merged output of all Workers of a job; returns lines a second.
    async fn lines(&self) -> f64 {
        self._cluster.server().kubelets.register(NODE, Arc::new(Scribe));
        let pods: Api<Pod> = Api::namespaced(self.admin.clone(), TEAM);
        for worker in 0..WORKERS {
            let name = format!("{LOGGED}-worker-{worker}");
            let pod = json!({ "metadata": { "name": name, "labels": { api::LABEL_JOB_NAME: LOGGED,
                    api::LABEL_JOB_ROLE: "worker", api::LABEL_REPLICA_INDEX: worker.to_string() } },
                "spec": { "nodeName": NODE, "containers": [{ "name": "main", "image": "train:1" }] } });
            pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
            let state = json!({ "terminated": { "exitCode": 0, "finishedAt": "2026-01-01T00:01:00Z" } });
            let status = json!({ "status": { "phase": "Succeeded", "containerStatuses": [{ "name": "main",
                "image": "train:1", "imageID": "", "ready": false, "restartCount": 0, "state": state }] } });
            pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        }
        let path = format!("/api/v1/namespaces/{TEAM}/jobs/mpijob/{LOGGED}/logs?all=true");
        let begun = Instant::now();
        let mut sender = self.service.connect().await;
        let response = sender.send_request(self.service.get(&path)).await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        let text = response.into_body().collect().await.unwrap().to_bytes();
        let lines = text.windows(13).filter(|part| part == b"\"type\":\"line\"").count();
        assert_eq!(lines, WORKERS * LINES, "every line, once");
        lines as f64 / begun.elapsed().as_secs_f64()
    }

    /// Follows all Workers of a job that runs; returns the milliseconds from a line's time until it was read, for the latest.
    async fn last_line_is_seen_after(&self) -> f64 {
        let pods: Api<Pod> = Api::namespaced(self.admin.clone(), TEAM);
        for worker in 0..WORKERS {
            let state = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
            let status = json!({ "status": { "phase": "Running", "containerStatuses": [{ "name": "main",
                "image": "train:1", "imageID": "", "ready": true, "restartCount": 0, "state": state }] } });
            let name = format!("{LOGGED}-worker-{worker}");
            pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        }
        let path = format!("/api/v1/namespaces/{TEAM}/jobs/mpijob/{LOGGED}/logs?all=true&follow=true");
        let mut sender = self.service.connect().await;
        let mut body = sender.send_request(self.service.get(&path)).await.unwrap().into_body();
        let (mut latest, mut seen, mut rest) = (0, 0, Vec::new());
        while seen < WORKERS * WRITES as usize {
            rest.extend_from_slice(&body.frame().await.unwrap().unwrap().into_data().unwrap());
            let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
            let now = Timestamp::now().as_millisecond();
            let whole: Vec<u8> = rest.drain(..=end).collect();
            for line in String::from_utf8_lossy(&whole).lines() {
                let Some((_, time)) = line.split_once(WRITTEN) else { continue };
                let digits: String = time.chars().take_while(char::is_ascii_digit).collect();
                latest = latest.max(now - digits.parse::<i64>().unwrap());
                seen += 1;
            }
        }
        latest as f64
    }

    /// Opens a stream for each of many users, changes a job, and returns the milliseconds until the last stream has seen it.
    async fn streams(&self, streams: usize) -> (f64, u64) {
        let before = resident_kib();
        let mut open = Vec::new();
        for number in 0..streams {
            let mut sender = self.service.connect().await;
            let mut request = self.service.get("/api/v1/stream?namespace=team&phase=Succeeded&phase=Failed");
            let bearer = format!("Bearer {}", token_of(number)).parse().unwrap();
            request.headers_mut().insert("authorization", bearer);
            let mut body = sender.send_request(request).await.unwrap().into_body();
            body.frame().await.unwrap().unwrap();
            open.push((sender, body));
        }
        let grown = resident_kib().saturating_sub(before);
        let changed = Instant::now();
        let patch = Patch::Merge(json!({ "status": { "phase": "Succeeded" } }));
        let api = jobs::Kind::MpiJob.api(&self.admin, TEAM);
        api.patch_status("job-0", &PatchParams::default(), &patch).await.unwrap();
        for (_, body) in &mut open {
            loop {
                let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
                if frame.windows(7).any(|part| part == b"\"job-0\"") {
                    break;
                }
            }
        }
        (changed.elapsed().as_secs_f64() * 1e3, grown)
    }
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<usize>().unwrap());
    let (jobs, streams) = (words.next().unwrap_or(10_000), words.next().unwrap_or(500));
    let served = serve(jobs, streams).await;
    let service = &served.service;
    let lists = service.ask(|_| service.get("/api/v1/jobs?limit=100")).await;
    let own = served.api.lists().await;
    let sorted = service.ask(|_| service.get("/api/v1/jobs?limit=100&sort=name&q=job")).await;
    let (seen, grown) = served.streams(streams).await;
    let creations = service.ask(|number| service.create(number)).await;
    let checks = service.ask(|number| service.check(number as usize % streams)).await;
    let lines = served.lines().await;
    let last_line = served.last_line_is_seen_after().await;
    let peer = match std::env::var_os(PEER) {
        Some(kubeconfig) => {
            let (target, admin) = target_of(Kubeconfig::read_from(kubeconfig).unwrap()).await;
            fill(&admin, jobs).await;
            target.lists().await
        }
        None => Value::Null,
    };
    let result: Value = json!({
        "jobs": jobs,
        "debug": cfg!(debug_assertions),
        "lists": lists.json(),
        "bytesOfARow": lists.bytes / ROWS.min(jobs),
        "searchedAndSortedLists": sorted.json(),
        "listsOfTheApiServer": own,
        "listsOfThePeer": peer,
        "creations": creations.json(),
        "checks": checks.json(),
        "linesPerSecond": lines.round(),
        "lastLineIsSeenAfterMs": last_line,
        "streams": { "open": streams, "lastSeesAChangeMs": seen, "grownKiB": grown },
    });
    println!("{result:#}");
}
