//! WebSockets with channels: the first byte of each message is the number of its channel.

use bytes::{BufMut as _, BytesMut};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// A WebSocket.
pub type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// The protocol of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Channels over a WebSocket, `v4.channel.k8s.io`: exit codes on the error channel.
    Four,
    /// Channels over a WebSocket, `v5.channel.k8s.io`: with half-close.
    Five,
    /// SPDY tunnelled through a WebSocket.
    Tunnel,
    /// SPDY directly on the connection.
    Spdy,
}

/// Returns the message for a normal close; client-go treats a close without a code as an error.
pub fn goodbye() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() }))
}

/// Returns a message on a channel.
pub fn message(channel: u8, bytes: &[u8]) -> Message {
    let mut whole = BytesMut::with_capacity(bytes.len() + 1);
    whole.put_u8(channel);
    whole.put_slice(bytes);
    Message::Binary(whole.freeze())
}
