//! The fields that a custom kind's `scale` subresource maps (`validateScaleSpec`, `validateScaleStatus`).

use serde_json::Value;

use super::FieldFault;
use crate::kinds::Kind;
use crate::printed;

pub(super) fn validate(kind: &Kind, object: &Value, status_only: bool) -> Vec<FieldFault> {
    let Some(paths) = &kind.scale else { return Vec::new() };
    let mut faults = if status_only { Vec::new() } else { number(object, &paths.spec_replicas) };
    faults.extend(number(object, &paths.status_replicas));
    if let Some(path) = &paths.label_selector {
        match at(object, path) {
            Err((found, wanted)) => faults.push(inaccessible(path, "".into(), found, wanted)),
            Ok(Some(found)) if !found.is_string() => {
                faults.push(inaccessible(path, "".into(), found, "string"));
            }
            Ok(_) => {}
        }
    }
    faults
}

/// Returns the value at a path. `Err` has the value that is in the way, and the expected type.
fn at<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, (&'v Value, &'static str)> {
    let mut value = object;
    for part in path.trim_start_matches('.').split('.') {
        match value {
            Value::Object(fields) => match fields.get(part) {
                Some(inner) => value = inner,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => return Err((other, "map[string]interface{}")),
        }
    }
    Ok(Some(value))
}

fn number(object: &Value, path: &str) -> Vec<FieldFault> {
    let value = match at(object, path) {
        Ok(Some(value)) => value,
        Ok(None) => return Vec::new(),
        Err((found, wanted)) => return vec![inaccessible(path, 0.into(), found, wanted)],
    };
    match value.as_i64() {
        None => vec![inaccessible(path, 0.into(), value, "int64")],
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

fn inaccessible(path: &str, shown: Value, found: &Value, wanted: &str) -> FieldFault {
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
    FieldFault::invalid(path, shown, text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scale_paths_lead_to_numbers() {
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
