//! Label selectors in kubectl's syntax: `team=nlp,stage!=test,tier in (a, b),!old`. Pure.
//!
//! Source of the syntax: `k8s.io/apimachinery/pkg/labels` `Parse`. A selector without a term selects everything.

use std::collections::BTreeMap;

use semantics::Operator;

/// The maximum length of a selector, in bytes.
const MAX_BYTES: usize = 4096;

/// A label selector: every term must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq)]
struct Term {
    label: String,
    operator: Operator,
    values: Vec<String>,
}

impl Labels {
    /// Parses a selector.
    ///
    /// # Errors
    /// A sentence about the term that is not valid.
    pub fn read(text: &str) -> Result<Labels, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("a label selector has at most {MAX_BYTES} bytes"));
        }
        let terms = split(text).into_iter().filter(|term| !term.is_empty());
        Ok(Labels { terms: terms.map(term).collect::<Result<_, _>>()? })
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let holds =
            |term: &Term| term.operator.holds(labels.get(&term.label).map(String::as_str), &term.values);
        self.terms.iter().all(holds)
    }
}

/// Splits at commas that are not in parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut inside = false;
    let separates = |c: char| {
        inside = c == '(' || (inside && c != ')');
        c == ',' && !inside
    };
    text.split(separates).map(str::trim).collect()
}

fn term(text: &str) -> Result<Term, String> {
    let wrong = || {
        format!(
            "\"{text}\" is not a label selector: use team=nlp, stage!=test, tier in (a, b), name or !name"
        )
    };
    let made = |label: &str, operator, values: Vec<String>| {
        let label = label.trim();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        let valid = !label.is_empty() && label.chars().all(is_part);
        let valid_values = values.iter().all(|value| value.chars().all(|c| is_part(c) && c != '/'));
        (valid && valid_values).then(|| Term { label: label.to_owned(), operator, values }).ok_or_else(wrong)
    };
    if let Some(label) = text.strip_prefix('!') {
        return made(label, Operator::DoesNotExist, Vec::new());
    }
    if let Some((label, listed)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let values = listed.split(',').map(|value| value.trim().to_owned()).collect();
        let mut words = label.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(label), Some("in"), None) => made(label, Operator::In, values),
            (Some(label), Some("notin"), None) => made(label, Operator::NotIn, values),
            _ => Err(wrong()),
        };
    }
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some((label, value)) = text.split_once("!=") {
        return made(label, Operator::NotIn, one(value));
    }
    match text.split_once("==").or_else(|| text.split_once('=')) {
        Some((label, value)) => made(label, Operator::In, one(value)),
        None => made(text, Operator::Exists, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_term_is_understood() {
        let labels =
            BTreeMap::from([("team".to_owned(), "nlp".to_owned()), ("a/b".to_owned(), String::new())]);
        let table = [
            ("", true),
            ("team", true),
            ("!team", false),
            ("team=nlp", true),
            ("team == nlp, a/b", true),
            ("team!=nlp", false),
            ("stage!=test", true),
            ("team in (cv, nlp),!stage", true),
            ("team notin (cv,nlp)", false),
            ("stage notin (a)", true),
            ("a/b=", true),
        ];
        for (text, matches) in table {
            assert_eq!(Labels::read(text).unwrap().matches(&labels), matches, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_selector_is_refused() {
        for text in ["=x", "a b", "a in", "a in (b", "a near (b)", "a=b=c", "!", "a=b c", "a=(b)"] {
            assert!(Labels::read(text).is_err(), "{text}");
        }
        assert!(Labels::read(&"a,".repeat(3000)).is_err());
    }
}
