//! `export`: a job as a manifest that can be created again.

use crate::arguments::{Export, Global, Output};
use crate::connect::connect;
use crate::console::Console;
use crate::failure::Failure;
use crate::object;

/// `odh training export KIND NAME`
pub async fn run(console: &Console, global: &Global, asked: &Export) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let kind = asked.target.kind.into();
    let job = jobs::list::get(&connection.client, kind, &connection.namespace, &asked.target.name).await?;
    let output = match asked.output {
        Output::Table | Output::Wide => Output::Yaml,
        other => other,
    };
    let text = match output {
        Output::Name => object::name(&job) + "\n",
        _ => object::text(&jobs::export::manifest(&job), output)?,
    };
    console.document(&text)?;
    Ok(0)
}
