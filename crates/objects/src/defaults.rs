//! Defaults of built-in kinds, as `kubernetes/pkg/apis/*/v1/defaults.go` sets them when an object is decoded. A custom
//! kind's defaults come from its schema. Idempotent.

mod apps;
mod jobs;
mod pods;
mod recorded;

use serde_json::{Map, Value, json};

use self::jobs::{cron_job, job};
use self::pods::pod;
pub use self::pods::tolerate_unreachable_nodes;
use super::kinds::Kind;

/// Fills in the defaults of `kind`.
pub fn default_object(kind: &Kind, object: &mut Value) {
    if !kind.is_builtin() {
        kind.schema().default(object);
        return;
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pod(object),
        ("", "Service") => service(object),
        ("", "Secret") => secret(object),
        ("", "Namespace") => {
            status_phase(object, "Active");
            namespace(object);
        }
        ("", "Endpoints") => endpoints(object),
        ("", "PersistentVolume") => {
            status_phase(object, "Pending");
            set(&mut object["spec"], "persistentVolumeReclaimPolicy", json!("Retain"));
            set_absent(&mut object["spec"], "volumeMode", json!("Filesystem"));
            if let Some(path) = object.pointer_mut("/spec/hostPath").filter(|path| path.get("type").is_none())
            {
                path["type"] = json!("");
            }
        }
        ("", "PersistentVolumeClaim") => {
            status_phase(object, "Pending");
            set_absent(&mut object["spec"], "volumeMode", json!("Filesystem"));
        }
        ("", "LimitRange") => limit_range(object),
        ("", "Node") => node(object),
        ("batch", "Job") => job(object),
        ("batch", "CronJob") => cron_job(object),
        ("", "PodTemplate" | "ReplicationController") | ("apps", _) => apps::fill(kind, object),
        ("autoscaling" | "flowcontrol.apiserver.k8s.io", _) => recorded::fill(kind, object),
        ("networking.k8s.io", "NetworkPolicy") => network_policy(object),
        ("discovery.k8s.io", "EndpointSlice") => {
            for port in items(object, "/ports") {
                set(port, "name", json!(""));
                set_absent(port, "protocol", json!("TCP"));
            }
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => binding(object),
        ("scheduling.k8s.io", "PriorityClass") => {
            set_absent(object, "preemptionPolicy", json!("PreemptLowerPriority"))
        }
        ("storage.k8s.io", "StorageClass") => {
            set_absent(object, "reclaimPolicy", json!("Delete"));
            set_absent(object, "volumeBindingMode", json!("Immediate"));
        }
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => webhooks(object),
        ("admissionregistration.k8s.io" | "apiregistration.k8s.io", _) => recorded::fill(kind, object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => super::crd::default_crd(object),
        _ => {}
    }
}

/// Sets a field that is absent, null or an empty string.
fn set(object: &mut Value, field: &str, value: Value) {
    if let Some(map) = object.as_object_mut()
        && map.get(field).is_none_or(|v| v.is_null() || v == "")
    {
        map.insert(field.to_owned(), value);
    }
}

/// As [`set`], but keeps an empty string. For fields that are pointers in Go.
fn set_absent(object: &mut Value, field: &str, value: Value) {
    if object.get(field).is_none_or(Value::is_null) {
        set(object, field, value);
    }
}

/// Returns the labels and annotations of an object that are null: the field, and their names.
pub fn null_labels(object: &Value) -> Vec<(&'static str, String)> {
    let of = |field: &'static str| {
        let texts = object["metadata"][field].as_object().into_iter().flatten();
        texts.filter(|(_, text)| text.is_null()).map(move |(name, _)| (field, name.clone()))
    };
    of("labels").chain(of("annotations")).collect()
}

/// Returns an object as it is read from the store, if that differs from how it was written. A new claim is written
/// without its phase (`persistentvolumeclaimStrategy.PrepareForCreate`). Bytes that are `null` are read as empty, and
/// so are null labels and annotations of a custom object.
pub fn read_back(kind: &Kind, written: &Value) -> Option<Value> {
    if !kind.is_builtin() {
        let nulls = null_labels(written);
        let mut read = (!nulls.is_empty()).then(|| written.clone())?;
        nulls.into_iter().for_each(|(field, name)| read["metadata"][field][name] = json!(""));
        return Some(read);
    }
    let has_null =
        |field: &str| written[field].as_object().is_some_and(|bytes| bytes.values().any(Value::is_null));
    let mut read = match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "PersistentVolumeClaim") if written["status"]["phase"].is_null() => written.clone(),
        ("", "Secret") if has_null("data") => written.clone(),
        ("", "ConfigMap") if has_null("binaryData") => written.clone(),
        _ => return None,
    };
    if kind.kind == "PersistentVolumeClaim" {
        status_phase(&mut read, "Pending");
    }
    for field in ["data", "binaryData"] {
        let bytes = read.get_mut(field).and_then(Value::as_object_mut).into_iter().flatten();
        bytes.filter(|(_, value)| value.is_null()).for_each(|(_, value)| *value = json!(""));
    }
    Some(read)
}

fn status_phase(object: &mut Value, phase: &str) {
    if !object["status"].is_object() {
        object["status"] = Value::Object(Map::new());
    }
    set(&mut object["status"], "phase", json!(phase));
}

/// As [`set`], for numbers where zero means unset.
fn set_number(object: &mut Value, field: &str, value: i64) {
    if object.is_object() && object[field].as_i64().unwrap_or_default() == 0 {
        object[field] = json!(value);
    }
}

fn items<'v>(object: &'v mut Value, pointer: &str) -> impl Iterator<Item = &'v mut Value> {
    object.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Synchronizes a singular field with the list that superseded it. If both are set and the list's first item differs,
/// the list becomes that one value; then the field is set from the list (`Convert_v1_PodStatus_To_core_PodStatus` and
/// back).
fn first_of_list(
    object: &mut Value,
    one: &str,
    list: &str,
    item: impl Fn(&Value) -> Value,
    first: impl Fn(&Value) -> &Value,
) {
    if !object.is_object() {
        return;
    }
    let given = object[one].as_str().is_some_and(|text| !text.is_empty());
    if given && *first(&object[list][0]) != object[one] {
        object[list] = json!([item(&object[one])]);
    }
    let first = first(&object[list][0]).as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    match first {
        Some(first) => object[one] = json!(first),
        // Remove the field if the first item has no text.
        None => {
            object.as_object_mut().map(|map| map.remove(one));
        }
    }
}

fn service(object: &mut Value) {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = Value::Object(Map::new());
    }
    set(spec, "sessionAffinity", json!("None"));
    if spec["sessionAffinity"] == "ClientIP" {
        if spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null() {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10_800}});
        }
    } else if spec["sessionAffinity"] == "None"
        && let Some(map) = spec.as_object_mut()
    {
        map.remove("sessionAffinityConfig");
    }
    set(spec, "type", json!("ClusterIP"));
    for port in items(spec, "/ports") {
        set(port, "protocol", json!("TCP"));
        let number = port["port"].clone();
        if port["targetPort"] == 0 || port["targetPort"] == "" {
            port["targetPort"] = number;
        } else {
            set(port, "targetPort", number);
        }
    }
    if super::services::is_reached_from_outside(spec) {
        set(spec, "externalTrafficPolicy", json!("Cluster"));
    }
    if matches!(spec["type"].as_str(), Some("ClusterIP" | "LoadBalancer" | "NodePort")) {
        set(spec, "internalTrafficPolicy", json!("Cluster"));
    }
    if spec["type"] == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", json!(true));
        for ingress in items(object, "/status/loadBalancer/ingress") {
            if ingress["ip"].as_str().is_some_and(|ip| !ip.is_empty()) {
                set(ingress, "ipMode", json!("VIP"));
            }
        }
    }
}

fn secret(object: &mut Value) {
    use base64::Engine as _;
    set(object, "type", json!("Opaque"));
    let Some(texts) = object.as_object_mut().and_then(|map| map.remove("stringData")) else { return };
    if !object["data"].is_object() {
        object["data"] = Value::Object(Map::new());
    }
    for (key, text) in texts.as_object().into_iter().flatten() {
        let bytes = text.as_str().unwrap_or_default().as_bytes();
        object["data"][key] = json!(base64::engine::general_purpose::STANDARD.encode(bytes));
    }
}

/// Sets the label with the namespace's name.
pub(super) fn namespace(object: &mut Value) {
    if let Some(name) = object["metadata"]["name"].as_str().filter(|n| !n.is_empty()).map(str::to_owned) {
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(name);
    }
}

fn endpoints(object: &mut Value) {
    for subset in items(object, "/subsets") {
        for port in items(subset, "/ports") {
            set(port, "protocol", json!("TCP"));
        }
    }
}

fn limit_range(object: &mut Value) {
    for limit in items(object, "/spec/limits").filter(|l| l["type"] == "Container") {
        for (from, into) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let given = limit[from].as_object().cloned().unwrap_or_default();
            if given.is_empty() {
                continue;
            }
            if !limit[into].is_object() {
                limit[into] = Value::Object(Map::new());
            }
            for (resource, amount) in given {
                set(&mut limit[into], &resource, amount);
            }
        }
    }
}

fn node(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec") {
        first_of_list(spec, "podCIDR", "podCIDRs", Value::clone, |one| one);
    }
    let capacity = object["status"]["capacity"].clone();
    if capacity.is_object() {
        set(&mut object["status"], "allocatable", capacity);
    }
}

fn network_policy(object: &mut Value) {
    let egress = !object["spec"]["egress"].is_null();
    if !object["spec"].is_object() {
        return;
    }
    let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    set(&mut object["spec"], "policyTypes", types);
    for (rules, _) in [("/spec/ingress", ()), ("/spec/egress", ())] {
        for rule in items(object, rules) {
            for port in items(rule, "/ports") {
                set_absent(port, "protocol", json!("TCP"));
            }
        }
    }
}

fn binding(object: &mut Value) {
    const RBAC: &str = "rbac.authorization.k8s.io";
    if let Some(role) = object.get_mut("roleRef").filter(|r| r.is_object()) {
        set(role, "apiGroup", json!(RBAC));
    }
    for subject in items(object, "/subjects") {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            set(subject, "apiGroup", json!(RBAC));
        }
    }
}

fn webhooks(object: &mut Value) {
    let mutating = object["kind"] == "MutatingWebhookConfiguration";
    for webhook in items(object, "/webhooks") {
        set(webhook, "failurePolicy", json!("Fail"));
        set(webhook, "matchPolicy", json!("Equivalent"));
        set(webhook, "namespaceSelector", json!({}));
        set(webhook, "objectSelector", json!({}));
        set(webhook, "timeoutSeconds", json!(10));
        if mutating {
            set(webhook, "reinvocationPolicy", json!("Never"));
        }
        for rule in items(webhook, "/rules") {
            set(rule, "scope", json!("*"));
        }
        if let Some(service) = webhook.pointer_mut("/clientConfig/service") {
            set_number(service, "port", 443);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_kind;

    fn defaulted(group: &str, kind: &str, mut object: Value) -> Value {
        let kind = builtin_kind(group, kind).unwrap();
        default_object(kind, &mut object);
        let mut again = object.clone();
        default_object(kind, &mut again);
        assert_eq!(again, object, "defaults are stable");
        object
    }

    #[test]
    fn a_pod_gets_the_defaults_of_kubernetes() {
        let pod = defaulted(
            "",
            "Pod",
            json!({"spec": {"containers": [{"name": "c", "image": "i",
            "resources": {"limits": {"cpu": "1"}}, "readinessProbe": {"httpGet": {"port": 80}}, "ports": [{"containerPort": 80}]}],
            "volumes": [{"name": "s", "secret": {"secretName": "x"}}, {"name": "e"}, {"name": "h", "hostPath": {"path": "/x"}}]}}),
        );
        assert_eq!(
            pod,
            json!({"spec": {
            "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
                "readinessProbe": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
            "volumes": [{"name": "s", "secret": {"secretName": "x", "defaultMode": 420}}, {"name": "e", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/x", "type": ""}}],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {}, "terminationGracePeriodSeconds": 30,
            "schedulerName": "default-scheduler", "enableServiceLinks": true}})
        );
    }

    #[test]
    fn a_job_gets_the_defaults_of_kubernetes() {
        let job = defaulted(
            "batch",
            "Job",
            json!({"metadata": {"name": "j"}, "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}}}),
        );
        assert_eq!(job["metadata"]["labels"], json!({"a": "b"}));
        let spec = &job["spec"];
        assert_eq!(
            (&spec["completions"], &spec["parallelism"], &spec["backoffLimit"]),
            (&json!(1), &json!(1), &json!(6))
        );
        assert_eq!(
            (&spec["podReplacementPolicy"], &spec["completionMode"]),
            (&json!("TerminatingOrFailed"), &json!("NonIndexed"))
        );
        assert!(spec["template"]["spec"].get("tolerations").is_none());
        let parallel = defaulted(
            "batch",
            "Job",
            json!({"spec": {"parallelism": 3, "podFailurePolicy": {"rules": []}, "template": {}}}),
        );
        assert!(parallel["spec"]["completions"].is_null());
        assert_eq!(parallel["spec"]["podReplacementPolicy"], "Failed");
    }

    #[test]
    fn a_cron_job_gets_defaults_of_its_own_and_of_its_pods_but_none_of_the_job() {
        let cron_job = defaulted(
            "batch",
            "CronJob",
            json!({"spec": {"schedule": "@daily", "jobTemplate": {"spec": {
                "podFailurePolicy": {"rules": [{"onPodConditions": [{"type": "DisruptionTarget"}]}]},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": []}}}}}}),
        );
        assert_eq!(
            cron_job,
            json!({"spec": {"schedule": "@daily", "concurrencyPolicy": "Allow", "suspend": false,
                "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1, "jobTemplate": {"metadata": {}, "spec": {
                "podFailurePolicy": {"rules": [{"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": [],
                    "dnsPolicy": "ClusterFirst", "securityContext": {}, "terminationGracePeriodSeconds": 30,
                    "schedulerName": "default-scheduler"}}}}}})
        );
    }

    #[test]
    fn other_kinds_get_their_defaults() {
        let secret = defaulted("", "Secret", json!({"stringData": {"a": "b"}, "data": {"c": "ZA=="}}));
        assert_eq!(secret, json!({"type": "Opaque", "data": {"a": "Yg==", "c": "ZA=="}}));
        let service =
            defaulted("", "Service", json!({"spec": {"clusterIP": "None", "ports": [{"port": 1}]}}));
        assert_eq!(
            service,
            json!({"spec": {"clusterIP": "None", "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ports": [{"port": 1, "protocol": "TCP", "targetPort": 1}]}})
        );
        let namespace = defaulted("", "Namespace", json!({"metadata": {"name": "n"}}));
        assert_eq!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    }
}
