//! Compares our objects with those that mpi-operator v0.8.2 itself made for the same jobs
//! (`testdata/*/upstream.yaml`). They are equal except for the deviations listed here, each of which only adds
//! something.

use std::fs;
use std::path::Path;

use plan::{Change, ChildKind, ObservedState};
use serde_json::Value;

use crate::golden::show_child;
use crate::scene::{Scene, settings};

/// The operator's watches select by these labels, also on the Service, the ConfigMap and the Launcher's Job.
const ADDED_LABELS: [&str; 2] = [api::LABEL_OPERATOR_NAME, api::LABEL_JOB_NAME];
/// Open MPI 5 reads these in place of `OMPI_MCA_orte_*`.
const ADDED_VARIABLES: &str = "PRTE_MCA_";

#[test]
fn objects_are_upstreams_but_for_what_is_added() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut compared = 0;
    for entry in fs::read_dir(&root).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(text) = fs::read_to_string(folder.join("upstream.yaml")) else { continue };
        let mut theirs: Vec<Value> = serde_saphyr::from_str(&text).unwrap();
        theirs.sort_by_key(name);
        let input = fs::read_to_string(folder.join("input.yaml")).unwrap();
        let ours = made_of(&serde_saphyr::from_str(&input).unwrap());
        assert_eq!(ours, theirs, "{}", folder.display());
        compared += 1;
    }
    assert!(compared >= 8, "only {compared} jobs were compared");
}

/// The objects of a job's first pass, without our additions.
fn made_of(scene: &Scene) -> Vec<Value> {
    let job = plan::validate(&scene.job).unwrap();
    let plan = plan::plan(&job, &ObservedState::default(), &settings(scene), scene.now);
    let created = plan.changes.iter().flatten().filter_map(|change| match change {
        Change::Create(child) if child.kind() != ChildKind::Secret => Some(show_child(child)),
        _ => None,
    });
    let mut objects: Vec<Value> = created.map(without_additions).collect();
    objects.sort_by_key(name);
    objects
}

fn without_additions(mut object: Value) -> Value {
    let kind = object["kind"].take();
    let fields = object.as_object_mut().unwrap();
    fields.remove("kind");
    fields.remove("apiVersion");
    if kind != "Pod" {
        object["metadata"]["labels"]
            .as_object_mut()
            .unwrap()
            .retain(|key, _| !ADDED_LABELS.contains(&key.as_str()));
    }
    let containers = object.pointer_mut("/spec/template/spec/containers");
    for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
        let variables = container["env"].as_array_mut().unwrap();
        variables.retain(|variable| !variable["name"].as_str().unwrap().starts_with(ADDED_VARIABLES));
    }
    object
}

/// The sort key of an object; a Service and a Job never share a name.
fn name(object: &Value) -> String {
    object["metadata"]["name"].to_string()
}
