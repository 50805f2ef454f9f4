//! Finds the jobs that a command line means, and determines the exit code if only some of them succeed.

use jobs::list::{self, Selection};
use jobs::pick::{self, Pick};
use jobs::view::Row;
use jobs::{Class, Kind};

use crate::arguments::{Several, Target, read_words};
use crate::connect::Connection;
use crate::console::Console;
use crate::failure::Failure;

/// The hint about how to name a job.
const NAME_A_JOB: &str = "for example: odh training describe pi, or odh training describe @latest";

/// Returns the kind and name of the only job that is meant.
pub async fn one(connection: &Connection, target: &Target) -> Result<(Kind, String), Failure> {
    let (_, named) = read_words(&target.words);
    match &named[..] {
        [job] => Ok(job.resolve(&connection.client, &connection.namespace).await?),
        [] => {
            Err(Failure::usage(format!("\"{}\" is a kind; which job?", target.words.join(" ")), NAME_A_JOB))
        }
        several => {
            let names: Vec<&str> = several.iter().map(|job| job.name.as_str()).collect();
            Err(Failure::usage(format!("only one job is expected, not {}", names.join(" and ")), NAME_A_JOB))
        }
    }
}

/// Returns the kinds and names of the given jobs, or of those that are selected.
pub async fn many(
    console: &Console,
    connection: &Connection,
    which: &Several,
) -> Result<Vec<(Kind, String)>, Failure> {
    many_that(console, connection, which, |_| true).await
}

/// As [`many`]; a selection means only jobs that `can`: `cancel --all` is about those that can be cancelled.
pub async fn many_that(
    console: &Console,
    connection: &Connection,
    which: &Several,
    can: impl Fn(&Row) -> bool,
) -> Result<Vec<(Kind, String)>, Failure> {
    let (kind, named) = read_words(&which.words);
    match (named.is_empty(), which.is_selection()) {
        (false, true) => Err(Failure::usage(
            "jobs are given by name and by selection at once",
            "omit the names, or -l, --all, --status and --older-than",
        )),
        (true, false) => Err(Failure::usage(
            "no job is given",
            "name jobs, or select some: -l LABELS, --status STATES, --older-than AGE, --all",
        )),
        (false, false) => {
            let mut found = Vec::new();
            for job in &named {
                found.push(job.resolve(&connection.client, &connection.namespace).await?);
            }
            Ok(found)
        }
        (true, true) => selected(console, connection, kind, which, can).await,
    }
}

async fn selected(
    console: &Console,
    connection: &Connection,
    kind: Option<Kind>,
    which: &Several,
    can: impl Fn(&Row) -> bool,
) -> Result<Vec<(Kind, String)>, Failure> {
    let selection =
        Selection { kind, namespace: Some(connection.namespace.clone()), labels: which.selector.clone() };
    let rows = list::rows(&connection.client, &selection).await?;
    check_states(&which.status, &rows)?;
    let pick = Pick { states: which.status.clone(), until: which.older_than, ..Pick::default() };
    let found = pick.from(rows, Row::clone, jiff::Timestamp::now());
    if found.is_empty() {
        let namespace = &connection.namespace;
        let Some(labels) = &which.selector else {
            console.note(&format!("no training jobs in namespace {namespace} match"));
            return Ok(Vec::new());
        };
        let message = format!("no job in namespace \"{namespace}\" has the labels {labels}");
        return Err(Failure::new(Class::NotFound, "NotFound", message)
            .with_hint(format!("see the labels of all jobs: odh training list -n {namespace} -o json")));
    }
    let able: Vec<(Kind, String)> =
        found.into_iter().filter(|row| can(row)).map(|row| (row.kind, row.name)).collect();
    if able.is_empty() {
        console.note("none of the jobs that match is in a state for this");
    }
    Ok(able)
}

/// Refuses a word that is no state of any job: a typing error must not look like an empty result.
pub fn check_states(states: &[String], rows: &[Row]) -> Result<(), Failure> {
    let Some(unknown) = states.iter().find(|state| !pick::is_state(state, rows)) else { return Ok(()) };
    let hint = match jobs::manifest::nearest(unknown, &pick::known_states()) {
        Some(meant) => format!("did you mean {meant}?"),
        None => {
            "use Pending, Running, Succeeded, Failed or Deleting, or a reason like Suspended or ImagePull"
                .to_owned()
        }
    };
    Err(Failure::usage(format!("\"{unknown}\" is not a state of a job"), hint))
}

/// The classes of a single job's failure, the worst first: unexpected errors, what an administrator must change, what
/// the user must change, what time will change, and what is gone anyway.
const WORST_FIRST: [Class; 9] = [
    Class::Error,
    Class::NotAllowed,
    Class::Quota,
    Class::Invalid,
    Class::Conflict,
    Class::JobFailed,
    Class::StillRunning,
    Class::Cancelled,
    Class::NotFound,
];

/// The failures so far; one failure does not stop the others from being tried.
#[derive(Default)]
pub struct Each(Option<Class>);

impl Each {
    /// Prints a failure, and remembers the worst class.
    pub fn failed(&mut self, console: &Console, failure: &Failure) {
        console.failure(failure);
        self.0 = self.0.into_iter().chain([failure.class]).min_by_key(|class| place(*class));
    }

    /// Returns the exit code of the worst failure, or `rest` if there was none.
    pub fn ending(self, rest: u8) -> u8 {
        self.0.map_or(rest, Class::exit_code)
    }
}

fn place(class: Class) -> usize {
    WORST_FIRST.iter().position(|known| *known == class).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Color, Output};

    #[test]
    fn the_worst_failure_decides_whatever_the_order() {
        let console = Console::new(Color::Never, Output::Table);
        for order in [[Class::NotFound, Class::NotAllowed], [Class::NotAllowed, Class::NotFound]] {
            let mut each = Each::default();
            for class in order {
                each.failed(&console, &Failure::new(class, "Test", "as it should"));
            }
            assert_eq!(each.ending(0), 4);
        }
        assert_eq!(Each::default().ending(100), 100);
    }

    #[test]
    fn a_word_that_is_no_state_is_refused() {
        let states = |word: &str| check_states(&[word.to_owned()], &[]).map_err(|failure| failure.hints);
        for known in ["failed", "Deleting", "suspended", "OutOfMemory", "stalled"] {
            assert_eq!(states(known), Ok(()), "{known}");
        }
        assert_eq!(states("faild"), Err(vec!["did you mean Failed?".to_owned()]));
        assert!(states("bogus").is_err());
    }
}
