//! A cluster for one test, and helpers for waiting.

use std::time::Duration;

use cluster::{Cluster, Options};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// The timeout of all waits.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A running cluster with a state directory of its own.
pub struct Served {
    pub cluster: Cluster,
    pub state: tempfile::TempDir,
}

/// Starts an API on a free port, without controllers and nodes.
pub async fn serve() -> Served {
    serve_with(only_api).await
}

/// Disables everything but the API.
pub fn only_api(options: &mut Options) {
    options.controllers = false;
    options.nodes = 0;
}

/// Starts a whole cluster with changed options.
pub async fn serve_with(change: impl FnOnce(&mut Options)) -> Served {
    let state = tempfile::tempdir().unwrap();
    let mut options = Options::new(state.path().join("cluster"));
    change(&mut options);
    Served { cluster: Cluster::start(options).await.unwrap(), state }
}

impl Served {
    /// Returns a client that connects over TLS with the kubeconfig.
    pub async fn remote(&self) -> Client {
        client_of(self.cluster.kubeconfig()).await
    }

    /// Writes the kubeconfig to a file.
    pub fn kubeconfig_file(&self) -> std::path::PathBuf {
        let path = self.state.path().join("kubeconfig");
        std::fs::write(&path, serde_json::to_string(&self.cluster.kubeconfig()).unwrap()).unwrap();
        path
    }
}

/// Returns a client for a kubeconfig.
pub async fn client_of(kubeconfig: Kubeconfig) -> Client {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Waits for a future with a timeout.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("this should have happened by now")
}
