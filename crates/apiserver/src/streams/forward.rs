//! Port forwarding over a WebSocket, with two channels per port: data and errors
//! (`cri-streaming/pkg/streaming/portforward/websocket.go`). Used by kube-rs and the Python client.

use std::collections::HashMap;

use bytes::Bytes;
use futures::future::join_all;
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::socket::{Socket, goodbye, message};
use crate::status::{self, StatusError};
use kubelet::{ConnectRequest, Kubelet};

/// The maximum number of queued messages per port and direction.
const MAX_QUEUED: usize = 8;
/// The maximum number of bytes per read from a connection.
pub const READ_BYTES: usize = 16 << 10;

/// Parses the requested ports; each parameter may contain several.
///
/// # Errors
/// 400 for an invalid port.
pub fn ports<'a>(parameters: impl Iterator<Item = &'a str>) -> Result<Vec<u16>, StatusError> {
    parameters
        .flat_map(|text| text.split(','))
        .map(|text| match text.parse::<u16>() {
            Ok(port @ 1..) => Ok(port),
            _ => Err(status::bad_request(format!("unable to parse {text:?} as a port"))),
        })
        .collect()
}

/// Serves a session until it ends.
pub async fn serve(socket: Box<Socket>, kubelet: &dyn Kubelet, uid: &str, ports: &[u16]) {
    let (mut sink, mut stream) = socket.split();
    let (tell, mut told) = mpsc::channel::<Message>(MAX_QUEUED);
    let mut inputs = HashMap::new();
    let mut connections = Vec::new();
    for (number, port) in (0u8..).step_by(2).zip(ports.iter().copied()) {
        let (input, received) = mpsc::channel(MAX_QUEUED);
        inputs.insert(number, input);
        connections.push(carry(kubelet, uid, port, number, received, tell.clone()));
    }
    drop(tell);
    let read = async {
        while let Some(Ok(message)) = stream.next().await {
            let Message::Binary(bytes) = message else { continue };
            if let Some(input) = bytes.first().and_then(|channel| inputs.get(channel)) {
                let _ = input.send(bytes.slice(1..)).await;
            }
        }
    };
    let write = async {
        while let Some(message) = told.recv().await {
            if sink.send(message).await.is_err() {
                return;
            }
        }
        let _ = sink.send(goodbye()).await;
    };
    tokio::select! {
        () = read => {}
        ((), _) = futures::future::join(write, join_all(connections)) => {}
    }
}

async fn carry(
    kubelet: &dyn Kubelet,
    uid: &str,
    port: u16,
    channel: u8,
    mut received: mpsc::Receiver<Bytes>,
    tell: mpsc::Sender<Message>,
) {
    // The first message of both channels is the port, little-endian.
    for channel in [channel, channel + 1] {
        let _ = tell.send(message(channel, &port.to_le_bytes())).await;
    }
    let mut stream = match kubelet.connect(ConnectRequest { uid: uid.to_owned(), port }).await {
        Ok(stream) => stream,
        Err(error) => {
            let text = format!("error forwarding port {port} to pod, uid {uid}: {error}");
            return drop(tell.send(message(channel + 1, text.as_bytes())).await);
        }
    };
    let (mut from, mut to) = stream.split();
    let inward = async {
        while let Some(bytes) = received.recv().await {
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    let outward = async {
        let mut chunk = vec![0; READ_BYTES];
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            if tell.send(message(channel, &chunk[..count])).await.is_err() {
                return;
            }
        }
    };
    // Ends when the pod closes its side.
    tokio::select! {
        () = outward => {}
        () = async { inward.await; std::future::pending().await } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::ports;

    #[test]
    fn ports_are_numbers_from_1_to_65535() {
        assert_eq!(ports(["80,443", "65535"].into_iter()).ok(), Some(vec![80, 443, 65535]));
        for odd in ["0", "65536", "", "x", "80,", "-1"] {
            assert_eq!(ports([odd].into_iter()).map_err(|refusal| refusal.code), Err(400), "{odd:?}");
        }
    }
}
