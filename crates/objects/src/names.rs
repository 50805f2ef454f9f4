//! Validation of names, labels, annotations and similar texts.
//!
//! Patterns and messages of `apimachinery/pkg/util/validation` and `pkg/api/validation`.

use semantics::{LONGEST_SUBDOMAIN, is_label};
use serde_json::{Map, Value};

use super::fault::FieldFault;
use super::kinds::NameRule;

/// The limit for all annotations of one object, in bytes.
pub const MAX_ANNOTATIONS_BYTES: usize = 256 << 10;
const LABEL_BYTES: usize = 63;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const SEARCH_DOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const ENV_NAME: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";

/// As [`too_long`], worded as in `util/validation`.
fn too_many(characters: usize) -> String {
    format!("must be no more than {characters} characters")
}

fn too_long(bytes: usize) -> String {
    format!("must be no more than {bytes} bytes")
}

/// Returns the faults of a lowercase RFC 1123 subdomain.
pub fn subdomain(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LONGEST_SUBDOMAIN {
        faults.push(too_many(LONGEST_SUBDOMAIN));
    }
    if !text.split('.').all(is_label) {
        faults.push(SUBDOMAIN.to_owned());
    }
    faults
}

/// Returns the faults of a DNS search domain (`IsDNS1123SubdomainWithUnderscore`).
pub fn search_domain(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LONGEST_SUBDOMAIN {
        faults.push(too_many(LONGEST_SUBDOMAIN));
    }
    let is_label = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        let bytes = part.as_bytes();
        let ends = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(b);
        ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(inner)
    };
    if !text.split('.').all(is_label) {
        faults.push(SEARCH_DOMAIN.to_owned());
    }
    faults
}

/// Returns the faults of a prefix of names that are subdomains (`NameIsDNSSubdomain` of a prefix).
pub fn prefix(text: &str) -> Vec<String> {
    match text.strip_suffix('-').filter(|kept| !kept.is_empty()) {
        Some(kept) => subdomain(&format!("{}a", &kept[..kept.len() - 1])),
        None => subdomain(text),
    }
}

/// Returns the faults of a lowercase RFC 1123 label.
pub fn label(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LABEL_BYTES {
        faults.push(too_many(LABEL_BYTES));
    }
    if !is_label(text) {
        let is_subdomain = text.split('.').all(is_label);
        faults.push(if is_subdomain { "must not contain dots" } else { LABEL }.to_owned());
    }
    faults
}

/// Returns the faults of an RFC 1035 label.
pub fn label_1035(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LABEL_BYTES {
        faults.push(too_many(LABEL_BYTES));
    }
    if !is_label(text) || text.starts_with(|c: char| c.is_ascii_digit()) {
        faults.push(LABEL_1035.to_owned());
    }
    faults
}

/// Returns the faults of a path segment (`path.IsValidPathSegmentName`).
pub fn path_segment(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text == "." || text == ".." {
        faults.push(format!("may not be '{text}'"));
    }
    for illegal in ["/", "%"] {
        if text.contains(illegal) {
            faults.push(format!("may not contain '{illegal}'"));
        }
    }
    faults
}

/// Returns the faults of a name under this rule.
pub fn by_rule(rule: NameRule, text: &str) -> Vec<String> {
    match rule {
        NameRule::Subdomain => subdomain(text),
        NameRule::Label => label(text),
        NameRule::PathSegment => path_segment(text),
    }
}

fn token_shape(text: &str) -> bool {
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

/// Returns the faults of a qualified name, such as a label's key: `[prefix/]name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                &QUALIFIED["name part ".len()..]
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                faults.extend(subdomain(prefix).into_iter().map(|f| format!("prefix part {f}")));
            }
            name
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_BYTES {
        faults.push(format!("name part {}", too_long(LABEL_BYTES)));
    }
    if !token_shape(name) {
        faults.push(QUALIFIED.to_owned());
    }
    faults
}

/// Returns the fault of a label's value.
pub fn label_value(text: &str) -> Option<String> {
    if text.len() > LABEL_BYTES {
        Some(too_long(LABEL_BYTES))
    } else if !text.is_empty() && !token_shape(text) {
        Some(LABEL_VALUE.to_owned())
    } else {
        None
    }
}

/// Returns the faults of a key of a ConfigMap or Secret.
pub fn config_key(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LONGEST_SUBDOMAIN {
        faults.push(too_many(LONGEST_SUBDOMAIN));
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
        faults.push(CONFIG_KEY.to_owned());
    }
    if text == "." || text == ".." {
        faults.push(format!("must not be '{text}'"));
    } else if text.starts_with("..") {
        faults.push("must not start with '..'".to_owned());
    }
    faults
}

/// Returns the fault of an environment variable's name.
pub fn env_name(text: &str) -> Option<&'static str> {
    let good = !text.is_empty() && text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=');
    (!good).then_some(ENV_NAME)
}

/// Returns the fault of a port number.
pub fn port(number: i64) -> Option<&'static str> {
    (!(1..=65_535).contains(&number)).then_some("must be between 1 and 65535, inclusive")
}

/// Returns the faults of a port's name (RFC 6335).
pub fn port_name(text: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if text.len() > 15 {
        faults.push("must be no more than 15 characters");
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)");
    }
    if text.contains("--") {
        faults.push("must not contain consecutive hyphens");
    }
    if text.starts_with('-') || text.ends_with('-') {
        faults.push("must not begin or end with a hyphen");
    }
    faults
}

/// Returns the faults of a map of labels.
pub fn labels(labels: &Value, path: &str) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        faults.extend(qualified_name(key).into_iter().map(|f| FieldFault::invalid(path, key.as_str(), f)));
        if let Some(fault) = value.as_str().and_then(label_value) {
            faults.push(FieldFault::invalid(path, value.clone(), fault));
        }
    }
    faults
}

/// Returns the faults of a map of annotations.
pub fn annotations(annotations: &Value, path: &str) -> Vec<FieldFault> {
    let none = Map::new();
    let annotations = annotations.as_object().unwrap_or(&none);
    let mut faults = Vec::new();
    let mut bytes = 0;
    for (key, value) in annotations {
        let lower = key.to_lowercase();
        faults.extend(qualified_name(&lower).into_iter().map(|f| FieldFault::invalid(path, key.as_str(), f)));
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > MAX_ANNOTATIONS_BYTES {
        faults.push(FieldFault::too_long(path, MAX_ANNOTATIONS_BYTES));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_validated() {
        assert!(subdomain("a.b-c.1").is_empty() && label("1-a").is_empty() && label_1035("a-1").is_empty());
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".a", &"a".repeat(254)] {
            assert!(!subdomain(bad).is_empty(), "{bad}");
        }
        assert!(
            !label("a.b").is_empty() && !label(&"a".repeat(64)).is_empty() && !label_1035("1a").is_empty()
        );
        assert!(qualified_name("example.com/My_Name.1").is_empty() && qualified_name("a").is_empty());
        for bad in ["", "/a", "a/", "a/b/c", "A.com/b", "-a", "a b"] {
            assert!(!qualified_name(bad).is_empty(), "{bad}");
        }
        assert!(label_value("").is_none() && label_value("a-B_1.").is_some() && label_value("x y").is_some());
        assert!(path_segment("system:node").is_empty() && !path_segment("a/b").is_empty());
        assert!(
            config_key("a.b_C-1").is_empty()
                && !config_key("..a").is_empty()
                && !config_key("a/b").is_empty()
        );
        assert!(port_name("http").is_empty() && !port_name("1").is_empty() && !port_name("a--b").is_empty());
        assert!(env_name("A_1.b-c").is_none() && env_name("A=B").is_some() && env_name("").is_some());
    }
}
