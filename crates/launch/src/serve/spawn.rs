//! Starts a shell for one command, in a session of its own. The one file with `unsafe`: there is no other way to
//! make system calls between fork and exec.
#![expect(
    unsafe_code,
    reason = "pre_exec is the only way to make a session and to unblock signals in the child"
)]

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::SigSet;

/// Runs `command` with `/bin/sh -c`. Our ends of its pipes are non-blocking. The shell leads a new session and
/// process group, has no blocked signals, and inherits the agent's environment and working directory.
pub fn spawn(command: &[u8]) -> io::Result<Child> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(OsStr::from_bytes(command));
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: setsid(2) and sigprocmask(2) are async-signal-safe, and the closure does nothing else: no allocation,
    // no locks.
    unsafe {
        shell.pre_exec(|| {
            nix::unistd::setsid()?;
            SigSet::empty().thread_set_mask()?;
            Ok(())
        });
    }
    let child = shell.spawn()?;
    child.stdin.as_ref().map_or(Ok(()), unblock)?;
    child.stdout.as_ref().map_or(Ok(()), unblock)?;
    child.stderr.as_ref().map_or(Ok(()), unblock)?;
    Ok(child)
}

/// Each end of a pipe has a file description of its own, so the command's end stays blocking.
fn unblock(pipe: &impl std::os::fd::AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_truncate(fcntl(pipe, FcntlArg::F_GETFL)?);
    fcntl(pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}
