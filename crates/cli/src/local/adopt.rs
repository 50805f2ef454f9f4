//! Changes of a running cluster: it reads the remembered options on SIGUSR1 and adopts its images, nodes and GPUs.

use std::time::{Duration, Instant};

use jobs::Class;
use nix::sys::signal::Signal;

use super::down;
use super::home::Home;
use super::remembered::{self, Remembered};
use super::state::State;
use crate::arguments::ClusterOptions;
use crate::console::Console;
use crate::failure::Failure;

/// How long a cluster may take to adopt a change, and the interval of checks. A thousand nodes take some seconds.
const ADOPTS_WITHIN: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);

/// Lets a running cluster adopt the options that were given, and says what changes; returns its state after that.
///
/// # Errors
/// If pods run on a node that would be removed, or the cluster does not answer.
pub fn given(console: &Console, home: &Home, state: State, given: &ClusterOptions) -> Result<State, Failure> {
    let is = Remembered::of(&state, &remembered::read(home));
    let wanted = is.clone().with(given);
    if wanted == is {
        return Ok(state);
    }
    let adopted = apply(home, Some(&state), &wanted)?.unwrap_or(state);
    for name in
        wanted.images.iter().filter(|(name, at)| is.images.get(*name) != Some(at)).map(|(name, _)| name)
    {
        console.note(&format!("image/{name} is mapped from now on; running pods keep what they have"));
    }
    if (wanted.nodes, wanted.gpus) != (is.nodes, is.gpus) {
        let count =
            |number: u32, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
        console.note(&format!(
            "the cluster has {} with {} each from now on, instead of {} with {}",
            count(wanted.nodes, "node"),
            count(wanted.gpus, "GPU"),
            count(is.nodes, "node"),
            count(is.gpus, "GPU"),
        ));
    }
    Ok(adopted)
}

/// Remembers what is wanted, and waits until the cluster has adopted it if it is up; returns its state after that. What a
/// cluster refuses is not remembered.
///
/// # Errors
/// See [`given`].
pub fn apply(home: &Home, state: Option<&State>, wanted: &Remembered) -> Result<Option<State>, Failure> {
    home.make()?;
    remembered::write(home, wanted)?;
    let Some(state) = state else { return Ok(None) };
    down::signal(state, Signal::SIGUSR1)?;
    let ends = Instant::now() + ADOPTS_WITHIN;
    while Instant::now() < ends {
        match State::alive(home) {
            Some(after) if after.adoptions > state.adoptions => {
                let Some(why) = &after.refused else { return Ok(Some(after)) };
                remembered::write(home, &Remembered::of(&after, wanted))?;
                return Err(Failure::new(
                    Class::Conflict,
                    "NotAdopted",
                    format!("the nodes of the local cluster cannot change: {why}"),
                )
                .with_hint("empty the nodes with the highest numbers first: odh local node drain NODE"));
            }
            Some(_) => std::thread::sleep(LOOK),
            None => break,
        }
    }
    Err(Failure::new(Class::Error, "NotAdopted", "the local cluster has not adopted the change")
        .with_hint(format!("see its log: {}; or stop and start it: odh local down", home.log().display())))
}
