//! What the diagnosis must get right: the measured samples, altered samples, runs that did not fail, hostile input,
//! and statuses and events; also the documents generated from it.

mod classes;
mod cluster;
mod declared;
mod disturbed;
mod documents;
mod hostile;
mod near_misses;
mod requirements;
mod samples;
mod written;

use super::{Diagnosis, Ending, Facts, Output, diagnose};

/// The diagnosis of a text alone.
fn of(text: &str, ending: Ending) -> Option<Diagnosis> {
    diagnose(&Output::from(text), ending, &Facts::default())
}

/// Its cause's word; `null` if nothing failed.
fn word(text: &str, ending: Ending) -> &'static str {
    of(text, ending).map_or("null", |diagnosis| diagnosis.cause.word())
}
