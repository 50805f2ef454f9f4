//! The parameters that a binding passes to its policy: objects of the policy's `paramKind`.
//!
//! Source: apiserver `pkg/admission/plugin/policy/generic/policy_dispatcher.go` (CollectParams).

use std::sync::Arc;

use serde_json::Value;

use super::definition::{Binding, Policy};
use crate::admission::Attributes;
use crate::catalog::Entry;
use crate::store::{Key, Record};
use crate::versions;
use objects::LabelSelector;

/// The maximum number of parameter objects of a binding. More are an error, because each one costs an
/// evaluation.
const MAX_PARAMETERS: usize = 100;

/// Returns the kind of a policy's parameters; `None` if it takes none.
///
/// # Errors
/// A message for people if the kind isn't served.
pub fn kind(at: &Attributes<'_>, policy: &Policy) -> Result<Option<Entry>, String> {
    let Some((api_version, kind)) = &policy.parameters else { return Ok(None) };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let catalog = at.context.server.catalog();
    match catalog.of_version(group, version).find(|entry| entry.kind.kind == *kind && entry.kind.is_stored())
    {
        Some(entry) => Ok(Some(entry.clone())),
        None => Err(format!("failed to find resource referenced by paramKind: '{api_version}, Kind={kind}'")),
    }
}

/// Returns each set of parameters to evaluate a policy with; null means no parameters.
///
/// # Errors
/// A message for people if the binding is invalid.
pub fn collect(at: &Attributes<'_>, kind: Option<&Entry>, binding: &Binding) -> Result<Vec<Value>, String> {
    let reference = &binding.parameters;
    let (Some(entry), true) = (kind, reference.is_object()) else { return Ok(vec![Value::Null]) };
    let text = |field: &str| reference[field].as_str().filter(|text| !text.is_empty());
    let namespace = match (entry.kind.namespaced, text("namespace"), at.context.action.namespace) {
        (false, Some(_), _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (false, None, _) => None,
        (true, Some(given), _) => Some(given),
        (true, None, Some(own)) => Some(own),
        (true, None, None) => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .to_owned(),
            );
        }
    };
    let store = &at.context.server.store;
    let found: Vec<Arc<Record>> = match text("name") {
        Some(name) => store.get(&entry.resource, &Key::new(namespace, name)).into_iter().collect(),
        None => {
            let selector = LabelSelector::of(&reference["selector"]).map_err(|error| error.to_string())?;
            let all = store.list(&entry.resource, namespace).records;
            all.into_iter().filter(|record| selector.matches(&record.value())).collect()
        }
    };
    if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    if found.len() > MAX_PARAMETERS {
        return Err(format!("more than {MAX_PARAMETERS} params found for policy binding"));
    }
    Ok(found.iter().map(|record| versions::served(&entry.kind, &record.value()).into_owned()).collect())
}
