//! `explain`: the state of a job, the cause, who must act, what to do.

use std::collections::BTreeSet;

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
        ("Cancelled", _) => CAREFUL,
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
        fields.push(("Evidence", distinct(&found.evidence).join("\n")));
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

/// The evidence, each text once: conditions and events of pods that say the same are one line, of the first pod.
fn distinct(evidence: &[String]) -> Vec<String> {
    let mut told: Vec<(&str, &str, BTreeSet<&str>)> = Vec::new();
    for line in evidence {
        let (pod, said) = match line.strip_prefix("pod ").and_then(|rest| rest.split_once(": ")) {
            Some((pod, said)) => (pod, said),
            None => ("", line.as_str()),
        };
        let is_source = said.starts_with("condition ") || said.starts_with("event ");
        let text = said.split_once(": ").filter(|_| is_source).map_or(said, |(_, text)| text);
        match told.iter_mut().find(|(_, known, _)| *known == text && !pod.is_empty()) {
            Some((_, _, pods)) => drop(pods.insert(pod)),
            None => told.push((line, text, [pod].into())),
        }
    }
    let shown = |(line, _, pods): &(&str, &str, BTreeSet<&str>)| match pods.len() {
        0 | 1 => (*line).to_owned(),
        2 => format!("{}; the same of 1 more pod", line.trim_end_matches('.')),
        count => format!("{}; the same of {} more pods", line.trim_end_matches('.'), count - 1),
    };
    told.iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_that_pods_share_is_shown_once() {
        let why = "0/1 nodes are available: persistentvolumeclaim \"x\" not found.";
        let evidence = [
            format!("pod a-worker-0: condition PodScheduled Unschedulable: {why}"),
            format!("pod a-worker-0: event FailedScheduling: {why}"),
            format!("pod a-worker-1: event FailedScheduling: {why}"),
            "pod a-worker-1: exit code 1".to_owned(),
            "log line 3: Killed".to_owned(),
        ];
        assert_eq!(
            distinct(&evidence),
            [
                "pod a-worker-0: condition PodScheduled Unschedulable: 0/1 nodes are available: persistentvolumeclaim \"x\" not found; the same of 1 more pod",
                "pod a-worker-1: exit code 1",
                "log line 3: Killed",
            ]
        );
    }
}
