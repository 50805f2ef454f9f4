//! A small HTTP server: bounded connections, bounded times, TLS where it is given. What is answered is a function's.

use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections at a time; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 256;
/// How long a client may take to shake hands, or to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may take: the API server gives a webhook 10 s, a scraper 10 s by default.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long accepting rests after an error such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long connections get to end once the server is to stop.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// What is answered.
pub type Answer = Response<Full<Bytes>>;

/// An answer of plain text.
pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Answer {
    with_type(status, "text/plain; charset=utf-8", text.into().into_bytes())
}

/// An answer of a given type.
pub(crate) fn with_type(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    answer
}

/// Listens where Go's `:PORT` does, at every address of both families, or at every one of IPv4 where there is no other.
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

/// Answers until `stop`.
pub async fn serve<F, A>(listener: TcpListener, tls: Option<TlsAcceptor>, answer: F, stop: CancellationToken)
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
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
                let (tls, answer, stop) = (tls.clone(), answer.clone(), stop.clone());
                connections.spawn(async move {
                    let _permit = permit;
                    converse(stream, tls, answer, stop).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no connection could be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.close();
    let _ = tokio::time::timeout(STOP_WITHIN, connections.wait()).await;
}

async fn converse<F, A>(stream: TcpStream, tls: Option<TlsAcceptor>, answer: F, stop: CancellationToken)
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let Some(tls) = tls else { return exchange(stream, answer, stop).await };
    match tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => exchange(stream, answer, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn exchange<S, F, A>(stream: S, answer: F, stop: CancellationToken)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let service = service_fn(move |request| {
        let answer = answer(request);
        async move {
            let late = |_| text(StatusCode::SERVICE_UNAVAILABLE, "the answer took too long\n");
            Ok::<_, Infallible>(tokio::time::timeout(ANSWER_TIMEOUT, answer).await.unwrap_or_else(late))
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder.http2().timer(TokioTimer::new());
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            // What is being answered is answered; nothing new is taken.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection ended");
    }
}
