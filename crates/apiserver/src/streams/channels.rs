//! exec and attach over a WebSocket: the first byte of each message is the number of its channel
//! (`v5.channel.k8s.io`, `v4.channel.k8s.io`; `cri-streaming/pkg/streaming/remotecommand/websocket.go`).

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::tungstenite::Message;

use super::command::{self, Client, Input, Told};
use super::socket::{Dialect, Socket, goodbye, message};
use kubelet::Process;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Version 5: the next byte is the channel that the client closes.
const CLOSE: u8 = 255;

/// How long to wait for the client to close its end after ours. If the connection were cut while the client
/// is sending, it might lose our last messages.
const LINGER: Duration = Duration::from_secs(5);

/// Serves a session until it ends.
pub async fn serve(socket: Box<Socket>, dialect: Dialect, process: Result<Process, String>) {
    let (client, session) = command::pair();
    let writable = match &process {
        Ok(Process { stdout: Some(_), .. }) => STDOUT,
        Ok(Process { stderr: Some(_), .. }) => STDERR,
        _ => ERROR,
    };
    tokio::join!(command::carry(process, session), talk(socket, dialect, client, writable));
}

async fn talk(socket: Box<Socket>, dialect: Dialect, client: Client, writable: u8) {
    let Client { says, mut told } = client;
    let (mut sink, mut stream) = socket.split();
    let mut read = std::pin::pin!(async {
        while let Some(Ok(message)) = stream.next().await {
            let Message::Binary(bytes) = message else { continue };
            if let Some(input) = decode(bytes, dialect) {
                // After the process has ended nobody receives the input, but the client's data must still be
                // read.
                let _ = says.send(input).await;
            }
        }
    });
    let write = async {
        // An empty message signals the client that it is connected.
        let mut sent = sink.send(message(writable, &[])).await;
        while let (Ok(()), Some(next)) = (&sent, told.recv().await) {
            sent = sink.send(encode(&next)).await;
        }
        let _ = sink.send(goodbye()).await;
    };
    tokio::select! {
        () = write => drop(tokio::time::timeout(LINGER, read).await),
        () = &mut read => {}
    }
}

fn decode(bytes: Bytes, dialect: Dialect) -> Option<Input> {
    match *bytes.first()? {
        STDIN if bytes.len() > 1 => Some(Input::Stdin(bytes.slice(1..))),
        RESIZE => resize(&bytes[1..]),
        CLOSE if dialect == Dialect::Five && bytes[1..] == [STDIN] => Some(Input::StdinEnd),
        _ => None,
    }
}

/// Parses a terminal size: `{"Width": columns, "Height": rows}`.
pub fn resize(text: &[u8]) -> Option<Input> {
    let size: serde_json::Value = serde_json::from_slice(text).ok()?;
    let number = |name: &str| u16::try_from(size[name].as_u64()?).ok();
    Some(Input::Resize { columns: number("Width")?, rows: number("Height")? })
}

fn encode(told: &Told) -> Message {
    match told {
        Told::Stdout(bytes) => message(STDOUT, bytes),
        Told::Stderr(bytes) => message(STDERR, bytes),
        Told::Status(status) => message(ERROR, status.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_decoded_by_their_channel() {
        let read = |bytes: &'static [u8], dialect| decode(Bytes::from_static(bytes), dialect);
        for version in [Dialect::Four, Dialect::Five] {
            assert_eq!(read(b"\0abc", version), Some(Input::Stdin(Bytes::from_static(b"abc"))));
            assert_eq!(
                read(b"\x04{\"Width\":80,\"Height\":24}", version),
                Some(Input::Resize { columns: 80, rows: 24 })
            );
            for odd in [&b""[..], b"\0", b"\x04{", b"\x04{\"Width\":70000,\"Height\":1}", b"\x01x", b"\x09"] {
                assert_eq!(read(odd, version), None, "{odd:?}");
            }
        }
        assert_eq!(read(b"\xff\0", Dialect::Five), Some(Input::StdinEnd));
        assert_eq!(read(b"\xff\0", Dialect::Four), None);
        assert_eq!(read(b"\xff\x01", Dialect::Five), None);
    }
}
