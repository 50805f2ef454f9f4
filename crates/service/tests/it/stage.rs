//! A stage for one test: an API server, people with tokens, and the service on it. `cargo xtask service` runs the same
//! tests on a real kube-apiserver, one for each test.

mod jobs;
mod pods;
mod requests;
mod rights;
mod servers;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Client;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use service::{Keep, Retention, Service, Settings, tls};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use self::jobs::job;
pub use self::requests::{Channel, Reply, call, channel, client_config, connect, request, rest_of, send};
pub use self::rights::set_prices;
use self::servers::{REAL, Server, embedded, own, prepare, real};
use crate::line::{Line, Trouble};
use crate::place::Place;
use crate::stores;

/// How long a test waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The namespaces: of jane and vera, of joe, of nobody.
pub const TEAM: &str = "team-cv";
pub const OTHER_TEAM: &str = "team-nlp";
pub const NOBODYS: &str = "team-ops";
/// The tokens.
pub const ADMIN: &str = "token-of-the-administrator";
pub const JANE: &str = "token-of-jane-who-edits";
pub const VERA: &str = "token-of-vera-who-views";
pub const JOE: &str = "token-of-joe-of-the-other-team";
pub const EXPIRED: &str = "token-that-has-expired";

/// The stage.
pub struct Stage {
    /// A client as the administrator.
    pub admin: Client,
    server: Server,
    address: SocketAddr,
    authority: String,
    roots: Arc<ClientConfig>,
    requests: Arc<Mutex<Vec<String>>>,
    trouble: watch::Sender<Trouble>,
    stop: CancellationToken,
    /// What the service is started with again.
    own: Client,
    nobody: Client,
    settings: Settings,
    pub keep: Keep,
    acceptor: TlsAcceptor,
    _folder: TempDir,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Stage {
    pub async fn new() -> Self {
        Self::with(Settings { rate: 10_000, burst: 10_000, ..Settings::default() }).await
    }

    pub async fn with(settings: Settings) -> Self {
        let (acceptor, authority) = tls::for_this_machine().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let keep = stores::keep(&folder.path().join("kept")).await;
        Self::at(settings, keep, folder, acceptor, &authority).await
    }

    /// A service that believes proxies of an authority, and the certificate of a proxy with its key.
    pub async fn with_proxies() -> (Self, (CertificateDer<'static>, PrivateKeyDer<'static>)) {
        let folder = tempfile::tempdir().unwrap();
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let signed = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let names = CertificateParams::new([name.to_owned()]).unwrap();
            (names.signed_by(&key, &authority).unwrap(), key)
        };
        let ((service, key), (proxy, proxy_key)) = (signed("localhost"), signed("proxy"));
        let file = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let files = tls::Files {
            certificate: file("tls.crt", service.pem()),
            key: file("tls.key", key.serialize_pem()),
            proxies: Some(file("proxies.crt", authority.pem())),
        };
        let acceptor = tls::from_files(files, CancellationToken::new()).unwrap();
        let proxy_key = PrivateKeyDer::try_from(proxy_key.serialize_der()).unwrap();
        let keep = stores::keep(&folder.path().join("kept")).await;
        let stage = Self::at(Settings::default(), keep, folder, acceptor, &authority.pem()).await;
        (stage, (proxy.der().clone(), proxy_key))
    }

    /// The same service for a client with a certificate.
    pub fn connecting_with(
        mut self,
        (certificate, key): (CertificateDer<'static>, PrivateKeyDer<'static>),
    ) -> Self {
        self.roots = client_config(&self.authority, Some((certificate, key)));
        self
    }

    /// A stage with its store in a place.
    pub async fn on(place: &Place) -> Self {
        let settings = Settings { rate: 10_000, burst: 10_000, ..Settings::default() };
        let keep =
            Keep { logs: Some(place.folder.path().join("logs")), ..Keep::in_database(place.settings()) };
        let (acceptor, authority) = tls::for_this_machine().unwrap();
        Self::at(settings, keep, tempfile::tempdir().unwrap(), acceptor, &authority).await
    }

    async fn at(
        settings: Settings,
        keep: Keep,
        folder: TempDir,
        acceptor: TlsAcceptor,
        authority: &str,
    ) -> Self {
        // What a test changes is seen by the next check.
        let settings = Settings { reading: Duration::ZERO, ..settings };
        // The tests' times are long ago.
        let age = Duration::from_secs(100 * 365 * 24 * 3600);
        let retention = Retention { history: age, usage: age, logs: age, ..Retention::default() };
        let keep = Keep { every: Duration::from_millis(50), retention, ..keep };
        let (server, admin, nobody) = match std::env::var_os(REAL) {
            Some(binaries) => real(binaries.as_ref()).await,
            None => embedded(&folder).await,
        };
        prepare(&admin, &server).await;
        let (requests, trouble) = (Arc::new(Mutex::new(Vec::new())), watch::Sender::default());
        let line =
            |inner, requests| Client::new(Line { inner, requests, trouble: trouble.subscribe() }, "default");
        let own = line(own(&server, &admin).await, Some(requests.clone()));
        let nobody = line(nobody, None);
        let stop = CancellationToken::new();
        let address = serve((&own, &nobody), &settings, &keep, &acceptor, &stop).await;
        let roots = client_config(authority, None);
        let authority = authority.to_owned();
        Self {
            admin,
            server,
            address,
            authority,
            roots,
            requests,
            trouble,
            stop,
            own,
            nobody,
            settings,
            keep,
            acceptor,
            _folder: folder,
        }
    }

    /// Stops the service and starts another with the same store.
    pub async fn restart(&mut self) {
        self.stop.cancel();
        self.stop = CancellationToken::new();
        self.address = self.serve(&self.stop).await;
    }

    /// Starts another replica with the same store, until the result is cancelled.
    pub async fn replica(&self) -> CancellationToken {
        let stop = self.stop.child_token();
        self.serve(&stop).await;
        stop
    }

    /// Starts another replica with the same store, which gets this stage's requests from now on. Returns the address of the one
    /// before, which goes on.
    pub async fn move_to_replica(&mut self) -> SocketAddr {
        let address = self.serve(&self.stop).await;
        std::mem::replace(&mut self.address, address)
    }

    /// From now on, the replica at this address gets the requests.
    pub fn move_to(&mut self, address: SocketAddr) {
        self.address = address;
    }

    async fn serve(&self, stop: &CancellationToken) -> SocketAddr {
        serve((&self.own, &self.nobody), &self.settings, &self.keep, &self.acceptor, stop).await
    }

    /// Stops the service.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// From now on, something is the matter with the API server, as the service sees it.
    pub fn trouble(&self, trouble: Trouble) {
        self.trouble.send_replace(trouble);
    }

    /// The requests that the service sent as its own account.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Starts a service with the clients as its own account and without credentials.
async fn serve(
    (own, nobody): (&Client, &Client),
    settings: &Settings,
    keep: &Keep,
    acceptor: &TlsAcceptor,
    stop: &CancellationToken,
) -> SocketAddr {
    let service = Service::start(own, nobody, settings.clone(), keep, stop);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(service::serve(listener, acceptor.clone(), service.clone(), stop.clone()));
    tokio::time::timeout(PATIENCE, service.ready()).await.unwrap();
    address
}
