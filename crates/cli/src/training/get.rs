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
use crate::training::watch;

/// `odh training get mpijob NAME`
pub async fn get(console: &Console, global: &Global, get: &Get) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    if get.watch {
        return watch::one(console, &connection, get).await;
    }
    let job =
        jobs::list::get(&connection.client, get.target.kind.into(), &connection.namespace, &get.target.name)
            .await?;
    let now = Timestamp::now();
    let shown = match get.output {
        Output::Table | Output::Wide => {
            rows_text(&jobs::list::rows_of(&connection.client, &[job]).await, get.output, false, now)
        }
        _ => printed(&[job], get.output, false, false, now)?,
    };
    console.data(&shown)?;
    Ok(0)
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
        return watch::many(console, &connection, list, &selection, &pick).await;
    }
    let now = Timestamp::now();
    if matches!(list.output, Output::Table | Output::Wide) {
        let rows = jobs::list::rows(&connection.client, &selection).await?;
        let any = !rows.is_empty();
        let rows = pick.from(rows, Row::clone, now);
        match rows.is_empty() {
            true => console.note(&none(namespace.as_deref(), any)),
            false => console.data(&rows_text(&rows, list.output, list.all_namespaces, now))?,
        }
        return Ok(0);
    }
    let found = jobs::list::list(&connection.client, &selection).await?;
    let any = !found.is_empty();
    let found = pick.from(found, view::row, now);
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
