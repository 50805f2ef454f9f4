//! The known differences: a committed list (`known.yaml`), with a reason for each. Pure.

use std::fmt::Write as _;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use crate::difference::Difference;
use crate::program::{Body, Step};
use crate::side::Answer;

const LIST: &str = include_str!("../known.yaml");

/// A class of differences that is intended or not worth fixing. Every given pattern must match completely.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// A short name.
    pub name: String,
    /// Why it is accepted.
    pub reason: String,
    /// A [`Step::verb`].
    #[serde(default)]
    pub verb: Option<Pattern>,
    /// A [`Step::resource`].
    #[serde(default)]
    pub resource: Option<Pattern>,
    /// A [`Difference::pointer`].
    #[serde(default)]
    pub pointer: Option<Pattern>,
    /// The real server's value, as text.
    #[serde(default)]
    pub real: Option<Pattern>,
    /// The embedded server's value, as text.
    #[serde(default)]
    pub ours: Option<Pattern>,
    /// The request's body, as text.
    #[serde(default)]
    pub body: Option<Pattern>,
    /// The message of the real server's answer.
    #[serde(default)]
    pub message: Option<Pattern>,
}

/// A regular expression that must match a whole text.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern(Regex);

impl TryFrom<String> for Pattern {
    type Error = regex::Error;

    fn try_from(text: String) -> Result<Self, regex::Error> {
        Regex::new(&format!("^(?s:{text})$")).map(Self)
    }
}

impl Known {
    /// Returns whether this entry covers the difference.
    pub fn covers(&self, step: &Step, difference: &Difference, real: &Answer) -> bool {
        let text = |value: &Option<Value>| match value {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let body = match &step.body {
            Body::Nothing => String::new(),
            Body::Text(text) => text.clone(),
            Body::Json(value) => value.to_string(),
            Body::Answer { edits, .. } => Value::from(edits.clone()).to_string(),
        };
        let said = real.body.get("message").and_then(Value::as_str).unwrap_or_default();
        let fits =
            |pattern: &Option<Pattern>, text: &str| pattern.as_ref().is_none_or(|p| p.0.is_match(text));
        fits(&self.verb, &difference.verb)
            && fits(&self.resource, &difference.resource)
            && fits(&self.pointer, &difference.pointer)
            && fits(&self.real, &text(&difference.real))
            && fits(&self.ours, &text(&difference.ours))
            && fits(&self.body, &body)
            && fits(&self.message, said)
    }
}

/// Returns the committed list.
///
/// # Errors
/// When the file is invalid.
pub fn list() -> Result<Vec<Known>, String> {
    serde_saphyr::from_str(LIST).map_err(|error| format!("crates/conformance/known.yaml: {error}"))
}

/// Formats the list as a page of the documentation.
pub fn page(list: &[Known]) -> String {
    let mut page = String::from(
        "# Where the embedded cluster answers otherwise than Kubernetes\n\n\
         <!-- Generated from crates/conformance/known.yaml by `cargo xtask gen`. -->\n\n\
         `cargo xtask conformance` sends the same generated requests to the embedded cluster and to kube-apiserver 1.36\n\
         and fails where the answers differ in any other way than these. Identities, times, resourceVersions (but for their\n\
         order), drawn names and addresses, the order and repetition of faults in one refusal, the order of unknown fields\n\
         after a JSON patch, and objects printed within a message are not compared.\n\n\
         Of 10,000 programs in one run (`--seed 1`, 63,439 requests to each server) none differed in a way that does not\n\
         stand here. Of 6,000 whose seeds nobody had looked at before (`--seed 930001`, `--seed 940001`) seven did: expect\n\
         one in a thousand of fresh ones. What is won is held by recorded answers (`crates/conformance/recorded.jsonl`), which\n\
         `cargo xtask test` checks.\n\n\
         | what | why |\n|---|---|\n",
    );
    for known in list {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| {} | {} |", known.name, known.reason.replace('\n', " "));
    }
    page
}
