//! Relays one call over an established connection: the command, standard streams, signals, and the exit code back.
//!
//! A single poll loop. Each stream is bounded by the window that its receiver grants, so a reader that stops blocks
//! the writer at the other end and nothing else.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::sink::Sink;
use crate::arguments::RemoteCommand;
use crate::grace::{WIND_DOWN, is_pause};
use crate::wire::frame::{Frame, Stream};
use crate::wire::sealed::{SealFault, Sealed};
use crate::wire::{CHUNK, CREDIT_STEP, MAX_COMMAND, WINDOW};

/// The signals that are forwarded to the command.
const FORWARDED: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2, WIND_DOWN];
/// Standard input is not read while this many bytes wait to be sent.
const MAX_UNSENT: usize = 128 * 1024;
/// Enough reads for everything that may have been in flight.
const MAX_LAST_READS: usize = 3 * WINDOW as usize / CHUNK;
/// How many keep-alives are sent within one peer timeout.
const SIGNS_OF_LIFE: u32 = 4;

/// Why a call ended without the command's exit code.
#[derive(Debug, thiserror::Error)]
pub enum RelayFault {
    /// The agent refused to run it.
    #[error("the command was not run: {0}")]
    Refused(String),
    /// The connection ended.
    #[error("connection lost: {0}; the remote command is being terminated")]
    Lost(String),
    /// The agent has been silent for too long.
    #[error("connection lost: nothing heard from the Worker for {} s", .0.as_secs())]
    Silent(Duration),
    /// The agent sent an invalid record.
    #[error("connection lost: {0}")]
    Sealed(#[from] SealFault),
    /// The agent sent a frame that only a caller may send, or more than it was granted.
    #[error("connection lost: the agent violated the protocol")]
    Protocol,
    /// The command is too long for a shell.
    #[error("the command has {0} bytes, but a shell accepts at most {MAX_COMMAND}")]
    TooLong(usize),
    /// A local system call failed.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl From<Errno> for RelayFault {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

struct Relay {
    socket: TcpStream,
    sealed: Sealed,
    signals: SignalFd,
    /// Read end of the pipe through which the sinks wake the loop.
    wake: OwnedFd,
    sinks: [(Stream, Sink, Output); 2],
    /// Credit left for standard input; `None` once it has ended.
    stdin: Option<u32>,
    heard: Instant,
    said: Instant,
    peer_timeout: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Output {
    /// How many bytes the agent may still send.
    granted: u32,
    /// Whether the agent has been notified that nobody reads.
    closed: bool,
}

/// Runs the command of `call` over the connection. Returns its exit code.
pub fn relay(
    call: &RemoteCommand,
    socket: TcpStream,
    sealed: Sealed,
    peer_timeout: Duration,
) -> Result<u8, RelayFault> {
    if call.command.len() > MAX_COMMAND {
        return Err(RelayFault::TooLong(call.command.len()));
    }
    let mut relay = start(call, socket, sealed, peer_timeout)?;
    let code = relay.run();
    let sinks = relay.sinks;
    // Output that came before the end is shown in either case.
    sinks.into_iter().for_each(|(_, sink, _)| sink.finish());
    code
}

fn start(
    call: &RemoteCommand,
    socket: TcpStream,
    mut sealed: Sealed,
    peer_timeout: Duration,
) -> Result<Relay, RelayFault> {
    socket.set_nonblocking(true)?;
    let signals: SigSet = FORWARDED.into_iter().collect();
    // Block signals before the threads start, so that they inherit the mask, and before the command starts, so that
    // no signal ends this process and leaves the command behind.
    signals.thread_block()?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let (wake, waker) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    let output = Output { granted: WINDOW, closed: false };
    let stdout = Sink::start(io::stdout().as_fd().try_clone_to_owned()?, waker.try_clone()?)?;
    let stderr = Sink::start(io::stderr().as_fd().try_clone_to_owned()?, waker)?;

    for piece in call.command.chunks(CHUNK) {
        sealed.seal(&Frame::Command(piece.to_vec()))?;
    }
    sealed.seal(&Frame::Start)?;
    if call.without_stdin {
        sealed.seal(&Frame::StdinEnd)?;
    }
    let now = Instant::now();
    Ok(Relay {
        socket,
        sealed,
        signals,
        wake,
        sinks: [(Stream::Stdout, stdout, output), (Stream::Stderr, stderr, output)],
        stdin: (!call.without_stdin).then_some(WINDOW),
        heard: now,
        said: now,
        peer_timeout,
    })
}

/// What is ready.
struct Ready {
    socket: bool,
    signals: bool,
    wake: bool,
    stdin: bool,
}

impl Relay {
    /// Runs until the command has ended or the connection is lost.
    fn run(&mut self) -> Result<u8, RelayFault> {
        let mut buffer = vec![0; CHUNK];
        loop {
            self.send()?;
            let due = self.due();
            let ready = self.wait()?;
            if is_pause(due, Instant::now()) {
                self.heard = Instant::now();
            }
            if ready.signals {
                self.pass_signals()?;
            }
            if ready.wake {
                self.give_credit(&mut buffer)?;
            }
            if ready.stdin {
                self.read_stdin(&mut buffer)?;
            }
            if ready.socket
                && let Some(end) = self.receive(&mut buffer)?
            {
                return end;
            }
            self.keep_alive()?;
        }
    }

    fn wants_stdin(&self) -> bool {
        self.stdin.is_some_and(|credit| credit > 0) && self.sealed.unsent() < MAX_UNSENT
    }

    /// When to act if nothing happens before.
    fn due(&self) -> Instant {
        (self.said + self.peer_timeout / SIGNS_OF_LIFE).min(self.heard + self.peer_timeout)
    }

    fn wait(&self) -> Result<Ready, RelayFault> {
        let stdin = io::stdin();
        let mut socket_events = PollFlags::POLLIN;
        socket_events.set(PollFlags::POLLOUT, self.sealed.unsent() > 0);
        let mut watched = vec![
            PollFd::new(self.socket.as_fd(), socket_events),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.wake.as_fd(), PollFlags::POLLIN),
        ];
        if self.wants_stdin() {
            watched.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
        }
        let until = self.due();
        let pause = until.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        match poll(&mut watched, PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |index: usize| {
            watched.get(index).and_then(PollFd::revents).is_some_and(|events| !events.is_empty())
        };
        Ok(Ready { socket: is_ready(0), signals: is_ready(1), wake: is_ready(2), stdin: is_ready(3) })
    }

    fn say(&mut self, frame: &Frame) -> Result<(), RelayFault> {
        self.said = Instant::now();
        Ok(self.sealed.seal(frame)?)
    }

    fn send(&mut self) -> Result<(), RelayFault> {
        match self.sealed.send(&mut self.socket) {
            Ok(()) => Ok(()),
            // The agent may have sent the reason before it closed, so read what is left.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                self.last_words()?;
                Err(RelayFault::Lost(error.to_string()))
            }
            Err(error) => Err(RelayFault::Lost(error.to_string())),
        }
    }

    /// Reads what the agent sent before it closed. A fault that it reported is the better reason.
    fn last_words(&mut self) -> Result<(), RelayFault> {
        let mut buffer = vec![0; CHUNK];
        for _ in 0..MAX_LAST_READS {
            if let Some(Err(fault)) = self.receive(&mut buffer)? {
                return Err(fault);
            }
        }
        Ok(())
    }

    fn pass_signals(&mut self) -> Result<(), RelayFault> {
        while let Some(received) = self.signals.read_signal()? {
            if let Ok(number) = u8::try_from(received.ssi_signo) {
                self.say(&Frame::Signal(number))?;
            }
        }
        Ok(())
    }

    fn give_credit(&mut self, buffer: &mut [u8]) -> Result<(), RelayFault> {
        while nix::unistd::read(&self.wake, buffer).is_ok_and(|count| count > 0) {}
        for index in 0..self.sinks.len() {
            let (stream, sink, output) = &mut self.sinks[index];
            let (stream, progress) = (*stream, sink.progress(CREDIT_STEP));
            let newly_closed = progress.broken && !output.closed;
            output.closed |= progress.broken;
            output.granted += progress.written;
            if progress.written > 0 {
                self.say(&Frame::Credit(stream, progress.written))?;
            }
            if newly_closed {
                self.say(&Frame::Closed(stream))?;
            }
        }
        Ok(())
    }

    fn read_stdin(&mut self, buffer: &mut [u8]) -> Result<(), RelayFault> {
        let Some(credit) = self.stdin else { return Ok(()) };
        let most = buffer.len().min(credit as usize);
        match nix::unistd::read(io::stdin().as_fd(), &mut buffer[..most]) {
            Err(Errno::EINTR | Errno::EAGAIN) => Ok(()),
            // Unreadable standard input counts as empty, as in ssh.
            Ok(0) | Err(_) => {
                self.stdin = None;
                self.say(&Frame::StdinEnd)
            }
            Ok(count) => {
                self.stdin = Some(credit - u32::try_from(count).unwrap_or(credit));
                self.say(&Frame::Data(Stream::Stdin, buffer[..count].to_vec()))
            }
        }
    }

    /// Reads what has come. Returns the end of the call, if it has come.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<Result<u8, RelayFault>>, RelayFault> {
        match self.socket.read(buffer) {
            Ok(0) => return Err(RelayFault::Lost("closed by the Worker".into())),
            Ok(count) => self.sealed.receive(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(None);
            }
            Err(error) => return Err(RelayFault::Lost(error.to_string())),
        }
        self.heard = Instant::now();
        while let Some(frame) = self.sealed.open()? {
            match frame {
                Frame::Data(stream, bytes) => self.show(stream, bytes)?,
                Frame::Credit(Stream::Stdin, count) => {
                    self.stdin = self.stdin.map(|credit| credit.saturating_add(count).min(WINDOW));
                }
                Frame::Closed(Stream::Stdin) => self.stdin = None,
                Frame::Alive => {}
                Frame::Exit(code) => return Ok(Some(Ok(code))),
                Frame::Refused(reason) => return Ok(Some(Err(RelayFault::Refused(reason)))),
                Frame::Command(_)
                | Frame::Start
                | Frame::StdinEnd
                | Frame::Signal(_)
                | Frame::Credit(..)
                | Frame::Closed(_) => {
                    return Err(RelayFault::Protocol);
                }
            }
        }
        Ok(None)
    }

    fn show(&mut self, stream: Stream, bytes: Vec<u8>) -> Result<(), RelayFault> {
        let (_, sink, output) =
            self.sinks.iter_mut().find(|(of, _, _)| *of == stream).ok_or(RelayFault::Protocol)?;
        let length = u32::try_from(bytes.len()).map_err(|_| RelayFault::Protocol)?;
        output.granted = output.granted.checked_sub(length).ok_or(RelayFault::Protocol)?;
        sink.push(bytes);
        Ok(())
    }

    fn keep_alive(&mut self) -> Result<(), RelayFault> {
        if self.heard.elapsed() > self.peer_timeout {
            return Err(RelayFault::Silent(self.peer_timeout));
        }
        if self.said.elapsed() >= self.peer_timeout / SIGNS_OF_LIFE {
            self.say(&Frame::Alive)?;
        }
        Ok(())
    }
}
