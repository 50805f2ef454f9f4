//! The program itself, on the API of a cluster.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;

use cluster::{Cluster, Options};
use history::store::Location;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use rustls::ClientConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::place::Place;
use crate::stage::{PATIENCE, Reply, TEAM, client_config, request, send};

/// A cluster's API on loopback, and what the program needs.
pub struct Site {
    pub cluster: Cluster,
    folder: tempfile::TempDir,
    pub roots: Arc<ClientConfig>,
    pub token: String,
}

impl Site {
    pub async fn new() -> Self {
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

    /// Returns the program with its arguments, and with variables of the environment.
    pub fn command(&self, place: &Place, environment: &[(&str, &str)]) -> Command {
        let file = |name: &str| self.folder.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_training-service"));
        command.args(["--listen", "127.0.0.1:0", "--requests-per-second", "10000", "--burst", "10000"]);
        command.arg("--tls-certificate").arg(file("tls.crt")).arg("--tls-key").arg(file("tls.key"));
        command.arg("--kubeconfig").arg(file("kubeconfig")).env_remove("RUST_LOG");
        command.envs(environment.iter().copied());
        match &place.location {
            Location::File(path) => command.arg("--store-directory").arg(path.parent().unwrap()),
            Location::Postgres(url) => command.env(service::STORE_URL, url),
        };
        command.stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Starts the program with variables of the environment; returns it and where it serves.
    pub async fn start(&self, place: &Place, environment: &[(&str, &str)]) -> (Child, SocketAddr) {
        let mut child = self.command(place, environment).spawn().unwrap();
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

    pub async fn ask(
        &self,
        address: SocketAddr,
        verb: &str,
        path: &str,
        body: Option<Value>,
    ) -> Option<Reply> {
        send(address, &self.roots, request(verb, path, &self.token, body)).await.ok()
    }

    pub async fn get(&self, address: SocketAddr, path: &str) -> Option<Reply> {
        self.ask(address, "GET", path, None).await
    }
}
