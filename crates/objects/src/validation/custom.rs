//! Validation of custom objects (`apiextensions-apiserver/pkg/registry/customresource`): first type, metadata, the
//! schema's bounds and the `scale` subresource, then embedded objects, lists and rules.

use serde_json::Value;

use super::super::{NameRule, metadata, printed};
use super::{FieldFault, Kind, scale, text};

/// Returns all faults. If only the status is written, only the status is validated.
pub(super) fn validate(
    kind: &Kind,
    object: &Value,
    old: Option<&Value>,
    status_only: bool,
) -> Vec<FieldFault> {
    let schema = kind.schema();
    let mut faults = of_type(kind, object);
    // If the type is wrong, skip the checks that depend on it.
    let is_typed = faults.is_empty();
    if is_typed {
        faults.extend(metadata::validate(kind, object));
        match old.filter(|_| status_only) {
            Some(old) => faults.extend(schema.status_bounds(object, old)),
            None => faults.extend(schema.bounds(object, old)),
        }
        faults.extend(scale::validate(kind, object, status_only));
    }
    faults.extend(schema.structure(object, old, !status_only));
    let mut faults = schema.conclude(object, old, faults);
    // An update's metadata is validated by the rules of any object (`rest.BeforeUpdate`). A new object's metadata is
    // validated only if it has no other fault (`rest.BeforeCreate`).
    if let Some(old) = old {
        faults.extend(metadata::validate_update(object, old));
        if !is_typed {
            faults.extend(metadata::validate(&kind.clone().named(NameRule::PathSegment), object));
        }
    }
    faults
}

fn of_type(kind: &Kind, object: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    for (field, wanted) in [("apiVersion", &kind.api_version()), ("kind", &kind.kind)] {
        if text(object, field) != wanted {
            let given = object[field].as_str().map_or_else(|| printed(&object[field]), str::to_owned);
            faults.push(FieldFault::invalid(field, given, format!("must be {wanted}")));
        }
    }
    faults
}
