//! A call to the caller's own host. Intel MPI's `mpiexec` makes one where the Launcher's host takes ranks, too; the others start
//! those themselves. No agent serves in a Launcher, so the command is run in place.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::arguments::RemoteCommand;
use crate::ready::ready;
use crate::settings::Settings;

/// Whether a host is this pod, in which no agent serves.
pub fn is_here(host: &str, settings: &Settings) -> bool {
    let own = settings.pod_name.clone().or_else(|| nix::unistd::gethostname().ok()?.into_string().ok());
    is_name(host, &own.unwrap_or_default()) && ready(settings).is_err()
}

/// Whether a host is the pod of this name: a pod's name is the first label of its host's.
fn is_name(host: &str, pod: &str) -> bool {
    let first = |name: &str| name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    !pod.is_empty() && first(host) == first(pod)
}

/// Replaces this process with the command, and so returns only a failure.
pub fn run(call: &RemoteCommand) -> io::Error {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(OsStr::from_bytes(&call.command));
    if call.without_stdin {
        shell.stdin(Stdio::null());
    }
    shell.exec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_known_by_the_first_label_of_its_host() {
        assert!(is_name("pi-launcher-0-0.pi.team.svc", "pi-launcher-0-0"));
        assert!(is_name("PI-launcher", "pi-launcher.cluster"));
        assert!(!is_name("pi-launcher-0-1.pi", "pi-launcher-0-0"));
        assert!(!is_name("", ""));
    }
}
