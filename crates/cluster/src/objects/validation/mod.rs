//! What is wrong with an object of a built-in kind beyond its schema, as `kubernetes/pkg/apis/*/validation` says it.
//!
//! Objects come in decoded and defaulted and go out as a list of faults; nothing is looked up elsewhere. Kinds that
//! are not named here are judged by metadata and schema alone.

mod admission_policy;
mod apps;
mod configuration;
mod job;
mod network;
mod pod;
mod policy;
mod service;
mod webhook;

use serde_json::Value;

pub use service::addresses as service_addresses;

use super::fault::{FieldFault, MAX_FAULTS, Reason};
use super::kinds::Kind;
use super::{crd, metadata};

/// Everything that is wrong with a new object.
pub fn validate_create(kind: &Kind, object: &Value) -> Vec<FieldFault> {
    let mut faults = metadata::validate(kind, object);
    faults.extend(kind.schema().validate(object, None));
    faults.extend(of_kind(kind, object, None));
    bounded(faults)
}

/// Everything that is wrong with the new state of an object, or with the step from the old one. For a subresource,
/// what it cannot write has been taken from `old` before.
pub fn validate_update(kind: &Kind, new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = metadata::validate(kind, new);
    faults.extend(metadata::validate_update(new, old));
    faults.extend(kind.schema().validate(new, Some(old)));
    // An object that was let in once may keep its shape while only its metadata or status moves, or it is deleted.
    if new.get("spec") != old.get("spec")
        || !kind.is_builtin()
        || kind.kind == "Secret"
        || kind.kind == "ConfigMap"
        || kind.kind == "Event"
        || new.get("webhooks") != old.get("webhooks")
        || kind.group == crate::access::GROUP
    {
        faults.extend(of_kind(kind, new, Some(old)));
    }
    faults.extend(of_update(kind, new, old));
    bounded(faults)
}

fn bounded(mut faults: Vec<FieldFault>) -> Vec<FieldFault> {
    let mut seen: Vec<(String, Reason)> = Vec::new();
    faults.retain(|fault| {
        // The schema's word on a missing field is enough.
        let known = fault.reason == Reason::Required
            && seen.iter().any(|(path, reason)| *path == fault.path && *reason == fault.reason);
        seen.push((fault.path.clone(), fault.reason));
        !known
    });
    faults.truncate(MAX_FAULTS);
    faults
}

fn of_kind(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<FieldFault> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pod::validate(object),
        ("", "Service") => service::validate(object, old),
        ("", "ConfigMap") => configuration::config_map(object),
        ("", "Secret") => configuration::secret(object),
        ("", "ResourceQuota") => policy::quota(object),
        ("", "LimitRange") => policy::limit_range(object),
        ("", "PersistentVolumeClaim") => policy::claim(object),
        ("", "Endpoints") => Vec::new(),
        ("", "Event") => policy::event(object),
        ("", "ReplicationController") | ("apps", _) => apps::validate(kind, object),
        ("", "PodTemplate") => {
            let mut faults = Vec::new();
            pod::template(&object["template"], "template", &mut faults);
            faults
        }
        ("batch", "Job") => job::validate(object),
        ("apiregistration.k8s.io", "APIService") => policy::api_service(object),
        ("coordination.k8s.io", "Lease") => policy::lease(object),
        ("rbac.authorization.k8s.io", _) => policy::rbac(&kind.kind, object),
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class(object),
        ("storage.k8s.io", "StorageClass") if text(object, "provisioner").is_empty() => {
            vec![FieldFault::required("provisioner", "")]
        }
        ("networking.k8s.io", "NetworkPolicy") => policy::network_policy(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd::validate_crd(object),
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => webhook::configuration(object),
        ("admissionregistration.k8s.io", kind) if kind.ends_with("PolicyBinding") => {
            admission_policy::binding(object)
        }
        ("admissionregistration.k8s.io", kind) if kind.ends_with("Policy") => {
            admission_policy::policy(object)
        }
        _ => Vec::new(),
    }
}

fn of_update(kind: &Kind, new: &Value, old: &Value) -> Vec<FieldFault> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pod::validate_update(new, old),
        ("", "Service") => service::validate_update(new, old),
        ("", "ConfigMap") => configuration::immutable(new, old, &["data", "binaryData"]),
        ("", "Secret") => {
            let mut faults = immutable_field(new, old, "type");
            faults.extend(configuration::immutable(new, old, &["data"]));
            faults
        }
        ("batch", "Job") => job::validate_update(new, old),
        ("apps", _) => immutable_field(new, old, "spec.selector"),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding")
            if new["roleRef"] != old["roleRef"] =>
        {
            vec![FieldFault::invalid("roleRef", new["roleRef"].clone(), "cannot change roleRef")]
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            let mut faults = Vec::new();
            if new["value"].as_i64().unwrap_or_default() != old["value"].as_i64().unwrap_or_default() {
                faults.push(FieldFault::forbidden("value", "may not be changed in an update."));
            }
            faults.extend(immutable_field(new, old, "preemptionPolicy"));
            faults
        }
        ("", "ResourceQuota") => immutable_field(new, old, "spec.scopes"),
        ("storage.k8s.io", "StorageClass") => {
            ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"]
                .iter()
                .flat_map(|field| immutable_field(new, old, field))
                .collect()
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd::validate_crd_update(new, old),
        _ => Vec::new(),
    }
}

/// `ValidateImmutableField` on a field at a dotted path.
pub(super) fn immutable_field(new: &Value, old: &Value, path: &str) -> Vec<FieldFault> {
    let pointer = format!("/{}", path.replace('.', "/"));
    let at = |object: &Value| object.pointer(&pointer).cloned().unwrap_or(Value::Null);
    let (new, old) = (at(new), at(old));
    if new == old { Vec::new() } else { vec![FieldFault::invalid(path, new, "field is immutable")] }
}

pub(super) fn items<'v>(object: &'v Value, field: &str) -> impl Iterator<Item = (usize, &'v Value)> {
    object[field].as_array().into_iter().flatten().enumerate()
}

pub fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object[field].as_str().unwrap_or_default()
}

/// `ValidateNonnegativeField`.
pub(super) fn not_negative(object: &Value, field: &str, path: &str, faults: &mut Vec<FieldFault>) {
    if object[field].as_i64().is_some_and(|n| n < 0) {
        let at = format!("{path}.{field}");
        faults.push(FieldFault::invalid(at, object[field].clone(), "must be greater than or equal to 0"));
    }
}

/// A value that must be one of a few; absent ones are left to who asks for them.
pub(super) fn one_of(
    object: &Value,
    field: &str,
    allowed: &[&str],
    path: &str,
    faults: &mut Vec<FieldFault>,
) {
    if let Some(value) = object[field].as_str()
        && !allowed.contains(&value)
    {
        let at = if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") };
        faults.push(FieldFault::not_supported(at, value, allowed));
    }
}
