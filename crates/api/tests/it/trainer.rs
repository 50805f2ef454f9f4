//! The definitions of TrainJob and its runtimes: field by field upstream's, and their rules accept and refuse what they
//! should.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use kube_cel::{CompiledSchema, compile_schema, validate_compiled};
use serde_json::{Value, json};

/// A field of upstream's definitions, and what it is.
const UPSTREAM: &str = include_str!("../../testdata/trainer-definitions.txt");

/// Where ours differ, and why.
const DIFFERENCES: [(&str, &str); 13] = [
    ("TrainJob", "`spec` is required: without it there is no runtime"),
    ("TrainJob.spec", "the rules for fields that have one spelling only"),
    ("TrainJob.spec.trainer", "compared by meaning, by the webhook"),
    ("TrainJob.spec.initializer", "compared by meaning, by the webhook"),
    ("TrainJob.spec.runtimePatches[]…pod.containers", "compared by meaning, by the webhook"),
    ("TrainJob.spec.runtimePatches[]…pod.initContainers", "compared by meaning, by the webhook"),
    ("TrainJob.spec.runtimePatches[]…pod.imagePullSecrets", "compared by meaning, by the webhook"),
    ("TrainJob.spec.runtimePatches[]…pod.securityContext", "compared by meaning, by the webhook"),
    ("TrainJob.spec.runtimePatches[]…pod.volumes", "compared by meaning, by the webhook"),
    ("TrainingRuntime", "`spec` is required: without it there is no template"),
    ("TrainingRuntime.spec.mlPolicy.mpi.mpiImplementation", "Intel MPI and MPICH are supported, too"),
    ("ClusterTrainingRuntime", "as TrainingRuntime"),
    ("ClusterTrainingRuntime.spec.mlPolicy.mpi.mpiImplementation", "as TrainingRuntime"),
];
/// The pod of a patch, for short.
const POD: &str = ".trainingRuntimeSpec.template.spec.replicatedJobs[].template.spec.template.spec";
/// Fields whose content is a type of Kubernetes' own.
const KUBERNETES: [&str; 11] = [
    "volumes",
    "affinity",
    "tolerations",
    "imagePullSecrets",
    "securityContext",
    "schedulingGates",
    "env",
    "volumeMounts",
    "resourcesPerNode",
    "templates",
    "template",
];
/// The keywords that are compared, in the table's order.
const KEYWORDS: [&str; 17] = [
    "type",
    "format",
    "default",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "pattern",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-int-or-string",
];

fn schema(definition: &impl serde::Serialize) -> Value {
    let definition = serde_json::to_value(definition).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn schemas() -> [(&'static str, Value); 3] {
    let [jobs, runtimes, cluster_runtimes] = api::trainer_crds();
    [
        ("TrainJob", schema(&jobs)),
        ("TrainingRuntime", schema(&runtimes)),
        ("ClusterTrainingRuntime", schema(&cluster_runtimes)),
    ]
}

/// What a field is, in one line.
fn facts(schema: &Value) -> String {
    let whole = |value: &Value| match value.as_f64() {
        Some(number) if number.fract() == 0.0 => json!(number as i64),
        _ => value.clone(),
    };
    let given = KEYWORDS.iter().filter_map(|keyword| Some((keyword, schema.get(*keyword)?)));
    let mut facts: Vec<String> = given
        .map(|(keyword, value)| format!("{}={}", keyword.replace("x-kubernetes-", ""), whole(value)))
        .collect();
    if let Some(required) = schema["required"].as_array() {
        let mut names: Vec<&str> = required.iter().map(|name| name.as_str().unwrap()).collect();
        names.sort_unstable();
        facts.push(format!("required={}", names.join(",")));
    }
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let message = rule.get("message").map_or_else(String::new, |message| format!(" {message}"));
        facts.push(format!("rule={}{message}", rule["rule"].as_str().unwrap()));
    }
    facts.join(" ")
}

fn walk(path: &str, schema: &Value, lines: &mut BTreeMap<String, String>) {
    lines.insert(path.to_owned(), facts(schema));
    let name = path.rsplit('.').next().unwrap().trim_end_matches("[]");
    let has = |pointer: &str| schema.pointer(pointer).is_some();
    let is_ours = name == "template" && !has("/properties/spec/properties/backoffLimit");
    if KUBERNETES.contains(&name) && !is_ours {
        return;
    }
    for (field, below) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{field}"), below, lines);
    }
    for (suffix, keyword) in [("[]", "items"), ("{}", "additionalProperties")] {
        if schema[keyword].is_object() {
            walk(&format!("{path}{suffix}"), &schema[keyword], lines);
        }
    }
}

#[test]
fn the_definitions_are_upstreams_but_for_the_differences_that_are_listed() {
    let upstream: Vec<(&str, &str)> = UPSTREAM
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(": ").unwrap_or((line.trim_end_matches(':'), "")))
        .collect();
    let mut found = BTreeSet::new();
    for (kind, schema) in schemas() {
        let mut ours = BTreeMap::new();
        walk(kind, &schema, &mut ours);
        let source = if kind == "ClusterTrainingRuntime" { "TrainingRuntime" } else { kind };
        let theirs: BTreeMap<String, &str> = upstream
            .iter()
            .filter(|(path, _)| path.split('.').next() == Some(source))
            .map(|(path, facts)| (path.replacen(source, kind, 1), facts.trim_end()))
            .collect();
        assert!(theirs.len() > 50, "the table of {kind} is missing");
        let paths: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        for path in paths {
            if ours.get(path).map(String::as_str) != theirs.get(path).copied() {
                found.insert(path.replace(POD, "…pod"));
            }
        }
    }
    let listed: BTreeSet<String> = DIFFERENCES.map(|(path, _)| path.to_owned()).into();
    assert_eq!(found, listed);
}

fn job() -> Value {
    json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": { "name": "digits", "namespace": "team" },
        "spec": {
            "runtimeRef": { "name": "mpi", "kind": "ClusterTrainingRuntime", "apiGroup": "trainer.kubeflow.org" },
            "suspend": true,
            "trainer": { "numNodes": 2, "image": "i", "resourcesPerNode": { "limits": { "cpu": 1 } } },
            "initializer": { "dataset": { "storageUri": "hf://digits" } },
            "managedBy": "trainer.kubeflow.org/trainjob-controller",
        },
    })
}

fn with(mut job: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    job.pointer_mut(parent).unwrap()[name] = value;
    job
}

/// The rules of TrainJob, compiled once.
static RULES: LazyLock<CompiledSchema> = LazyLock::new(|| compile_schema(&schema(&api::trainjob_crd())));

fn faults(new: &Value, old: Option<&Value>) -> usize {
    validate_compiled(&RULES, new, old).err().map_or(0, |faults| faults.len())
}

#[test]
fn rules_of_a_trainjob_accept_what_a_queue_writes_back() {
    let written = with(job(), "/spec/trainer/resourcesPerNode/limits/cpu", json!("1"));
    let written = with(written, "/spec/trainer/args", json!([]));
    let written = with(written, "/spec/runtimePatches", json!([{ "manager": "kueue.x-k8s.io/manager" }]));
    let written = with(written, "/spec/suspend", json!(false));
    assert_eq!(faults(&written, Some(&job())), 0);
    assert_eq!(faults(&job(), Some(&written)), 0);
    assert_eq!(faults(&job(), None), 0);
}

#[test]
fn rules_of_a_trainjob_refuse_what_upstream_refuses() {
    for (pointer, value) in [
        ("/spec/trainer/numNodes", json!(3)),
        ("/spec/trainer/image", json!("j")),
        ("/spec/trainer/command", json!(["run"])),
        ("/spec/initializer/dataset/storageUri", json!("hf://other")),
        ("/spec/runtimeRef/name", json!("other")),
        ("/spec/managedBy", json!("kueue.x-k8s.io/multikueue")),
    ] {
        assert!(faults(&with(job(), pointer, value), Some(&job())) > 0, "{pointer} changed");
    }
    for (pointer, value) in [
        ("/metadata/name", json!("1st")),
        ("/metadata/name", json!("a".repeat(64))),
        ("/spec/trainer/numProcPerNode", json!(0)),
        ("/spec/initializer/dataset/storageUri", json!("digits")),
        ("/spec/managedBy", json!("nobody")),
    ] {
        assert!(faults(&with(job(), pointer, value.clone()), None) > 0, "{pointer} is {value}");
    }
}
