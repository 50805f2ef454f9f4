//! Connections: TLS, HTTP/1.1 and HTTP/2 at one port, bounded in number, time and streams, and drained at the end.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use connections::{Budget, Share, Slot, Slots};
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::answers::Connection;
use crate::browser::Peer;
use crate::operation::Operation;
use crate::pages;
use crate::service::Service;

/// The most TLS handshakes in progress: of all addresses, and of each. One takes up to 64 KiB.
const HANDSHAKES: usize = 1024;
const HANDSHAKES_OF_ADDRESS: usize = 256;
/// How long a client may take for the handshake and its first request's head, and for the head of each request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval of HTTP/2 pings, and how long the peer may take to answer one.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// The most concurrent requests on an HTTP/2 connection, and the most bytes of a request's head.
const MAX_STREAMS: u32 = 128;
const MAX_HEAD: u32 = 32 << 10;
/// How much of a request's body, and of those of a connection, is taken in before anything reads it.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
/// How much of a stream may be on its way to a client that does not read.
const SEND_BUFFER: usize = 64 << 10;
/// How long accepting pauses after an error such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long requests and streams may take to end once the service stops.
const DRAIN_WITHIN: Duration = Duration::from_secs(5);

/// Why the service cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The contract cannot be served over reflection.
    #[error("cannot serve the contract: {0}")]
    Contract(#[from] tonic_reflection::server::Error),
}

/// Serves until `stop`; then streams end, requests in progress are answered, and connections are closed.
///
/// # Errors
/// If the contract cannot be served.
pub async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    service: Arc<Service>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let router = pages::router(&service)?;
    let slots = Slots::new(service.settings.connections, service.settings.connections_of_peer);
    let handshakes = Budget::rolling(HANDSHAKES, HANDSHAKES_OF_ADDRESS);
    let (stranger, unread) = (service.settings.stranger, service.settings.unread);
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(slot) = slots.take(address.ip()).map(Arc::new) else {
            tracing::debug!(%address, "no room for a connection");
            continue;
        };
        // Events of a stream are small and must not wait for one another.
        let _ = stream.set_nodelay(true);
        let (tls, router, stop) = (tls.clone(), router.clone(), stop.clone());
        let answers = Connection::new(service.answers.clone(), slot.clone(), unread);
        let place = handshakes.share(slot.peer().to_string());
        connections.spawn(async move {
            let conversation = async {
                let deadline = Instant::now() + HEAD_TIMEOUT;
                let Some(stream) = shake_hands(&tls, stream, place, deadline).await else { return };
                let is_verified = stream.get_ref().1.peer_certificates().is_some();
                if is_verified {
                    slot.keep();
                }
                let peer = Peer { address, is_verified };
                converse(stream, (peer, &slot, &answers), router, stop, (deadline, stranger)).await;
            };
            tokio::select! {
                () = conversation => {}
                () = slot.displaced() => {
                    tracing::debug!(%address, "closed a stranger's connection to make room for another");
                }
                () = answers.overdue() => {}
            }
        });
    }
    connections.close();
    let _ = tokio::time::timeout(DRAIN_WITHIN, connections.wait()).await;
    Ok(())
}

/// Completes a TLS handshake, if it is not displaced by later ones before.
async fn shake_hands(
    tls: &TlsAcceptor,
    stream: TcpStream,
    place: Share,
    deadline: Instant,
) -> Option<TlsStream<TcpStream>> {
    if place.take(1).is_err() {
        tracing::debug!("no room for a TLS handshake");
        return None;
    }
    tokio::select! {
        accepted = tokio::time::timeout_at(deadline, tls.accept(stream)) => match accepted {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake timed out"),
        },
        () = place.displaced() => tracing::debug!("ended a TLS handshake to make room for another"),
    }
    None
}

/// Serves requests on a connection; the first must have come by `deadline`, and one of a known caller within `stranger`.
async fn converse<S>(
    stream: S,
    (peer, slot, answers): (Peer, &Arc<Slot>, &Arc<Connection>),
    router: Router,
    stop: CancellationToken,
    (deadline, stranger): (Instant, Duration),
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let asked = Arc::new(Notify::new());
    let (asking, used, answers) = (asked.clone(), slot.clone(), answers.clone());
    let service = tower::service_fn(move |mut request: Request<Incoming>| {
        asking.notify_one();
        request.extensions_mut().insert(peer);
        let operation = Operation::new(Some(peer.address), Some(used.clone()), request.headers());
        let (router, answers) = (router.clone(), answers.clone());
        operation.answer(async move {
            let response = router.oneshot(request.map(Body::new)).await?;
            Ok::<_, Infallible>(answers.hold(response).await)
        })
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD as usize * 2);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(MAX_HEAD);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    let (mut was_asked, mut ends) = (false, false);
    let mut known_by = Instant::now() + stranger;
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            () = asked.notified(), if !was_asked => {
                was_asked = true;
            }
            () = stop.cancelled(), if !ends => {
                connection.as_mut().graceful_shutdown();
                ends = true;
            }
            () = tokio::time::sleep_until(known_by), if !slot.is_kept() => {
                if slot.is_kept() {
                    continue;
                }
                if ends {
                    return tracing::debug!("closed a stranger's connection");
                }
                // What is in progress is still answered.
                connection.as_mut().graceful_shutdown();
                (known_by, ends) = (Instant::now() + HEAD_TIMEOUT, true);
            }
            () = tokio::time::sleep_until(deadline), if !was_asked => {
                return tracing::debug!("closed a connection without a request");
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection ended");
    }
}
