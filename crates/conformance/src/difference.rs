//! One place where two answers differ. Pure.

use std::fmt;

use serde_json::Value;

/// A place where two answers differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The step's id.
    pub step: u32,
    /// The kind of request: see [`crate::program::Step::verb`].
    pub verb: String,
    /// The resource of the request: see [`crate::program::Step::resource`].
    pub resource: String,
    /// The place: `/code`, `/warnings/0`, `/body/spec/containers/0/name`.
    pub pointer: String,
    /// The real server's value.
    pub real: Option<Value>,
    /// The embedded server's value.
    pub ours: Option<Value>,
}

impl Difference {
    /// Returns a key for grouping differences that most likely have the same cause.
    pub fn signature(&self) -> String {
        let pointer = self
            .pointer
            .split('/')
            .map(|part| if part.parse::<u32>().is_ok() { "*" } else { part })
            .collect::<Vec<_>>()
            .join("/");
        let short = |value: &Option<Value>| match value {
            None => "-".to_owned(),
            Some(Value::String(text)) => words(text),
            Some(Value::Object(_)) => "{}".into(),
            Some(Value::Array(items)) => format!("[{}]", items.len()),
            Some(other) => other.to_string(),
        };
        let (real, ours) = if self.pointer.starts_with("/code")
            || self.pointer == "/type"
            || self.pointer.ends_with("/message")
        {
            (short(&self.real), short(&self.ours))
        } else {
            (String::new(), String::new())
        };
        let verb = if self.pointer.contains("managedFields") { "" } else { self.verb.as_str() };
        format!("{verb} {} {pointer} {real} {ours}", self.resource)
    }
}

/// Returns the beginning of a message, without quoted parts and digits.
fn words(text: &str) -> String {
    let mut quoted = false;
    let kept = text.chars().filter(|c| {
        if *c == '"' {
            quoted = !quoted;
        }
        !quoted && !c.is_ascii_digit()
    });
    kept.take(160).collect()
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show =
            |value: &Option<Value>| value.as_ref().map_or_else(|| "(absent)".to_owned(), Value::to_string);
        write!(
            f,
            "step {}: {} {} at {}\n    real: {}\n    ours: {}",
            self.step,
            self.verb,
            self.resource,
            self.pointer,
            show(&self.real),
            show(&self.ours)
        )
    }
}
