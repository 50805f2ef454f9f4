//! Files of the machine that containers must not see: the cluster's own folder, other people's home folders, and
//! credentials in the remaining homes.
//!
//! Only decides, once, when the node starts. The sandbox then hides those paths that exist when a container starts. In
//! plain mode nothing is hidden, because a pod is an ordinary process of the owner.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use semantics::local_images::LocalImages;

use super::sandbox::protocol::Covered;

/// Credentials of common programs, relative to a home folder.
const CREDENTIALS: [&str; 21] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".oci",
    ".password-store",
    ".terraform.d",
    ".vault-token",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/containers",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".local/share/keyrings",
];
/// Top-level folders that hold no person's home. An `/etc/passwd` entry of a service with its home in one of them is
/// ignored.
const SYSTEM: [&str; 19] = [
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "media", "mnt", "nix", "opt", "proc", "run",
    "sbin", "srv", "sys", "tmp", "usr", "var",
];
/// The first user id of ordinary users (`UID_MIN` of login.defs).
const FIRST_PERSON: u32 = 1000;
/// The user id of `nobody`.
const NOBODY: u32 = 65534;

/// The facts about the machine that the decision depends on.
pub struct Machine {
    /// The text of `/etc/passwd`.
    pub accounts: String,
    /// The entries of `/home`.
    pub homes: Vec<PathBuf>,
    /// The users the cluster belongs to: the user of this process, and the one who called sudo.
    pub owners: Vec<u32>,
    /// The owner's home folder, from the environment.
    pub home: Option<PathBuf>,
    /// Folders the owner uses: the working directory and the directories in `PATH`.
    pub used: Vec<PathBuf>,
}

impl Machine {
    /// Reads the facts of this machine.
    pub fn look() -> Machine {
        let entries = std::fs::read_dir("/home").into_iter().flatten().flatten();
        let caller = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
        let path = std::env::var_os("PATH").unwrap_or_default();
        Machine {
            accounts: std::fs::read_to_string("/etc/passwd").unwrap_or_default(),
            homes: entries.map(|entry| entry.path()).collect(),
            owners: [nix::unistd::geteuid().as_raw()].into_iter().chain(caller).collect(),
            home: std::env::home_dir(),
            used: std::env::current_dir().into_iter().chain(std::env::split_paths(&path)).collect(),
        }
    }
}

/// Returns what to hide, given the cluster's own folders and the local environments that must stay visible.
pub fn covered(machine: &Machine, secret: Vec<PathBuf>, images: &LocalImages) -> Covered {
    let accounts: Vec<(u32, PathBuf)> = machine.accounts.lines().filter_map(account).collect();
    let is_owner = |uid: &u32| machine.owners.contains(uid);
    let own: BTreeSet<PathBuf> = accounts
        .iter()
        .filter(|(uid, _)| is_owner(uid))
        .map(|(_, home)| home.clone())
        .chain(machine.home.clone())
        .filter(|home| home.is_absolute() && home != Path::new("/"))
        .collect();
    let people = accounts.iter().filter(|(uid, _)| is_person(*uid)).map(|(_, home)| home);
    let homes: BTreeSet<PathBuf> =
        people.chain(&machine.homes).filter(|home| is_home(home)).cloned().collect();
    let needed = |home: &PathBuf| {
        let mut used = own.iter().chain(&machine.used).chain(images.values());
        used.any(|path| path.starts_with(home))
    };
    let (kept, others): (Vec<_>, Vec<_>) = homes.into_iter().partition(needed);
    let kept: BTreeSet<PathBuf> = kept.into_iter().chain(own).collect();
    let credentials = kept.iter().flat_map(|home| CREDENTIALS.iter().map(|name| home.join(name)));
    let personal = others.into_iter().chain(credentials).collect();
    Covered { secret, personal }
}

/// Returns the user id and home folder of a line of `/etc/passwd`.
fn account(line: &str) -> Option<(u32, PathBuf)> {
    let mut fields = line.split(':');
    let uid = fields.nth(2)?.parse().ok()?;
    Some((uid, PathBuf::from(fields.nth(2)?)))
}

fn is_person(uid: u32) -> bool {
    uid == 0 || (uid >= FIRST_PERSON && uid != NOBODY)
}

/// Returns whether the path can be a person's home: absolute, not the root, not below a system folder.
fn is_home(home: &Path) -> bool {
    let mut parts = home.components();
    let begins = parts.next() == Some(Component::RootDir);
    begins
        && matches!(parts.next(), Some(Component::Normal(first)) if !SYSTEM.iter().any(|name| first == *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(all: &[&str]) -> Vec<PathBuf> {
        all.iter().map(PathBuf::from).collect()
    }

    fn machine(owners: &[u32], home: &str, used: &[&str]) -> Machine {
        let accounts = "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/usr/sbin:/usr/sbin/nologin\n\
            web:x:1001:33::/var/www:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1002:1002::/data/bob:/bin/sh\n\
            nobody:x:65534:65534::/nonexistent:/bin/sh\nbroken\n";
        let homes = paths(&["/home/ann", "/home/eve"]);
        Machine {
            accounts: accounts.to_owned(),
            homes,
            owners: owners.to_vec(),
            home: Some(home.into()),
            used: paths(used),
        }
    }

    /// The home folders that are hidden as a whole.
    fn homes(covered: &Covered) -> Vec<&PathBuf> {
        covered.personal.iter().filter(|path| !path.to_string_lossy().contains("/.")).collect()
    }

    #[test]
    fn other_homes_are_hidden_and_only_credentials_in_the_owners() {
        let found = covered(
            &machine(&[1000], "/home/ann", &["/usr/bin"]),
            paths(&["/home/ann/.odh"]),
            &LocalImages::new(),
        );
        assert_eq!(found.secret, paths(&["/home/ann/.odh"]));
        assert_eq!(homes(&found), paths(&["/data/bob", "/home/eve", "/root"]).iter().collect::<Vec<_>>());
        assert!(found.personal.contains(&PathBuf::from("/home/ann/.ssh")));
        assert!(
            !found.personal.iter().any(|path| path.starts_with("/root/.ssh")),
            "it is covered with /root"
        );
    }

    #[test]
    fn folders_that_the_owner_uses_stay_visible() {
        let images = LocalImages::from([("i".to_owned(), PathBuf::from("/home/eve/environments/i"))]);
        let root = machine(&[0, 1000], "/root", &["/data/bob/bin"]);
        let found = covered(&root, Vec::new(), &images);
        assert_eq!(homes(&found), Vec::<&PathBuf>::new());
        for credentials in ["/root/.kube", "/home/ann/.aws", "/home/eve/.ssh", "/data/bob/.netrc"] {
            assert!(found.personal.contains(&PathBuf::from(credentials)), "{credentials}");
        }
    }
}
