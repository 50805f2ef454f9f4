//! The subset of JSONPath that CRDs use: dots, names in brackets, positions, wildcards and equality filters
//! (`.status.conditions[?(@.type=="Ready")].status`), as in `client-go/util/jsonpath`.
//!
//! A path is parsed once and can then be evaluated on many objects. An invalid path is an error; a path without a match
//! returns nothing.

use serde_json::Value;

/// The longest path, in bytes.
const MAX_BYTES: usize = 4096;
/// The most values that one path returns.
const MAX_FOUND: usize = 10_000;

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// A field.
    Field(String),
    /// A position; negative positions count from the end.
    At(i64),
    /// Positions from the first (inclusive) to the second (exclusive).
    Range(Option<i64>, Option<i64>),
    /// All fields or items.
    All,
    /// The items for which the path's value equals (or does not equal) the given one.
    Filter { path: Vec<Step>, equal: bool, value: Value },
    /// The items for which the path has a value.
    Exists(Vec<Step>),
}

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

/// The path is invalid or not supported.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unrecognized JSON path {0:?}")]
pub struct BadPath(String);

impl JsonPath {
    /// Parses `.spec.a`, `{.spec.a}`, `$.spec.a`, `['a']`, `[0]`, `[*]`, `[1:2]`, `[?(@.a=="b")]`.
    pub fn parse(text: &str) -> Result<JsonPath, BadPath> {
        let bad = || BadPath(text.to_owned());
        if text.len() > MAX_BYTES {
            return Err(bad());
        }
        let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text).trim();
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        steps(inner).map(|steps| JsonPath { steps }).ok_or_else(bad)
    }

    /// Returns all values at the path, in order.
    pub fn find<'v>(&self, object: &'v Value) -> Vec<&'v Value> {
        find(&self.steps, object)
    }

    /// Returns the field names if the path has only plain fields, as in `selectableFields` and `scale`.
    pub fn fields(&self) -> Option<Vec<&str>> {
        self.steps
            .iter()
            .map(|s| if let Step::Field(name) = s { Some(name.as_str()) } else { None })
            .collect()
    }
}

fn steps(mut rest: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after)?;
            steps.push(bracket(after[..end].trim())?);
            rest = &after[end + 1..];
            continue;
        }
        let Some(after) = rest.strip_prefix('.') else {
            // The first name needs no dot.
            if !steps.is_empty() {
                return None;
            }
            rest = field(rest, &mut steps)?;
            continue;
        };
        if after.starts_with('.') {
            // CRDs do not use recursive descent, so it is not supported.
            return None;
        }
        if after.is_empty() || after.starts_with('[') {
            rest = after;
            continue;
        }
        rest = field(after, &mut steps)?;
    }
    Some(steps)
}

/// Parses a name up to the next dot or bracket; a backslash escapes a dot.
fn field<'t>(text: &'t str, steps: &mut Vec<Step>) -> Option<&'t str> {
    let mut name = String::new();
    let mut quoted = false;
    let mut end = text.len();
    for (at, c) in text.char_indices() {
        match c {
            '\\' if !quoted => quoted = true,
            '.' | '[' if !quoted => {
                end = at;
                break;
            }
            _ => {
                quoted = false;
                name.push(c);
            }
        }
    }
    if name.is_empty() || name.contains([' ', '(', ')', '{', '}']) {
        return None;
    }
    steps.push(if name == "*" { Step::All } else { Step::Field(name) });
    Some(&text[end..])
}

/// Returns the position of the matching closing bracket.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), _) if c == q => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn unquote(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text.strip_prefix(quote)?.strip_suffix(quote)
}

fn bracket(text: &str) -> Option<Step> {
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(name) = unquote(text) {
        return Some(Step::Field(name.to_owned()));
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|t| t.strip_suffix(')')) {
        return filter_step(filter.trim());
    }
    if let Some((from, to)) = text.split_once(':') {
        let bound = |t: &str| if t.is_empty() { Some(None) } else { t.parse().ok().map(Some) };
        return Some(Step::Range(bound(from)?, bound(to)?));
    }
    text.parse().ok().map(Step::At)
}

fn filter_step(text: &str) -> Option<Step> {
    let path = |t: &str| steps(t.trim().strip_prefix('@')?);
    for (operator, equal) in [("==", true), ("!=", false)] {
        if let Some((left, right)) = text.split_once(operator) {
            let right = right.trim();
            let value = match unquote(right) {
                Some(text) => Value::from(text),
                None => serde_json::from_str(right).ok()?,
            };
            return Some(Step::Filter { path: path(left)?, equal, value });
        }
    }
    Some(Step::Exists(path(text)?))
}

fn find<'v>(steps: &[Step], object: &'v Value) -> Vec<&'v Value> {
    let mut found = vec![object];
    for step in steps {
        let mut next = Vec::new();
        for value in found {
            apply(step, value, &mut next);
            next.truncate(MAX_FOUND);
        }
        found = next;
    }
    found
}

fn apply<'v>(step: &Step, value: &'v Value, out: &mut Vec<&'v Value>) {
    match (step, value) {
        (Step::Field(name), Value::Object(map)) => out.extend(map.get(name)),
        (Step::All, Value::Object(map)) => out.extend(map.values()),
        (Step::All, Value::Array(items)) => out.extend(items),
        (Step::At(at), Value::Array(items)) => {
            out.extend(position(*at, items.len()).and_then(|i| items.get(i)))
        }
        (Step::Range(from, to), Value::Array(items)) => {
            let from = from.map_or(Some(0), |f| position(f, items.len())).unwrap_or(items.len());
            let to = to.map_or(Some(items.len()), |t| position(t, items.len())).unwrap_or(0).min(items.len());
            out.extend(items.get(from..to).unwrap_or_default());
        }
        (Step::Filter { path, equal, value: wanted }, Value::Array(items)) => {
            out.extend(items.iter().filter(|item| {
                let found = find(path, item);
                !found.is_empty() && found.contains(&wanted) == *equal
            }));
        }
        (Step::Exists(path), Value::Array(items)) => {
            out.extend(items.iter().filter(|item| !find(path, item).is_empty()));
        }
        _ => {}
    }
}

fn position(at: i64, length: usize) -> Option<usize> {
    if at < 0 {
        length.checked_sub(usize::try_from(at.unsigned_abs()).ok()?)
    } else {
        usize::try_from(at).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_values() {
        let object = json!({"spec": {"a": 1, "x.y": 2, "list": [{"n": "a", "v": 1}, {"n": "b", "v": 2}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "False"}]}});
        let cases = [
            (".spec.a", json!([1])),
            ("{.spec.a}", json!([1])),
            ("$.spec.a", json!([1])),
            ("spec.a", json!([1])),
            (r".spec.x\.y", json!([2])),
            (".spec['x.y']", json!([2])),
            (".spec.list[0].n", json!(["a"])),
            (".spec.list[-1].n", json!(["b"])),
            (".spec.list[*].v", json!([1, 2])),
            (".spec.list[0:1].v", json!([1])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"])),
            (".status.conditions[?(@.type!='Ready')].type", json!(["Old"])),
            (".status.conditions[-1:].type", json!(["Old"])),
            (".spec.none.at.all", json!([])),
            (".spec.list[7].n", json!([])),
            (".spec.list[-7].n", json!([])),
        ];
        for (path, expected) in cases {
            let found = JsonPath::parse(path).unwrap();
            assert_eq!(json!(found.find(&object)), expected, "{path}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["..a", ".a[", ".a[b]", ".a[?(b)]", ".a b", "{.a"] {
            assert!(JsonPath::parse(text).is_err(), "{text}");
        }
    }
}
