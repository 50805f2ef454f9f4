//! `cancel` and `scale`: changes of existing jobs that the server makes in one step.

use jobs::view::{JobAction, Row};
use kube::api::DynamicObject;

use super::several;
use crate::arguments::{Cancel, Global, Output, Scale};
use crate::connect::connect;
use crate::console::Console;
use crate::failure::Failure;
use crate::object;

/// `odh training cancel JOB…`
pub async fn cancel(console: &Console, global: &Global, asked: &Cancel) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let mut each = several::Each::default();
    let mut cancelled = Vec::new();
    for (kind, name) in several::many_that(console, &connection, &asked.several, can_be_cancelled).await? {
        match jobs::cancel::cancel(&connection.client, kind, &connection.namespace, &name).await {
            Ok(job) => {
                say(console, asked.output, &job, "cancelled")?;
                cancelled.push(object::value(&job));
            }
            Err(error) => each.failed(console, &error.into()),
        }
    }
    if asked.output.shows_objects() && !cancelled.is_empty() {
        console.data(&object::text(&object::together(cancelled, false), asked.output)?)?;
    }
    Ok(each.ending(0))
}

fn can_be_cancelled(row: &Row) -> bool {
    row.permits(JobAction::Cancel)
}

/// `odh training scale JOB --workers N`
pub async fn scale(console: &Console, global: &Global, asked: &Scale) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let (kind, name) = several::one(&connection, &asked.target).await?;
    let (client, namespace) = (&connection.client, &connection.namespace);
    let job = jobs::scale::scale(client, kind, namespace, &name, asked.workers).await?;
    let workers = if asked.workers == 1 { "Worker" } else { "Workers" };
    say(console, asked.output, &job, &format!("scaled to {} {workers}", asked.workers))?;
    if asked.output.shows_objects() {
        console.data(&object::text(&object::value(&job), asked.output)?)?;
    }
    Ok(0)
}

fn say(console: &Console, output: Output, job: &DynamicObject, became: &str) -> Result<(), Failure> {
    match output {
        Output::Table | Output::Wide => console.data(&format!("{} {became}\n", object::name(job))),
        Output::Name => console.data(&format!("{}\n", object::name(job))),
        Output::Json | Output::Yaml | Output::Template(_) => Ok(()),
    }
}
