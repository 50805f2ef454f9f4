//! The mounts of a container, and the small files about its identity (`/etc/hostname`, `/etc/passwd`, …).

use std::io;
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};

use super::{PodRun, hostname};
use crate::environment::{Variables, expand};
use crate::lock;
use crate::sandbox::protocol::{MountSpec, User};
use crate::services::dns;
use crate::volumes::make_directory;

/// The default `terminationMessagePath`.
const DEFAULT_TERMINATION_PATH: &str = "/dev/termination-log";
/// Everyone may create files here, and remove only their own.
const SHARED_MODE: u32 = 0o1777;

/// Writes the files that all containers of the pod share.
///
/// # Errors
/// Errors of the file system.
pub fn write_identity(run: &PodRun, pod: &Pod) -> io::Result<()> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    std::fs::write(run.folder.join("hostname"), format!("{}\n", hostname(pod)))?;
    // Without a name server, the hosts file has the pods' names, and no other name resolves.
    let server = if run.node.serves_names { format!("nameserver {}\n", dns::SERVER) } else { String::new() };
    let search = format!(
        "{server}search {namespace}.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5 timeout:1 attempts:1\n"
    );
    std::fs::write(run.folder.join("resolv.conf"), search)
}

/// Returns the folder of one container.
pub fn container_folder(run: &PodRun, container: &Container) -> PathBuf {
    run.folder.join("containers").join(&container.name)
}

/// Returns the private directory that a container sees as `/tmp` (plain mode: as `TMPDIR`).
pub fn temporary_folder(run: &PodRun, container: &Container) -> PathBuf {
    container_folder(run, container).join("tmp")
}

/// Returns the file for a run's termination message.
pub fn termination_file(run: &PodRun, container: &Container, restarts: i32) -> PathBuf {
    container_folder(run, container).join(format!("termination-{restarts}"))
}

/// Creates the container's own folders and files, and returns its mounts, parents before children.
///
/// # Errors
/// The faulty mount, for `CreateContainerConfigError`.
pub fn mounts(
    run: &PodRun,
    container: &Container,
    user: &User,
    variables: &Variables,
    restarts: i32,
) -> Result<Vec<MountSpec>, String> {
    let text = |error: io::Error| error.to_string();
    let group = run.node.owner_group(&super::spec(&run.pod()));
    make_directory(&temporary_folder(run, container), SHARED_MODE, group).map_err(text)?;
    let last_words = termination_file(run, container, restarts);
    std::fs::write(&last_words, "").map_err(text)?;
    std::fs::set_permissions(&last_words, std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .map_err(text)?;
    if !run.node.mode.kind.isolates() {
        return Ok(Vec::new());
    }
    let metadata = run.pod().metadata.clone();
    let (namespace, uid) = (metadata.namespace.unwrap_or_default(), metadata.uid.unwrap_or_default());
    let bind = |source: PathBuf, target: &str, read_only| MountSpec {
        source,
        target: target.into(),
        below: PathBuf::new(),
        read_only,
        own: true,
    };
    let termination = container.termination_message_path.as_deref().unwrap_or(DEFAULT_TERMINATION_PATH);
    let sealed =
        container.security_context.as_ref().and_then(|own| own.read_only_root_filesystem) == Some(true);
    let mut mounts = vec![
        bind(temporary_folder(run, container), "/tmp", sealed),
        bind(lock(&run.node.hosts).file(&namespace, &uid), "/etc/hosts", true),
        bind(run.folder.join("hostname"), "/etc/hostname", true),
        bind(run.folder.join("resolv.conf"), "/etc/resolv.conf", true),
        bind(last_words, termination, false),
    ];
    if let Some(passwd) = passwd_file(run, container, user).map_err(text)? {
        mounts.push(bind(passwd, "/etc/passwd", true));
    }
    // Keep programs of images visible if the pod's own `/tmp`, or the mount that hides the cluster's own folder, would
    // cover them.
    let hidden = |place: &Path| {
        place.starts_with("/tmp") || run.node.secret.iter().any(|folder| place.starts_with(folder))
    };
    for directory in run.node.program_folders() {
        let place = directory.canonicalize().map_err(|e| format!("{}: {e}", directory.display()))?;
        if hidden(&place) || hidden(&directory) {
            mounts.push(bind(place.clone(), &place.to_string_lossy(), true));
        }
    }
    let mut wanted: Vec<&VolumeMount> = container.volume_mounts.iter().flatten().collect();
    wanted.sort_by_key(|mount| Path::new(&mount.mount_path).components().count());
    for mount in wanted {
        mounts.push(volume_mount(run, mount, variables)?);
    }
    Ok(mounts)
}

fn volume_mount(run: &PodRun, mount: &VolumeMount, variables: &Variables) -> Result<MountSpec, String> {
    let volume = lock(&run.volumes).get(&mount.name).cloned();
    let volume = volume.ok_or_else(|| format!("volume {:?} is not defined", mount.name))?;
    let lookup = |name: &str| variables.get(name).map(str::to_owned);
    let below = match (&mount.sub_path, &mount.sub_path_expr) {
        (Some(path), _) if !path.is_empty() => path.clone(),
        (_, Some(expression)) => expand(expression, lookup),
        _ => String::new(),
    };
    if Path::new(&below).components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(format!("subPath {below:?} must be relative and without '..'"));
    }
    Ok(MountSpec {
        source: volume.path,
        target: PathBuf::from(&mount.mount_path),
        below: PathBuf::from(below),
        read_only: volume.read_only || mount.read_only == Some(true),
        own: volume.own,
    })
}

/// Writes a copy of the machine's `/etc/passwd` with a line for the container's user, as CRI-O does. Returns `None` if
/// the user has a line already.
fn passwd_file(run: &PodRun, container: &Container, user: &User) -> io::Result<Option<PathBuf>> {
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let uid = user.uid.to_string();
    if text.lines().any(|line| line.split(':').nth(2) == Some(uid.as_str())) {
        return Ok(None);
    }
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    // CRI-O writes /sbin/nologin. A login shell lets sshd serve such a user, as MPI launchers need.
    let line = format!("default:x:{uid}:{}:default user:/tmp:/bin/sh\n", user.gid);
    let path = container_folder(run, container).join("passwd");
    std::fs::write(&path, text + end + &line)?;
    Ok(Some(path))
}
