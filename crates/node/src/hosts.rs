//! Assigns pod addresses, and keeps hosts files: one per namespace with the names of all pods, or as a kubelet one per pod
//! with its own ([`Listed`]).
//!
//! A hosts file is mounted into the namespace's containers, so it is changed in place: new names are appended in a
//! single write, and the text is rewritten only when a pod goes. The file is never empty in between.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Pods have addresses from 10.77.0.0/16, without the network's first address.
const NETWORK: [u8; 2] = [10, 77];
/// The most pods that can have an address at the same time.
const MAX_ADDRESSES: u32 = (1 << 16) - 2;
/// The first lines of every hosts file, as kubelet writes them.
const HEAD: &str =
    "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

/// The parts of a pod's name on the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// `spec.hostname`, or its name.
    pub hostname: String,
    /// `spec.subdomain`.
    pub subdomain: Option<String>,
}

impl PodName {
    fn line(&self, address: Ipv4Addr) -> String {
        let PodName { namespace, hostname, subdomain } = self;
        match subdomain {
            None => format!("{address}\t{hostname}\n"),
            Some(subdomain) => {
                let name = format!("{hostname}.{subdomain}");
                let full = format!("{name}.{namespace}.svc");
                format!("{address}\t{full}.cluster.local {full} {name}.{namespace} {name} {hostname}\n")
            }
        }
    }
}

/// The names in a pod's hosts file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// Those of all pods of its namespace.
    Namespace,
    /// Its own: it finds others by DNS only.
    Own,
}

/// The addresses and names of all pods on this node.
#[derive(Debug)]
pub struct Hosts {
    folder: PathBuf,
    listed: Listed,
    used: BTreeSet<u32>,
    next: u32,
    /// By namespace, then by pod uid.
    names: BTreeMap<String, BTreeMap<String, (Ipv4Addr, PodName)>>,
}

impl Hosts {
    /// Creates an empty table that keeps its hosts files in `folder`, which must exist.
    pub fn new(folder: PathBuf, listed: Listed) -> Hosts {
        Hosts { folder, listed, used: BTreeSet::new(), next: 1, names: BTreeMap::new() }
    }

    /// Returns the path of a pod's hosts file.
    pub fn file(&self, namespace: &str, uid: &str) -> PathBuf {
        match self.listed {
            Listed::Namespace => self.folder.join(namespace),
            Listed::Own => self.folder.join(format!("{namespace}.{uid}")),
        }
    }

    /// Assigns an address to a pod and publishes its names. A repeated call returns the same address.
    ///
    /// # Errors
    /// When no address is left, or the hosts file cannot be written.
    pub fn add(&mut self, uid: &str, name: PodName) -> io::Result<Ipv4Addr> {
        if let Some((address, _)) = self.names.get(&name.namespace).and_then(|pods| pods.get(uid)) {
            return Ok(*address);
        }
        let number = (0..MAX_ADDRESSES)
            .map(|step| (self.next - 1 + step) % MAX_ADDRESSES + 1)
            .find(|number| !self.used.contains(number))
            .ok_or_else(|| io::Error::other("no free pod address"))?;
        // Continue after this number, so that an address is not soon reused.
        self.next = number % MAX_ADDRESSES + 1;
        self.used.insert(number);
        let [.., high, low] = number.to_be_bytes();
        let address = Ipv4Addr::new(NETWORK[0], NETWORK[1], high, low);
        let path = self.file(&name.namespace, uid);
        if !path.exists() {
            std::fs::write(&path, HEAD)?;
        }
        std::fs::File::options().append(true).open(&path)?.write_all(name.line(address).as_bytes())?;
        self.names.entry(name.namespace.clone()).or_default().insert(uid.to_owned(), (address, name));
        Ok(address)
    }

    /// Frees a pod's address and removes its names.
    pub fn remove(&mut self, namespace: &str, uid: &str) {
        let Some(pods) = self.names.get_mut(namespace) else { return };
        let Some((address, _)) = pods.remove(uid) else { return };
        let [.., high, low] = address.octets();
        self.used.remove(&u32::from_be_bytes([0, 0, high, low]));
        let is_last = pods.is_empty();
        if is_last {
            self.names.remove(namespace);
        }
        let path = self.file(namespace, uid);
        if is_last || self.listed == Listed::Own {
            let _ = std::fs::remove_file(path);
            return;
        }
        let Some(pods) = self.names.get(namespace) else { return };
        let text: String =
            std::iter::once(HEAD.to_owned()).chain(pods.values().map(|(ip, name)| name.line(*ip))).collect();
        let _ = rewrite(&path, &text);
    }
}

fn rewrite(path: &Path, text: &str) -> io::Result<()> {
    let file = std::fs::File::options().write(true).open(path)?;
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_added_and_removed_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let mut hosts = Hosts::new(dir.path().to_owned(), Listed::Namespace);
        let name = |hostname: &str| PodName {
            namespace: "team".into(),
            hostname: hostname.into(),
            subdomain: Some("job".into()),
        };
        let first = hosts.add("u1", name("job-worker-0")).unwrap();
        let second = hosts.add("u2", name("job-worker-1")).unwrap();
        assert_ne!(first, second);
        assert_eq!(hosts.add("u1", name("job-worker-0")).unwrap(), first);
        let text = std::fs::read_to_string(hosts.file("team", "")).unwrap();
        assert!(text.starts_with(HEAD));
        assert!(text.contains(
            "10.77.0.1\tjob-worker-0.job.team.svc.cluster.local job-worker-0.job.team.svc job-worker-0.job.team \
             job-worker-0.job job-worker-0\n"
        ));
        hosts.remove("team", "u1");
        let text = std::fs::read_to_string(hosts.file("team", "")).unwrap();
        assert!(!text.contains("worker-0") && text.contains("worker-1"), "{text}");
        assert_eq!(hosts.add("u3", name("other")).unwrap(), Ipv4Addr::new(10, 77, 0, 3));
        hosts.remove("team", "u2");
        hosts.remove("team", "u3");
        assert!(!hosts.file("team", "").exists());
    }

    #[test]
    fn a_pod_may_have_its_own_name_only() {
        let dir = tempfile::tempdir().unwrap();
        let mut hosts = Hosts::new(dir.path().to_owned(), Listed::Own);
        for (uid, hostname) in [("u1", "a"), ("u2", "b")] {
            hosts
                .add(uid, PodName { namespace: "n".into(), hostname: hostname.into(), subdomain: None })
                .unwrap();
        }
        let text = |hosts: &Hosts, uid: &str| std::fs::read_to_string(hosts.file("n", uid)).ok();
        assert_eq!(text(&hosts, "u1").unwrap(), format!("{HEAD}10.77.0.1\ta\n"));
        hosts.remove("n", "u1");
        assert_eq!(
            (text(&hosts, "u1"), text(&hosts, "u2").unwrap()),
            (None, format!("{HEAD}10.77.0.2\tb\n"))
        );
    }

    #[test]
    fn exhausted_addresses_are_an_error_and_freed_ones_are_reused() {
        let dir = tempfile::tempdir().unwrap();
        let mut hosts = Hosts::new(dir.path().to_owned(), Listed::Namespace);
        hosts.used = (1..=MAX_ADDRESSES).collect();
        let name = PodName { namespace: "n".into(), hostname: "h".into(), subdomain: None };
        assert!(hosts.add("u", name.clone()).is_err());
        hosts.used.remove(&300);
        assert_eq!(hosts.add("u", name).unwrap(), Ipv4Addr::new(10, 77, 1, 44));
    }
}
