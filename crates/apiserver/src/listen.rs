//! The loopback listener: TLS, HTTP/1.1 and HTTP/2. Each connection has its own task; [`super::guests`]
//! bounds their number.

use std::sync::Arc;
use std::time::Duration;

use connections::{Slot, Slots};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Endpoint;
use super::auth::certificates::certified;
use super::guests;

/// The maximum number of concurrent streams on one HTTP/2 connection. kube-apiserver's
/// `http2.Server.MaxConcurrentStreams` is 100 for unauthenticated users; our own clients may open more
/// watches.
const MAX_STREAMS: u32 = 1000;
/// The timeout of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout for receiving a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(32);
/// The idle time after which an HTTP/2 connection is pinged, and the timeout of the ping.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// The pause after `accept` fails, for example because of too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until `stop` is cancelled; then closes them all.
pub async fn listen(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    endpoint: Endpoint,
    slots: Arc<Slots>,
    stop: CancellationToken,
) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(slot) = slots.take(peer.ip()) else {
                    tracing::debug!(%peer, "no room for a connection");
                    continue;
                };
                let slot = Arc::new(slot);
                let (acceptor, endpoint, stop) = (acceptor.clone(), endpoint.clone(), stop.clone());
                connections.spawn(async move {
                    tokio::select! {
                        () = serve(stream, acceptor, endpoint, slot.clone()) => {}
                        () = guests::outstays(&slot) => tracing::debug!(%peer, "a connection without credentials ends"),
                        () = stop.cancelled() => {}
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no connection could be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.close();
    connections.wait().await;
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, endpoint: Endpoint, slot: Arc<Slot>) {
    // Watch events are small and must be sent without delay.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::debug!("a TLS handshake took too long"),
    };
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let endpoint = endpoint.of_connection(shown.and_then(|certificate| certified(certificate)), slot);
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let (interval, timeout) = KEEP_ALIVE;
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(interval)
        .keep_alive_timeout(timeout);
    let service = TowerToHyperService::new(endpoint);
    if let Err(error) = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await {
        tracing::debug!(error, "a connection ended");
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    use super::super::ApiServer;
    use super::super::auth::Identities;
    use super::super::guests::GREETING_TIMEOUT;
    use super::*;
    use crate::store::{Store, Volatile};
    use crate::tls;

    const TOKEN: &str = "secret";

    /// A listener with a limit on connections, and the means to connect to it.
    struct Listening {
        address: std::net::SocketAddr,
        connector: TlsConnector,
        stop: CancellationToken,
    }

    impl Listening {
        async fn begin(places: usize) -> Self {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let folder = tempfile::tempdir().unwrap();
            let identity = tls::load_or_make(folder.path(), address.ip()).unwrap();
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(identity.ca_pem.as_bytes()).unwrap()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            let client = client.unwrap().with_root_certificates(roots).with_no_client_auth();
            let store = Arc::new(Store::new(16, Box::new(Volatile)));
            let server = Arc::new(ApiServer::new(store, Identities::new(TOKEN)));
            let (endpoint, stop) = (Endpoint::with_credentials(server), CancellationToken::new());
            let slots = guests::at_most(places);
            tokio::spawn(listen(listener, identity.acceptor, endpoint, slots, stop.clone()));
            Self { address, connector: TlsConnector::from(Arc::new(client)), stop }
        }

        async fn connect(&self) -> TlsStream<TcpStream> {
            let stream = TcpStream::connect(self.address).await.unwrap();
            self.connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
        }
    }

    impl Drop for Listening {
        fn drop(&mut self) {
            self.stop.cancel();
        }
    }

    /// Sends a request with this token, reads the whole response and returns its status line.
    async fn ask(stream: &mut TlsStream<TcpStream>, token: &str) -> String {
        let request =
            format!("GET /api HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        stream.read_exact(&mut vec![0; length.unwrap().parse().unwrap()]).await.unwrap();
        head.lines().next().unwrap().to_owned()
    }

    #[tokio::test]
    async fn connections_without_credentials_make_room_for_others() {
        let listening = Listening::begin(8).await;
        let mut known = listening.connect().await;
        assert_eq!(ask(&mut known, TOKEN).await, "http/1.1 200 ok");
        let mut strangers = Vec::new();
        for count in 0..20 {
            let mut stranger = listening.connect().await;
            // Half of them send nothing, the others send an invalid token.
            if count % 2 == 0 {
                assert_eq!(ask(&mut stranger, "wrong").await, "http/1.1 401 unauthorized");
            }
            strangers.push(stranger);
        }
        let mut other = listening.connect().await;
        assert_eq!(ask(&mut other, TOKEN).await, "http/1.1 200 ok");
        assert_eq!(ask(&mut known, TOKEN).await, "http/1.1 200 ok", "who is known stays");
        let mut rest = Vec::new();
        let ended = strangers[0].read_to_end(&mut rest);
        assert!(tokio::time::timeout(HANDSHAKE_TIMEOUT, ended).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_says_nothing_after_the_handshake_ends() {
        let listening = Listening::begin(8).await;
        let mut silent = listening.connect().await;
        let mut rest = Vec::new();
        let ended = silent.read_to_end(&mut rest);
        assert!(tokio::time::timeout(GREETING_TIMEOUT * 2, ended).await.is_ok());
    }
}
