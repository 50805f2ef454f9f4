//! Starts containers, programs in containers, checks and connections, each in a child, and signals them.

use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, pipe2};

use super::{Child, Supervisor, Task, pipe};
use crate::sandbox::cgroups::Group;
use crate::sandbox::container::{self, Given, Surroundings};
use crate::sandbox::protocol::{ConnectSpec, ContainerSpec, ExecSpec, Failure, ListenSpec};
use crate::sandbox::usage::{self, Subject};
use crate::sandbox::{check, kernel, tree};

impl Supervisor {
    pub(super) fn start(&mut self, id: u64, spec: &ContainerSpec, streams: &Given) -> Result<(), Failure> {
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

    pub(super) fn exec(&mut self, id: u64, spec: &ExecSpec, streams: &Given) -> Result<(), Failure> {
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
    pub(super) fn check(&mut self, id: u64, attempt: impl Fn() -> Result<(), String>) -> Result<(), Failure> {
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
    pub(super) fn connect(&mut self, id: u64, spec: &ConnectSpec, to: &OwnedFd) -> Result<(), Failure> {
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
    pub(super) fn listen(&self, spec: ListenSpec, to: &OwnedFd) -> Result<(), Failure> {
        if self.setup.network.is_none() {
            return Err(Failure::new("in plain mode pods share the machine's network"));
        }
        let socket = check::listen(spec)
            .map_err(|error| Failure::new(format!("listen at port {}: {error}", spec.port)))?;
        container::send_descriptor(to, socket.as_fd())
    }

    /// Measures the containers' usage in a child.
    pub(super) fn measure(&mut self, id: u64) -> Result<(), Failure> {
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
    pub(super) fn signal(&self, target: u64, signal: i32) {
        let Some((pid, child)) =
            self.by_request.get(&target).and_then(|pid| Some((*pid, self.children.get(pid)?)))
        else {
            return;
        };
        let Ok(signal) = Signal::try_from(signal) else { return };
        let _ = self.send(pid, child, signal);
    }

    pub(super) fn send(&self, pid: Pid, child: &Child, signal: Signal) -> nix::Result<()> {
        let kept = !self.setup.mode.isolates() && !matches!(child.task, Task::Check);
        match (kept, signal) {
            (true, Signal::SIGKILL) => kill(pid, Signal::SIGTERM),
            _ => kill(child.main, signal),
        }
    }
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
