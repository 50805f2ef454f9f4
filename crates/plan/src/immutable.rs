//! The parts of a job that may not change once it exists: everything but `suspend`, `Worker.replicas`,
//! `schedulingPolicy` and, while the job is suspended, what a queue injects into the templates. Jobs are compared by
//! meaning, not by spelling: a client that reads a job into its own types and writes it back drops empty fields, fills
//! in defaults, and writes quantities in its own way. No upstream counterpart: upstream accepts a change, and it
//! affects only pods that are created later.

use api::{LAUNCHER, MPIJob, ReplicaSpec, WORKER};
use semantics::Quantity;
use serde_json::{Map, Value};

use crate::defaults::defaulted;
use crate::validate::Fault;

/// Fields of a pod spec that a queue injects while a job is suspended.
const INJECTED_POD_FIELDS: [&str; 3] = ["nodeSelector", "tolerations", "schedulingGates"];
/// Fields of a template's metadata that a queue injects while a job is suspended.
const INJECTED_METADATA_FIELDS: [&str; 2] = ["labels", "annotations"];
/// Fields of the run policy that may change at any time.
const FREE_POLICY_FIELDS: [&str; 2] = ["suspend", "schedulingPolicy"];
const ADVICE: &str = "delete the job and create it again";

/// Returns the changes of a job that are not allowed; empty if the change may be made.
#[must_use]
pub fn forbidden_changes(old: &MPIJob, new: &MPIJob) -> Vec<Fault> {
    let suspended = |job: &MPIJob| job.spec.run_policy.as_ref().is_some_and(|it| it.suspend == Some(true));
    let held_back = suspended(old) || suspended(new);
    let (old, new) = (defaulted(old), defaulted(new));
    let mut faults = Vec::new();
    let replicas = |job: &MPIJob, role: &str| job.spec.mpi_replica_specs.get(role).map(|it| (**it).clone());
    for role in [LAUNCHER, WORKER] {
        let path = format!("spec.mpiReplicaSpecs[{role}]");
        match (replicas(&old, role), replicas(&new, role)) {
            (Some(old), Some(new)) => compare_replicas(&path, &old, &new, held_back, &mut faults),
            (None, None) => {}
            (Some(_), None) => faults.push(fault(path, "was removed")),
            (None, Some(_)) => faults.push(fault(path, "was added")),
        }
    }
    let (mut old, mut new) = (fields_of(&old.spec), fields_of(&new.spec));
    for spec in [&mut old, &mut new] {
        spec.remove("mpiReplicaSpecs");
        if let Some(policy) = spec.get_mut("runPolicy").and_then(Value::as_object_mut) {
            policy.retain(|field, _| !FREE_POLICY_FIELDS.contains(&field.as_str()));
        }
    }
    for field in differing(&old, &new) {
        if field == "runPolicy" {
            let below = |spec: &Map<String, Value>| {
                spec.get("runPolicy").and_then(Value::as_object).cloned().unwrap_or_default()
            };
            let changed = differing(&below(&old), &below(&new));
            faults.extend(changed.iter().map(|below| fault(format!("spec.runPolicy.{below}"), CHANGED)));
        } else {
            faults.push(fault(format!("spec.{field}"), CHANGED));
        }
    }
    faults.sort();
    faults
}

const CHANGED: &str = "cannot be changed";

fn fault(path: String, message: &str) -> Fault {
    Fault { path, message: message.to_owned(), advice: ADVICE.to_owned() }
}

fn compare_replicas(
    path: &str,
    old: &ReplicaSpec,
    new: &ReplicaSpec,
    held_back: bool,
    faults: &mut Vec<Fault>,
) {
    if old.restart_policy != new.restart_policy {
        faults.push(fault(format!("{path}.restartPolicy"), CHANGED));
    }
    let path = format!("{path}.template");
    let parts = |replica: &ReplicaSpec, part: &str| {
        let template = fields_of(&replica.template);
        template.get(part).and_then(Value::as_object).cloned().unwrap_or_default()
    };
    for (part, injected) in [("metadata", &INJECTED_METADATA_FIELDS[..]), ("spec", &INJECTED_POD_FIELDS)] {
        for field in differing(&parts(old, part), &parts(new, part)) {
            let path = format!("{path}.{part}.{field}");
            if !injected.contains(&field.as_str()) {
                faults.push(fault(path, CHANGED));
            } else if !held_back {
                faults.push(Fault {
                    path,
                    message: "can be changed only while the job is suspended".to_owned(),
                    advice: "suspend the job first".to_owned(),
                });
            }
        }
    }
}

/// The fields of a value, in normalized form.
pub(crate) fn fields_of(value: &impl serde::Serialize) -> Map<String, Value> {
    // Wire types can always be serialized as JSON.
    let value = serde_json::to_value(value).unwrap_or_default();
    match plain("", value) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// The names of the fields that differ.
pub(crate) fn differing(old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    names.into_iter().filter(|name| old.get(*name) != new.get(*name)).cloned().collect()
}

/// Maps from text to text, in which every entry counts.
const TEXT_MAPS: [&str; 7] =
    ["labels", "annotations", "nodeSelector", "matchLabels", "volumeAttributes", "options", "data"];
/// Maps from resources to quantities.
const QUANTITY_MAPS: [&str; 4] = ["limits", "requests", "overhead", "capacity"];
/// Other quantities. Go writes an unset divisor as 0.
const QUANTITIES: [&str; 2] = ["sizeLimit", "divisor"];
/// Objects that mean nothing when empty; others, such as `emptyDir` and selectors, mean something by their presence.
const EMPTY_OBJECTS: [&str; 15] = [
    "resources",
    "metadata",
    "spec",
    "template",
    "runPolicy",
    "preference",
    "podAffinityTerm",
    "affinity",
    "nodeAffinity",
    "podAffinity",
    "podAntiAffinity",
    "securityContext",
    "capabilities",
    "lifecycle",
    "dnsConfig",
];
/// Flags for which unset means false; for others, such as `allowPrivilegeEscalation`, false differs from unset.
const FLAGS: [&str; 8] =
    ["hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly", "chapAuthDiscovery"];
/// Numbers for which unset means 0.
const NUMBERS: [&str; 7] = [
    "hostPort",
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
    "partition",
];

/// A field's value in normalized form, independent of its spelling; `None` if it means the same as an unset field.
fn plain(name: &str, value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Bool(false) if FLAGS.contains(&name) => None,
        Value::Number(number) if number.as_i64() == Some(0) && NUMBERS.contains(&name) => None,
        Value::String(text) if QUANTITIES.contains(&name) => {
            let text = plain_quantity(&text);
            (name != "divisor" || text != "0").then_some(Value::String(text))
        }
        // For a claim, the empty name means no storage class.
        Value::String(text) if text.is_empty() && name != "storageClassName" => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => Some(items.into_iter().map(plain_item).collect()),
        Value::Object(fields) if fields.is_empty() => {
            let says_nothing =
                [&TEXT_MAPS[..], &QUANTITY_MAPS, &EMPTY_OBJECTS].iter().any(|names| names.contains(&name));
            (!says_nothing).then_some(Value::Object(fields))
        }
        Value::Object(fields) if TEXT_MAPS.contains(&name) => Some(Value::Object(fields)),
        Value::Object(fields) => {
            let of_quantities = QUANTITY_MAPS.contains(&name);
            let fields: Map<String, Value> = fields
                .into_iter()
                .filter_map(|(name, value)| match value {
                    Value::String(text) if of_quantities => {
                        Some((name, Value::String(plain_quantity(&text))))
                    }
                    value => Some((name.clone(), plain(&name, value)?)),
                })
                .collect();
            (!fields.is_empty() || !EMPTY_OBJECTS.contains(&name)).then_some(Value::Object(fields))
        }
        value => Some(value),
    }
}

/// Normalizes an entry of a list; it is kept even if it is empty.
fn plain_item(item: Value) -> Value {
    match item {
        Value::Object(fields) => {
            plain("", Value::Object(fields)).unwrap_or_else(|| Value::Object(Map::new()))
        }
        item => item,
    }
}

/// Normalizes a quantity, so that equal quantities become equal texts.
fn plain_quantity(text: &str) -> String {
    Quantity::read(text).map_or_else(|| text.to_owned(), |amount| amount.nanos().to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job() -> Value {
        let template = json!({
            "metadata": { "labels": { "team": "" } },
            "spec": {
                "containers": [{
                    "name": "main", "image": "i", "command": ["run", ""],
                    "env": [
                        { "name": "EMPTY", "value": "" },
                        { "name": "MEMORY", "valueFrom": { "resourceFieldRef": { "resource": "limits.memory" } } },
                    ],
                    "resources": { "limits": { "cpu": 1, "memory": "1024Mi" }, "requests": { "cpu": 0.5 } },
                    "ports": [{ "containerPort": 22, "hostPort": 0 }],
                }, { "name": "side", "image": "i" }],
                "volumes": [{ "name": "scratch", "emptyDir": { "sizeLimit": "0.5Gi" } }],
                "hostNetwork": false, "nodeSelector": {}, "serviceAccountName": "",
            },
        });
        json!({
            "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": { "name": "pi" },
            "spec": { "sshAuthMountPath": "", "mpiReplicaSpecs": {
                "Launcher": { "template": template, "restartPolicy": "" }, "Worker": { "replicas": 2, "template": template },
            } },
        })
    }

    /// The same job as a client with Go types writes it.
    fn typed() -> Value {
        let template = json!({
            "metadata": { "creationTimestamp": null, "labels": { "team": "" } },
            "spec": {
                "containers": [{
                    "name": "main", "image": "i", "command": ["run", ""],
                    "env": [
                        { "name": "EMPTY" },
                        { "name": "MEMORY",
                            "valueFrom": { "resourceFieldRef": { "resource": "limits.memory", "divisor": "0" } } },
                    ],
                    "resources": { "limits": { "cpu": "1", "memory": "1Gi" }, "requests": { "cpu": "500m" } },
                    "ports": [{ "containerPort": 22, "protocol": "TCP" }],
                }, { "name": "side", "image": "i", "resources": {} }],
                "volumes": [{ "name": "scratch", "emptyDir": { "sizeLimit": "512Mi" } }],
            },
        });
        json!({
            "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": { "name": "pi", "creationTimestamp": null },
            "spec": { "runPolicy": { "suspend": false }, "mpiReplicaSpecs": {
                "Launcher": { "template": template }, "Worker": { "replicas": 2, "template": template },
            } },
        })
    }

    fn changes(old: &Value, new: &Value) -> Vec<String> {
        let read = |job: &Value| serde_json::from_value(job.clone()).unwrap();
        forbidden_changes(&read(old), &read(new)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_job_that_a_typed_client_wrote_back_is_unchanged() {
        let mut stored = job();
        for role in ["Launcher", "Worker"] {
            let port =
                &mut stored["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"][0]["ports"][0];
            // The CRD sets this default.
            port["protocol"] = json!("TCP");
        }
        assert_eq!(changes(&stored, &typed()), Vec::<String>::new());
        assert_eq!(changes(&typed(), &stored), Vec::<String>::new());
    }

    #[test]
    fn what_a_job_means_cannot_be_changed() {
        let cases = [
            ("/spec/slotsPerWorker", json!(2), "spec.slotsPerWorker"),
            ("/spec/sshAuthMountPath", json!("/home/me/.ssh"), "spec.sshAuthMountPath"),
            ("/spec/runPolicy/cleanPodPolicy", json!("All"), "spec.runPolicy.cleanPodPolicy"),
            ("/spec/mpiReplicaSpecs/Worker", json!(null), "spec.mpiReplicaSpecs[Worker]"),
            ("/spec/mpiReplicaSpecs/Launcher/restartPolicy", json!("Never"), "Launcher].restartPolicy"),
            ("/spec/mpiReplicaSpecs/Worker/template/spec/hostNetwork", json!(true), "spec.hostNetwork"),
            ("/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/image", json!("j"), "spec.containers"),
            (
                "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/command",
                json!(["run"]),
                "spec.containers",
            ),
            (
                "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/resources/limits/memory",
                json!("1G"),
                "spec.containers",
            ),
            (
                "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/securityContext",
                json!({ "allowPrivilegeEscalation": false }),
                "spec.containers",
            ),
            ("/spec/mpiReplicaSpecs/Worker/template/metadata/labels", json!({}), "metadata.labels"),
            (
                "/spec/mpiReplicaSpecs/Worker/template/spec/nodeSelector",
                json!({ "a": "" }),
                "spec.nodeSelector",
            ),
        ];
        for (pointer, value, expected) in cases {
            let mut changed = typed();
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            match value {
                Value::Null => {
                    drop(changed.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name))
                }
                value => changed.pointer_mut(parent).unwrap()[name] = value,
            }
            let found = changes(&typed(), &changed);
            assert!(found.len() == 1 && found[0].contains(expected), "{pointer}: {found:?}");
            assert_eq!(changes(&changed, &typed()).len(), 1, "and back: {pointer}");
        }
    }

    #[test]
    fn fields_that_a_queue_injects_can_be_changed() {
        let mut changed = typed();
        changed["spec"]["runPolicy"] = json!({ "suspend": true, "schedulingPolicy": { "queue": "q" } });
        changed["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = json!(5);
        let template = &mut changed["spec"]["mpiReplicaSpecs"]["Worker"]["template"];
        template["metadata"]["annotations"] = json!({ "a": "b" });
        template["spec"]["tolerations"] = json!([{ "key": "k" }]);
        assert_eq!(changes(&typed(), &changed), Vec::<String>::new());
        let mut running = changed.clone();
        running["spec"]["runPolicy"]["suspend"] = json!(false);
        assert_eq!(changes(&changed, &running), Vec::<String>::new());
        assert_eq!(changes(&typed(), &running).len(), 2, "only while it is suspended");
    }
}
