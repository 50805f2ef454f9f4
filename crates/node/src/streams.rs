//! Interactive processes: exec, attach, and connections into a pod, as a kubelet offers them.
//!
//! Takes requests of the API server ([`Kubelet`](kubelet::Kubelet)) and returns a [`Process`] with a
//! queue per stream. Independent of WebSockets and SPDY. Every process ends with its container at the latest. When a
//! client goes away, its terminal hangs up or its pipes close, as under containerd.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use jiff::Timestamp;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio_util::io::ReaderStream;

use super::logs::{Output, RunLog, output_pipe};
use super::metrics::Samples;
use super::pod::hooks::Target;
use super::sandbox::client::{Handed, receive_descriptor};
use super::sandbox::protocol::{ConnectSpec, ExecSpec, Streams};
use super::sandbox::resize_terminal;
use super::{LocalNode, lock};
use kubelet::{ConnectRequest, ExecRequest, Process, Resize, StreamError, StreamRequest};

/// Simultaneous processes beside containers for clients; further ones are refused.
const MAX_PROCESSES: usize = 256;
/// Pieces of input queued for a process.
const MAX_QUEUED_INPUT: usize = 16;
/// Timeout for opening a connection into a pod.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A running container, as its clients need it.
pub struct Live {
    /// Its node.
    pub node: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The data for running a process beside it.
    pub target: Target,
    /// Its output.
    pub log: Arc<RunLog>,
    /// Its standard input, if it has one. If the container accepts only one client, the first takes it.
    pub input: Mutex<Option<mpsc::Sender<Bytes>>>,
    /// Whether only the first client may write (`stdinOnce`).
    pub input_once: bool,
    /// The other end of its terminal, if any.
    pub terminal: Option<Arc<OwnedFd>>,
}

/// The running containers, by the pod's uid and the container's name.
pub type LiveContainers = Mutex<HashMap<(String, String), Arc<Live>>>;

/// Keeps a container registered until dropped.
pub struct Known<'a> {
    live: &'a LiveContainers,
    key: (String, String),
}

impl<'a> Known<'a> {
    /// Registers a container.
    pub fn new(node: &'a LocalNode, key: (String, String), container: Live) -> Known<'a> {
        let samples = Samples::new(Timestamp::now(), 0);
        lock(&node.sampled).insert(container.target.process, samples);
        lock(&node.live).insert(key.clone(), Arc::new(container));
        Known { live: &node.live, key }
    }
}

impl Drop for Known<'_> {
    fn drop(&mut self) {
        lock(self.live).remove(&self.key);
    }
}

/// Both ends of a process's streams: the sandbox's, sent with a request, and ours.
pub struct Ends {
    /// The kind of streams.
    pub streams: Streams,
    /// The sandbox's ends.
    pub descriptors: Vec<OwnedFd>,
    input: Option<pipe::Sender>,
    outputs: Vec<pipe::Receiver>,
    terminal: Option<OwnedFd>,
}

/// Our ends, once the process has started.
pub struct Connected {
    /// Its standard input.
    pub input: Option<pipe::Sender>,
    /// Its standard output, or everything that its terminal shows.
    pub output: pipe::Receiver,
    /// Its standard error, without a terminal.
    pub error: Option<pipe::Receiver>,
    /// The other end of its terminal, if any.
    pub terminal: Option<Arc<OwnedFd>>,
}

impl Ends {
    /// Creates both ends.
    ///
    /// # Errors
    /// When this process is out of file descriptors.
    pub fn make(input: bool, terminal: bool) -> io::Result<Ends> {
        if terminal {
            let Handed { ours, theirs } = Handed::new()?;
            let (streams, descriptors) = (Streams::Terminal, vec![theirs]);
            return Ok(Ends { streams, descriptors, input: None, outputs: Vec::new(), terminal: Some(ours) });
        }
        let ((out, read_out), (err, read_err)) = (output_pipe()?, output_pipe()?);
        let outputs = vec![read_err, read_out];
        if !input {
            let (streams, descriptors) = (Streams::Outputs, vec![out, err]);
            return Ok(Ends { streams, descriptors, input: None, outputs, terminal: None });
        }
        let (sender, receiver) = pipe::pipe()?;
        let descriptors = vec![receiver.into_blocking_fd()?, out, err];
        Ok(Ends { streams: Streams::All, descriptors, input: Some(sender), outputs, terminal: None })
    }

    /// Returns our ends, after the sandbox has reported that the process runs.
    ///
    /// # Errors
    /// When there is no terminal after all.
    pub fn connect(mut self) -> io::Result<Connected> {
        let Some(socket) = self.terminal else {
            let output = self.outputs.pop().ok_or_else(|| io::Error::other("no standard output"))?;
            return Ok(Connected { input: self.input, output, error: self.outputs.pop(), terminal: None });
        };
        let other = receive_descriptor(&socket).map_err(io::Error::other)?;
        let flags = nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK);
        nix::fcntl::fcntl(&other, flags)?;
        // A terminal can be polled like a pipe; "unchecked" only skips the check that it is one.
        let output = pipe::Receiver::from_owned_fd_unchecked(other.try_clone()?)?;
        let input = pipe::Sender::from_owned_fd_unchecked(other.try_clone()?)?;
        Ok(Connected { input: Some(input), output, error: None, terminal: Some(Arc::new(other)) })
    }
}

/// Returns a queue whose pieces are written to a process, until the process stops reading or all senders are dropped.
pub fn feed(mut input: pipe::Sender) -> mpsc::Sender<Bytes> {
    let (sender, mut receiver) = mpsc::channel::<Bytes>(MAX_QUEUED_INPUT);
    tokio::spawn(async move {
        while let Some(bytes) = receiver.recv().await {
            if input.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    sender
}

/// Returns a process's output. Unwanted output is read and discarded, so that the process can continue.
fn chunks(mut pipe: pipe::Receiver, wanted: bool) -> Option<BoxStream<'static, Bytes>> {
    if !wanted {
        tokio::spawn(async move { tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await });
        return None;
    }
    // A terminal ends with an error.
    let readable = ReaderStream::new(pipe).take_while(|chunk| futures::future::ready(chunk.is_ok()));
    Some(readable.filter_map(|chunk| futures::future::ready(chunk.ok())).boxed())
}

fn received(queue: mpsc::Receiver<Bytes>) -> BoxStream<'static, Bytes> {
    stream::unfold(queue, |mut queue| async move { Some((queue.recv().await?, queue)) }).boxed()
}

fn resizer(terminal: Option<Arc<OwnedFd>>) -> Option<Resize> {
    let terminal = terminal?;
    Some(Box::new(move |columns, rows| {
        if let Err(error) = resize_terminal(&terminal, columns, rows) {
            tracing::debug!(%error, "cannot resize a terminal");
        }
    }))
}

/// Counts a process as long as it runs.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Option<Counted<'a>> {
        let room = |now: usize| (now < MAX_PROCESSES).then_some(now + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok().map(|_| Counted(count))
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LocalNode {
    fn live(&self, request: &StreamRequest) -> Result<Arc<Live>, StreamError> {
        let key = (request.uid.clone(), request.container.clone());
        lock(&self.live).get(&key).cloned().ok_or_else(|| {
            // kubelet's words (`pkg/kubelet/kubelet_pods.go`).
            StreamError::NotFound(format!("container not found (\"{}\")", request.container))
        })
    }

    /// Runs a command beside a container.
    ///
    /// # Errors
    /// When the container is not running, or the command cannot be run.
    pub(super) async fn exec_for(self: Arc<Self>, request: ExecRequest) -> Result<Process, StreamError> {
        let ExecRequest { stream, command } = request;
        let live = self.live(&stream)?;
        let busy = || StreamError::Busy(format!("{MAX_PROCESSES} processes are already running for clients"));
        let (started, starting) = tokio::sync::oneshot::channel();
        let (exit, ended) = tokio::sync::oneshot::channel();
        let node = Arc::clone(&self);
        // A separate task, so that it outlives the client.
        tokio::spawn(async move {
            let Some(_counted) = Counted::new(&node.processes) else {
                let _ = started.send(Err(busy()));
                return;
            };
            match node.begin_exec(&live.target, &stream, command).await {
                Ok((running, process)) => {
                    let _ = started.send(Ok(process));
                    let _ = exit.send(running.ended().await.code);
                }
                Err(error) => drop(started.send(Err(error))),
            }
        });
        let ending = || StreamError::Start("the node is shutting down".to_owned());
        let mut process = starting.await.map_err(|_| ending())??;
        process.ended = Box::pin(async move { Some(ended.await.unwrap_or(137)) });
        Ok(process)
    }

    async fn begin_exec(
        &self,
        target: &Target,
        request: &StreamRequest,
        command: Vec<String>,
    ) -> Result<(super::sandbox::client::Running, Process), StreamError> {
        let failed =
            |error: io::Error| StreamError::Start(format!("create the streams of the process: {error}"));
        let mut ends = Ends::make(request.stdin, request.tty).map_err(failed)?;
        let spec = ExecSpec {
            container: target.process,
            argv: target.relocate(&command),
            env: target.env_for(request.tty),
            working_directory: target.working_directory.clone(),
            user: target.user.clone(),
            security: target.security.clone(),
            streams: ends.streams,
        };
        let descriptors = std::mem::take(&mut ends.descriptors);
        let running = self
            .sandbox
            .exec(spec, descriptors)
            .await
            .map_err(|failure| StreamError::Start(failure.message))?;
        let Connected { input, output, error, terminal } = ends.connect().map_err(failed)?;
        let process = Process {
            stdin: input.filter(|_| request.stdin).map(feed),
            stdout: chunks(output, request.stdout),
            stderr: error.and_then(|error| chunks(error, request.stderr)),
            resize: resizer(terminal),
            ended: Box::pin(futures::future::pending()),
        };
        Ok((running, process))
    }

    /// Attaches to a container's standard streams.
    ///
    /// # Errors
    /// When it is not running, or already has too many listeners.
    pub(super) fn attach_to(&self, request: &StreamRequest) -> Result<Process, StreamError> {
        let live = self.live(request)?;
        let listen =
            |output: Output, wanted: bool| -> Result<Option<BoxStream<'static, Bytes>>, StreamError> {
                if !wanted {
                    return Ok(None);
                }
                let tap = live.log.tap(output);
                let busy = || StreamError::Busy("too many clients are attached to the container".to_owned());
                tap.map(received).map(Some).ok_or_else(busy)
            };
        let stdout = listen(Output::Out, request.stdout)?;
        let stderr = listen(Output::Error, request.stderr && live.terminal.is_none())?;
        let mut input = lock(&live.input);
        let stdin = match (request.stdin, live.input_once) {
            (false, _) => None,
            (true, true) => input.take(),
            (true, false) => input.clone(),
        };
        drop(input);
        Ok(Process {
            stdin,
            stdout,
            stderr,
            resize: resizer(live.terminal.clone()).filter(|_| request.tty),
            ended: Box::pin(async move {
                // An attachment ends with the container's output. The pod's status says how the container ended.
                live.log.closed().await;
                None
            }),
        })
    }

    /// Connects to a port inside a pod.
    ///
    /// # Errors
    /// When the pod is not running, or nothing listens.
    pub(super) async fn connect_to(&self, request: ConnectRequest) -> Result<TcpStream, StreamError> {
        let timeout_millis = u64::try_from(CONNECT_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        let spec = ConnectSpec { pod: request.uid, address: None, port: request.port, timeout_millis };
        let refused = |message: String| StreamError::Start(message);
        let descriptor = self.sandbox.connect(spec).await.map_err(|failure| refused(failure.message))?;
        let stream = std::net::TcpStream::from(descriptor);
        let adopt = || {
            stream.set_nonblocking(true)?;
            TcpStream::from_std(stream)
        };
        adopt().map_err(|error| refused(error.to_string()))
    }
}
