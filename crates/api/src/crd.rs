//! The CustomResourceDefinition of `MPIJob`: the derived schema, made structural, with validation rules.
//!
//! The types give the schema. This file adds what Rust types cannot express: defaults and enums as in upstream's
//! CRD (`kubeflow/mpi-operator`, `manifests/base/kubeflow.org_mpijobs.yaml`), list types of the pod template as
//! Kubernetes declares them for pods, and CEL rules. All rules are at the root, at `spec` or at `mpiReplicaSpecs`,
//! never below: that map has no bound on its keys, and the API server multiplies the cost of a rule by the number
//! of values that it may run on. The API server also runs all of them on every status write, so there are few, and
//! none compares more than a list of words. This file changes the schema only; it validates no job.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::{LAUNCHER, MANAGED_BY_MULTIKUEUE, MANAGED_BY_US, MPIJob, WORKER};

/// `<job>-worker-<index>` is the name of a pod and its host name, so it must be a DNS label of at most 63
/// characters.
const WORKER_INFIX_LENGTH: usize = "-worker-".len();

/// Returns the definition to install, equal to `deploy/crd/kubeflow.org_mpijobs.yaml`.
///
/// # Panics
/// Never: it depends on no input, and the tests build it.
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

/// Adds upstream's defaults, enums and minima of `spec`, the template's list types, and the rules.
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
    fields["mpiReplicaSpecs"]["x-kubernetes-validations"] = Value::Array(replica_change_rules());
    let mut rules = replica_rules();
    rules.extend(immutability_rules());
    spec["x-kubernetes-validations"] = Value::Array(rules);
}

/// Makes conditions a map by type, each with one of three states.
fn constrain_status(status: &mut Value) {
    remove_keys(status, &["default"]);
    let conditions = &mut status["properties"]["conditions"];
    conditions["x-kubernetes-list-type"] = json!("map");
    conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
    conditions["items"]["properties"]["status"]["enum"] = json!(["True", "False", "Unknown"]);
    let replica = &mut status["properties"]["replicaStatuses"]["additionalProperties"];
    remove_keys(&mut replica["properties"]["labelSelector"], &["description"]);
    let selector = &mut replica["properties"]["labelSelector"];
    selector["x-kubernetes-map-type"] = json!("atomic");
    shape_fields(selector);
    constrain_trainer_status(&mut status["properties"]["trainerStatus"]);
}

/// Adds Trainer's limits of `status.trainerStatus`, which are the same for jobs of every kind.
pub(crate) fn constrain_trainer_status(status: &mut Value) {
    let message = "lastUpdatedTime is required when trainerStatus is present";
    status["x-kubernetes-validations"] = json!([rule("has(self.lastUpdatedTime)", message, None)]);
    let fields = &mut status["properties"];
    set(fields, "progressPercentage", json!({ "minimum": 0, "maximum": 100 }));
    set(fields, "estimatedRemainingSeconds", json!({ "minimum": 0 }));
    set(fields, "metrics", json!({ "maxItems": 256, "x-kubernetes-list-type": "atomic" }));
    for text in ["name", "value"] {
        let metric = &mut fields["metrics"]["items"]["properties"];
        set(metric, text, json!({ "minLength": 1, "maxLength": 64 }));
    }
}

/// Shapes the pod template: no descriptions (`kubectl explain pod` has them, and they would be nine tenths of the
/// file), the metadata that a pod takes from a template, list and map types as in Kubernetes.
fn shape_template(template: &mut Value) {
    remove_keys(template, &["default"]);
    let description = template["description"].take();
    remove_keys(template, &["description"]);
    template["description"] = description;
    template["properties"]["metadata"] = template_metadata();
    shape_fields(&mut template["properties"]["spec"]);
}

/// Returns the schema of the metadata that an object takes from a template.
pub(crate) fn template_metadata() -> Value {
    let strings = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    json!({
        "type": "object",
        "properties": {
            "annotations": strings, "labels": strings,
            "finalizers": { "type": "array", "items": { "type": "string" } },
            "name": { "type": "string" }, "namespace": { "type": "string" },
        },
    })
}

/// Walks a pod spec's schema and gives each list and map the type, and each field the default, that Kubernetes' own
/// OpenAPI declares for it.
pub(crate) fn shape_fields(schema: &mut Value) {
    if schema["x-kubernetes-int-or-string"] == json!(true) {
        *schema = quantity();
        return;
    }
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, field) in fields.iter_mut() {
            if name == "port" {
                // A probe's port is int-or-string too, but a number or a name and not a quantity.
                if field["x-kubernetes-int-or-string"] == json!(true) {
                    field["anyOf"] = json!([{ "type": "integer" }, { "type": "string" }]);
                    // No client of Kubernetes can read a number beyond 32 bits.
                    (field["minimum"], field["maximum"]) = (json!(0), json!(65535));
                }
                continue;
            }
            if name == "volumeClaimTemplate" {
                field["properties"]["metadata"] = template_metadata();
            } else if name == "exitCodes" {
                field["properties"]["values"]["x-kubernetes-list-type"] = json!("set");
                continue;
            } else if field["type"] == "array" {
                shape_list(name, field);
            } else if ATOMIC_MAPS.contains(&name.as_str()) {
                field["x-kubernetes-map-type"] = json!("atomic");
            }
            name_reference(name, field);
            for (_, below, default) in DEFAULTS.iter().filter(|(object, ..)| object == name) {
                field["properties"][*below]["default"] = default.value();
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

/// Lists of a pod spec that are maps, with their keys (`k8s.io/api/core/v1/types.go`).
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
/// A default of a pod spec's field.
enum FieldDefault {
    Text(&'static str),
    False,
}

impl FieldDefault {
    fn value(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::False => json!(false),
        }
    }
}

/// Defaults in a pod spec, by object and field.
const DEFAULTS: [(&str, &str, FieldDefault); 10] = [
    ("azureDisk", "fsType", FieldDefault::Text("ext4")),
    ("azureDisk", "readOnly", FieldDefault::False),
    ("fileKeyRef", "optional", FieldDefault::False),
    ("grpc", "service", FieldDefault::Text("")),
    ("iscsi", "iscsiInterface", FieldDefault::Text("default")),
    ("rbd", "keyring", FieldDefault::Text("/etc/ceph/keyring")),
    ("rbd", "pool", FieldDefault::Text("rbd")),
    ("rbd", "user", FieldDefault::Text("admin")),
    ("scaleIO", "fsType", FieldDefault::Text("xfs")),
    ("scaleIO", "storageMode", FieldDefault::Text("ThinProvisioned")),
];
/// References whose name is optional, only because it once was.
const REFERENCES: [&str; 7] = [
    "configMapKeyRef",
    "secretKeyRef",
    "configMapRef",
    "secretRef",
    "nodePublishSecretRef",
    "configMap",
    "secret",
];
/// Objects and string maps of a pod spec that are atomic.
const ATOMIC_MAPS: [&str; 15] = [
    "nodePublishSecretRef",
    "preference",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "dataSource",
    "selector",
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

/// Shapes a reference by name: the name defaults to empty, and a volume's reference is atomic.
fn name_reference(name: &str, field: &mut Value) {
    if !REFERENCES.contains(&name) || field["properties"]["name"].is_null() {
        return;
    }
    optional_name(field);
    if ["configMap", "secret"].contains(&name) {
        field["x-kubernetes-map-type"] = json!("atomic");
    }
}

fn optional_name(reference: &mut Value) {
    reference["properties"]["name"]["default"] = json!("");
    if let Some(required) = reference["required"].as_array_mut() {
        required.retain(|field| field != "name");
    }
    if reference["required"].as_array().is_some_and(Vec::is_empty) {
        remove_required(reference);
    }
}

fn remove_required(schema: &mut Value) {
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("required");
    }
}

/// Shapes a list: a map if Kubernetes declares it so, otherwise atomic.
fn shape_list(name: &str, list: &mut Value) {
    let keys = MAP_LISTS.iter().find(|(list, _)| *list == name).map_or(&[][..], |(_, keys)| keys);
    if name == "nodeSelectorTerms" {
        list["items"]["x-kubernetes-map-type"] = json!("atomic");
    }
    if keys.is_empty() {
        list["x-kubernetes-list-type"] = json!("atomic");
        return;
    }
    list["x-kubernetes-list-type"] = json!("map");
    list["x-kubernetes-list-map-keys"] = json!(keys);
    match name {
        "ports" => list["items"]["properties"]["protocol"]["default"] = json!("TCP"),
        "imagePullSecrets" => {
            optional_name(&mut list["items"]);
            list["items"]["x-kubernetes-map-type"] = json!("atomic");
        }
        _ => {}
    }
}

/// Returns the schema of a resource quantity, as controller-gen writes it.
fn quantity() -> Value {
    json!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": true,
    })
}

/// The name becomes the name of a Service and, with `-worker-<n>`, a host name.
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

/// The requirements of upstream's controller for the Launcher and the Workers of a job
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

/// Immutable fields, as far as a single comparison each can check them. A client that writes a job back in the
/// notation of its own types must pass. Lists and quantities below the templates could only be compared literally
/// here, so the webhook compares them (`plan::forbidden_changes`).
fn immutability_rules() -> Vec<Value> {
    let top = [
        ("slotsPerWorker", "1"),
        ("runLauncherAsWorker", "false"),
        ("sshAuthMountPath", "'/root/.ssh'"),
        ("launcherCreationPolicy", "'AtStartup'"),
        ("mpiImplementation", "'OpenMPI'"),
    ];
    let mut rules: Vec<Value> = top
        .map(|(field, default)| {
            rule(&unchanged("self", "oldSelf", field, default), &frozen(field), Some(&format!(".{field}")))
        })
        .into();
    rules.push(policy_rule());
    rules.extend([LAUNCHER, WORKER].map(injection_rule));
    rules
}

/// The run policy is immutable, except for `suspend` and `schedulingPolicy`.
fn policy_rule() -> Value {
    let fields = [
        ("cleanPodPolicy", "'None'"),
        ("ttlSecondsAfterFinished", "-1"),
        ("activeDeadlineSeconds", "-1"),
        ("backoffLimit", "-1"),
        ("managedBy", "''"),
    ];
    let checks: Vec<(&str, String)> = fields
        .map(|(field, default)| (field, unchanged_below("self", "oldSelf", "runPolicy", field, default)))
        .into();
    let message = frozen("runPolicy, but for suspend and schedulingPolicy,");
    transition_rule("", &checks, &message, Some(".runPolicy"))
}

/// The fields that a queue injects into a template may change only while the job is suspended. Tolerations can be
/// written in more than one way, and are left to the webhook.
fn injection_rule(role: &str) -> Value {
    let (new, old) = (
        format!("self.mpiReplicaSpecs['{role}'].template"),
        format!("oldSelf.mpiReplicaSpecs['{role}'].template"),
    );
    let suspended = format!("({}) || ({})", is_suspended("self"), is_suspended("oldSelf"));
    let both = both_have_specs("self.mpiReplicaSpecs", "oldSelf.mpiReplicaSpecs", role);
    let checks = [
        ("labels", unchanged_below(&new, &old, "metadata", "labels", "{}")),
        ("annotations", unchanged_below(&new, &old, "metadata", "annotations", "{}")),
        ("nodeSelector", unchanged(&format!("{new}.spec"), &format!("{old}.spec"), "nodeSelector", "{}")),
    ];
    let message = format!(
        "mpiReplicaSpecs[{role}].template: labels, annotations, nodeSelector, tolerations and schedulingGates \
         can be changed only while the job is suspended"
    );
    transition_rule(&format!("{suspended} || !({both})"), &checks, &message, Some(".mpiReplicaSpecs"))
}

/// The rest of the replica specs is immutable, except for the number of replicas: the roles, the restart policies,
/// and what the MPI containers run. The rules are at the map itself, where their text is a third shorter.
fn replica_change_rules() -> Vec<Value> {
    let mut rules = Vec::new();
    for (role, restart_policy) in [(LAUNCHER, "'OnFailure'"), (WORKER, "'Never'")] {
        rules.push(rule(
            &format!("('{role}' in self) == ('{role}' in oldSelf)"),
            &frozen(&format!("the presence of mpiReplicaSpecs[{role}]")),
            None,
        ));
        let (new, old) = (format!("self['{role}']"), format!("oldSelf['{role}']"));
        let containers = |root: &str| format!("{root}.template.spec.containers");
        let (new_ones, old_ones) = (containers(&new), containers(&old));
        let (new_main, old_main) = (format!("{new_ones}[0]"), format!("{old_ones}[0]"));
        let checks = [
            ("restartPolicy", unchanged(&new, &old, "restartPolicy", restart_policy)),
            ("containers", format!("size({new_ones}) == size({old_ones})")),
            ("image", unchanged(&new_main, &old_main, "image", "''")),
            ("command", unchanged(&new_main, &old_main, "command", "[]")),
            ("args", unchanged(&new_main, &old_main, "args", "[]")),
        ];
        let empty = format!("size({new_ones}) == 0 || size({old_ones}) == 0");
        let pass = format!("!({}) || {empty}", both_have_specs("self", "oldSelf", role));
        let message = frozen(&format!("mpiReplicaSpecs[{role}], but for replicas,"));
        rules.push(transition_rule(&pass, &checks, &message, None));
    }
    rules
}

/// Checks that both sides have a role with a pod spec; a job without one was never valid.
fn both_have_specs(new: &str, old: &str, role: &str) -> String {
    let has = |map: &str| {
        format!("'{role}' in {map} && has({map}['{role}'].template) && has({map}['{role}'].template.spec)")
    };
    format!("{} && {}", has(new), has(old))
}

/// Combines many checks, each of one field, into one rule. `pass` skips them all. The error message names the
/// fields that failed.
fn transition_rule(pass: &str, checks: &[(&str, String)], message: &str, path: Option<&str>) -> Value {
    let all: Vec<&str> = checks.iter().map(|(_, check)| check.as_str()).collect();
    let changed: Vec<String> =
        checks.iter().map(|(field, check)| format!("({check} ? '' : ' {field}')")).collect();
    let all = all.join(" && ");
    let expression = if pass.is_empty() { all } else { format!("{pass} || ({all})") };
    let mut rule = rule(&expression, message, path);
    rule["messageExpression"] = json!(format!("\"{message}; changed:\" + {}", changed.join(" + ")));
    rule
}

/// Checks that an optional field has the same value on both sides. A missing or empty field equals its default.
fn unchanged(new: &str, old: &str, field: &str, default: &str) -> String {
    let value = |root: &str| or_default(&format!("has({root}.{field})"), &format!("{root}.{field}"), default);
    format!("{} == {}", value(new), value(old))
}

/// Like [`unchanged`], for a field of an optional object.
pub(crate) fn unchanged_below(new: &str, old: &str, object: &str, field: &str, default: &str) -> String {
    let value = |root: &str| {
        let present = format!("has({root}.{object}) && has({root}.{object}.{field})");
        or_default(&present, &format!("{root}.{object}.{field}"), default)
    };
    format!("{} == {}", value(new), value(old))
}

fn or_default(present: &str, value: &str, default: &str) -> String {
    // An empty string counts as missing.
    let given =
        if default.starts_with('\'') { format!("{present} && {value} != ''") } else { present.to_owned() };
    format!("({given} ? {value} : {default})")
}

fn is_suspended(root: &str) -> String {
    format!("has({root}.runPolicy) && has({root}.runPolicy.suspend) && {root}.runPolicy.suspend")
}

fn frozen(what: &str) -> String {
    format!("{what} cannot be changed: delete the job and create it again")
}

/// Builds one entry of `x-kubernetes-validations`; `path` is where the fault is reported.
pub(crate) fn rule(expression: &str, message: &str, path: Option<&str>) -> Value {
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

/// Removes schema keywords at every level; a *property* of that name stays.
pub(crate) fn remove_keys(schema: &mut Value, keys: &[&str]) {
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
