//! Pod admission: priority, tolerations of unreachable nodes, runtime class. Also allows only one default
//! PriorityClass.
//!
//! Source: `plugin/pkg/admission/{priority,defaulttolerationseconds,runtimeclass}`.

use serde_json::Value;

use super::{Attributes, Operation};
use crate::status::StatusError;
use crate::store::{Key, Resource};
use objects;

fn classes() -> Resource {
    Resource::new("scheduling.k8s.io", "priorityclasses")
}

/// Sets a pod's priority and tolerations.
///
/// # Errors
/// 403 for a priority that differs from its class's, or an unknown class.
pub fn fill_in(at: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), StatusError> {
    if !at.kind().is("", "Pod") || !at.subresource().is_empty() {
        return Ok(());
    }
    match (at.operation, old) {
        (Operation::Create, _) => {
            refuse_runtime_class(at, object)?;
            set_priority(at, object)?;
        }
        (Operation::Update, Some(old)) => keep_priority(object, old),
        _ => return Ok(()),
    }
    objects::tolerate_unreachable_nodes(object);
    Ok(())
}

/// Rejects any RuntimeClass, because this cluster has none.
fn refuse_runtime_class(at: &Attributes<'_>, pod: &Value) -> Result<(), StatusError> {
    match pod["spec"]["runtimeClassName"].as_str() {
        Some(name) => Err(at.forbidden(Some(pod), &format!("pod rejected: RuntimeClass {name:?} not found"))),
        None => Ok(()),
    }
}

fn keep_priority(pod: &mut Value, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        if pod["spec"][field].is_null() && !old["spec"][field].is_null() {
            pod["spec"][field] = old["spec"][field].clone();
        }
    }
}

fn set_priority(at: &Attributes<'_>, pod: &mut Value) -> Result<(), StatusError> {
    let store = &at.context.server.store;
    let named = pod["spec"]["priorityClassName"].as_str().filter(|name| !name.is_empty());
    let (name, value, policy) = match named {
        Some(name) => {
            let class = store.get(&classes(), &Key::new(None, name)).ok_or_else(|| {
                at.forbidden(Some(pod), &format!("no PriorityClass with name {name} was found"))
            })?;
            (
                name.to_owned(),
                class.value()["value"].as_i64().unwrap_or(0),
                class.value()["preemptionPolicy"].clone(),
            )
        }
        None => match default_class(at) {
            Some(class) => (
                class["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                class["value"].as_i64().unwrap_or(0),
                class["preemptionPolicy"].clone(),
            ),
            None => (String::new(), 0, "PreemptLowerPriority".into()),
        },
    };
    if let Some(given) = pod["spec"]["priority"].as_i64().filter(|given| *given != value) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name"
        );
        return Err(at.forbidden(Some(pod), &why));
    }
    if let (Some(given), Some(policy)) = (pod["spec"]["preemptionPolicy"].as_str(), policy.as_str())
        && given != policy
    {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        );
        return Err(at.forbidden(Some(pod), &why));
    }
    let spec = &mut pod["spec"];
    if !name.is_empty() {
        spec["priorityClassName"] = name.into();
    }
    spec["priority"] = value.into();
    if !policy.is_null() {
        spec["preemptionPolicy"] = policy;
    }
    Ok(())
}

/// Returns the default class; if there are several, the one with the lowest value.
fn default_class(at: &Attributes<'_>) -> Option<Value> {
    let records = at.context.server.store.list(&classes(), None).records;
    let defaults = records.iter().filter(|class| class.value()["globalDefault"] == true);
    defaults.min_by_key(|class| class.value()["value"].as_i64()).map(|class| class.to_value())
}

/// Rejects a second default PriorityClass.
///
/// # Errors
/// 403.
pub fn validate_class(at: &Attributes<'_>, class: &Value) -> Result<(), StatusError> {
    let is_class = at.kind().is("scheduling.k8s.io", "PriorityClass") && at.subresource().is_empty();
    if !is_class || class["globalDefault"] != true {
        return Ok(());
    }
    let Some(known) = default_class(at) else { return Ok(()) };
    let name = known["metadata"]["name"].as_str().unwrap_or_default();
    if at.operation == Operation::Update && class["metadata"]["name"] == name {
        return Ok(());
    }
    let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
    Err(at.forbidden(Some(class), &why))
}
