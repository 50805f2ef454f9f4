//! Faults of an object's fields, and the `Status` that reports them.
//!
//! Messages and causes are those of `apimachinery/pkg/util/validation/field/errors.go` and
//! `apimachinery/pkg/api/errors` (`NewInvalid`), so that clients that read messages recognize them. Input is paths and
//! values, output a text or a `Status` object.

use std::fmt;

use serde_json::{Value, json};

/// The most faults of one object that are reported; the rest are only counted.
pub const MAX_FAULTS: usize = 256;
/// The most bytes quoted of a faulty value.
const MAX_QUOTED_BYTES: usize = 4096;

/// The kind of fault (`field.ErrorType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A required value is missing.
    Required,
    /// The value is malformed or out of range.
    Invalid,
    /// The value has the wrong JSON type.
    TypeInvalid,
    /// The value is not in an enumeration.
    NotSupported,
    /// The value is not allowed in this context.
    Forbidden,
    /// The value occurs twice where it must be unique.
    Duplicate,
    /// The value refers to something that does not exist.
    NotFound,
    /// The value has too many characters or bytes.
    TooLong,
    /// The value has too few characters.
    TooShort,
    /// The list has too many items.
    TooMany,
    /// The list has too few items.
    TooFew,
    /// An internal error of the server.
    Internal,
}

impl Reason {
    /// Returns the machine-readable cause, e.g. `FieldValueInvalid`.
    pub fn cause(self) -> &'static str {
        match self {
            Reason::Required => "FieldValueRequired",
            Reason::Invalid => "FieldValueInvalid",
            Reason::TypeInvalid => "FieldValueTypeInvalid",
            Reason::NotSupported => "FieldValueNotSupported",
            Reason::Forbidden => "FieldValueForbidden",
            Reason::Duplicate => "FieldValueDuplicate",
            Reason::NotFound => "FieldValueNotFound",
            Reason::TooLong => "FieldValueTooLong",
            Reason::TooShort => "FieldValueTooShort",
            Reason::TooMany => "FieldValueTooMany",
            Reason::TooFew => "FieldValueTooFew",
            Reason::Internal => "InternalError",
        }
    }

    /// Parses the `reason` of a CRD's rule; anything unknown is `Invalid`.
    pub fn of_rule(reason: Option<&str>) -> Reason {
        match reason {
            Some("FieldValueRequired") => Reason::Required,
            Some("FieldValueForbidden") => Reason::Forbidden,
            Some("FieldValueDuplicate") => Reason::Duplicate,
            _ => Reason::Invalid,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Reason::Required => "Required value",
            Reason::Invalid | Reason::TypeInvalid => "Invalid value",
            Reason::NotSupported => "Unsupported value",
            Reason::Forbidden => "Forbidden",
            Reason::Duplicate => "Duplicate value",
            Reason::NotFound => "Not found",
            Reason::TooLong => "Too long",
            Reason::TooShort => "Too short",
            Reason::TooMany => "Too many",
            Reason::TooFew => "Too few",
            Reason::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            Reason::Required | Reason::Forbidden | Reason::TooLong | Reason::TooShort | Reason::Internal
        )
    }
}

/// A fault of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldFault {
    /// The field, e.g. `spec.containers[0].name`.
    pub path: String,
    /// The kind of fault.
    pub reason: Reason,
    /// The faulty value; `None` if it must not be shown.
    pub value: Option<Value>,
    /// What is wrong, for a person.
    pub detail: String,
}

impl FieldFault {
    /// Creates a fault of any kind.
    pub fn new(
        path: impl Into<String>,
        reason: Reason,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        FieldFault { path: path.into(), reason, value, detail: detail.into() }
    }

    /// A required value is missing.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, Reason::Required, None, detail)
    }

    /// The value is malformed or out of range.
    pub fn invalid(path: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(path, Reason::Invalid, Some(value.into()), detail)
    }

    /// The value is not allowed in this context.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, Reason::Forbidden, None, detail)
    }

    /// The value occurs twice.
    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(path, Reason::Duplicate, Some(value.into()), "")
    }

    /// The value refers to something that does not exist.
    pub fn not_found(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(path, Reason::NotFound, Some(value.into()), "")
    }

    /// The string is longer than `max_bytes`.
    pub fn too_long(path: impl Into<String>, max_bytes: usize) -> Self {
        Self::new(path, Reason::TooLong, None, format!("may not be more than {max_bytes} bytes"))
    }

    /// The list or map has `actual` items, more than `max`.
    pub fn too_many(path: impl Into<String>, actual: usize, max: u64) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        Self::new(path, Reason::TooMany, Some(actual.into()), format!("must have at most {max} {items}"))
    }

    /// The value is not one of `supported`.
    pub fn not_supported(path: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(path, Reason::NotSupported, Some(value.into()), detail)
    }

    /// Returns the message without the path, as in a `Status` cause.
    pub fn body(&self) -> String {
        let mut text = self.reason.title().to_string();
        if let (true, Some(value)) = (self.reason.shows_value(), &self.value) {
            text.push_str(": ");
            text.push_str(&quote_value(value));
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

/// Returns a value's JSON type, as Go's `encoding/json` names it.
pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Formats a value as Go does (`%v`).
pub fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(printed).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name}:{}", printed(value)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}

fn quote_value(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > MAX_QUOTED_BYTES {
        let mut end = MAX_QUOTED_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// Returns the `Status` (code 422, reason `Invalid`) that reports `faults` of the object `name` of `kind`.
pub fn invalid_status(group: &str, kind: &str, name: &str, faults: &[FieldFault]) -> Value {
    let causes: Vec<Value> = faults
        .iter()
        .take(MAX_FAULTS)
        .map(|f| json!({"reason": f.reason.cause(), "message": f.body(), "field": f.path}))
        .collect();
    let qualified = if group.is_empty() { kind.to_string() } else { format!("{kind}.{group}") };
    let mut details = json!({"name": name, "kind": kind, "causes": causes});
    if !group.is_empty() {
        details["group"] = json!(group);
    }
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("{qualified} {name:?} is invalid{}", aggregate(faults)),
        "reason": "Invalid", "details": details, "code": 422,
    })
}

/// Formats one fault as it is, and several distinct ones in brackets, as `errors.Aggregate` does.
fn aggregate(faults: &[FieldFault]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for fault in faults.iter().take(MAX_FAULTS) {
        let text = fault.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.len() {
        0 => String::new(),
        1 => format!(": {}", texts[0]),
        _ => format!(": [{}]", texts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_match_upstream_field_errors() {
        let cases = [
            (FieldFault::required("spec.a", ""), "spec.a: Required value"),
            (
                FieldFault::invalid("spec.a", -1, "must be positive"),
                "spec.a: Invalid value: -1: must be positive",
            ),
            (
                FieldFault::not_supported("spec.p", "x", &["A", "B"]),
                r#"spec.p: Unsupported value: "x": supported values: "A", "B""#,
            ),
            (FieldFault::forbidden("spec", "no"), "spec: Forbidden: no"),
            (FieldFault::duplicate("spec.l[1]", "b"), r#"spec.l[1]: Duplicate value: "b""#),
            (FieldFault::too_long("a", 63), "a: Too long: may not be more than 63 bytes"),
        ];
        for (fault, text) in cases {
            assert_eq!(fault.to_string(), text);
        }
    }

    #[test]
    fn several_faults_are_reported_in_one_status() {
        let status = invalid_status(
            "batch",
            "Job",
            "x",
            &[FieldFault::required("spec.a", ""), FieldFault::forbidden("spec.b", "no")],
        );
        assert_eq!(
            status["message"],
            "Job.batch \"x\" is invalid: [spec.a: Required value, spec.b: Forbidden: no]"
        );
        assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueRequired");
        assert_eq!(status["code"], 422);
    }
}
