//! A request as Python code for the SDK, `openshift_ai.training`.
//!
//! The arguments are those that `MPIJobSpec`, `WorkerSpec` and `LauncherSpec` of the SDK have; most have the names of the
//! fields of a [`Request`]. A test of the SDK runs a program with every one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use k8s_openapi::api::core::v1::Toleration;
use semantics::NVIDIA_GPU;
use serde_json::{Map, Value, json};

use crate::build::{
    Failures, Mount, Mpi, Part, Placement, Request, Source, Variable, VariableValue, transport_name,
};

/// Returns the program that creates the job.
pub fn python(request: &Request) -> String {
    let mut arguments = String::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = writeln!(arguments, "    {name}={},", literal(&value));
        }
    };
    let map = |pairs: &mut dyn Iterator<Item = (&String, &String)>| {
        let map: Map<String, Value> =
            pairs.map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        (!map.is_empty()).then_some(Value::Object(map))
    };
    put("name", Some(request.name.as_str().into()));
    put("namespace", request.namespace.as_deref().map(Value::from));
    put("image", Some(request.image.as_str().into()));
    put("command", Some(json!(request.command)));
    put("in_launcher", request.in_launcher.then(|| true.into()));
    put("workdir", request.workdir.as_deref().map(Value::from));
    put("slots", request.slots.map(Value::from));
    let mpi = mpi(request);
    if let [(IMPLEMENTATION, name)] = mpi.as_slice() {
        put("mpi", Some(name.clone()));
    }
    put("labels", map(&mut request.labels.iter()));
    put("annotations", map(&mut request.annotations.iter()));
    put("queue", request.queue.as_deref().map(Value::from));
    put("priority", request.priority.as_deref().map(Value::from));
    put("ttl_seconds", request.ttl_seconds.map(Value::from));
    put("clean_pod_policy", request.clean_pod_policy.as_deref().map(Value::from));
    put("deadline_seconds", request.deadline_seconds.map(Value::from));
    put("retries", request.retries.map(Value::from));
    put("suspend", request.suspend.then(|| true.into()));
    put("restricted", request.restricted.then(|| true.into()));
    let mut classes = BTreeSet::from(["MPIJobClient", "MPIJobSpec", "WorkerSpec"]);
    if !request.env.is_empty() {
        let _ = writeln!(arguments, "    env={},", environment(&request.env, &mut classes));
    }
    if !matches!(mpi.as_slice(), [] | [(IMPLEMENTATION, _)]) {
        classes.insert("MPIConfig");
        let fields: Vec<String> =
            mpi.iter().map(|(name, value)| format!("{name}={}", literal(value))).collect();
        let _ = writeln!(arguments, "    mpi=MPIConfig({}),", fields.join(", "));
    }
    if !request.volumes.is_empty() {
        let volumes: Vec<String> = request.volumes.iter().map(|mount| volume(mount, &mut classes)).collect();
        let _ = writeln!(arguments, "    volumes=[{}],", volumes.join(", "));
    }
    if let Some(scheduling) = scheduling(&request.scheduling, request.min_available, &mut classes) {
        let _ = writeln!(arguments, "    scheduling={scheduling},");
    }
    if let Some(failures) = failures(&request.failures, &mut classes) {
        let _ = writeln!(arguments, "    failures={failures},");
    }
    let replicas = format!("replicas={}", request.workers);
    let limits = amounts(request.cpu.as_deref(), request.memory.as_deref(), request.gpus);
    let worker: Vec<String> =
        [replicas].into_iter().chain(part(&request.worker, limits, &mut classes)).collect();
    let _ = writeln!(arguments, "    worker_spec=WorkerSpec({}),", worker.join(", "));
    let limits = amounts(request.launcher_cpu.as_deref(), request.launcher_memory.as_deref(), None);
    let launcher = part(&request.launcher, limits, &mut classes);
    if !launcher.is_empty() {
        classes.insert("LauncherSpec");
        let _ = writeln!(arguments, "    launcher_spec=LauncherSpec({}),", launcher.join(", "));
    }
    format!(
        "from openshift_ai.training import {}\n\nclient = MPIJobClient()\njob = client.create_mpijob(MPIJobSpec(\n{arguments}))\n",
        classes.into_iter().collect::<Vec<_>>().join(", ")
    )
}

/// The argument that a word alone can stand for.
const IMPLEMENTATION: &str = "implementation";

/// The MPI settings of a request, without its defaults.
fn mpi(request: &Request) -> Vec<(&'static str, Value)> {
    let fields = [
        (IMPLEMENTATION, (request.mpi != Mpi::OpenMpi).then(|| request.mpi.name().into())),
        ("launch", request.transport.map(|transport| transport_name(transport).into())),
        ("tag_output", request.untagged.then(|| false.into())),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// A call of a class of the SDK, which has to be imported.
fn call(
    class: &'static str,
    fields: &[(&str, Option<Value>)],
    classes: &mut BTreeSet<&'static str>,
) -> String {
    classes.insert(class);
    let given = fields.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let given: Vec<String> = given.map(|(name, value)| format!("{name}={}", literal(value))).collect();
    format!("{class}({})", given.join(", "))
}

fn environment(env: &[Variable], classes: &mut BTreeSet<&'static str>) -> String {
    let text = |text: &str| Some(Value::from(text));
    let mut pair = |variable: &Variable| {
        let value = match &variable.value {
            VariableValue::Text(value) => literal(&value.as_str().into()),
            VariableValue::SecretKey(secret, key) => {
                call("SecretKey", &[("secret", text(secret)), ("key", text(key))], classes)
            }
            VariableValue::ConfigMapKey(map, key) => {
                call("ConfigMapKey", &[("config_map", text(map)), ("key", text(key))], classes)
            }
        };
        format!("{}: {value}", Value::from(variable.name.as_str()))
    };
    format!("{{{}}}", env.iter().map(&mut pair).collect::<Vec<_>>().join(", "))
}

/// A volume; a claim may be mounted more than once, so volumes are no map.
fn volume(Mount { path, source, .. }: &Mount, classes: &mut BTreeSet<&'static str>) -> String {
    let text = |text: &str| Some(Value::from(text));
    let flag = |given: bool| given.then(|| true.into());
    let path = ("path", text(path));
    match source {
        Source::Claim { claim, read_only, sub_path } => {
            let sub_path = ("sub_path", sub_path.as_deref().and_then(text));
            call(
                "ClaimVolume",
                &[("claim", text(claim)), path, ("read_only", flag(*read_only)), sub_path],
                classes,
            )
        }
        Source::Secret(name) => call("SecretVolume", &[("secret", text(name)), path], classes),
        Source::ConfigMap(name) => call("ConfigMapVolume", &[("config_map", text(name)), path], classes),
        Source::Scratch { size, in_memory } => {
            let size = ("size", size.as_deref().and_then(text));
            call("ScratchVolume", &[path, size, ("in_memory", flag(*in_memory))], classes)
        }
    }
}

/// The arguments of one role, with the limits that the request has fields of its own for.
fn part(part: &Part, limits: Vec<(String, Value)>, classes: &mut BTreeSet<&'static str>) -> Vec<String> {
    let named = |name: &str, value: Option<Value>| value.map(|value| format!("{name}={}", literal(&value)));
    let map = |map: &BTreeMap<String, String>| (!map.is_empty()).then(|| json!(map));
    let others = part.limits.iter().map(|(name, amount)| (name.clone(), amount.as_str().into()));
    let env = (!part.env.is_empty()).then(|| format!("env={}", environment(&part.env, classes)));
    let volumes: Vec<String> = part.volumes.iter().map(|mount| volume(mount, classes)).collect();
    let placed = part.scheduling.as_ref().map(|placed| {
        // Even an empty one replaces the job's.
        let call = scheduling(placed, None, classes).unwrap_or_else(|| "Scheduling()".to_owned());
        classes.insert("Scheduling");
        format!("scheduling={call}")
    });
    let all = [
        named("image", part.image.as_deref().map(Value::from)),
        resources(limits.into_iter().chain(others).collect(), &part.requests),
        env,
        (!volumes.is_empty()).then(|| format!("volumes=[{}]", volumes.join(", "))),
        placed,
        named("labels", map(&part.labels)),
        named("annotations", map(&part.annotations)),
        named("restart_policy", part.restart_policy.as_deref().map(Value::from)),
    ];
    all.into_iter().flatten().collect()
}

fn failures(failures: &Failures, classes: &mut BTreeSet<&'static str>) -> Option<String> {
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    let fields = [
        ("worker_failure", text(&failures.worker_failure)),
        ("max_gang_restarts", failures.max_gang_restarts.map(Value::from)),
        ("start_timeout", text(&failures.start_timeout)),
        ("stall_timeout", text(&failures.stall_timeout)),
    ];
    (*failures != Failures::default()).then(|| call("FailurePolicy", &fields, classes))
}

fn scheduling(
    placement: &Placement,
    min_available: Option<i32>,
    classes: &mut BTreeSet<&'static str>,
) -> Option<String> {
    if *placement == Placement::default() && min_available.is_none() {
        return None;
    }
    classes.insert("Scheduling");
    let mut fields = Vec::new();
    if !placement.node_selector.is_empty() {
        fields.push(format!("node_selector={}", literal(&json!(placement.node_selector))));
    }
    if !placement.tolerations.is_empty() {
        let tolerations: Vec<String> =
            placement.tolerations.iter().map(|taint| toleration(taint, classes)).collect();
        fields.push(format!("tolerations=[{}]", tolerations.join(", ")));
    }
    let others = [
        ("affinity", placement.affinity.as_ref().map(|affinity| json!(affinity))),
        (
            "topology_spread",
            Some(&placement.topology_spread).filter(|all| !all.is_empty()).map(|all| json!(all)),
        ),
        ("scheduler", placement.scheduler.as_deref().map(Value::from)),
        ("min_available", min_available.map(Value::from)),
    ];
    fields
        .extend(others.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", literal(&value?)))));
    Some(format!("Scheduling({})", fields.join(", ")))
}

fn toleration(taint: &Toleration, classes: &mut BTreeSet<&'static str>) -> String {
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    // Here the operator that a taint without a value needs is the default.
    let operator =
        Some(taint.operator.as_deref().unwrap_or("Equal")).filter(|operator| *operator != "Exists");
    let fields = [
        ("key", text(&taint.key)),
        ("operator", operator.map(Value::from)),
        ("value", text(&taint.value)),
        ("effect", text(&taint.effect)),
        ("toleration_seconds", taint.toleration_seconds.map(Value::from)),
    ];
    call("Toleration", &fields, classes)
}

fn amounts(cpu: Option<&str>, memory: Option<&str>, gpus: Option<u32>) -> Vec<(String, Value)> {
    let amounts = [
        ("cpu", cpu.map(Value::from)),
        ("memory", memory.map(Value::from)),
        (NVIDIA_GPU, gpus.filter(|gpus| *gpus > 0).map(Value::from)),
    ];
    amounts.into_iter().filter_map(|(name, amount)| Some((name.to_owned(), amount?))).collect()
}

/// The resources of a pod as an argument, if it has any.
fn resources(limits: Vec<(String, Value)>, requests: &BTreeMap<String, String>) -> Option<String> {
    let limits: Map<String, Value> = limits.into_iter().collect();
    let mut all = Map::new();
    if !requests.is_empty() {
        all.insert("requests".to_owned(), json!(requests));
    }
    if !limits.is_empty() {
        all.insert("limits".to_owned(), Value::Object(limits));
    }
    (!all.is_empty()).then(|| format!("resources={}", literal(&Value::Object(all))))
}

/// A value as a Python literal.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        // A string in JSON is one in Python.
        Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(literal).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, field)| format!("{}: {}", Value::from(name.as_str()), literal(field)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_python() {
        let request = Request {
            name: "pi".to_owned(),
            namespace: Some("team".to_owned()),
            workers: 4,
            image: "img".to_owned(),
            command: ["python", "say \"hi\""].map(str::to_owned).to_vec(),
            gpus: Some(2),
            memory: Some("16Gi".to_owned()),
            env: vec![("LR".to_owned(), "0.1".to_owned()).into()],
            volumes: vec![Mount::claim("data", "/data")],
            workdir: Some("/work".to_owned()),
            launcher_cpu: Some("500m".to_owned()),
            suspend: true,
            ..Request::default()
        };
        assert_eq!(
            python(&request),
            r#"from openshift_ai.training import ClaimVolume, LauncherSpec, MPIJobClient, MPIJobSpec, WorkerSpec

client = MPIJobClient()
job = client.create_mpijob(MPIJobSpec(
    name="pi",
    namespace="team",
    image="img",
    command=["python", "say \"hi\""],
    workdir="/work",
    suspend=True,
    env={"LR": "0.1"},
    volumes=[ClaimVolume(claim="data", path="/data")],
    worker_spec=WorkerSpec(replicas=4, resources={"limits": {"memory": "16Gi", "nvidia.com/gpu": 2}}),
    launcher_spec=LauncherSpec(resources={"limits": {"cpu": "500m"}}),
))
"#
        );
    }
}
