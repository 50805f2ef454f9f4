//! The sandbox: a small, single-threaded process that creates namespaces and forks pods' processes.
//!
//! It is this same program, run again with a Unix socket as standard input. Because it is single-threaded, it can
//! safely fork and change namespaces, unlike the node with its many threads. It does not depend on Kubernetes: requests
//! in, answers out ([`protocol`]).
//!
//! Its first process, the guard, chooses the mode and stays outside. Its second is process 1 of a PID namespace, so
//! every pod ends with it. The guard then removes what the kernel does not: cgroups and the runtime directory.

mod cgroups;
pub mod check;
mod container;
mod frames;
mod kernel;
mod mounts;
mod network;
mod supervise;
mod tree;
mod usage;

pub use kernel::resize_terminal;

pub mod client;
pub mod protocol;

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getegid, geteuid};

use self::cgroups::Cgroups;
use self::network::Network;
use self::protocol::{Answer, AnswerBody, Begin, Covered, Failure, Request, RequestBody};
use self::supervise::{Setup, supervise};
use super::mode::{Mode, ModeChoice, ModeKind};

/// How long the second process may take to end its children after the node has ended, before it is killed.
const GRACE: std::time::Duration = std::time::Duration::from_secs(5);
/// Interval at which the guard checks whether the second process has ended, once the node has.
const GUARD_TICK_MILLIS: u16 = 20;
/// Standard input: the socket to the node.
const SOCKET: i32 = 0;

/// Runs the sandbox process. If the program was started through `Options::sandbox_program`, `main` must call this
/// first, before it starts any thread, and then exit with the returned code.
pub fn sandbox_main() -> std::process::ExitCode {
    let socket = kernel::adopt(SOCKET);
    match guard(socket) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(_) => std::process::ExitCode::FAILURE,
    }
}

fn guard(socket: OwnedFd) -> Result<(), Failure> {
    let mut inbox = Vec::new();
    let (id, begin) = first_request(&socket, &mut inbox)?;
    let _ = nix::unistd::setsid();
    let refuse = |failure: Failure| {
        let _ = frames::write_frame(&socket, &Answer { id, body: AnswerBody::Failed(failure.clone()) });
        failure
    };
    let (kind, reason) = choose(begin.mode).map_err(refuse)?;
    let cgroups = Cgroups::prepare(&begin.cgroup);
    let mode = Mode { kind, reason, limits: cgroups.as_ref().map(drop).map_err(Clone::clone) };
    let cgroups = cgroups.ok();
    if kind.isolates() {
        isolate(kind).map_err(refuse)?;
    } else {
        let _ = nix::sys::prctl::set_child_subreaper(true);
    }
    let signals = supervise::watch_children().map_err(|e| refuse(Failure::new(e.to_string())))?;
    let setup = Inherited { inbox, cgroups: cgroups.clone(), covered: begin.covered.clone() };
    let pid = kernel::fork(CloneFlags::empty(), || second(&socket, id, mode.clone(), setup))
        .map_err(|e| refuse(Failure::new(format!("fork: {e}"))))?;
    watch_over(pid, &socket, &signals);
    if !kind.isolates() {
        tree::kill_descendants(nix::unistd::getpid());
    }
    clean(&begin, cgroups.as_ref());
    Ok(())
}

fn first_request(socket: &OwnedFd, inbox: &mut Vec<u8>) -> Result<(u64, Begin), Failure> {
    let mut reader = std::fs::File::from(
        socket.try_clone().map_err(|e| Failure::new(format!("the socket on standard input: {e}")))?,
    );
    let mut chunk = [0; 4096];
    loop {
        if let Some(request) = frames::take_frame::<Request>(inbox).map_err(Failure::new)? {
            return match request.body {
                RequestBody::Begin(begin) => Ok((request.id, begin)),
                _ => Err(Failure::new("the first request must be Begin")),
            };
        }
        match reader.read(&mut chunk) {
            Ok(0) => return Err(Failure::new("the node closed the connection before its first request")),
            Ok(count) => inbox.extend_from_slice(&chunk[..count]),
            Err(error) => return Err(Failure::new(format!("read from the node: {error}"))),
        }
    }
}

/// Chooses the mode by trying each in its own child process. Also returns why no stronger mode is in force.
fn choose(wish: ModeChoice) -> Result<(ModeKind, Option<String>), Failure> {
    let forced = |kind: ModeKind| match attempt(kind) {
        Ok(()) => Ok((kind, (kind != ModeKind::Rootless).then(|| format!("mode {kind} was requested")))),
        Err(why) => Err(Failure::new(format!("mode {kind} is not possible here: {why}"))),
    };
    match wish {
        ModeChoice::Rootless => forced(ModeKind::Rootless),
        ModeChoice::Root => forced(ModeKind::Root),
        ModeChoice::Plain => Ok((ModeKind::Plain, Some("mode plain was requested".to_owned()))),
        ModeChoice::Auto => {
            let Err(why) = attempt(ModeKind::Rootless) else { return Ok((ModeKind::Rootless, None)) };
            let mut reason = format!("rootless: {why}");
            match attempt(ModeKind::Root) {
                Ok(()) => Ok((ModeKind::Root, Some(reason))),
                Err(why) => {
                    reason.push_str(&format!("; root: {why}"));
                    Ok((ModeKind::Plain, Some(reason)))
                }
            }
        }
    }
}

/// Tries a mode's complete set-up, including a pair of interfaces, in a child that leaves nothing behind.
fn attempt(kind: ModeKind) -> Result<(), String> {
    if kind == ModeKind::Root && !geteuid().is_root() {
        return Err("the caller is not root".to_owned());
    }
    let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|e| e.to_string())?;
    let tried = kernel::fork(CloneFlags::empty(), || {
        let outcome = isolate(kind).and_then(|()| {
            let all = || set_up_inside().and_then(|mut network| try_interface(&mut network));
            let inner = kernel::fork(CloneFlags::empty(), || match all() {
                Ok(()) => 0,
                Err(failure) => container::report(write.as_fd(), &failure),
            });
            inner.and_then(|pid| waitpid(pid, None)).map_err(|e| Failure::new(e.to_string()))
        });
        match outcome {
            Ok(WaitStatus::Exited(_, 0)) => 0,
            Ok(_) => 1,
            Err(failure) => container::report(write.as_fd(), &failure),
        }
    });
    drop(write);
    let ended = tried.and_then(|pid| waitpid(pid, None)).map_err(|e| e.to_string())?;
    let mut told = String::new();
    let _ = std::fs::File::from(read).read_to_string(&mut told);
    if matches!(ended, WaitStatus::Exited(_, 0)) {
        return Ok(());
    }
    let failure = told.lines().find_map(|line| serde_json::from_str::<Failure>(line.strip_prefix('F')?).ok());
    Err(failure.map_or_else(|| "the attempt failed without a message".to_owned(), |failure| failure.message))
}

fn try_interface(network: &mut Network) -> Result<(), Failure> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Failure::new(format!("{what}: {error}"));
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC)
        .map_err(|e| failed("create a pod's namespaces", &e))?;
    let own = std::fs::File::open("/proc/self/ns/net").map_err(|e| failed("open a namespace", &e))?;
    let address = std::net::Ipv4Addr::new(10, 77, 0, 1);
    network
        .connect_pod(supervise::FIRST_INTERFACE_INDEX, address, own.as_raw_fd())
        .and_then(|()| Network::open()?.configure_pod(address))
        .map_err(|e| failed("create a pod's network", &e))
}

/// Leaves the machine's namespaces. The new PID namespace starts with the next child.
fn isolate(kind: ModeKind) -> Result<(), Failure> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let mut flags = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    if kind == ModeKind::Rootless {
        flags |= CloneFlags::CLONE_NEWUSER;
    }
    unshare(flags).map_err(|e| Failure::new(format!("unshare: {e}")))?;
    if kind == ModeKind::Rootless {
        container::map_ids(0, uid, 0, gid).map_err(|e| Failure::new(format!("map ids: {e}")))?;
    }
    Ok(())
}

fn set_up_inside() -> Result<Network, Failure> {
    mounts::prepare_template()?;
    let mut network = Network::open().map_err(|e| Failure::new(e.to_string()))?;
    network.prepare_outer().map_err(|e| Failure::new(e.to_string()))?;
    Ok(network)
}

/// What the second process gets from the first.
struct Inherited {
    inbox: Vec<u8>,
    cgroups: Option<Cgroups>,
    covered: Covered,
}

/// Runs the second process: sets up inside the namespaces, then serves requests.
fn second(socket: &OwnedFd, id: u64, mode: Mode, inherited: Inherited) -> u8 {
    let Inherited { inbox, cgroups, covered } = inherited;
    // End when the guard ends. The guard in turn waits for this process.
    let _ =
        nix::sys::prctl::set_pdeathsig(if mode.kind.isolates() { Signal::SIGKILL } else { Signal::SIGTERM });
    let _ = nix::sys::prctl::set_name(c"odh-sandbox");
    let network = if mode.kind.isolates() {
        match set_up_inside() {
            Ok(network) => Some(network),
            Err(failure) => {
                let _ = frames::write_frame(socket, &Answer { id, body: AnswerBody::Failed(failure) });
                return 1;
            }
        }
    } else {
        let _ = nix::sys::prctl::set_child_subreaper(true);
        None
    };
    let kind = mode.kind;
    if frames::write_frame(socket, &Answer { id, body: AnswerBody::Began(mode) }).is_err() {
        return 1;
    }
    let Ok(socket) = socket.try_clone() else { return 1 };
    u8::from(supervise(Setup { socket, inbox, mode: kind, cgroups, network, covered }).is_err())
}

/// Waits for the second process. Once the node has ended, kills it after [`GRACE`].
fn watch_over(pid: Pid, socket: &OwnedFd, signals: &SignalFd) {
    let mut gone_since: Option<std::time::Instant> = None;
    loop {
        while let Ok(Some(_)) = signals.read_signal() {}
        match waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => {}
            _ => return,
        }
        let child = PollFd::new(signals.as_fd(), PollFlags::POLLIN);
        match gone_since {
            None => {
                // Only wait for hang-up; the second process reads the data.
                let mut polled = [child, PollFd::new(socket.as_fd(), PollFlags::empty())];
                let _ = poll(&mut polled, PollTimeout::NONE);
                if polled[1].any().unwrap_or(true) {
                    gone_since = Some(std::time::Instant::now());
                }
            }
            Some(since) => {
                if since.elapsed() > GRACE {
                    let _ = kill(pid, Signal::SIGKILL);
                }
                let _ = poll(&mut [child], PollTimeout::from(GUARD_TICK_MILLIS));
            }
        }
    }
}

fn clean(begin: &Begin, cgroups: Option<&Cgroups>) {
    if let Some(cgroups) = cgroups {
        cgroups.remove();
    }
    remove_contents(&begin.runtime);
}

/// Empties the runtime directory. Pods' mounts are gone with their namespaces, so nothing outside is affected.
fn remove_contents(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let _ = match entry.file_type() {
            Ok(kind) if kind.is_dir() => std::fs::remove_dir_all(&path),
            _ => std::fs::remove_file(&path),
        };
    }
}
