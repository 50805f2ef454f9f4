//! The hosts file (hosts(5)): one address a line, then its names.

use std::net::IpAddr;

/// The most addresses per host; more would not be worth trying.
const MAX_ADDRESSES: usize = 16;

/// Returns the addresses of `host` in `text`, the content of a hosts file. IPv4 comes first: most job networks use
/// it, and an agent listens on both.
pub fn lookup(text: &str, host: &str) -> Vec<IpAddr> {
    let host = host.strip_suffix('.').unwrap_or(host);
    let mut addresses: Vec<IpAddr> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split('#').next()?.split_whitespace();
            let address = words.next()?.parse().ok()?;
            words.any(|name| name.eq_ignore_ascii_case(host)).then_some(address)
        })
        .take(MAX_ADDRESSES)
        .collect();
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses.dedup();
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_aliases_comments_and_nonsense() {
        let text = "# pods\n127.0.0.1 localhost\n::1 localhost\n\nfd00::2\tworker-1\n\
                    10.1.0.7\tworker-1.job.ns.svc worker-1 # the second\nnonsense worker-1\n10.1.0.8 #worker-2\n";
        let shown = |host| lookup(text, host).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(shown("worker-1"), ["10.1.0.7", "fd00::2"]);
        assert_eq!(shown("WORKER-1.job.ns.svc."), ["10.1.0.7"]);
        assert_eq!(shown("localhost"), ["127.0.0.1", "::1"]);
        assert!(shown("worker-2").is_empty());
        assert!(shown("worker").is_empty());
    }
}
