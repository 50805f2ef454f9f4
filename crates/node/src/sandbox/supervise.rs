//! The sandbox's loop: one thread and one `poll`, which never blocks on a single pod.
//!
//! Input: requests of the node, ends of children, and the children's reports through their status pipes. Output:
//! answers. When the node has ended (end of file on the socket), everything ends. Many pods can be created at the same
//! time: each step runs in a child, and the loop only connects the steps.

mod children;
mod pods;
mod processes;

use std::collections::{HashMap, VecDeque};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::CloneFlags;
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::unistd::{Pid, pipe2};

use super::cgroups::{Cgroups, Group};
use super::container::Given;
use super::frames::{take_frame, write_frame};
use super::network::Network;
use super::protocol::{
    Answer, AnswerBody, Covered, Failure, MAX_PENDING_DESCRIPTORS, Request, RequestBody, Streams,
};
use super::{check, kernel};
use crate::mode::ModeKind;

/// The first index of a pod's outer interface; the kernel's own are lower.
pub const FIRST_INTERFACE_INDEX: u32 = 16;
/// The most bytes of one read from the socket.
const READ_BYTES: usize = 64 << 10;
/// The most descriptors per message; a process's three streams, with room to spare.
const DESCRIPTORS_PER_MESSAGE: usize = 8;

/// Why the loop ended early.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// A system call of the loop itself failed.
    #[error("{0}: {1}")]
    System(&'static str, #[source] std::io::Error),
    /// The peer sent something that is not a request.
    #[error("the node sent an invalid frame: {0}")]
    Frame(String),
}

fn system(what: &'static str) -> impl FnOnce(Errno) -> SuperviseError {
    move |error| SuperviseError::System(what, error.into())
}

/// The initial state of the loop.
pub struct Setup {
    /// The connection to the node.
    pub socket: OwnedFd,
    /// Bytes already read from the socket.
    pub inbox: Vec<u8>,
    /// The mode in force.
    pub mode: ModeKind,
    /// The parent cgroups, if limits can be enforced.
    pub cgroups: Option<Cgroups>,
    /// The pods' outer network; `None` in plain mode.
    pub network: Option<Network>,
    /// The machine's files that are hidden from containers.
    pub covered: Covered,
}

struct Supervisor {
    setup: Setup,
    signals: SignalFd,
    descriptors: VecDeque<OwnedFd>,
    descriptor_limit: (rlim_t, rlim_t),
    pods: HashMap<String, Pod>,
    children: HashMap<Pid, Child>,
    by_request: HashMap<u64, Pid>,
    next_interface: u32,
}

struct Pod {
    interface: u32,
    address: std::net::Ipv4Addr,
    namespaces: Vec<(CloneFlags, OwnedFd)>,
    memory_directories: Vec<PathBuf>,
    /// A write to this pipe lets the child that creates the pod continue.
    go: Option<OwnedFd>,
}

/// A child process, and what to do when it ends.
struct Child {
    request: u64,
    task: Task,
    /// The pod of a container.
    pod: Option<String>,
    /// The process to send signals to.
    main: Pid,
    /// The pipe for reports. End of file means that the program has started.
    status: Option<OwnedFd>,
    report: Vec<u8>,
    /// The pipe through which a keeper reports how the first process ended.
    result: Option<OwnedFd>,
}

enum Task {
    Pod(String),
    Container(Option<Group>),
    /// A process beside the container started by this request.
    Exec(u64),
    Check,
    Measure,
}

/// Serves the node until it ends, then kills every child.
///
/// # Errors
/// When the loop cannot continue. All children have been killed then, too.
pub fn supervise(setup: Setup) -> Result<(), SuperviseError> {
    let signals = watch_children()?;
    let descriptor_limit = getrlimit(Resource::RLIMIT_NOFILE).map_err(system("read the descriptor limit"))?;
    let _ = setrlimit(Resource::RLIMIT_NOFILE, descriptor_limit.1, descriptor_limit.1);
    let mut supervisor = Supervisor {
        setup,
        signals,
        descriptors: VecDeque::new(),
        descriptor_limit,
        pods: HashMap::new(),
        children: HashMap::new(),
        by_request: HashMap::new(),
        next_interface: FIRST_INTERFACE_INDEX,
    };
    let result = supervisor.serve();
    supervisor.end_all();
    result
}

/// Returns a descriptor that is readable when a child has ended.
///
/// # Errors
/// When the kernel refuses.
pub fn watch_children() -> Result<SignalFd, SuperviseError> {
    let mut waited = SigSet::empty();
    waited.add(Signal::SIGCHLD);
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&waited), None).map_err(system("block SIGCHLD"))?;
    SignalFd::with_flags(&waited, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(system("watch for SIGCHLD"))
}

impl Supervisor {
    fn serve(&mut self) -> Result<(), SuperviseError> {
        loop {
            while let Some(request) = self.next_request()? {
                self.handle(request)?;
            }
            let (socket, signals, reports) = self.wait()?;
            for pid in reports {
                self.read_report(pid)?;
            }
            if signals {
                while let Ok(Some(_)) = self.signals.read_signal() {}
                self.reap()?;
            }
            if socket && !self.receive()? {
                return Ok(());
            }
        }
    }

    /// Waits for the socket, an ended child, or a report.
    fn wait(&self) -> Result<(bool, bool, Vec<Pid>), SuperviseError> {
        let reporting: Vec<(Pid, BorrowedFd<'_>)> = self
            .children
            .iter()
            .filter_map(|(pid, child)| child.status.as_ref().map(|status| (*pid, status.as_fd())))
            .collect();
        let mut polled = vec![
            PollFd::new(self.setup.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        polled.extend(reporting.iter().map(|(_, fd)| PollFd::new(*fd, PollFlags::POLLIN)));
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok((false, true, Vec::new())),
            Err(error) => return Err(system("wait for events")(error)),
        }
        let ready: Vec<bool> = polled.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        let reports =
            reporting.iter().zip(&ready[2..]).filter(|(_, ready)| **ready).map(|((pid, _), _)| *pid);
        Ok((ready[0], ready[1], reports.collect()))
    }

    /// Reads from the node. Returns `false` if the node has ended.
    fn receive(&mut self) -> Result<bool, SuperviseError> {
        let mut bytes = vec![0; READ_BYTES];
        let mut space = nix::cmsg_space!([std::os::fd::RawFd; DESCRIPTORS_PER_MESSAGE]);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg::<()>(self.setup.socket.as_raw_fd(), &mut slices, Some(&mut space), flags);
        let (count, fds) = match received {
            Ok(message) => {
                let rights = message.cmsgs().into_iter().flatten().filter_map(|part| match part {
                    ControlMessageOwned::ScmRights(fds) => Some(fds),
                    _ => None,
                });
                (message.bytes, rights.flatten().collect::<Vec<_>>())
            }
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(true),
            Err(Errno::ECONNRESET) => return Ok(false),
            Err(error) => return Err(system("read from the node")(error)),
        };
        self.descriptors.extend(kernel::adopt_received(fds));
        if self.descriptors.len() > MAX_PENDING_DESCRIPTORS {
            return Err(SuperviseError::Frame("too many descriptors without a request".to_owned()));
        }
        self.setup.inbox.extend_from_slice(&bytes[..count]);
        Ok(count > 0)
    }

    fn next_request(&mut self) -> Result<Option<Request>, SuperviseError> {
        take_frame(&mut self.setup.inbox).map_err(SuperviseError::Frame)
    }

    fn answer(&self, id: u64, body: AnswerBody) -> Result<(), SuperviseError> {
        write_frame(&self.setup.socket, &Answer { id, body })
            .map_err(|error| SuperviseError::System("answer the node", error))
    }

    fn fail(&self, id: u64, failure: Failure) -> Result<(), SuperviseError> {
        self.answer(id, AnswerBody::Failed(failure))
    }

    fn handle(&mut self, request: Request) -> Result<(), SuperviseError> {
        let id = request.id;
        let result = match request.body {
            RequestBody::Begin(_) => Err(Failure::new("the sandbox has already begun")),
            RequestBody::CreatePod(spec) if !self.setup.mode.isolates() => {
                self.pods.insert(spec.pod.clone(), Pod::plain(&spec));
                return self.answer(id, AnswerBody::PodReady);
            }
            RequestBody::CreatePod(spec) => self.create_pod(id, spec),
            RequestBody::RemovePod { pod } => {
                self.remove_pod(&pod);
                return self.answer(id, AnswerBody::Done);
            }
            RequestBody::Start(spec) => {
                self.given(spec.streams).and_then(|streams| self.start(id, &spec, &streams))
            }
            RequestBody::Exec(spec) => {
                self.given(spec.streams).and_then(|streams| self.exec(id, &spec, &streams))
            }
            RequestBody::Signal { target, signal } => {
                self.signal(target, signal);
                Ok(())
            }
            RequestBody::Check(spec) => self.check(id, move || check::check(&spec)),
            RequestBody::Filter(spec) => self.check(id, move || check::filter(&spec)),
            RequestBody::Measure => self.measure(id),
            RequestBody::Listen(spec) => match self.next_descriptor().and_then(|to| self.listen(spec, &to)) {
                Ok(()) => return self.answer(id, AnswerBody::Checked(Ok(()))),
                Err(failure) => Err(failure),
            },
            RequestBody::Connect(spec) => self.next_descriptor().and_then(|to| self.connect(id, &spec, &to)),
        };
        result.or_else(|failure| self.fail(id, failure))
    }

    fn next_descriptor(&mut self) -> Result<OwnedFd, Failure> {
        let missing = || Failure::new("the request came without its descriptors");
        self.descriptors.pop_front().ok_or_else(missing)
    }

    fn given(&mut self, streams: Streams) -> Result<Given, Failure> {
        Ok(match streams {
            Streams::Outputs => Given::Pipes(None, self.next_descriptor()?, self.next_descriptor()?),
            Streams::All => {
                Given::Pipes(Some(self.next_descriptor()?), self.next_descriptor()?, self.next_descriptor()?)
            }
            Streams::Terminal => Given::Terminal(self.next_descriptor()?),
        })
    }

    fn watch(&mut self, pid: Pid, child: Child) {
        self.by_request.insert(child.request, pid);
        self.children.insert(pid, child);
    }
}

/// Creates a pipe that closes on `execve` and whose reading end does not block.
fn pipe() -> Result<(OwnedFd, OwnedFd), Failure> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(|e| Failure::new(format!("create a pipe: {e}")))?;
    nix::fcntl::fcntl(&read, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
        .map_err(|e| Failure::new(format!("create a pipe: {e}")))?;
    Ok((read, write))
}
