//! `kill -9` of the program at any moment loses nothing that it acknowledged.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use cluster::{Cluster, Options};
use history::audit::{Verification, verify};
use history::store::Location;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use rustls::ClientConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::place::{Place, on_each};
use crate::stage::{PATIENCE, Reply, TEAM, client_config, job, request, send};

/// How often the program is killed.
const ROUNDS: usize = 4;
/// The number of clients that ask at once.
const CLIENTS: usize = 4;

/// A cluster's API on loopback, and what the program needs.
struct Site {
    cluster: Cluster,
    folder: tempfile::TempDir,
    roots: Arc<ClientConfig>,
    token: String,
}

impl Site {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { controllers: false, ..Options::new(folder.path().join("cluster")) };
        let cluster = Cluster::start(options).await.unwrap();
        let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
        crds.create(&PostParams::default(), &api::mpijob_crd()).await.unwrap();
        let served = await_condition(crds, "mpijobs.kubeflow.org", is_crd_established());
        tokio::time::timeout(PATIENCE, served).await.unwrap().unwrap();
        let namespaces: Api<Namespace> = Api::all(cluster.client());
        let namespace = serde_json::from_value(json!({ "metadata": { "name": TEAM } })).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let kubeconfig = serde_json::to_value(cluster.kubeconfig()).unwrap();
        let token = kubeconfig.pointer("/users/0/user/token").unwrap().as_str().unwrap().to_owned();
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(folder.path().join("tls.crt"), key.cert.pem()).unwrap();
        std::fs::write(folder.path().join("tls.key"), key.signing_key.serialize_pem()).unwrap();
        Self { cluster, roots: client_config(&key.cert.pem(), None), folder, token }
    }

    /// Starts the program; returns it and where it serves.
    async fn start(&self, place: &Place) -> (Child, SocketAddr) {
        let file = |name: &str| self.folder.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_training-service"));
        command.args(["--listen", "127.0.0.1:0", "--requests-per-second", "10000", "--burst", "10000"]);
        command.arg("--tls-certificate").arg(file("tls.crt")).arg("--tls-key").arg(file("tls.key"));
        command.arg("--kubeconfig").arg(file("kubeconfig")).env_remove("RUST_LOG");
        match &place.location {
            Location::File(path) => command.arg("--store-directory").arg(path.parent().unwrap()),
            Location::Postgres(url) => command.env(service::STORE_URL, url),
        };
        let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = loop {
            let line = lines.next_line().await.unwrap().unwrap();
            let line: Value = serde_json::from_str(&line).unwrap();
            if let Some(address) = line["fields"]["address"].as_str() {
                break address.parse().unwrap();
            }
        };
        // Its log must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let ready =
            async { while self.get(address, "/readyz").await.is_none_or(|reply| reply.text != "ok\n") {} };
        tokio::time::timeout(PATIENCE, ready).await.unwrap();
        (child, address)
    }

    async fn ask(&self, address: SocketAddr, verb: &str, path: &str, body: Option<Value>) -> Option<Reply> {
        send(address, &self.roots, request(verb, path, &self.token, body)).await.ok()
    }

    async fn get(&self, address: SocketAddr, path: &str) -> Option<Reply> {
        self.ask(address, "GET", path, None).await
    }
}

/// What the program acknowledged: the path of the object, and the id of the request.
type Acknowledged = (String, String);

/// Creates a job and a rule again and again until the program is gone.
async fn client(
    site: &Site,
    address: SocketAddr,
    name: &str,
    acknowledged: &tokio::sync::mpsc::Sender<Acknowledged>,
) {
    for number in 0..6 {
        let name = format!("{name}-{number}");
        let base = format!("/api/v1/namespaces/{TEAM}");
        let body = json!({ "manifest": job(&name).to_string(), "skipChecks": true });
        let Some(created) = site.ask(address, "POST", &format!("{base}/jobs"), Some(body)).await else {
            return;
        };
        assert_eq!(created.status, 200, "{}", created.text);
        let id = |reply: &Reply| reply.headers["x-request-id"].to_str().unwrap().to_owned();
        acknowledged.send((format!("{base}/jobs/mpijob/{name}"), id(&created))).await.unwrap();
        let (path, body) = (format!("{base}/notifications/{name}"), json!({ "url": "https://example.com/" }));
        let Some(put) = site.ask(address, "PUT", &path, Some(body)).await else { return };
        assert_eq!(put.status, 200, "{}", put.text);
        acknowledged.send((path, id(&put))).await.unwrap();
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost_by_a_kill() {
    on_each(async |place| {
        let site = Site::new().await;
        std::fs::create_dir_all(store_folder(place)).unwrap();
        let mut all: Vec<Acknowledged> = Vec::new();
        for round in 0..ROUNDS {
            let (mut child, address) = site.start(place).await;
            let (sender, mut receiver) = tokio::sync::mpsc::channel(1000);
            let names: Vec<String> = (0..CLIENTS).map(|number| format!("j-{round}-{number}")).collect();
            let clients =
                futures::future::join_all(names.iter().map(|name| client(&site, address, name, &sender)));
            let killing = async {
                for _ in 0..3 + 5 * round {
                    all.push(receiver.recv().await.unwrap());
                }
                // SIGKILL, while it is at the next requests.
                child.kill().await.unwrap();
            };
            tokio::join!(clients, killing);
            drop(sender);
            while let Some(acknowledged) = receiver.recv().await {
                all.push(acknowledged);
            }
        }
        let (_child, address) = site.start(place).await;
        let mut recorded = String::new();
        let mut next = String::new();
        loop {
            let page = site.get(address, &format!("/api/v1/audit?limit=500&continue={next}")).await.unwrap();
            recorded.push_str(&page.text);
            match page.json()["continue"].as_str() {
                Some(more) => next = more.to_owned(),
                None => break,
            }
        }
        for (path, id) in &all {
            assert_eq!(site.get(address, path).await.unwrap().status, 200, "{path}");
            let lines = recorded.split(&format!("\"request\":\"{id}\"")).nth(1).unwrap_or_default();
            let own = lines.split("\"request\"").next().unwrap_or_default();
            for stage in ["RequestReceived", "ResponseComplete"] {
                assert_eq!(own.matches(stage).count(), 1, "{path} {stage}: {own}");
            }
        }
        let chain = verify(&place.open().await, &[]).await.unwrap();
        assert!(matches!(chain, Verification::Intact { .. }), "{chain:?}");
        site.cluster.stop().await;
    });
}

fn store_folder(place: &Place) -> &Path {
    match &place.location {
        Location::File(path) => path.parent().unwrap(),
        Location::Postgres(_) => place.folder.path(),
    }
}
