//! The CustomResourceDefinition of `MPIJob`: the derived schema, made structural and given rules.
//!
//! The types give the schema; this file adds what Rust types cannot say: defaults and enums as upstream's CRD has
//! them (`kubeflow/mpi-operator`, `manifests/base/kubeflow.org_mpijobs.yaml`), list types of the pod template as
//! Kubernetes declares them for pods, and CEL rules. All rules stand at the root, at `spec` or at `mpiReplicaSpecs`, never
//! below: that map has no bound on its keys, and the API server multiplies the cost of a rule by the number of values
//! that it may have to be run on. It runs all of them on every write of a status too, so there are few, and what compares
//! fields begins with one comparison of the whole. It changes the schema only; it judges no job.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::{LAUNCHER, MANAGED_BY_MULTIKUEUE, MANAGED_BY_US, MPIJob, WORKER};

/// Fields of a pod spec that Kueue injects while a job is suspended (`pkg/podset` there), and nobody else.
const INJECTED_POD_FIELDS: [&str; 3] = ["nodeSelector", "tolerations", "schedulingGates"];
/// Fields of a template's metadata that Kueue injects while a job is suspended.
const INJECTED_METADATA_FIELDS: [&str; 2] = ["labels", "annotations"];
/// `<job>-worker-<index>` names a pod, its host name and so a DNS label of at most 63 characters.
const WORKER_INFIX_LENGTH: usize = "-worker-".len();

/// The definition to install, equal to `deploy/crd/kubeflow.org_mpijobs.yaml`.
///
/// # Panics
/// Never: the tests build it, and it depends on no input.
#[must_use]
#[expect(clippy::expect_used, reason = "no input: a fault here is found by the first test")]
pub fn mpijob_crd() -> CustomResourceDefinition {
    let mut crd = serde_json::to_value(MPIJob::crd()).expect("a derived definition is JSON");
    crd["spec"]["names"]["listKind"] = json!("MPIJobList");
    let root = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    remove_keys(root, &["nullable"]);
    root["properties"]["apiVersion"] = json!({ "type": "string" });
    root["properties"]["kind"] = json!({ "type": "string" });
    root["properties"]["metadata"] = json!({ "type": "object" });
    root["x-kubernetes-validations"] = json!([name_rule()]);
    constrain_spec(&mut root["properties"]["spec"]);
    constrain_status(&mut root["properties"]["status"]);
    serde_json::from_value(crd).expect("the definition stays a definition")
}

/// Defaults, enums and minima of `spec` as upstream's, the template's list types, and the rules.
fn constrain_spec(spec: &mut Value) {
    let fields = &mut spec["properties"];
    set(fields, "slotsPerWorker", json!({ "default": 1, "minimum": 0 }));
    set(fields, "runLauncherAsWorker", json!({ "default": false }));
    set(fields, "sshAuthMountPath", json!({ "default": "/root/.ssh" }));
    set(
        fields,
        "launcherCreationPolicy",
        json!({ "default": "AtStartup", "enum": ["AtStartup", "WaitForWorkersReady"] }),
    );
    set(fields, "mpiImplementation", json!({ "default": "OpenMPI", "enum": ["OpenMPI", "Intel", "MPICH"] }));
    let policy = &mut fields["runPolicy"]["properties"];
    set(policy, "cleanPodPolicy", json!({ "enum": ["None", "Running", "All"] }));
    set(policy, "suspend", json!({ "default": false }));
    set(policy, "managedBy", json!({ "enum": [MANAGED_BY_US, MANAGED_BY_MULTIKUEUE] }));
    for counted in ["ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit"] {
        set(policy, counted, json!({ "minimum": 0 }));
    }
    let min_resources = &mut policy["schedulingPolicy"]["properties"]["minResources"];
    min_resources["additionalProperties"] = quantity();
    let template = &mut fields["mpiReplicaSpecs"]["additionalProperties"]["properties"]["template"];
    shape_template(template);
    let pod_fields = property_names(&template["properties"]["spec"]);
    fields["mpiReplicaSpecs"]["x-kubernetes-validations"] = Value::Array(replica_change_rules(&pod_fields));
    let mut rules = replica_rules();
    rules.extend(immutability_rules());
    spec["x-kubernetes-validations"] = Value::Array(rules);
}

/// Conditions are a map by type and have one of three states.
fn constrain_status(status: &mut Value) {
    remove_keys(status, &["default"]);
    let conditions = &mut status["properties"]["conditions"];
    conditions["x-kubernetes-list-type"] = json!("map");
    conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
    conditions["items"]["properties"]["status"]["enum"] = json!(["True", "False", "Unknown"]);
    let replica = &mut status["properties"]["replicaStatuses"]["additionalProperties"];
    remove_keys(&mut replica["properties"]["labelSelector"], &["description"]);
    replica["properties"]["labelSelector"]["x-kubernetes-map-type"] = json!("atomic");
}

/// The pod template: no descriptions (`kubectl explain pod` has them, and they would be nine tenths of the file),
/// metadata as far as a pod takes it from a template, list and map types as Kubernetes has them.
fn shape_template(template: &mut Value) {
    remove_keys(template, &["default"]);
    let description = template["description"].take();
    remove_keys(template, &["description"]);
    template["description"] = description;
    let strings = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    template["properties"]["metadata"] = json!({
        "type": "object",
        "properties": {
            "annotations": strings, "labels": strings,
            "finalizers": { "type": "array", "items": { "type": "string" } },
            "name": { "type": "string" }, "namespace": { "type": "string" },
        },
    });
    shape_fields(&mut template["properties"]["spec"]);
}

/// Walks a pod spec's schema and gives each list and map the type that Kubernetes' own OpenAPI declares for it.
fn shape_fields(schema: &mut Value) {
    if schema["x-kubernetes-int-or-string"] == json!(true) {
        *schema = quantity();
        return;
    }
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, field) in fields.iter_mut() {
            if name == "port" {
                continue; // a probe's port: int-or-string too, but a number or a name, no quantity
            }
            if field["type"] == "array" {
                shape_list(name, field);
            } else if ATOMIC_MAPS.contains(&name.as_str()) {
                field["x-kubernetes-map-type"] = json!("atomic");
            }
            shape_fields(field);
        }
    }
    for below in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(below).filter(|inner| inner.is_object()) {
            shape_fields(inner);
        }
    }
}

/// Lists of a pod spec that are maps, with the keys of an entry (`k8s.io/api/core/v1/types.go`).
const MAP_LISTS: [(&str, &[&str]); 14] = [
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("env", &["name"]),
    ("ports", &["containerPort", "protocol"]),
    ("volumes", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
    ("imagePullSecrets", &["name"]),
    ("hostAliases", &["ip"]),
    ("resourceClaims", &["name"]),
    ("claims", &["name"]),
    ("schedulingGates", &["name"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
];
/// Objects and string maps of a pod spec that are owned as a whole.
const ATOMIC_MAPS: [&str; 10] = [
    "nodeSelector",
    "labelSelector",
    "namespaceSelector",
    "configMapKeyRef",
    "secretKeyRef",
    "fieldRef",
    "fileKeyRef",
    "resourceFieldRef",
    "configMapRef",
    "secretRef",
];

/// One list: a map where Kubernetes says so, otherwise owned as a whole.
fn shape_list(name: &str, list: &mut Value) {
    let keys = MAP_LISTS.iter().find(|(list, _)| *list == name).map_or(&[][..], |(_, keys)| keys);
    if keys.is_empty() {
        list["x-kubernetes-list-type"] = json!("atomic");
        return;
    }
    list["x-kubernetes-list-type"] = json!("map");
    list["x-kubernetes-list-map-keys"] = json!(keys);
    match name {
        "ports" => list["items"]["properties"]["protocol"]["default"] = json!("TCP"),
        "imagePullSecrets" => list["items"]["properties"]["name"]["default"] = json!(""),
        _ => {}
    }
}

/// A resource quantity, as controller-gen writes it.
fn quantity() -> Value {
    json!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": true,
    })
}

/// The name becomes a Service's, and with `-worker-<n>` a host's name.
fn name_rule() -> Value {
    let workers = format!("self.spec.mpiReplicaSpecs['{WORKER}']");
    let digits = format!(
        "(has(self.spec) && has(self.spec.mpiReplicaSpecs) && '{WORKER}' in self.spec.mpiReplicaSpecs && \
         has({workers}.replicas) && {workers}.replicas > 1 ? size(string({workers}.replicas - 1)) : 1)"
    );
    rule(
        &format!(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && \
             size(self.metadata.name) + {WORKER_INFIX_LENGTH} + {digits} <= 63"
        ),
        "metadata.name must begin with a letter, hold only lower-case letters, digits and '-', and with \
         '-worker-<index>' appended be at most 63 characters: it becomes the host name of the Workers",
        None,
    )
}

/// What upstream's controller asks of the Launcher and the Workers before it runs a job
/// (`pkg/apis/kubeflow/validation/validation.go`).
fn replica_rules() -> Vec<Value> {
    let path = Some(".mpiReplicaSpecs");
    let mut rules = vec![rule(
        &format!("'{LAUNCHER}' in self.mpiReplicaSpecs"),
        "mpiReplicaSpecs must have a Launcher: the pod that runs mpirun",
        path,
    )];
    for role in [LAUNCHER, WORKER] {
        let replica = format!("self.mpiReplicaSpecs['{role}']");
        let absent = format!("!('{role}' in self.mpiReplicaSpecs)");
        let (counted, count) = match role {
            LAUNCHER => (format!("!has({replica}.replicas) || {replica}.replicas == 1"), "must be 1"),
            _ => (format!("has({replica}.replicas) && {replica}.replicas >= 1"), "must be at least 1"),
        };
        rules.push(rule(
            &format!("{absent} || ({counted})"),
            &format!("mpiReplicaSpecs[{role}].replicas {count}"),
            path,
        ));
        rules.push(rule(
            &format!(
                "{absent} || !has({replica}.restartPolicy) || \
                 {replica}.restartPolicy in ['', 'Never', 'OnFailure']"
            ),
            &format!("mpiReplicaSpecs[{role}].restartPolicy must be Never or OnFailure"),
            path,
        ));
        rules.push(rule(
            &format!(
                "{absent} || (has({replica}.template) && has({replica}.template.spec) && \
                 size({replica}.template.spec.containers) >= 1)"
            ),
            &format!("mpiReplicaSpecs[{role}].template.spec.containers must have at least one container"),
            path,
        ));
    }
    rules
}

/// What may not change once the job exists: everything but `suspend`, `Worker.replicas` and `schedulingPolicy`,
/// and, while suspended, what a queue injects into the templates.
fn immutability_rules() -> Vec<Value> {
    let mut rules = Vec::new();
    let top = [
        "slotsPerWorker",
        "runLauncherAsWorker",
        "sshAuthMountPath",
        "launcherCreationPolicy",
        "mpiImplementation",
    ];
    for field in top {
        rules.push(rule(&unchanged("self", "oldSelf", field), &frozen(field), Some(&format!(".{field}"))));
    }
    rules.push(policy_rule());
    rules.extend([LAUNCHER, WORKER].map(injection_rule));
    rules
}

/// Immutability of the run policy, but for `suspend` and `schedulingPolicy`.
fn policy_rule() -> Value {
    let fields =
        ["cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "managedBy"];
    let checks: Vec<(&str, String)> =
        fields.map(|field| (field, unchanged_below("self", "oldSelf", "runPolicy", field))).into();
    let message = frozen("runPolicy, but for suspend and schedulingPolicy,");
    transition_rule(&unchanged("self", "oldSelf", "runPolicy"), &checks, &message, Some(".runPolicy"))
}

/// What a queue injects into a template may be changed while the job is suspended, and not otherwise.
fn injection_rule(role: &str) -> Value {
    let (new, old) = (
        format!("self.mpiReplicaSpecs['{role}'].template"),
        format!("oldSelf.mpiReplicaSpecs['{role}'].template"),
    );
    let suspended = format!("({}) || ({})", is_suspended("self"), is_suspended("oldSelf"));
    let both = both_have_specs("self.mpiReplicaSpecs", "oldSelf.mpiReplicaSpecs", role);
    let mut checks = Vec::new();
    for field in INJECTED_METADATA_FIELDS {
        checks.push((field, unchanged_below(&new, &old, "metadata", field)));
    }
    for field in INJECTED_POD_FIELDS {
        checks.push((field, unchanged(&format!("{new}.spec"), &format!("{old}.spec"), field)));
    }
    let message = format!(
        "mpiReplicaSpecs[{role}].template: labels, annotations, nodeSelector, tolerations and schedulingGates \
         can be changed only while the job is suspended"
    );
    transition_rule(&format!("{suspended} || !({both})"), &checks, &message, Some(".mpiReplicaSpecs"))
}

/// Immutability of the rest of the replica specs, but for their replicas. The rules stand at the map itself, where their
/// text is a third shorter.
fn replica_change_rules(pod_fields: &[String]) -> Vec<Value> {
    let mut rules = Vec::new();
    for role in [LAUNCHER, WORKER] {
        rules.push(rule(
            &format!("('{role}' in self) == ('{role}' in oldSelf)"),
            &frozen(&format!("the presence of mpiReplicaSpecs[{role}]")),
            None,
        ));
        let (new, old) = (format!("self['{role}']"), format!("oldSelf['{role}']"));
        let mut checks = vec![("restartPolicy", unchanged(&new, &old, "restartPolicy"))];
        for field in pod_fields.iter().filter(|field| !INJECTED_POD_FIELDS.contains(&field.as_str())) {
            let same = unchanged(&format!("{new}.template.spec"), &format!("{old}.template.spec"), field);
            checks.push((field, same));
        }
        let pass = format!("!({}) || {new} == {old}", both_have_specs("self", "oldSelf", role));
        let message = frozen(&format!("mpiReplicaSpecs[{role}], but for replicas,"));
        rules.push(transition_rule(&pass, &checks, &message, None));
    }
    rules
}

/// Whether both sides have a role with a pod spec; a job without one never was valid.
fn both_have_specs(new: &str, old: &str, role: &str) -> String {
    let has = |map: &str| {
        format!("'{role}' in {map} && has({map}['{role}'].template) && has({map}['{role}'].template.spec)")
    };
    format!("{} && {}", has(new), has(old))
}

/// One rule of many checks, each of a field, none of which is looked at where the rule passes anyway. Most writes are of
/// the status, and the API server runs every rule on them too, so what passes is one comparison of both sides as a whole.
/// What a broken rule says names the fields.
fn transition_rule(pass: &str, checks: &[(&str, String)], message: &str, path: Option<&str>) -> Value {
    let all: Vec<&str> = checks.iter().map(|(_, check)| check.as_str()).collect();
    let changed: Vec<String> =
        checks.iter().map(|(field, check)| format!("({check} ? '' : ' {field}')")).collect();
    let mut rule = rule(&format!("{pass} || ({})", all.join(" && ")), message, path);
    rule["messageExpression"] = json!(format!("\"{message}; changed:\" + {}", changed.join(" + ")));
    rule
}

/// Whether an optional field is absent on both sides or equal.
fn unchanged(new: &str, old: &str, field: &str) -> String {
    format!(
        "(has({new}.{field}) ? has({old}.{field}) && {new}.{field} == {old}.{field} : !has({old}.{field}))"
    )
}

/// The same for a field of an optional object.
fn unchanged_below(new: &str, old: &str, object: &str, field: &str) -> String {
    let present = |root: &str| format!("(has({root}.{object}) && has({root}.{object}.{field}))");
    let (in_new, in_old) = (present(new), present(old));
    format!("({in_new} ? {in_old} && {new}.{object}.{field} == {old}.{object}.{field} : !{in_old})")
}

fn is_suspended(root: &str) -> String {
    format!("has({root}.runPolicy) && has({root}.runPolicy.suspend) && {root}.runPolicy.suspend")
}

fn frozen(what: &str) -> String {
    format!("{what} cannot be changed: delete the job and create it again")
}

/// One entry of `x-kubernetes-validations`; `path` is where the fault is shown.
fn rule(expression: &str, message: &str, path: Option<&str>) -> Value {
    let mut rule = json!({ "rule": expression, "message": message });
    if let Some(path) = path {
        rule["fieldPath"] = json!(path);
    }
    rule
}

/// Merges `more` into the schema of the field `name`.
fn set(fields: &mut Value, name: &str, more: Value) {
    if let (Some(field), Value::Object(more)) = (fields.get_mut(name).and_then(Value::as_object_mut), more) {
        field.extend(more);
    }
}

fn property_names(schema: &Value) -> Vec<String> {
    schema["properties"].as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
}

/// Removes schema keywords at every level; a *property* of that name stays.
fn remove_keys(schema: &mut Value, keys: &[&str]) {
    let Some(object) = schema.as_object_mut() else { return };
    object.retain(|key, _| !keys.contains(&key.as_str()));
    if let Some(fields) = object.get_mut("properties").and_then(Value::as_object_mut) {
        fields.values_mut().for_each(|field| remove_keys(field, keys));
    }
    for below in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(below) {
            remove_keys(inner, keys);
        }
    }
    for list in ["allOf", "anyOf", "oneOf"] {
        let inner = object.get_mut(list).and_then(Value::as_array_mut);
        inner.into_iter().flatten().for_each(|inner| remove_keys(inner, keys));
    }
}
