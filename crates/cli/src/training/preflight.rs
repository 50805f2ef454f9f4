//! `preflight`: what the caller may do, or what would block a job; creates nothing.

use std::time::Duration;

use jobs::preflight::{self, Right};
use plan::Finding;

use super::drafts::{check_namespaces, draft_from_files};
use crate::arguments::{Global, Preflight};
use crate::connect::connect;
use crate::console::{BAD, CAREFUL, Console, GOOD, styled};
use crate::failure::Failure;
use crate::{advice, object, table};

/// The time limit; it is generous, because the caller only waits for this answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// `odh training preflight`
pub async fn run(console: &Console, global: &Global, asked: &Preflight) -> Result<u8, Failure> {
    if asked.file.is_empty() {
        return rights(console, global, asked).await;
    }
    let drafts = draft_from_files(&asked.file)?;
    check_namespaces(&drafts, global.namespace.as_deref())?;
    let connection = connect(console, global).await?;
    let mut found = Vec::new();
    for draft in &drafts {
        let namespace = draft.namespace().unwrap_or(&connection.namespace);
        preflight::free_name(&connection.client, draft.kind, namespace, draft.name()).await?;
        if draft.kind != jobs::Kind::MpiJob {
            let name = format!("{}/{}", draft.kind.word(), draft.name());
            console.note(&format!("{name} was not checked: only its own operator knows what it needs"));
            continue;
        }
        let namespace = draft.namespace().unwrap_or(&connection.namespace);
        found.extend(
            preflight::preflight(&connection.client, namespace, std::slice::from_ref(&draft.job), PATIENCE)
                .await?,
        );
    }
    if asked.output.shows_objects() {
        let value = serde_json::json!({ "findings": found });
        console.data(&object::text(&value, asked.output)?)?;
        return Ok(0);
    }
    tell(console, &found);
    console.data(&match found.len() {
        0 => "no problems found\n".to_owned(),
        _ => "the job would be created, but would have to wait\n".to_owned(),
    })?;
    Ok(0)
}

/// Prints what a job would wait for, as warnings.
pub fn tell(console: &Console, found: &[Finding]) {
    for finding in found {
        console.warn(&format!("{}; {}", finding.message, advice::line(&finding.advice)));
    }
}

async fn rights(console: &Console, global: &Global, asked: &Preflight) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let kind = asked.kind.map_or(jobs::Kind::MpiJob, Into::into);
    let found = preflight::rights(&connection.client, kind, &connection.namespace).await?;
    if asked.output.shows_objects() {
        let value = serde_json::json!({ "namespace": connection.namespace, "rights": found });
        console.data(&object::text(&value, asked.output)?)?;
        return Ok(0);
    }
    console.data(&table::table(
        &["ALLOWED", "VERB", "RESOURCE", "USED BY"],
        &found.iter().map(cells).collect::<Vec<_>>(),
    ))?;
    if found.iter().any(|right| right.verb == "create" && !right.allowed && right.what == kind.names()) {
        return Err(Failure::new(
            jobs::Class::NotAllowed,
            "Forbidden",
            format!("you may not create {} in namespace \"{}\"", kind.names(), connection.namespace),
        )
        .with_hint(
            "the role kubeflow-mpijobs-edit and the cluster role edit grant what is missing; ask an administrator of the namespace",
        ));
    }
    if found.iter().any(|right| !right.allowed) {
        console.note(&styled(
            CAREFUL,
            "the role kubeflow-mpijobs-edit and the cluster role edit grant what is missing; ask an administrator of the namespace",
        ));
    }
    Ok(0)
}

fn cells(right: &Right) -> Vec<String> {
    let may = if right.allowed { styled(GOOD, "yes") } else { styled(BAD, "no") };
    vec![may, right.verb.clone(), right.what.clone(), right.purpose.to_owned()]
}
