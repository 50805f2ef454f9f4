//! Applies a verb to several jobs: selects them, and determines the exit code if only some succeed.

use jobs::Class;
use jobs::list::{self, Selection};
use kube::ResourceExt;

use crate::arguments::Several;
use crate::connect::Connection;
use crate::console::Console;
use crate::failure::Failure;

/// Returns the given names, or those of all jobs with the labels.
pub async fn names(connection: &Connection, which: &Several) -> Result<Vec<String>, Failure> {
    let Some(labels) = &which.selector else { return Ok(which.names.clone()) };
    let selection = Selection {
        kind: Some(which.kind.into()),
        namespace: Some(connection.namespace.clone()),
        labels: Some(labels.clone()),
    };
    let found = list::list(&connection.client, &selection).await?;
    if found.is_empty() {
        return Err(Failure::new(
            Class::NotFound,
            "NotFound",
            format!("no job in namespace \"{}\" has the labels {labels}", connection.namespace),
        )
        .with_hint(format!(
            "see the labels of all jobs: odh training list -n {} -o json",
            connection.namespace
        )));
    }
    Ok(found.iter().map(ResourceExt::name_any).collect())
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
}
