//! A request as Python code for the SDK, `openshift_ai.training`.
//!
//! The arguments are those that `MPIJobSpec`, `WorkerSpec` and `LauncherSpec` of the SDK have; most have the names of the
//! fields of a [`Request`]. A test of the SDK runs a program with every one of them.

use std::fmt::Write;

use semantics::NVIDIA_GPU;
use serde_json::{Map, Value, json};

use crate::build::{Mpi, Request, transport_name};

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
    put("env", map(&mut request.env.iter().map(|(name, value)| (name, value))));
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
    let mut classes = vec!["MPIJobClient", "MPIJobSpec", "WorkerSpec"];
    if !matches!(mpi.as_slice(), [] | [(IMPLEMENTATION, _)]) {
        classes.push("MPIConfig");
        let fields: Vec<String> =
            mpi.iter().map(|(name, value)| format!("{name}={}", literal(value))).collect();
        let _ = writeln!(arguments, "    mpi=MPIConfig({}),", fields.join(", "));
    }
    if !request.volumes.is_empty() {
        classes.push("ClaimVolume");
        let _ = writeln!(arguments, "    volumes=[{}],", volumes(request));
    }
    let replicas = format!("replicas={}", request.workers);
    let worker = [Some(replicas), resources(request.cpu.as_deref(), request.memory.as_deref(), request.gpus)];
    let worker = worker.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let _ = writeln!(arguments, "    worker_spec=WorkerSpec({worker}),");
    if let Some(resources) =
        resources(request.launcher_cpu.as_deref(), request.launcher_memory.as_deref(), None)
    {
        classes.push("LauncherSpec");
        let _ = writeln!(arguments, "    launcher_spec=LauncherSpec({resources}),");
    }
    classes.sort_unstable();
    format!(
        "from openshift_ai.training import {}\n\nclient = MPIJobClient()\njob = client.create_mpijob(MPIJobSpec(\n{arguments}))\n",
        classes.join(", ")
    )
}

/// The argument that a word alone can stand for.
const IMPLEMENTATION: &str = "implementation";

/// What a request says of MPI, apart from its defaults.
fn mpi(request: &Request) -> Vec<(&'static str, Value)> {
    let fields = [
        (IMPLEMENTATION, (request.mpi != Mpi::OpenMpi).then(|| request.mpi.name().into())),
        ("launch", request.transport.map(|transport| transport_name(transport).into())),
        ("tag_output", request.untagged.then(|| false.into())),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The volumes in their order; a claim may be mounted more than once, so they are no map.
fn volumes(request: &Request) -> String {
    let volume = |(claim, path): &(String, String)| {
        format!("ClaimVolume(claim={}, path={})", Value::from(claim.as_str()), Value::from(path.as_str()))
    };
    request.volumes.iter().map(volume).collect::<Vec<_>>().join(", ")
}

/// The limits of a pod as an argument, if it has any.
fn resources(cpu: Option<&str>, memory: Option<&str>, gpus: Option<u32>) -> Option<String> {
    let amounts = [
        ("cpu", cpu.map(Value::from)),
        ("memory", memory.map(Value::from)),
        (NVIDIA_GPU, gpus.filter(|gpus| *gpus > 0).map(Value::from)),
    ];
    let limits: Map<String, Value> =
        amounts.into_iter().filter_map(|(name, amount)| Some((name.to_owned(), amount?))).collect();
    (!limits.is_empty()).then(|| format!("resources={}", literal(&json!({ "limits": limits }))))
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
            env: vec![("LR".to_owned(), "0.1".to_owned())],
            volumes: vec![("data".to_owned(), "/data".to_owned())],
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
    env={"LR": "0.1"},
    suspend=True,
    volumes=[ClaimVolume(claim="data", path="/data")],
    worker_spec=WorkerSpec(replicas=4, resources={"limits": {"memory": "16Gi", "nvidia.com/gpu": 2}}),
    launcher_spec=LauncherSpec(resources={"limits": {"cpu": "500m"}}),
))
"#
        );
    }
}
