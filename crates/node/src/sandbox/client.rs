//! The node's end of the sandbox: starts the process, sends requests, and dispatches each answer to its caller.
//!
//! Any number of tasks may send requests concurrently; one task writes and one reads. When the sandbox ends, all
//! pending requests fail, and later ones fail at once.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use super::frames::{frame, take_frame};
use super::kernel;
use super::protocol::{
    Answer, AnswerBody, Begin, CheckSpec, ConnectSpec, ContainerSpec, ExecSpec, Exit, Failure, FilterSpec,
    ListenSpec, PodSpec, Request, RequestBody, Usage,
};
use crate::mode::Mode;

/// Requests waiting to be written; a hundred pods send a few each.
const MAX_QUEUED_REQUESTS: usize = 4096;
/// How long the sandbox may take to start.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may take to end and clean up.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// Why the sandbox could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The program could not be started.
    #[error("cannot start the sandbox process {program:?}: {source}")]
    Start {
        /// The program.
        program: OsString,
        /// The error.
        source: std::io::Error,
    },
    /// No program is configured.
    #[error("Options.sandbox_program is empty; it must run this program into node::sandbox_main()")]
    NoProgram,
    /// The sandbox refused, or ended.
    #[error("{0}")]
    Refused(#[from] Failure),
    /// The sandbox did not answer in time.
    #[error("the sandbox process did not respond within {} s", BEGIN_TIMEOUT.as_secs())]
    Silent,
}

type Frame = (Vec<u8>, Vec<OwnedFd>);

#[derive(Default)]
struct Waiting {
    answers: HashMap<u64, oneshot::Sender<AnswerBody>>,
    exits: HashMap<u64, oneshot::Sender<Exit>>,
    gone: bool,
}

/// A running sandbox process.
pub struct Sandbox {
    frames: Mutex<Option<mpsc::Sender<Frame>>>,
    waiting: Arc<Mutex<Waiting>>,
    next: AtomicU64,
    process: tokio::sync::Mutex<Option<tokio::process::Child>>,
}

/// A process that the sandbox started.
#[derive(Debug)]
pub struct Running {
    /// Identifies the process in signals and execs.
    pub id: u64,
    exit: oneshot::Receiver<Exit>,
}

impl Running {
    /// Waits for its end. If the sandbox itself ends, it kills its processes.
    pub async fn ended(self) -> Exit {
        self.exit.await.unwrap_or(Exit { code: 137, signal: Some(9), out_of_memory: false })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn gone() -> Failure {
    Failure::new("the sandbox process has ended")
}

impl Sandbox {
    /// Starts the sandbox process with `program` (argv) and waits until it is ready.
    ///
    /// # Errors
    /// When it cannot be started, or the requested mode is not possible.
    pub async fn begin(program: &[OsString], begin: Begin) -> Result<(Sandbox, Mode), SandboxError> {
        let (command, arguments) = program.split_first().ok_or(SandboxError::NoProgram)?;
        let start = |source: std::io::Error| SandboxError::Start { program: command.clone(), source };
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(start)?;
        ours.set_nonblocking(true).map_err(start)?;
        let child = tokio::process::Command::new(command)
            .args(arguments)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .map_err(start)?;
        let stream = Arc::new(UnixStream::from_std(ours).map_err(start)?);
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        tokio::spawn(write_frames(Arc::clone(&stream), receiver));
        tokio::spawn(read_answers(stream, Arc::clone(&waiting)));
        let sandbox = Sandbox {
            frames: Mutex::new(Some(sender)),
            waiting,
            next: AtomicU64::new(1),
            process: tokio::sync::Mutex::new(Some(child)),
        };
        let asked = sandbox.ask(RequestBody::Begin(begin), Vec::new());
        match tokio::time::timeout(BEGIN_TIMEOUT, asked).await.map_err(|_| SandboxError::Silent)?? {
            AnswerBody::Began(mode) => Ok((sandbox, mode)),
            other => Err(unexpected(&other).into()),
        }
    }

    async fn send(&self, id: u64, body: RequestBody, fds: Vec<OwnedFd>) -> Result<(), Failure> {
        let bytes = frame(&Request { id, body }).map_err(Failure::new)?;
        let sender = lock(&self.frames).clone().ok_or_else(gone)?;
        sender.send((bytes, fds)).await.map_err(|_| gone())
    }

    async fn ask(&self, body: RequestBody, fds: Vec<OwnedFd>) -> Result<AnswerBody, Failure> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let answer = self.expect(id)?;
        self.send(id, body, fds).await?;
        checked(answer.await.map_err(|_| gone())?)
    }

    fn expect(&self, id: u64) -> Result<oneshot::Receiver<AnswerBody>, Failure> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        if waiting.gone {
            return Err(gone());
        }
        waiting.answers.insert(id, sender);
        Ok(receiver)
    }

    async fn run(&self, body: RequestBody, descriptors: Vec<OwnedFd>) -> Result<Running, Failure> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let answer = self.expect(id)?;
        let (sender, exit) = oneshot::channel();
        lock(&self.waiting).exits.insert(id, sender);
        self.send(id, body, descriptors).await?;
        match checked(answer.await.map_err(|_| gone())?)? {
            AnswerBody::Started => Ok(Running { id, exit }),
            other => Err(unexpected(&other)),
        }
    }

    /// Creates a pod's namespaces and network.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub async fn create_pod(&self, spec: PodSpec) -> Result<(), Failure> {
        self.ask(RequestBody::CreatePod(spec), Vec::new()).await.map(drop)
    }

    /// Releases a pod's namespaces. Its containers must have ended.
    ///
    /// # Errors
    /// When the sandbox has ended.
    pub async fn remove_pod(&self, pod: &str) -> Result<(), Failure> {
        self.ask(RequestBody::RemovePod { pod: pod.to_owned() }, Vec::new()).await.map(drop)
    }

    /// Starts a container with the descriptors that its `streams` need.
    ///
    /// # Errors
    /// When it could not be started; `command` says whether the command is the cause.
    pub async fn start(&self, spec: ContainerSpec, descriptors: Vec<OwnedFd>) -> Result<Running, Failure> {
        self.run(RequestBody::Start(Box::new(spec)), descriptors).await
    }

    /// Starts a process inside a running container, with the descriptors that its `streams` need.
    ///
    /// # Errors
    /// When it could not be started.
    pub async fn exec(&self, spec: ExecSpec, descriptors: Vec<OwnedFd>) -> Result<Running, Failure> {
        self.run(RequestBody::Exec(Box::new(spec)), descriptors).await
    }

    /// Connects to a port of a pod's own loopback.
    ///
    /// # Errors
    /// The reason, for a person.
    pub async fn connect(&self, spec: ConnectSpec) -> Result<OwnedFd, Failure> {
        self.handed(RequestBody::Connect(spec)).await
    }

    /// Listens in the pods' outer network.
    ///
    /// # Errors
    /// The reason, for a person.
    pub async fn listen(&self, spec: ListenSpec) -> Result<OwnedFd, Failure> {
        self.handed(RequestBody::Listen(spec)).await
    }

    async fn handed(&self, request: RequestBody) -> Result<OwnedFd, Failure> {
        let handed = Handed::new().map_err(|e| Failure::new(format!("create a socket: {e}")))?;
        match self.ask(request, vec![handed.theirs]).await? {
            AnswerBody::Checked(Ok(())) => receive_descriptor(&handed.ours),
            AnswerBody::Checked(Err(why)) => Err(Failure::new(why)),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a signal to a process. Does nothing if it has ended.
    pub async fn signal(&self, target: u64, signal: i32) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let _ = self.send(id, RequestBody::Signal { target, signal }, Vec::new()).await;
    }

    /// Probes from the pods' network.
    ///
    /// # Errors
    /// The outer error means that the sandbox has ended; the inner one is the probe's failure.
    pub async fn check(&self, spec: CheckSpec) -> Result<Result<(), String>, Failure> {
        match self.ask(RequestBody::Check(spec), Vec::new()).await? {
            AnswerBody::Checked(outcome) => Ok(outcome),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the containers' current usage.
    ///
    /// # Errors
    /// When the sandbox has ended.
    pub async fn measure(&self) -> Result<Usage, Failure> {
        match self.ask(RequestBody::Measure, Vec::new()).await? {
            AnswerBody::Used(usage) => Ok(usage),
            other => Err(unexpected(&other)),
        }
    }

    /// Loads rules for packets between pods.
    ///
    /// # Errors
    /// The outer error means that the sandbox has ended; the inner one is the output of the program.
    pub async fn filter(&self, program: PathBuf, rules: PathBuf) -> Result<Result<(), String>, Failure> {
        match self.ask(RequestBody::Filter(FilterSpec { program, rules }), Vec::new()).await? {
            AnswerBody::Checked(outcome) => Ok(outcome),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends the sandbox and everything it has started. Returns when it has cleaned up.
    pub async fn end(&self) {
        lock(&self.frames).take();
        let Some(mut child) = self.process.lock().await.take() else { return };
        if tokio::time::timeout(END_TIMEOUT, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
    }
}

/// A socket pair over which the sandbox passes one descriptor to the node.
pub struct Handed {
    /// The node's end.
    pub ours: OwnedFd,
    /// The end sent with the request.
    pub theirs: OwnedFd,
}

impl Handed {
    /// Creates a new pair.
    ///
    /// # Errors
    /// When the process is out of file descriptors.
    pub fn new() -> std::io::Result<Handed> {
        let (ours, theirs) = std::os::unix::net::UnixDatagram::pair()?;
        ours.set_nonblocking(true)?;
        Ok(Handed { ours: ours.into(), theirs: theirs.into() })
    }
}

/// Receives the descriptor that the sandbox sent before its answer.
///
/// # Errors
/// When there is none.
pub fn receive_descriptor(socket: &OwnedFd) -> Result<OwnedFd, Failure> {
    let mut byte = [0];
    let mut slices = [std::io::IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!(std::os::fd::RawFd);
    let message =
        recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)
            .map_err(|e| Failure::new(format!("receive a descriptor: {e}")))?;
    let rights = message.cmsgs().into_iter().flatten().filter_map(|part| match part {
        ControlMessageOwned::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let received = kernel::adopt_received(rights.flatten().collect());
    received.into_iter().next().ok_or_else(|| Failure::new("the sandbox sent no descriptor"))
}

fn checked(body: AnswerBody) -> Result<AnswerBody, Failure> {
    match body {
        AnswerBody::Failed(failure) => Err(failure),
        other => Ok(other),
    }
}

fn unexpected(body: &AnswerBody) -> Failure {
    Failure::new(format!("unexpected answer of the sandbox: {body:?}"))
}

/// Writes requests until every sender is dropped. Then closes the socket, which ends the sandbox.
async fn write_frames(stream: Arc<UnixStream>, mut frames: mpsc::Receiver<Frame>) {
    while let Some((bytes, fds)) = frames.recv().await {
        if write_frame(&stream, &bytes, &fds).await.is_err() {
            break;
        }
    }
    let _ = nix::sys::socket::shutdown(stream.as_raw_fd(), nix::sys::socket::Shutdown::Both);
}

async fn write_frame(stream: &UnixStream, bytes: &[u8], fds: &[OwnedFd]) -> std::io::Result<()> {
    let raw: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let mut sent = 0;
    while sent < bytes.len() {
        stream.writable().await?;
        // Send the descriptors only once, with the first byte.
        let rights = [ControlMessage::ScmRights(&raw)];
        let control: &[ControlMessage<'_>] = if sent == 0 && !raw.is_empty() { &rights } else { &[] };
        let outcome = stream.try_io(Interest::WRITABLE, || {
            let slices = [std::io::IoSlice::new(&bytes[sent..])];
            let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
            sendmsg::<()>(stream.as_raw_fd(), &slices, control, flags, None).map_err(std::io::Error::from)
        });
        match outcome {
            Ok(count) => sent += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn read_answers(stream: Arc<UnixStream>, waiting: Arc<Mutex<Waiting>>) {
    let mut inbox = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    loop {
        match take_frame::<Answer>(&mut inbox) {
            Ok(Some(answer)) => {
                deliver(&waiting, answer);
                continue;
            }
            Ok(None) => {}
            Err(_) => break,
        }
        let count = async {
            loop {
                stream.readable().await?;
                match stream.try_read(&mut chunk) {
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    other => return other,
                }
            }
        };
        match count.await {
            Ok(0) | Err(_) => break,
            Ok(count) => inbox.extend_from_slice(&chunk[..count]),
        }
    }
    let mut waiting = lock(&waiting);
    waiting.gone = true;
    waiting.answers.clear();
    waiting.exits.clear();
}

fn deliver(waiting: &Mutex<Waiting>, answer: Answer) {
    let mut waiting = lock(waiting);
    match answer.body {
        AnswerBody::Exited(exit) => {
            if let Some(sender) = waiting.exits.remove(&answer.id) {
                let _ = sender.send(exit);
            }
        }
        body => {
            if matches!(body, AnswerBody::Failed(_)) {
                waiting.exits.remove(&answer.id);
            }
            if let Some(sender) = waiting.answers.remove(&answer.id) {
                let _ = sender.send(body);
            }
        }
    }
}

/// Reads at most `limit` bytes of a process's output as text, for probes and hooks.
pub async fn read_output(pipe: tokio::net::unix::pipe::Receiver, limit: u64) -> String {
    let mut bytes = Vec::new();
    let _ = pipe.take(limit).read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}
