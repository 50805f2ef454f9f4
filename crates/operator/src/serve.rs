//! A small HTTP server: bounded connections, bounded times, optional TLS. A function computes the answers.
//!
//! A connection has [`HEAD_TIMEOUT`] from its acceptance to its first complete request head, through TLS and
//! whatever protocol it uses, and [`IDLE_TIMEOUT`] between requests. When there is no room for another, the connection that
//! was idle for longest gives way, unless its client has shown a certificate that was verified: any client that can reach the port
//! can send requests.

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use connections::{Slot, Slots};
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The most connections at a time, and of one address.
const MAX_CONNECTIONS: usize = 256;
const MAX_OF_PEER: usize = 64;
/// How long a client may take for the handshake and its first request's head, and then for the head of each
/// request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be without a request. Longer than [`ANSWER_TIMEOUT`], so that no answer is cut off.
const IDLE_TIMEOUT: Duration = Duration::from_secs(180);
/// The interval of HTTP/2 pings, and how long the peer may take to answer one.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of a request's body, and of those of a connection, is taken in before anything reads it.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
/// The most concurrent requests on an HTTP/2 connection, and the most bytes of a request's head.
const MAX_STREAMS: u32 = 8;
const MAX_HEAD: u32 = 16 << 10;
/// How long an answer may take: the API server gives a webhook 10 s, a scraper 10 s by default.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long accepting pauses after an error such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long connections may take to end once the server stops.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// The address of a request's client, in its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// The response type.
pub type Answer = Response<Full<Bytes>>;

/// Returns a plain text response.
pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Answer {
    with_type(status, "text/plain; charset=utf-8", text.into().into_bytes())
}

/// Returns a response of a given type.
pub(crate) fn with_type(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    answer
}

/// Returns the token that a request shows.
pub(crate) fn bearer<B>(request: &Request<B>) -> Option<&str> {
    let (scheme, token) = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Listens as Go's `:PORT` does: at every address of both families, or of IPv4 alone if there is no other.
///
/// # Errors
/// If the port is taken or not allowed.
pub async fn bind_everywhere(port: u16) -> std::io::Result<TcpListener> {
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Err(error),
        Err(_) => TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await,
    }
}

/// Serves until `stop`.
pub async fn serve<F, A>(listener: TcpListener, tls: Option<TlsAcceptor>, answer: F, stop: CancellationToken)
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let slots = Slots::new(MAX_CONNECTIONS, MAX_OF_PEER);
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(slot) = slots.take(peer.ip()) else {
                    tracing::debug!(%peer, "too many connections: refusing another one");
                    continue;
                };
                let (tls, answer, stop) = (tls.clone(), answer.clone(), stop.clone());
                connections.spawn(async move {
                    let slot = Arc::new(slot);
                    tokio::select! {
                        () = converse(stream, tls, answer, stop, slot.clone()) => {}
                        () = slot.displaced() => {
                            tracing::debug!(%peer, "closed an idle connection to make room for another");
                        }
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.close();
    let _ = tokio::time::timeout(STOP_WITHIN, connections.wait()).await;
}

async fn converse<F, A>(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    answer: F,
    stop: CancellationToken,
    slot: Arc<Slot>,
) where
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let deadline = Instant::now() + HEAD_TIMEOUT;
    let Some(tls) = tls else { return exchange(stream, answer, stop, slot, deadline).await };
    match tokio::time::timeout_at(deadline, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            // The handshake fails if a certificate is shown that no accepted authority has signed.
            if stream.get_ref().1.peer_certificates().is_some() {
                slot.keep();
            }
            exchange(stream, answer, stop, slot, deadline).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake timed out"),
    }
}

/// Serves requests on a connection; the first must have come by `deadline`.
async fn exchange<S, F, A>(stream: S, answer: F, stop: CancellationToken, slot: Arc<Slot>, deadline: Instant)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let asked = Arc::new(Notify::new());
    let asking = asked.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        slot.touch();
        request.extensions_mut().insert(Peer(slot.peer()));
        asking.notify_one();
        let answer = answer(request);
        async move {
            let late = |_| text(StatusCode::SERVICE_UNAVAILABLE, "the request timed out\n");
            Ok::<_, Infallible>(tokio::time::timeout(ANSWER_TIMEOUT, answer).await.unwrap_or_else(late))
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEAD);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let (mut deadline, mut was_asked, mut ends) = (deadline, false, false);
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            () = asked.notified() => (deadline, was_asked) = (Instant::now() + IDLE_TIMEOUT, true),
            // Requests in progress are still answered; new ones are not accepted.
            () = stop.cancelled(), if !ends => {
                connection.as_mut().graceful_shutdown();
                (deadline, ends) = (Instant::now() + ANSWER_TIMEOUT, true);
            }
            () = tokio::time::sleep_until(deadline) => {
                if !was_asked || ends {
                    return tracing::debug!("closed a connection that was silent for too long");
                }
                connection.as_mut().graceful_shutdown();
                (deadline, ends) = (Instant::now() + HEAD_TIMEOUT, true);
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection ended");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A server without TLS that answers every request.
    async fn server() -> SocketAddr {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = |_| std::future::ready(text(StatusCode::OK, "here\n"));
        tokio::spawn(serve(listener, None, answer, CancellationToken::new()));
        address
    }

    #[tokio::test]
    async fn a_connection_without_a_request_is_closed() {
        let address = server().await;
        let closed = async |begun: &str| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(begun.as_bytes()).await.unwrap();
            let limit = HEAD_TIMEOUT * 3;
            let read = tokio::time::timeout(limit, stream.read_to_end(&mut Vec::new())).await;
            assert!(read.is_ok(), "{begun:?} keeps a connection for {limit:?}");
        };
        tokio::join!(
            closed(""),
            closed("PRI * HT"),
            closed("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
            closed("GET / HTTP/1.1\r\nHost")
        );
    }

    #[tokio::test]
    async fn many_silent_connections_do_not_keep_others_waiting() {
        let address = server().await;
        let mut silent = Vec::new();
        for _ in 0..600 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        let read = tokio::time::timeout(HEAD_TIMEOUT / 2, stream.read_to_string(&mut answer)).await;
        assert!(read.is_ok() && answer.ends_with("here\n"), "{answer:?}");
    }

    #[tokio::test]
    async fn connections_of_strangers_that_have_sent_a_request_do_not_keep_others_waiting() {
        let address = server().await;
        let mut held = Vec::new();
        for last in [2, 3, 4, 5] {
            for _ in 0..MAX_OF_PEER + 8 {
                let socket = tokio::net::TcpSocket::new_v4().unwrap();
                socket.bind(SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0))).unwrap();
                let mut stream = socket.connect(address).await.unwrap();
                stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
                let _ = stream.read(&mut [0; 64]).await.unwrap();
                held.push(stream);
            }
        }
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        let read = tokio::time::timeout(HEAD_TIMEOUT / 2, stream.read_to_string(&mut answer)).await;
        assert!(matches!(read, Ok(Ok(_))) && answer.ends_with("here\n"), "{answer:?}");
    }
}
