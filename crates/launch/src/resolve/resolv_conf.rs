//! The resolver's configuration (resolv.conf(5)): name servers, search list, `ndots`, `timeout`, `attempts`.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// As the C library (`MAXNS`).
const MAX_SERVERS: usize = 3;
/// The C library has no bound since glibc 2.26; Kubernetes allows 32.
const MAX_SEARCH: usize = 32;

/// The content of resolv.conf.
#[derive(Debug, PartialEq, Eq)]
pub struct ResolvConf {
    /// Servers in the order to ask them.
    pub servers: Vec<IpAddr>,
    /// Domains to append in turn.
    pub search: Vec<String>,
    /// A name with at least this many dots is first tried as it is.
    pub dots: usize,
    /// How long to wait for one server.
    pub timeout: Duration,
    /// How often to ask each server.
    pub attempts: u32,
}

/// Parses the content of a resolv.conf. Ignores what it does not know, as the C library does.
pub fn parse(text: &str) -> ResolvConf {
    let mut parsed = ResolvConf {
        servers: Vec::new(),
        search: Vec::new(),
        dots: 1,
        timeout: Duration::from_secs(5),
        attempts: 2,
    };
    for line in text.lines().filter(|line| !line.starts_with(['#', ';'])) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") if parsed.servers.len() < MAX_SERVERS => {
                parsed.servers.extend(words.next().and_then(|word| word.parse::<IpAddr>().ok()));
            }
            Some("search" | "domain") => {
                parsed.search = words
                    .map(|word| word.trim_matches('.').to_owned())
                    .filter(|word| !word.is_empty())
                    .take(MAX_SEARCH)
                    .collect();
            }
            Some("options") => words.for_each(|word| set_option(&mut parsed, word)),
            _ => {}
        }
    }
    if parsed.servers.is_empty() {
        parsed.servers.push(Ipv4Addr::LOCALHOST.into());
    }
    parsed
}

/// The bounds are those of the C library (`RES_MAXNDOTS`, `RES_MAXRETRANS`, `RES_MAXRETRY`).
fn set_option(parsed: &mut ResolvConf, word: &str) {
    let Some((name, Ok(value))) = word.split_once(':').map(|(name, value)| (name, value.parse::<u32>()))
    else {
        return;
    };
    match name {
        "ndots" => parsed.dots = value.min(15) as usize,
        "timeout" => parsed.timeout = Duration::from_secs(u64::from(value.clamp(1, 30))),
        "attempts" => parsed.attempts = value.clamp(1, 5),
        _ => {}
    }
}

impl ResolvConf {
    /// Returns the full names to ask for, in order (resolv.conf(5), `ndots` and `search`).
    pub fn candidates(&self, host: &str) -> Vec<String> {
        if let Some(absolute) = host.strip_suffix('.') {
            return vec![absolute.to_owned()];
        }
        let appended = self.search.iter().map(|domain| format!("{host}.{domain}"));
        let dots = host.bytes().filter(|byte| *byte == b'.').count();
        if dots >= self.dots {
            std::iter::once(host.to_owned()).chain(appended).collect()
        } else {
            appended.chain(std::iter::once(host.to_owned())).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_of_kubernetes() {
        let conf = parse(
            "search ns.svc.cluster.local svc.cluster.local cluster.local\nnameserver 172.30.0.10\noptions ndots:5 timeout:1\n",
        );
        assert_eq!(conf.servers, ["172.30.0.10".parse::<IpAddr>().unwrap()]);
        assert_eq!((conf.dots, conf.timeout.as_secs(), conf.attempts), (5, 1, 2));
        assert_eq!(
            conf.candidates("w-0.job.ns.svc"),
            [
                "w-0.job.ns.svc.ns.svc.cluster.local",
                "w-0.job.ns.svc.svc.cluster.local",
                "w-0.job.ns.svc.cluster.local",
                "w-0.job.ns.svc",
            ]
        );
        assert_eq!(conf.candidates("w-0.job.ns.svc.cluster.local."), ["w-0.job.ns.svc.cluster.local"]);
        assert_eq!(conf.candidates("a.b.c.d.e.f")[0], "a.b.c.d.e.f");
    }

    #[test]
    fn an_empty_or_wild_file_still_works() {
        let conf = parse("# nothing\nnameserver nonsense\noptions ndots:x ndots:99 attempts:0 rotate\n");
        assert_eq!(conf.servers, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
        assert_eq!((conf.dots, conf.attempts), (15, 1));
        assert_eq!(conf.candidates("a"), ["a"]);
    }
}
