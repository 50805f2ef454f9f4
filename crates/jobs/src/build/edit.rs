//! Changes a manifest so that it says what a request says, and leaves all that no request can say as it is.
//!
//! The manifest's own request is built, and so is the new one; what is different between these two jobs is changed in
//! the manifest. Lists of named items are compared by name, as strategic merge patches do
//! (`k8s.io/apimachinery/pkg/util/strategicpatch`); others are replaced whole.

use api::{LAUNCHER, WORKER};
use serde_json::{Map, Value};

use super::{Mount, Request, manifest, read, replicas};
use crate::Kind;

/// The fields that identify the items of a list; the first one that all items have is used.
const KEYS: [&str; 3] = ["mountPath", "name", "manager"];

/// Returns the manifest with what the request changes in it. A manifest that cannot be read is replaced.
pub fn edit(mut written: Value, request: &Request) -> Value {
    let Some(before) = read(request.kind, &written) else { return manifest(request) };
    // The namespace is none of a request's fields.
    let after = Request { namespace: before.namespace.clone(), ..request.clone() };
    let after = with_names(after, &before);
    let (mut from, mut to) = (manifest(&before), manifest(&after));
    for job in [&mut from, &mut to] {
        alike(job, &written, request.kind);
    }
    change(&mut written, &from, &to);
    written
}

/// Gives volumes that were there before their names, and new ones names that are free.
fn with_names(mut request: Request, before: &Request) -> Request {
    let lists = |request: &Request| {
        [&request.volumes, &request.worker.volumes, &request.launcher.volumes].map(Clone::clone).concat()
    };
    let mut known = lists(before);
    let used: Vec<Option<String>> = known.iter().map(|mount| mount.volume.clone()).collect();
    let mut free = (0..).map(|number| Some(format!("data-{number}"))).filter(|name| !used.contains(name));
    let is_same = |a: &Mount, b: &Mount| (&a.path, &a.source) == (&b.path, &b.source);
    let all = [&mut request.volumes, &mut request.worker.volumes, &mut request.launcher.volumes];
    for mount in all.into_iter().flatten() {
        let at = known.iter().position(|known| is_same(known, mount));
        mount.volume = match at {
            Some(at) => known.remove(at).volume,
            None => free.next().flatten(),
        };
    }
    request
}

/// Gives a built job the roles and the names of containers of the manifest.
fn alike(job: &mut Value, written: &Value, kind: Kind) {
    let specs = match kind {
        Kind::MpiJob => "mpiReplicaSpecs",
        Kind::TrainJob => return,
        Kind::PyTorchJob | Kind::TfJob => replicas::specs(kind),
    };
    let first = replicas::first_role(kind);
    let place = |role: &str| format!("/spec/{specs}/{role}");
    if kind != Kind::MpiJob && written.pointer(&place(first)).is_some() {
        // The first role has the Workers' template.
        let mut copy = job.pointer(&place(WORKER)).cloned().unwrap_or_default();
        copy["replicas"] = Value::from(1);
        job["spec"][specs][first] = copy;
    }
    for role in [LAUNCHER, WORKER, first] {
        let name = format!("{}/template/spec/containers/0/name", place(role));
        if let (Some(own), Some(theirs)) = (job.pointer_mut(&name), written.pointer(&name)) {
            *own = theirs.clone();
        }
    }
}

/// Changes in `value` what is different between `from` and `to`.
fn change(value: &mut Value, from: &Value, to: &Value) {
    if from == to {
        return;
    }
    match (&mut *value, from, to) {
        (Value::Object(fields), Value::Object(from), Value::Object(to)) => change_fields(fields, from, to),
        (Value::Array(items), Value::Array(from), Value::Array(to)) => match key_of(items, from, to) {
            Some(key) => change_items(items, from, to, key),
            None => *items = to.clone(),
        },
        _ => *value = to.clone(),
    }
}

fn change_fields(fields: &mut Map<String, Value>, from: &Map<String, Value>, to: &Map<String, Value>) {
    for (name, wanted) in to {
        let known = from.get(name).unwrap_or(&Value::Null);
        match fields.get_mut(name).filter(|field| !field.is_null()) {
            Some(field) => change(field, known, wanted),
            None if known != wanted => {
                fields.insert(name.clone(), wanted.clone());
            }
            None => {}
        }
    }
    for (name, known) in from.iter().filter(|(name, _)| !to.contains_key(*name)) {
        let is_empty = match (fields.get_mut(name), known) {
            // What nobody built stays, e.g. a label of the person's own beside the last one of the form.
            (Some(field @ (Value::Object(_) | Value::Array(_))), known) => {
                let nothing = if known.is_array() { Value::Array(vec![]) } else { Value::Object(Map::new()) };
                change(field, known, &nothing);
                field.as_object().is_none_or(Map::is_empty) && field.as_array().is_none_or(Vec::is_empty)
            }
            (Some(_), _) => true,
            (None, _) => false,
        };
        if is_empty {
            fields.remove(name);
        }
    }
}

/// The field that all items have.
fn key_of(items: &[Value], from: &[Value], to: &[Value]) -> Option<&'static str> {
    let all = || items.iter().chain(from).chain(to);
    KEYS.into_iter().find(|key| all().all(|item| item.get(key).is_some_and(Value::is_string)))
}

fn change_items(items: &mut Vec<Value>, from: &[Value], to: &[Value], key: &str) {
    let find = |list: &[Value], item: &Value| list.iter().position(|other| other[key] == item[key]);
    items.retain(|item| find(from, item).is_none() || find(to, item).is_some());
    for wanted in to {
        let known = find(from, wanted).and_then(|at| from.get(at)).unwrap_or(&Value::Null);
        match find(items, wanted).and_then(|at| items.get_mut(at)) {
            Some(item) => change(item, known, wanted),
            None if known != wanted => items.push(wanted.clone()),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::build::{Variable, blank};

    fn request() -> Request {
        Request {
            name: "pi".to_owned(),
            image: "img:1".to_owned(),
            command: ["python", "/train.py"].map(str::to_owned).to_vec(),
            env: vec![Variable::from(("A".to_owned(), "1".to_owned()))],
            volumes: vec![Mount::claim("data", "/data")],
            ..blank(Kind::MpiJob)
        }
    }

    /// A person's manifest: other names, a second container, a field that no request has.
    fn written() -> Value {
        let mut job = manifest(&request());
        for role in [LAUNCHER, WORKER] {
            let pod = &mut job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"];
            pod["containers"][0]["name"] = json!("mine");
            pod["containers"][0]["volumeMounts"][0]["name"] = json!("training-data");
            pod["volumes"][0]["name"] = json!("training-data");
            pod["hostNetwork"] = json!(true);
        }
        let sidecar = json!({ "name": "sidecar", "image": "sidecar:1" });
        let worker = &mut job["spec"]["mpiReplicaSpecs"][WORKER]["template"]["spec"];
        worker["containers"].as_array_mut().unwrap().push(sidecar);
        job
    }

    #[test]
    fn what_a_request_does_not_change_stays_as_it_is() {
        let same = read(Kind::MpiJob, &written()).unwrap();
        assert_eq!(edit(written(), &same), written());
        assert_eq!(same.command, ["python", "/train.py"]);
    }

    #[test]
    fn a_change_reaches_every_place_and_nothing_else() {
        let request = Request {
            image: "img:2".to_owned(),
            workers: 3,
            env: vec![
                Variable::from(("A".to_owned(), "2".to_owned())),
                Variable::from(("B".to_owned(), "x".to_owned())),
            ],
            volumes: vec![Mount::claim("data", "/data"), Mount::claim("models", "/models")],
            gpus: Some(2),
            ..read(Kind::MpiJob, &written()).unwrap()
        };
        let job = edit(written(), &request);
        assert_eq!(job["spec"]["slotsPerWorker"], 2);
        let worker = &job["spec"]["mpiReplicaSpecs"][WORKER];
        assert_eq!(worker["replicas"], 3);
        assert_eq!(worker["template"]["spec"]["hostNetwork"], true);
        let containers = worker["template"]["spec"]["containers"].as_array().unwrap();
        assert_eq!(containers.len(), 2, "{worker}");
        assert_eq!((&containers[0]["name"], &containers[0]["image"]), (&json!("mine"), &json!("img:2")));
        let names: Vec<&Value> =
            containers[0]["volumeMounts"].as_array().unwrap().iter().map(|mount| &mount["name"]).collect();
        assert_eq!(names, ["training-data", "data-0"]);
        let launcher = &job["spec"]["mpiReplicaSpecs"][LAUNCHER]["template"]["spec"]["containers"][0];
        assert_eq!(
            launcher["command"],
            json!(["mpirun", "--tag-output", "-x", "A", "-x", "B", "python", "/train.py"])
        );
        assert_eq!(read(Kind::MpiJob, &job).map(|read| read.env), Some(request.env));
    }

    #[test]
    fn what_is_taken_out_of_a_request_is_taken_out_of_the_manifest() {
        let mut own = written();
        own["metadata"]["labels"] = json!({ "team": "vision" });
        own["metadata"]["namespace"] = json!("team");
        let before = read(Kind::MpiJob, &own).unwrap();
        let request = Request { env: vec![], volumes: vec![], labels: [].into(), namespace: None, ..before };
        let job = edit(own, &request);
        assert_eq!(job["metadata"]["namespace"], "team");
        assert!(job["metadata"].get("labels").is_none(), "{job}");
        let worker = &job["spec"]["mpiReplicaSpecs"][WORKER]["template"]["spec"];
        assert!(worker.get("volumes").is_none() && worker["containers"][0].get("env").is_none(), "{worker}");
        assert_eq!(worker["containers"][1]["name"], "sidecar");
    }

    #[test]
    fn the_first_role_of_a_pytorchjob_changes_with_its_workers() {
        let request = Request { image: "img:1".to_owned(), ..blank(Kind::PyTorchJob) };
        let mut job = manifest(&request);
        let mut first = job["spec"]["pytorchReplicaSpecs"][WORKER].clone();
        first["replicas"] = json!(1);
        job["spec"]["pytorchReplicaSpecs"]["Master"] = first;
        let job = edit(job, &Request { image: "img:2".to_owned(), ..request });
        for role in ["Master", WORKER] {
            let pod = &job["spec"]["pytorchReplicaSpecs"][role]["template"]["spec"];
            assert_eq!(pod["containers"][0]["image"], "img:2");
        }
        assert_eq!(job["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"], 1);
    }
}
