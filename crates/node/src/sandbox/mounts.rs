//! A container's view of the file system: that of the machine, with the pod's mounts on top.
//!
//! Nothing here writes to the machine's file system. If a mount point does not exist, its nearest existing parent is
//! covered by a small in-memory directory that shows the same entries through bind mounts, and the mount point is
//! created there. Runs in the sandbox (`prepare_template`) and in a container's first process (`prepare_container`),
//! each in its own mount namespace.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode as FileMode, mkdirat};
use nix::sys::statvfs::{FsFlags, statvfs};

use super::protocol::{Covered, Failure, MountSpec};

/// The most entries of a directory that can be covered, since every container pays for each entry.
const MAX_COVERED_ENTRIES: usize = 20_000;
/// The devices of every container: "Default Devices" of the OCI runtime specification.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Prefixes of accelerator and fabric devices, shown if the machine has them.
const ACCELERATORS: [&str; 6] = ["nvidia", "dri", "kfd", "infiniband", "accel", "dxg"];
/// Where a container's new root is assembled if needed: in the template's `/dev`, which no pod's mount hides.
const STAGING: &str = "/dev/.root";
/// Mount options for hiding a folder: an empty in-memory directory, with room for the node's own mount points.
const COVER: &str = "mode=555,size=64k";
/// The default `terminationMessagePath`; it is created so that it can be mounted on.
const TERMINATION_LOG: &str = "/dev/termination-log";

fn failure(what: &str, path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("{what} {}: {error}", path.display()))
}

fn bind(source: &Path, target: &Path) -> nix::Result<()> {
    mount(Some(source), target, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
}

/// Opens the source of a mount as a descriptor, so that later changes of paths or links have no effect.
fn open_source(spec: &MountSpec, secret: &[PathBuf]) -> Result<OwnedFd, Failure> {
    let mut source = hold(&spec.source)?;
    if !spec.below.as_os_str().is_empty() {
        source = open_below(&source, &spec.below).map_err(|error| sub_path_failure(&spec.below, error))?;
    }
    let path = fs::read_link(path_of(&source)).map_err(|e| failure("inspect", &spec.source, e))?;
    if !spec.own && secret.iter().any(|folder| path.starts_with(folder)) {
        return Err(failure(
            "mount",
            &path,
            "it belongs to the cluster itself, whose files pods may not access",
        ));
    }
    Ok(source)
}

fn sub_path_failure(below: &Path, error: Errno) -> Failure {
    match error {
        Errno::EXDEV | Errno::ELOOP => Failure::new(format!("subPath {below:?} points outside the volume")),
        error => Failure::new(format!("subPath {below:?}: {error}")),
    }
}

/// Opens a path below `root` and creates missing folders. The kernel refuses a path that leaves `root`, so a writer
/// inside `root` cannot redirect it elsewhere.
fn open_below(root: &OwnedFd, below: &Path) -> nix::Result<OwnedFd> {
    let look = |path: &Path| {
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        openat2(root, path, how)
    };
    match look(below) {
        Err(Errno::ENOENT) => {}
        found => return found,
    }
    let mut parent = look(Path::new("."))?;
    let mut path = PathBuf::new();
    for name in below.components() {
        path.push(name);
        parent = match look(&path) {
            Err(Errno::ENOENT) => {
                match mkdirat(&parent, name.as_os_str(), FileMode::from_bits_truncate(0o755)) {
                    // Created by another process meanwhile. A dangling link is detected by the next lookup.
                    Err(Errno::EEXIST) => {}
                    made => made?,
                }
                look(&path)?
            }
            found => found?,
        };
    }
    Ok(parent)
}

/// Returns a path to a descriptor's file for `mount(2)`. Later mounts do not affect it.
fn path_of(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

fn hold(path: &Path) -> Result<OwnedFd, Failure> {
    open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, FileMode::empty()).map_err(|e| failure("open", path, e))
}

fn mount_proc() -> Result<(), Failure> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>)
        .map_err(|e| failure("mount", Path::new("/proc"), e))
}

fn mount_memory(target: &Path, options: &str) -> Result<(), Failure> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), target, Some("tmpfs"), flags, Some(options))
        .map_err(|e| failure("mount memory on", target, e))
}

/// Sets up the sandbox's own mount namespace, which every container copies. Nothing propagates back, `/proc` shows the
/// sandbox's processes, and `/dev` has only what a container needs.
///
/// # Errors
/// When the kernel refuses a mount, as inside some containers. The mode cannot be used then.
pub fn prepare_template() -> Result<(), Failure> {
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
        .map_err(|e| failure("make private", Path::new("/"), e))?;
    mount_proc()?;
    prepare_devices()
}

fn prepare_devices() -> Result<(), Failure> {
    let old = hold(Path::new("/dev"))?;
    let names: Vec<OsString> = fs::read_dir(path_of(&old))
        .map_err(|e| failure("read", Path::new("/dev"), e))?
        .filter_map(|entry| entry.ok().map(|entry| entry.file_name()))
        .filter(|name| {
            let name = name.to_string_lossy();
            DEVICES.contains(&name.as_ref()) || ACCELERATORS.iter().any(|start| name.starts_with(start))
        })
        .collect();
    mount_memory(Path::new("/dev"), "mode=755")?;
    for name in names {
        show(&path_of(&old).join(&name), &Path::new("/dev").join(&name))?;
    }
    for (name, to) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(to, Path::new("/dev").join(name)).map_err(|e| failure("link", Path::new(name), e))?;
    }
    for directory in ["/dev/shm", "/dev/pts", STAGING] {
        fs::create_dir(directory).map_err(|e| failure("make", Path::new(directory), e))?;
    }
    fs::write(TERMINATION_LOG, "").map_err(|e| failure("make", Path::new(TERMINATION_LOG), e))?;
    Ok(())
}

/// Gives a container its own terminals. Some kernels refuse that inside a user namespace; requests for a terminal then
/// fail.
fn mount_terminals() {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    let options = "newinstance,ptmxmode=0666,mode=620";
    let _ = mount(Some("devpts"), "/dev/pts", Some("devpts"), flags, Some(options));
}

/// Mounts an in-memory file system on a directory, for all containers started later.
///
/// # Errors
/// When the kernel refuses.
pub fn back_by_memory(directory: &Path, size_bytes: Option<u64>) -> Result<(), Failure> {
    let options = match size_bytes {
        Some(size) => format!("mode=1777,size={size}"),
        None => "mode=1777".to_owned(),
    };
    mount_memory(directory, &options)
}

/// Undoes [`back_by_memory`].
pub fn release_memory(directory: &Path) {
    let _ = umount2(directory, MntFlags::MNT_DETACH);
}

/// Shows `source` at `target`, which must not exist. Symbolic links are copied, everything else is bind-mounted.
fn show(source: &Path, target: &Path) -> Result<(), Failure> {
    let kind = fs::symlink_metadata(source).map_err(|e| failure("inspect", source, e))?.file_type();
    if kind.is_symlink() {
        let to = fs::read_link(source).map_err(|e| failure("read link", source, e))?;
        return symlink(to, target).map_err(|e| failure("link", target, e));
    }
    make(target, kind.is_dir())?;
    bind(source, target).map_err(|e| failure("bind", target, e))
}

fn make(path: &Path, directory: bool) -> Result<(), Failure> {
    let made = if directory { fs::create_dir(path) } else { fs::File::create_new(path).map(drop) };
    made.map_err(|e| failure("create the mount point", path, e))
}

/// The state of a container's view while it is assembled.
#[derive(Default)]
pub struct View {
    /// Devices (`st_dev`) of our own in-memory directories. Files created there are visible to no one else.
    private_devices: HashSet<u64>,
    /// The pod's own writable mounts. Mount points created below one end up in the pod's volume, as with any runtime.
    writable: Vec<PathBuf>,
}

/// Sets up a container's mount namespace.
///
/// # Errors
/// When a source is missing, a target is of the wrong kind, or the kernel refuses.
pub fn prepare_container(mounts: &[MountSpec], covered: &Covered) -> Result<View, Failure> {
    let mut view = View::default();
    // Replace the root first, because descriptors opened in the old root go away with it.
    for spec in mounts {
        let (existing, missing) = nearest_existing(&spec.target)?;
        if existing == Path::new("/") && !missing.is_empty() && !view.is_private(&existing)? {
            view.cover_root()?;
        }
    }
    // Open sources before anything else is covered: a source may be below a target, above all below /tmp.
    let table = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|e| failure("read", Path::new("/proc/self/mountinfo"), e))?;
    let found = covered.secret.iter().filter_map(|folder| folder.canonicalize().ok());
    let secret: Vec<PathBuf> = found.flat_map(|folder| places_of(&folder, &table)).collect();
    let sources = mounts.iter().map(|spec| open_source(spec, &secret)).collect::<Result<Vec<_>, _>>()?;
    // Hide folders before mounting: a volume that shows a parent of a hidden folder then shows it hidden, too.
    view.conceal(&covered.personal, &secret)?;
    mount_proc()?;
    // Container runtimes give a container that mounts nothing there this much.
    mount_memory(Path::new("/dev/shm"), "mode=1777,size=64m")?;
    mount_terminals();
    for (spec, source) in mounts.iter().zip(&sources) {
        view.add(spec, source)?;
    }
    Ok(view)
}

/// Returns every path at which a folder is visible: its own, and those in other mounts of the same file system or parts
/// of it. `table` is `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
fn places_of(folder: &Path, table: &str) -> Vec<PathBuf> {
    // (device, mounted part of its file system, mount point)
    let mounts: Vec<(&str, PathBuf, PathBuf)> = table
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(2);
            Some((fields.next()?, unescape(fields.next()?), unescape(fields.next()?)))
        })
        .collect();
    let mut places = vec![folder.to_path_buf()];
    let around = mounts.iter().filter(|(_, _, point)| folder.starts_with(point));
    // Of several mounts at one point the last is visible.
    let Some((device, root, point)) = around.max_by_key(|(_, _, point)| point.components().count()) else {
        return places;
    };
    let Ok(inside) = folder.strip_prefix(point).map(|rest| root.join(rest)) else { return places };
    for (_, root, point) in mounts.iter().filter(|(other, _, _)| other == device) {
        match inside.strip_prefix(root) {
            Ok(rest) => places.push(point.join(rest)),
            Err(_) if root.starts_with(&inside) => places.push(point.clone()),
            Err(_) => {}
        }
    }
    // Normalize, since joining an empty path leaves a trailing slash.
    places = places.into_iter().map(|place| place.components().collect()).collect();
    places.sort();
    places.dedup();
    places
}

impl View {
    /// Hides what the container must not see.
    fn conceal(&mut self, personal: &[PathBuf], secret: &[PathBuf]) -> Result<(), Failure> {
        for path in personal {
            let Ok(path) = path.canonicalize() else { continue };
            if path.is_dir() {
                self.empty(&path)?;
            } else {
                bind(Path::new("/dev/null"), &path).map_err(|e| failure("cover", &path, e))?;
            }
        }
        // Skip folders already hidden, or replaced by another mount.
        secret.iter().filter(|path| path.is_dir()).try_for_each(|path| self.empty(path))
    }

    fn empty(&mut self, folder: &Path) -> Result<(), Failure> {
        mount_memory(folder, COVER)?;
        self.remember(folder)
    }

    fn add(&mut self, spec: &MountSpec, source: &OwnedFd) -> Result<(), Failure> {
        let source = path_of(source);
        let is_directory = fs::metadata(&source).map_err(|e| failure("inspect", &spec.source, e))?.is_dir();
        let target = self.ensure(&spec.target, is_directory)?;
        bind(&source, &target).map_err(|e| failure("mount", &spec.target, e))?;
        if spec.read_only {
            make_read_only(&target)?;
        } else {
            self.writable.push(target);
        }
        Ok(())
    }

    /// Ensures that `target` exists without touching the machine's file system. Returns its path with links resolved.
    ///
    /// # Errors
    /// When it exists as another kind of file, or cannot be created.
    pub fn ensure(&mut self, target: &Path, directory: bool) -> Result<PathBuf, Failure> {
        if !target.is_absolute() || target.components().any(|part| part == Component::ParentDir) {
            return Err(failure("mount", target, "the path must be absolute and without '..'"));
        }
        let (existing, missing) = nearest_existing(target)?;
        if missing.is_empty() {
            let found = fs::metadata(&existing).map_err(|e| failure("inspect", &existing, e))?;
            return match (found.is_dir(), directory) {
                (true, false) => Err(failure("mount a file on", target, "it is a directory")),
                (false, true) => Err(failure("mount a directory on", target, "it is a file")),
                _ => Ok(existing),
            };
        }
        if !self.is_private(&existing)? {
            self.cover(&existing)?;
        }
        let mut path = existing;
        let last = missing.len() - 1;
        for (position, name) in missing.into_iter().enumerate() {
            path.push(name);
            make(&path, position < last || directory)?;
        }
        Ok(path)
    }

    /// Makes everything read-only except writable volumes and what every container needs to write to: `/proc` and
    /// `/dev`, as under an OCI runtime's `root.readonly`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn seal(&self) -> Result<(), Failure> {
        let table = fs::read_to_string("/proc/self/mountinfo")
            .map_err(|e| failure("read", Path::new("/proc/self/mountinfo"), e))?;
        let open = ["/proc", "/dev", "/sys"].map(Path::new);
        let may_write = |point: &Path| {
            open.iter().any(|open| point.starts_with(open))
                || self.writable.iter().any(|own| point.starts_with(own))
        };
        let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape);
        let points: HashSet<PathBuf> = points.filter(|point| !may_write(point)).collect();
        // Skip mount points that are hidden below another mount and cannot be reached.
        points.iter().filter(|point| point.exists()).try_for_each(|point| make_read_only(point))
    }

    fn is_private(&self, path: &Path) -> Result<bool, Failure> {
        let device = fs::metadata(path).map_err(|e| failure("inspect", path, e))?.dev();
        Ok(self.private_devices.contains(&device) || self.writable.iter().any(|own| path.starts_with(own)))
    }

    /// Covers a directory with an in-memory one that shows the same entries.
    fn cover(&mut self, directory: &Path) -> Result<(), Failure> {
        if directory == Path::new("/") {
            return self.cover_root();
        }
        let mode = fs::metadata(directory).map_err(|e| failure("inspect", directory, e))?.mode() & 0o7777;
        let old = hold(directory)?;
        let names = entries(&path_of(&old), directory)?;
        mount_memory(directory, &format!("mode={mode:o}"))?;
        for name in names {
            show(&path_of(&old).join(&name), &directory.join(&name))?;
        }
        self.remember(directory)
    }

    /// Covers `/`. It cannot be mounted on, so a new root replaces it.
    fn cover_root(&mut self) -> Result<(), Failure> {
        let root = Path::new(STAGING);
        mount_memory(root, "mode=755")?;
        let mut names = entries(Path::new("/"), Path::new("/"))?;
        // Copy the tree that contains the new root first, so that its copy does not contain the mounts made below.
        let first = root.components().nth(1).map(|part| part.as_os_str().to_owned());
        names.sort_by_key(|name| Some(name) != first.as_ref());
        for name in names {
            show(&Path::new("/").join(&name), &root.join(&name))?;
        }
        let pivot = || -> nix::Result<()> {
            nix::unistd::chdir(root)?;
            nix::unistd::pivot_root(".", ".")?;
            umount2(".", MntFlags::MNT_DETACH)?;
            nix::unistd::chdir("/")
        };
        pivot().map_err(|e| failure("change the root to", root, e))?;
        let _ = umount2(STAGING, MntFlags::MNT_DETACH);
        self.remember(Path::new("/"))
    }

    fn remember(&mut self, directory: &Path) -> Result<(), Failure> {
        let device = fs::metadata(directory).map_err(|e| failure("inspect", directory, e))?.dev();
        self.private_devices.insert(device);
        Ok(())
    }
}

/// Decodes a path of `/proc/self/mountinfo`, where spaces and some other characters are octal escapes
/// (proc_pid_mountinfo(5)).
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let number = (*first == b'\\')
            .then(|| std::str::from_utf8(after.get(..3)?).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(number.unwrap_or(*first));
        rest = if number.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

fn entries(path: &Path, shown: &Path) -> Result<Vec<OsString>, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(|e| failure("read", shown, e))? {
        names.push(entry.map_err(|e| failure("read", shown, e))?.file_name());
        if names.len() > MAX_COVERED_ENTRIES {
            return Err(failure("create a mount point in", shown, "it has too many entries"));
        }
    }
    Ok(names)
}

/// Returns the deepest existing part of a path, with links resolved, and the names missing below it.
fn nearest_existing(target: &Path) -> Result<(PathBuf, Vec<OsString>), Failure> {
    let mut existing = target.to_path_buf();
    let mut missing = Vec::new();
    loop {
        match existing.canonicalize() {
            Ok(path) => {
                missing.reverse();
                return Ok((path, missing));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let name = existing.file_name().map(ToOwned::to_owned);
                missing.extend(name);
                if !existing.pop() {
                    return Err(failure("look for", target, error));
                }
            }
            Err(error) => return Err(failure("look for", target, error)),
        }
    }
}

/// Makes one mount read-only. Keeps the flags that a user namespace may not clear.
fn make_read_only(target: &Path) -> Result<(), Failure> {
    let now = statvfs(target).map_err(|e| failure("inspect", target, e))?.flags();
    let mut flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    for (has, keep) in [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ] {
        if now.contains(has) {
            flags |= keep;
        }
    }
    mount(None::<&str>, target, None::<&str>, flags, None::<&str>)
        .map_err(|e| failure("make read-only", target, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
30 22 8:2 / /home rw - ext4 /dev/sda2 rw
31 22 8:2 / /mnt/all\\040homes rw - ext4 /dev/sda2 rw
32 22 8:2 /ann/odh/users /srv/users rw - ext4 /dev/sda2 rw
33 22 8:2 /bob /srv/bob rw - ext4 /dev/sda2 rw
34 22 0:5 / /proc rw - proc proc rw
";

    #[test]
    fn a_folder_is_found_wherever_its_file_system_is_mounted() {
        let places = |folder: &str| -> Vec<String> {
            places_of(Path::new(folder), TABLE).iter().map(|place| place.display().to_string()).collect()
        };
        assert_eq!(places("/home/ann/odh"), ["/home/ann/odh", "/mnt/all homes/ann/odh", "/srv/users"]);
        assert_eq!(places("/home"), ["/home", "/mnt/all homes", "/srv/bob", "/srv/users"]);
        assert_eq!(places("/var/odh"), ["/var/odh"]);
    }

    #[test]
    fn a_path_below_a_folder_never_leaves_it() {
        let around = tempfile::tempdir().unwrap();
        let volume = around.path().join("volume");
        fs::create_dir_all(volume.join("in/side")).unwrap();
        symlink("in/side", volume.join("near")).unwrap();
        symlink("../outside", volume.join("far")).unwrap();
        symlink("/tmp", volume.join("absolute")).unwrap();
        let root = hold(&volume).unwrap();
        let opened = |path: &str| -> nix::Result<PathBuf> {
            let found = open_below(&root, Path::new(path))?;
            let path = fs::read_link(path_of(&found)).map_err(|_| Errno::EIO)?;
            Ok(path.strip_prefix(&volume).map(Path::to_path_buf).unwrap_or(path))
        };
        assert_eq!(opened("near/more/still"), Ok(PathBuf::from("in/side/more/still")));
        assert_eq!(opened("new"), Ok(PathBuf::from("new")));
        for path in ["far", "far/new", "absolute", "absolute/odh-test-new", "..", "near/../../../outside"] {
            assert!(opened(path).is_err(), "{path}");
        }
        assert!(!around.path().join("outside").exists() && !Path::new("/tmp/odh-test-new").exists());
    }
}
