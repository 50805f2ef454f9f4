//! The listener on loopback: TLS, HTTP/1.1 and HTTP/2, one task for each connection, all of them bounded.

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Endpoint;
use super::auth::certificates::certified;

/// Connections at a time; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 4096;
/// Streams at a time on one HTTP/2 connection (`http2.Server.MaxConcurrentStreams` of kube-apiserver is 100 for
/// unauthenticated users; a client of this process' user may watch more).
const MAX_STREAMS: u32 = 1000;
/// How long a client may take to shake hands.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(32);
/// How long accepting rests after an error such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`; connections end with it.
pub async fn listen(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    endpoint: Endpoint,
    stop: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = TaskTracker::new();
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let (acceptor, endpoint, stop) = (acceptor.clone(), endpoint.clone(), stop.clone());
                connections.spawn(async move {
                    let _permit = permit;
                    tokio::select! {
                        () = serve(stream, acceptor, endpoint) => {}
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

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, endpoint: Endpoint) {
    // Watch events are small and must not wait for more.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::debug!("a TLS handshake took too long"),
    };
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let endpoint = endpoint.with_certificate(shown.and_then(|certificate| certified(certificate)));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS);
    let service = TowerToHyperService::new(endpoint);
    if let Err(error) = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await {
        tracing::debug!(error, "a connection ended");
    }
}
