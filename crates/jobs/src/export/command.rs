//! A request as the words of the command that creates the job.
//!
//! The words are those of the command line's `create`, whose tests parse them again.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::Toleration;
use serde_json::Value;

use crate::build::{Mount, Mpi, Placement, Request, Source, VariableValue, to_fields, transport_name};

/// Returns the words of the command, the program first.
pub fn command(request: &Request) -> Vec<String> {
    let mut words: Vec<String> =
        ["odh", "training", "create", "mpijob", &request.name].map(str::to_owned).to_vec();
    let mut put = |flag: &str, value: Option<String>| match value {
        // A value that looks like a flag has to be joined with its own.
        Some(value) if value.starts_with('-') => words.push(format!("{flag}={value}")),
        Some(value) => words.extend([flag.to_owned(), value]),
        None => {}
    };
    put("--namespace", request.namespace.clone());
    put("--workers", Some(request.workers.to_string()));
    put("--image", Some(request.image.clone()));
    put("--workdir", request.workdir.clone());
    put("--gpus", request.gpus.map(|gpus| gpus.to_string()));
    put("--cpu", request.cpu.clone());
    put("--memory", request.memory.clone());
    put("--slots", request.slots.map(|slots| slots.to_string()));
    let mpi = match request.mpi {
        Mpi::OpenMpi => None,
        Mpi::Intel => Some("intel"),
        Mpi::Mpich => Some("mpich"),
    };
    put("--mpi", mpi.map(str::to_owned));
    put("--transport", request.transport.map(|transport| transport_name(transport).to_owned()));
    for variable in &request.env {
        let (flag, value) = match &variable.value {
            VariableValue::Text(text) => ("--env", text.clone()),
            VariableValue::SecretKey(secret, key) => ("--env-secret", format!("{secret}:{key}")),
            VariableValue::ConfigMapKey(map, key) => ("--env-config-map", format!("{map}:{key}")),
        };
        put(flag, Some(format!("{}={value}", variable.name)));
    }
    let claims = request.volumes.iter().map_while(plain_claim);
    let plain = claims.clone().count();
    for claim in claims {
        put("--pvc", Some(claim));
    }
    for volume in request.volumes.iter().skip(plain) {
        put("--mount", Some(mount(volume)));
    }
    for (resource, amount) in &request.worker.limits {
        put("--limit", Some(format!("{resource}={amount}")));
    }
    let rest = without_flags(request);
    if rest.iter().all(|(field, _)| field != "scheduling") {
        for (name, value) in &request.scheduling.node_selector {
            put("--node-selector", Some(format!("{name}={value}")));
        }
        for taint in &request.scheduling.tolerations {
            put("--toleration", Some(toleration(taint)));
        }
    }
    for (field, value) in rest {
        put("--set", Some(format!("{field}={value}")));
    }
    for (flag, pairs) in [("--label", &request.labels), ("--annotation", &request.annotations)] {
        for (name, value) in pairs {
            put(flag, Some(format!("{name}={value}")));
        }
    }
    put("--queue", request.queue.clone());
    put("--priority", request.priority.clone());
    put("--launcher-cpu", request.launcher_cpu.clone());
    put("--launcher-memory", request.launcher_memory.clone());
    put("--ttl", request.ttl_seconds.map(|seconds| seconds.to_string()));
    put("--clean-pods", request.clean_pod_policy.clone());
    put("--deadline", request.deadline_seconds.map(|seconds| format!("{seconds}s")));
    put("--retries", request.retries.map(|retries| retries.to_string()));
    let switches = [
        ("--untagged", request.untagged),
        ("--restricted", request.restricted),
        ("--suspend", request.suspend),
        ("--in-launcher", request.in_launcher),
    ];
    for (flag, given) in switches {
        words.extend(given.then(|| flag.to_owned()));
    }
    words.push("--".to_owned());
    words.extend(request.command.iter().cloned());
    words
}

/// The fields for which there is no flag but `--set`, as JSON.
fn without_flags(request: &Request) -> Vec<(String, Value)> {
    let fields = to_fields(request);
    let mut found = Vec::new();
    for (part, own) in [("worker", &["limits"][..]), ("launcher", &[][..])] {
        for (field, value) in fields.get(part).and_then(Value::as_object).into_iter().flatten() {
            let mut value = value.clone();
            if part == "launcher"
                && field == "limits"
                && let Some(limits) = value.as_object_mut()
            {
                limits.retain(|resource, _| request.launcher.limits.contains_key(resource));
                if limits.is_empty() {
                    continue;
                }
            }
            if !own.contains(&field.as_str()) {
                found.push((format!("{part}.{field}"), value));
            }
        }
    }
    let has_flags = |taint: &Toleration| taint.toleration_seconds.is_none();
    let Placement { tolerations, affinity, topology_spread, scheduler, .. } = &request.scheduling;
    let plain = affinity.is_none() && topology_spread.is_empty() && scheduler.is_none();
    let whole = [
        ("scheduling", !plain || !tolerations.iter().all(has_flags)),
        ("failures", true),
        ("minAvailable", true),
    ];
    for (field, _) in whole.into_iter().filter(|(_, needed)| *needed) {
        found.extend(fields.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    found
}

/// A claim that needs nothing but its path.
fn plain_claim(Mount { path, source, .. }: &Mount) -> Option<String> {
    match source {
        Source::Claim { claim, read_only: false, sub_path: None } => Some(format!("{claim}:{path}")),
        _ => None,
    }
}

/// A volume as the command line has it: `pvc/data/run:/data:ro`, `secret/keys:/keys`, `memory/1Gi:/dev/shm`.
fn mount(Mount { path, source, .. }: &Mount) -> String {
    let below = |name: &Option<String>| name.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
    match source {
        Source::Claim { claim, read_only, sub_path } => {
            format!("pvc/{claim}{}:{path}{}", below(sub_path), if *read_only { ":ro" } else { "" })
        }
        Source::Secret(name) => format!("secret/{name}:{path}"),
        Source::ConfigMap(name) => format!("configmap/{name}:{path}"),
        Source::Scratch { size, in_memory: true } => format!("memory{}:{path}", below(size)),
        Source::Scratch { size, in_memory: false } => format!("scratch{}:{path}", below(size)),
    }
}

/// A toleration as the command line has it: `gpu`, `gpu=a100:NoSchedule`.
fn toleration(taint: &Toleration) -> String {
    let value = taint.value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
    let effect = taint.effect.as_ref().map(|effect| format!(":{effect}")).unwrap_or_default();
    format!("{}{value}{effect}", taint.key.as_deref().unwrap_or_default())
}

/// Joins words to a line that a POSIX shell splits into the same words.
pub fn shell(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_only_what_was_requested() {
        let request = Request {
            name: "pi".to_owned(),
            workers: 4,
            image: "img".to_owned(),
            command: ["python", "it's", ""].map(str::to_owned).to_vec(),
            deadline_seconds: Some(90),
            env: vec![("-A".to_owned(), "1".to_owned()).into()],
            ..Request::default()
        };
        assert_eq!(
            shell(&command(&request)),
            r"odh training create mpijob pi --workers 4 --image img --env=-A=1 --deadline 90s -- python 'it'\''s' ''"
        );
    }
}
