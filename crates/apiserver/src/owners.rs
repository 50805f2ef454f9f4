//! Owner references that are given twice: dropped, with a warning.
//!
//! Rule: apiserver `pkg/endpoints/handlers/rest.go`, `dedupOwnerReferencesAndAddWarning`. A create or an update does it
//! before and after mutating admission, a patch only after it.

use std::collections::HashSet;

use serde_json::Value;

use super::request_context::RequestContext;

/// When in a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// As given by the client.
    Given,
    /// After mutating admission.
    Admitted,
}

/// Drops owner references that are equal to an earlier one, and warns of them.
pub fn drop_repeated(context: &RequestContext<'_>, object: &mut Value, when: When) {
    let Some(owners) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) else {
        return;
    };
    let repeated = take_repeated(owners);
    if repeated.is_empty() {
        return;
    }
    let after = match when {
        When::Given => "",
        When::Admitted => " after mutating admission happens",
    };
    context.warn(format!(
        ".metadata.ownerReferences contains duplicate entries{after}; API server dedups owner references in 1.20+, and \
         may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        repeated.join(", ")
    ));
}

/// Takes out what is equal to an earlier reference, and returns the UIDs.
fn take_repeated(owners: &mut Vec<Value>) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut repeated = Vec::new();
    owners.retain(|owner| {
        let is_new = seen.insert(owner.clone());
        if !is_new {
            repeated.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        }
        is_new
    });
    repeated
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_references_that_are_equal_in_everything_are_dropped() {
        let first = json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1"});
        let other = json!({"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "1"});
        let mut owners = vec![first.clone(), other.clone(), first.clone(), first.clone()];
        assert_eq!(take_repeated(&mut owners), ["1", "1"]);
        assert_eq!(owners, [first, other]);
    }
}
