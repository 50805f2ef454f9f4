//! System calls without a safe wrapper: forking with new namespaces, dropping capabilities, closing descriptors.
//!
//! The only file of this crate with `unsafe`. It contains no decisions.
#![expect(unsafe_code, reason = "clone, prctl and close_range have no safe wrapper; see each SAFETY comment")]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc;
use nix::sched::CloneFlags;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};
use nix::unistd::Pid;

/// Forks. The child has the new namespaces given by `flags`, runs `child`, and exits with its result.
///
/// The caller must be single-threaded: only the calling thread continues in the child.
///
/// # Errors
/// Errors of `clone(2)`.
pub fn fork(flags: CloneFlags, child: impl FnOnce() -> u8) -> Result<Pid, Errno> {
    let flags = libc::c_long::from(flags.bits()) | libc::c_long::from(libc::SIGCHLD);
    let null: libc::c_long = 0;
    // SAFETY: with neither CLONE_VM nor a stack this is fork(2): the child gets a copy of everything. The process is
    // single-threaded, so no lock is held by a thread that the child lacks. The child never returns from here.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, null, null, null, null) };
    match Errno::result(pid)? {
        0 => {
            let code = child();
            // SAFETY: _exit only ends the process; no destructor or buffer of the parent is touched.
            unsafe { libc::_exit(i32::from(code)) }
        }
        pid => Ok(Pid::from_raw(pid as libc::pid_t)),
    }
}

/// Removes `capability` from the bounding set, so that no later program can have it.
///
/// # Errors
/// `EINVAL` past the last capability of the kernel; `EPERM` without `CAP_SETPCAP`.
pub fn drop_capability(capability: u32) -> Result<(), Errno> {
    // SAFETY: prctl with PR_CAPBSET_DROP reads one integer.
    let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0) };
    Errno::result(result).map(drop)
}

/// Closes every descriptor from `first` on except those in `keep`.
pub fn close_from(first: RawFd, keep: &[RawFd]) {
    let mut keep: Vec<RawFd> = keep.iter().copied().filter(|fd| *fd >= first).collect();
    keep.sort_unstable();
    let mut from = first;
    for fd in keep.into_iter().chain([RawFd::MAX]) {
        if fd > from {
            // SAFETY: the caller runs in a forked child that uses none of these descriptors again; their owners in
            // this process are never dropped, since the child leaves by _exit or execve.
            unsafe { libc::close_range(from as libc::c_uint, (fd - 1) as libc::c_uint, 0) };
        }
        from = fd.saturating_add(1);
    }
}

/// Takes ownership of a descriptor that the process inherited.
pub fn adopt(fd: RawFd) -> OwnedFd {
    // SAFETY: called once, at the start, for the socket that the parent passed as standard input; nothing else in
    // this process uses that number.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Takes ownership of descriptors just received over a socket.
pub fn adopt_received(fds: Vec<RawFd>) -> Vec<OwnedFd> {
    // SAFETY: the kernel made these descriptors for this message; nothing else knows them.
    fds.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect()
}

/// Makes a terminal the controlling terminal of the calling process, which must lead a session without one.
///
/// # Errors
/// Errors of `ioctl(2)`.
pub fn take_terminal(terminal: &OwnedFd) -> Result<(), Errno> {
    // SAFETY: TIOCSCTTY reads one integer and touches no memory of ours.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) };
    Errno::result(result).map(drop)
}

/// Sets a terminal's size, through its other end. Its processes get SIGWINCH.
///
/// # Errors
/// Errors of `ioctl(2)`.
pub fn resize_terminal(other: &OwnedFd, columns: u16, rows: u16) -> Result<(), Errno> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCSWINSZ reads one winsize, which lives until the call returns.
    let result = unsafe { libc::ioctl(other.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    Errno::result(result).map(drop)
}

/// Resets a child's signals to the state that a new program expects: nothing blocked, nothing ignored.
pub fn reset_signals() {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in Signal::iterator() {
        if signal != Signal::SIGKILL && signal != Signal::SIGSTOP {
            // SAFETY: SIG_DFL installs no handler of ours.
            let _ = unsafe { sigaction(signal, &default) };
        }
    }
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
}
