//! `retry` and `clone`: run an existing job again.

use jobs::delete::Manner;
use jobs::rerun::Rerun;
use kube::api::DynamicObject;

use super::create::{Created, created};
use super::several;
use crate::arguments::{CloneJob, Global, Making, Retry};
use crate::connect::connect;
use crate::console::Console;
use crate::failure::Failure;

/// How long a replaced job may take to be deleted.
const CLEAN_UP: std::time::Duration = std::time::Duration::from_secs(60);

/// `odh training retry KIND NAME…`
pub async fn retry(console: &Console, global: &Global, retry: &Retry) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let found = several::many(console, &connection, &retry.several).await?;
    if retry.name.is_some() && found.len() > 1 {
        return Err(Failure::usage("--name cannot be used with several jobs", "omit it"));
    }
    let rerun = Rerun {
        name: retry.name.clone(),
        replace: retry.replace.then_some(Manner { force: false, wait: Some(CLEAN_UP) }),
        patch: None,
        settings: Vec::new(),
        dry_run: retry.dry_run,
        request: None,
    };
    let mut objects: Vec<DynamicObject> = Vec::new();
    let mut each = several::Each::default();
    for (kind, name) in found {
        let made = jobs::rerun::retry(&connection.client, kind, &connection.namespace, &name, &rerun).await;
        match made {
            Ok(object) => objects.push(object),
            Err(error) => each.failed(console, &error.into()),
        }
    }
    if objects.is_empty() {
        return Ok(each.ending(0));
    }
    let how = Created { output: retry.output, ending: &retry.ending, dry_run: retry.dry_run };
    let code = created(console, &connection, &how, &objects).await?;
    Ok(each.ending(code))
}

/// `odh training clone KIND NAME`
pub async fn clone(console: &Console, global: &Global, clone: &CloneJob) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let Making { settings, dry_run, ending, output } = &clone.making;
    let rerun = Rerun {
        name: clone.new_name.clone(),
        settings: settings.clone(),
        dry_run: *dry_run,
        ..Rerun::default()
    };
    let (kind, name) = several::one(&connection, &clone.target).await?;
    let made = jobs::rerun::clone(&connection.client, kind, &connection.namespace, &name, &rerun).await?;
    let how = Created { output: *output, ending, dry_run: *dry_run };
    created(console, &connection, &how, &[made]).await
}
