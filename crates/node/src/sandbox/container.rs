//! The steps from fork to `execve` of a container's first process, and of a process run beside it.
//!
//! Runs in a forked child. It never returns to the sandbox's loop: either the program takes over, or a [`Failure`] is
//! written to the status pipe. The steps run in the order of the functions below, and the order matters.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::resource::{Resource, rlim_t, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nix::unistd::{
    AccessFlags, Gid, Uid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, eaccess, execve, setsid,
};

use super::cgroups::Group;
use super::kernel;
use super::mounts::{self, View};
use super::protocol::{ContainerSpec, Covered, ExecSpec, Failure, Security, User};
use crate::mode::ModeKind;

/// Above the last capability of any known kernel; the kernel refuses the excess.
const CAPABILITY_NUMBERS: u32 = 64;
/// The number of `CAP_SYS_ADMIN`.
const SYS_ADMIN: u32 = 21;

/// The child's input besides the container's description.
pub struct Surroundings<'a> {
    /// The mode in force.
    pub mode: ModeKind,
    /// The pod's namespaces.
    pub namespaces: &'a [(CloneFlags, OwnedFd)],
    /// The cgroups with the container's limits.
    pub group: Option<&'a Group>,
    /// The standard streams of the process.
    pub streams: &'a Given,
    /// The machine's files that are hidden from the container.
    pub covered: &'a Covered,
    /// The sandbox's own limits (soft, hard) on open descriptors.
    pub descriptor_limit: (rlim_t, rlim_t),
}

/// The descriptors received with a request.
pub enum Given {
    /// Standard input (or none), output and error.
    Pipes(Option<OwnedFd>, OwnedFd, OwnedFd),
    /// The socket to which the other end of a new terminal is sent.
    Terminal(OwnedFd),
}

impl Given {
    fn all(&self) -> impl Iterator<Item = &OwnedFd> {
        let (first, rest) = match self {
            Given::Pipes(input, output, error) => (input.as_ref(), [Some(output), Some(error)]),
            Given::Terminal(socket) => (Some(socket), [None, None]),
        };
        first.into_iter().chain(rest.into_iter().flatten())
    }
}

/// Reports a failure to the sandbox and returns the exit code that containerd shows for it.
pub fn report(status: BorrowedFd<'_>, failure: &Failure) -> u8 {
    let text = serde_json::to_vec(failure).unwrap_or_default();
    if let Ok(copy) = status.try_clone_to_owned() {
        let _ = fs::File::from(copy).write_all(&[b"F", text.as_slice(), b"\n"].concat());
    }
    128
}

fn step(what: &'static str) -> impl FnOnce(Errno) -> Failure {
    move |error| Failure::new(format!("{what}: {error}"))
}

/// Runs every step from the fork to the program. Returns only if one fails.
///
/// # Errors
/// The failed step. The process must then exit.
pub fn become_container(spec: &ContainerSpec, around: &Surroundings<'_>) -> Result<(), Failure> {
    begin(around)?;
    if around.mode.isolates() {
        for (kind, namespace) in around.namespaces {
            setns(namespace, *kind).map_err(step("join the pod's namespaces"))?;
        }
        let mut view = mounts::prepare_container(&spec.mounts, around.covered)?;
        enter_working_directory(&spec.working_directory, Some(&mut view))?;
        if spec.security.read_only_root {
            view.seal()?;
            // Enter it again, because the first time went through a mount that was still writable.
            enter_working_directory(&spec.working_directory, None)?;
        }
    } else {
        enter_working_directory(&spec.working_directory, None)?;
    }
    become_user(&spec.user, around.mode, false, &spec.security)?;
    open_terminal(around.streams)?;
    run(&spec.argv, &spec.env)
}

/// As [`become_container`], for a process beside a running container whose namespaces are already joined.
///
/// # Errors
/// The failed step.
pub fn become_exec(spec: &ExecSpec, around: &Surroundings<'_>) -> Result<(), Failure> {
    begin(around)?;
    enter_working_directory(&spec.working_directory, None)?;
    // The container's user namespace, if any, is already joined with the others.
    become_user(&spec.user, around.mode, true, &spec.security)?;
    open_terminal(around.streams)?;
    run(&spec.argv, &spec.env)
}

fn begin(around: &Surroundings<'_>) -> Result<(), Failure> {
    kernel::reset_signals();
    let _ = setsid();
    let (soft, hard) = around.descriptor_limit;
    let _ = setrlimit(Resource::RLIMIT_NOFILE, soft, hard);
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    if let Some(group) = around.group {
        group.join().map_err(|e| Failure::new(format!("join the container's cgroup: {e}")))?;
    }
    let null = fs::File::open("/dev/null").map_err(|e| Failure::new(format!("open /dev/null: {e}")))?;
    let (input, output, error) = match around.streams {
        Given::Pipes(input, output, error) => {
            (input.as_ref().map_or(null.as_fd(), AsFd::as_fd), output.as_fd(), error.as_fd())
        }
        // Used until the terminal is opened, which needs the container's own `/dev` and user.
        Given::Terminal(_) => (null.as_fd(), null.as_fd(), null.as_fd()),
    };
    take_streams(input, output, error)
}

fn take_streams(input: BorrowedFd<'_>, output: BorrowedFd<'_>, error: BorrowedFd<'_>) -> Result<(), Failure> {
    dup2_stdin(input)
        .and_then(|()| dup2_stdout(output))
        .and_then(|()| dup2_stderr(error))
        .map_err(step("set up the standard streams"))
}

/// Opens a terminal in the container's own `/dev/pts`, makes it the controlling terminal and the standard streams, and
/// sends its other end to the node.
fn open_terminal(streams: &Given) -> Result<(), Failure> {
    let Given::Terminal(socket) = streams else { return Ok(()) };
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let other = nix::pty::posix_openpt(flags).map_err(step("create a terminal (open /dev/ptmx)"))?;
    nix::pty::unlockpt(&other).map_err(step("unlock the terminal"))?;
    let name = nix::pty::ptsname_r(&other).map_err(step("name the terminal"))?;
    let own = open(name.as_str(), flags, nix::sys::stat::Mode::empty())
        .map_err(|e| Failure::new(format!("open the terminal {name}: {e}")))?;
    kernel::take_terminal(&own).map_err(step("set the controlling terminal"))?;
    take_streams(own.as_fd(), own.as_fd(), own.as_fd())?;
    send_descriptor(socket, other.as_fd())
}

/// Sends a descriptor to the node.
///
/// # Errors
/// When the node no longer waits for it.
pub fn send_descriptor(socket: &OwnedFd, descriptor: BorrowedFd<'_>) -> Result<(), Failure> {
    let raw = [descriptor.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&raw)];
    let byte = [std::io::IoSlice::new(b"d")];
    sendmsg::<()>(socket.as_raw_fd(), &byte, &rights, MsgFlags::MSG_NOSIGNAL, None)
        .map(drop)
        .map_err(step("pass the descriptor"))
}

fn enter_working_directory(directory: &str, view: Option<&mut View>) -> Result<(), Failure> {
    let wanted = Path::new(if directory.is_empty() { "/" } else { directory });
    if let Some(view) = view {
        if !wanted.is_dir() {
            view.ensure(wanted, true)?;
        }
    } else if !wanted.is_dir() {
        let _ = fs::create_dir_all(wanted);
    }
    chdir(wanted)
        .map_err(|e| Failure::new(format!("change to the working directory {}: {e}", wanted.display())))
}

/// Switches to the container's user. In root mode this changes ids. In rootless mode there is only one id, and a nested
/// user namespace shows it under the requested number. In plain mode nothing can change.
fn become_user(user: &User, mode: ModeKind, joined: bool, security: &Security) -> Result<(), Failure> {
    if mode.isolates() {
        drop_capabilities(security);
    }
    match mode {
        ModeKind::Root => {
            let groups: Vec<Gid> = user.groups.iter().map(|group| Gid::from_raw(*group)).collect();
            let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
            nix::unistd::setgroups(&groups)
                .and_then(|()| nix::unistd::setresgid(gid, gid, gid))
                .and_then(|()| nix::unistd::setresuid(uid, uid, uid))
                .map_err(step("change to the container's user"))?;
        }
        ModeKind::Rootless if !joined && needs_user_namespace(user, security) => {
            unshare(CloneFlags::CLONE_NEWUSER).map_err(step("create the container's user namespace"))?;
            map_ids(user.uid, 0, user.gid, 0)
                .map_err(|e| Failure::new(format!("map the container's user: {e}")))?;
            // A new user namespace starts with all capabilities.
            drop_capabilities(security);
        }
        ModeKind::Rootless | ModeKind::Plain => {}
    }
    if !security.may_gain_privileges {
        nix::sys::prctl::set_no_new_privs().map_err(step("forbid new privileges"))?;
    }
    // Must come after the change of ids, which clears it.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(step("tie the process to the sandbox"))
}

/// Returns whether a container needs its own user namespace in rootless mode: to show the only id under another number,
/// or to keep `CAP_SYS_ADMIN` from undoing the container's mounts, which belong to the outer namespace.
fn needs_user_namespace(user: &User, security: &Security) -> bool {
    user.uid != 0 || user.gid != 0 || security.capabilities.contains(&SYS_ADMIN)
}

fn drop_capabilities(security: &Security) {
    for capability in (0..CAPABILITY_NUMBERS).filter(|number| !security.capabilities.contains(number)) {
        let _ = kernel::drop_capability(capability);
    }
}

/// Maps one user and one group in the calling process's new user namespace. More is not needed, and the kernel would
/// not allow it without privileges outside.
///
/// # Errors
/// Errors of the writes.
pub fn map_ids(inside_uid: u32, outside_uid: u32, inside_gid: u32, outside_gid: u32) -> std::io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{inside_uid} {outside_uid} 1\n"))?;
    fs::write("/proc/self/gid_map", format!("{inside_gid} {outside_gid} 1\n"))
}

/// Replaces the process with the program.
fn run(argv: &[String], env: &[(String, String)]) -> Result<(), Failure> {
    let command =
        argv.first().ok_or_else(|| Failure { message: "no command specified".into(), command: true })?;
    let lookup = |name: &str| env.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let program = find(command, lookup("PATH").unwrap_or_default())?;
    let home = lookup("HOME").is_none().then(|| ("HOME".to_owned(), home_directory()));
    let strings = |values: Vec<String>| -> Result<Vec<CString>, Failure> {
        values
            .into_iter()
            .map(|value| {
                CString::new(value).map_err(|_| Failure::new("a NUL byte in the command or environment"))
            })
            .collect()
    };
    let arguments = strings(argv.to_vec())?;
    let environment =
        strings(env.iter().chain(home.as_ref()).map(|(key, value)| format!("{key}={value}")).collect())?;
    let path = CString::new(program.as_os_str().as_bytes())
        .map_err(|_| Failure::new("a NUL byte in the command"))?;
    let Err(error) = execve(&path, &arguments, &environment);
    Err(not_run(command, &error.desc().to_lowercase()))
}

fn not_run(command: &str, why: &str) -> Failure {
    Failure { message: format!("exec: {command:?}: {why}"), command: true }
}

/// Finds a command as a shell does. Failures are worded as those of Go's `exec`, which container runtimes show.
fn find(command: &str, path: &str) -> Result<PathBuf, Failure> {
    if command.contains('/') {
        return match runnable(Path::new(command)) {
            Ok(()) => Ok(PathBuf::from(command)),
            Err(Errno::ENOENT) => {
                Err(not_run(command, &format!("stat {command}: no such file or directory")))
            }
            Err(error) => Err(not_run(command, &error.desc().to_lowercase())),
        };
    }
    // As in Go's LookPath, a faulty candidate is skipped, whatever its fault.
    path.split(':')
        .filter(|directory| !directory.is_empty())
        .map(|directory| Path::new(directory).join(OsStr::new(command)))
        .find(|candidate| runnable(candidate).is_ok())
        .ok_or_else(|| not_run(command, "executable file not found in $PATH"))
}

fn runnable(path: &Path) -> Result<(), Errno> {
    let found = fs::metadata(path).map_err(|e| e.raw_os_error().map_or(Errno::ENOENT, Errno::from_raw))?;
    if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
        return Err(Errno::EACCES);
    }
    eaccess(path, AccessFlags::X_OK)
}

/// Returns the user's home directory if it is writable, otherwise the container's private directory.
fn home_directory() -> String {
    let home = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().map(|user| user.dir);
    home.filter(|home| home != Path::new("/") && home.is_dir())
        .filter(|home| eaccess(home, AccessFlags::W_OK | AccessFlags::X_OK).is_ok())
        .map_or_else(|| "/tmp".to_owned(), |home| home.display().to_string())
}

/// Opens the namespaces of a running process, in the order in which they must be joined. The user namespace is last,
/// because joining it gives up the rights to join the others.
///
/// # Errors
/// When the process has ended.
pub fn namespaces_of(pid: nix::unistd::Pid) -> std::io::Result<Vec<(CloneFlags, OwnedFd)>> {
    let own_user = fs::read_link("/proc/self/ns/user")?;
    let their_user = fs::read_link(format!("/proc/{pid}/ns/user"))?;
    let mut opened = Vec::new();
    for (name, kind) in [
        ("net", CloneFlags::CLONE_NEWNET),
        ("uts", CloneFlags::CLONE_NEWUTS),
        ("ipc", CloneFlags::CLONE_NEWIPC),
        ("pid", CloneFlags::CLONE_NEWPID),
        ("mnt", CloneFlags::CLONE_NEWNS),
        ("user", CloneFlags::CLONE_NEWUSER),
    ] {
        if name != "user" || own_user != their_user {
            opened.push((kind, fs::File::open(format!("/proc/{pid}/ns/{name}"))?.into()));
        }
    }
    Ok(opened)
}

/// Joins namespaces opened by [`namespaces_of`].
///
/// # Errors
/// When the kernel refuses.
pub fn join_all(namespaces: &[(CloneFlags, OwnedFd)]) -> Result<(), Failure> {
    for (kind, namespace) in namespaces {
        setns(namespace, *kind).map_err(|e| Failure::new(format!("join the container ({kind:?}): {e}")))?;
    }
    Ok(())
}

/// Returns the descriptors that a keeper or an exec's parent needs.
pub fn needed(status: &OwnedFd, around: &Surroundings<'_>) -> Vec<i32> {
    let mut needed = vec![status.as_raw_fd()];
    needed.extend(around.streams.all().map(AsRawFd::as_raw_fd));
    needed.extend(around.namespaces.iter().map(|(_, fd)| fd.as_raw_fd()));
    needed
}
