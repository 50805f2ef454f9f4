//! The numbers that a custom kind's `scale` subresource leads to (`validateScaleSpec`, `validateScaleStatus`).

use serde_json::Value;

use super::FieldFault;
use crate::objects::kinds::Kind;
use crate::objects::printed;

pub(super) fn validate(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<FieldFault> {
    let Some(paths) = &kind.scale else { return Vec::new() };
    let mut faults = number(object, &paths.spec_replicas);
    if old.is_some_and(|old| old["status"] != object["status"]) {
        faults.extend(number(object, &paths.status_replicas));
    }
    faults
}

fn number(object: &Value, path: &str) -> Vec<FieldFault> {
    let mut value = object;
    for part in path.trim_start_matches('.').split('.') {
        match value {
            Value::Object(fields) => match fields.get(part) {
                Some(inner) => value = inner,
                None => return Vec::new(),
            },
            Value::Null => return Vec::new(),
            other => return vec![inaccessible(path, other, "map[string]interface{}")],
        }
    }
    match value.as_i64() {
        None => vec![inaccessible(path, value, "int64")],
        Some(number) if number < 0 => {
            vec![FieldFault::invalid(path, number, "should be a non-negative integer")]
        }
        Some(number) if number > i64::from(i32::MAX) => {
            let text = format!("should be less than or equal to {}", i32::MAX);
            vec![FieldFault::invalid(path, number, text)]
        }
        Some(_) => Vec::new(),
    }
}

fn inaccessible(path: &str, found: &Value, wanted: &str) -> FieldFault {
    let kind = match found {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let text = format!("{path} accessor error: {} is of the type {kind}, expected {wanted}", printed(found));
    FieldFault::invalid(path, 0, text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_is_where_its_path_leads() {
        let said = |object: Value| number(&object, ".spec.replicas").first().map(FieldFault::body);
        assert_eq!(said(json!({"spec": {"replicas": 3}})), None);
        assert_eq!(
            said(json!({"spec": ["a"]})).as_deref(),
            Some(
                "Invalid value: 0: .spec.replicas accessor error: [a] is of the type []interface {}, expected map[string]interface{}"
            )
        );
        assert_eq!(
            said(json!({"spec": {"replicas": -1}})).as_deref(),
            Some("Invalid value: -1: should be a non-negative integer")
        );
    }
}
