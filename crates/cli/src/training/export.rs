//! `export`: a job as a manifest, a command or a program that creates it again.

use jobs::build::Request;
use jobs::export;
use kube::api::DynamicObject;

use super::several;
use crate::arguments::{Export, ExportForm, Global, Output};
use crate::connect::connect;
use crate::console::Console;
use crate::failure::Failure;
use crate::object;

/// `odh training export KIND NAME`
pub async fn run(console: &Console, global: &Global, asked: &Export) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let (kind, name) = several::one(&connection, &asked.target).await?;
    let job = jobs::list::get(&connection.client, kind, &connection.namespace, &name).await?;
    match asked.form {
        ExportForm::Manifest => {}
        ExportForm::Command => {
            console.data(&(export::shell(&export::command(&request(&job)?)) + "\n"))?;
            return Ok(0);
        }
        ExportForm::Python => {
            console.data(&export::python(&request(&job)?))?;
            return Ok(0);
        }
    }
    let output = match asked.output {
        Output::Table | Output::Wide => Output::Yaml,
        other => other,
    };
    let text = match output {
        Output::Name => object::name(&job) + "\n",
        _ => object::text(&export::manifest(&job), output)?,
    };
    console.document(&text)?;
    Ok(0)
}

/// The request that builds the job.
fn request(job: &DynamicObject) -> Result<Request, Failure> {
    export::request(job).map_err(|error| {
        let (class, reason) = (jobs::Class::Error, "Inexpressible".to_owned());
        let advice = Some("export the manifest".into());
        let message = error.to_string();
        jobs::Error::Refused { class, reason, message, advice, faults: Vec::new() }.into()
    })
}
