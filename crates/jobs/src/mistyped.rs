//! Reads values into types, and says in words for people which field does not fit: serde's messages name Rust's types.
//! Pure.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::manifest;

/// The first field that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistyped {
    /// Its path; empty for the whole value.
    pub path: String,
    /// What is wrong with it.
    pub fault: String,
    /// What to do; empty if that is not known.
    pub fix: String,
}

/// Reads a value into a type.
///
/// # Errors
/// The first field that does not fit.
pub fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Mistyped> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let (fault, fix) = in_words(&error.inner().to_string());
        Mistyped { path: if path == "." { String::new() } else { path }, fault, fix }
    })
}

/// Returns what is wrong, and what to do, for one of serde's messages.
fn in_words(message: &str) -> (String, String) {
    let wrong = ["invalid type: ", "invalid value: "].iter().find_map(|prefix| message.strip_prefix(prefix));
    if let Some((found, expected)) = wrong.and_then(|wrong| wrong.split_once(", expected ")) {
        return (format!("is {}", shown(found)), format!("send {}", kind(expected)));
    }
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let mut quoted = rest.split('`').skip(1).step_by(2);
        let (name, known) = (quoted.next().unwrap_or_default(), quoted.collect::<Vec<_>>());
        let fix = match manifest::nearest(name, &known) {
            Some(nearest) => format!("did you mean \"{nearest}\"?"),
            None => String::new(),
        };
        let shown: String = name.chars().take(40).collect();
        return (format!("there is no field \"{}\"", shown.escape_debug()), fix);
    }
    (message.to_owned(), String::new())
}

/// A value as it was sent.
fn shown(found: &str) -> String {
    let quoted = |prefix: &str| Some(found.strip_prefix(prefix)?.trim_matches('`').to_owned());
    if let Some(text) = found.strip_prefix("string ") {
        let shown: String = text.chars().take(60).collect();
        return format!("the text {shown}");
    }
    let number = quoted("integer ").or_else(|| quoted("floating point "));
    match (number, quoted("boolean ")) {
        (Some(number), _) => format!("the number {number}"),
        (None, Some(flag)) => flag,
        (None, None) => match found {
            "map" => "an object".to_owned(),
            "sequence" => "a list".to_owned(),
            other => other.to_owned(),
        },
    }
}

/// The kind of value that a field takes.
fn kind(expected: &str) -> &str {
    match expected {
        "i32" => "a whole number from -2147483648 to 2147483647",
        "a boolean" => "true or false",
        "a string" => "a text",
        "a sequence" => "a list",
        "a map" => "an object",
        message if message.starts_with("struct ") => "an object",
        // A type of Kubernetes, e.g. `PodAffinity`.
        message if message.starts_with(char::is_uppercase) && !message.contains(' ') => "an object",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Request {
        #[serde(rename = "spec")]
        _spec: Spec,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Spec {
        workers: i32,
        image: String,
        suspend: bool,
        command: Vec<String>,
        env: BTreeMap<String, String>,
    }

    #[test]
    fn faults_name_no_types_of_a_programming_language() {
        for (sent, fault, fix) in [
            (
                r#"{"spec": {"workers": "a"}}"#,
                "is the text \"a\"",
                "send a whole number from -2147483648 to 2147483647",
            ),
            (
                r#"{"spec": {"workers": 1.5}}"#,
                "is the number 1.5",
                "send a whole number from -2147483648 to 2147483647",
            ),
            (
                r#"{"spec": {"workers": 99999999999}}"#,
                "is the number 99999999999",
                "send a whole number from -2147483648 to 2147483647",
            ),
            (r#"{"spec": {"image": 5}}"#, "is the number 5", "send a text"),
            (r#"{"spec": {"suspend": {}}}"#, "is an object", "send true or false"),
            (r#"{"spec": {"command": true}}"#, "is true", "send a list"),
            (r#"{"spec": {"env": 5}}"#, "is the number 5", "send an object"),
            (r#"{"spec": "x"}"#, "is the text \"x\"", "send an object"),
            (r#"{"spec": {"wrokers": 2}}"#, "there is no field \"wrokers\"", "did you mean \"workers\"?"),
        ] {
            let mistyped = typed::<Request>(serde_json::from_str(sent).unwrap()).unwrap_err();
            assert_eq!((mistyped.fault.as_str(), mistyped.fix.as_str()), (fault, fix), "{mistyped:?}");
            assert!(mistyped.path.starts_with("spec"), "{mistyped:?}");
        }
    }
}
