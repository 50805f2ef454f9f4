//! The Worker's side: accepts calls, runs their commands, reaps every process, and shuts down in order. It may be
//! process 1.
//!
//! One thread and one poll loop. Before it has proved the key, a connection costs only a socket and a few bytes.

mod connections;
mod descendants;
mod greeting;
mod listen;
mod memory;
mod pace;
pub mod ranks;
mod session;
mod spawn;
mod stop;
mod trouble;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use self::descendants::Process;
use self::greeting::{Greeting, GreetingDecision};
use self::listen::{Announcement, ListenFault};
use self::pace::Pace;
use self::ranks::Ranks;
use self::session::{Parting, Session, Terms, code_of};
use self::stop::Stopping;
pub(crate) use self::stop::wind_down;
use self::trouble::Watch;
use crate::grace::{Grace, is_pause};
use crate::key::{Key, KeyFault};
use crate::report;
use crate::settings::Settings;
use crate::wire::CHUNK;
use crate::wire::frame::Stream;

/// The most calls at once. Beyond it no connection is put on trial, but those on trial may still be admitted. With
/// four file descriptors each, this is well under the usual limit of 1024.
const MAX_SESSIONS: usize = 128;
/// The time between SIGTERM and SIGKILL for the processes of a lost caller.
const KILL_GRACE: Duration = Duration::from_secs(3);
/// The pause between two checks for processes that should be gone.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The most checks for processes that fork while they are killed.
const MAX_LOOKS: u32 = 40;
/// How long no connection is accepted when the file descriptors are used up.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// The shortest time between two log lines about refused connections.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);
/// The longest the loop sleeps.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Why the agent cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeFault {
    /// There is no key, so nobody could be admitted.
    #[error(transparent)]
    Key(#[from] KeyFault),
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenFault),
    /// A local system call failed.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl From<Errno> for ServeFault {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

/// Serves until SIGTERM or SIGINT, then ends every process that it started, and returns.
pub fn serve(settings: &Settings) -> Result<(), ServeFault> {
    Key::read(settings.key.as_deref())?;
    // MPI daemons detach from their parents and become children of this process, which reaps them.
    nix::sys::prctl::set_child_subreaper(true)?;
    let signals: SigSet = [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    signals.thread_block()?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let (listener, announcement) = listen::listen(settings)?;
    listener.set_nonblocking(true)?;
    report::line(&format!("serving on {}", listener.local_addr()?));
    let pod = settings.pod_name.clone().unwrap_or_else(name_of_host);
    let mut server = Server {
        listener: Some(listener),
        announcement,
        signals,
        key: settings.key.clone(),
        peer_timeout: settings.peer_timeout,
        greetings: VecDeque::new(),
        sessions: Vec::new(),
        endings: Vec::new(),
        calls: 0,
        accept_from: Instant::now(),
        complaints: Complaints { next: Instant::now(), kept_back: 0 },
        // In plain mode the network and the memory are the machine's, so any finding could belong to other
        // processes.
        watch: settings.registry.is_none().then(|| Watch::begin(&pod)),
        pod,
        ranks: Ranks::begin(),
        pace: Pace::begin(Instant::now()),
        grace: Grace::of(settings.grace),
        stopping: None,
    };
    server.run()
}

/// Returns the first label of the host name, which in a pod is the pod's name.
fn name_of_host() -> String {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    host.split('.').next().unwrap_or_default().to_owned()
}

struct Server {
    listener: Option<TcpListener>,
    announcement: Option<Announcement>,
    signals: SignalFd,
    key: Option<PathBuf>,
    peer_timeout: Duration,
    greetings: VecDeque<Greeting>,
    sessions: Vec<Session>,
    endings: Vec<Ending>,
    calls: u64,
    accept_from: Instant,
    complaints: Complaints,
    watch: Option<Watch>,
    /// The name of this agent's pod.
    pod: String,
    ranks: Ranks,
    /// When to check ranks and trouble.
    pace: Pace,
    grace: Grace,
    stopping: Option<Stopping>,
}

/// Processes of a command whose caller is gone. They have received SIGTERM; those that remain are killed.
struct Ending {
    root: Pid,
    known: Vec<Process>,
    next: Instant,
    looks: u32,
}

struct Complaints {
    next: Instant,
    kept_back: u32,
}

/// What a file descriptor in the poll set belongs to.
#[derive(Clone, Copy)]
enum Source {
    Listener,
    Signals,
    Greeting(usize),
    Socket(usize),
    Pipe(usize, Stream),
}

impl Server {
    fn run(&mut self) -> Result<(), ServeFault> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let due = self.due(Instant::now());
            let ready = self.wait()?;
            if is_pause(due, Instant::now()) {
                // What callers sent meanwhile is read in this round and the next; silence counts from here.
                self.sessions.iter_mut().for_each(Session::excuse);
            }
            let mut partings = Vec::new();
            let mut admissible = Vec::new();
            for (source, events) in ready {
                match source {
                    Source::Signals => self.take_signals()?,
                    Source::Listener => self.accept(),
                    Source::Greeting(index) => admissible.push(index),
                    Source::Socket(index) => {
                        let outcome = attend(&mut self.sessions[index], events, &mut buffer);
                        partings.extend(outcome.err().map(|parting| (index, parting)));
                    }
                    Source::Pipe(index, stream) => {
                        let session = &mut self.sessions[index];
                        let outcome = match stream {
                            Stream::Stdin => session.write_stdin(),
                            _ => session.read_output(stream, &mut buffer),
                        };
                        partings.extend(outcome.err().map(|parting| (index, parting)));
                    }
                }
            }
            let now = Instant::now();
            self.look_around(now);
            partings.extend(self.greet(&admissible, now));
            partings.extend(self.tick_sessions(now));
            self.part(partings);
            self.end_processes(now);
            if self.is_stopped(now) {
                return Ok(());
            }
        }
    }

    /// Waits for events. Returns what is ready, with indices that are valid until something is removed.
    fn wait(&self) -> Result<Vec<(Source, PollFlags)>, ServeFault> {
        let now = Instant::now();
        let mut sources = Vec::new();
        let mut watched = Vec::new();
        let mut watch = |source, fd, events| {
            sources.push(source);
            watched.push(PollFd::new(fd, events));
        };
        watch(Source::Signals, self.signals.as_fd(), PollFlags::POLLIN);
        if let Some(listener) = self.listener.as_ref().filter(|_| now >= self.accept_from) {
            watch(Source::Listener, listener.as_fd(), PollFlags::POLLIN);
        }
        for (index, greeting) in self.greetings.iter().enumerate() {
            watch(Source::Greeting(index), greeting.socket.as_fd(), PollFlags::POLLIN);
        }
        for (index, session) in self.sessions.iter().enumerate() {
            let wants = session.wants();
            let mut events = PollFlags::POLLIN;
            events.set(PollFlags::POLLOUT, wants.send);
            watch(Source::Socket(index), session.socket(), events);
            for (stream, wanted, events) in [
                (Stream::Stdin, wants.stdin, PollFlags::POLLOUT),
                (Stream::Stdout, wants.stdout, PollFlags::POLLIN),
                (Stream::Stderr, wants.stderr, PollFlags::POLLIN),
            ] {
                if let Some(pipe) = session.pipe(stream).filter(|_| wanted) {
                    watch(Source::Pipe(index, stream), pipe, events);
                }
            }
        }
        let sleep = self.due(now).saturating_duration_since(now) + Duration::from_millis(1);
        match poll(&mut watched, PollTimeout::try_from(sleep).unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = sources.into_iter().zip(&watched).filter_map(|(source, fd)| {
            fd.revents().filter(|events| !events.is_empty()).map(|events| (source, events))
        });
        Ok(ready.collect())
    }

    fn due(&self, now: Instant) -> Instant {
        let mut due = now + LONGEST_SLEEP;
        if self.listener.is_some() && self.accept_from > now {
            due = due.min(self.accept_from);
        }
        if let Some(stopping) = &self.stopping {
            due = due.min(stopping.due());
        }
        if self.callers().next().is_some() {
            due = due.min(self.pace.next());
        }
        let moments = self.greetings.iter().map(|greeting| greeting.until);
        moments
            .chain(self.sessions.iter().map(Session::due))
            .chain(self.endings.iter().map(|ending| ending.next))
            .fold(due, Instant::min)
    }

    fn accept(&mut self) {
        // One per round: the loop returns at once while there are more.
        let Some(listener) = &self.listener else { return };
        match listener.accept() {
            Ok((socket, peer)) => {
                // Show an IPv4 caller as such, although the socket is an IPv6 socket.
                let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                let trials = self.greetings.iter().map(|greeting| greeting.peer.ip()).collect();
                let displaced = greeting::displaced(&trials, peer.ip());
                if let Some(displaced) = displaced.and_then(|place| self.greetings.remove(place)) {
                    self.complaints.add(displaced.peer, "closed to make room for newer connections");
                }
                match Greeting::begin(socket, peer) {
                    Ok(greeting) => self.greetings.push_back(greeting),
                    Err(error) => self.complaints.add(peer, &error.to_string()),
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                ) => {}
            Err(error) => {
                report::line(&format!("cannot accept connections for now: {error}"));
                self.accept_from = Instant::now() + ACCEPT_PAUSE;
            }
        }
    }

    /// Advances the connections on trial at these indices, and dismisses those whose time is over.
    fn greet(&mut self, ready: &[usize], now: Instant) -> Vec<(usize, Parting)> {
        // Accepting may have removed one. An index that is off by one reads nothing, and the connection is checked
        // in the next round.
        let (mut kept, mut partings) = (VecDeque::new(), Vec::new());
        for (index, mut greeting) in std::mem::take(&mut self.greetings).into_iter().enumerate() {
            let is_full = self.sessions.len() >= MAX_SESSIONS;
            let verdict = match ready.contains(&index) {
                true => greeting.advance(is_full, || Key::read(self.key.as_deref())),
                false => GreetingDecision::Wait,
            };
            match verdict {
                GreetingDecision::Wait if now >= greeting.until => {
                    self.complaints.add(greeting.peer, "the handshake timed out");
                }
                GreetingDecision::Wait => kept.push_back(greeting),
                GreetingDecision::Dismiss(None) => {}
                GreetingDecision::Dismiss(Some(reason)) => self.complaints.add(greeting.peer, &reason),
                GreetingDecision::Admit(sealed, first) => {
                    self.calls += 1;
                    self.pace.hasten(now);
                    let terms = Terms { number: self.calls, peer_timeout: self.peer_timeout };
                    let mut session = Session::begin(terms, greeting.peer, greeting.socket, sealed);
                    let outcome = session.welcome(first);
                    partings.extend(outcome.err().map(|parting| (self.sessions.len(), parting)));
                    self.sessions.push(session);
                }
            }
        }
        self.greetings = kept;
        partings
    }

    fn take_signals(&mut self) -> Result<(), ServeFault> {
        while let Some(received) = self.signals.read_signal()? {
            if i32::try_from(received.ssi_signo).is_ok_and(|number| number != Signal::SIGCHLD as i32) {
                self.stop();
            }
        }
        // One signal may stand for several children.
        self.reap();
        Ok(())
    }

    /// Reaps every child that has ended, including adopted ones. The loop is bounded, because each reaped child is
    /// gone.
    fn reap(&mut self) {
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            let Some((pid, code)) = code_of(status) else { return };
            if self.sessions.iter().any(|session| session.running() == Some(pid)) {
                // Log the reason for the end, if known, before the end.
                let told = self.watch.as_mut().and_then(Watch::look_at_memory);
                self.tell(told);
            }
            if let Some(session) = self.sessions.iter_mut().find(|session| session.running() == Some(pid)) {
                session.exited(code);
            }
        }
    }

    /// Returns the addresses of the callers whose commands run.
    fn callers(&self) -> impl Iterator<Item = IpAddr> {
        self.sessions.iter().filter(|session| session.running().is_some()).map(|session| session.peer.ip())
    }

    /// While a command runs, checks now and then for its ranks and for external trouble.
    fn look_around(&mut self, now: Instant) {
        let callers: Vec<IpAddr> = self.callers().collect();
        if callers.is_empty() || !self.pace.is_due(now) {
            return;
        }
        let ended = self.ranks.look(Pid::this().as_raw(), now);
        self.tell(ended.map(|text| format!("{}: {text}", self.pod)));
        self.pace.looked(now, self.ranks.is_empty());
        let Some(watch) = &mut self.watch else { return };
        let was_doubtful = watch.is_doubtful();
        let told = watch.look(now, &callers);
        if watch.is_doubtful() && !was_doubtful {
            self.pace.hasten(now);
        }
        self.tell(told);
    }

    /// Logs each finding, and reports it to one caller.
    fn tell(&mut self, found: impl IntoIterator<Item = String>) {
        for text in found {
            report::line(&text);
            if let Some(session) = self.sessions.iter_mut().find(|session| session.running().is_some()) {
                session.remark(&text);
            }
        }
    }

    fn tick_sessions(&mut self, now: Instant) -> Vec<(usize, Parting)> {
        let mut partings = Vec::new();
        for (index, session) in self.sessions.iter_mut().enumerate() {
            match session.tick(now) {
                Ok(Some(code)) => log_end(session, &mut self.ranks, &format!("ended with code {code}")),
                Ok(None) => {}
                Err(parting) => {
                    partings.push((index, parting));
                    continue;
                }
            }
            partings.extend(session.send().err().map(|parting| (index, parting)));
        }
        partings
    }

    /// Removes finished sessions, and ends the processes of lost callers.
    fn part(&mut self, mut partings: Vec<(usize, Parting)>) {
        // From the back, so that the other indices stay valid. Of several partings of one session the first counts.
        partings.sort_by_key(|(index, _)| std::cmp::Reverse(*index));
        partings.dedup_by_key(|(index, _)| *index);
        for (index, parting) in partings {
            let session = self.sessions.swap_remove(index);
            if let (Parting::Lost(reason), false) = (&parting, session.is_over()) {
                log_end(&session, &mut self.ranks, &format!("lost its caller: {reason}"));
            }
            // A stopping agent ends everything in its own time.
            if let Some(shell) = session.running().filter(|_| self.stopping.is_none()) {
                self.endings.push(begin_ending(shell));
            }
        }
    }

    fn end_processes(&mut self, now: Instant) {
        self.endings.retain_mut(|ending| now < ending.next || !is_ended(ending, now));
    }

    /// Stops accepting calls, and asks the ranks to end.
    fn stop(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        report::line(&format!("asked to stop: ending {} sessions", self.sessions.len()));
        self.listener = None;
        self.announcement = None;
        self.greetings.clear();
        self.stopping = Some(Stopping::begin(self.grace, Instant::now()));
    }

    /// Returns whether the agent was stopped and either everything has ended or the time is over.
    fn is_stopped(&mut self, now: Instant) -> bool {
        // A finished session goes when its caller, which then has the exit code, closes the connection.
        let callers_served = self.sessions.iter().all(Session::is_opening);
        self.stopping.as_mut().is_some_and(|stopping| stopping.advance(now, callers_served))
    }
}

/// Reads before it writes: a caller that is gone may have sent something before.
fn attend(session: &mut Session, events: PollFlags, buffer: &mut [u8]) -> Result<(), Parting> {
    if events.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR) {
        session.receive(buffer)?;
    }
    Ok(())
}

/// Logs the ranks that were seen, and then how the session ended.
fn log_end(session: &Session, ranks: &mut Ranks, how: &str) {
    ranks.take().iter().for_each(|line| report::line(line));
    let (number, seconds) = (session.terms.number, session.begun.elapsed().as_secs_f64());
    let (peer, program) = (session.peer, session.program());
    report::line(&format!("session {number} from {peer}: {program} {how} after {seconds:.1} s"));
}

/// Sends SIGTERM to the processes of a command: to its group first, because its first process knows best how to end
/// the others.
fn begin_ending(shell: Pid) -> Ending {
    let known = descendants::belonging(&descendants::all(), shell);
    let _ = killpg(shell, Signal::SIGTERM);
    let _ = killpg(shell, Signal::SIGCONT);
    Ending { root: shell, known, next: Instant::now() + KILL_GRACE, looks: 0 }
}

/// Kills what is left. Returns true if nothing is left or it has been tried often enough.
fn is_ended(ending: &mut Ending, now: Instant) -> bool {
    let processes = descendants::all();
    let mut left = descendants::belonging(&processes, ending.root);
    left.retain(|process| process.pid != std::process::id().cast_signed());
    left.extend(descendants::still_there(&ending.known, &processes));
    if left.is_empty() || ending.looks >= MAX_LOOKS {
        return true;
    }
    descendants::signal_each(&left, Signal::SIGKILL);
    ending.known = left;
    ending.looks += 1;
    ending.next = now + LOOK_AGAIN;
    false
}

impl Complaints {
    /// Logs why a connection was refused, unless such a line was logged a moment ago.
    fn add(&mut self, peer: SocketAddr, reason: &str) {
        let now = Instant::now();
        if now < self.next {
            self.kept_back += 1;
            return;
        }
        let more = match std::mem::take(&mut self.kept_back) {
            0 => String::new(),
            count => format!(" ({count} more since the last such line)"),
        };
        report::line(&format!("refused {peer}: {reason}{more}"));
        self.next = now + COMPLAIN_EVERY;
    }
}
