//! One change to a job's manifest, in terms of model training: `worker.memory=32Gi`, `image=…`, `env.LR=0.1`, or any
//! field by its path: `spec.runPolicy.backoffLimit=3`.
//!
//! The input is a manifest and a [`Setting`]. The output is the changed manifest, or a fault that lists what can be
//! set. Pure. Whether the result is a valid job is checked by the same rules as for a manifest written by hand.

use semantics::NVIDIA_GPU;
use serde_json::{Map, Value, json};

use crate::kind::LABEL_QUEUE;
use crate::manifest::{Step, nearest, steps};
use crate::{Error, Fault, Kind};

/// The settings of a role.
const OF_A_ROLE: [&str; 6] = ["memory", "cpu", "gpus", "image", "replicas", "command"];
/// The settings of a job.
const OF_A_JOB: [&str; 9] =
    ["image", "workers", "slots", "queue", "priority", "mpi", "suspend", "retries", "deadline"];

/// A path and what to write there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The path as written.
    pub path: String,
    /// The value as written.
    pub value: String,
}

impl Setting {
    /// Parses `path=value`.
    ///
    /// # Errors
    /// A sentence with the expected syntax.
    pub fn read(text: &str) -> Result<Setting, String> {
        match text.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() => {
                Ok(Setting { path: path.trim().to_owned(), value: value.to_owned() })
            }
            _ => Err("expected PATH=VALUE, e.g. worker.memory=32Gi".to_owned()),
        }
    }
}

/// Applies every setting to the manifest.
///
/// # Errors
/// [`Error::Invalid`] with each setting whose path cannot be set.
pub fn set(mut manifest: Value, kind: Kind, settings: &[Setting]) -> Result<Value, Error> {
    let faults = apply(&mut manifest, kind, settings);
    if faults.is_empty() { Ok(manifest) } else { Err(Error::Invalid { faults }) }
}

/// Applies the settings that fit to the manifest, and returns a fault for each of the others.
pub(crate) fn apply(manifest: &mut Value, kind: Kind, settings: &[Setting]) -> Vec<Fault> {
    settings
        .iter()
        .filter_map(|setting| one(manifest, kind, setting).err().map(|fault| (setting, fault)))
        .map(|(setting, (message, advice))| Fault {
            source: String::new(),
            position: None,
            path: setting.path.clone(),
            message,
            advice: Some(advice),
        })
        .collect()
}

type Wrong = (String, String);

fn one(manifest: &mut Value, kind: Kind, setting: &Setting) -> Result<(), Wrong> {
    let Setting { path, value } = setting;
    if path == "spec" || path.starts_with("spec.") || path.starts_with("metadata.") {
        return raw(manifest, path, value);
    }
    if let Some(name) = path.strip_prefix("env.") {
        return containers(manifest, kind, None)?.into_iter().try_for_each(|at| variable(at, name, value));
    }
    match path.split_once('.') {
        Some((role, what)) => of_role(manifest, kind, role, what, value),
        None => of_job(manifest, kind, path, value),
    }
}

fn of_job(manifest: &mut Value, kind: Kind, what: &str, value: &str) -> Result<(), Wrong> {
    let number = || whole(what, value);
    match what {
        "image" => containers(manifest, kind, None)?.into_iter().try_for_each(|at| {
            at["image"] = value.into();
            Ok(())
        }),
        "workers" => {
            whole(what, value)?;
            of_role(manifest, kind, "worker", "replicas", value)
        }
        "slots" if kind == Kind::MpiJob => raw(manifest, "spec.slotsPerWorker", value),
        "mpi" if kind == Kind::MpiJob => put(manifest, "spec.mpiImplementation", value.into()),
        "queue" => {
            child(child(manifest, "metadata")?, "labels")?[LABEL_QUEUE] = value.into();
            Ok(())
        }
        "priority" => pods(manifest, kind, None)?.into_iter().try_for_each(|pod| {
            pod["priorityClassName"] = value.into();
            Ok(())
        }),
        "suspend" => {
            let path = kind.suspend_pointer().trim_start_matches('/').replace('/', ".");
            let wanted = value.parse::<bool>().map_err(|_| {
                (format!("\"{value}\" is neither true nor false"), "use true or false".into())
            })?;
            put(manifest, &path, wanted.into())
        }
        "retries" if kind != Kind::TrainJob => put(manifest, "spec.runPolicy.backoffLimit", number()?),
        "deadline" if kind == Kind::TrainJob => put(manifest, "spec.activeDeadlineSeconds", number()?),
        "deadline" => put(manifest, "spec.runPolicy.activeDeadlineSeconds", number()?),
        "replicas" => Err((
            format!("\"{what}\" is a field of a role"),
            format!("write workers={value}, for the number of Workers"),
        )),
        _ if OF_A_ROLE.contains(&what) && kind == Kind::TrainJob => {
            Err((format!("\"{what}\" is a field of a role"), format!("write worker.{what}, for each node")))
        }
        _ if OF_A_ROLE.contains(&what) => Err((
            format!("\"{what}\" is a field of a role"),
            format!("write worker.{what} or launcher.{what}"),
        )),
        _ => Err(unknown(what, &OF_A_JOB)),
    }
}

fn of_role(manifest: &mut Value, kind: Kind, role: &str, what: &str, value: &str) -> Result<(), Wrong> {
    if kind == Kind::TrainJob && role == "trainer" && !OF_A_ROLE.contains(&what) {
        let advice = match what {
            "numNodes" => {
                format!("write workers={value}, or the path from the beginning: spec.trainer.{what}")
            }
            _ => format!("write the path from the beginning: spec.trainer.{what}"),
        };
        return Err((format!("\"{role}.{what}\" cannot be set"), advice));
    }
    if what == "replicas" {
        let count = whole(what, value)?;
        return match kind.replicas_field() {
            None => put(manifest, "spec.trainer.numNodes", count),
            Some(_) => {
                replica(manifest, kind, role)?["replicas"] = count;
                Ok(())
            }
        };
    }
    let resource = match what {
        "memory" => "memory",
        "cpu" => "cpu",
        "gpus" | "gpu" => NVIDIA_GPU,
        "image" => {
            return containers(manifest, kind, Some(role))?.into_iter().try_for_each(|at| {
                at["image"] = value.into();
                Ok(())
            });
        }
        "command" => {
            return containers(manifest, kind, Some(role))?.into_iter().try_for_each(|at| {
                at["command"] = json!(value.split_whitespace().collect::<Vec<_>>());
                Ok(())
            });
        }
        _ => return Err(unknown(what, &OF_A_ROLE)),
    };
    if !crate::build::is_quantity(value) {
        return Err((format!("\"{value}\" is not a quantity"), "use 16Gi, 4 or 500m".to_owned()));
    }
    containers(manifest, kind, Some(role))?.into_iter().try_for_each(|at| amount(at, kind, resource, value))
}

/// Sets the limit, and the request if there is one. A request above its limit is refused, and one far below it is what
/// let the memory run out in the first place.
fn amount(container: &mut Value, kind: Kind, resource: &str, value: &str) -> Result<(), Wrong> {
    let field = if kind == Kind::TrainJob { "resourcesPerNode" } else { "resources" };
    let resources = child(container, field)?;
    child(resources, "limits")?[resource] = value.into();
    if let Some(request) = resources.get_mut("requests").and_then(|requests| requests.get_mut(resource)) {
        *request = value.into();
    }
    Ok(())
}

fn variable(container: &mut Value, name: &str, value: &str) -> Result<(), Wrong> {
    let Some(fields) = container.as_object_mut() else { return Err(not_a_map("the container")) };
    let Some(list) = fields.entry("env").or_insert_with(|| json!([])).as_array_mut() else {
        return Err(not_a_map("env"));
    };
    let entry = json!({ "name": name, "value": value });
    match list.iter_mut().find(|variable| variable["name"] == name) {
        Some(known) => *known = entry,
        None => list.push(entry),
    }
    Ok(())
}

/// Returns the spec of a role, whose name may be written in any case.
fn replica<'a>(manifest: &'a mut Value, kind: Kind, role: &str) -> Result<&'a mut Value, Wrong> {
    let field = kind.replicas_field().unwrap_or_default();
    let roles = child(child(manifest, "spec")?, field)?;
    let known: Vec<String> = roles.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect();
    let Some(name) = known.iter().find(|known| known.eq_ignore_ascii_case(role)) else {
        let words: Vec<String> = known.iter().map(|name| name.to_lowercase()).collect();
        return Err((
            format!("this job has no {role}"),
            format!("it has: {}; fields of the job itself: {}", words.join(", "), OF_A_JOB.join(", ")),
        ));
    };
    Ok(&mut roles[name.as_str()])
}

/// Returns the pod specs of one role, or of all.
fn pods<'a>(manifest: &'a mut Value, kind: Kind, role: Option<&str>) -> Result<Vec<&'a mut Value>, Wrong> {
    match (kind.replicas_field(), role) {
        (None, _) => Err((
            "a TrainJob's pods come from its runtime".to_owned(),
            "set a field of the TrainJob by its path: spec.trainer.image=…".to_owned(),
        )),
        (Some(_), Some(role)) => {
            let spec = child(child(replica(manifest, kind, role)?, "template")?, "spec")?;
            Ok(vec![spec])
        }
        (Some(field), None) => {
            let roles =
                child(child(manifest, "spec")?, field)?.as_object_mut().ok_or_else(|| not_a_map(field))?;
            roles.values_mut().map(|role| child(child(role, "template")?, "spec")).collect()
        }
    }
}

/// Returns the first containers of one role, or of all; for a TrainJob, its trainer.
fn containers<'a>(
    manifest: &'a mut Value,
    kind: Kind,
    role: Option<&str>,
) -> Result<Vec<&'a mut Value>, Wrong> {
    if kind == Kind::TrainJob {
        return Ok(vec![child(child(manifest, "spec")?, "trainer")?]);
    }
    let pods = pods(manifest, kind, role)?;
    pods.into_iter()
        .map(|pod| {
            pod.get_mut("containers")
                .and_then(|list| list.get_mut(0))
                .ok_or_else(|| ("has no container".to_owned(), "see the job's manifest".to_owned()))
        })
        .collect()
}

/// Sets a field by its path; the value is parsed as JSON, or else taken as text.
fn raw(manifest: &mut Value, path: &str, value: &str) -> Result<(), Wrong> {
    let value = match serde_json::from_str::<Value>(value) {
        Ok(read) => read,
        Err(_) => value.into(),
    };
    put_like(manifest, path, value)
}

/// As [`put`], but what replaces a text is a text, so that `args[2]=500` needs no quotes.
fn put_like(manifest: &mut Value, path: &str, value: Value) -> Result<(), Wrong> {
    let at = place(manifest, path)?;
    *at = match (&at, value) {
        (Value::String(_), value @ (Value::Number(_) | Value::Bool(_))) => value.to_string().into(),
        (_, value) => value,
    };
    Ok(())
}

fn put(manifest: &mut Value, path: &str, value: Value) -> Result<(), Wrong> {
    *place(manifest, path)? = value;
    Ok(())
}

/// Returns the place at a path, creating the maps on the way.
fn place<'a>(manifest: &'a mut Value, path: &str) -> Result<&'a mut Value, Wrong> {
    let mut at = manifest;
    for step in steps(path) {
        at = match step {
            Step::Key(key) => child(at, &key)?,
            Step::Index(index) => at.get_mut(index).ok_or_else(|| {
                (format!("there is no item {index}"), "items are counted from 0".to_owned())
            })?,
        };
    }
    Ok(at)
}

/// Returns a field of a map, creating it if it is missing.
fn child<'a>(value: &'a mut Value, key: &str) -> Result<&'a mut Value, Wrong> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    match value.as_object_mut() {
        Some(fields) => Ok(fields.entry(key).or_insert(Value::Null)),
        None => Err(not_a_map(key)),
    }
}

fn not_a_map(key: &str) -> Wrong {
    (format!("cannot set {key}: its parent has no fields"), "see the fields in the job's manifest".to_owned())
}

fn whole(what: &str, value: &str) -> Result<Value, Wrong> {
    let number = value.parse::<i64>().ok().filter(|number| *number >= 0);
    number
        .map(Value::from)
        .ok_or_else(|| (format!("\"{value}\" is not a whole number"), format!("use a number: {what}=4")))
}

fn unknown(what: &str, known: &[&str]) -> Wrong {
    let advice = match nearest(what, known) {
        Some(meant) => format!("did you mean \"{meant}\"?"),
        None => format!("use one of {}; or a field by its path: spec.…", known.join(", ")),
    };
    (format!("\"{what}\" cannot be set"), advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Value {
        json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "a"}, "spec": {
            "mpiReplicaSpecs": {
                "Launcher": {"template": {"spec": {"containers": [{"name": "l", "image": "i"}]}}},
                "Worker": {"replicas": 2, "template": {"spec": {"containers": [{"name": "w", "image": "i",
                    "resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi", "cpu": "1"}}}]}}}}}})
    }

    fn changed(settings: &[&str]) -> Result<Value, Error> {
        let settings: Vec<Setting> = settings.iter().map(|text| Setting::read(text).unwrap()).collect();
        set(job(), Kind::MpiJob, &settings)
    }

    #[test]
    fn settings_change_the_right_field() {
        let job = changed(&[
            "worker.memory=32Gi",
            "worker.gpus=2",
            "workers=8",
            "env.LR=0.1",
            "image=new",
            "queue=team",
            "spec.runPolicy.backoffLimit=3",
            "priority=high",
        ])
        .unwrap();
        let worker = &job["spec"]["mpiReplicaSpecs"]["Worker"];
        let container = &worker["template"]["spec"]["containers"][0];
        assert_eq!(worker["replicas"], 8);
        assert_eq!(container["resources"]["limits"], json!({"memory": "32Gi", "nvidia.com/gpu": "2"}));
        assert_eq!(container["resources"]["requests"], json!({"memory": "32Gi", "cpu": "1"}));
        assert_eq!(container["env"], json!([{"name": "LR", "value": "0.1"}]));
        assert_eq!(
            job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["image"],
            "new"
        );
        assert_eq!(job["metadata"]["labels"][LABEL_QUEUE], "team");
        assert_eq!(job["spec"]["runPolicy"]["backoffLimit"], 3);
        assert_eq!(worker["template"]["spec"]["priorityClassName"], "high");
    }

    #[test]
    fn what_replaces_a_text_is_a_text() {
        let path = "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0]";
        let job = changed(&[
            &format!("{path}.args=[\"--steps\", \"10\"]"),
            &format!("{path}.args[1]=500"),
            "spec.slotsPerWorker=4",
        ])
        .unwrap();
        let launcher = &job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0];
        assert_eq!(launcher["args"], json!(["--steps", "500"]));
        assert_eq!(job["spec"]["slotsPerWorker"], 4);
    }

    #[test]
    fn a_train_jobs_deadline_is_a_field_of_its_own() {
        let job = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": {}});
        let settings = [Setting::read("deadline=600").unwrap()];
        let changed = set(job, Kind::TrainJob, &settings).unwrap();
        assert_eq!(changed["spec"], json!({"activeDeadlineSeconds": 600}));
    }

    #[test]
    fn a_field_of_a_trainjob_that_is_not_set_so_is_named_as_it_is() {
        let said = |setting: &str| {
            let job = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": {}});
            set(job, Kind::TrainJob, &[Setting::read(setting).unwrap()]).unwrap_err().to_string()
        };
        for (setting, says) in [
            ("trainer.numNodes=3", "write workers=3, or the path from the beginning: spec.trainer.numNodes"),
            ("trainer.args=[]", "spec.trainer.args"),
            ("replicas=3", "write workers=3"),
            ("gpus=1", "write worker.gpus, for each node"),
        ] {
            assert!(said(setting).contains(says), "{setting}: {}", said(setting));
        }
    }

    #[test]
    fn an_unknown_setting_lists_the_known_ones() {
        for (setting, says) in [
            ("worker.memroy=1Gi", "did you mean \"memory\"?"),
            ("worker.memory=much", "\"much\" is not a quantity"),
            ("servant.memory=1Gi", "this job has no servant; it has: launcher, worker"),
            ("workers=-1", "\"-1\" is not a whole number"),
            ("colour=red", "use one of image, workers"),
        ] {
            let error = changed(&[setting]).unwrap_err();
            assert!(error.to_string().contains(says), "{setting}: {error}");
        }
        assert!(Setting::read("worker.memory").is_err());
    }
}
