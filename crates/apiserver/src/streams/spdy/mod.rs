//! Streams over SPDY/3.1, as used by `kubectl port-forward`: tunnelled through a WebSocket
//! (`SPDY/3.1+portforward.k8s.io`, KEP-4006), or on an upgraded connection, as older clients do for commands,
//! too.
//!
//! No maintained crate implements SPDY; [`frame`] has the subset that Kubernetes uses.

mod dictionary;
pub mod frame;

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use self::frame::{Decoder, Encoder, Frame, FrameError, Headers};
use super::channels;
use super::command::{self, Client, Input, Told};
use super::forward::READ_BYTES;
use kubelet::{ConnectRequest, Kubelet, Process};

/// The maximum number of streams that a client may have open; further ones are reset.
const MAX_STREAMS: usize = 256;
/// The maximum number of queued chunks per stream and direction.
const MAX_QUEUED: usize = 8;
/// How long a stream that accepts no data may block the others before it is reset.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a client may take to open all streams of a command (`DefaultStreamCreationTimeout`).
const CREATION_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait for the client to close its end after ours.
const LINGER: Duration = Duration::from_secs(5);

/// A connection that carries SPDY.
pub struct Wire {
    /// Received bytes.
    pub incoming: BoxStream<'static, Bytes>,
    /// Bytes to send; the connection closes when this is dropped.
    pub outgoing: mpsc::Sender<Bytes>,
}

/// A stream opened by the client.
struct Opened {
    stream: u32,
    headers: Headers,
    received: mpsc::Receiver<Bytes>,
}

impl Opened {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).unwrap_or_default()
    }
}

/// Reads frames and reports new streams, until the client disconnects or sends a malformed frame.
async fn listen(wire: &mut Wire, opened: mpsc::Sender<Opened>) -> Result<(), FrameError> {
    let (mut decoder, mut encoder) = (Decoder::default(), Encoder::new()?);
    let mut streams: HashMap<u32, mpsc::Sender<Bytes>> = HashMap::new();
    while let Some(bytes) = wire.incoming.next().await {
        decoder.feed(&bytes);
        while let Some(frame) = decoder.next()? {
            let answer = match frame {
                Frame::Open { stream, fin, headers } => {
                    streams.retain(|_, input| !input.is_closed());
                    if streams.len() >= MAX_STREAMS {
                        Some(frame::reset(stream))
                    } else {
                        let (input, received) = mpsc::channel(MAX_QUEUED);
                        if !fin {
                            streams.insert(stream, input);
                        }
                        let reply = encoder.reply(stream)?;
                        if wire.outgoing.send(reply).await.is_err()
                            || opened.send(Opened { stream, headers, received }).await.is_err()
                        {
                            return Ok(());
                        }
                        None
                    }
                }
                Frame::Data { stream, fin, bytes } => {
                    let input = if fin { streams.remove(&stream) } else { streams.get(&stream).cloned() };
                    match input {
                        Some(input) if !bytes.is_empty() && stalls(&input, bytes).await => {
                            streams.remove(&stream);
                            Some(frame::reset(stream))
                        }
                        _ => None,
                    }
                }
                Frame::Reset(stream) => {
                    streams.remove(&stream);
                    None
                }
                Frame::Ping(number) => Some(frame::ping(number)),
                Frame::GoAway => return Ok(()),
                Frame::Other => None,
            };
            if let Some(answer) = answer
                && wire.outgoing.send(answer).await.is_err()
            {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Forwards data to a stream; true if it isn't accepted in time. A closed stream discards it.
async fn stalls(input: &mpsc::Sender<Bytes>, bytes: Bytes) -> bool {
    matches!(input.send_timeout(bytes, PATIENCE).await, Err(mpsc::error::SendTimeoutError::Timeout(_)))
}

/// Forwards ports: each pair of data stream and error stream becomes a connection
/// (`cri-streaming/pkg/streaming/portforward/httpstream.go`).
pub async fn forward(mut wire: Wire, kubelet: &dyn Kubelet, uid: &str) {
    let (sender, mut opened) = mpsc::channel(MAX_QUEUED);
    let outgoing = wire.outgoing.clone();
    let mut heard = std::pin::pin!(listen(&mut wire, sender));
    let mut waiting: HashMap<String, Opened> = HashMap::new();
    // Whatever sends is polled with the connections: one that has a place in the queue takes it only while it is polled.
    let mut connections: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
    loop {
        tokio::select! {
            ended = &mut heard => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a client's SPDY ends");
                }
                return;
            }
            Some(()) = connections.next() => {}
            Some(stream) = opened.recv() => {
                let key = request_of(&stream);
                match waiting.remove(&key) {
                    Some(other) => {
                        let (data, error) = if stream.header("streamtype") == "data" {
                            (stream, other)
                        } else {
                            (other, stream)
                        };
                        connections.push(connect(kubelet, uid, data, error.stream, outgoing.clone()).boxed());
                    }
                    None if waiting.len() < MAX_STREAMS => drop(waiting.insert(key, stream)),
                    None => {
                        let (outgoing, reset) = (outgoing.clone(), frame::reset(stream.stream));
                        connections.push(async move { drop(outgoing.send(reset).await) }.boxed());
                    }
                }
            }
        }
    }
}

/// Returns a key for the pair of a stream. Clients without request IDs open the error stream first, then the
/// data stream.
fn request_of(stream: &Opened) -> String {
    match (stream.header("requestid"), stream.header("streamtype")) {
        ("", "data") => stream.stream.saturating_sub(2).to_string(),
        ("", _) => stream.stream.to_string(),
        (number, _) => number.to_owned(),
    }
}

async fn connect(
    kubelet: &dyn Kubelet,
    uid: &str,
    mut data: Opened,
    errors: u32,
    outgoing: mpsc::Sender<Bytes>,
) {
    let port = data.header("port").parse().unwrap_or_default();
    let connected = match port {
        0 => Err(format!("unable to parse {:?} as a port", data.header("port"))),
        port => kubelet
            .connect(ConnectRequest { uid: uid.to_owned(), port })
            .await
            .map_err(|error| format!("error forwarding port {port} to pod, uid {uid}: {error}")),
    };
    let mut stream = match connected {
        Ok(stream) => stream,
        Err(why) => {
            for frame in [frame::data(errors, why.as_bytes(), true), frame::reset(data.stream)] {
                let _ = outgoing.send(frame).await;
            }
            return;
        }
    };
    let (mut from, mut to) = stream.split();
    let inward = async {
        while let Some(bytes) = data.received.recv().await {
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    let outward = async {
        let mut chunk = vec![0; READ_BYTES];
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            if outgoing.send(frame::data(data.stream, &chunk[..count], false)).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = outward => {}
        () = async { inward.await; std::future::pending().await } => {}
    }
    for stream in [data.stream, errors] {
        let _ = outgoing.send(frame::data(stream, b"", true)).await;
    }
}

/// Serves the streams of a command (`cri-streaming/pkg/streaming/remotecommand/httpstream.go`).
pub async fn command(mut wire: Wire, process: Result<Process, String>, wanted: &[&'static str]) {
    let (sender, mut opened) = mpsc::channel(MAX_QUEUED);
    let outgoing = wire.outgoing.clone();
    let mut heard = std::pin::pin!(listen(&mut wire, sender));
    let carry = async {
        let mut streams: HashMap<&str, Opened> = HashMap::new();
        let complete = async {
            while streams.len() < wanted.len() {
                let Some(stream) = opened.recv().await else { return };
                if let Some(kind) = wanted.iter().find(|kind| **kind == stream.header("streamtype")) {
                    streams.insert(kind, stream);
                }
            }
        };
        if tokio::time::timeout(CREATION_TIMEOUT, complete).await.is_err() || streams.len() < wanted.len() {
            return tracing::debug!("a client did not open all its streams");
        }
        let (client, session) = command::pair();
        tokio::join!(command::carry(process, session), talk(streams, client, &outgoing));
    };
    tokio::select! {
        _ = &mut heard => return,
        () = carry => {}
    }
    let _ = outgoing.send(frame::go_away()).await;
    let _ = tokio::time::timeout(LINGER, heard).await;
}

async fn talk(mut streams: HashMap<&str, Opened>, client: Client, outgoing: &mpsc::Sender<Bytes>) {
    let Client { says, mut told } = client;
    let number = |kind: &str| streams.get(kind).map(|stream| stream.stream);
    let (out, err, end) = (number("stdout"), number("stderr"), number("error"));
    let (input, sizes) = (streams.remove("stdin"), streams.remove("resize"));
    let (to_stdin, to_size) = (says.clone(), says);
    let read = async {
        let input = async {
            let Some(mut input) = input else { return };
            while let Some(bytes) = input.received.recv().await {
                let _ = to_stdin.send(Input::Stdin(bytes)).await;
            }
            let _ = to_stdin.send(Input::StdinEnd).await;
        };
        let sizes = async {
            let Some(mut sizes) = sizes else { return };
            while let Some(bytes) = sizes.received.recv().await {
                if let Some(size) = channels::resize(&bytes) {
                    let _ = to_size.send(size).await;
                }
            }
        };
        tokio::join!(input, sizes);
        // The end of the input doesn't mean that the client has disconnected.
        std::future::pending::<()>().await;
    };
    let write = async {
        while let Some(next) = told.recv().await {
            let (stream, bytes) = match &next {
                Told::Stdout(bytes) => (out, bytes.clone()),
                Told::Stderr(bytes) => (err, bytes.clone()),
                Told::Status(status) => (end, status.to_string().into()),
            };
            if let Some(stream) = stream
                && outgoing.send(frame::data(stream, &bytes, false)).await.is_err()
            {
                return;
            }
        }
        for stream in [out, err, end].into_iter().flatten() {
            let _ = outgoing.send(frame::data(stream, b"", true)).await;
        }
    };
    tokio::select! {
        () = read => {}
        () = write => {}
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use futures::future::ready;
    use futures::stream;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use kubelet::{LogError, LogRequest, LogStream, StreamError};

    /// A node with a pod that listens at this address.
    struct Node(SocketAddr);

    impl Kubelet for Node {
        fn logs(&self, _request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
            ready(Err(LogError::NotFound("no logs".to_owned()))).boxed()
        }

        fn connect(&self, _request: ConnectRequest) -> BoxFuture<'_, Result<TcpStream, StreamError>> {
            TcpStream::connect(self.0).map(|connected| Ok(connected.unwrap())).boxed()
        }
    }

    #[tokio::test]
    async fn streams_beyond_the_limit_are_reset_while_a_connection_waits_to_send() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let node = Node(listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut pod, _) = listener.accept().await.unwrap();
            while pod.write_all(&[b'x'; READ_BYTES]).await.is_ok() {}
        });
        let mut client = Encoder::new().unwrap();
        let mut open = |stream: u32, kind: &str, request: &str| {
            client.open(stream, &[("streamtype", kind), ("port", "80"), ("requestid", request)]).unwrap()
        };
        let mut sent = vec![open(1, "error", "0"), open(3, "data", "0")];
        let last = 5 + 2 * (MAX_STREAMS as u32 + 32);
        // None of them gets the other stream of its pair, and the client gives each of them up at once.
        for stream in (5..=last).step_by(2) {
            sent.extend([open(stream, "error", &stream.to_string()), frame::reset(stream)]);
        }
        let incoming = stream::iter(sent).chain(stream::pending()).boxed();
        let (outgoing, mut frames) = mpsc::channel(1);
        let refused = async {
            while let Some(received) = frames.recv().await {
                if received == frame::reset(last) {
                    return;
                }
            }
        };
        tokio::select! {
            () = forward(Wire { incoming, outgoing }, &node, "uid") => panic!("it ended"),
            refused = tokio::time::timeout(PATIENCE, refused) => refused.unwrap(),
        }
    }
}
