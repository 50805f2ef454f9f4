//! One call: from the first sealed frame to the command's exit code. Events come in (socket, pipes, exit, time),
//! frames and bytes go out; nothing here blocks.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ChildStdin;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::spawn;
use crate::grace::WIND_DOWN;
use crate::report;
use crate::wire::backlog::Backlog;
use crate::wire::frame::{Frame, Stream};
use crate::wire::sealed::Sealed;
use crate::wire::{CREDIT_STEP, MAX_COMMAND, WINDOW};

/// The command's output is not read while this many bytes wait to be sent.
const MAX_UNSENT: usize = 128 * 1024;
/// After the command has ended, its pipes count as empty once nothing has come for this long: a daemon that it left
/// may hold them open for ever.
const DRAIN_QUIET: Duration = Duration::from_millis(100);
/// How long a daemon that keeps writing is read after the command has ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);
/// How long a caller that has its exit code may take to close the connection.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);
/// How many keep-alives are sent within one peer timeout. It is fewer than a caller sends, because the agent
/// answers the caller's keep-alives while it is awake to receive them.
const SIGNS_OF_LIFE: u32 = 3;
/// The signals that a caller may send.
const PERMITTED: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2, WIND_DOWN];

/// A call.
pub struct Session {
    /// The terms of the call.
    pub terms: Terms,
    /// The caller's address.
    pub peer: SocketAddr,
    /// When it began.
    pub begun: Instant,
    socket: TcpStream,
    sealed: Sealed,
    command: Vec<u8>,
    state: State,
    heard: Instant,
    said: Instant,
}

/// The terms of a call.
pub struct Terms {
    /// The number of the call, counted per agent.
    pub number: u64,
    /// How long the caller may be silent.
    pub peer_timeout: Duration,
}

enum State {
    /// The command is being received.
    Opening,
    /// The command runs, or its last output is being read.
    Running(Running),
    /// The caller has been sent the exit code.
    Leaving { until: Instant, shut: bool },
}

struct Running {
    /// The shell, which leads a session and a process group with this id.
    shell: Pid,
    stdin: Option<ChildStdin>,
    stdin_waiting: Backlog,
    stdin_ended: bool,
    /// How many bytes the caller may still send.
    stdin_granted: u32,
    /// Bytes written to the command for which no credit has been returned yet.
    stdin_written: u32,
    outputs: [Output; 2],
    ended: Option<Ended>,
}

impl Running {
    /// Returns the exit code, once the command has ended and its output has been read.
    fn drained(&mut self, unsent: usize, now: Instant) -> Option<u8> {
        let ended = self.ended.as_mut()?;
        let open = || self.outputs.iter().filter(|output| output.pipe.is_some());
        if open().next().is_none() {
            return Some(ended.code);
        }
        if unsent >= MAX_UNSENT || open().any(|output| output.credit == 0) {
            // The caller is not reading, which does not mean that there is no more output.
            ended.quiet_since = now;
            ended.until = now + DRAIN_LIMIT;
            return None;
        }
        // The pipes may have been left alone until this moment, because the caller was not reading.
        let is_quiet = now >= ended.quiet_since + DRAIN_QUIET && !open().any(Output::is_readable);
        (is_quiet || now >= ended.until).then_some(ended.code)
    }
}

struct Output {
    stream: Stream,
    pipe: Option<File>,
    credit: u32,
}

impl Output {
    /// Returns whether there is something in the pipe.
    fn is_readable(&self) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        let mut watched = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        poll(&mut watched, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}

struct Ended {
    code: u8,
    quiet_since: Instant,
    until: Instant,
}

/// How a session ended.
#[derive(Debug)]
pub enum Parting {
    /// The caller has its exit code, or never sent a command.
    Done,
    /// The connection is unusable, for this reason.
    Lost(String),
}

/// The events that a session waits for.
#[expect(clippy::struct_excessive_bools, reason = "one for each file descriptor")]
pub struct Wants {
    /// To send.
    pub send: bool,
    /// To write to the command.
    pub stdin: bool,
    /// To read from the command.
    pub stdout: bool,
    /// To read from the command.
    pub stderr: bool,
}

fn lost(error: impl std::fmt::Display) -> Parting {
    Parting::Lost(error.to_string())
}

impl Session {
    /// Takes over a connection that has proved the key. Pass the frame that proved it to [`Session::welcome`].
    pub fn begin(terms: Terms, peer: SocketAddr, socket: TcpStream, sealed: Sealed) -> Self {
        let now = Instant::now();
        Self {
            terms,
            peer,
            begun: now,
            socket,
            sealed,
            command: Vec::new(),
            state: State::Opening,
            heard: now,
            said: now,
        }
    }

    /// Returns the name of the command's program, for the log. Never its arguments, which may hold secrets.
    pub fn program(&self) -> String {
        program_of(&self.command)
    }

    /// Returns the shell of a command that has not ended.
    pub fn running(&self) -> Option<Pid> {
        match &self.state {
            State::Running(Running { shell, ended: None, .. }) => Some(*shell),
            _ => None,
        }
    }

    /// Returns whether the caller has been sent the exit code.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Leaving { .. })
    }

    /// Returns whether the caller has not yet sent the command.
    pub fn is_opening(&self) -> bool {
        matches!(self.state, State::Opening)
    }

    /// The socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the pipe of a stream while it is open.
    pub fn pipe(&self, stream: Stream) -> Option<BorrowedFd<'_>> {
        let State::Running(running) = &self.state else { return None };
        match stream {
            Stream::Stdin => running.stdin.as_ref().map(AsFd::as_fd),
            _ => running
                .outputs
                .iter()
                .find(|o| o.stream == stream)
                .and_then(|o| o.pipe.as_ref())
                .map(AsFd::as_fd),
        }
    }

    /// Returns the events that the session waits for now.
    pub fn wants(&self) -> Wants {
        let may_read = |stream| match &self.state {
            State::Running(running) => {
                let credit = |o: &Output| o.stream == stream && o.pipe.is_some() && o.credit > 0;
                self.sealed.unsent() < MAX_UNSENT && running.outputs.iter().any(credit)
            }
            _ => false,
        };
        Wants {
            send: self.sealed.unsent() > 0,
            stdin: matches!(&self.state, State::Running(r) if r.stdin.is_some() && !r.stdin_waiting.is_empty()),
            stdout: may_read(Stream::Stdout),
            stderr: may_read(Stream::Stderr),
        }
    }

    /// Returns when to call [`Session::tick`] if nothing happens before.
    pub fn due(&self) -> Instant {
        let alive =
            (self.said + self.terms.peer_timeout / SIGNS_OF_LIFE).min(self.heard + self.terms.peer_timeout);
        match &self.state {
            State::Running(Running { ended: Some(ended), .. }) => {
                alive.min(ended.quiet_since + DRAIN_QUIET).min(ended.until)
            }
            State::Leaving { until, .. } => alive.min(*until),
            _ => alive,
        }
    }

    /// Counts the silence of the caller and of the command's pipes from now: this process was paused.
    pub fn excuse(&mut self) {
        let now = Instant::now();
        self.heard = now;
        if let State::Running(Running { ended: Some(ended), .. }) = &mut self.state {
            (ended.quiet_since, ended.until) = (now, now + DRAIN_LIMIT);
        }
    }

    fn say(&mut self, frame: &Frame) -> Result<(), Parting> {
        self.said = Instant::now();
        self.sealed.seal(frame).map_err(lost)
    }

    /// Sends as much as the socket accepts.
    pub fn send(&mut self) -> Result<(), Parting> {
        self.sealed.send(&mut self.socket).map_err(lost)?;
        if let State::Leaving { shut, .. } = &mut self.state
            && !*shut
            && self.sealed.unsent() == 0
        {
            // The reading side stays open: closing with unread bytes would reset the connection and lose the exit
            // code.
            *shut = true;
            self.socket.shutdown(Shutdown::Write).map_err(lost)?;
        }
        Ok(())
    }

    /// Reads what the caller has sent and acts on it.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<(), Parting> {
        match self.socket.read(buffer) {
            Ok(0) if self.is_over() || matches!(self.state, State::Opening) && self.command.is_empty() => {
                return Err(Parting::Done);
            }
            Ok(0) => return Err(Parting::Lost("closed by the caller".into())),
            Ok(count) => self.sealed.receive(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(_) if self.is_over() => return Err(Parting::Done),
            Err(error) => return Err(lost(error)),
        }
        let first = self.sealed.open().map_err(lost)?;
        first.map_or(Ok(()), |frame| self.proceed(frame))
    }

    /// Answers the caller, which then knows that it has the session, and acts on its first frame.
    pub fn welcome(&mut self, first: Frame) -> Result<(), Parting> {
        self.say(&Frame::Alive)?;
        self.proceed(first)
    }

    /// Acts on a frame, and on those after it that have already come. Only whole frames prove that the caller
    /// lives: bytes can be from anyone.
    fn proceed(&mut self, first: Frame) -> Result<(), Parting> {
        self.heard = Instant::now();
        let mut next = Some(first);
        while let Some(frame) = next {
            self.take(frame)?;
            next = self.sealed.open().map_err(lost)?;
        }
        Ok(())
    }

    fn take(&mut self, frame: Frame) -> Result<(), Parting> {
        match (frame, &mut self.state) {
            (Frame::Alive, _) if self.said.elapsed() >= self.terms.peer_timeout / (2 * SIGNS_OF_LIFE) => {
                self.say(&Frame::Alive)
            }
            (Frame::Alive, _) => Ok(()),
            (Frame::Command(piece), State::Opening) => {
                self.command.extend_from_slice(&piece);
                if self.command.len() > MAX_COMMAND { Err(lost("the command is too long")) } else { Ok(()) }
            }
            (Frame::Start, State::Opening) => self.start(),
            (Frame::Data(Stream::Stdin, bytes), State::Running(running)) => {
                let length = u32::try_from(bytes.len()).map_err(lost)?;
                running.stdin_granted = running
                    .stdin_granted
                    .checked_sub(length)
                    .ok_or_else(|| lost("the caller sent more than it was granted"))?;
                if running.stdin.is_some() {
                    running.stdin_waiting.push(&bytes);
                }
                self.write_stdin()
            }
            (Frame::StdinEnd, State::Running(running)) => {
                running.stdin_ended = true;
                self.write_stdin()
            }
            (Frame::Signal(number), State::Running(running)) => {
                let signal =
                    Signal::try_from(i32::from(number)).ok().filter(|signal| PERMITTED.contains(signal));
                let signal = signal.ok_or_else(|| lost(format!("signal {number} is not permitted")))?;
                match running.ended {
                    Some(_) => {}
                    None if signal == WIND_DOWN => super::wind_down(running.shell),
                    None => {
                        let _ = killpg(running.shell, signal);
                    }
                }
                Ok(())
            }
            (Frame::Credit(stream, count), State::Running(running)) => {
                for output in running.outputs.iter_mut().filter(|o| o.stream == stream) {
                    output.credit = output.credit.saturating_add(count).min(WINDOW);
                }
                Ok(())
            }
            (Frame::Closed(stream), State::Running(running)) => {
                // The command notices, as with any broken pipe.
                running.outputs.iter_mut().filter(|o| o.stream == stream).for_each(|o| o.pipe = None);
                Ok(())
            }
            (_, State::Leaving { .. }) => Ok(()),
            _ => Err(lost("the caller violated the protocol")),
        }
    }

    fn start(&mut self) -> Result<(), Parting> {
        let mut child = match spawn::spawn(&self.command) {
            Ok(child) => child,
            Err(error) => {
                self.say(&Frame::Refused(format!("cannot start /bin/sh: {error}")))?;
                self.leave();
                return Ok(());
            }
        };
        // Only called agents log this line; the diagnosis uses it to find where a job ran.
        report::line(&format!("session {} from {}: {} begins", self.terms.number, self.peer, self.program()));
        let file = |pipe: Option<OwnedFd>| pipe.map(File::from);
        let shell = Pid::from_raw(i32::try_from(child.id()).map_err(lost)?);
        let stdout = file(child.stdout.take().map(OwnedFd::from));
        let stderr = file(child.stderr.take().map(OwnedFd::from));
        self.state = State::Running(Running {
            shell,
            stdin: child.stdin.take(),
            stdin_waiting: Backlog::default(),
            stdin_ended: false,
            stdin_granted: WINDOW,
            stdin_written: 0,
            outputs: [
                Output { stream: Stream::Stdout, pipe: stdout, credit: WINDOW },
                Output { stream: Stream::Stderr, pipe: stderr, credit: WINDOW },
            ],
            ended: None,
        });
        Ok(())
    }

    /// Writes to the command as much as it accepts, and returns that much credit to the caller.
    pub fn write_stdin(&mut self) -> Result<(), Parting> {
        let State::Running(running) = &mut self.state else { return Ok(()) };
        let Some(pipe) = &mut running.stdin else { return Ok(()) };
        let outcome = running.stdin_waiting.write_to(pipe);
        if outcome.is_err() || (running.stdin_ended && running.stdin_waiting.is_empty()) {
            // The command has stopped reading, or its input is complete: close the pipe.
            running.stdin = None;
        }
        let closed = outcome.is_err();
        let written = u32::try_from(outcome.unwrap_or(0)).map_err(lost)?;
        running.stdin_written += written;
        let mut credit = 0;
        if running.stdin_written >= CREDIT_STEP || running.stdin_waiting.is_empty() {
            credit = std::mem::take(&mut running.stdin_written);
            running.stdin_granted += credit;
        }
        if closed {
            self.say(&Frame::Closed(Stream::Stdin))?;
        } else if credit > 0 {
            self.say(&Frame::Credit(Stream::Stdin, credit))?;
        }
        Ok(())
    }

    /// Reads a piece of the command's output, at most as much as the caller has granted.
    pub fn read_output(&mut self, stream: Stream, buffer: &mut [u8]) -> Result<(), Parting> {
        let State::Running(running) = &mut self.state else { return Ok(()) };
        let Some(output) = running.outputs.iter_mut().find(|o| o.stream == stream) else { return Ok(()) };
        let Some(pipe) = &mut output.pipe else { return Ok(()) };
        let most = buffer.len().min(output.credit as usize);
        if most == 0 {
            return Ok(());
        }
        match pipe.read(&mut buffer[..most]) {
            Ok(0) => output.pipe = None,
            Ok(count) => {
                output.credit -= u32::try_from(count).map_err(lost)?;
                if let Some(ended) = &mut running.ended {
                    ended.quiet_since = Instant::now();
                }
                self.say(&Frame::Data(stream, buffer[..count].to_vec()))?;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => output.pipe = None,
        }
        Ok(())
    }

    /// Adds a line of the agent itself to the command's stderr, if the caller has granted room for it.
    pub fn remark(&mut self, text: &str) {
        let line = report::framed(text).into_bytes();
        let State::Running(running) = &mut self.state else { return };
        let Some(output) = running.outputs.iter_mut().find(|output| output.stream == Stream::Stderr) else {
            return;
        };
        let Some(left) = u32::try_from(line.len()).ok().and_then(|length| output.credit.checked_sub(length))
        else {
            return;
        };
        output.credit = left;
        // If sealing fails, the next frame that matters ends the session.
        let _ = self.say(&Frame::Data(Stream::Stderr, line));
    }

    /// Records that the shell has ended with this code.
    pub fn exited(&mut self, code: u8) {
        if let State::Running(running) = &mut self.state {
            let now = Instant::now();
            running.stdin = None;
            running.ended = Some(Ended { code, quiet_since: now, until: now + DRAIN_LIMIT });
        }
    }

    /// Handles timeouts. Called after each round of events; returns the exit code once, when the last output has
    /// been read.
    pub fn tick(&mut self, now: Instant) -> Result<Option<u8>, Parting> {
        if let State::Leaving { until, .. } = self.state {
            return if now >= until { Err(Parting::Done) } else { Ok(None) };
        }
        if now.saturating_duration_since(self.heard) > self.terms.peer_timeout {
            let seconds = self.terms.peer_timeout.as_secs();
            return Err(Parting::Lost(format!("nothing heard from the caller for {seconds} s")));
        }
        if now.saturating_duration_since(self.said) >= self.terms.peer_timeout / SIGNS_OF_LIFE {
            self.say(&Frame::Alive)?;
        }
        let unsent = self.sealed.unsent();
        let State::Running(running) = &mut self.state else { return Ok(None) };
        let Some(code) = running.drained(unsent, now) else { return Ok(None) };
        self.say(&Frame::Exit(code))?;
        self.leave();
        Ok(Some(code))
    }

    fn leave(&mut self) {
        self.state = State::Leaving { until: Instant::now() + LEAVE_LIMIT, shut: false };
    }
}

/// Returns the first word of a shell line that can be a program, without its folder. Skips assignments and
/// `export NAME`.
fn program_of(command: &[u8]) -> String {
    /// The most characters of a name; longer ones are cut.
    const MAX_NAME: usize = 64;
    let text = String::from_utf8_lossy(command);
    let mut skip_next = false;
    let word = text
        .split(|c: char| c.is_whitespace() || c == ';')
        .filter(|word| !word.is_empty())
        .find(|word| {
            let skipped = std::mem::replace(&mut skip_next, *word == "export");
            !skipped && !skip_next && !word.contains('=')
        })
        .unwrap_or("a command");
    let name = word.rsplit('/').next().unwrap_or(word);
    name.trim_matches(|c| "\"'`(){}".contains(c)).chars().take(MAX_NAME).collect()
}

/// Returns the exit code that a caller gets for how a process ended: its own, or 128 plus the signal's number, as
/// in shells.
pub fn code_of(status: nix::sys::wait::WaitStatus) -> Option<(Pid, u8)> {
    use nix::sys::wait::WaitStatus;
    match status {
        WaitStatus::Exited(pid, code) => Some((pid, u8::try_from(code).unwrap_or(u8::MAX))),
        WaitStatus::Signaled(pid, signal, _) => Some((pid, 128_u8.saturating_add(signal as u8))),
        _ => None,
    }
}

impl From<io::Error> for Parting {
    fn from(error: io::Error) -> Self {
        lost(error)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn output_that_waited_for_the_caller_comes_before_the_exit_code() {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        File::from(writer.try_clone().unwrap()).write_all(b"the last line").unwrap();
        let now = Instant::now();
        let output = |stream, pipe| Output { stream, pipe, credit: 0 };
        let mut running = Running {
            shell: Pid::from_raw(i32::MAX),
            stdin: None,
            stdin_waiting: Backlog::default(),
            stdin_ended: true,
            stdin_granted: 0,
            stdin_written: 0,
            outputs: [output(Stream::Stdout, Some(File::from(reader))), output(Stream::Stderr, None)],
            ended: Some(Ended { code: 3, quiet_since: now, until: now + DRAIN_LIMIT }),
        };
        assert_eq!(running.drained(0, now), None, "the caller takes no more");
        // It does again, in the same round in which the pipes count as empty.
        running.outputs[0].credit = WINDOW;
        let later = now + DRAIN_QUIET;
        assert_eq!(running.drained(0, later), None, "nobody has read the pipe since");
        let mut pipe = running.outputs[0].pipe.as_ref().unwrap();
        assert_eq!(pipe.read(&mut [0; 64]).unwrap(), "the last line".len());
        assert_eq!(running.drained(0, later), Some(3), "a daemon holds the pipe open and is quiet");
    }

    #[test]
    fn the_log_names_the_program_only() {
        for (command, program) in [
            ("orted -mca ess env -mca orte_hnp_uri 1;tcp://10.0.0.1", "orted"),
            ("  PATH=/opt/bin:$PATH ; export PATH ; TOKEN=secret /opt/bin/orted -mca x", "orted"),
            ("\"/usr/bin/hydra_pmi_proxy\" --control-port", "hydra_pmi_proxy"),
            ("TOKEN=secret", "a command"),
            ("", "a command"),
        ] {
            assert_eq!(program_of(command.as_bytes()), program, "{command}");
        }
    }
}
