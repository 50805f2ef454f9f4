//! Creates and removes pods: their namespaces, network and memory.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::{Child, Pod, Supervisor, Task, pipe};
use crate::sandbox::network::Network;
use crate::sandbox::protocol::{Failure, PodSpec};
use crate::sandbox::{container, kernel, mounts};

impl Supervisor {
    pub(super) fn create_pod(&mut self, id: u64, spec: PodSpec) -> Result<(), Failure> {
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
    pub(super) fn connect_pod(&mut self, pid: Pid, name: &str) -> Result<(), Failure> {
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

    pub(super) fn remove_pod(&mut self, name: &str) {
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
}

impl Pod {
    pub(super) fn plain(spec: &PodSpec) -> Pod {
        Pod {
            interface: 0,
            address: spec.address,
            namespaces: Vec::new(),
            memory_directories: Vec::new(),
            go: None,
        }
    }
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
