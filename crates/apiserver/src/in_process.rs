//! An upgrade for a client in this process, whose requests arrive without a connection. A pipe becomes the connection of
//! that one request, so that client and server upgrade it as they upgrade any other.

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::UPGRADE;
use http::{Request, Response, Version};
use http_body_util::{BodyExt as _, Empty};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;

use super::{Body, Endpoint, reply, status};

/// How many bytes wait in the pipe in each direction.
const PIPE_BYTES: usize = 64 << 10;

/// Whether a request wants an upgrade and has no connection for it.
pub fn lacks_connection<B>(request: &Request<B>) -> bool {
    request.headers().contains_key(UPGRADE) && request.extensions().get::<OnUpgrade>().is_none()
}

/// Sends a request through a pipe. Its body is not sent: a request for an upgrade has none. Both ends of the pipe are
/// closed when either side is done with the stream.
pub fn connected(endpoint: Endpoint, request: Request<Empty<Bytes>>) -> BoxFuture<'static, Response<Body>> {
    async move {
        let sent = send(endpoint, request).await;
        sent.unwrap_or_else(|error| reply::refusal(&status::bad_request(format!("no upgrade: {error}"))))
    }
    .boxed()
}

async fn send(endpoint: Endpoint, mut request: Request<Empty<Bytes>>) -> hyper::Result<Response<Body>> {
    let (here, there) = tokio::io::duplex(PIPE_BYTES);
    let service = TowerToHyperService::new(endpoint);
    let server = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(there), service);
    tokio::spawn(server.with_upgrades());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(here)).await?;
    tokio::spawn(connection.with_upgrades());
    // Only this version upgrades; with another one, the request would come back to a pipe.
    *request.version_mut() = Version::HTTP_11;
    let response = sender.send_request(request).await?;
    Ok(response.map(|body| body.map_err(std::io::Error::other).boxed_unsync()))
}
