//! `runtimes`: the runtimes that TrainJobs can name.

use jobs::runtime::{self, Runtime};
use serde_json::json;

use crate::arguments::{Global, Output, Runtimes};
use crate::connect::connect;
use crate::console::Console;
use crate::failure::Failure;
use crate::{object, table};

/// `odh training runtimes`
pub async fn run(console: &Console, global: &Global, asked: &Runtimes) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let found = runtime::runtimes(&connection.client, &connection.namespace).await?;
    if asked.output.shows_objects() {
        console.document(&object::text(&json!({ "items": found }), asked.output)?)?;
    } else if found.is_empty() {
        console.note(
            "There are no runtimes. An administrator can install those that come with the operator (deploy/runtimes).",
        );
    } else {
        console.data(&text(&found, asked.output))?;
    }
    Ok(0)
}

fn text(found: &[Runtime], output: Output) -> String {
    if output == Output::Name {
        return found.iter().map(|runtime| format!("{}\n", runtime.reference)).collect();
    }
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let row = |runtime: &Runtime| {
        vec![
            runtime.reference.clone(),
            or_none(runtime.mpi_implementation.clone().or_else(|| runtime.framework.clone())),
            or_none(runtime.nodes.map(|nodes| nodes.to_string())),
            or_none(Some(runtime.images.join(", ")).filter(|images| !images.is_empty())),
        ]
    };
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    table::table(&["RUNTIME", "FRAMEWORK", "NODES", "IMAGE"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_shown_as_the_option_runtime_takes_it() {
        let of_namespace = Runtime {
            kind: "TrainingRuntime".to_owned(),
            name: "own".to_owned(),
            namespace: Some("team".to_owned()),
            reference: "trainingruntime/own".to_owned(),
            framework: Some("torch".to_owned()),
            mpi_implementation: None,
            launcher_is_node: false,
            nodes: None,
            images: Vec::new(),
        };
        let of_cluster = Runtime {
            kind: "ClusterTrainingRuntime".to_owned(),
            name: "openmpi".to_owned(),
            namespace: None,
            reference: "openmpi".to_owned(),
            framework: Some("mpi".to_owned()),
            mpi_implementation: Some("OpenMPI".to_owned()),
            launcher_is_node: false,
            nodes: Some(2),
            images: vec!["mpi:1".to_owned()],
        };
        let found = [of_cluster, of_namespace];
        assert_eq!(text(&found, Output::Name), "openmpi\ntrainingruntime/own\n");
        let table = anstream::adapter::strip_str(&text(&found, Output::Table)).to_string();
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines,
            [
                vec!["RUNTIME", "FRAMEWORK", "NODES", "IMAGE"],
                vec!["openmpi", "OpenMPI", "2", "mpi:1"],
                vec!["trainingruntime/own", "torch", "-", "-"],
            ]
        );
    }
}
