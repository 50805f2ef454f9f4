//! `delete`: asks for confirmation on a terminal, needs `--yes` elsewhere, waits until nothing is left.

use std::io::{IsTerminal, Write};

use jobs::Class;
use jobs::delete::Manner;

use super::several;
use crate::arguments::{Delete, Global, Output};
use crate::connect::{Connection, connect};
use crate::console::{Console, STRONG, safe, styled};
use crate::failure::Failure;
use crate::object;

/// The maximum number of jobs named in the question.
const MOST_NAMED: usize = 10;

/// `odh training delete NAME…`
pub async fn run(console: &Console, global: &Global, delete: &Delete) -> Result<u8, Failure> {
    if !delete.yes && !can_ask() {
        return Err(Failure::usage("deleting without a terminal requires --yes", "add --yes"));
    }
    let connection = connect(console, global).await?;
    let named = several::many(console, &connection, &delete.several).await?;
    let mut each = several::Each::default();
    let mut there = Vec::new();
    for (kind, name) in &named {
        match jobs::list::get(&connection.client, *kind, &connection.namespace, name).await {
            Ok(object) => there.push((*kind, name.clone(), object)),
            Err(error) => each.failed(console, &error.into()),
        }
    }
    if there.is_empty() {
        return Ok(each.ending(0));
    }
    let names: Vec<&str> = there.iter().map(|(_, name, _)| name.as_str()).collect();
    if !delete.yes && !ask(&connection, delete, &names) {
        return Err(Failure::new(Class::Error, "NotConfirmed", "nothing was deleted"));
    }
    let manner = Manner { force: delete.force, wait: (!delete.no_wait).then_some(delete.timeout) };
    let mut deleted = Vec::new();
    for (kind, name, object) in &there {
        match jobs::delete::delete(&connection.client, *kind, &connection.namespace, name, manner).await {
            Ok(()) => {
                say(console, delete.output, &object::name(object))?;
                deleted.push(object::value(object));
            }
            Err(error) => each.failed(console, &error.into()),
        }
    }
    if delete.output.shows_objects() && !deleted.is_empty() {
        console.data(&object::text(&object::together(deleted, false), delete.output)?)?;
    }
    Ok(each.ending(0))
}

fn say(console: &Console, output: Output, name: &str) -> Result<(), Failure> {
    match output {
        Output::Table | Output::Wide => console.data(&format!("{name} deleted\n")),
        Output::Name => console.data(&format!("{name}\n")),
        Output::Json | Output::Yaml | Output::Template(_) => Ok(()),
    }
}

fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

fn ask(connection: &Connection, delete: &Delete, names: &[&str]) -> bool {
    let more = names.len().saturating_sub(MOST_NAMED);
    let mut names: Vec<String> = names.iter().take(MOST_NAMED).map(|name| styled(STRONG, name)).collect();
    names.extend((more > 0).then(|| format!("and {more} more")));
    let stopped = if delete.force { "killed immediately" } else { "stopped" };
    let question = format!(
        "Delete {} in namespace {}? Running pods are {stopped}; logs and results in the pods are lost. [y/N] ",
        names.join(", "),
        styled(STRONG, &connection.namespace),
    );
    let _ = write!(anstream::stderr().lock(), "{}", safe(&question));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes" | "Yes")
}
