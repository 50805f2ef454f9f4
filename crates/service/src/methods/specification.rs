//! The request that a specification of the contract makes, and what is wrong with values that a request
//! cannot have.

use std::collections::BTreeMap;

use jobs::Fault;
use jobs::build::{Failures, Launch, Mount, Mpi, Part, Placement, Request, Source, Variable, VariableValue};
use jobs::mistyped::{Mistyped, typed};
use k8s_openapi::api::core::v1::Toleration;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::contract::{JobFailures, JobPart, JobPlacement, JobSpec, JobToleration, JobVariable, JobVolume};

/// Reads a specification.
pub fn request(namespace: &str, spec: JobSpec) -> (Request, Vec<Fault>) {
    let mut faults = Faults::default();
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
        name: spec.name,
        namespace: Some(namespace.to_owned()),
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
        scheduling: faults.placement("scheduling", spec.scheduling.unwrap_or_default()),
        min_available: spec.min_available,
        failures: failures(spec.failures.unwrap_or_default()),
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

    fn part(&mut self, path: &str, sent: Option<JobPart>) -> Part {
        let Some(sent) = sent else { return Part::default() };
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
            mounts.push(Mount { path: place, source });
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
        let value: Value = match serde_saphyr::from_str(text) {
            Ok(value) => value,
            Err(error) => {
                let first = error.to_string().lines().next().unwrap_or_default().to_owned();
                self.add(path, format!("is not YAML: {first}"), "send it as it would be in a pod");
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
            worker: Some(JobPart {
                variables: vec![variable("s", "m", "k")],
                scheduling: Some(placement),
                ..JobPart::default()
            }),
            ..JobSpec::default()
        };
        let paths: Vec<String> = request("team", spec).1.into_iter().map(|fault| fault.path).collect();
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
    fn parts_of_a_pod_are_read_from_yaml_and_json() {
        let spread = r#"[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]"#;
        let placement = JobPlacement {
            affinity: "nodeAffinity:\n  preferredDuringSchedulingIgnoredDuringExecution: []\n".to_owned(),
            topology_spread: spread.to_owned(),
            ..JobPlacement::default()
        };
        let spec = JobSpec { scheduling: Some(placement), ..JobSpec::default() };
        let (request, faults) = request("team", spec);
        assert_eq!(faults, []);
        assert!(request.scheduling.affinity.is_some_and(|affinity| affinity.node_affinity.is_some()));
        assert_eq!(request.scheduling.topology_spread[0].topology_key, "zone");
    }
}
