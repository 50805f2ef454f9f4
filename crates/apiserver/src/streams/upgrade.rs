//! Upgrades a request to a stream: selects the protocol, responds with 101, and takes over the connection.

use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _, ready};
use futures::{SinkExt as _, StreamExt as _};
use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_util::io::ReaderStream;

use super::socket::{Dialect, Socket, goodbye};
use super::spdy::Wire;
use crate::reply::Body;
use crate::status::{self, StatusError};

const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
const PROTOCOL: HeaderName = HeaderName::from_static("sec-websocket-protocol");
const VERSION: HeaderName = HeaderName::from_static("sec-websocket-version");
const SPDY_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// The maximum size of a message from a client; client-go sends 32 KiB at a time.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// The maximum number of buffered bytes before writes wait.
const MAX_WRITE_BUFFER_BYTES: usize = 1 << 20;
/// The maximum number of queued SPDY frames.
const MAX_QUEUED_FRAMES: usize = 16;
/// The timeout for taking over the connection after the response.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);
/// The size of a decoded `Sec-WebSocket-Key` (RFC 6455, 4.1).
const KEY_BYTES: usize = 16;

/// The use of a stream, which determines its protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// exec and attach.
    Command,
    /// Port forwarding.
    Forward,
}

/// The supported protocols, best first, and their names.
const WEBSOCKET_COMMAND: &[(&str, Dialect)] =
    &[("v5.channel.k8s.io", Dialect::Five), ("v4.channel.k8s.io", Dialect::Four)];
const WEBSOCKET_FORWARD: &[(&str, Dialect)] =
    &[("SPDY/3.1+portforward.k8s.io", Dialect::Tunnel), ("v4.channel.k8s.io", Dialect::Four)];
const SPDY_COMMAND: &[(&str, Dialect)] = &[("v4.channel.k8s.io", Dialect::Spdy)];
const SPDY_FORWARD: &[(&str, Dialect)] = &[("portforward.k8s.io", Dialect::Spdy)];

/// A request to upgrade the connection.
pub struct Upgrade {
    connection: OnUpgrade,
    /// The value of `Sec-WebSocket-Accept`; `None` for SPDY.
    accept: Option<String>,
    /// The protocols that the client offers.
    offered: Vec<String>,
}

/// A stream that opens once the client has the response.
pub struct Pending {
    connection: OnUpgrade,
    dialect: Dialect,
}

/// An upgraded connection.
pub enum Transport {
    /// Channels over a WebSocket.
    Channels(Box<Socket>, Dialect),
    /// SPDY, and the future that writes its frames; drive both together.
    Spdy(Wire, BoxFuture<'static, ()>),
}

/// An error while taking over the connection.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The connection broke.
    #[error("the connection could not be upgraded: {0}")]
    Hyper(#[from] hyper::Error),
    /// The client didn't upgrade in time.
    #[error("the connection was not upgraded within {} s", UPGRADE_TIMEOUT.as_secs())]
    Late(#[from] tokio::time::error::Elapsed),
}

fn names<'a>(headers: &'a HeaderMap, name: &'a HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

/// Determines the requested upgrade.
///
/// # Errors
/// 400 without an upgrade, or if the connection cannot be upgraded.
pub fn wanted(parts: &Parts) -> Result<Upgrade, StatusError> {
    let headers = &parts.headers;
    let says = |name, word: &str| names(headers, name).any(|told| told.eq_ignore_ascii_case(word));
    let is_upgrade = says(&CONNECTION, "upgrade");
    let (accept, protocols) = if is_upgrade && says(&UPGRADE, "websocket") {
        (Some(accept_key(parts)?), &PROTOCOL)
    } else if is_upgrade && says(&UPGRADE, "SPDY/3.1") {
        (None, &SPDY_PROTOCOL)
    } else {
        return Err(status::bad_request("Upgrade request required: to a WebSocket or to SPDY/3.1"));
    };
    let connection = parts.extensions.get::<OnUpgrade>().cloned().ok_or_else(|| {
        status::bad_request("this connection cannot be upgraded: use HTTP/1.1 over the cluster's address")
    })?;
    Ok(Upgrade { connection, accept, offered: names(headers, protocols).map(str::to_owned).collect() })
}

fn accept_key(parts: &Parts) -> Result<String, StatusError> {
    let key = parts.headers.get(&KEY).filter(|key| {
        base64::engine::general_purpose::STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == KEY_BYTES)
    });
    match key {
        Some(key) if parts.method == Method::GET && names(&parts.headers, &VERSION).any(|v| v == "13") => {
            Ok(derive_accept_key(key.as_bytes()))
        }
        _ => Err(status::bad_request("the WebSocket handshake is not that of RFC 6455, version 13")),
    }
}

impl Upgrade {
    /// Returns the response 101 with the best protocol that both sides support.
    ///
    /// # Errors
    /// 400 if there is none.
    pub fn accept(self, purpose: Purpose) -> Result<(Response<Body>, Pending), StatusError> {
        let known = match (purpose, &self.accept) {
            (Purpose::Command, Some(_)) => WEBSOCKET_COMMAND,
            (Purpose::Forward, Some(_)) => WEBSOCKET_FORWARD,
            (Purpose::Command, None) => SPDY_COMMAND,
            (Purpose::Forward, None) => SPDY_FORWARD,
        };
        let found = known.iter().find(|(name, _)| self.offered.iter().any(|offered| offered == name));
        let Some((name, dialect)) = found else {
            let known = known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            return Err(status::bad_request(format!(
                "none of the offered protocols {:?} is known here: {known}",
                self.offered
            )));
        };
        let mut answer = Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = answer.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        if let Some(accept) = &self.accept {
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(PROTOCOL, HeaderValue::from_static(name));
            if let Ok(accept) = HeaderValue::from_str(accept) {
                headers.insert(ACCEPT, accept);
            }
        } else {
            headers.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
            headers.insert(SPDY_PROTOCOL, HeaderValue::from_static(name));
        }
        Ok((answer, Pending { connection: self.connection, dialect: *dialect }))
    }
}

impl Pending {
    /// Waits until the client has the response.
    ///
    /// # Errors
    /// If the connection fails, or the client doesn't upgrade in time.
    pub async fn open(self) -> Result<Transport, OpenError> {
        let upgraded = TokioIo::new(tokio::time::timeout(UPGRADE_TIMEOUT, self.connection).await??);
        if self.dialect == Dialect::Spdy {
            return Ok(bare(upgraded));
        }
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES))
            .write_buffer_size(0)
            .max_write_buffer_size(MAX_WRITE_BUFFER_BYTES);
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await;
        Ok(match self.dialect {
            Dialect::Tunnel => tunnel(socket),
            dialect => Transport::Channels(Box::new(socket), dialect),
        })
    }
}

fn bare(upgraded: TokioIo<Upgraded>) -> Transport {
    let (from, mut to) = tokio::io::split(upgraded);
    let (outgoing, mut frames) = mpsc::channel::<Bytes>(MAX_QUEUED_FRAMES);
    let incoming = ReaderStream::new(from).filter_map(|piece| ready(piece.ok())).boxed();
    let pump = async move {
        while let Some(frame) = frames.recv().await {
            if to.write_all(&frame).await.is_err() || to.flush().await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    Transport::Spdy(Wire { incoming, outgoing }, pump.boxed())
}

fn tunnel(socket: Socket) -> Transport {
    let (mut sink, stream) = socket.split();
    let (outgoing, mut frames) = mpsc::channel::<Bytes>(MAX_QUEUED_FRAMES);
    let pieces = stream.take_while(|message| ready(message.is_ok()));
    let incoming = pieces.filter_map(|message| {
        ready(match message {
            Ok(Message::Binary(bytes)) => Some(bytes),
            _ => None,
        })
    });
    let pump = async move {
        while let Some(frame) = frames.recv().await {
            if sink.send(Message::Binary(frame)).await.is_err() {
                return;
            }
        }
        let _ = sink.send(goodbye()).await;
    };
    Transport::Spdy(Wire { incoming: incoming.boxed(), outgoing }, pump.boxed())
}
