//! Validation of objects of built-in kinds beyond their schema, as in `kubernetes/pkg/apis/*/validation`.
//!
//! Input is a decoded and defaulted object, output a list of faults; nothing else is looked up. Kinds not listed here
//! are validated only by metadata and schema.

mod admission_policy;
mod apps;
mod configuration;
mod cron_job;
mod custom;
mod events;
mod job;
mod job_policies;
mod limits;
mod network;
mod nodes;
mod placement;
mod pod;
mod pod_containers;
mod pod_update;
mod pod_volumes;
mod policy;
mod resources;
mod scale;
mod service;
mod traffic;
mod volumes;
mod webhook;

use serde_json::Value;

pub use service::addresses as service_addresses;

use super::events::convert_event;
use super::fault::{FieldFault, MAX_FAULTS, Reason};
use super::kinds::{Kind, builtin_kind};
use super::{crd, metadata, names};

/// Returns every fault of a new object.
pub fn validate_create(kind: &Kind, object: &Value) -> Vec<FieldFault> {
    if kind.kind == "Event" && kind.is_builtin() {
        // Validate the rules of Events first, and report nothing else if they are violated.
        let mut faults = of_kind(kind, object, None);
        if !kind.group.is_empty() {
            faults.extend(metadata::validate(kind, object));
            metadata::qualified_finalizers(&object["metadata"]["finalizers"], &mut faults);
        }
        return bounded(if faults.is_empty() { metadata::validate(kind, object) } else { faults });
    }
    if !kind.is_builtin() {
        return bounded(custom::validate(kind, object, None, false));
    }
    if kind.is("policy", "PodDisruptionBudget") {
        // Its strategy does not validate metadata, so metadata is validated only without other faults
        // (`rest.BeforeCreate`).
        let faults = of_kind(kind, object, None);
        return bounded(if faults.is_empty() { metadata::validate(kind, object) } else { faults });
    }
    let mut faults = metadata::validate(kind, object);
    faults.extend(of_schema(kind, object, None));
    faults.extend(of_kind(kind, object, None));
    bounded(faults)
}

/// Returns the schema's faults, unless the rules of the kind cover them all.
fn of_schema(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<FieldFault> {
    const JUDGED: [&str; 24] = [
        "ConfigMap",
        "CronJob",
        "Endpoints",
        "EndpointSlice",
        "Event",
        "LimitRange",
        "Namespace",
        "NetworkPolicy",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodDisruptionBudget",
        "PriorityClass",
        "ResourceQuota",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "Job",
        "Secret",
        "Service",
        "ServiceAccount",
        "StorageClass",
    ];
    if kind.is_builtin() && JUDGED.contains(&kind.kind.as_str()) {
        return Vec::new();
    }
    kind.schema().validate(object, old)
}

/// Returns an object's fields except for type, metadata and status.
fn content(object: &Value) -> Vec<(&String, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status" | "apiVersion" | "kind"))
        .collect()
}

/// Converts an Event of `events.k8s.io` to the form of the core group, in which it is stored.
fn of_core(event: &Value) -> Value {
    let mut event = event.clone();
    if let Some(kind) = builtin_kind("", "Event") {
        convert_event(kind, &mut event);
    }
    event
}

/// Returns every fault of an object's new state, and of the change from its old one. For a subresource, the fields that
/// it cannot write must have been restored from `old`.
pub fn validate_update(kind: &Kind, subresource: &str, new: &Value, old: &Value) -> Vec<FieldFault> {
    if !kind.is_builtin() {
        return bounded(custom::validate(kind, new, Some(old), subresource == "status"));
    }
    let mut faults = metadata::validate(kind, new);
    faults.extend(metadata::validate_update(new, old));
    faults.extend(of_schema(kind, new, Some(old)));
    // An accepted object may keep its content while only its metadata or status changes, or while it is deleted.
    let is_other = subresource != "status" && new["metadata"]["uid"] != old["metadata"]["uid"];
    if kind.kind == "Event" || is_other || content(new) != content(old) {
        faults.extend(of_kind(kind, new, Some(old)));
    }
    faults.extend(of_update(kind, new, old));
    bounded(faults)
}

fn bounded(mut faults: Vec<FieldFault>) -> Vec<FieldFault> {
    let mut seen: Vec<(String, Reason)> = Vec::new();
    faults.retain(|fault| {
        // Skip faults for a required field that is already reported, e.g. by the schema.
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
        ("", "ResourceQuota") => limits::quota(object),
        ("", "LimitRange") => limits::limit_range(object),
        ("", "PersistentVolume") => volumes::volume(object),
        ("", "PersistentVolumeClaim") => volumes::claim(object),
        ("", "Node") => nodes::node(object),
        ("", "Namespace") if old.is_none() => nodes::namespace(object),
        ("", "Endpoints") => traffic::endpoints(object),
        ("discovery.k8s.io", "EndpointSlice") => traffic::slice(object, old),
        ("", "Event") => events::legacy(object, "reportingComponent"),
        ("events.k8s.io", "Event") => {
            let event = of_core(object);
            let mut faults = events::legacy(&event, "reportingController");
            if old.is_none() {
                faults.extend(events::strict(&event));
            }
            faults
        }
        ("", "ReplicationController") | ("apps", _) => apps::validate(kind, object),
        ("", "PodTemplate") => {
            let mut faults = Vec::new();
            pod::template(&object["template"], "template", &mut faults);
            faults
        }
        ("batch", "Job") => job::validate(object),
        ("batch", "CronJob") => cron_job::validate(object, old),
        ("apiregistration.k8s.io", "APIService") => policy::api_service(object),
        ("coordination.k8s.io", "Lease") => policy::lease(object),
        ("rbac.authorization.k8s.io", _) => policy::rbac(&kind.kind, object),
        ("policy", "PodDisruptionBudget") => policy::disruption_budget(object),
        ("scheduling.k8s.io", "PriorityClass") if old.is_none() => policy::priority_class(object),
        ("storage.k8s.io", "StorageClass") => volumes::class(object),
        ("networking.k8s.io", "NetworkPolicy") => traffic::policy(object, old),
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
        ("", "Pod") => pod_update::validate(new, old),
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
        ("", "ResourceQuota") => {
            let set = |quota: &Value| {
                let scopes = items(&quota["spec"], "scopes");
                scopes.map(|(_, scope)| scope.to_string()).collect::<std::collections::BTreeSet<_>>()
            };
            if set(new) == set(old) { Vec::new() } else { immutable_field(new, old, "spec.scopes") }
        }
        ("storage.k8s.io", "StorageClass") => volumes::class_update(new, old),
        ("", "PersistentVolume") => volumes::volume_update(new, old),
        ("", "PersistentVolumeClaim") => volumes::claim_update(new, old),
        ("", "Node") => nodes::node_update(new, old),
        ("", "Namespace") => nodes::namespace_update(new, old),
        ("policy", "PodDisruptionBudget") => policy::disruption_budget_update(new, old),
        ("discovery.k8s.io", "EndpointSlice") => traffic::slice_update(new, old),
        ("events.k8s.io", "Event") => {
            let mut faults = events::update(&of_core(new), &of_core(old));
            metadata::qualified_finalizers(&new["metadata"]["finalizers"], &mut faults);
            faults
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

/// `ValidateLabelSelector`. An absent selector is valid and selects nothing.
pub(super) fn label_selector(selector: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    faults.extend(names::labels(&selector["matchLabels"], &format!("{path}.matchLabels")));
    for (index, one) in items(selector, "matchExpressions") {
        let at = format!("{path}.matchExpressions[{index}]");
        let values = format!("{at}.values");
        match (text(one, "operator"), items(one, "values").count()) {
            ("In" | "NotIn", 0) => {
                let text = "must be specified when `operator` is 'In' or 'NotIn'";
                faults.push(FieldFault::required(&values, text));
            }
            ("Exists" | "DoesNotExist", 1..) => {
                let text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                faults.push(FieldFault::forbidden(&values, text));
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            (other, _) => {
                let text = "not a valid selector operator";
                faults.push(FieldFault::invalid(format!("{at}.operator"), other, text));
            }
        }
        let key = text(one, "key");
        let judged = names::qualified_name(key).into_iter();
        faults.extend(judged.map(|f| FieldFault::invalid(format!("{at}.key"), key, f)));
        for (index, value) in items(one, "values") {
            let value = value.as_str().unwrap_or_default();
            let judged = names::label_value(value).into_iter();
            faults.extend(judged.map(|f| FieldFault::invalid(format!("{values}[{index}]"), value, f)));
        }
    }
}

/// `ValidateNonnegativeField`.
pub(super) fn not_negative(object: &Value, field: &str, path: &str, faults: &mut Vec<FieldFault>) {
    if object[field].as_i64().is_some_and(|n| n < 0) {
        let at = format!("{path}.{field}");
        faults.push(FieldFault::invalid(at, object[field].clone(), "must be greater than or equal to 0"));
    }
}

/// Validates a value of an enumeration; absent values are left to other checks.
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
