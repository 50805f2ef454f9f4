//! Measures the training service beside the API server's own lists, in one process and one run: lists of 100 rows among
//! many jobs, creations, and how soon open streams see a change.
//!
//! `cargo run --release -p service --example bench_service [JOBS] [STREAMS]` prints one JSON object.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made ends")]
#![expect(clippy::print_stdout, reason = "prints its result")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::apiserver::auth::{Identities, UserInfo};
use cluster::apiserver::{ApiServer, Endpoint, bootstrap};
use cluster::store::{DEFAULT_WINDOW, Store, Volatile};
use futures::StreamExt;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
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
const TOKEN: &str = "token";
const TEAM: &str = "team";

fn job(name: &str) -> DynamicObject {
    let template = json!({ "spec": { "containers": [{ "name": "main", "image": "train:1",
        "command": ["mpirun", "python", "train.py"],
        "resources": { "limits": { "cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1 } } }] } });
    serde_json::from_value(json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": { "name": name, "labels": { "team": "vision" } },
        "spec": { "mpiReplicaSpecs": { "Launcher": { "replicas": 1, "template": template },
            "Worker": { "replicas": 8, "template": template } } } }))
    .unwrap()
}

struct Served {
    admin: Client,
    address: SocketAddr,
    config: Arc<ClientConfig>,
    _folder: TempDir,
}

async fn serve(jobs: usize, streams: usize) -> Served {
    let store = Arc::new(Store::new(DEFAULT_WINDOW, Box::new(Volatile)));
    let server = Arc::new(ApiServer::new(store, Identities::new(TOKEN)));
    bootstrap::roles(server.store()).await.unwrap();
    let admin = Client::new(Endpoint::trusted(server.clone(), UserInfo::admin()), TEAM);
    let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
    definitions.create(&PostParams::default(), &api::mpijob_crd()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    let namespace = serde_json::from_value(json!({ "metadata": { "name": TEAM } })).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let api = jobs::Kind::MpiJob.api(&admin, TEAM);
    futures::stream::iter(0..jobs)
        .for_each_concurrent(32, |at| {
            let api = api.clone();
            async move {
                api.create(&PostParams::default(), &job(&format!("job-{at}"))).await.unwrap();
            }
        })
        .await;
    let nobody = Client::new(Endpoint::with_credentials(server.clone()), TEAM);
    let settings =
        Settings { rate: 1_000_000, burst: 1_000_000, streams: streams + 1, ..Settings::default() };
    let stop = CancellationToken::new();
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&admin, &nobody, settings, &Keep::in_folder(folder.path()), &stop);
    service.ready().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (acceptor, authority) = tls::for_this_machine().unwrap();
    tokio::spawn(service::serve(listener, acceptor, service, stop));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    Served { admin, address, config, _folder: folder }
}

impl Served {
    async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(self.config.clone()).connect(name, stream).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// Asks over several connections; returns requests a second and the time of the 95th of 100, in milliseconds.
    async fn ask(&self, request: impl Fn(u64) -> Request<Full<Bytes>> + Sync) -> (f64, f64) {
        let (begun, count) = (Instant::now(), AtomicU64::new(0));
        let ask = |_| async {
            let mut sender = self.connect().await;
            let mut times = Vec::new();
            while begun.elapsed() < FOR {
                let sent = Instant::now();
                let number = count.fetch_add(1, Ordering::Relaxed);
                let response = sender.send_request(request(number)).await.unwrap();
                assert!(response.status().is_success(), "{}", response.status());
                response.into_body().collect().await.unwrap();
                times.push(sent.elapsed());
                sender.ready().await.unwrap();
            }
            times
        };
        let times: Vec<Vec<Duration>> = futures::future::join_all((0..CONNECTIONS).map(ask)).await;
        let mut times: Vec<Duration> = times.into_iter().flatten().collect();
        times.sort();
        let late = times.get(times.len() * 95 / 100).copied().unwrap_or_default();
        (times.len() as f64 / begun.elapsed().as_secs_f64(), late.as_secs_f64() * 1e3)
    }

    /// The same as a list of 100 by the API server, without TLS and in the same process.
    async fn lists_of_the_api_server(&self) -> f64 {
        let (begun, count) = (Instant::now(), AtomicU64::new(0));
        let ask = |_| async {
            let api = jobs::Kind::MpiJob.api(&self.admin, TEAM);
            while begun.elapsed() < FOR {
                api.list(&ListParams::default().limit(100)).await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        futures::future::join_all((0..CONNECTIONS).map(ask)).await;
        count.into_inner() as f64 / begun.elapsed().as_secs_f64()
    }

    /// Opens streams, changes a job, and returns the milliseconds until the last stream has seen it.
    async fn streams(&self, streams: usize) -> (f64, u64) {
        let before = resident_kib();
        let mut open = Vec::new();
        for _ in 0..streams {
            let mut sender = self.connect().await;
            let request = get("/api/v1/stream?namespace=team&phase=Succeeded&phase=Failed");
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

fn get(path: &str) -> Request<Full<Bytes>> {
    let request =
        Request::get(path).header("host", "localhost").header("authorization", format!("Bearer {TOKEN}"));
    request.body(Full::default()).unwrap()
}

fn create(number: u64) -> Request<Full<Bytes>> {
    let manifest = serde_json::to_string(&job(&format!("made-{number}"))).unwrap();
    let body = json!({ "manifest": manifest, "skipChecks": true }).to_string();
    let request = Request::post("/api/v1/namespaces/team/jobs")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {TOKEN}"));
    request.body(Full::new(body.into())).unwrap()
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
    let (lists, late) = served.ask(|_| get("/api/v1/jobs?limit=100")).await;
    let (sorted, sorted_late) = served.ask(|_| get("/api/v1/jobs?limit=100&sort=name&q=job")).await;
    let own = served.lists_of_the_api_server().await;
    let (seen, grown) = served.streams(streams).await;
    let (creations, create_late) = served.ask(create).await;
    let result: Value = json!({
        "jobs": jobs,
        "lists": { "perSecond": lists.round(), "p95Ms": late },
        "searchedAndSortedLists": { "perSecond": sorted.round(), "p95Ms": sorted_late },
        "listsOfTheApiServer": { "perSecond": own.round() },
        "creations": { "perSecond": creations.round(), "p95Ms": create_late },
        "streams": { "open": streams, "lastSeesAChangeMs": seen, "grownKiB": grown },
    });
    println!("{result:#}");
}
