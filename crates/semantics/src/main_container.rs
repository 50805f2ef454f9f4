//! Which container of a job's pod is the one that runs MPI. It is the first one of the job's template, but an injector may
//! put others before it. Pure.

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod};

/// Variables that the operator sets in this container and in no other: of pods of MPIJobs, and of all that use the agent.
const MARKS: [&str; 2] = ["K_MPI_JOB_ROLE", "ODH_LAUNCH_KEY"];
/// The annotation by which injectors and people name the container that tools choose (a well-known one of Kubernetes).
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Whether variables of these names are those of the container that runs MPI.
pub(crate) fn is_marked<'a>(mut names: impl Iterator<Item = &'a str>) -> bool {
    names.any(|name| MARKS.contains(&name))
}

/// The container of a pod that runs MPI; of another pod, the one that its annotation names, else the first.
#[must_use]
pub fn main_container(pod: &Pod) -> Option<&Container> {
    let containers = &pod.spec.as_ref()?.containers;
    let variables = |container: &Container| -> Vec<EnvVar> { container.env.clone().unwrap_or_default() };
    let marked = |container: &&Container| is_marked(variables(container).iter().map(|it| it.name.as_str()));
    let named = pod.metadata.annotations.as_ref().and_then(|notes| notes.get(DEFAULT_CONTAINER));
    containers
        .iter()
        .find(marked)
        .or_else(|| containers.iter().find(|container| Some(&container.name) == named))
        .or(containers.first())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn chosen(annotations: Value, containers: Value) -> (String, String) {
        let pod = json!({ "metadata": { "annotations": annotations }, "spec": { "containers": containers } });
        let kept: crate::kept::Pod = serde_json::from_value(pod.clone()).unwrap();
        let whole: Pod = serde_json::from_value(pod).unwrap();
        let first = |pod: &crate::kept::Pod| pod.spec.as_ref().unwrap().containers[0].name.clone();
        assert_eq!(first(&kept), first(&crate::kept::Pod::from(whole.clone())));
        (main_container(&whole).unwrap().name.clone(), first(&kept))
    }

    #[test]
    fn an_injected_container_is_never_the_one_that_runs_mpi() {
        let proxy = json!({ "name": "proxy", "image": "p", "env": [{ "name": "A", "value": "1" }] });
        let trainer =
            |variable: &str| json!({ "name": "trainer", "image": "t", "env": [{ "name": variable }] });
        for variable in MARKS {
            let (main, first) = chosen(json!(null), json!([proxy, trainer(variable)]));
            assert_eq!((main.as_str(), first.as_str()), ("trainer", "trainer"));
        }
        let (main, first) = chosen(json!(null), json!([proxy, trainer("B")]));
        assert_eq!((main.as_str(), first.as_str()), ("proxy", "proxy"), "nothing says otherwise");
        let notes = json!({ DEFAULT_CONTAINER: "trainer" });
        assert_eq!(chosen(notes, json!([proxy, trainer("B")])).0, "trainer");
        assert_eq!(chosen(json!({ DEFAULT_CONTAINER: "gone" }), json!([proxy])).0, "proxy");
    }
}
