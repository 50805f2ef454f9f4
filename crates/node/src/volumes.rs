//! Creates a pod's volumes as directories of the machine. Containers mount them or, in plain mode, use their real
//! paths.
//!
//! ConfigMap, Secret, projected and downward API volumes are written as kubelet's atomic writer does: a dated folder, a
//! link `..data` to it, and a link per entry. So an update becomes visible as a whole or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, HostPathVolumeSource, KeyToPath, PersistentVolume,
    PersistentVolumeClaim, Pod, Secret, Volume,
};

use kube::Api;

use super::environment::{self, EnvironmentError, Facts};
use super::tokens::{self, TokenError};

/// The default mode of files (`v1.ConfigMapVolumeSourceDefaultMode`).
const DEFAULT_FILE_MODE: i32 = 0o644;

/// An existing volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Its path.
    pub path: PathBuf,
    /// Whether its kind is always read-only.
    pub read_only: bool,
    /// Whether this node created it; otherwise it is a path of the machine that a user named.
    pub own: bool,
    /// `emptyDir` of medium `Memory`: mount it in memory, with the size limit in bytes, if any.
    pub memory: Option<Option<u64>>,
}

/// Why a volume could not be created; the text goes into the `FailedMount` Event.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// Something it references is missing, or its kind is not supported here.
    #[error("{0}")]
    Refused(String),
    /// A referenced object is missing, or the API did not answer.
    #[error("{0}")]
    Reference(#[from] EnvironmentError),
    /// The API issued no token.
    #[error("{0}")]
    Token(#[from] TokenError),
    /// The state directory could not be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
}

fn refused<T>(message: String) -> Result<T, VolumeError> {
    Err(VolumeError::Refused(message))
}

/// Files of a volume: bytes and mode by path.
type Files = BTreeMap<String, (Vec<u8>, i32)>;

/// The context in which volumes are created.
pub struct VolumeContext<'a> {
    /// The API.
    pub client: &'a kube::Client,
    /// The pod.
    pub pod: &'a Pod,
    /// The facts for the downward API.
    pub facts: &'a Facts,
    /// The folder that holds the pod's volumes.
    pub folder: &'a Path,
    /// The group that owns them, if the node may change owners.
    pub group: Option<u32>,
    /// Folders of the cluster, which no host path may lead to.
    pub secret: &'a [PathBuf],
    /// The folder of the directories behind claims.
    pub claims: &'a Path,
}

/// Creates or updates a volume.
///
/// # Errors
/// When something is missing or not supported.
pub async fn prepare(volume: &Volume, context: &VolumeContext<'_>) -> Result<Ready, VolumeError> {
    let path = context.folder.join(&volume.name);
    let ready = |read_only| Ready { path: path.clone(), read_only, own: true, memory: None };
    if let Some(source) = &volume.empty_dir {
        make_directory(&path, 0o777, context.group)?;
        let size = source.size_limit.as_ref().map(|size| (environment::nanos(size) / 1_000_000_000) as u64);
        let memory = (source.medium.as_deref() == Some("Memory")).then_some(size);
        return Ok(Ready { memory, ..ready(false) });
    }
    if let Some(source) = &volume.host_path {
        check_host_path(source, context.secret)?;
        return Ok(Ready { path: PathBuf::from(&source.path), own: false, ..ready(false) });
    }
    if let Some(source) = &volume.persistent_volume_claim {
        let (path, claim_read_only) = claimed(&source.claim_name, context).await?;
        let own = path.parent() == Some(context.claims);
        return Ok(Ready { path, own, ..ready(claim_read_only || source.read_only == Some(true)) });
    }
    let files = match files_of(volume, context).await? {
        Some(files) => files,
        None => {
            return refused(format!("this node does not support volumes of kind {}", kind_of(volume)));
        }
    };
    make_directory(&path, 0o755, context.group)?;
    write_atomically(&path, &files, context.group)?;
    Ok(ready(true))
}

/// Returns the path of a claim's volume, and whether it is read-only.
async fn claimed(name: &str, context: &VolumeContext<'_>) -> Result<(PathBuf, bool), VolumeError> {
    let namespace = context.pod.metadata.namespace.as_deref().unwrap_or_default();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(context.client.clone(), namespace);
    let answer = |error: kube::Error| VolumeError::Refused(error.to_string());
    let claim = claims.get(name).await.map_err(answer)?;
    let bound = claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound");
    let spec = claim.spec.unwrap_or_default();
    let Some(volume) = spec.volume_name.filter(|_| bound) else {
        return refused(format!("can't use PVC {namespace}/{name}: PVC is not bound"));
    };
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    let provisioned = own_directory(&volume, context.claims);
    let volume = volumes.get(&volume).await.map_err(answer)?.spec.unwrap_or_default();
    let read_only = spec.access_modes.iter().flatten().all(|mode| mode == "ReadOnlyMany");
    if let Some(mut source) = volume.host_path {
        if let Some(provisioned) =
            provisioned.filter(|own| own.file_name() == Path::new(&source.path).file_name())
        {
            source.path = provisioned.display().to_string();
        }
        let path = PathBuf::from(&source.path);
        // The cluster's own directory for the claim is in a folder that is otherwise hidden from pods.
        let own = path.parent() == Some(context.claims);
        check_host_path(&source, if own { &[] } else { context.secret })?;
        return Ok((path, read_only));
    }
    if let Some(source) = volume.local {
        let path = PathBuf::from(&source.path);
        return match path.is_dir() {
            true => Ok((path, read_only)),
            false => refused(format!("path {:?} does not exist", source.path)),
        };
    }
    refused("claims must be bound to hostPath or local volumes on this node".to_owned())
}

/// The directory that the cluster has for a volume which it provisioned. The volume records where it was then: the cluster's
/// folder may have been moved since, or be a copy.
fn own_directory(volume: &str, claims: &Path) -> Option<PathBuf> {
    Some(claims.join(volume)).filter(|path| path.is_dir())
}

/// Returns whether a volume's files depend on the object of this kind and name.
pub fn follows(volume: &Volume, kind: &str, name: &str) -> bool {
    let projected = || volume.projected.iter().flat_map(|source| source.sources.iter().flatten());
    match kind {
        "ConfigMap" => {
            volume.config_map.as_ref().is_some_and(|source| source.name == name)
                || projected().any(|part| part.config_map.as_ref().is_some_and(|source| source.name == name))
        }
        _ => {
            volume.secret.as_ref().is_some_and(|source| source.secret_name.as_deref() == Some(name))
                || projected().any(|part| part.secret.as_ref().is_some_and(|source| source.name == name))
        }
    }
}

fn kind_of(volume: &Volume) -> String {
    let value = serde_json::to_value(volume).unwrap_or_default();
    let kinds = value.as_object().into_iter().flat_map(|map| map.keys());
    kinds.filter(|key| *key != "name").cloned().collect::<Vec<_>>().join(", ")
}

async fn files_of(volume: &Volume, context: &VolumeContext<'_>) -> Result<Option<Files>, VolumeError> {
    let mut files = Files::new();
    if let Some(source) = &volume.config_map {
        let mode = source.default_mode.unwrap_or(DEFAULT_FILE_MODE);
        add_config_map(&mut files, context, &source.name, source.items.as_deref(), source.optional, mode)
            .await?;
    } else if let Some(source) = &volume.secret {
        let mode = source.default_mode.unwrap_or(DEFAULT_FILE_MODE);
        let name = source.secret_name.as_deref().unwrap_or_default();
        add_secret(&mut files, context, name, source.items.as_deref(), source.optional, mode).await?;
    } else if let Some(source) = &volume.downward_api {
        let mode = source.default_mode.unwrap_or(DEFAULT_FILE_MODE);
        add_downward(&mut files, context, source.items.iter().flatten(), mode)?;
    } else if let Some(source) = &volume.projected {
        let mode = source.default_mode.unwrap_or(DEFAULT_FILE_MODE);
        for part in source.sources.iter().flatten() {
            if let Some(map) = &part.config_map {
                add_config_map(&mut files, context, &map.name, map.items.as_deref(), map.optional, mode)
                    .await?;
            } else if let Some(secret) = &part.secret {
                add_secret(&mut files, context, &secret.name, secret.items.as_deref(), secret.optional, mode)
                    .await?;
            } else if let Some(downward) = &part.downward_api {
                add_downward(&mut files, context, downward.items.iter().flatten(), mode)?;
            } else if let Some(source) = &part.service_account_token {
                let token =
                    tokens::token(context.client, context.pod, context.folder, volume, source).await?;
                files.insert(source.path.clone(), (token.into_bytes(), mode));
            } else {
                return refused("this node does not support this kind of projection".to_owned());
            }
        }
    } else {
        return Ok(None);
    }
    Ok(Some(files))
}

async fn add_config_map(
    files: &mut Files,
    context: &VolumeContext<'_>,
    name: &str,
    items: Option<&[KeyToPath]>,
    optional: Option<bool>,
    mode: i32,
) -> Result<(), VolumeError> {
    let map = environment::config_map(context.client, context.pod, name, optional).await?.unwrap_or_default();
    let ConfigMap { data, binary_data, .. } = map;
    let mut entries: BTreeMap<String, Vec<u8>> =
        data.into_iter().flatten().map(|(key, value)| (key, value.into_bytes())).collect();
    entries.extend(binary_data.into_iter().flatten().map(|(key, value)| (key, value.0)));
    select(files, entries, items, optional, mode, "configmap references non-existent config key")
}

async fn add_secret(
    files: &mut Files,
    context: &VolumeContext<'_>,
    name: &str,
    items: Option<&[KeyToPath]>,
    optional: Option<bool>,
    mode: i32,
) -> Result<(), VolumeError> {
    let secret = environment::secret(context.client, context.pod, name, optional).await?.unwrap_or_default();
    let Secret { data, .. } = secret;
    let entries = data.into_iter().flatten().map(|(key, value)| (key, value.0)).collect();
    select(files, entries, items, optional, mode, "references non-existent secret key")
}

fn select(
    files: &mut Files,
    entries: BTreeMap<String, Vec<u8>>,
    items: Option<&[KeyToPath]>,
    optional: Option<bool>,
    mode: i32,
    fault: &str,
) -> Result<(), VolumeError> {
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        files.extend(entries.into_iter().map(|(key, bytes)| (key, (bytes, mode))));
        return Ok(());
    };
    for item in items {
        // One key may have several paths: an SSH public key is also the list of authorized keys.
        match entries.get(&item.key) {
            Some(bytes) => {
                files.insert(item.path.clone(), (bytes.clone(), item.mode.unwrap_or(mode)));
            }
            None if optional == Some(true) => {}
            None => return refused(format!("{fault}: {}", item.key)),
        }
    }
    Ok(())
}

fn add_downward<'a>(
    files: &mut Files,
    context: &VolumeContext<'_>,
    items: impl Iterator<Item = &'a DownwardAPIVolumeFile>,
    mode: i32,
) -> Result<(), VolumeError> {
    for item in items {
        let text = if let Some(reference) = &item.field_ref {
            environment::field(context.pod, context.facts, &reference.field_path)?
        } else if let Some(reference) = &item.resource_field_ref {
            let first = context.pod.spec.as_ref().and_then(|spec| spec.containers.first());
            let container = first.map_or_else(|| refused("the pod has no container".to_owned()), Ok)?;
            environment::resource(context.pod, container, context.facts, reference)?
        } else {
            continue;
        };
        files.insert(item.path.clone(), (text.into_bytes(), item.mode.unwrap_or(mode)));
    }
    Ok(())
}

/// Returns whether a path leads into one of the folders, or would if it were created.
fn leads_into(path: &Path, folders: &[PathBuf]) -> bool {
    let there = path.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)));
    there.is_some_and(|(part, real)| {
        let whole = path.strip_prefix(part).map(|rest| real.join(rest)).unwrap_or(real);
        folders.iter().any(|folder| whole.starts_with(folder))
    })
}

fn check_host_path(source: &HostPathVolumeSource, secret: &[PathBuf]) -> Result<(), VolumeError> {
    let path = Path::new(&source.path);
    if leads_into(path, secret) {
        return refused(format!(
            "{} belongs to the cluster itself, whose files pods may not access",
            source.path
        ));
    }
    let kind = source.type_.as_deref().unwrap_or_default();
    let fault = |what: &str| refused(format!("hostPath type check failed: {} is not {what}", source.path));
    match kind {
        // An empty type means no check; container runtimes create the directory.
        "" | "DirectoryOrCreate" if !path.exists() => fs::create_dir_all(path)?,
        "FileOrCreate" if !path.exists() => fs::write(path, "")?,
        _ => {}
    }
    let found = fs::metadata(path).map(|found| found.file_type());
    let is = |test: fn(&fs::FileType) -> bool| found.as_ref().is_ok_and(test);
    match kind {
        "" => Ok(()),
        "Directory" | "DirectoryOrCreate" if is(fs::FileType::is_dir) => Ok(()),
        "Directory" | "DirectoryOrCreate" => fault("a directory"),
        "File" | "FileOrCreate" if is(fs::FileType::is_file) => Ok(()),
        "File" | "FileOrCreate" => fault("a file"),
        "Socket" if is(FileTypeExt::is_socket) => Ok(()),
        "Socket" => fault("a socket file"),
        "CharDevice" if is(FileTypeExt::is_char_device) => Ok(()),
        "CharDevice" => fault("a character device"),
        "BlockDevice" if is(FileTypeExt::is_block_device) => Ok(()),
        "BlockDevice" => fault("a block device"),
        other => refused(format!("unknown hostPath type {other:?}")),
    }
}

/// Creates a directory with exactly this mode.
///
/// # Errors
/// Errors of the file system.
pub fn make_directory(path: &Path, mode: u32, group: Option<u32>) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(mode).create(path)?;
    let sticky = if group.is_some() { 0o2000 } else { 0 };
    if group.is_some() {
        chown(path, None, group)?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode | sticky))
}

/// Writes the files as a new version (`k8s.io/kubernetes/pkg/volume/util/atomic_writer.go`).
fn write_atomically(folder: &Path, files: &Files, group: Option<u32>) -> Result<(), VolumeError> {
    let data = folder.join("..data");
    let old = fs::read_link(&data).ok();
    if old.as_ref().is_some_and(|old| same(&folder.join(old), files)) {
        return Ok(());
    }
    let version = format!("..{}", jiff::Timestamp::now().as_nanosecond());
    let fresh = folder.join(&version);
    fs::create_dir(&fresh)?;
    for (path, (bytes, mode)) in files {
        if Path::new(path).components().any(|part| !matches!(part, Component::Normal(_))) {
            return refused(format!("invalid path {path:?} in a volume"));
        }
        let target = fresh.join(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        let mode = *mode as u32 & 0o777;
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&target)?;
        io::Write::write_all(&mut &file, bytes)?;
        // Give the group read access, as kubelet's fsGroup does.
        let mode = if group.is_some() { mode | 0o440 } else { mode };
        chown(&target, None, group)?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
    }
    let next = folder.join("..data_tmp");
    let _ = fs::remove_file(&next);
    symlink(&version, &next)?;
    fs::rename(&next, &data)?;
    link_entries(folder, files)?;
    if let Some(old) = old {
        fs::remove_dir_all(folder.join(old))?;
    }
    Ok(())
}

fn same(version: &Path, files: &Files) -> bool {
    let count = walk(version).len();
    count == files.len()
        && files.iter().all(|(path, (bytes, _))| fs::read(version.join(path)).is_ok_and(|old| old == *bytes))
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() { found.extend(walk(&entry.path())) } else { found.push(entry.path()) }
    }
    found
}

/// Creates one link per first path component, and removes links of entries that no longer exist.
fn link_entries(folder: &Path, files: &Files) -> io::Result<()> {
    let wanted: std::collections::BTreeSet<&str> =
        files.keys().filter_map(|path| path.split('/').next()).collect();
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !wanted.contains(name.as_ref()) {
            fs::remove_file(entry.path())?;
        }
    }
    for name in wanted {
        match symlink(Path::new("..data").join(name), folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(entries: &[(&str, &str)]) -> Files {
        entries.iter().map(|(path, text)| ((*path).to_owned(), (text.as_bytes().to_vec(), 0o640))).collect()
    }

    #[test]
    fn a_new_version_replaces_the_previous_one_atomically() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        write_atomically(folder, &files(&[("a", "1"), ("deep/b", "2")]), None).unwrap();
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "1");
        assert_eq!(fs::read_to_string(folder.join("deep/b")).unwrap(), "2");
        assert_eq!(fs::metadata(folder.join("a")).unwrap().permissions().mode() & 0o777, 0o640);
        write_atomically(folder, &files(&[("a", "3"), ("c", "4")]), None).unwrap();
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "3");
        assert!(!folder.join("deep").exists() && folder.join("c").exists());
        // The version, `..data`, and two links.
        assert_eq!(fs::read_dir(folder).unwrap().count(), 4);
        let before = fs::read_link(folder.join("..data")).unwrap();
        write_atomically(folder, &files(&[("a", "3"), ("c", "4")]), None).unwrap();
        assert_eq!(
            fs::read_link(folder.join("..data")).unwrap(),
            before,
            "unchanged files are not written again"
        );
    }

    #[test]
    fn one_key_may_have_several_paths() {
        let item = |path: &str| KeyToPath { key: "k".into(), path: path.into(), mode: None };
        let mut files = Files::new();
        let entries = BTreeMap::from([("k".to_owned(), b"v".to_vec())]);
        select(&mut files, entries, Some(&[item("a"), item("b")]), None, 0o600, "missing").unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn no_entry_is_written_outside_its_volume() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["../a", "/a", "a/../../b"] {
            assert!(write_atomically(dir.path(), &files(&[(path, "x")]), None).is_err(), "{path}");
        }
    }

    #[test]
    fn host_paths_are_checked_by_type() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        fs::write(&file, "").unwrap();
        let check = |path: &Path, kind: &str| {
            let source = HostPathVolumeSource { path: path.display().to_string(), type_: Some(kind.into()) };
            check_host_path(&source, &[dir.path().join("secret")])
        };
        assert!(check(dir.path(), "Directory").is_ok() && check(&file, "File").is_ok());
        let fault = check(&file, "Directory").unwrap_err().to_string();
        assert_eq!(fault, format!("hostPath type check failed: {} is not a directory", file.display()));
        assert!(
            check(&dir.path().join("new"), "DirectoryOrCreate").is_ok() && dir.path().join("new").is_dir()
        );
        assert!(check(&dir.path().join("none"), "File").is_err());
        fs::create_dir(dir.path().join("secret")).unwrap();
        symlink("secret", dir.path().join("link")).unwrap();
        for path in ["secret", "secret/new", "link/new"] {
            assert!(check(&dir.path().join(path), "DirectoryOrCreate").is_err(), "{path}");
        }
        assert!(!dir.path().join("secret/new").exists());
    }
}
