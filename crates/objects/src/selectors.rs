//! Label and field selectors: parsed from a request or an object, and matched against objects.
//!
//! Syntax and messages of `apimachinery/pkg/labels` and `pkg/fields`. The selectable fields depend on the kind, as in
//! Kubernetes' registries, or on a CRD's `selectableFields` (KEP-4358).

use std::fmt;

use semantics::Operator;
use serde_json::Value;

use super::kinds::Kind;
use super::names;

/// The longest selector, in bytes.
pub const MAX_BYTES: usize = 64 << 10;

/// Why a selector could not be parsed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// A label selector with an invalid requirement.
    #[error("unable to parse requirement: {0}")]
    Label(String),
    /// A label selector with invalid syntax.
    #[error("{0}")]
    Syntax(String),
    /// An unknown field, for a kind without selectable fields of its own.
    #[error("{0:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")]
    Unknown(String),
    /// A field selector with invalid syntax.
    #[error("invalid selector: '{0}'; can't understand '{1}'")]
    Field(String, String),
    /// A field selector's value with a backslash before anything but `,`, `=` or a backslash.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A field selector's value with an unescaped `,` or `=`.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
    /// A field that Jobs do not support.
    #[error("field label {0:?} not supported for Job")]
    OfJob(String),
    /// A field that this kind does not support.
    #[error("field label not supported: {0}")]
    Unsupported(String),
    /// A selector beyond [`MAX_BYTES`].
    #[error("the selector is too long")]
    TooLong,
}

/// A condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelRequirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

impl LabelRequirement {
    fn equal(key: &str, value: &Value) -> Self {
        let value = value.as_str().unwrap_or_default().to_owned();
        Self { key: key.to_owned(), operator: Operator::In, values: vec![value] }
    }
}

/// Conditions on an object's labels, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
    nothing: bool,
}

impl LabelSelector {
    /// Returns a selector that selects everything.
    pub fn everything() -> LabelSelector {
        LabelSelector::default()
    }

    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`.
    pub fn parse(text: &str) -> Result<LabelSelector, SelectorError> {
        if text.len() > MAX_BYTES {
            return Err(SelectorError::TooLong);
        }
        let mut requirements = Vec::new();
        let parts = split_outside_brackets(text);
        for (index, part) in parts.iter().map(|part| part.trim()).enumerate() {
            if part.is_empty() && requirements.is_empty() && text.trim().is_empty() {
                break;
            }
            if let Some(found) = part.chars().next().filter(|c| "=<>(".contains(*c)) {
                let expected =
                    if index == 0 { "!, identifier, or 'end of string'" } else { "identifier after ','" };
                return Err(SelectorError::Syntax(format!("found '{found}', expected: {expected}")));
            }
            requirements.push(requirement(part)?);
        }
        Ok(LabelSelector { requirements, nothing: false })
    }

    /// Parses `{matchLabels, matchExpressions}`. An absent selector selects nothing, an empty one everything.
    pub fn of(selector: &Value) -> Result<LabelSelector, SelectorError> {
        if selector.is_null() {
            return Ok(LabelSelector { requirements: Vec::new(), nothing: true });
        }
        let mut requirements = Vec::new();
        if let Some(labels) = selector["matchLabels"].as_object() {
            requirements.extend(labels.iter().map(|(key, value)| LabelRequirement::equal(key, value)));
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let key = expression["key"].as_str().unwrap_or_default().to_owned();
            let values = expression["values"].as_array().into_iter().flatten();
            let values: Vec<String> = values.filter_map(|v| v.as_str().map(str::to_owned)).collect();
            let name = expression["operator"].as_str().unwrap_or_default();
            // Numbers are compared in selectors of requests and of nodes only.
            let operator =
                Operator::named(name).filter(|operator| !matches!(operator, Operator::Gt | Operator::Lt));
            let operator = operator.ok_or_else(|| {
                SelectorError::Label(format!("{name:?} is not a valid label selector operator"))
            })?;
            requirements.push(LabelRequirement { key, operator, values });
        }
        Ok(LabelSelector { requirements, nothing: false })
    }

    /// Reads a map of labels that must all match, as in a Service's `spec.selector`.
    pub fn of_map(labels: &Value) -> LabelSelector {
        let labels = labels.as_object().into_iter().flatten();
        let requirements = labels.map(|(key, value)| LabelRequirement::equal(key, value)).collect();
        LabelSelector { requirements, nothing: false }
    }

    /// Returns whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// Returns whether it selects `object` by its labels.
    pub fn matches(&self, object: &Value) -> bool {
        self.matches_labels(&object["metadata"]["labels"])
    }

    /// Returns whether it selects these labels.
    pub fn matches_labels(&self, labels: &Value) -> bool {
        let value = |key: &str| labels.get(key).map(|value| value.as_str().unwrap_or_default());
        let holds =
            |required: &LabelRequirement| required.operator.holds(value(&required.key), &required.values);
        !self.nothing && self.requirements.iter().all(holds)
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, LabelRequirement { key, operator, values }) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match (operator, values.as_slice()) {
                (Operator::In, [value]) => write!(f, "{key}={value}")?,
                (Operator::In, _) => write!(f, "{key} in ({})", sorted(values))?,
                (Operator::NotIn, [value]) => write!(f, "{key}!={value}")?,
                (Operator::NotIn, _) => write!(f, "{key} notin ({})", sorted(values))?,
                (Operator::Exists, _) => f.write_str(key)?,
                (Operator::DoesNotExist, _) => write!(f, "!{key}")?,
                (Operator::Gt, _) => write!(f, "{key}>{}", values.join(","))?,
                (Operator::Lt, _) => write!(f, "{key}<{}", values.join(","))?,
            }
        }
        Ok(())
    }
}

fn sorted(values: &[String]) -> String {
    let mut values = values.to_vec();
    values.sort();
    values.join(",")
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '(' => inside = true,
            ')' => inside = false,
            ',' if !inside => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn requirement(part: &str) -> Result<LabelRequirement, SelectorError> {
    if part.is_empty() {
        return Err(SelectorError::Label(
            "found ',', expected: !, identifier, or 'end of string'".to_owned(),
        ));
    }
    if let Some(key) = part.strip_prefix('!') {
        let key = label_key(key.trim())?;
        return Ok(LabelRequirement { key, operator: Operator::DoesNotExist, values: Vec::new() });
    }
    let end = part.find(|c: char| c.is_whitespace() || "=!<>(".contains(c)).unwrap_or(part.len());
    let (key, rest) = (label_key(&part[..end])?, part[end..].trim());
    let (operator, values) = if rest.is_empty() {
        (Operator::Exists, Vec::new())
    } else if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
        (Operator::In, vec![label_value(&key, value.trim())?])
    } else if let Some(value) = rest.strip_prefix("!=") {
        (Operator::NotIn, vec![label_value(&key, value.trim())?])
    } else if let Some(value) = rest.strip_prefix('>') {
        (Operator::Gt, vec![whole(value)?])
    } else if let Some(value) = rest.strip_prefix('<') {
        (Operator::Lt, vec![whole(value)?])
    } else if let Some(values) = rest.strip_prefix("notin") {
        (Operator::NotIn, label_values(&key, values.trim())?)
    } else if let Some(values) = rest.strip_prefix("in") {
        (Operator::In, label_values(&key, values.trim())?)
    } else {
        return Err(SelectorError::Label(format!("found '{rest}', expected: in, notin, =, ==, !=, gt, lt")));
    };
    Ok(LabelRequirement { key, operator, values })
}

/// Returns the text of an integer, in its normal form.
fn whole(text: &str) -> Result<String, SelectorError> {
    text.trim().parse::<i64>().map(|number| number.to_string()).map_err(|_| {
        SelectorError::Label("for 'Gt', 'Lt' operators, the value must be an integer".to_owned())
    })
}

fn label_key(key: &str) -> Result<String, SelectorError> {
    match names::qualified_name(key).first() {
        None => Ok(key.to_owned()),
        Some(fault) => Err(SelectorError::Label(format!("<nil>: Invalid value: {key:?}: {fault}"))),
    }
}

fn label_value(key: &str, value: &str) -> Result<String, SelectorError> {
    match names::label_value(value) {
        None => Ok(value.to_owned()),
        Some(fault) => {
            Err(SelectorError::Label(format!("values[0][{key}]: Invalid value: {value:?}: {fault}")))
        }
    }
}

fn label_values(key: &str, text: &str) -> Result<Vec<String>, SelectorError> {
    let inner = text.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
    let inner = inner.ok_or_else(|| {
        let expected = if text.starts_with('(') { "',', ')' or identifier" } else { "'('" };
        let found = if text.starts_with('(') { "" } else { text };
        SelectorError::Label(format!("found '{found}', expected: {expected}"))
    })?;
    inner.split(',').map(|v| label_value(key, v.trim())).collect()
}

/// Conditions on an object's fields, all of which must hold.
#[derive(Clone, Debug, Default)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

#[derive(Clone, Debug)]
struct FieldRequirement {
    field: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Parses `a=b,c!=d` (also `==`; a backslash escapes `,`, `=` and itself), and checks that `kind` supports these
    /// fields.
    pub fn parse(kind: &Kind, text: &str) -> Result<FieldSelector, SelectorError> {
        let selector = FieldSelector::read(text)?;
        let unknown = selector.requirements.iter().find(|required| !selectable(kind, &required.field));
        let Some(FieldRequirement { field, .. }) = unknown else { return Ok(selector) };
        Err(match converts_fields(kind) {
            true if kind.is("batch", "Job") => SelectorError::OfJob(field.clone()),
            true => SelectorError::Unsupported(field.clone()),
            false => SelectorError::Unknown(field.clone()),
        })
    }

    /// Parses a selector without checking its fields, e.g. before the kind is known.
    pub fn read(text: &str) -> Result<FieldSelector, SelectorError> {
        if text.len() > MAX_BYTES {
            return Err(SelectorError::TooLong);
        }
        let mut requirements = Vec::new();
        for term in split_unquoted(text, ',') {
            if term.is_empty() {
                continue;
            }
            let (field, equal, value) =
                split_term(term).ok_or_else(|| SelectorError::Field(text.to_owned(), term.to_owned()))?;
            requirements.push(FieldRequirement { field: field.to_owned(), equal, value: unquote(value)? });
        }
        Ok(FieldSelector { requirements })
    }

    /// Returns a selector with the additional condition that objects have this name.
    #[must_use]
    pub fn named(mut self, name: &str) -> FieldSelector {
        let field = "metadata.name".to_owned();
        self.requirements.push(FieldRequirement { field, equal: true, value: name.to_owned() });
        self
    }

    /// Returns whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the value that a field must equal, e.g. the name in `metadata.name=x`.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|r| r.equal && r.field == field).map(|r| r.value.as_str())
    }

    /// Returns whether it selects `object`.
    pub fn matches(&self, kind: &Kind, object: &Value) -> bool {
        self.requirements.iter().all(|r| (field_text(kind, object, &r.field) == r.value) == r.equal)
    }
}

/// Returns whether the kind has its own conversion of field labels, whose messages differ
/// (`pkg/apis/*/v1/conversion.go`, `runtime.DefaultMetaV1FieldSelectorConversion`).
fn converts_fields(kind: &Kind) -> bool {
    !kind.is_builtin()
        || matches!(
            kind.kind.as_str(),
            "Pod"
                | "Node"
                | "Event"
                | "Namespace"
                | "Secret"
                | "Service"
                | "Job"
                | "CustomResourceDefinition"
        )
}

fn split_unquoted(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut quoted) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if quoted => quoted = false,
            '\\' => quoted = true,
            c if c == separator => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.find(['=', '!'])?;
    let (field, rest) = term.split_at(at);
    for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some(value) = rest.strip_prefix(operator) {
            return Some((field, equal, value));
        }
    }
    None
}

/// Removes a value's escapes (`fields.UnescapeValue`).
fn unquote(text: &str) -> Result<String, SelectorError> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some(quoted @ ('\\' | ',' | '=')) => out.push(quoted),
                other => {
                    return Err(SelectorError::Escape([Some('\\'), other].into_iter().flatten().collect()));
                }
            },
            ',' | '=' => return Err(SelectorError::Unescaped(c)),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// Returns the selectable fields of a built-in kind besides name and namespace, with their JSON pointers.
fn fields_of(kind: &Kind) -> &'static [(&'static str, &'static str)] {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => &[
            ("spec.nodeName", "/spec/nodeName"),
            ("spec.restartPolicy", "/spec/restartPolicy"),
            ("spec.schedulerName", "/spec/schedulerName"),
            ("spec.serviceAccountName", "/spec/serviceAccountName"),
            ("spec.hostNetwork", "/spec/hostNetwork"),
            ("status.phase", "/status/phase"),
            ("status.podIP", "/status/podIP"),
            ("status.podIPs", "/status/podIP"),
            ("status.nominatedNodeName", "/status/nominatedNodeName"),
        ],
        ("", "Event") => &[
            ("involvedObject.kind", "/involvedObject/kind"),
            ("involvedObject.namespace", "/involvedObject/namespace"),
            ("involvedObject.name", "/involvedObject/name"),
            ("involvedObject.uid", "/involvedObject/uid"),
            ("involvedObject.apiVersion", "/involvedObject/apiVersion"),
            ("involvedObject.resourceVersion", "/involvedObject/resourceVersion"),
            ("involvedObject.fieldPath", "/involvedObject/fieldPath"),
            ("reason", "/reason"),
            ("reportingComponent", "/reportingComponent"),
            ("source", "/source/component"),
            ("type", "/type"),
        ],
        ("events.k8s.io", "Event") => &[
            ("regarding.kind", "/regarding/kind"),
            ("regarding.namespace", "/regarding/namespace"),
            ("regarding.name", "/regarding/name"),
            ("regarding.uid", "/regarding/uid"),
            ("regarding.apiVersion", "/regarding/apiVersion"),
            ("regarding.resourceVersion", "/regarding/resourceVersion"),
            ("regarding.fieldPath", "/regarding/fieldPath"),
            ("reason", "/reason"),
            ("reportingController", "/reportingController"),
            ("type", "/type"),
        ],
        ("", "Node") => &[("spec.unschedulable", "/spec/unschedulable")],
        ("", "Namespace") => &[("status.phase", "/status/phase")],
        ("", "Secret") => &[("type", "/type")],
        ("", "Service") => &[("spec.clusterIP", "/spec/clusterIP"), ("spec.type", "/spec/type")],
        ("batch", "Job") => &[("status.successful", "/status/succeeded")],
        _ => &[],
    }
}

fn selectable(kind: &Kind, field: &str) -> bool {
    field == "metadata.name"
        || (field == "metadata.namespace"
            && (kind.namespaced || kind.is_builtin())
            && !kind.is("", "Node")
            && !kind.is("", "Namespace"))
        || fields_of(kind).iter().any(|(name, _)| *name == field)
        || kind.selectable_fields.iter().any(|path| path.trim_start_matches('.') == field)
}

/// Returns a field as text; absent fields are empty, or `false` or `0` for flags and counts.
fn field_text(kind: &Kind, object: &Value, field: &str) -> String {
    let path;
    let value = match field {
        "metadata.name" => object.pointer("/metadata/name"),
        "metadata.namespace" => object.pointer("/metadata/namespace"),
        _ => match fields_of(kind).iter().find(|(name, _)| *name == field) {
            Some((_, pointer)) => object.pointer(pointer),
            None => {
                path = jsonpath::Path::parse(&format!(".{field}"));
                path.as_ref().ok().and_then(|path| path.find(object).ok()?.first().copied())
            }
        },
    };
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => absent(field).to_owned(),
        Some(other) => other.to_string(),
    }
}

fn absent(field: &str) -> &'static str {
    match field {
        "spec.hostNetwork" | "spec.unschedulable" => "false",
        "status.successful" => "0",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::builtin_kind;

    #[test]
    fn label_selectors_select() {
        let object = json!({"metadata": {"labels": {"a": "1", "b": "x", "g/n": "", "odd in": "no"}}});
        let cases = [
            ("", true),
            ("a", true),
            ("!a", false),
            ("c", false),
            ("!c", true),
            ("a=1", true),
            ("a==1", true),
            ("a = 1", true),
            ("a=2", false),
            ("a!=1", false),
            ("a!=2", true),
            ("c!=1", true),
            ("a in (1,2)", true),
            ("a in(2)", false),
            ("a notin (2)", true),
            ("c notin (2)", true),
            ("a=1,b=x", true),
            ("a=1,b=y", false),
            ("g/n=", true),
            ("g/n", true),
            ("a>0", true),
            ("a>1", false),
            ("a<2", true),
            ("b>0", false),
            ("a in (1, 2),b notin (y),!z", true),
        ];
        for (text, expected) in cases {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(&object), expected, "{text}");
        }
        for text in [",", "a=1,,b", "a in 1", "a b", "-x=1", "a=b c", "a>x", "a=(b)"] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn selectors_of_objects_select() {
        let of = |v: Value| LabelSelector::of(&v).unwrap();
        let labels = json!({"metadata": {"labels": {"a": "1"}}});
        assert!(!of(Value::Null).matches(&labels) && of(json!({})).matches(&labels));
        assert!(of(json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]})).matches(&labels));
        assert_eq!(
            of(json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "In", "values": ["z", "y"]}]})).to_string(),
            "a=1,b in (y,z)"
        );
    }

    #[test]
    fn field_selectors_select() {
        let pod = builtin_kind("", "Pod").unwrap();
        let object = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "x"}, "status": {"phase": "Running"}});
        let cases = [
            ("metadata.name=p", true),
            ("metadata.name!=p", false),
            ("spec.nodeName=", false),
            ("spec.nodeName==x", true),
            ("status.phase!=Failed,status.phase!=Succeeded", true),
            ("spec.hostNetwork=false", true),
            ("", true),
            (r"metadata.name=a\,b", false),
        ];
        for (text, expected) in cases {
            assert_eq!(FieldSelector::parse(pod, text).unwrap().matches(pod, &object), expected, "{text}");
        }
        assert_eq!(
            FieldSelector::parse(pod, "spec.foo=x").unwrap_err().to_string(),
            "field label not supported: spec.foo"
        );
        let refused = [
            ("nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
            ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
            (r"metadata.name=a\b", r"invalid field selector: invalid escape sequence: \b"),
            (r"metadata.name=a\", r"invalid field selector: invalid escape sequence: \"),
        ];
        for (text, why) in refused {
            assert_eq!(FieldSelector::parse(pod, text).unwrap_err().to_string(), why, "{text}");
        }
        assert_eq!(FieldSelector::parse(pod, "metadata.name=p").unwrap().exact("metadata.name"), Some("p"));
    }
}
