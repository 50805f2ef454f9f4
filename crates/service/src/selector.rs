//! Label selectors as in `kubectl -l`: `team=vision,tier!=test,gpu in (a100,h100),!draft`. Pure.

use std::collections::BTreeSet;

use kube::core::{Expression, Selector};

/// The longest selector.
const LONGEST: usize = 4096;

/// Parses a selector; an empty text selects everything.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<Selector, String> {
    if text.len() > LONGEST {
        return Err(format!("is longer than {LONGEST} bytes"));
    }
    let mut found = Vec::new();
    for part in parts(text) {
        found.push(expression(part.trim()).ok_or_else(|| format!("\"{}\" is no requirement", part.trim()))?);
    }
    Ok(found.into_iter().collect())
}

/// Splits at commas outside of parentheses.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let split = text.split(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    split.filter(|part| !part.trim().is_empty()).collect()
}

fn expression(text: &str) -> Option<Expression> {
    if let Some(key) = text.strip_prefix('!') {
        return Some(Expression::DoesNotExist(name(key)?));
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Some(Expression::NotEqual(name(key)?, value_of(value)?));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Some(Expression::Equal(name(key)?, value_of(value)?));
    }
    if let Some((key, values)) = text.split_once(" notin ") {
        return Some(Expression::NotIn(name(key)?, set(values)?));
    }
    if let Some((key, values)) = text.split_once(" in ") {
        return Some(Expression::In(name(key)?, set(values)?));
    }
    Some(Expression::Exists(name(text)?))
}

fn set(text: &str) -> Option<BTreeSet<String>> {
    text.trim().strip_prefix('(')?.strip_suffix(')')?.split(',').map(value_of).collect()
}

fn name(text: &str) -> Option<String> {
    let text = text.trim();
    let good = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    (!text.is_empty() && text.chars().all(good)).then(|| text.to_owned())
}

fn value_of(text: &str) -> Option<String> {
    let text = text.trim();
    let good = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    text.chars().all(good).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::core::SelectorExt as _;

    use super::*;

    #[test]
    fn selectors_match_as_in_kubernetes() {
        let labels: BTreeMap<String, String> = [("team", "vision"), ("gpu", "a100")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let table = [
            ("", true),
            ("team=vision", true),
            ("team==vision,gpu in (h100, a100)", true),
            ("team!=vision", false),
            ("gpu notin (a100)", false),
            ("!draft", true),
            ("draft", false),
            ("team", true),
        ];
        for (text, matches) in table {
            assert_eq!(parse(text).unwrap().matches(&labels), matches, "{text}");
        }
        for text in ["=x", "a=b c", "a in b", "!", "a=(b"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
