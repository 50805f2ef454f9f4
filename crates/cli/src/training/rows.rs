//! Jobs as rows of a table, names or objects.

use jiff::Timestamp;
use jobs::view::{self, JobHealth, Row};
use kube::api::DynamicObject;

use crate::arguments::Output;
use crate::console::{BAD, CAREFUL, GOOD, styled};
use crate::failure::Failure;
use crate::shown::ago;
use crate::{object, table};

/// Returns the message for an empty list.
pub fn none(namespace: Option<&str>, any: bool) -> String {
    let which = if any { "matching training jobs" } else { "training jobs" };
    match namespace {
        Some(namespace) => format!("No {which} in namespace {namespace}."),
        None => format!("No {which} in any namespace."),
    }
}

/// Prints jobs in a format. Pure.
pub fn printed(
    found: &[DynamicObject],
    output: Output,
    as_list: bool,
    with_namespace: bool,
    now: Timestamp,
) -> Result<String, Failure> {
    match output {
        Output::Json | Output::Yaml | Output::Template(_) => {
            object::text(&object::together(found.iter().map(object::value).collect(), as_list), output)
        }
        Output::Name => Ok(found.iter().map(|job| object::name(job) + "\n").collect()),
        Output::Table | Output::Wide => {
            let rows: Vec<Row> = found.iter().map(view::row).collect();
            Ok(rows_text(&rows, output, with_namespace, now))
        }
    }
}

/// The table of a list of jobs.
pub fn rows_text(rows: &[Row], output: Output, with_namespace: bool, now: Timestamp) -> String {
    let columns = Columns { wide: output == Output::Wide, with_namespace, kinds: of_several_kinds(rows) };
    let (headings, cells) = rows_cells(rows, columns, now);
    table::fitted(&headings, &cells, table::screen_columns())
}

/// Whether a list needs a column for the kind, because not all jobs are MPIJobs.
pub fn of_several_kinds<'r>(rows: impl IntoIterator<Item = &'r Row>) -> bool {
    rows.into_iter().any(|row| row.kind != jobs::Kind::MpiJob)
}

/// The optional columns of a list of jobs.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// Whether to include the columns for a wide screen.
    pub wide: bool,
    /// Whether to include the namespace.
    pub with_namespace: bool,
    /// Whether to include the kind.
    pub kinds: bool,
}

/// Returns headings and cells of a list of jobs. Pure.
pub fn rows_cells<'r>(
    rows: impl IntoIterator<Item = &'r Row>,
    columns: Columns,
    now: Timestamp,
) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let Columns { wide, with_namespace, kinds } = columns;
    let mut headings = Vec::new();
    if with_namespace {
        headings.push("NAMESPACE");
    }
    if kinds {
        headings.push("KIND");
    }
    headings.extend(["NAME", "STATE", "WORKERS", "RUNTIME", "AGE"]);
    if wide {
        headings.extend(["REASON", "MPI", "SLOTS", "CREATED", "IMAGE"]);
    }
    let cells: Vec<Vec<String>> = rows
        .into_iter()
        .map(|row| {
            let mut cells = Vec::new();
            if with_namespace {
                cells.push(row.namespace.clone());
            }
            if kinds {
                cells.push(row.kind.name().to_owned());
            }
            cells.extend([
                row.name.clone(),
                state(row, wide),
                workers(row),
                ago(row.runtime(now)),
                ago(row.age(now)),
            ]);
            if wide {
                cells.extend([
                    row.cause.clone().or_else(|| row.phase_reason.clone()).unwrap_or_else(|| "-".to_owned()),
                    row.mpi.clone(),
                    row.slots_per_worker.to_string(),
                    row.created.map_or_else(|| "-".to_owned(), |created| created.to_string()),
                    row.image.clone(),
                ]);
            }
            cells
        })
        .collect();
    (headings, cells)
}

/// How many Workers run of how many; of a job that has ended, whose Workers may be cleaned up, how many it had.
fn workers(row: &Row) -> String {
    match row.has_ended() {
        true => row.workers.of.to_string(),
        false => format!("{}/{}", row.workers.running, row.workers.of),
    }
}

/// Returns the state; `bare`, without the reason, which then has a column of its own.
pub fn state(row: &Row, bare: bool) -> String {
    let style = match row.health {
        JobHealth::Succeeded => GOOD,
        JobHealth::Failed => BAD,
        JobHealth::Waiting | JobHealth::Suspended | JobHealth::Degraded | JobHealth::Deleting => CAREFUL,
        JobHealth::Running | JobHealth::Cancelled => anstyle::Style::new(),
    };
    styled(style, &if bare { row.state.word.clone() } else { row.state.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn jobs() -> Vec<DynamicObject> {
        let job = |name: &str, status: serde_json::Value| {
            serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
                "metadata": {"name": name, "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z",
                    "managedFields": [{"manager": "odh"}]},
                "spec": {"slotsPerWorker": 2, "mpiReplicaSpecs": {"Worker": {"replicas": 4, "template": {"spec": {"containers": [
                    {"name": "w", "image": "img"}]}}}}},
                "status": status})).unwrap()
        };
        vec![
            job(
                "digits",
                json!({"phase": "Running", "startTime": "2026-01-01T00:01:00Z", "workers": {"running": 4, "pending": 0, "failed": 0, "of": 4}}),
            ),
            job(
                "pi",
                json!({"phase": "Failed", "phaseReason": "WorkerLost", "startTime": "2026-01-01T00:01:00Z", "completionTime": "2026-01-01T00:01:30Z"}),
            ),
        ]
    }

    fn text(output: Output, namespaces: bool) -> String {
        let now = "2026-01-01T00:02:00Z".parse().unwrap();
        anstream::adapter::strip_str(&printed(&jobs(), output, true, namespaces, now).unwrap()).to_string()
    }

    #[test]
    fn a_list_fits_and_says_what_matters() {
        assert_eq!(
            text(Output::Table, false),
            "NAME     STATE                 WORKERS   RUNTIME   AGE\n\
             digits   Running               4/4       1m        2m\n\
             pi       Failed (WorkerLost)   4         30s       2m\n"
        );
        assert_eq!(
            text(Output::Wide, true),
            "NAMESPACE   NAME     STATE     WORKERS   RUNTIME   AGE   REASON       MPI       SLOTS   CREATED                IMAGE\n\
             team        digits   Running   4/4       1m        2m    -            OpenMPI   2       2026-01-01T00:00:00Z   img\n\
             team        pi       Failed    4         30s       2m    WorkerLost   OpenMPI   2       2026-01-01T00:00:00Z   img\n"
        );
        assert_eq!(text(Output::Name, false), "mpijob/digits\nmpijob/pi\n");
    }

    #[test]
    fn objects_are_printed_as_the_server_has_them() {
        let value: serde_json::Value = serde_json::from_str(&text(Output::Json, false)).unwrap();
        assert_eq!(value["kind"], "List");
        assert_eq!(value["items"][1]["status"]["phaseReason"], "WorkerLost");
        assert!(value["items"][0]["metadata"].get("managedFields").is_none());
        let yaml = text(Output::Yaml, false);
        let read: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(read, value);
    }
}
