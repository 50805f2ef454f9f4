//! `odh local image …`: maps image names to directories, which a running cluster adopts.

use std::path::{Path, PathBuf};

use jobs::Class;
use serde_json::{Value, json};

use super::home::Home;
use super::remembered::Remembered;
use super::state::State;
use super::{adopt, remembered};
use crate::arguments::ImageVerb;
use crate::console::Console;
use crate::failure::Failure;
use crate::{object, table};

/// `odh local image VERB`
pub fn run(console: &Console, verb: &ImageVerb) -> Result<u8, Failure> {
    let home = Home::find()?;
    let state = State::alive(&home);
    let last = remembered::read(&home);
    let mut wanted = match &state {
        Some(state) => Remembered::of(state, &last),
        None => last,
    };
    match verb {
        ImageVerb::List(asked) => {
            let mapped = &wanted.images;
            let rows: Vec<Value> = mapped
                .iter()
                .map(|(name, directory)| json!({"name": name, "directory": directory}))
                .collect();
            if asked.output.shows_objects() {
                console.data(&object::text(&json!(rows), asked.output)?)?;
            } else if rows.is_empty() {
                console.data("No images are mapped; map one with: odh local image add NAME=DIR\n")?;
            } else {
                let rows = mapped.iter().map(|(name, at)| vec![name.clone(), at.display().to_string()]);
                console.data(&table::table(&["IMAGE", "DIRECTORY"], &rows.collect::<Vec<_>>()))?;
            }
        }
        ImageVerb::Add { images } => {
            let added =
                images.iter().map(|(name, directory)| Ok((name.clone(), directory_of(name, directory)?)));
            let added = added.collect::<Result<Vec<_>, Failure>>()?;
            wanted.images.extend(added.iter().cloned());
            adopt::apply(&home, state.as_ref(), &wanted)?;
            for (name, directory) in added {
                console.data(&format!("image/{name} is mapped to {}\n", directory.display()))?;
            }
            not_up(console, state.as_ref());
        }
        ImageVerb::Rm { names } => {
            let known: Vec<String> = wanted.images.keys().cloned().collect();
            for name in names {
                if wanted.images.remove(name).is_none() {
                    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                    let message = format!("image \"{name}\" is not mapped");
                    return Err(Failure::new(Class::NotFound, "NotFound", message)
                        .with_hint(format!("mapped images: {known}")));
                }
            }
            adopt::apply(&home, state.as_ref(), &wanted)?;
            for name in names {
                console.data(&format!("image/{name} is no longer mapped\n"))?;
            }
            not_up(console, state.as_ref());
        }
    }
    Ok(0)
}

fn not_up(console: &Console, state: Option<&State>) {
    if state.is_none() {
        console.note("the local cluster is not up; this takes effect when it starts: odh local up");
    }
}

/// Returns the absolute path of an image's directory.
///
/// # Errors
/// If it is not there.
pub fn directory_of(name: &str, directory: &Path) -> Result<PathBuf, Failure> {
    let found = std::fs::canonicalize(directory).ok().filter(|directory| directory.is_dir());
    found.ok_or_else(|| {
        Failure::usage(
            format!("image {name}: directory not found: {}", directory.display()),
            "give a directory whose bin/ contains the programs, e.g. a Python virtual environment",
        )
    })
}
