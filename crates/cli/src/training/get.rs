//! `get` and `list`.

use jiff::Timestamp;
use jobs::list::Selection;
use jobs::pick::Pick;
use jobs::view::{self, Row};

use crate::arguments::{Get, Global, List, Output};
use crate::connect::connect;
use crate::console::Console;
use crate::failure::Failure;
use crate::training::rows::{none, printed, rows_text};
use crate::training::{several, watch};

/// `odh training get mpijob NAME`
pub async fn get(console: &Console, global: &Global, get: &Get) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let mut named = several::many(console, &connection, &get.several).await?;
    if get.watch {
        return match named.pop().filter(|_| named.is_empty()) {
            Some(job) => watch::one(console, &connection, get, job).await,
            None => Err(Failure::usage("--watch shows one job", "for several: odh training list --watch")),
        };
    }
    if named.is_empty() {
        return Ok(0);
    }
    let mut found = Vec::new();
    let mut each = several::Each::default();
    for (kind, name) in &named {
        match jobs::list::get(&connection.client, *kind, &connection.namespace, name).await {
            Ok(job) => found.push(job),
            Err(error) => each.failed(console, &error.into()),
        }
    }
    if found.is_empty() {
        return Ok(each.ending(0));
    }
    let now = Timestamp::now();
    let shown = match get.output {
        Output::Table | Output::Wide => {
            rows_text(&jobs::list::rows_of(&connection.client, &found).await, get.output, false, now)
        }
        _ => printed(&found, get.output, named.len() > 1, false, now)?,
    };
    console.data(&shown)?;
    Ok(each.ending(0))
}

/// `odh training list`
pub async fn list(console: &Console, global: &Global, list: &List) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let namespace = (!list.all_namespaces).then(|| connection.namespace.clone());
    let selection = Selection {
        kind: list.kind.map(Into::into),
        namespace: namespace.clone(),
        labels: list.selector.clone(),
    };
    let pick = pick(list);
    if list.watch {
        several::check_states(&list.status, &[])?;
        return watch::many(console, &connection, list, &selection, &pick).await;
    }
    let now = Timestamp::now();
    if matches!(list.output, Output::Table | Output::Wide) {
        let rows = jobs::list::rows(&connection.client, &selection).await?;
        several::check_states(&list.status, &rows)?;
        let any = !rows.is_empty() || list.selector.is_some();
        let rows = pick.from(rows, Row::clone, now);
        match rows.is_empty() {
            true => {
                if let Some(namespace) = &namespace {
                    jobs::list::check_namespace(&connection.client, namespace).await?;
                }
                console.note(&none(namespace.as_deref(), any));
            }
            false => console.data(&rows_text(&rows, list.output, list.all_namespaces, now))?,
        }
        return Ok(0);
    }
    let found = jobs::list::list(&connection.client, &selection).await?;
    several::check_states(&list.status, &found.iter().map(view::row).collect::<Vec<_>>())?;
    let any = !found.is_empty() || list.selector.is_some();
    let found = pick.from(found, view::row, now);
    if let (true, Some(namespace)) = (found.is_empty(), &namespace) {
        jobs::list::check_namespace(&connection.client, namespace).await?;
    }
    if found.is_empty() && list.output == Output::Name {
        console.note(&none(namespace.as_deref(), any));
    }
    console.data(&printed(&found, list.output, true, list.all_namespaces, now)?)?;
    Ok(0)
}

fn pick(list: &List) -> Pick {
    Pick {
        states: list.status.clone(),
        since: list.since,
        until: list.until,
        order: list.sort.map(Into::into),
        reverse: list.reverse,
        ..Pick::default()
    }
}
