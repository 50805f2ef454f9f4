//! The table of specifications (`openapi/specifications.yaml`), typed as flags of `odh training create`: each makes the
//! manifest, or has the faults, that the table says.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::odh::Home;

const CASES: &str = include_str!("../../../../openapi/specifications.yaml");
const JOBS: &str = include_str!("../../../../openapi/jobs.json");
/// The exit code of a request with faults.
const INVALID: i32 = 5;
/// The exit code of flags that cannot be read.
const USAGE: i32 = 2;

#[derive(Deserialize)]
struct Case {
    case: String,
    spec: Map<String, Value>,
    #[serde(default)]
    faults: Vec<Faulty>,
}

#[derive(Deserialize)]
struct Faulty {
    path: String,
    fault: String,
}

fn job(case: &str) -> Value {
    let jobs: Value = serde_json::from_str(JOBS).unwrap();
    let mut job = jobs["base"].clone();
    json_patch::merge(&mut job, &jobs["changes"][case]);
    job
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The words of the command line for a specification.
///
/// # Panics
/// If the command line has no place for a field.
fn words(spec: &Map<String, Value>) -> Vec<String> {
    let mut words: Vec<String> = ["training", "create"].map(str::to_owned).to_vec();
    words.extend(spec.get("kind").map(text));
    words.push(format!("--name={}", text(&spec["name"])));
    let is_left_to_the_runtime =
        |field: &str, value: &Value| field == "workers" && *value == 0 && spec.contains_key("runtime");
    for (field, value) in spec.iter().filter(|(field, value)| !is_left_to_the_runtime(field, value)) {
        words.extend(flags(field, value));
    }
    words.extend(["--dry-run=client", "-o", "json", "--"].map(str::to_owned));
    words.extend(spec["command"].as_array().into_iter().flatten().map(text));
    words
}

fn flags(field: &str, value: &Value) -> Vec<String> {
    let pairs = |flag: &str, separator: &str| {
        let pairs = value.as_object().into_iter().flatten();
        pairs.map(|(name, value)| format!("--{flag}={name}{separator}{}", text(value))).collect()
    };
    let switch = |flag: &str| value.as_bool().unwrap().then(|| format!("--{flag}")).into_iter().collect();
    let one = |flag: &str| vec![format!("--{flag}={}", text(value))];
    match field {
        "kind" | "name" | "command" => Vec::new(),
        // What is empty is not typed.
        _ if *value == "" => Vec::new(),
        "workers" | "image" | "cpu" | "memory" | "gpus" | "slots" | "mpi" | "transport" | "workdir"
        | "queue" | "priority" | "retries" | "runtime" => one(field),
        "deadlineSeconds" => vec![format!("--deadline={}s", text(value))],
        "ttlSeconds" => vec![format!("--ttl={}s", text(value))],
        "cleanPodPolicy" => one("clean-pods"),
        "env" => pairs("env", "="),
        "labels" => pairs("label", "="),
        "annotations" => pairs("annotation", "="),
        "volumes" => pairs("pvc", ":"),
        "inLauncher" => switch("in-launcher"),
        "untagged" | "restricted" | "suspend" => switch(field),
        "mounts" => value.as_array().into_iter().flatten().map(mount).collect(),
        "variables" => value.as_array().into_iter().flatten().map(variable).collect(),
        "worker" | "launcher" | "scheduling" | "failures" | "minAvailable" => {
            vec![format!("--set={field}={}", text(value))]
        }
        other => panic!("the command line has no place for {other}"),
    }
}

fn mount(volume: &Value) -> String {
    let has = |field: &str| volume.get(field).map(text).filter(|text| !text.is_empty());
    let below = |name: Option<String>| name.map(|name| format!("/{name}")).unwrap_or_default();
    let read_only = if volume.get("readOnly") == Some(&Value::Bool(true)) { ":ro" } else { "" };
    let in_memory = volume.get("inMemory") == Some(&Value::Bool(true));
    let what = match (has("claim"), has("secret"), has("configMap")) {
        (Some(claim), ..) => format!("pvc/{claim}{}", below(has("subPath"))),
        (_, Some(secret), _) => format!("secret/{secret}"),
        (_, _, Some(map)) => format!("configmap/{map}"),
        _ => format!("{}{}", if in_memory { "memory" } else { "scratch" }, below(has("size"))),
    };
    format!("--mount={what}:{}{read_only}", text(&volume["path"]))
}

fn variable(variable: &Value) -> String {
    let has = |field: &str| variable.get(field).map(text).unwrap_or_default();
    let (flag, object) = match variable.get("secret") {
        Some(secret) => ("env-secret", text(secret)),
        None => ("env-config-map", has("configMap")),
    };
    format!("--{flag}={}={object}:{}", has("name"), has("key"))
}

/// The flag that a fault of a field is named by.
fn flag_of(path: &str) -> String {
    let field = path.split(['.', '[']).next().unwrap_or_default();
    match (path, field) {
        // Flags of time take no negative ones.
        ("spec.runPolicy.ttlSecondsAfterFinished", _) => "--ttl".to_owned(),
        ("spec.runPolicy.activeDeadlineSeconds", _) => "--deadline".to_owned(),
        (_, "metadata" | "spec") => path.to_owned(),
        (_, "inLauncher") => "--in-launcher".to_owned(),
        (_, "ttlSeconds") => "--ttl".to_owned(),
        (_, "variables") => "--env-".to_owned(),
        (_, "volumes" | "mounts") => String::new(),
        (path, "worker") if path.starts_with("worker.limits.") => "--limit".to_owned(),
        (path, "worker" | "launcher" | "scheduling" | "failures") => format!("--set {path}"),
        (_, other) => format!("--{other}"),
    }
}

#[test]
fn flags_make_the_jobs_of_the_table() {
    let home = Home::new();
    let cases: Vec<Case> = serde_saphyr::from_str(CASES).unwrap();
    for Case { case, spec, faults } in cases {
        // With --runtime, the kind defaults to TrainJob, and an unknown kind is read as the job's name.
        let kind = spec.get("kind").map(text).unwrap_or_default();
        if (spec.contains_key("runtime") && kind.is_empty()) || kind == "sparkjob" {
            continue;
        }
        // An argument of a program holds no NUL, and the first `=` of one ends the name.
        let cannot_be_typed = |name: &String| name.contains(['\0', '=']);
        if spec.get("env").and_then(Value::as_object).is_some_and(|env| env.keys().any(cannot_be_typed)) {
            continue;
        }
        let words = words(&spec);
        let said = home.odh(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let all = format!("{case}: {words:?}\n{}\n{}", said.out, said.err);
        if faults.is_empty() {
            assert_eq!(said.code, 0, "{all}");
            assert_eq!(said.json(), job(&case), "{all}");
            continue;
        }
        assert!([INVALID, USAGE].contains(&said.code), "{all}");
        let is_named = |Faulty { path, .. }: &Faulty| {
            [flag_of(path).as_str(), path, "a job needs"].iter().any(|name| said.err.contains(name))
        };
        if said.code == USAGE {
            // Flags that cannot be read are refused at the first, in the words of the command line.
            assert!(faults.iter().any(is_named), "{all}");
            continue;
        }
        for fault in &faults {
            let quoted = serde_json::to_string(&fault.fault).unwrap();
            assert!(is_named(fault), "{} is not named in {all}", fault.path);
            assert!(said.err.contains(quoted.trim_matches('"')), "no {quoted} in {all}");
        }
    }
}
