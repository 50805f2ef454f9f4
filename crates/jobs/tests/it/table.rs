//! The table of specifications: what the builder makes of each, or what is wrong with it. All other interfaces are
//! compared with this.

use std::path::PathBuf;

use jobs::build;
use jobs::submit::{self, Checked};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const CASES: &str = include_str!("../../../../openapi/specifications.yaml");
const JOBS: &str = "../../openapi/jobs.json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    spec: Value,
    #[serde(default)]
    faults: Vec<Faulty>,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct Faulty {
    path: String,
    fault: String,
    fix: String,
}

fn cases() -> Vec<Case> {
    serde_saphyr::from_str(CASES).unwrap()
}

fn made(spec: &Value) -> Result<Value, Vec<Faulty>> {
    let (request, faults) = build::from_fields(spec).map_err(|fault| faulty(vec![fault]))?;
    let draft = submit::check_request(&request, faults).and_then(Checked::faultless);
    draft.map(|draft| draft.object).map_err(|error| faulty(error.faults().to_vec()))
}

fn faulty(faults: Vec<jobs::Fault>) -> Vec<Faulty> {
    let one = |fault: jobs::Fault| Faulty {
        path: fault.path,
        fault: fault.message,
        fix: fault.advice.unwrap_or_default(),
    };
    faults.into_iter().map(one).collect()
}

/// The merge patch from one value to another (RFC 7396).
fn patch(from: &Value, to: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (from, to) else { return to.clone() };
    let removed =
        before.keys().filter(|name| !after.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let changed = after.iter().filter(|(name, value)| before.get(*name) != Some(value));
    let changed =
        changed.map(|(name, value)| (name.clone(), patch(before.get(name).unwrap_or(&Value::Null), value)));
    Value::Object(removed.chain(changed).collect())
}

#[test]
fn generated_jobs_of_the_table() {
    let mut changes = Map::new();
    let mut base = Value::Null;
    for Case { case, spec, .. } in cases().into_iter().filter(|case| case.faults.is_empty()) {
        let job = made(&spec).unwrap_or_else(|faults| panic!("{case}: {faults:?}"));
        if base.is_null() {
            base = job.clone();
        }
        assert!(changes.insert(case.clone(), patch(&base, &job)).is_none(), "{case} is there twice");
    }
    let text = serde_json::to_string_pretty(&json!({ "base": base, "changes": changes })).unwrap() + "\n";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(JOBS);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "run `cargo xtask gen`");
}

#[test]
fn what_is_wrong_with_a_specification_is_what_interfaces_know_to_be_wrong() {
    let cases = cases();
    assert!(cases.len() > 150, "{}", cases.len());
    for Case { case, spec, faults } in cases {
        assert_eq!(made(&spec).err().unwrap_or_default(), faults, "{case}");
    }
}

/// What the form shows of a manifest makes this manifest again.
#[test]
fn every_job_of_the_table_is_read_back() {
    for Case { case, spec, .. } in cases().into_iter().filter(|case| case.faults.is_empty()) {
        let job = made(&spec).unwrap();
        let kind = build::from_fields(&spec).unwrap().0.kind;
        let read = build::read(kind, &job).unwrap();
        assert_eq!(build::manifest(&read), job, "{case}: {read:?}");
        let (again, faults) = build::from_fields(&build::to_fields(&read)).unwrap();
        assert_eq!((build::manifest(&again), faults), (job.clone(), vec![]), "{case}");
        assert_eq!(build::edit(job.clone(), &again), job, "{case}");
    }
}
