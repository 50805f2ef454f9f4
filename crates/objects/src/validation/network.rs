//! Addresses and CIDR ranges in fields that historically accept non-canonical forms
//! (`apimachinery/pkg/util/validation/ip.go`, strict).

use std::net::{IpAddr, Ipv4Addr};

use super::FieldFault;

const ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Returns the faults of an IP address (`IsValidIPForLegacyField`). Addresses in `before` remain valid.
pub(super) fn address(path: &str, address: &str, before: &[&str]) -> Vec<FieldFault> {
    if before.contains(&address) {
        return Vec::new();
    }
    let detail = match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(six)) if six.to_ipv4_mapped().is_some() => "must not be an IPv4-mapped IPv6 address",
        Ok(_) => return Vec::new(),
        Err(_) if without_zeros(address).is_some() => "must not have leading 0s",
        Err(_) => ADDRESS,
    };
    vec![FieldFault::invalid(path, address, detail)]
}

/// Whether Go's `ParseIPSloppy` parses it.
pub(super) fn is_address(address: &str) -> bool {
    address.parse::<IpAddr>().is_ok() || without_zeros(address).is_some()
}

/// Parses an IPv4 address whose numbers have leading zeros.
fn without_zeros(address: &str) -> Option<Ipv4Addr> {
    let numbers = address.split('.').map(|part| part.parse::<u8>().ok().map(|number| number.to_string()));
    numbers.collect::<Option<Vec<_>>>()?.join(".").parse().ok()
}

/// Returns the faults of a CIDR range (`IsValidCIDRForLegacyField`). Ranges in `before` remain valid.
pub(super) fn range(path: &str, range: &str, before: &[&str]) -> Vec<FieldFault> {
    if before.contains(&range) {
        return Vec::new();
    }
    let (address, bits) = range.split_once('/').unwrap_or((range, ""));
    let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let length = bits.parse::<u32>().ok().filter(|_| is_number);
    let parsed = address.parse::<IpAddr>().ok().or(without_zeros(address).map(IpAddr::V4));
    let detail = match (parsed, length) {
        (Some(IpAddr::V4(_)), Some(33..)) | (Some(IpAddr::V6(_)), Some(129..)) | (None, _) | (_, None) => {
            RANGE
        }
        _ if address.parse::<IpAddr>().is_err() || (bits.len() > 1 && bits.starts_with('0')) => {
            "must not have leading 0s in IP or prefix length"
        }
        (Some(IpAddr::V6(six)), _) if six.to_ipv4_mapped().is_some() => {
            "must not have an IPv4-mapped IPv6 address"
        }
        (Some(address), Some(length)) if has_bits_beyond(address, length) => {
            "must not have bits set beyond the prefix length"
        }
        _ => return Vec::new(),
    };
    vec![FieldFault::invalid(path, range, detail)]
}

fn has_bits_beyond(address: IpAddr, length: u32) -> bool {
    match address {
        IpAddr::V4(four) => u32::from(four) & u32::MAX.checked_shr(length).unwrap_or_default() != 0,
        IpAddr::V6(six) => u128::from(six) & u128::MAX.checked_shr(length).unwrap_or_default() != 0,
    }
}

/// Returns the faults of an endpoint's address (`ValidateEndpointIP`).
pub(super) fn special_address(path: &str, text: &str) -> Vec<FieldFault> {
    let Ok(address) = text.parse::<IpAddr>() else {
        return vec![FieldFault::invalid(path, text, "must be a valid IP address")];
    };
    let (is_local, is_local_group) = match address {
        IpAddr::V4(four) => (four.is_link_local(), four.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(six) => (six.is_unicast_link_local(), six.segments()[0] == 0xff02),
    };
    let rules = [
        (address.is_unspecified(), format!("may not be unspecified ({text})")),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (is_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
        (is_local_group, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()),
    ];
    let broken = rules.into_iter().filter(|(is_broken, _)| *is_broken);
    broken.map(|(_, detail)| FieldFault::invalid(path, text, detail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_validated_as_in_kubernetes() {
        let said =
            |text: &str| range("r", text, &[]).first().map(|fault| fault.detail.clone()).unwrap_or_default();
        assert_eq!(["10.0.0.0/8", "fd00::/8", "0.0.0.0/0"].map(said), ["", "", ""]);
        assert_eq!(["10.0.0.0", "10.0.0.0/33", "x/8", "10.0.0.0/"].map(said), [RANGE; 4]);
        assert_eq!(said("10.1.0.0/8"), "must not have bits set beyond the prefix length");
        assert_eq!(said("010.0.0.0/8"), "must not have leading 0s in IP or prefix length");
        assert_eq!(range("r", "10.1.0.0/8", &["10.1.0.0/8"]), []);
    }

    #[test]
    fn special_addresses_are_rejected_as_endpoints() {
        assert_eq!(special_address("a", "127.0.0.1").len(), 1);
        assert_eq!(special_address("a", "10.0.0.1"), []);
        assert_eq!(address("a", "01.2.3.4", &[])[0].detail, "must not have leading 0s");
    }
}
