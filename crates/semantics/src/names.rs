//! Names of objects (RFC 1123, `k8s.io/apimachinery/pkg/util/validation`).

/// The maximum length of a DNS subdomain, as most objects' names are, in bytes.
pub const LONGEST_SUBDOMAIN: usize = 253;

/// Whether a text is a DNS label, but for its length: lower-case letters and digits, with `-` between them.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && text.bytes().all(is_inner)
}

/// Whether a text is a DNS subdomain, as most objects' names are: labels with dots between them.
#[must_use]
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= LONGEST_SUBDOMAIN && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subdomain_is_labels_with_dots_between_them() {
        for name in ["a", "0", "train-1", "pi.team-cv.svc", &"a".repeat(LONGEST_SUBDOMAIN)] {
            assert!(is_subdomain(name), "{name}");
        }
        for name in ["", ".", "a.", "a..b", "-a", "a-", "a.-b", "a-.b", "A", "a_b", "a/b", "ä"] {
            assert!(!is_subdomain(name), "{name}");
        }
        assert!(!is_subdomain(&"a".repeat(LONGEST_SUBDOMAIN + 1)));
        assert!(is_label("train-1") && !is_label("a.b"));
    }
}
