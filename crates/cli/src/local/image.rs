//! `odh local image …`: maps image names to directories. The mapping is stored with the options of the last start, and
//! a running cluster reloads it on SIGUSR1.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jobs::Class;
use nix::sys::signal::Signal;
use semantics::local_images::LocalImages;
use serde_json::{Value, json};

use super::home::Home;
use super::state::State;
use super::{down, remembered};
use crate::arguments::ImageVerb;
use crate::console::Console;
use crate::failure::Failure;
use crate::{object, table};

/// How long a cluster may take to adopt the images, and the interval of checks.
const ADOPTS_WITHIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);

/// `odh local image VERB`
pub fn run(console: &Console, verb: &ImageVerb) -> Result<u8, Failure> {
    let home = Home::find()?;
    let state = State::alive(&home);
    let mapped = match &state {
        Some(state) => of(state),
        None => remembered::images(&home),
    };
    match verb {
        ImageVerb::List(asked) => {
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
            let mut wanted = mapped;
            wanted.extend(added.iter().cloned());
            apply(&home, state.as_ref(), wanted)?;
            for (name, directory) in added {
                console.data(&format!("image/{name} is mapped to {}\n", directory.display()))?;
            }
            not_up(console, state.as_ref());
        }
        ImageVerb::Rm { names } => {
            let mut wanted = mapped.clone();
            for name in names {
                if wanted.remove(name).is_none() {
                    let known: Vec<&str> = mapped.keys().map(String::as_str).collect();
                    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                    let message = format!("image \"{name}\" is not mapped");
                    return Err(Failure::new(Class::NotFound, "NotFound", message)
                        .with_hint(format!("mapped images: {known}")));
                }
            }
            apply(&home, state.as_ref(), wanted)?;
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

/// Maps the images that were asked for on a running cluster as well; returns its state after that, and the names of those
/// that are new.
pub fn adopt(
    home: &Home,
    state: State,
    asked: &[(String, PathBuf)],
) -> Result<(State, Vec<String>), Failure> {
    let new = |(name, directory): &&(String, PathBuf)| state.images.get(name) != Some(directory);
    let new: Vec<(String, PathBuf)> = asked.iter().filter(new).cloned().collect();
    if new.is_empty() {
        return Ok((state, Vec::new()));
    }
    let names = new.iter().map(|(name, _)| name.clone()).collect();
    let mut wanted = of(&state);
    wanted.extend(new);
    apply(home, Some(&state), wanted)?;
    Ok((State::alive(home).unwrap_or(state), names))
}

/// The images that a cluster's owner has mapped.
fn of(state: &State) -> LocalImages {
    let mut images = state.images.clone();
    images.remove(api::LAUNCH_IMAGE);
    images
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

/// Remembers what is to be mapped, and waits until the cluster has adopted it if it is up.
fn apply(home: &Home, state: Option<&State>, wanted: LocalImages) -> Result<(), Failure> {
    home.make()?;
    remembered::remember_images(home, state, &wanted)?;
    let Some(state) = state else { return Ok(()) };
    down::signal(state, Signal::SIGUSR1)?;
    let ends = Instant::now() + ADOPTS_WITHIN;
    while Instant::now() < ends {
        match State::alive(home) {
            Some(state) if of(&state) == wanted => return Ok(()),
            Some(_) => std::thread::sleep(LOOK),
            None => break,
        }
    }
    Err(Failure::new(Class::Error, "NotAdopted", "the local cluster has not adopted the images")
        .with_hint(format!("see its log: {}; or stop and start it: odh local down", home.log().display())))
}
