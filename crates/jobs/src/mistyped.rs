//! What is wrong with a request's field, in words for people: serde's messages name Rust's types. Pure.

/// Returns what is wrong, and what to do, for one of serde's messages.
pub fn in_words(message: &str) -> (String, String) {
    let docs = "see /docs for the fields of this request";
    let wrong = ["invalid type: ", "invalid value: "].iter().find_map(|prefix| message.strip_prefix(prefix));
    if let Some((found, expected)) = wrong.and_then(|wrong| wrong.split_once(", expected ")) {
        return (format!("is {}", value(found)), format!("send {}", kind(expected)));
    }
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let mut quoted = rest.split('`').skip(1).step_by(2);
        let (name, known) = (quoted.next().unwrap_or_default(), quoted.collect::<Vec<_>>());
        let fix = match jobs::manifest::nearest(name, &known) {
            Some(nearest) => format!("did you mean \"{nearest}\"?"),
            None => docs.to_owned(),
        };
        let shown: String = name.chars().take(40).collect();
        return (format!("there is no field \"{}\"", shown.escape_debug()), fix);
    }
    (message.to_owned(), docs.to_owned())
}

/// A value as it was sent.
fn value(found: &str) -> String {
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
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::CreateJobRequest;

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
            (r#"{"spec": "x"}"#, "is the text \"x\"", "send an object"),
            (r#"{"spec": {"wrokers": 2}}"#, "there is no field \"wrokers\"", "did you mean \"workers\"?"),
        ] {
            let value: serde_json::Value = serde_json::from_str(sent).unwrap();
            let error = serde_json::from_value::<CreateJobRequest>(value).unwrap_err();
            assert_eq!(in_words(&error.to_string()), (fault.to_owned(), fix.to_owned()), "{error}");
        }
    }
}
