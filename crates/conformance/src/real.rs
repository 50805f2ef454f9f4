//! A real kube-apiserver with its etcd, on free loopback ports. They run as long as the value lives.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use cluster::{kubeconfig, tls};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use tokio::process::{Child, Command};

use crate::side::{Asked, Side};

/// How long the server may take to become ready.
const START: Duration = Duration::from_secs(90);
const STEP: Duration = Duration::from_millis(200);
/// Admission plug-ins to disable: they need controllers, which do not run here, or the embedded server does not have
/// them.
const PLUGINS_OFF: &str =
    "ResourceQuota,TaintNodesByCondition,PodTopologyLabels,StorageObjectInUseProtection";

/// The controllers that run: all that do by default, but for those that act on the nodes' behalf. The tests play the
/// nodes, whose pods these would evict or remove for lack of a heartbeat.
const CONTROLLERS: &str =
    "*,-node-lifecycle-controller,-taint-eviction-controller,-pod-garbage-collector-controller";

/// Running processes of etcd and kube-apiserver; both end when it is dropped.
pub struct Real {
    /// Sends requests to the server.
    pub side: Side,
    /// The kubeconfig for programs.
    pub kubeconfig: PathBuf,
    processes: Vec<Child>,
    _folder: tempfile::TempDir,
}

/// Why the real server is not available.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program is missing.
    #[error(
        "{path} is missing: `cargo xtask conformance` builds it, or --binaries names a folder that has it"
    )]
    NoProgram {
        /// The expected path.
        path: PathBuf,
    },
    /// A file or process operation failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The error.
        source: io::Error,
    },
    /// Certificates could not be created.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// The client could not be created.
    #[error("the client of the real server: {0}")]
    Client(String),
    /// The server did not become ready.
    #[error("kube-apiserver was not ready after {START:?}; the end of its log:\n{log}")]
    NotReady {
        /// The log's last lines.
        log: String,
    },
}

impl Real {
    /// Starts `etcd` and `kube-apiserver` from a folder.
    ///
    /// # Errors
    /// See [`Error`]. Nothing is left running then.
    pub async fn start(binaries: &Path) -> Result<Self, Error> {
        let token =
            cluster::apiserver::auth::new_token().map_err(|error| Error::Client(error.to_string()))?;
        Self::start_with(binaries, &token, &[]).await
    }

    /// The same with this token for the administrator, and with people: a name and a token of each.
    ///
    /// # Errors
    /// See [`Error`]. Nothing is left running then.
    pub async fn start_with(binaries: &Path, token: &str, people: &[(&str, &str)]) -> Result<Self, Error> {
        for name in ["etcd", "kube-apiserver"] {
            let path = binaries.join(name);
            if !path.is_file() {
                return Err(Error::NoProgram { path });
            }
        }
        let folder = tempfile::tempdir().map_err(failed("a folder for the real server"))?;
        let at = folder.path().to_owned();
        let identity = tls::load_or_make(&at.join("pki"), Ipv4Addr::LOCALHOST.into())?;
        let people = people.iter().map(|(name, token)| format!("{token},{name},{name}\n"));
        let tokens = format!("{token},kubernetes-admin,admin,system:masters\n{}", people.collect::<String>());
        fs::write(at.join("tokens.csv"), tokens).map_err(failed("tokens.csv"))?;
        let (api, store, peer) = (free_port()?, free_port()?, free_port()?);
        let processes = vec![etcd(binaries, &at, store, peer)?, apiserver(binaries, &at, api, store)?];
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, api));
        let said = |error: &dyn std::fmt::Display| Error::Client(error.to_string());
        let access =
            kubeconfig::kubeconfig(address, &identity.ca_pem, token).map_err(|error| said(&error))?;
        let kubeconfig = at.join("kubeconfig");
        let text = serde_json::to_string(&access).map_err(|error| said(&error))?;
        fs::write(&kubeconfig, text).map_err(failed("the kubeconfig"))?;
        let side = side(access).await?;
        let real = Self { side, kubeconfig, processes, _folder: folder };
        real.wait(&at).await?;
        Ok(real)
    }

    /// Starts the controllers, as many as are on by default and need no node.
    ///
    /// # Errors
    /// When `kube-controller-manager` is missing or cannot be started.
    pub fn add_controllers(&mut self, binaries: &Path) -> Result<(), Error> {
        let path = binaries.join("kube-controller-manager");
        if !path.is_file() {
            return Err(Error::NoProgram { path });
        }
        let mut command = Command::new(path);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(["--leader-elect=false", "--secure-port=0"]);
        command.arg(format!("--controllers={CONTROLLERS}"));
        self.processes.push(spawn(command, self._folder.path(), "kube-controller-manager")?);
        Ok(())
    }

    async fn wait(&self, folder: &Path) -> Result<(), Error> {
        let ready = Asked {
            method: "GET".into(),
            uri: "/readyz".into(),
            headers: vec![],
            body: None,
            is_watch: false,
        };
        let began = Instant::now();
        while began.elapsed() < START {
            if self.side.ask(&ready).await.code == 200 {
                return Ok(());
            }
            tokio::time::sleep(STEP).await;
        }
        let log = fs::read_to_string(folder.join("kube-apiserver.log")).unwrap_or_default();
        let lines = log.lines().rev().take(15).collect::<Vec<_>>();
        Err(Error::NotReady { log: lines.into_iter().rev().collect::<Vec<_>>().join("\n") })
    }

    /// Ends all processes, and returns when they have ended.
    pub async fn stop(mut self) {
        for process in self.processes.iter_mut().rev() {
            // The call fails for a process that has already ended, which is fine.
            let _ = process.kill().await;
        }
    }
}

fn failed(what: &str) -> impl FnOnce(io::Error) -> Error {
    let what = what.to_owned();
    move |source| Error::Io { what, source }
}

fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed("a free port"))?;
    listener.local_addr().map(|address| address.port()).map_err(failed("a free port"))
}

async fn side(kubeconfig: Kubeconfig) -> Result<Side, Error> {
    let said = |error: &dyn std::fmt::Display| Error::Client(error.to_string());
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| said(&error))?;
    Ok(Side::new(kube::Client::try_from(config).map_err(|error| said(&error))?))
}

fn etcd(binaries: &Path, folder: &Path, port: u16, peer: u16) -> Result<Child, Error> {
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
    let cluster = format!("default={peer}");
    let mut command = Command::new(binaries.join("etcd"));
    command.arg("--data-dir").arg(folder.join("etcd"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args([
        "--listen-peer-urls",
        &peer,
        "--initial-advertise-peer-urls",
        &peer,
        "--initial-cluster",
        &cluster,
    ]);
    command.args(["--unsafe-no-fsync", "--log-level", "warn"]);
    spawn(command, folder, "etcd")
}

fn apiserver(binaries: &Path, folder: &Path, port: u16, store: u16) -> Result<Child, Error> {
    let pki = folder.join("pki");
    let key = pki.join("server.key");
    let mut command = Command::new(binaries.join("kube-apiserver"));
    command.arg(format!("--etcd-servers=http://127.0.0.1:{store}")).arg(format!("--secure-port={port}"));
    command.args([
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
    ]);
    command.args([
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
    ]);
    command.args(["--service-account-issuer=https://kubernetes.default.svc"]);
    command.arg(format!("--disable-admission-plugins={PLUGINS_OFF}"));
    for (flag, path) in [
        ("tls-cert-file", pki.join("server.crt")),
        ("tls-private-key-file", key.clone()),
        ("service-account-key-file", pki.join("server.crt")),
        ("service-account-signing-key-file", key),
        ("token-auth-file", folder.join("tokens.csv")),
    ] {
        command.arg(format!("--{flag}={}", path.display()));
    }
    spawn(command, folder, "kube-apiserver")
}

fn spawn(mut command: Command, folder: &Path, name: &str) -> Result<Child, Error> {
    let log = File::create(folder.join(format!("{name}.log"))).map_err(failed(name))?;
    let errors = log.try_clone().map_err(failed(name))?;
    command.stdin(Stdio::null()).stdout(log).stderr(errors).kill_on_drop(true);
    command.spawn().map_err(failed(name))
}
