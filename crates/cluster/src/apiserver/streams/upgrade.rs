//! From a request that wants to become a stream to that stream: which protocol is asked for, the answer 101, and the
//! connection that is free afterwards.

use std::time::Duration;

use base64::Engine as _;
use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::apiserver::reply::Body;
use crate::apiserver::status::{self, Refusal};

const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
const PROTOCOL: HeaderName = HeaderName::from_static("sec-websocket-protocol");
const VERSION: HeaderName = HeaderName::from_static("sec-websocket-version");

/// The longest message that a client may send; client-go sends 32 KiB at a time.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// How much may wait to be written before the writer waits.
const MAX_WRITE_BUFFER_BYTES: usize = 1 << 20;
/// How long the connection may take to be free after the answer.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);
/// The bytes of a `Sec-WebSocket-Key` (RFC 6455, 4.1).
const KEY_BYTES: usize = 16;

/// What a stream is for, which decides its protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// exec and attach.
    Command,
    /// Ports.
    Forward,
}

/// The dialect of channels over a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// `v4.channel.k8s.io`: exit codes on the error channel.
    Four,
    /// `v5.channel.k8s.io`: also half-closing.
    Five,
}

/// A request to become a stream.
pub struct Upgrade {
    connection: OnUpgrade,
    accept: String,
    /// The protocols that the client offers, in its order of preference.
    offered: Vec<String>,
}

/// What will be a stream once the client has the answer.
pub struct Pending {
    connection: OnUpgrade,
    version: Version,
}

/// A stream of messages.
pub type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A connection that has become a stream.
pub enum Transport {
    /// Channels over a WebSocket.
    WebSocket(Box<Socket>, Version),
}

/// Why there is no stream after all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The connection broke.
    #[error("the connection could not be upgraded: {0}")]
    Hyper(#[from] hyper::Error),
    /// The client did not go on.
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

/// Reads what kind of stream is asked for.
///
/// # Errors
/// 400 where none is, or by a connection that cannot become one.
pub fn wanted(parts: &Parts) -> Result<Upgrade, Refusal> {
    let headers = &parts.headers;
    let says = |name, word: &str| names(headers, name).any(|told| told.eq_ignore_ascii_case(word));
    if !says(&CONNECTION, "upgrade") || !says(&UPGRADE, "websocket") {
        return Err(status::bad_request(
            "Upgrade request required: this cluster streams over WebSockets (v5.channel.k8s.io, v4.channel.k8s.io)",
        ));
    }
    let key = headers.get(&KEY).filter(|key| {
        base64::engine::general_purpose::STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == KEY_BYTES)
    });
    let (Some(key), Method::GET, true) = (key, parts.method.clone(), says(&VERSION, "13")) else {
        return Err(status::bad_request("the WebSocket handshake is not that of RFC 6455, version 13"));
    };
    let connection = parts.extensions.get::<OnUpgrade>().cloned().ok_or_else(|| {
        status::bad_request("this connection cannot be upgraded: use HTTP/1.1 over the cluster's address")
    })?;
    let offered = names(headers, &PROTOCOL).map(str::to_owned).collect();
    Ok(Upgrade { connection, accept: derive_accept_key(key.as_bytes()), offered })
}

impl Upgrade {
    /// Answers 101 with the best protocol that both know.
    ///
    /// # Errors
    /// 400 where there is none.
    pub fn accept(self, purpose: Purpose) -> Result<(Response<Body>, Pending), Refusal> {
        let known: &[(&str, Version)] = match purpose {
            Purpose::Command => &[("v5.channel.k8s.io", Version::Five), ("v4.channel.k8s.io", Version::Four)],
            Purpose::Forward => &[("v4.channel.k8s.io", Version::Four)],
        };
        let found = known.iter().find(|(name, _)| self.offered.iter().any(|offered| offered == name));
        let Some((name, version)) = found else {
            let known = known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            return Err(status::bad_request(format!(
                "none of the offered subprotocols {:?} is known here: {known}",
                self.offered
            )));
        };
        let mut answer = Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = answer.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(PROTOCOL, HeaderValue::from_static(name));
        if let Ok(accept) = HeaderValue::from_str(&self.accept) {
            headers.insert(ACCEPT, accept);
        }
        Ok((answer, Pending { connection: self.connection, version: *version }))
    }
}

impl Pending {
    /// Waits until the client has the answer.
    ///
    /// # Errors
    /// Where the connection broke, or the client did not go on.
    pub async fn open(self) -> Result<Transport, OpenError> {
        let upgraded = tokio::time::timeout(UPGRADE_TIMEOUT, self.connection).await??;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES))
            .write_buffer_size(0)
            .max_write_buffer_size(MAX_WRITE_BUFFER_BYTES);
        let socket =
            WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
        Ok(Transport::WebSocket(Box::new(socket), self.version))
    }
}
