//! A request as fields with the names of the training service's contract (`JobSpec`), which clients send, the form
//! shows and `odh training create --set` takes; and what is wrong with values that a request cannot have.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Failures, Launch, Mount, Mpi, Part, Placement, Request, Source, Variable, VariableValue, transport_name,
};
use crate::mistyped::{Mistyped, typed};
use crate::{Fault, Kind, manifest};

/// Declares a message of the contract: what is not given is the type's default, and is not written.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        struct $name {
            $(#[serde(skip_serializing_if = "is_default")] $field: $type,)*
        }
    };
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

message! {
    /// `JobSpec` of `proto/training/v1/training.proto`.
    JobSpec {
        name: String,
        workers: i32,
        image: String,
        command: Vec<String>,
        in_launcher: bool,
        slots: Option<i32>,
        gpus: Option<i32>,
        cpu: String,
        memory: String,
        mpi: String,
        env: BTreeMap<String, String>,
        volumes: BTreeMap<String, String>,
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<String, String>,
        queue: String,
        priority: String,
        clean_pod_policy: String,
        deadline_seconds: Option<i32>,
        retries: Option<i32>,
        suspend: bool,
        transport: String,
        untagged: bool,
        restricted: bool,
        mounts: Vec<JobVolume>,
        variables: Vec<JobVariable>,
        worker: JobPart,
        launcher: JobPart,
        scheduling: JobPlacement,
        min_available: Option<i32>,
        workdir: String,
        ttl_seconds: Option<i32>,
        failures: JobFailures,
        kind: String,
        runtime: String,
    }
}

message! {
    JobVolume {
        path: String,
        claim: String,
        secret: String,
        config_map: String,
        read_only: bool,
        sub_path: String,
        size: String,
        in_memory: bool,
    }
}

message! {
    JobVariable {
        name: String,
        secret: String,
        config_map: String,
        key: String,
    }
}

message! {
    JobPart {
        image: String,
        env: BTreeMap<String, String>,
        variables: Vec<JobVariable>,
        mounts: Vec<JobVolume>,
        requests: BTreeMap<String, String>,
        limits: BTreeMap<String, String>,
        scheduling: Option<JobPlacement>,
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<String, String>,
        restart_policy: String,
    }
}

message! {
    JobPlacement {
        node_selector: BTreeMap<String, String>,
        tolerations: Vec<JobToleration>,
        affinity: String,
        topology_spread: String,
        scheduler: String,
    }
}

message! {
    JobToleration {
        key: String,
        operator: String,
        value: String,
        effect: String,
        toleration_seconds: Option<i32>,
    }
}

message! {
    JobFailures {
        worker_failure: String,
        max_gang_restarts: Option<i32>,
        start_timeout: String,
        stall_timeout: String,
    }
}

/// Reads the request that fields make, and what is wrong with them.
///
/// # Errors
/// The fault, if a field is unknown or has a value of another type.
pub fn from_fields(fields: &Value) -> Result<(Request, Vec<Fault>), Fault> {
    match typed(fields.clone()) {
        Ok(spec) => Ok(request(spec)),
        Err(Mistyped { path, fault, fix }) => {
            let advice = Some(fix).filter(|fix| !fix.is_empty());
            Err(Fault { source: String::new(), position: None, path, message: fault, advice })
        }
    }
}

/// Writes a request as fields, without those that have their defaults. The namespace is none of them.
pub fn to_fields(request: &Request) -> Value {
    // What is made of texts and numbers can always be written.
    serde_json::to_value(spec(request)).unwrap_or_default()
}

fn request(spec: JobSpec) -> (Request, Vec<Fault>) {
    let mut faults = Faults::default();
    let kind = faults.one_of(
        "kind",
        &spec.kind,
        "a kind of job",
        &KINDS,
        "use mpijob, trainjob, pytorchjob or tfjob",
    );
    let mpi = faults.one_of(
        "mpi",
        &spec.mpi,
        "an MPI implementation",
        &IMPLEMENTATIONS,
        "use OpenMPI, Intel or MPICH",
    );
    let transport =
        faults.one_of("transport", &spec.transport, "a transport", &TRANSPORTS, "use agent or ssh");
    let gpus = spec.gpus.and_then(|gpus| u32::try_from(gpus).ok());
    if gpus.is_none() && spec.gpus.is_some() {
        faults.add("gpus", "is negative", "use 0 or more");
    }
    let claims = spec.volumes.into_iter().map(|(claim, path)| Mount::claim(claim, path));
    let volumes = claims.chain(faults.mounts("mounts", spec.mounts)).collect();
    let request = Request {
        kind: kind.unwrap_or_default(),
        runtime: spec.runtime,
        name: spec.name,
        namespace: None,
        workers: spec.workers,
        image: spec.image,
        command: spec.command,
        workdir: given(spec.workdir),
        in_launcher: spec.in_launcher,
        slots: spec.slots,
        gpus,
        cpu: given(spec.cpu),
        memory: given(spec.memory),
        launcher_cpu: None,
        launcher_memory: None,
        mpi: mpi.unwrap_or_default(),
        transport,
        untagged: spec.untagged,
        restricted: spec.restricted,
        env: faults.variables("variables", spec.env, spec.variables),
        volumes,
        worker: faults.part("worker", spec.worker),
        launcher: faults.part("launcher", spec.launcher),
        scheduling: faults.placement("scheduling", spec.scheduling),
        min_available: spec.min_available,
        failures: failures(spec.failures),
        labels: spec.labels,
        annotations: spec.annotations,
        queue: given(spec.queue),
        priority: given(spec.priority),
        clean_pod_policy: given(spec.clean_pod_policy),
        deadline_seconds: spec.deadline_seconds.map(i64::from),
        retries: spec.retries,
        ttl_seconds: spec.ttl_seconds,
        suspend: spec.suspend,
    };
    (request, faults.found)
}

fn spec(request: &Request) -> JobSpec {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let amounts = [("cpu", &request.launcher_cpu), ("memory", &request.launcher_memory)];
    let mut launcher = part(&request.launcher);
    for (resource, amount) in amounts {
        launcher.limits.extend(amount.clone().map(|amount| (resource.to_owned(), amount)));
    }
    let (env, variables) = variables(&request.env);
    JobSpec {
        // The default is not written.
        kind: if request.kind == Kind::MpiJob { String::new() } else { request.kind.word().to_owned() },
        runtime: request.runtime.clone(),
        name: request.name.clone(),
        workers: request.workers,
        image: request.image.clone(),
        command: request.command.clone(),
        workdir: text(&request.workdir),
        in_launcher: request.in_launcher,
        slots: request.slots,
        gpus: request.gpus.and_then(|gpus| i32::try_from(gpus).ok()),
        cpu: text(&request.cpu),
        memory: text(&request.memory),
        mpi: if request.mpi == Mpi::default() { String::new() } else { request.mpi.name().to_owned() },
        transport: request
            .transport
            .map(|transport| transport_name(transport).to_owned())
            .unwrap_or_default(),
        untagged: request.untagged,
        restricted: request.restricted,
        env,
        variables,
        volumes: BTreeMap::new(),
        mounts: request.volumes.iter().map(volume).collect(),
        worker: part(&request.worker),
        launcher,
        scheduling: placement(&request.scheduling),
        min_available: request.min_available,
        failures: JobFailures {
            worker_failure: text(&request.failures.worker_failure),
            max_gang_restarts: request.failures.max_gang_restarts,
            start_timeout: text(&request.failures.start_timeout),
            stall_timeout: text(&request.failures.stall_timeout),
        },
        labels: request.labels.clone(),
        annotations: request.annotations.clone(),
        queue: text(&request.queue),
        priority: text(&request.priority),
        clean_pod_policy: text(&request.clean_pod_policy),
        deadline_seconds: request.deadline_seconds.and_then(|seconds| i32::try_from(seconds).ok()),
        retries: request.retries,
        ttl_seconds: request.ttl_seconds,
        suspend: request.suspend,
    }
}

fn part(part: &Part) -> JobPart {
    let (env, variables) = variables(&part.env);
    JobPart {
        image: part.image.clone().unwrap_or_default(),
        env,
        variables,
        mounts: part.volumes.iter().map(volume).collect(),
        requests: part.requests.clone(),
        limits: part.limits.clone(),
        scheduling: part.scheduling.as_ref().map(placement),
        labels: part.labels.clone(),
        annotations: part.annotations.clone(),
        restart_policy: part.restart_policy.clone().unwrap_or_default(),
    }
}

fn variables(env: &[Variable]) -> (BTreeMap<String, String>, Vec<JobVariable>) {
    let mut texts = BTreeMap::new();
    let mut others = Vec::new();
    for Variable { name, value } in env {
        let mut other = JobVariable { name: name.clone(), ..JobVariable::default() };
        match value {
            VariableValue::Text(text) => {
                texts.insert(name.clone(), text.clone());
                continue;
            }
            VariableValue::SecretKey(secret, key) => {
                (other.secret, other.key) = (secret.clone(), key.clone())
            }
            VariableValue::ConfigMapKey(map, key) => {
                (other.config_map, other.key) = (map.clone(), key.clone())
            }
        }
        others.push(other);
    }
    (texts, others)
}

fn volume(mount: &Mount) -> JobVolume {
    let volume = JobVolume { path: mount.path.clone(), ..JobVolume::default() };
    match mount.source.clone() {
        Source::Claim { claim, read_only, sub_path } => {
            JobVolume { claim, read_only, sub_path: sub_path.unwrap_or_default(), ..volume }
        }
        Source::Secret(secret) => JobVolume { secret, ..volume },
        Source::ConfigMap(config_map) => JobVolume { config_map, ..volume },
        Source::Scratch { size, in_memory } => {
            JobVolume { size: size.unwrap_or_default(), in_memory, ..volume }
        }
    }
}

fn placement(placement: &Placement) -> JobPlacement {
    fn json<T: Serialize>(value: &T) -> String {
        serde_json::to_string(value).unwrap_or_default()
    }
    let toleration = |taint: &Toleration| JobToleration {
        key: taint.key.clone().unwrap_or_default(),
        operator: taint.operator.clone().unwrap_or_else(|| "Equal".to_owned()),
        value: taint.value.clone().unwrap_or_default(),
        effect: taint.effect.clone().unwrap_or_default(),
        toleration_seconds: taint.toleration_seconds.and_then(|seconds| i32::try_from(seconds).ok()),
    };
    let spread = Some(&placement.topology_spread).filter(|spread| !spread.is_empty());
    JobPlacement {
        node_selector: placement.node_selector.clone(),
        tolerations: placement.tolerations.iter().map(toleration).collect(),
        affinity: placement.affinity.as_ref().map(json).unwrap_or_default(),
        topology_spread: spread.map(json).unwrap_or_default(),
        scheduler: placement.scheduler.clone().unwrap_or_default(),
    }
}

const KINDS: [(&str, Kind); 4] = [
    ("mpijob", Kind::MpiJob),
    ("trainjob", Kind::TrainJob),
    ("pytorchjob", Kind::PyTorchJob),
    ("tfjob", Kind::TfJob),
];
const IMPLEMENTATIONS: [(&str, Mpi); 3] =
    [("openmpi", Mpi::OpenMpi), ("intel", Mpi::Intel), ("mpich", Mpi::Mpich)];
const TRANSPORTS: [(&str, Launch); 2] = [("agent", Launch::Agent), ("ssh", Launch::Ssh)];

/// An empty text counts as none.
fn given(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn failures(sent: JobFailures) -> Failures {
    Failures {
        worker_failure: given(sent.worker_failure),
        max_gang_restarts: sent.max_gang_restarts,
        start_timeout: given(sent.start_timeout),
        stall_timeout: given(sent.stall_timeout),
    }
}

/// What was found wrong while a specification is read.
#[derive(Default)]
struct Faults {
    found: Vec<Fault>,
}

impl Faults {
    fn add(&mut self, path: &str, message: impl Into<String>, advice: &str) {
        let (path, message) = (path.to_owned(), message.into());
        let advice = Some(advice.to_owned()).filter(|advice| !advice.is_empty());
        self.found.push(Fault { source: String::new(), position: None, path, message, advice });
    }

    /// Reads a word in any case.
    fn one_of<T: Copy>(
        &mut self,
        path: &str,
        text: &str,
        what: &str,
        words: &[(&str, T)],
        advice: &str,
    ) -> Option<T> {
        let found = words.iter().find(|(word, _)| text.eq_ignore_ascii_case(word));
        if found.is_none() && !text.is_empty() {
            self.add(path, format!("\"{}\" is not {what}", text.escape_debug()), advice);
        }
        found.map(|(_, value)| *value)
    }

    fn part(&mut self, path: &str, sent: JobPart) -> Part {
        let below = |field: &str| below(path, field);
        Part {
            image: given(sent.image),
            env: self.variables(&below("variables"), sent.env, sent.variables),
            volumes: self.mounts(&below("mounts"), sent.mounts),
            requests: sent.requests,
            limits: sent.limits,
            scheduling: sent.scheduling.map(|sent| self.placement(&below("scheduling"), sent)),
            labels: sent.labels,
            annotations: sent.annotations,
            restart_policy: given(sent.restart_policy),
        }
    }

    fn variables(
        &mut self,
        path: &str,
        texts: BTreeMap<String, String>,
        sent: Vec<JobVariable>,
    ) -> Vec<Variable> {
        let mut variables: Vec<Variable> = texts.into_iter().map(Variable::from).collect();
        for (at, JobVariable { name, secret, config_map, key }) in sent.into_iter().enumerate() {
            let at = format!("{path}[{at}]");
            if key.is_empty() {
                self.add(&format!("{at}.key"), "is required", "name the key that has the value");
            }
            let value = match (secret.is_empty(), config_map.is_empty()) {
                (false, true) => VariableValue::SecretKey(secret, key),
                (true, false) => VariableValue::ConfigMapKey(config_map, key),
                _ => {
                    self.add(&at, "needs one of secret and configMap", "name the object that has the key");
                    continue;
                }
            };
            variables.push(Variable { name, value });
        }
        variables
    }

    fn mounts(&mut self, path: &str, sent: Vec<JobVolume>) -> Vec<Mount> {
        let mut mounts = Vec::new();
        for (at, volume) in sent.into_iter().enumerate() {
            let JobVolume { path: place, claim, secret, config_map, read_only, sub_path, size, in_memory } =
                volume;
            let source = match (given(claim), given(secret), given(config_map)) {
                (Some(claim), None, None) => Source::Claim { claim, read_only, sub_path: given(sub_path) },
                (None, Some(secret), None) => Source::Secret(secret),
                (None, None, Some(map)) => Source::ConfigMap(map),
                (None, None, None) => Source::Scratch { size: given(size), in_memory },
                _ => {
                    let advice = "mount each as a volume of its own";
                    self.add(
                        &format!("{path}[{at}]"),
                        "names several of claim, secret and configMap",
                        advice,
                    );
                    continue;
                }
            };
            mounts.push(Mount::new(place, source));
        }
        mounts
    }

    fn placement(&mut self, path: &str, sent: JobPlacement) -> Placement {
        let below = |field: &str| below(path, field);
        Placement {
            node_selector: sent.node_selector,
            tolerations: sent.tolerations.into_iter().map(toleration).collect(),
            affinity: self.read(&below("affinity"), &sent.affinity),
            topology_spread: self.read(&below("topologySpread"), &sent.topology_spread).unwrap_or_default(),
            scheduler: given(sent.scheduler),
        }
    }

    /// Reads a part of a pod from YAML or JSON.
    fn read<T: DeserializeOwned + Serialize>(&mut self, path: &str, text: &str) -> Option<T> {
        if text.is_empty() {
            return None;
        }
        let value = match manifest::value(text) {
            Ok(value) => value,
            Err(fault) => {
                self.add(path, format!("is not YAML: {fault}"), "send it as it would be in a pod");
                return None;
            }
        };
        match typed::<T>(value.clone()) {
            Ok(read) => {
                let written = serde_json::to_value(&read).unwrap_or_default();
                if let Some(field) = unknown(&value, &written) {
                    self.add(&below(path, &field), "is not a field of a pod", "");
                }
                Some(read)
            }
            Err(Mistyped { path: inner, fault, fix }) => {
                self.add(&below(path, &inner), fault, &fix);
                None
            }
        }
    }
}

/// A path below another one.
fn below(path: &str, inner: &str) -> String {
    let dot = if inner.is_empty() || inner.starts_with('[') { "" } else { "." };
    format!("{path}{dot}{inner}")
}

/// The path of the first field of a value that is missing from what was read of it.
fn unknown(sent: &Value, read: &Value) -> Option<String> {
    match (sent, read) {
        (Value::Object(sent), read) => {
            sent.iter().filter(|(_, field)| !field.is_null()).find_map(|(name, field)| match read.get(name) {
                Some(inner) => unknown(field, inner).map(|inner| below(name, &inner)),
                None => Some(name.clone()),
            })
        }
        (Value::Array(sent), Value::Array(read)) => {
            let mut items = sent.iter().zip(read).enumerate();
            items.find_map(|(at, (sent, read))| {
                unknown(sent, read).map(|inner| below(&format!("[{at}]"), &inner))
            })
        }
        _ => None,
    }
}

fn toleration(sent: JobToleration) -> Toleration {
    Toleration {
        key: given(sent.key),
        operator: Some(given(sent.operator).unwrap_or_else(|| "Exists".to_owned())),
        value: given(sent.value),
        effect: given(sent.effect),
        toleration_seconds: sent.toleration_seconds.map(i64::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_of_nested_values_is_reported_with_its_path() {
        let variable = |secret: &str, config_map: &str, key: &str| JobVariable {
            name: "A".to_owned(),
            secret: secret.to_owned(),
            config_map: config_map.to_owned(),
            key: key.to_owned(),
        };
        let both = JobVolume { claim: "data".into(), secret: "keys".into(), ..JobVolume::default() };
        let placement = JobPlacement {
            affinity: "{nodeAffinity: {require: 1}}".to_owned(),
            topology_spread: "[{maxSkew: many}]".to_owned(),
            ..JobPlacement::default()
        };
        let spec = JobSpec {
            transport: "telnet".to_owned(),
            mounts: vec![both],
            variables: vec![variable("", "", "k"), variable("s", "", "")],
            worker: JobPart {
                variables: vec![variable("s", "m", "k")],
                scheduling: Some(placement),
                ..JobPart::default()
            },
            ..JobSpec::default()
        };
        let paths: Vec<String> = request(spec).1.into_iter().map(|fault| fault.path).collect();
        assert_eq!(
            paths,
            [
                "transport",
                "mounts[0]",
                "variables[0]",
                "variables[1].key",
                "worker.variables[0]",
                "worker.scheduling.affinity.nodeAffinity.require",
                "worker.scheduling.topologySpread[0].maxSkew",
            ]
        );
    }

    #[test]
    fn a_field_that_is_unknown_or_mistyped_is_a_fault() {
        let fault = |fields: Value| from_fields(&fields).unwrap_err();
        assert_eq!(fault(serde_json::json!({ "worker": { "imgae": "x" } })).path, "worker.imgae");
        assert_eq!(fault(serde_json::json!({ "slots": "two" })).path, "slots");
    }

    #[test]
    fn parts_of_a_pod_are_read_from_yaml_and_json() {
        let spread = r#"[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]"#;
        let placement = JobPlacement {
            affinity: "nodeAffinity:\n  preferredDuringSchedulingIgnoredDuringExecution: []\n".to_owned(),
            topology_spread: spread.to_owned(),
            ..JobPlacement::default()
        };
        let spec = JobSpec { scheduling: placement, ..JobSpec::default() };
        let (request, faults) = request(spec);
        assert_eq!(faults, []);
        assert!(request.scheduling.affinity.is_some_and(|affinity| affinity.node_affinity.is_some()));
        assert_eq!(request.scheduling.topology_spread[0].topology_key, "zone");
    }
}
