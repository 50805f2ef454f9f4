//! Golden folders: `testdata/<behaviour>/input.yaml` is a scene, `output.yaml` is the result of the whole walk.
//! `UPDATE=1` rewrites the outputs; compare the diff with upstream's behaviour before committing it.

use std::fs;
use std::path::Path;

use plan::{Annotations, Applied, ApplyFailure, Change, Child, ChildKind, JobChange, Outlook, Report};
use serde_json::{Value, json};

use crate::scene::{Scene, seconds, seen, settings};

#[test]
fn every_behaviour_gives_its_golden_output() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let entries = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> = entries.filter(|folder| folder.join("input.yaml").exists()).collect();
    folders.sort();
    assert!(folders.len() > 20, "the golden folders are missing");
    let stale: Vec<String> = folders.iter().filter_map(|folder| check(folder).err()).collect();
    assert!(stale.is_empty(), "{}\nrun with UPDATE=1 and read the diff", stale.join("\n"));
}

fn check(folder: &Path) -> Result<(), String> {
    let text = fs::read_to_string(folder.join("input.yaml")).unwrap();
    let scene: Scene =
        serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", folder.display()))?;
    let output = serde_saphyr::to_string(&walk(&scene)).unwrap();
    let path = folder.join("output.yaml");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &output).unwrap();
    }
    match fs::read_to_string(&path) {
        Ok(golden) if golden == output => Ok(()),
        _ => Err(format!("{} differs", path.display())),
    }
}

/// The values of the job's annotations when they were last valid.
fn last_read(scene: &Scene) -> Annotations {
    let mut job = scene.job.clone();
    job.metadata.annotations = scene.annotations_before.clone();
    plan::tolerate(&job, &Annotations::default()).annotations()
}

/// The whole walk without its reads and writes.
fn walk(scene: &Scene) -> Value {
    let read = plan::tolerate(&scene.job, &last_read(scene));
    let seen = seen(scene, &read);
    let job = match plan::accept(read, &seen) {
        Ok(job) => job,
        Err(faults) => {
            let report = plan::reject(&scene.job, &faults, scene.now);
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            return json!({ "faults": faults, "report": show_report(&report) });
        }
    };
    let plan = plan::plan(&job, &seen, &settings(scene), scene.now);
    let failures: Vec<ApplyFailure> = scene
        .refused
        .iter()
        .map(|refused| ApplyFailure {
            kind: match refused.kind.as_str() {
                "Pod" => ChildKind::Pod,
                "Job" => ChildKind::Job,
                _ => ChildKind::Service,
            },
            name: refused.name.clone(),
            foreign: refused.foreign,
            creating: true,
            invalid: refused.invalid,
            message: refused.message.clone(),
        })
        .collect();
    let applied = Applied { failures, last_words: None };
    let report = plan::report(&job, &seen, &plan, &applied, scene.now);
    let changes: Vec<Vec<Value>> =
        plan.changes.iter().map(|group| group.iter().map(show_change).collect()).collect();
    let mut shown = json!({
        "changes": changes,
        "outlook": show_outlook(&plan.outlook),
        "wakeAfterSeconds": plan.wake_after.map(seconds),
        "report": show_report(&report),
    });
    if let Some(source) = &plan.last_words {
        shown["lastWords"] =
            json!(format!("{} {}", source.pod.metadata.name.as_deref().unwrap(), source.container));
    }
    if let Some(record) = &report.record {
        shown["record"] = json!({ "name": record.metadata.name, "data": record.data });
    }
    match report.then {
        None => {}
        Some(JobChange::BeginAttemptAfter(number)) => {
            shown["then"] = json!(format!("begin the attempt after {number}"))
        }
        Some(JobChange::Delete) => shown["then"] = json!("delete the job"),
    }
    shown
}

pub fn show_change(change: &Change) -> Value {
    match change {
        Change::Create(child) => json!({ "create": show_child(child) }),
        Change::Patch(patch) => {
            let to = if patch.of_status { "/status" } else { "" };
            json!({ "apply": format!("{} {}{to}", patch.kind.as_str(), patch.name), "patch": patch.body })
        }
        Change::Delete(target) => {
            let mut shown =
                json!({ "delete": format!("{} {}", target.kind.as_str(), target.name), "uid": target.uid });
            if target.at_once {
                shown["atOnce"] = json!(true);
            }
            shown
        }
    }
}

pub fn show_child(child: &Child) -> Value {
    match child {
        Child::Service(object) => serde_json::to_value(object),
        Child::ConfigMap(object) => serde_json::to_value(object),
        Child::Secret(object) => serde_json::to_value(object),
        Child::Pod(object) => serde_json::to_value(object),
        Child::Job(object) => serde_json::to_value(object),
        Child::PodGroup(object) => serde_json::to_value(object),
        Child::NetworkPolicy(object) => serde_json::to_value(object),
    }
    .unwrap()
}

fn show_outlook(outlook: &Outlook) -> &'static str {
    match outlook {
        Outlook::Finished => "Finished",
        Outlook::Expired => "Expired",
        Outlook::Suspended => "Suspended",
        Outlook::Active => "Active",
        Outlook::LauncherEnded => "LauncherEnded",
        Outlook::Failed(_) => "Failed",
        Outlook::Restarting(_) => "Restarting",
        Outlook::Clearing => "Clearing",
    }
}

fn show_report(report: &Report) -> Value {
    let notices: Vec<String> = report
        .notices
        .iter()
        .map(|notice| {
            let kind = if notice.warning { "Warning" } else { "Normal" };
            format!("{kind} {}: {}", notice.reason, notice.message)
        })
        .collect();
    json!({ "status": report.status, "notices": notices })
}

#[test]
fn every_behaviour_and_deviation_names_a_proof_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = String::new();
    for folder in [
        "tests/it",
        "src",
        "src/objects",
        "src/trainjob",
        "../operator/src",
        "../operator/src/trainjobs",
        "../operator/src/webhook",
        "../operator/tests/it",
        "../operator/tests/it/failures",
        "../operator/src/bin/mpi-operator",
        "../api/tests/it",
        "../semantics/src",
        "../stories/tests/it",
        "../launch/tests/it",
        "../diagnosis/src/tests",
    ] {
        let files = fs::read_dir(root.join(folder)).unwrap().map(|file| file.unwrap().path());
        sources.extend(files.filter(|file| file.is_file()).map(|file| fs::read_to_string(file).unwrap()));
    }
    for document in ["deviations.md", "upstream-behaviour.md", "trainjob-upstream-tests.md"] {
        let text = fs::read_to_string(root.join("../../docs/reference").join(document)).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.ends_with("` |")).collect();
        assert!(rows.len() > 10, "the table is missing");
        let proofs = rows.iter().filter_map(|row| row.trim_end_matches(" |").rsplit_once(" | "));
        let named: Vec<&str> = proofs.flat_map(|(_, proofs)| proofs.split(", ")).collect();
        let is_there = |proof: &&&str| {
            let name = proof.trim_matches('`');
            let folders = ["testdata", "testdata/trainjobs"];
            folders.iter().any(|folder| root.join(folder).join(name).exists())
                || sources.contains(&format!("fn {name}("))
        };
        let missing: Vec<&&str> = named.iter().filter(|proof| !is_there(proof)).collect();
        assert!(missing.is_empty(), "{document}: {missing:?}");
    }
}
