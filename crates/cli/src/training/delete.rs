//! `delete`: asks on a terminal, needs `--yes` elsewhere, waits until nothing is left.

use std::io::{IsTerminal, Write};

use jobs::Class;
use jobs::delete::Manner;

use super::several;
use crate::arguments::{Delete, Global, Output};
use crate::connect::{Connection, connect};
use crate::console::{Console, STRONG, styled};
use crate::failure::Failure;
use crate::object;

/// `odh training delete mpijob NAME…`
pub async fn run(console: &Console, global: &Global, delete: &Delete) -> Result<u8, Failure> {
    if !delete.yes && !can_ask() {
        return Err(Failure::usage("deleting needs --yes where nobody can be asked", "add --yes"));
    }
    let connection = connect(console, global).await?;
    let kind = jobs::Kind::from(delete.several.kind);
    let names = several::names(&connection, &delete.several).await?;
    let mut objects = Vec::new();
    for name in &names {
        objects.push(jobs::list::get(&connection.client, kind, &connection.namespace, name).await?);
    }
    if !delete.yes && !ask(&connection, delete, &names) {
        return Err(Failure::new(Class::Error, "NotConfirmed", "nothing was deleted"));
    }
    let manner = Manner { force: delete.force, wait: (!delete.no_wait).then_some(delete.timeout) };
    for name in &names {
        jobs::delete::delete(&connection.client, kind, &connection.namespace, name, manner).await?;
        match delete.output {
            Output::Table | Output::Wide => console.data(&format!("{}/{name} deleted\n", kind.word()))?,
            Output::Name => console.data(&format!("{}/{name}\n", kind.word()))?,
            Output::Json | Output::Yaml | Output::Template(_) => {}
        }
    }
    if delete.output.shows_objects() {
        let values = objects.iter().map(object::value).collect();
        console.data(&object::text(&object::together(values, false), delete.output)?)?;
    }
    Ok(0)
}

fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

fn ask(connection: &Connection, delete: &Delete, names: &[String]) -> bool {
    let names: Vec<String> = names.iter().map(|name| styled(STRONG, name)).collect();
    let stopped = if delete.force { "killed at once" } else { "stopped" };
    let question = format!(
        "Delete {} in namespace {}? What still runs is {stopped}; logs and results kept in the pods are lost. [y/N] ",
        names.join(", "),
        styled(STRONG, &connection.namespace),
    );
    let _ = write!(anstream::stderr().lock(), "{question}");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes" | "Yes")
}
