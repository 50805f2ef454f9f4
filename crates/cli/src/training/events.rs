//! `events`: the events of a job and its pods.

use jiff::Timestamp;
use jobs::alike::each;
use jobs::describe::EventView;
use serde_json::json;

use super::describe::events_table;
use super::several;
use crate::arguments::{Events, Global, Output};
use crate::connect::connect;
use crate::console::{CAREFUL, Console, FAINT, styled};
use crate::failure::Failure;
use crate::object;

/// `odh training events KIND NAME`
pub async fn run(console: &Console, global: &Global, asked: &Events) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let (client, namespace) = (&connection.client, &connection.namespace);
    let (kind, name) = several::one(&connection, &asked.target).await?;
    let name = name.as_str();
    if asked.watch {
        let mut watch = jobs::events::watch(client, kind, namespace, name).await?;
        while let Some(event) = watch.next().await? {
            console.data(&line(&event, asked.output))?;
        }
        return Ok(0);
    }
    let found = jobs::events::events(client, kind, namespace, name).await?;
    let text = match asked.output {
        Output::Table | Output::Wide | Output::Name if found.is_empty() => {
            console.note("no events found; a cluster usually keeps events for one hour");
            String::new()
        }
        Output::Table | Output::Wide | Output::Name => {
            events_table(&each(found), asked.output == Output::Wide, Timestamp::now())
        }
        _ => object::text(&json!({ "items": found.iter().map(value).collect::<Vec<_>>() }), asked.output)?,
    };
    console.data(&text)?;
    Ok(0)
}

fn line(event: &EventView, output: Output) -> String {
    if output.is_for_programs() {
        return format!("{}\n", value(event));
    }
    let kind = if event.kind == "Warning" { styled(CAREFUL, &event.kind) } else { event.kind.clone() };
    let at = event.at.map(|at| at.to_string()).unwrap_or_default();
    let line = format!("{} {kind} {} {}: {}", styled(FAINT, &at), event.reason, event.object, event.message);
    line.replace('\n', " ") + "\n"
}

fn value(event: &EventView) -> serde_json::Value {
    json!({ "time": event.at, "type": event.kind, "reason": event.reason, "object": event.object,
        "message": event.message, "count": event.count })
}
