//! Resolves host names to addresses without the C library's name service (a static program cannot load its
//! plug-ins).
//!
//! A literal address, else the hosts file, else DNS as resolv.conf says. The hosts file is read at each call,
//! because names of pods are added while a job starts. A name is looked up once here; callers retry.

mod dns;
mod hosts;
mod resolv_conf;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The sources of names.
pub struct Sources {
    /// The hosts file.
    pub hosts: PathBuf,
    /// The resolver's configuration.
    pub resolv_conf: PathBuf,
    /// The port of the name servers.
    pub dns_port: u16,
}

impl Default for Sources {
    fn default() -> Self {
        Self { hosts: "/etc/hosts".into(), resolv_conf: "/etc/resolv.conf".into(), dns_port: 53 }
    }
}

/// Why a name has no address.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Unresolved {
    /// Every source was asked, and none knows the name.
    #[error("Name or service not known")]
    Unknown,
    /// No name server gave a usable answer.
    #[error("Temporary failure in name resolution ({0})")]
    NoAnswer(String),
}

/// Returns the addresses of a host, in the order to try them.
pub fn resolve(host: &str, sources: &Sources) -> Result<Vec<IpAddr>, Unresolved> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    let in_hosts_file = || hosts::lookup(&read(&sources.hosts), host);
    let known = in_hosts_file();
    if !known.is_empty() {
        return Ok(known);
    }
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(vec![IpAddr::from([127, 0, 0, 1])]);
    }
    let configuration = resolv_conf::parse(&read(&sources.resolv_conf));
    // A silent name server must not delay a name that meanwhile is in the hosts file.
    let is_settled = || !in_hosts_file().is_empty();
    let asking = dns::Asking { conf: &configuration, port: sources.dns_port, is_settled: &is_settled };
    dns::resolve(host, &asking).or_else(|fault| match in_hosts_file() {
        none if none.is_empty() => Err(fault),
        known => Ok(known),
    })
}

/// A missing or unreadable file counts as empty, as with the C library.
fn read(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_file_is_read_at_each_call_and_takes_precedence_over_dns() {
        let directory = tempfile::tempdir().unwrap();
        let sources = Sources {
            hosts: directory.path().join("hosts"),
            resolv_conf: directory.path().join("none"),
            dns_port: 1,
        };
        std::fs::write(&sources.hosts, "10.0.0.1 worker-0\n").unwrap();
        assert_eq!(resolve("worker-0", &sources), Ok(vec!["10.0.0.1".parse().unwrap()]));
        std::fs::write(&sources.hosts, "10.0.0.2 worker-0\n").unwrap();
        assert_eq!(resolve("worker-0", &sources), Ok(vec!["10.0.0.2".parse().unwrap()]));
        assert_eq!(resolve("fd00::7", &sources), Ok(vec!["fd00::7".parse().unwrap()]));
        assert_eq!(resolve("localhost", &sources), Ok(vec!["127.0.0.1".parse().unwrap()]));
    }
}
