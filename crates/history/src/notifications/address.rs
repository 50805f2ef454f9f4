//! Which addresses a webhook may reach.
//!
//! A user who may create rules makes this process send requests. Without a policy they would reach what only this
//! process can reach: metadata services, the cluster's own network, other programs on this machine. A host name proves
//! nothing, so the addresses that it resolves to are checked, and the connection goes to a checked address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use http::Uri;

use crate::error::Error;

/// The maximum length of a URL in bytes.
pub const MAX_URL_BYTES: usize = 2048;

/// A range of addresses, as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// The addresses of this machine itself.
    pub const LOOPBACK: [Network; 2] =
        [Self::v4(127, 0, 0, 0, 8), Network { address: IpAddr::V6(Ipv6Addr::LOCALHOST), bits: 128 }];

    const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits }
    }

    const fn v6(head: [u16; 3], bits: u8) -> Self {
        Self { address: IpAddr::V6(Ipv6Addr::new(head[0], head[1], head[2], 0, 0, 0, 0, 0)), bits }
    }

    /// Whether an address is in this range.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = || Error::Invalid(format!("{text:?} is not a range of addresses like 10.0.0.0/8"));
        let (address, bits) = text.split_once('/').ok_or_else(invalid)?;
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let bits = bits.parse().map_err(|_| invalid())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        if bits > most {
            return Err(invalid());
        }
        Ok(Self { address, bits })
    }
}

/// Addresses that are not on the public internet, from IANA's special-purpose registries, and the metadata services of
/// clouds that are outside these ranges.
const REFUSED: &[(Network, &str)] = &[
    (Network::v4(0, 0, 0, 0, 8), "this network"),
    (Network::v4(10, 0, 0, 0, 8), "private"),
    (Network::v4(100, 64, 0, 0, 10), "shared address space"),
    (Network::v4(127, 0, 0, 0, 8), "loopback"),
    (Network::v4(169, 254, 0, 0, 16), "link-local"),
    (Network::v4(172, 16, 0, 0, 12), "private"),
    (Network::v4(192, 0, 0, 0, 24), "protocol assignments"),
    (Network::v4(192, 0, 2, 0, 24), "documentation"),
    (Network::v4(192, 88, 99, 0, 24), "6to4 relay"),
    (Network::v4(192, 168, 0, 0, 16), "private"),
    (Network::v4(198, 18, 0, 0, 15), "benchmarking"),
    (Network::v4(198, 51, 100, 0, 24), "documentation"),
    (Network::v4(203, 0, 113, 0, 24), "documentation"),
    (Network::v4(224, 0, 0, 0, 4), "multicast"),
    (Network::v4(240, 0, 0, 0, 4), "reserved"),
    (Network::v4(168, 63, 129, 16, 32), "metadata service"),
    (Network::v6([0, 0, 0], 8), "reserved"),
    (Network::v6([0x100, 0, 0], 64), "discard"),
    (Network::v6([0x2001, 0, 0], 23), "protocol assignments"),
    (Network::v6([0x2001, 0xdb8, 0], 32), "documentation"),
    (Network::v6([0x3fff, 0, 0], 20), "documentation"),
    (Network::v6([0x5f00, 0, 0], 16), "segment routing"),
    (Network::v6([0xfc00, 0, 0], 7), "private"),
    (Network::v6([0xfe80, 0, 0], 10), "link-local"),
    (Network::v6([0xfec0, 0, 0], 10), "site-local"),
    (Network::v6([0xff00, 0, 0], 8), "multicast"),
];

/// What webhooks may reach.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Ranges that are allowed although they are not public.
    pub allowed: Vec<Network>,
    /// Whether URLs may be `http`. Deliveries are then readable on the way, and still signed.
    pub allow_http: bool,
    /// The domains of recipients of e-mails; all if empty.
    pub email_domains: Vec<String>,
}

/// A destination taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The host name or address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// The value of the header `Host`.
    pub authority: String,
    /// Path and query.
    pub path: String,
}

impl Policy {
    /// Checks a recipient of e-mails.
    ///
    /// # Errors
    /// If it is not a permitted address; the error says why.
    pub fn email(&self, to: &str) -> Result<(), Error> {
        let address = super::mail::recipient(to)?;
        let is_allowed = |domain: &String| domain.eq_ignore_ascii_case(address.domain());
        match self.email_domains.is_empty() || self.email_domains.iter().any(is_allowed) {
            true => Ok(()),
            false => {
                Err(Error::Invalid(format!("{} is not a domain that e-mails may go to", address.domain())))
            }
        }
    }

    /// Takes a URL apart, if it may be a destination.
    ///
    /// # Errors
    /// If it is not a permitted URL; the error says why.
    pub fn target(&self, url: &str) -> Result<Target, Error> {
        let invalid = |why: &str| Error::Invalid(format!("the webhook's URL {why}"));
        if url.len() > MAX_URL_BYTES {
            return Err(invalid(&format!("is longer than {MAX_URL_BYTES} bytes")));
        }
        let uri: Uri = url.parse().map_err(|_| invalid("is not a URL"))?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if self.allow_http => false,
            _ => return Err(invalid("must begin with https://")),
        };
        let authority = uri.authority().ok_or_else(|| invalid("has no host"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("must not contain credentials"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(invalid("has no host"));
        }
        if let Some(why) = host.parse().ok().and_then(|address| self.refuses(address)) {
            return Err(invalid(&format!("has an address that is not allowed: {host} is {why}")));
        }
        let after_host = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
        let port = match after_host.strip_prefix(':') {
            None if tls => 443,
            None => 80,
            // The URL's own parser reads a port that is too large as none.
            Some(port) => port.parse().map_err(|_| invalid("has an invalid port"))?,
        };
        let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
        Ok(Target { host, port, tls, authority: authority.as_str().to_owned(), path })
    }

    /// Returns why an address may not be reached, if it may not.
    #[must_use]
    pub fn refuses(&self, address: IpAddr) -> Option<&'static str> {
        let address = address.to_canonical();
        if self.allowed.iter().any(|network| network.contains(address)) {
            return None;
        }
        if let Some(inner) = embedded(address) {
            return self.refuses(IpAddr::V4(inner));
        }
        REFUSED.iter().find(|(network, _)| network.contains(address)).map(|(_, why)| *why)
    }
}

/// Returns the IPv4 address that a gateway (NAT64 or 6to4) reaches for an IPv6 address.
fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let [a, b, c, d, e, f, g, h] = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match (a, b, c, d, e, f) {
        (0x64, 0xff9b, 0, 0, 0, 0) => Some(of(g, h)),
        (0x2002, high, low, ..) => Some(of(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_not_public_are_refused_in_every_notation() {
        let policy = Policy::default();
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "172.31.255.255",
            "192.168.0.1",
            "169.254.169.254",
            "100.100.100.200",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "168.63.129.16",
            "192.0.0.192",
            "::1",
            "::",
            "fe80::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2001:0:1::1",
            "64:ff9b:1::1",
        ] {
            assert!(policy.refuses(address.parse().unwrap()).is_some(), "{address}");
        }
        for address in
            ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
        {
            assert_eq!(policy.refuses(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn a_range_that_is_allowed_is_reachable_and_its_neighbours_are_not() {
        let policy = Policy { allowed: vec!["10.1.0.0/16".parse().unwrap()], ..Policy::default() };
        assert_eq!(policy.refuses("10.1.255.255".parse().unwrap()), None);
        assert_eq!(policy.refuses("::ffff:10.1.0.1".parse().unwrap()), None);
        assert!(policy.refuses("10.2.0.0".parse().unwrap()).is_some());
        for bad in ["10.0.0.0", "10.0.0.0/33", "x/8", "::/129"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
        assert!("0.0.0.0/0".parse::<Network>().unwrap().contains("9.9.9.9".parse().unwrap()));
    }

    #[test]
    fn only_plain_urls_are_destinations() {
        let policy = Policy::default();
        let target = policy.target("https://hooks.example.com:8443/a?b=c").unwrap();
        assert_eq!(
            (target.host.as_str(), target.port, target.path.as_str()),
            ("hooks.example.com", 8443, "/a?b=c")
        );
        for bad in [
            "http://example.com/",
            "ftp://example.com/",
            "https://user:word@example.com/",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "/path",
            "",
            "https://",
            "https://example.com:99999/",
            "https://exa mple.com/",
        ] {
            assert!(policy.target(bad).is_err(), "{bad}");
        }
        assert!(policy.target(&format!("https://example.com/{}", "x".repeat(MAX_URL_BYTES))).is_err());
    }
}
