//! A request as Python code for the SDK, `openshift_ai.training`.
//!
//! The arguments of `MPIJobSpec` have the names of the fields of a [`Request`].

use std::fmt::Write;

use semantics::NVIDIA_GPU;
use serde_json::{Map, Value, json};

use crate::build::{Mpi, Request};

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
    put("slots", request.slots.map(Value::from));
    let mpi = (request.mpi != Mpi::OpenMpi).then(|| request.mpi.name().into());
    put("mpi", mpi);
    put("env", map(&mut request.env.iter().map(|(name, value)| (name, value))));
    put("volumes", map(&mut request.volumes.iter().map(|(claim, path)| (claim, path))));
    put("labels", map(&mut request.labels.iter()));
    put("annotations", map(&mut request.annotations.iter()));
    put("queue", request.queue.as_deref().map(Value::from));
    put("priority", request.priority.as_deref().map(Value::from));
    put("clean_pod_policy", request.clean_pod_policy.as_deref().map(Value::from));
    put("deadline_seconds", request.deadline_seconds.map(Value::from));
    put("retries", request.retries.map(Value::from));
    put("suspend", request.suspend.then(|| true.into()));
    format!(
        "from openshift_ai.training import MPIJobClient, MPIJobSpec, WorkerSpec\n\nclient = MPIJobClient()\njob = client.create_mpijob(MPIJobSpec(\n{arguments}    worker_spec=WorkerSpec({}),\n))\n",
        worker(request)
    )
}

fn worker(request: &Request) -> String {
    let mut limits = Map::new();
    let mut put =
        |name: &str, value: Option<Value>| limits.extend(value.map(|value| (name.to_owned(), value)));
    put("cpu", request.cpu.as_deref().map(Value::from));
    put("memory", request.memory.as_deref().map(Value::from));
    put(NVIDIA_GPU, request.gpus.filter(|gpus| *gpus > 0).map(Value::from));
    match limits.is_empty() {
        true => format!("replicas={}", request.workers),
        false => format!("replicas={}, resources={}", request.workers, literal(&json!({ "limits": limits }))),
    }
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
            suspend: true,
            ..Request::default()
        };
        assert_eq!(
            python(&request),
            r#"from openshift_ai.training import MPIJobClient, MPIJobSpec, WorkerSpec

client = MPIJobClient()
job = client.create_mpijob(MPIJobSpec(
    name="pi",
    namespace="team",
    image="img",
    command=["python", "say \"hi\""],
    env={"LR": "0.1"},
    suspend=True,
    worker_spec=WorkerSpec(replicas=4, resources={"limits": {"memory": "16Gi", "nvidia.com/gpu": 2}}),
))
"#
        );
    }
}
