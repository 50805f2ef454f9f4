//! Blocks what a process must no longer write.
//!
//! A process that was frozen for a while, and goes on, does not know that time has passed until it checks. So it
//! checks as late as possible: at each write to a socket, one step before the kernel gets the bytes. Once the fence
//! is closed, a connection that carries the operator's requests is useless. Bytes that the kernel already has are
//! still sent; the third of a lease's duration between the fence and the next leader is for them.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::client::ConfigExt;
use kube::{Client, Config};
use tokio::net::TcpStream;
use tower::{BoxError, Service, ServiceBuilder};

/// How long connecting may take, as in kube's own client.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// A connection that is idle this long is closed: each costs some 60 KB, and a burst of writes opens many.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes read at once from a connection; a watch's buffer grows to it.
const READ_BYTES: usize = 64 * 1024;

/// Open until a moment that can be postponed.
#[derive(Debug)]
pub struct Fence {
    base: Instant,
    /// Milliseconds after `base`; 0 means closed.
    until: AtomicU64,
}

impl Default for Fence {
    fn default() -> Self {
        Self { base: Instant::now(), until: AtomicU64::new(0) }
    }
}

impl Fence {
    /// Opens it until `moment`.
    pub fn open_until(&self, moment: Instant) {
        let until = moment.saturating_duration_since(self.base).as_millis();
        self.until.store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Closes it.
    pub fn close(&self) {
        self.until.store(0, Ordering::SeqCst);
    }

    /// Returns whether it is open now.
    pub fn is_open(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Resolves when it is closed.
    pub async fn shut(&self) {
        loop {
            match self.remaining() {
                Duration::ZERO => return,
                remaining => tokio::time::sleep(remaining).await,
            }
        }
    }

    fn remaining(&self) -> Duration {
        let until = self.base + Duration::from_millis(self.until.load(Ordering::SeqCst));
        until.saturating_duration_since(Instant::now())
    }
}

/// Returns a client that sends no bytes once the fence is closed. Otherwise it is like kube's own, without proxies
/// and without retries, because passes retry.
///
/// # Errors
/// If the configuration's certificates or credentials cannot be used.
pub fn fenced_client(config: &Config, fence: Arc<Fence>) -> Result<Client, kube::Error> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let connector = config.rustls_https_connector_with_connector(Fenced { inner: connector, fence })?;
    let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .http1_max_buf_size(READ_BYTES)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(config.extra_headers_layer()?)
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// A connector, or a connection, behind the fence.
#[derive(Clone)]
struct Fenced<T> {
    inner: T,
    fence: Arc<Fence>,
}

impl Service<Uri> for Fenced<HttpConnector> {
    type Response = Fenced<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, fence) = (self.inner.call(uri), self.fence.clone());
        Box::pin(async move { Ok(Fenced { inner: connecting.await?, fence }) })
    }
}

impl Connection for Fenced<TokioIo<TcpStream>> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

impl<T: Read + Unpin> Read for Fenced<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: Write + Unpin> Write for Fenced<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.fence.is_open() {
            return Poll::Ready(Err(lost()));
        }
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.fence.is_open() {
            return Poll::Ready(Err(lost()));
        }
        Pin::new(&mut self.inner).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

fn lost() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the lease is lost: writes are blocked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fence_is_open_until_its_moment_and_shut_for_good_after_it() {
        let fence = Fence::default();
        assert!(!fence.is_open());
        fence.open_until(Instant::now() + Duration::from_secs(60));
        assert!(fence.is_open());
        fence.close();
        fence.shut().await;
        assert!(!fence.is_open());
    }
}
