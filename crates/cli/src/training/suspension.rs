//! `suspend` and `resume`, for one job or several.

use jobs::suspension::SuspensionChange;

use super::several;
use crate::arguments::{Global, Output, Several};
use crate::connect::connect;
use crate::console::Console;
use crate::failure::Failure;
use crate::object;

/// `odh training suspend …` (`true`) and `odh training resume …`
pub async fn run(
    console: &Console,
    global: &Global,
    which: &Several,
    output: Output,
    suspend: bool,
) -> Result<u8, Failure> {
    let connection = connect(console, global).await?;
    let (client, namespace) = (&connection.client, &connection.namespace);
    let mut objects = Vec::new();
    let mut each = several::Each::default();
    for (kind, name) in several::many(console, &connection, which).await? {
        match jobs::suspension::set(client, kind, namespace, &name, suspend).await {
            Ok(SuspensionChange { object, changed }) => {
                let became = match (suspend, changed) {
                    (true, true) => "suspended",
                    (true, false) => "is already suspended",
                    (false, true) => "resumed",
                    (false, false) => "is not suspended",
                };
                if !output.shows_objects() {
                    let text = match output {
                        Output::Name => object::name(&object),
                        _ => format!("{} {became}", object::name(&object)),
                    };
                    console.data(&(text + "\n"))?;
                }
                objects.push(object::value(&object));
            }
            Err(error) => each.failed(console, &error.into()),
        }
    }
    if output.shows_objects() && !objects.is_empty() {
        console.data(&object::text(&object::together(objects, false), output)?)?;
    }
    Ok(each.ending(0))
}
