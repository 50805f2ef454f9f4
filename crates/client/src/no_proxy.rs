//! Which servers are reached without the environment's proxy: the rules of Go's `golang.org/x/net/http/httpproxy`, which
//! kubectl follows. Pure.

use std::net::IpAddr;

use ipnet::IpNet;

/// Whether a server is reached directly: it is on loopback, or `NO_PROXY` names it.
///
/// `NO_PROXY` is a list with commas of `*`, addresses, CIDRs, names (with their subdomains), `.NAME` and `*.NAME` (only the
/// subdomains), each but a CIDR with an optional port. Empty and invalid items are skipped.
pub(crate) fn is_direct(no_proxy: &str, host: &str, port: u16) -> bool {
    let host = unbracketed(host).trim_end_matches('.').to_ascii_lowercase();
    let address = host.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    no_proxy.split(',').map(|item| item.trim().to_ascii_lowercase()).any(|item| {
        if let Ok(range) = item.parse::<IpNet>() {
            return address.is_some_and(|address| range.contains(&address));
        }
        let (named, named_port) = split(&item);
        named == "*" && named_port.is_none()
            || named_port.is_none_or(|named_port| named_port.parse() == Ok(port))
                && match (named.parse::<IpAddr>(), address) {
                    (Ok(named), address) => address == Some(named.to_canonical()),
                    (Err(_), Some(_)) => false,
                    (Err(_), None) => is_within(&host, named),
                }
    })
}

/// Splits `HOST:PORT`; an IPv6 address with a port is in brackets.
fn split(item: &str) -> (&str, Option<&str>) {
    match item.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (unbracketed(host), Some(port)),
        _ => (unbracketed(item), None),
    }
}

fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Whether a host is a domain or below it; `.NAME` and `*.NAME` have only what is below.
fn is_within(host: &str, domain: &str) -> bool {
    let domain = domain.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(domain);
    let (name, itself) = match domain.strip_prefix('.') {
        Some(name) => (name, false),
        None => (domain, true),
    };
    let below = host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    !name.is_empty() && (below || itself && host == name)
}

#[cfg(test)]
mod tests {
    use super::is_direct;

    #[track_caller]
    fn check(no_proxy: &str, direct: &[&str], proxied: &[&str]) {
        for (hosts, expected) in [(direct, true), (proxied, false)] {
            for host in hosts {
                assert_eq!(is_direct(no_proxy, host, 6443), expected, "NO_PROXY={no_proxy} {host}");
            }
        }
    }

    #[test]
    fn loopback_needs_no_proxy() {
        check(
            "",
            &["localhost", "LOCALHOST", "127.0.0.1", "127.8.8.8", "[::1]"],
            &["10.0.0.1", "a.localhost", "a.b"],
        );
    }

    #[test]
    fn a_star_exempts_all() {
        check("*", &["a.b", "10.0.0.1", "[fd00::1]"], &[]);
        check("10.0.0.1, * ", &["a.b"], &[]);
    }

    #[test]
    fn a_name_exempts_itself_and_what_is_below_it() {
        check(
            "example.org",
            &["example.org", "api.example.org", "API.Example.ORG", "example.org."],
            &["myexample.org", "org"],
        );
        check(".example.org", &["api.example.org"], &["example.org", "myexample.org"]);
        check("*.example.org", &["a.b.example.org"], &["example.org"]);
    }

    #[test]
    fn addresses_and_ranges() {
        check("10.0.0.1,10.96.0.0/12", &["10.0.0.1", "10.100.3.4"], &["10.0.0.2", "10.0.0.10", "10.112.0.1"]);
        check("fd00::1,fd01::/16", &["[fd00::1]", "[fd01::5]"], &["[fd00::2]"]);
        // A range of names does not exist, and a name is not resolved to compare it with a range.
        check("10.0.0.0/8", &[], &["ten.example.org"]);
    }

    #[test]
    fn a_port_restricts() {
        check(
            "example.org:6443,10.0.0.1:6443,[fd00::1]:6443",
            &["example.org", "10.0.0.1", "[fd00::1]"],
            &[],
        );
        check(
            "example.org:443,10.0.0.1:443,[fd00::1]:443,*:443",
            &[],
            &["example.org", "10.0.0.1", "[fd00::1]"],
        );
    }

    #[test]
    fn empty_and_invalid_items_are_skipped() {
        check(",, 10.0.0.1 ,,.,/,[,:,10.0.0.0/99,", &["10.0.0.1"], &["a.b", "10.0.0.2"]);
    }
}
