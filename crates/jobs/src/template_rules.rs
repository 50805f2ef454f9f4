//! Checks a job's pod templates by Kubernetes' own rules for pods, as the API server would: for dry runs, and so that a job
//! whose pods no server accepts is not created. Pure.

use api::{MPIJob, ReplicaSpec};
use objects::{builtin_kind, default_object, validate_create};
use serde_json::json;

/// What a template lacks that the operator fills in, or refuses with words of its own.
const LEFT_TO_THE_JOB: [&str; 2] = ["metadata.name", "spec.restartPolicy"];

/// Every fault of the templates: path in the job, and what is wrong.
pub(crate) fn faults(job: &MPIJob) -> Vec<(String, String)> {
    let replicas = job.spec.mpi_replica_specs.iter();
    replicas.flat_map(|(role, replica)| of_role(role, replica)).collect()
}

fn of_role(role: &str, replica: &ReplicaSpec) -> Vec<(String, String)> {
    let (Some(kind), Ok(template)) = (builtin_kind("", "Pod"), serde_json::to_value(&replica.template))
    else {
        return Vec::new();
    };
    let metadata = &template["metadata"];
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
        "metadata": { "name": "pod", "namespace": "default", "labels": metadata["labels"],
            "annotations": metadata["annotations"] },
    });
    // The replica's own policy replaces the template's.
    pod["spec"]["restartPolicy"] = json!("Never");
    default_object(kind, &mut pod);
    let of_job = |path: &str| format!("spec.mpiReplicaSpecs[{role}].template.{path}");
    let faults = validate_create(kind, &pod).into_iter();
    let own = faults.filter(|fault| !LEFT_TO_THE_JOB.contains(&fault.path.as_str()));
    own.map(|fault| (of_job(&fault.path), words(&fault))).collect()
}

/// A fault in the API server's words, without its path.
fn words(fault: &objects::FieldFault) -> String {
    let text = fault.to_string();
    let text = text.strip_prefix(&format!("{}: ", fault.path)).unwrap_or(&text);
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn found(container: Value, more: Value) -> Vec<(String, String)> {
        let mut worker = json!({ "containers": [container] });
        worker.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let launcher = json!({ "containers": [{ "name": "mpi", "image": "i" }] });
        let job = json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": { "name": "pi" },
            "spec": { "mpiReplicaSpecs": { "Launcher": { "template": { "spec": launcher } },
                "Worker": { "replicas": 1, "template": { "spec": worker } } } } });
        faults(&serde_json::from_value(job).unwrap())
    }

    #[test]
    fn every_rule_of_kubernetes_for_pods_holds_for_a_template() {
        let path = |field: &str| format!("spec.mpiReplicaSpecs[Worker].template.spec.{field}");
        let container = |more: Value| {
            let mut container = json!({ "name": "mpi", "image": "i" });
            container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            container
        };
        assert_eq!(found(container(json!({})), json!({})), []);
        let cases = [
            (
                json!({ "resources": { "requests": { "memory": "2Gi" }, "limits": { "memory": "1Gi" } } }),
                json!({}),
                "containers[0].resources.requests",
                "must be less than or equal to memory limit",
            ),
            (
                json!({ "image": " i" }),
                json!({}),
                "containers[0].image",
                "must not have leading or trailing whitespace",
            ),
            (
                json!({ "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }),
                json!({}),
                "containers[0].volumeMounts[0].name",
                "Not found",
            ),
            (
                json!({ "ports": [{ "containerPort": 70000 }] }),
                json!({}),
                "containers[0].ports[0].containerPort",
                "must be between 1 and 65535",
            ),
            (
                json!({}),
                json!({ "terminationGracePeriodSeconds": -2, "dnsPolicy": "Local" }),
                "dnsPolicy",
                "Unsupported value",
            ),
        ];
        for (of_container, of_pod, field, words) in cases {
            let faults = found(container(of_container), of_pod);
            let told = faults.iter().find(|(at, _)| *at == path(field));
            assert!(told.is_some_and(|(_, text)| text.contains(words)), "{field}: {faults:?}");
        }
    }
}
