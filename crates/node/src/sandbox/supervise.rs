//! The sandbox's loop: one thread and one `poll`, which never blocks on a single pod.
//!
//! Input: requests of the node, ends of children, and the children's reports through their status pipes. Output:
//! answers. When the node has ended (end of file on the socket), everything ends. Many pods can be created at the same
//! time: each step runs in a child, and the loop only connects the steps.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io::{IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid, pipe2};

use super::cgroups::{Cgroups, Group};
use super::container::{self, Given, Surroundings};
use super::network::Network;
use super::protocol::{
    Answer, AnswerBody, ConnectSpec, ContainerSpec, Covered, ExecSpec, Exit, Failure, ListenSpec,
    MAX_FRAME_BYTES, MAX_PENDING_DESCRIPTORS, PodSpec, Request, RequestBody, Streams, Usage,
};
use super::usage::Subject;
use super::{check, kernel, mounts, tree, usage};
use crate::mode::ModeKind;

/// The first index of a pod's outer interface; the kernel's own are lower.
pub const FIRST_INTERFACE_INDEX: u32 = 16;
/// The most bytes of one read from the socket.
const READ_BYTES: usize = 64 << 10;
/// The most descriptors per message; a process's three streams, with room to spare.
const DESCRIPTORS_PER_MESSAGE: usize = 8;
/// The most that is read of a child's report, which is a few lines, or the usage of hundreds of containers.
const MAX_REPORT_BYTES: usize = 256 << 10;

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

    // --- pods ---

    fn create_pod(&mut self, id: u64, spec: PodSpec) -> Result<(), Failure> {
        for (directory, size) in &spec.memory_directories {
            mounts::back_by_memory(directory, *size)?;
        }
        let (status, report) = pipe()?;
        let (wait, go) = pipe()?;
        let pid = kernel::fork(CloneFlags::empty(), || {
            kernel::close_from(3, &[report.as_raw_fd(), wait.as_raw_fd()]);
            match make_pod(&spec, &report, wait) {
                Ok(()) => 0,
                Err(failure) => container::report(report.as_fd(), &failure),
            }
        })
        .map_err(|e| Failure::new(format!("fork: {e}")))?;
        let interface = self.next_interface;
        self.next_interface += 1;
        let memory_directories = spec.memory_directories.into_iter().map(|(path, _)| path).collect();
        let pod = Pod {
            interface,
            address: spec.address,
            namespaces: Vec::new(),
            memory_directories,
            go: Some(go),
        };
        self.pods.insert(spec.pod.clone(), pod);
        self.watch(pid, Child::new(id, Task::Pod(spec.pod), pid, status));
        Ok(())
    }

    /// Continues after the child has created the pod's namespaces: opens them, connects the network, and lets the child
    /// continue.
    fn connect_pod(&mut self, pid: Pid, name: &str) -> Result<(), Failure> {
        let Some(pod) = self.pods.get_mut(name) else { return Ok(()) };
        let open = |kind: &str| fs::File::open(format!("/proc/{pid}/ns/{kind}")).map(OwnedFd::from);
        for (kind, flag) in [
            ("net", CloneFlags::CLONE_NEWNET),
            ("uts", CloneFlags::CLONE_NEWUTS),
            ("ipc", CloneFlags::CLONE_NEWIPC),
        ] {
            let namespace =
                open(kind).map_err(|e| Failure::new(format!("open the pod's namespace {kind}: {e}")))?;
            if let ("net", Some(network)) = (kind, self.setup.network.as_mut()) {
                network
                    .connect_pod(pod.interface, pod.address, namespace.as_raw_fd())
                    .map_err(|e| Failure::new(e.to_string()))?;
            }
            pod.namespaces.push((flag, namespace));
        }
        if let Some(go) = pod.go.take() {
            let _ = fs::File::from(go).write_all(b"g");
        }
        Ok(())
    }

    fn remove_pod(&mut self, name: &str) {
        let pod = self.pods.remove(name);
        // Before its processes are killed, because a machine that loses its power closes no connection.
        if let (Some(network), Some(pod)) = (self.setup.network.as_mut(), &pod) {
            network.disconnect_pod(pod.interface);
        }
        // Its containers have ended by now, unless the node's power was cut.
        for (pid, child) in self.children.iter().filter(|(_, child)| child.pod.as_deref() == Some(name)) {
            let _ = self.send(*pid, child, Signal::SIGKILL);
        }
        let Some(pod) = pod else { return };
        if self.setup.mode.isolates() {
            pod.memory_directories.iter().for_each(|directory| mounts::release_memory(directory));
        }
    }

    // --- processes ---

    fn start(&mut self, id: u64, spec: &ContainerSpec, streams: &Given) -> Result<(), Failure> {
        let pod = self.pods.get(&spec.pod).ok_or_else(|| Failure::new("the pod has no sandbox"))?;
        let group = match &self.setup.cgroups {
            Some(cgroups) if spec.limits.any() => {
                Some(cgroups.make(&format!("{}_{}_{id}", spec.pod, spec.name), &spec.limits)?)
            }
            _ => None,
        };
        let around = self.surroundings(&pod.namespaces, group.as_ref(), streams);
        let (status, report) = pipe()?;
        let forked = if self.setup.mode.isolates() {
            let flags = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS;
            let pid = kernel::fork(flags, || match container::become_container(spec, &around) {
                Ok(()) => 0,
                Err(failure) => container::report(report.as_fd(), &failure),
            });
            pid.map(|pid| (pid, None))
        } else {
            fork_keeper(report, &around, || container::become_container(spec, &around))
        };
        match forked {
            Ok((pid, result)) => {
                let mut child = Child::new(id, Task::Container(group), pid, status);
                child.result = result;
                child.pod = Some(spec.pod.clone());
                self.watch(pid, child);
                Ok(())
            }
            Err(error) => {
                group.inspect(Group::remove);
                Err(Failure::new(format!("fork: {error}")))
            }
        }
    }

    fn exec(&mut self, id: u64, spec: &ExecSpec, streams: &Given) -> Result<(), Failure> {
        let container = self.by_request.get(&spec.container).and_then(|pid| self.children.get(pid));
        let (group, main) = match container {
            Some(Child { task: Task::Container(group), main, .. }) => (group.clone(), *main),
            _ => return Err(Failure::new("the container is not running")),
        };
        let (status, report) = pipe()?;
        let forked = if self.setup.mode.isolates() {
            let namespaces = container::namespaces_of(main)
                .map_err(|e| Failure::new(format!("the container is not running: {e}")))?;
            let around = self.surroundings(&namespaces, group.as_ref(), streams);
            fork_joined(&report, &around, spec).map(|pid| (pid, None))
        } else {
            let around = self.surroundings(&[], group.as_ref(), streams);
            fork_keeper(report, &around, || container::become_exec(spec, &around))
        };
        let (pid, result) = forked.map_err(|e| Failure::new(format!("fork: {e}")))?;
        let mut child = Child::new(id, Task::Exec(spec.container), pid, status);
        child.result = result;
        self.watch(pid, child);
        Ok(())
    }

    fn surroundings<'a>(
        &'a self,
        namespaces: &'a [(CloneFlags, OwnedFd)],
        group: Option<&'a Group>,
        streams: &'a Given,
    ) -> Surroundings<'a> {
        Surroundings {
            mode: self.setup.mode,
            namespaces,
            group,
            streams,
            covered: &self.setup.covered,
            descriptor_limit: self.descriptor_limit,
        }
    }

    /// Runs an attempt in the pods' outer network, in a child.
    fn check(&mut self, id: u64, attempt: impl Fn() -> Result<(), String>) -> Result<(), Failure> {
        let (status, report) = pipe()?;
        let pid = kernel::fork(CloneFlags::empty(), || {
            kernel::close_from(3, &[report.as_raw_fd()]);
            kernel::reset_signals();
            match attempt() {
                Ok(()) => 0,
                Err(message) => container::report(report.as_fd(), &Failure::new(message)),
            }
        })
        .map_err(|e| Failure::new(format!("fork: {e}")))?;
        self.watch(pid, Child::new(id, Task::Check, pid, status));
        Ok(())
    }

    /// Connects from inside a pod's network, or to a pod's address from outside, and sends the connection to the node.
    fn connect(&mut self, id: u64, spec: &ConnectSpec, to: &OwnedFd) -> Result<(), Failure> {
        let pod = self.pods.get(&spec.pod).ok_or_else(|| Failure::new("the pod has no sandbox"))?;
        let inside = pod.namespaces.iter().find(|(kind, _)| *kind == CloneFlags::CLONE_NEWNET);
        let network = inside.filter(|_| spec.address.is_none());
        let (status, report) = pipe()?;
        let pid = kernel::fork(CloneFlags::empty(), || {
            let mut needed = vec![report.as_raw_fd(), to.as_raw_fd()];
            needed.extend(network.map(|(_, fd)| fd.as_raw_fd()));
            kernel::close_from(3, &needed);
            kernel::reset_signals();
            let connected = network
                .map_or(Ok(()), |(kind, fd)| setns(fd, *kind).map_err(|e| format!("join the pod: {e}")))
                .and_then(|()| check::connect(spec))
                .map_err(Failure::new);
            match connected.and_then(|stream| container::send_descriptor(to, stream.as_fd())) {
                Ok(()) => 0,
                Err(failure) => container::report(report.as_fd(), &failure),
            }
        })
        .map_err(|e| Failure::new(format!("fork: {e}")))?;
        self.watch(pid, Child::new(id, Task::Check, pid, status));
        Ok(())
    }

    /// Listens in the pods' outer network, and sends the socket to the node.
    fn listen(&self, spec: ListenSpec, to: &OwnedFd) -> Result<(), Failure> {
        if self.setup.network.is_none() {
            return Err(Failure::new("in plain mode pods share the machine's network"));
        }
        let socket = check::listen(spec)
            .map_err(|error| Failure::new(format!("listen at port {}: {error}", spec.port)))?;
        container::send_descriptor(to, socket.as_fd())
    }

    /// Measures the containers' usage in a child.
    fn measure(&mut self, id: u64) -> Result<(), Failure> {
        let subjects: Vec<Subject<'_>> = self
            .children
            .values()
            .filter_map(|child| match &child.task {
                Task::Container(group) => {
                    let beside = self.children.iter().filter(|(_, other)| {
                        matches!(other.task, Task::Exec(container) if container == child.request)
                    });
                    let roots = beside.map(|(pid, _)| pid.as_raw()).chain([child.main.as_raw()]).collect();
                    Some(Subject { process: child.request, roots, group: group.as_ref() })
                }
                _ => None,
            })
            .collect();
        let isolated = self.pods.iter().filter(|(_, pod)| pod.interface != 0);
        let interfaces: Vec<_> =
            isolated.map(|(uid, pod)| (uid.clone(), format!("pod{}", pod.interface))).collect();
        let (status, report) = pipe()?;
        let pid = kernel::fork(CloneFlags::empty(), || {
            kernel::close_from(3, &[report.as_raw_fd()]);
            kernel::reset_signals();
            let found = serde_json::to_vec(&usage::look(&subjects, &interfaces)).unwrap_or_default();
            let told = fs::File::from(report).write_all(&[b"U", found.as_slice(), b"\n"].concat());
            u8::from(told.is_err())
        })
        .map_err(|e| Failure::new(format!("fork: {e}")))?;
        self.watch(pid, Child::new(id, Task::Measure, pid, status));
        Ok(())
    }

    /// Forwards a signal. If there is a keeper, SIGKILL goes to all its processes.
    fn signal(&self, target: u64, signal: i32) {
        let Some((pid, child)) =
            self.by_request.get(&target).and_then(|pid| Some((*pid, self.children.get(pid)?)))
        else {
            return;
        };
        let Ok(signal) = Signal::try_from(signal) else { return };
        let _ = self.send(pid, child, signal);
    }

    fn send(&self, pid: Pid, child: &Child, signal: Signal) -> nix::Result<()> {
        let kept = !self.setup.mode.isolates() && !matches!(child.task, Task::Check);
        match (kept, signal) {
            (true, Signal::SIGKILL) => kill(pid, Signal::SIGTERM),
            _ => kill(child.main, signal),
        }
    }

    // --- reports of children ---

    fn read_report(&mut self, pid: Pid) -> Result<(), SuperviseError> {
        let Some(child) = self.children.get_mut(&pid) else { return Ok(()) };
        let ended = child.read_status();
        let made = child.report.first() == Some(&b'N');
        if let (true, Task::Pod(name)) = (made, &child.task) {
            let (name, id) = (name.clone(), child.request);
            child.report.clear();
            if let Err(failure) = self.connect_pod(pid, &name) {
                let _ = kill(pid, Signal::SIGKILL);
                return self.fail(id, failure);
            }
            return Ok(());
        }
        if let Some(main) = child.reported_main() {
            child.main = main;
        }
        let started = ended && child.failure().is_none();
        let (id, is_program) = (child.request, matches!(child.task, Task::Container(_) | Task::Exec(_)));
        if started && is_program {
            return self.answer(id, AnswerBody::Started);
        }
        Ok(())
    }

    fn reap(&mut self) -> Result<(), SuperviseError> {
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            match tree::ending(status) {
                Some((pid, how)) => self.ended(pid, how)?,
                None if status == nix::sys::wait::WaitStatus::StillAlive => break,
                None => {}
            }
        }
        Ok(())
    }

    fn ended(&mut self, pid: Pid, how: tree::Ending) -> Result<(), SuperviseError> {
        // Process its last report first.
        if self.children.get(&pid).is_some_and(|child| child.status.is_some()) {
            self.read_report(pid)?;
        }
        let Some(child) = self.children.remove(&pid) else { return Ok(()) };
        self.by_request.remove(&child.request);
        let id = child.request;
        let failure = child.failure();
        match (&child.task, failure) {
            (Task::Pod(name), failure) => {
                if let (None, (0, _)) = (&failure, how) {
                    return self.answer(id, AnswerBody::PodReady);
                }
                self.remove_pod(&name.clone());
                self.fail(
                    id,
                    failure.unwrap_or_else(|| Failure::new("creating the pod's network was interrupted")),
                )
            }
            (Task::Check, failure) => {
                self.answer(id, AnswerBody::Checked(failure.map_or(Ok(()), |f| Err(f.message))))
            }
            (Task::Measure, _) => match child.usage() {
                Some(usage) => self.answer(id, AnswerBody::Used(usage)),
                None => self.fail(id, Failure::new("cannot measure the usage of containers")),
            },
            (task, failure) => {
                let group = if let Task::Container(group) = task { group.as_ref() } else { None };
                let out_of_memory = group.is_some_and(Group::out_of_memory);
                group.inspect(|group| group.remove());
                if child.result.is_some() {
                    if let Task::Container(_) = task {
                        self.end_execs_of(id);
                    }
                    self.kill_orphans();
                }
                if let Some(failure) = failure {
                    return self.fail(id, failure);
                }
                let (code, signal) = child.kept_result().unwrap_or(how);
                self.answer(id, AnswerBody::Exited(Exit { code, signal, out_of_memory }))
            }
        }
    }

    /// Plain mode: ends the processes run beside a container. Otherwise the kernel does that.
    fn end_execs_of(&self, container: u64) {
        for (pid, child) in &self.children {
            if matches!(child.task, Task::Exec(beside) if beside == container) {
                let _ = kill(*pid, Signal::SIGTERM);
            }
        }
    }

    /// Plain mode: kills processes of a keeper that was killed. They have become our children.
    fn kill_orphans(&self) {
        // Read this list first: a process forked later than this is not in it and is not killed by mistake.
        let all = tree::descendants(getpid());
        let kept: Vec<Pid> = self.children.keys().copied().collect();
        let mut theirs: Vec<Pid> = kept.iter().flat_map(|pid| tree::descendants(*pid)).collect();
        theirs.extend(&kept);
        for pid in all {
            if !theirs.contains(&pid) {
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
    }

    fn end_all(&mut self) {
        for (pid, child) in &self.children {
            let kept = child.result.is_some();
            let _ = kill(*pid, if kept { Signal::SIGTERM } else { Signal::SIGKILL });
        }
        if !self.setup.mode.isolates() {
            tree::kill_descendants(getpid());
        }
        for child in self.children.values() {
            if let Task::Container(Some(group)) = &child.task {
                group.remove();
            }
        }
    }
}

impl Pod {
    fn plain(spec: &PodSpec) -> Pod {
        Pod {
            interface: 0,
            address: spec.address,
            namespaces: Vec::new(),
            memory_directories: Vec::new(),
            go: None,
        }
    }
}

impl Child {
    fn new(request: u64, task: Task, pid: Pid, status: OwnedFd) -> Child {
        Child { request, task, pod: None, main: pid, status: Some(status), report: Vec::new(), result: None }
    }

    /// Reads what is available. At the end of the pipe, closes it and returns `true`.
    fn read_status(&mut self) -> bool {
        let Some(status) = &self.status else { return false };
        let mut chunk = [0; 4096];
        loop {
            match nix::unistd::read(status, &mut chunk) {
                Ok(0) => {
                    self.status = None;
                    return true;
                }
                Ok(count) if self.report.len() < MAX_REPORT_BYTES => {
                    self.report.extend_from_slice(&chunk[..count]);
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return false,
            }
        }
    }

    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.report.split(|byte| *byte == b'\n')
    }

    fn failure(&self) -> Option<Failure> {
        let text = self.lines().find_map(|line| line.strip_prefix(b"F"))?;
        Some(serde_json::from_slice(text).unwrap_or_else(|_| Failure::new("a step failed without a message")))
    }

    fn usage(&self) -> Option<Usage> {
        serde_json::from_slice(self.lines().find_map(|line| line.strip_prefix(b"U"))?).ok()
    }

    fn reported_main(&self) -> Option<Pid> {
        let text = self.lines().find_map(|line| line.strip_prefix(b"M"))?;
        std::str::from_utf8(text).ok()?.parse().ok().map(Pid::from_raw)
    }

    fn kept_result(&self) -> Option<tree::Ending> {
        let mut text = String::new();
        fs::File::from(self.result.as_ref()?.try_clone().ok()?).read_to_string(&mut text).ok()?;
        let (code, signal) = text.split_once(' ')?;
        Some((code.parse().ok()?, signal.parse().ok().filter(|signal| *signal != 0)))
    }
}

/// Creates a pipe that closes on `execve` and whose reading end does not block.
fn pipe() -> Result<(OwnedFd, OwnedFd), Failure> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(|e| Failure::new(format!("create a pipe: {e}")))?;
    nix::fcntl::fcntl(&read, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
        .map_err(|e| Failure::new(format!("create a pipe: {e}")))?;
    Ok((read, write))
}

/// Runs in a child: creates a pod's namespaces and, once the sandbox has connected it, sets up its own network
/// interface.
fn make_pod(spec: &PodSpec, report: &OwnedFd, wait: OwnedFd) -> Result<(), Failure> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Failure::new(format!("{what}: {error}"));
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC)
        .map_err(|e| failed("create the pod's namespaces", &e))?;
    nix::unistd::sethostname(&spec.hostname).map_err(|e| failed("set the pod's hostname", &e))?;
    nix::unistd::write(report, b"N\n").map_err(|e| failed("report", &e))?;
    nix::fcntl::fcntl(&wait, nix::fcntl::FcntlArg::F_SETFL(OFlag::empty()))
        .map_err(|e| failed("wait", &e))?;
    let mut go = [0];
    fs::File::from(wait).read_exact(&mut go).map_err(|e| failed("wait for the pod's network", &e))?;
    // As all current container runtimes do: any user may bind any port (KEP-2763's safe sysctls).
    fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
        .map_err(|e| failed("open low ports to the pod", &e))?;
    for (name, value) in &spec.sysctls {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        fs::write(&path, value).map_err(|e| failed(&format!("set the sysctl {name} to {value:?}"), &e))?;
    }
    Network::open()
        .and_then(|mut network| network.configure_pod(spec.address))
        .map_err(|e| failed("set up the pod's network", &e))
}

/// Forks a keeper (plain mode) whose child runs `program`. Also returns the pipe on which the keeper reports the
/// result.
fn fork_keeper(
    report: OwnedFd,
    around: &Surroundings<'_>,
    program: impl FnOnce() -> Result<(), Failure>,
) -> Result<(Pid, Option<OwnedFd>), Errno> {
    let (result, tell) = pipe2(OFlag::O_CLOEXEC)?;
    let pid = kernel::fork(CloneFlags::empty(), || {
        let mut needed = container::needed(&report, around);
        needed.push(tell.as_raw_fd());
        kernel::close_from(3, &needed);
        kernel::reset_signals();
        let first = || match program() {
            Ok(()) => 0,
            Err(failure) => container::report(report.as_fd(), &failure),
        };
        // Close the keeper's copy of the status pipe as soon as the program has its own.
        let ended = tree::keep(first, |pid| {
            let _ = nix::unistd::write(&report, format!("M{pid}\n").as_bytes());
            let _ = nix::unistd::close(report.as_raw_fd());
        });
        let (code, signal) = ended.unwrap_or((1, None));
        let _ = nix::unistd::write(&tell, format!("{code} {}", signal.unwrap_or(0)).as_bytes());
        u8::try_from(code).unwrap_or(1)
    })?;
    Ok((pid, Some(result)))
}

/// Forks a process that joins a container's namespaces and runs `spec` there; it ends when that process ends.
fn fork_joined(report: &OwnedFd, around: &Surroundings<'_>, spec: &ExecSpec) -> Result<Pid, Errno> {
    kernel::fork(CloneFlags::empty(), || {
        kernel::close_from(3, &container::needed(report, around));
        let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
        if let Err(failure) = container::join_all(around.namespaces) {
            return container::report(report.as_fd(), &failure);
        }
        let forked = kernel::fork(CloneFlags::empty(), || match container::become_exec(spec, around) {
            Ok(()) => 0,
            Err(failure) => container::report(report.as_fd(), &failure),
        });
        let Ok(pid) = forked else {
            return container::report(report.as_fd(), &Failure::new("fork inside the container"));
        };
        let _ = nix::unistd::close(report.as_raw_fd());
        loop {
            match waitpid(pid, None).map(tree::ending) {
                Ok(Some((_, (code, _)))) => return u8::try_from(code).unwrap_or(255),
                Ok(None) | Err(Errno::EINTR) => {}
                Err(_) => return 255,
            }
        }
    })
}

/// Takes the first complete frame from `inbox`.
///
/// # Errors
/// When it is too long, or not JSON of the expected type.
pub fn take_frame<T: serde::de::DeserializeOwned>(inbox: &mut Vec<u8>) -> Result<Option<T>, String> {
    let Some(head) = inbox.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*head) as usize;
    if length > MAX_FRAME_BYTES {
        return Err(format!("{length} bytes are too many"));
    }
    let Some(body) = inbox.get(4..4 + length) else { return Ok(None) };
    let value = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    inbox.drain(..4 + length);
    Ok(Some(value))
}

/// Writes one frame.
///
/// # Errors
/// When the peer has ended.
pub fn write_frame(socket: &OwnedFd, value: &impl serde::Serialize) -> std::io::Result<()> {
    let frame = frame(value).map_err(std::io::Error::other)?;
    let mut rest = frame.as_slice();
    while !rest.is_empty() {
        match nix::sys::socket::send(socket.as_raw_fd(), rest, MsgFlags::MSG_NOSIGNAL) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Encodes a value as a frame.
///
/// # Errors
/// When it is too long.
pub fn frame(value: &impl serde::Serialize) -> Result<Vec<u8>, String> {
    let body = serde_json::to_vec(value).map_err(|e| e.to_string())?;
    if body.len() > MAX_FRAME_BYTES {
        return Err(format!("{} bytes are too many for one message", body.len()));
    }
    let length = u32::try_from(body.len()).map_err(|e| e.to_string())?;
    Ok([length.to_be_bytes().as_slice(), &body].concat())
}
