//! The string formats of structural schemas (`kube-openapi/pkg/validation/strfmt`).
//!
//! As upstream, unknown formats are not checked.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine as _;

/// Returns whether `text` has the `format`; true for unknown formats.
pub(super) fn holds(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" | "micro-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "duration" => is_duration(text),
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "hostname" => is_hostname(text),
        "email" => text
            .split_once('@')
            .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains(['@', ' '])),
        "uri" => {
            text.starts_with('/')
                || text.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty())
        }
        "mac" => is_mac(text),
        "hexcolor" => text
            .strip_prefix('#')
            .is_some_and(|t| matches!(t.len(), 3 | 6) && t.bytes().all(|b| b.is_ascii_hexdigit())),
        _ => true,
    }
}

/// Returns whether a text is a Go duration such as `1h30m`, or a phrase such as `2 weeks`.
fn is_duration(text: &str) -> bool {
    const UNITS: &[&str] = &["ns", "us", "µs", "μs", "ms", "s", "m", "h", "d", "w"];
    const WORDS: &[&str] = &[
        "nano", "nanos", "micro", "micros", "milli", "millis", "sec", "secs", "second", "seconds", "min",
        "mins", "minute", "minutes", "hr", "hrs", "hour", "hours", "day", "days", "week", "weeks",
    ];
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        if digits == 0 || rest[..digits].parse::<f64>().is_err() {
            return false;
        }
        rest = rest[digits..].trim_start();
        let unit = rest.find(|c: char| c.is_ascii_digit() || c.is_whitespace()).unwrap_or(rest.len());
        if !UNITS.contains(&&rest[..unit]) && !WORDS.contains(&&rest[..unit]) {
            return false;
        }
        rest = rest[unit..].trim_start();
    }
    true
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let bits: u8 = match bits.parse() {
        Ok(bits) => bits,
        Err(_) => return false,
    };
    (address.parse::<Ipv4Addr>().is_ok() && bits <= 32)
        || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    hex.len() == 32
        && hex.bytes().all(|b| b.is_ascii_hexdigit())
        && version.is_none_or(|v| hex.chars().nth(12) == Some(v))
}

fn is_hostname(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 255
        && text.trim_end_matches('.').split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    matches!(parts.len(), 6 | 8)
        && parts.iter().all(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::holds;

    #[test]
    fn formats_are_checked_as_upstream() {
        let good = [
            ("date-time", "2024-01-01T00:00:00Z"),
            ("date", "2024-02-29"),
            ("duration", "1h30m"),
            ("duration", "2 weeks"),
            ("ipv4", "10.0.0.1"),
            ("ipv6", "::1"),
            ("cidr", "10.0.0.0/8"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000"),
            ("hostname", "a.b-c"),
            ("byte", "YQ=="),
            ("email", "a@b"),
            ("uri", "http://a"),
            ("password", "anything"),
            ("mac", "00:11:22:33:44:55"),
        ];
        let bad = [
            ("date-time", "yesterday"),
            ("date", "2024-02-30"),
            ("duration", "1x"),
            ("duration", ""),
            ("ipv4", "300.0.0.1"),
            ("ipv6", "10.0.0.1"),
            ("cidr", "10.0.0.0/33"),
            ("uuid", "1"),
            ("hostname", "-a"),
            ("byte", "?"),
            ("uri", "a b"),
        ];
        assert!(good.iter().all(|(f, t)| holds(f, t)), "{:?}", good.iter().find(|(f, t)| !holds(f, t)));
        assert!(bad.iter().all(|(f, t)| !holds(f, t)), "{:?}", bad.iter().find(|(f, t)| holds(f, t)));
    }
}
