//! The directory with all state of the local cluster: its location, its contents, and its lock.
//!
//! `$ODH_HOME`, else `$XDG_DATA_HOME/odh`, else `~/.local/share/odh`; mode 0700, because it holds keys and tokens.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt as _, OpenOptionsExt, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jobs::Class;

use crate::failure::Failure;

/// The possible contents of the directory; nothing else is ever removed from it ([`is_own`] adds the names that a file has
/// while it is written or after it is full).
const FILES: [&str; 7] = [AUDIT, "lock", "state.json", "kubeconfig", "log", "port", "options.json"];
const AUDIT: &str = "audit.log";
const FOLDERS: [&str; 4] = ["cluster", "launch", "service", "users"];

/// The state directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// Returns the directory given by the environment; it need not exist.
    pub fn find() -> Result<Home, Failure> {
        let absolute = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| !path.as_os_str().is_empty())
        };
        if let Some(root) = absolute("ODH_HOME") {
            let root = std::path::absolute(&root).map_err(|error| unusable(&root, &error))?;
            return Ok(Home { root });
        }
        let data = absolute("XDG_DATA_HOME").filter(|path| path.is_absolute());
        data.or_else(|| std::env::home_dir().map(|home| home.join(".local").join("share")))
            .map(|data| Home { root: data.join("odh") })
            .ok_or_else(|| {
                Failure::new(Class::Error, "NoHome", "no home directory found for the cluster's state")
                    .with_hint("set ODH_HOME to a directory of your own")
            })
    }

    /// Uses this directory.
    #[cfg(test)]
    pub fn at(root: &str) -> Home {
        Home { root: PathBuf::from(root) }
    }

    /// Creates the directory if necessary, and checks that it is writable. If we own it, access by others is removed.
    pub fn make(&self) -> Result<(), Failure> {
        let make = || {
            make_private(&self.root)?;
            self.open_lock().map(drop)
        };
        make().map_err(|error| unusable(&self.root, &error))
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The kubeconfig of the cluster's administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// The state file of the running cluster.
    pub fn state(&self) -> PathBuf {
        self.root.join("state.json")
    }

    /// The log of the cluster's process.
    pub fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// The previous log, from before the log was full.
    pub fn old_log(&self) -> PathBuf {
        self.root.join("log.1")
    }

    /// The last port, reused so that distributed kubeconfigs stay valid.
    pub fn port(&self) -> PathBuf {
        self.root.join("port")
    }

    /// The options of the last start.
    pub fn options(&self) -> PathBuf {
        self.root.join("options.json")
    }

    /// The audit log.
    pub fn audit(&self) -> PathBuf {
        self.root.join(AUDIT)
    }

    /// The users' kubeconfigs.
    pub fn users(&self) -> PathBuf {
        self.root.join("users")
    }

    /// The cluster's own state.
    pub fn cluster(&self) -> PathBuf {
        self.root.join("cluster")
    }

    /// The file with the cluster's objects, which its process keeps locked.
    #[cfg(feature = "local")]
    pub fn store(&self) -> PathBuf {
        self.cluster().join(cluster::STORE_FILE)
    }

    /// The environment whose `bin` holds the launch agent.
    pub fn launch(&self) -> PathBuf {
        self.root.join("launch")
    }

    /// What clients of the training service need: its authority, a token, its last port.
    pub fn service(&self) -> PathBuf {
        self.root.join("service")
    }

    fn open_lock(&self) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.root.join("lock"))
    }

    /// Takes the lock that a running cluster holds for its lifetime; `None` if another process holds it.
    pub fn try_lock(&self) -> Result<Option<File>, Failure> {
        let file = self.open_lock().map_err(|error| unusable(&self.root, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(unusable(&self.root, &error)),
        }
    }

    /// Removes everything the cluster has left, and the directory if it is then empty; returns what was kept.
    pub fn purge(&self) -> Result<Vec<PathBuf>, Failure> {
        let gone = |result: io::Result<()>| match result {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unusable(&self.root, &error)),
            _ => Ok(()),
        };
        for folder in FOLDERS {
            gone(std::fs::remove_dir_all(self.root.join(folder)))?;
        }
        let entries = std::fs::read_dir(&self.root).into_iter().flatten().filter_map(Result::ok);
        let (own, kept): (Vec<PathBuf>, Vec<PathBuf>) =
            entries.map(|entry| entry.path()).partition(|path| is_own(path) && !path.is_dir());
        for file in own {
            gone(std::fs::remove_file(file))?;
        }
        if kept.is_empty() {
            gone(std::fs::remove_dir(&self.root))?;
        }
        Ok(kept)
    }
}

/// Whether odh writes a file of this name: one of [`FILES`], also before it is complete (`.new`), and the logs also after they
/// were full (`log.1`, `audit.log.1.gz`).
fn is_own(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.strip_suffix(".new").unwrap_or(name);
    let full = name.strip_suffix(".gz").unwrap_or(name);
    let log = full.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end_matches('.');
    FILES.contains(&name) || full == "log.1" || log == AUDIT
}

/// Creates a directory that only its owner can access. An existing directory of another owner is left unchanged: our
/// files in it have modes of their own.
pub fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let found = std::fs::metadata(path)?;
    if found.uid() == nix::unistd::geteuid().as_raw() && found.permissions().mode() & 0o077 != 0 {
        std::fs::set_permissions(path, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Creates the failure for a directory that cannot be used.
pub fn unusable(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    let (message, hint) = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (
            format!("the disk of {path} is full"),
            "free some space, or set ODH_HOME to a directory on another disk",
        ),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (format!("cannot write to {path}: {error}"), "set ODH_HOME to a directory of your own")
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            (format!("{path} is not a directory"), "set ODH_HOME to a directory of your own")
        }
        _ => (format!("cannot use {path}: {error}"), "set ODH_HOME to a directory of your own"),
    };
    Failure::new(Class::Error, "HomeUnusable", message).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_removes_everything_of_ours_and_nothing_else() {
        let around = tempfile::tempdir().unwrap();
        let home = Home { root: around.path().join("odh") };
        home.make().unwrap();
        let own = [
            "audit.log",
            "audit.log.1.gz",
            "audit.log.16.gz",
            "audit.log.gz.new",
            "log",
            "log.1",
            "state.json.new",
        ];
        let others = ["kubeconfig.1", "notes", "audit.log.gz.old", "log.txt", "kubeconfig.bak", "audit.logs"];
        for name in own.iter().chain(&others) {
            std::fs::write(home.root.join(name), "").unwrap();
        }
        let mut kept = home.purge().unwrap();
        kept.sort();
        let mut others = others.map(|name| home.root.join(name));
        others.sort();
        assert_eq!(kept, others);
        for file in others {
            std::fs::remove_file(file).unwrap();
        }
        assert_eq!(home.purge().unwrap(), [] as [PathBuf; 0]);
        assert!(!home.root.exists());
    }

    #[test]
    fn a_directory_that_others_can_access_is_made_private() {
        let around = tempfile::tempdir().unwrap();
        let home = Home { root: around.path().join("odh") };
        std::fs::create_dir(&home.root).unwrap();
        std::fs::set_permissions(&home.root, Permissions::from_mode(0o755)).unwrap();
        home.make().unwrap();
        assert_eq!(std::fs::metadata(&home.root).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
