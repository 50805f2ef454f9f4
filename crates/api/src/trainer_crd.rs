//! The CustomResourceDefinitions of Kubeflow Trainer's kinds: the derived schemas, made structural, with upstream's
//! defaults, limits and rules (`kubeflow/trainer`, `manifests/base/crds`).
//!
//! They differ from upstream's where upstream's own clients would trip over them. Upstream compares the whole of
//! `trainer` and `initializer` literally, so that a queue that writes a job back in the notation of its Go types (a
//! quantity `1` as `"1"`) is refused. Here a rule compares only fields that have one notation, and the webhook compares
//! the rest by its meaning (`plan::trainjob::forbidden_changes`). `mpiImplementation` also has `Intel` and `MPICH`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::crd::{
    constrain_trainer_status, remove_keys, rule, shape_fields, template_metadata, unchanged_below,
};
use crate::{ClusterTrainingRuntime, TrainJob, TrainingRuntime};

const IMMUTABLE: &str = "field is immutable";
const JOB_SET_IMMUTABLE: &str = "Value is immutable";

/// Returns the definitions of TrainJob and its runtimes, equal to `deploy/crd/trainer.kubeflow.org_*.yaml`.
#[must_use]
pub fn trainer_crds() -> [CustomResourceDefinition; 3] {
    [trainjob_crd(), training_runtime_crd(), cluster_training_runtime_crd()]
}

/// Returns the definition of TrainJob.
#[must_use]
pub fn trainjob_crd() -> CustomResourceDefinition {
    finished(TrainJob::crd(), "TrainJobList", |root| {
        root["x-kubernetes-validations"] = json!([
            rule(
                "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
                "metadata.name must match RFC 1035 DNS label format",
                None,
            ),
            rule("size(self.metadata.name) <= 63", "metadata.name must be no more than 63 characters", None,),
        ]);
        constrain_job(&mut root["properties"]["spec"]);
        constrain_patches(&mut root["properties"]["spec"]);
        constrain_status(&mut root["properties"]["status"]);
    })
}

/// Returns the definition of TrainingRuntime.
#[must_use]
pub fn training_runtime_crd() -> CustomResourceDefinition {
    finished(TrainingRuntime::crd(), "TrainingRuntimeList", |root| {
        constrain_runtime(&mut root["properties"]["spec"]);
    })
}

/// Returns the definition of ClusterTrainingRuntime.
#[must_use]
pub fn cluster_training_runtime_crd() -> CustomResourceDefinition {
    finished(ClusterTrainingRuntime::crd(), "ClusterTrainingRuntimeList", |root| {
        constrain_runtime(&mut root["properties"]["spec"]);
    })
}

/// Applies what all three share, and then `constrain` to the schema's root.
///
/// # Panics
/// Never: it depends on no input, and the tests build it.
#[expect(clippy::expect_used, reason = "no input: a fault here is found by the first test")]
fn finished(
    derived: CustomResourceDefinition,
    list: &str,
    constrain: impl FnOnce(&mut Value),
) -> CustomResourceDefinition {
    let mut crd = serde_json::to_value(derived).expect("a derived definition is JSON");
    crd["spec"]["names"]["listKind"] = json!(list);
    let root = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    remove_keys(root, &["nullable", "default"]);
    root["properties"]["apiVersion"] = json!({ "type": "string" });
    root["properties"]["kind"] = json!({ "type": "string" });
    root["properties"]["metadata"] = json!({ "type": "object" });
    shape_fields(&mut root["properties"]["spec"]);
    constrain(root);
    serde_json::from_value(crd).expect("the definition stays a definition")
}

/// The schema at a path such as `trainer.env[]`: `[]` stands for the items of a list.
fn at<'a>(schema: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(schema, |schema, name| {
        let (field, items) = name.split_once("[]").map_or((name, false), |(field, _)| (field, true));
        let schema = &mut schema["properties"][field];
        if items { &mut schema["items"] } else { schema }
    })
}

/// Merges keywords into the schema at a path.
fn set(schema: &mut Value, path: &str, more: Value) {
    if let (Some(schema), Value::Object(more)) = (at(schema, path).as_object_mut(), more) {
        schema.extend(more);
    }
}

/// Removes the descriptions of Kubernetes' own types, which would be most of the file, except for the field's own.
fn strip(schema: &mut Value, path: &str) {
    let schema = at(schema, path);
    let description = schema["description"].take();
    remove_keys(schema, &["description"]);
    if !description.is_null() {
        schema["description"] = description;
    }
}

fn immutable() -> Value {
    json!({ "x-kubernetes-validations": [rule("self == oldSelf", IMMUTABLE, None)] })
}

fn frozen_in_job_set() -> Value {
    json!({ "x-kubernetes-validations": [rule("self == oldSelf", JOB_SET_IMMUTABLE, None)] })
}

fn at_least_one(message: &str) -> Value {
    json!({ "x-kubernetes-validations": [rule("self >= 1", message, None)] })
}

/// Upstream's limits and defaults of `spec`, and the rules for what may not change.
fn constrain_job(spec: &mut Value) {
    spec["required"] = json!(["runtimeRef"]);
    set(spec, "runtimeRef", immutable());
    at(spec, "runtimeRef")["required"] = json!(["name"]);
    set(spec, "runtimeRef.name", json!({ "minLength": 1, "maxLength": 253 }));
    set(spec, "runtimeRef.apiGroup", json!({ "default": "trainer.kubeflow.org", "maxLength": 253 }));
    set(spec, "runtimeRef.kind", json!({ "default": "ClusterTrainingRuntime", "maxLength": 253 }));
    for source in ["initializer.dataset", "initializer.model"] {
        let uri = "self == '' || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')";
        let message = "storageUri may be empty, or it must be a valid URI (scheme://...)";
        let limits = json!({ "maxLength": 2048, "x-kubernetes-validations": [rule(uri, message, None)] });
        set(spec, &format!("{source}.storageUri"), limits);
        environment(spec, &format!("{source}.env"));
        let secret = format!("{source}.secretRef");
        strip(spec, &secret);
        set(spec, &secret, json!({ "x-kubernetes-map-type": "atomic" }));
        at(spec, &secret)["properties"]["name"]["default"] = json!("");
        unset(at(spec, &secret), "required");
    }
    set(spec, "trainer.image", json!({ "maxLength": 500 }));
    for words in ["trainer.command", "trainer.args"] {
        set(spec, words, json!({ "maxItems": 128 }));
        set(spec, &format!("{words}[]"), json!({ "maxLength": 1_048_576 }));
    }
    environment(spec, "trainer.env");
    strip(spec, "trainer.resourcesPerNode");
    set(spec, "trainer.numNodes", json!({ "minimum": 0 }));
    let message = "numProcPerNode must be greater than or equal to 1";
    set(spec, "trainer.numProcPerNode", at_least_one(message));
    set(spec, "suspend", json!({ "default": false }));
    set(spec, "activeDeadlineSeconds", json!({ "minimum": 1 }));
    set(spec, "activeDeadlineSeconds", immutable());
    let managers = "self in ['trainer.kubeflow.org/trainjob-controller', 'kueue.x-k8s.io/multikueue']";
    let message =
        "ManagedBy must be trainer.kubeflow.org/trainjob-controller or kueue.x-k8s.io/multikueue if set";
    let rules = [rule(managers, message, None), rule("self == oldSelf", IMMUTABLE, None)];
    let default = "trainer.kubeflow.org/trainjob-controller";
    set(
        spec,
        "managedBy",
        json!({ "default": default, "maxLength": 253, "x-kubernetes-validations": rules }),
    );
    spec["x-kubernetes-validations"] = Value::Array(spelled_rules());
}

/// The fields of `trainer` and `initializer` that have only one notation may not change.
fn spelled_rules() -> Vec<Value> {
    let fields = [
        ("trainer", "image", "''"),
        ("trainer", "command", "[]"),
        ("trainer", "args", "[]"),
        ("trainer", "numNodes", "-1"),
        ("trainer", "numProcPerNode", "-1"),
        ("initializer.dataset", "storageUri", "''"),
        ("initializer.model", "storageUri", "''"),
    ];
    let rules = fields.iter().map(|(object, field, default)| {
        let equal = unchanged_below("self", "oldSelf", object, field, default);
        let guarded = match object.split_once('.') {
            // Without the outer object on both sides, only the webhook can compare.
            Some((outer, _)) => format!("!has(self.{outer}) || !has(oldSelf.{outer}) || ({equal})"),
            None => equal,
        };
        rule(&guarded, &format!("{object}.{field}: {IMMUTABLE}"), None)
    });
    rules.collect()
}

fn environment(schema: &mut Value, path: &str) {
    strip(schema, path);
    set(schema, path, json!({ "maxItems": 128 }));
}

fn map_list(most: u32, key: &str) -> Value {
    json!({ "maxItems": most, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key] })
}

/// Upstream's limits of `runtimePatches`.
fn constrain_patches(spec: &mut Value) {
    set(spec, "runtimePatches", map_list(16, "manager"));
    at(spec, "runtimePatches[]")["required"] = json!(["manager"]);
    set(spec, "runtimePatches[].manager", json!({ "minLength": 1, "maxLength": 253 }));
    set(spec, "runtimePatches[].manager", immutable());
    let template = "runtimePatches[].trainingRuntimeSpec.template";
    *at(spec, &format!("{template}.metadata")) = template_metadata();
    let jobs = format!("{template}.spec.replicatedJobs");
    set(spec, &jobs, map_list(100, "name"));
    at(spec, &format!("{jobs}[]"))["required"] = json!(["name"]);
    set(spec, &format!("{jobs}[].name"), json!({ "minLength": 1, "maxLength": 253 }));
    *at(spec, &format!("{jobs}[].template.metadata")) = template_metadata();
    *at(spec, &format!("{jobs}[].template.spec.template.metadata")) = template_metadata();
    let pod = at(spec, &format!("{jobs}[].template.spec.template.spec"));
    for (list, most) in
        [("volumes", 128), ("initContainers", 64), ("containers", 64), ("imagePullSecrets", 64)]
    {
        set(pod, list, map_list(most, "name"));
    }
    unset(at(pod, "nodeSelector"), "x-kubernetes-map-type");
    set(pod, "tolerations", json!({ "maxItems": 128 }));
    set(pod, "schedulingGates", map_list(16, "name"));
    set(pod, "serviceAccountName", json!({ "maxLength": 253 }));
    set(pod, "terminationGracePeriodSeconds", json!({ "minimum": 0 }));
    for scalar in ["serviceAccountName", "terminationGracePeriodSeconds"] {
        set(pod, scalar, immutable());
    }
    for field in
        ["volumes", "imagePullSecrets", "securityContext", "affinity", "tolerations", "schedulingGates"]
    {
        strip(pod, field);
    }
    for containers in ["initContainers[]", "containers[]"] {
        at(pod, containers)["required"] = json!(["name"]);
        set(pod, &format!("{containers}.name"), json!({ "minLength": 1, "maxLength": 253 }));
        environment(pod, &format!("{containers}.env"));
        strip(pod, &format!("{containers}.volumeMounts"));
        set(pod, &format!("{containers}.volumeMounts"), map_list(128, "name"));
        strip(pod, &format!("{containers}.securityContext"));
    }
}

/// Upstream's limits of `status`, and those of Kubernetes' conditions.
fn constrain_status(status: &mut Value) {
    status["minProperties"] = json!(1);
    strip(status, "conditions");
    set(status, "conditions", map_list(8, "type"));
    let condition = at(status, "conditions[]");
    condition["required"] = json!(["lastTransitionTime", "message", "reason", "status", "type"]);
    set(condition, "message", json!({ "maxLength": 32768 }));
    set(condition, "observedGeneration", json!({ "minimum": 0 }));
    let reason = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
    set(condition, "reason", json!({ "minLength": 1, "maxLength": 1024, "pattern": reason }));
    set(condition, "status", json!({ "enum": ["True", "False", "Unknown"] }));
    let kind = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
    set(condition, "type", json!({ "maxLength": 316, "pattern": kind }));
    set(status, "jobsStatus", map_list(100, "name"));
    set(status, "jobsStatus[].name", json!({ "minLength": 1, "maxLength": 253 }));
    for count in ["ready", "succeeded", "failed", "active", "suspended"] {
        set(status, &format!("jobsStatus[].{count}"), json!({ "minimum": 0 }));
    }
    constrain_trainer_status(at(status, "trainerStatus"));
}

/// Upstream's limits and defaults of a runtime.
fn constrain_runtime(spec: &mut Value) {
    spec["minProperties"] = json!(1);
    let frameworks = "[has(self.torch), has(self.mpi), has(self.jax), has(self.xgboost),has(self.flux)].filter(x, x).size() <= 1";
    let rules = [rule(frameworks, "Only one of the policy can be configured", None)];
    set(spec, "mlPolicy", json!({ "x-kubernetes-validations": rules }));
    let mpi = at(spec, "mlPolicy.mpi");
    set(mpi, "numProcPerNode", json!({ "default": 1 }));
    set(mpi, "numProcPerNode", at_least_one("NumProcPerNode in mpiPolicy must be >= 1"));
    let implementations = json!({ "default": "OpenMPI", "enum": ["OpenMPI", "", "Intel", "MPICH"] });
    set(mpi, "mpiImplementation", implementations);
    set(mpi, "sshAuthMountPath", json!({ "default": "/root/.ssh", "maxLength": 4096 }));
    set(mpi, "runLauncherAsNode", json!({ "default": false }));
    let flux = at(spec, "mlPolicy.flux");
    set(flux, "numProcPerNode", json!({ "default": 1 }));
    set(flux, "numProcPerNode", at_least_one("NumProcPerNode in fluxPolicy must be >= 1"));
    constrain_injection(at(spec, "mlPolicy.torch"));
    set(spec, "podGroupPolicy.coscheduling.scheduleTimeoutSeconds", json!({ "default": 60 }));
    let topology = "podGroupPolicy.volcano.networkTopology";
    set(spec, &format!("{topology}.mode"), json!({ "default": "hard", "enum": ["hard", "soft"] }));
    set(spec, &format!("{topology}.highestTierAllowed"), json!({ "default": 1 }));
    remove_keys(at(spec, &format!("{topology}.highestTierAllowed")), &["format"]);
    set(spec, "template", json!({ "minProperties": 1 }));
    *at(spec, "template.metadata") = template_metadata();
    constrain_job_set(at(spec, "template.spec"));
}

fn constrain_injection(torch: &mut Value) {
    set(torch, "envInjection.targets", map_list(16, "jobName"));
    set(torch, "envInjection.targets[].jobName", json!({ "minLength": 1, "maxLength": 253 }));
    let message = "containerNames must not include the main node container because PET_* envs are always injected into it";
    let names = json!({
        "minItems": 1, "maxItems": 8, "x-kubernetes-list-type": "set",
        "x-kubernetes-validations": [rule("!self.exists(c, c == 'node')", message, None)],
    });
    set(torch, "envInjection.targets[].containerNames", names);
    set(torch, "envInjection.targets[].containerNames[]", json!({ "maxLength": 63 }));
}

/// JobSet's own limits, defaults and rules.
fn constrain_job_set(job_set: &mut Value) {
    let order = "!(has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder' && self.replicatedJobs.exists(x, has(x.dependsOn)))";
    let message = "StartupPolicy and DependsOn APIs are mutually exclusive";
    job_set["x-kubernetes-validations"] = json!([rule(order, message, None)]);
    for frozen in [
        "network",
        "successPolicy",
        "failurePolicy",
        "startupPolicy",
        "volumeClaimPolicies",
        "replicatedJobs[].dependsOn",
    ] {
        set(job_set, frozen, frozen_in_job_set());
    }
    let by_name = json!({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"] });
    set(job_set, "replicatedJobs", by_name);
    set(job_set, "replicatedJobs[].groupName", json!({ "default": "default" }));
    set(job_set, "replicatedJobs[].replicas", json!({ "default": 1 }));
    set(job_set, "replicatedJobs[].dependsOn", map_list(5, "name"));
    set(job_set, "replicatedJobs[].dependsOn[].status", json!({ "enum": ["Ready", "Complete"] }));
    set(job_set, "successPolicy.operator", json!({ "enum": ["All", "Any"] }));
    set(job_set, "startupPolicy.startupPolicyOrder", json!({ "enum": ["AnyOrder", "InOrder"] }));
    let strategies = json!(["Recreate", "BlockingRecreate", "InPlaceRestart"]);
    set(job_set, "failurePolicy.restartStrategy", json!({ "default": "Recreate", "enum": strategies }));
    let actions = [
        "FailJobSet",
        "RestartJobSet",
        "RestartJobSetAndIgnoreMaxRestarts",
        "RestartJob",
        "RestartJobAndIgnoreMaxRestarts",
    ];
    set(job_set, "failurePolicy.rules[].action", json!({ "enum": actions }));
    for list in ["rules", "rules[].onJobFailureReasons", "rules[].onJobFailureMessagePatterns"] {
        unset(at(job_set, &format!("failurePolicy.{list}")), "x-kubernetes-list-type");
    }
    set(job_set, "ttlSecondsAfterFinished", json!({ "minimum": 0 }));
    for index in ["coordinator.jobIndex", "coordinator.podIndex"] {
        remove_keys(at(job_set, index), &["format"]);
    }
    constrain_claims(job_set);
    let template = "replicatedJobs[].template";
    strip(job_set, template);
    let template = at(job_set, template);
    *at(template, "metadata") = template_metadata();
    *at(template, "spec.template.metadata") = template_metadata();
    let codes = "spec.podFailurePolicy.rules[].onExitCodes.values";
    set(template, codes, json!({ "x-kubernetes-list-type": "set" }));
}

fn constrain_claims(job_set: &mut Value) {
    set(job_set, "volumeClaimPolicies", json!({ "maxItems": 50 }));
    let namespaced = "self.templates.all(t, !has(t.metadata.namespace) || size(t.metadata.namespace) == 0)";
    let message = "namespace cannot be set for VolumeClaimPolicies templates";
    let rules = [rule(namespaced, message, None)];
    set(job_set, "volumeClaimPolicies[]", json!({ "x-kubernetes-validations": rules }));
    set(job_set, "volumeClaimPolicies[].templates", json!({ "maxItems": 50 }));
    strip(job_set, "volumeClaimPolicies[].templates");
    let claim = at(job_set, "volumeClaimPolicies[].templates[]");
    unset(claim, "required");
    *at(claim, "metadata") = template_metadata();
    set(claim, "status.allocatedResourceStatuses", json!({ "x-kubernetes-map-type": "granular" }));
    let by_type = json!({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"] });
    set(claim, "status.conditions", by_type);
    let fate = json!({ "default": "Delete", "enum": ["Delete", "Retain"] });
    set(job_set, "volumeClaimPolicies[].retentionPolicy.whenDeleted", fate);
}

fn unset(schema: &mut Value, keyword: &str) {
    if let Some(schema) = schema.as_object_mut() {
        schema.remove(keyword);
    }
}
