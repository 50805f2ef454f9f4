//! Starts a shell for one command, in a session of its own. The one file with `unsafe`: the kernel's calls between fork and
//! exec can be made in no other way.
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

/// Runs `command` with `/bin/sh -c`, with pipes for its standard streams whose ends here do not block. The shell leads a new
/// session and process group, has no signal blocked, and has the agent's environment and working directory.
pub fn spawn(command: &[u8]) -> io::Result<Child> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(OsStr::from_bytes(command));
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: setsid(2) and sigprocmask(2) are async-signal-safe, and nothing else is done, allocated or locked there.
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

/// Pipes have a description for each end, so that the command's end stays as it is.
fn unblock(pipe: &impl std::os::fd::AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_truncate(fcntl(pipe, FcntlArg::F_GETFL)?);
    fcntl(pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}
