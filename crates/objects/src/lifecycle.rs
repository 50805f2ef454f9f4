//! The server's own changes to an object when it is created and updated: the parts that a request may write, the
//! initial status and `metadata.generation`.
//!
//! Rules of the strategies in `kubernetes/pkg/registry/*/strategy.go` and
//! `apiextensions-apiserver/pkg/registry/customresource`. Nothing is validated here.

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::metadata;
use super::notation::restore_equal_quantities;

/// The label that connects pods to their Job.
pub const JOB_UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";

/// Prepares a defaulted object for creation: initial status, generation 1, generated selector.
///
/// `metadata.uid` must be set, because a Job's selector contains it.
pub fn prepare_create(kind: &Kind, object: &mut Value) {
    if kind.subresource("status").is_some() && !keeps_status(kind) {
        let status = first_status(kind, object);
        if let Some(map) = object.as_object_mut() {
            match status {
                Some(status) => map.insert("status".to_owned(), status),
                None => map.remove("status"),
            };
        }
    }
    if kind.is_builtin() && kind.subresource("status").is_some() && !kind.is("", "Pod") {
        fill_status(kind, object);
    }
    if has_generation(kind) {
        object["metadata"]["generation"] = json!(1);
    }
    if kind.is("batch", "Job") {
        generate_selector(object);
    }
    if kind.is("", "Namespace") {
        prepare_namespace(object);
    }
}

/// Completes a status with the fields that Go always writes.
fn fill_status(kind: &Kind, object: &mut Value) {
    let status = object.get_mut("status").map(Value::take).unwrap_or_default();
    let mut alone = json!({"status": status});
    // Cannot fail: the status was built here, and the client's part was decoded before.
    if kind.schema().normalize(&mut alone).is_ok() {
        object["status"] = alone["status"].take();
    }
}

/// Returns whether a new object keeps the client's status: a kubelet registers its node with one, every other initial
/// status is the server's.
fn keeps_status(kind: &Kind) -> bool {
    kind.is("", "Node")
}

fn first_status(kind: &Kind, object: &Value) -> Option<Value> {
    Some(match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pod_status(object),
        ("", "Namespace") => json!({"phase": "Active"}),
        ("", "PersistentVolume") => {
            json!({"phase": "Pending", "lastPhaseTransitionTime": object["metadata"]["creationTimestamp"]})
        }
        ("", "Service") => json!({"loadBalancer": {}}),
        _ if kind.is_builtin() => json!({}),
        _ => return None,
    })
}

/// Returns a new pod's status. With scheduling gates, it says at once why the pod is not scheduled
/// (`registry/core/pod/strategy.go`).
fn pod_status(pod: &Value) -> Value {
    let mut status = json!({"phase": "Pending", "qosClass": super::qos::class(pod)});
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        status["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": pod["metadata"]["creationTimestamp"]}]);
    }
    status
}

/// Returns whether the kind counts changes of its spec.
fn has_generation(kind: &Kind) -> bool {
    !kind.is_builtin()
        || matches!(
            kind.kind.as_str(),
            "Pod"
                | "Job"
                | "CronJob"
                | "NetworkPolicy"
                | "PodDisruptionBudget"
                | "EndpointSlice"
                | "CustomResourceDefinition"
                | "MutatingWebhookConfiguration"
                | "ValidatingWebhookConfiguration"
                | "MutatingAdmissionPolicy"
                | "MutatingAdmissionPolicyBinding"
                | "ValidatingAdmissionPolicy"
                | "ValidatingAdmissionPolicyBinding"
                | "PriorityClass"
                | "Deployment"
                | "ReplicaSet"
                | "ReplicationController"
                | "FlowSchema"
                | "PriorityLevelConfiguration"
                | "Ingress"
                | "IngressClass"
        )
}

fn prepare_namespace(object: &mut Value) {
    // Its name may have been generated after defaulting.
    super::defaults::namespace(object);
    let finalizers = &mut object["spec"]["finalizers"];
    let all = finalizers.as_array().cloned().unwrap_or_default();
    if !all.iter().any(|f| f == "kubernetes") {
        let mut all = all;
        all.push(json!("kubernetes"));
        *finalizers = Value::Array(all);
    }
}

/// Labels a Job's pods with its UID, and selects them by it (`registry/batch/job/strategy.go`).
fn generate_selector(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let Some(uid) = job["metadata"]["uid"].as_str().map(str::to_owned) else { return };
    let name = job["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let labels =
        [("job-name", &name), (JOB_NAME_LABEL, &name), ("controller-uid", &uid), (JOB_UID_LABEL, &uid)];
    add_absent(&mut job["spec"]["template"]["metadata"]["labels"], &labels);
    add_absent(&mut job["spec"]["selector"]["matchLabels"], &[(JOB_UID_LABEL, &uid)]);
}

/// Adds the entries that are missing in a map.
fn add_absent(map: &mut Value, entries: &[(&str, &String)]) {
    if !map.is_object() {
        *map = Value::Object(Map::new());
    }
    for (name, value) in entries {
        if map.get(*name).is_none() {
            map[*name] = json!(value);
        }
    }
}

/// Prepares an update: restores from `old` what `subresource` (or the main resource, for `None`) may not write, and
/// increments the generation if a counted field changed.
pub fn prepare_update(kind: &Kind, subresource: Option<&str>, new: &mut Value, old: &Value) {
    if kind.is_builtin() || subresource.is_none() {
        metadata::carry_over(new, old);
    }
    match subresource {
        Some("status") => {
            keep_all_but_status(kind, new, old);
            if kind.is("", "Pod") && !old["status"]["qosClass"].is_null() {
                new["status"]["qosClass"] = old["status"]["qosClass"].clone();
            }
            if kind.is("", "Pod") {
                // Old kubelets corrupt it (`podStatusStrategy.PrepareForUpdate`).
                match old["metadata"].get("ownerReferences") {
                    Some(owners) => new["metadata"]["ownerReferences"] = owners.clone(),
                    None => {
                        new["metadata"].as_object_mut().map(|map| map.remove("ownerReferences"));
                    }
                }
            }
        }
        None if kind.is("", "Namespace") => {
            keep(new, old, "spec");
            keep(new, old, "status");
        }
        None if kind.subresource("status").is_some() => keep(new, old, "status"),
        _ => {}
    }
    if has_generation(kind) {
        let before = old["metadata"]["generation"].as_i64().unwrap_or_default();
        let labels = |object: &Value| object["metadata"]["labels"].clone();
        let changed = match (kind.group.as_str(), kind.kind.as_str()) {
            // Its generation never changes.
            ("scheduling.k8s.io", "PriorityClass") => false,
            ("discovery.k8s.io", "EndpointSlice") => {
                spec_changed(kind, new, old) || labels(new) != labels(old)
            }
            _ => spec_changed(kind, new, old),
        };
        let now = if changed { before + 1 } else { before };
        new["metadata"]["generation"] = json!(now.max(1));
    }
}

fn keep(new: &mut Value, old: &Value, field: &str) {
    let Some(map) = new.as_object_mut().filter(|map| map.get(field) != old.get(field)) else { return };
    match old.get(field) {
        Some(value) => map.insert(field.to_owned(), value.clone()),
        None => map.remove(field),
    };
}

fn keep_all_but_status(kind: &Kind, new: &mut Value, old: &Value) {
    if kind.is_builtin() {
        let fields: Vec<String> =
            new.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        let old_fields = old.as_object().into_iter().flatten().map(|(name, _)| name.clone());
        for field in fields.into_iter().chain(old_fields) {
            if !matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "status") {
                keep(new, old, &field);
            }
        }
        return;
    }
    let (status, managed) = (new.get("status").cloned(), new.pointer("/metadata/managedFields").cloned());
    let version = new.pointer("/metadata/resourceVersion").cloned();
    let api_version = new["apiVersion"].take();
    *new = old.clone();
    new["apiVersion"] = api_version;
    match status {
        Some(status) => new["status"] = status,
        None => {
            new.as_object_mut().map(|map| map.remove("status"));
        }
    }
    if let Some(version) = version {
        new["metadata"]["resourceVersion"] = version;
    }
    match (managed, new["metadata"].as_object_mut()) {
        (Some(managed), _) => new["metadata"]["managedFields"] = managed,
        // There is no record any more, because the new status does not have the types of the schema.
        (None, metadata) => {
            metadata.map(|metadata| metadata.remove("managedFields"));
        }
    }
}

/// Returns whether a field that the generation counts changed. Of a built-in kind, another notation of a quantity is no change.
fn spec_changed(kind: &Kind, new: &Value, old: &Value) -> bool {
    if counted(kind, new).eq(counted(kind, old)) {
        return false;
    }
    if !kind.is_builtin() {
        return true;
    }
    let mut new = new.clone();
    restore_equal_quantities(&mut new, old);
    !counted(kind, &new).eq(counted(kind, old))
}

/// Returns the fields that the generation counts: everything except metadata and a status that is a subresource.
fn counted<'a>(kind: &Kind, object: &'a Value) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let has_status = kind.subresource("status").is_some();
    let fields = object.as_object().into_iter().flatten();
    fields.filter(move |(name, _)| {
        let uncounted = matches!(name.as_str(), "metadata" | "apiVersion") || has_status && *name == "status";
        !uncounted
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_kind;

    #[test]
    fn the_server_sets_the_initial_status() {
        let pod = builtin_kind("", "Pod").unwrap();
        let mut object =
            json!({"metadata": {"name": "p"}, "spec": {"containers": []}, "status": {"phase": "Running"}});
        prepare_create(pod, &mut object);
        assert_eq!(object["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
        assert_eq!(object["metadata"]["generation"], 1);
        let mut new = object.clone();
        new["status"]["phase"] = json!("Failed");
        new["spec"]["nodeName"] = json!("x");
        let mut by_status = new.clone();
        prepare_update(pod, None, &mut new, &object);
        assert_eq!((&new["status"]["phase"], &new["metadata"]["generation"]), (&json!("Pending"), &json!(2)));
        prepare_update(pod, Some("status"), &mut by_status, &object);
        assert_eq!(
            (&by_status["status"]["phase"], &by_status["metadata"]["generation"]),
            (&json!("Failed"), &json!(1))
        );
        assert!(by_status["spec"].get("nodeName").is_none());
    }

    #[test]
    fn a_custom_status_update_changes_nothing_else() {
        let kind = Kind::new("g", "v1", "K", "ks", true).with_status();
        let old = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "generation": 3, "labels": {"a": "b"},
            "managedFields": [{}]}, "spec": {"x": 1}});
        // Without managedFields: the fields of the new status could not be recorded.
        let mut new = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "resourceVersion": "5"}, "spec": {"x": 2}, "status": {"y": 1}});
        let mut main = new.clone();
        prepare_update(&kind, Some("status"), &mut new, &old);
        assert_eq!(
            new,
            json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "generation": 3, "labels": {"a": "b"}, "resourceVersion": "5"},
            "spec": {"x": 1}, "status": {"y": 1}})
        );
        prepare_update(&kind, None, &mut main, &old);
        assert_eq!(
            (main.get("status"), &main["metadata"]["generation"], &main["spec"]["x"]),
            (None, &json!(4), &json!(2))
        );
    }

    #[test]
    fn jobs_select_their_pods_by_uid() {
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {}}});
        prepare_create(builtin_kind("batch", "Job").unwrap(), &mut job);
        assert_eq!(
            job["spec"]["selector"]["matchLabels"],
            json!({"batch.kubernetes.io/controller-uid": "u"})
        );
        assert_eq!(
            job["spec"]["template"]["metadata"]["labels"],
            json!({"batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "j", "controller-uid": "u", "job-name": "j"})
        );
    }
}
