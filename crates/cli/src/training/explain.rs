//! `explain`: the state of a job, the cause, who must act, what to do.

use jiff::Timestamp;
use plan::Explanation;
use serde_json::Value;

use super::several;
use crate::arguments::{Explain, Global, Output};
use crate::connect::connect;
use crate::console::{BAD, CAREFUL, Console, GOOD, styled};
use crate::failure::Failure;
use crate::shown::ago;
use crate::{advice, object, table};

/// `odh training explain KIND NAME`
pub async fn run(console: &Console, global: &Global, asked: &Explain) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let (kind, name) = several::one(&connection, &asked.target).await?;
    let found =
        jobs::explanation::explain_job(&connection.client, kind, &connection.namespace, &name).await?;
    let text = match asked.output {
        Output::Name => format!("{}\n", found.cause.clone().unwrap_or_else(|| word(&found))),
        Output::Table | Output::Wide => text(&found, Timestamp::now()),
        _ => object::text(&serde_json::to_value(&found).unwrap_or_default(), asked.output)?,
    };
    console.data(&text)?;
    Ok(0)
}

fn word(found: &Explanation) -> String {
    let state = serde_json::to_value(found.state).ok();
    state.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The explanation for people. Pure.
fn text(found: &Explanation, now: Timestamp) -> String {
    let state = word(found);
    let style = match (state.as_str(), &found.cause) {
        ("Succeeded", None) => GOOD,
        ("Failed", _) | (_, Some(_)) => BAD,
        _ => CAREFUL,
    };
    let mut fields = vec![("State", styled(style, &state))];
    if let Some(since) = found.since {
        let age = u64::try_from(now.as_second() - since.as_second()).ok();
        fields.push(("Since", format!("{} ago", ago(age.map(std::time::Duration::from_secs)))));
    }
    fields.extend(found.cause.clone().map(|cause| ("Cause", cause)));
    fields.push(("Message", found.message.clone()));
    if !found.evidence.is_empty() {
        fields.push(("Evidence", found.evidence.join("\n")));
    }
    if !found.last_lines.is_empty() {
        fields.push(("Last lines", found.last_lines.join("\n")));
    }
    let actor = serde_json::to_value(found.actor).ok();
    let actor = actor.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    fields.push(("Who must act", actor.to_lowercase()));
    fields.extend(found.advice.as_ref().map(|advice| ("What to do", advice::lines(advice))));
    let cause = found.cause.as_deref().filter(|_| found.link.is_some());
    fields.extend(cause.map(|cause| ("Read more", format!("odh help causes {cause}"))));
    table::fields(&fields)
}
