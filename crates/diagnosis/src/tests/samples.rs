//! The outputs of real failed MPI launches, each with the acceptable causes.

use std::fs;
use std::path::PathBuf;

use super::super::facts::World;
use super::super::{Diagnosis, Ending, Facts, Output, diagnose};

/// One measured output.
pub(super) struct Sample {
    pub name: String,
    pub text: String,
    pub ending: Ending,
    /// What is known of the job beside its output.
    pub facts: Facts,
    /// The acceptable causes.
    pub right: Vec<String>,
}

impl Sample {
    /// The diagnosis of the output, or of an altered one.
    pub fn diagnosis(&self, text: &str) -> Option<Diagnosis> {
        diagnose(&Output::from(text), self.ending, &self.facts)
    }

    /// Its cause's word; `null` if nothing failed.
    pub fn word(&self, text: &str) -> &'static str {
        self.diagnosis(text).map_or("null", |diagnosis| diagnosis.cause.word())
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/samples")
}

/// All samples of `EXPECTED.tsv`.
pub(super) fn all() -> Vec<Sample> {
    let expected = fs::read_to_string(folder().join("EXPECTED.tsv")).unwrap();
    expected.lines().map(|line| read(line.split_once('\t').unwrap())).collect()
}

fn read((name, right): (&str, &str)) -> Sample {
    let text = fs::read_to_string(folder().join(format!("{name}.txt"))).unwrap();
    let run: serde_json::Value =
        serde_json::from_slice(&fs::read(folder().join(format!("{name}.json"))).unwrap()).unwrap();
    let ending = match run["mpirun_exit_code"].as_i64() {
        Some(code) => Ending::Exited(i32::try_from(code).unwrap()),
        None => Ending::Running { silent_seconds: run["harness_timeout_s"].as_u64().unwrap() },
    };
    let world = run["slots_per_worker"].as_u64().map(|slots| World {
        workers: run["workers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect(),
        slots: u32::try_from(slots).unwrap(),
    });
    let facts = Facts { world, ..Facts::default() };
    let right = right.split('|').map(str::to_owned).collect();
    Sample { name: name.to_owned(), text, ending, facts, right }
}

#[test]
fn every_measured_output_gets_a_right_cause() {
    let samples = all();
    let outputs = fs::read_dir(folder()).unwrap().flatten();
    let outputs = outputs.filter(|file| file.path().extension().is_some_and(|end| end == "txt")).count();
    assert_eq!(samples.len(), outputs, "each output has its line in EXPECTED.tsv");
    let wrong: Vec<String> = samples
        .iter()
        .filter_map(|sample| {
            let got = sample.word(&sample.text);
            (!sample.right.iter().any(|right| right == got))
                .then(|| format!("{}: {got}, not {:?}", sample.name, sample.right))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn evidence_is_on_the_line_that_it_names() {
    for sample in all() {
        let lines: Vec<&str> = sample.text.split('\n').collect();
        for evidence in sample.diagnosis(&sample.text).into_iter().flat_map(|diagnosis| diagnosis.evidence) {
            let Some(number) = evidence.line else { continue };
            let shown = evidence.text.trim_end_matches('…');
            assert!(lines[number - 1].contains(shown), "{}: line {number} is not {shown:?}", sample.name);
        }
    }
}

/// The Workers that the measured outputs name, or from which they can be derived.
#[test]
fn the_worker_is_named_where_the_output_names_it() {
    for (name, worker) in [
        ("mpich_rank_sigkill", "s-worker-1"),
        ("ompi_oom_cgroup", "s-worker-1"),
        ("ompi_segv", "s-worker-1"),
        ("ompi_abort", "s-worker-1"),
        ("ompi_exit3", "s-worker-1"),
        ("mpich_abort", "s-worker-1"),
        ("ompi_ssh_unresolvable", "s-worker-9"),
        ("mpich_ssh_unresolvable", "s-worker-9"),
        ("ompi_agent_unresolvable", "s-worker-9"),
        ("ompi_ssh_connect_timeout", "s-worker-1"),
        ("ompi_ssh_permission_denied", "s-worker-0"),
        ("impi_agent_refused", "a-worker-0"),
        ("impi_exe_not_found", "a-worker-0"),
        ("ompi_exe_no_permission", "s-worker-2"),
        ("ompi_bind_too_many", "s-worker-0"),
        ("ompi_worker_worker_unreachable", "s-worker-1"),
        ("ompi_callback_reject", "s-worker-0"),
        ("mpich_shm_small", "s-worker-0"),
        ("ompi_truncate", "s-worker-1"),
        ("ompi_if_include_missing", "s-worker-0"),
    ] {
        let sample = all().into_iter().find(|sample| sample.name == name).unwrap();
        let diagnosis = sample.diagnosis(&sample.text).unwrap();
        assert_eq!(diagnosis.worker.as_deref(), Some(worker), "{name}: {diagnosis:#?}");
    }
}
