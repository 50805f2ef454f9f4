//! The same verb on several jobs: which they are, and how the command ends if it worked for some of them only.

use jobs::list::{self, Selection};
use kube::ResourceExt;

use crate::arguments::Several;
use crate::connect::Connection;
use crate::console::Console;
use crate::failure::Failure;

/// The names given, or those of all jobs with the labels.
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
            jobs::Class::NotFound,
            "NotFound",
            format!("no job in namespace \"{}\" has the labels {labels}", connection.namespace),
        )
        .with_hint(format!(
            "see what labels there are: odh training list -n {} -o json",
            connection.namespace
        )));
    }
    Ok(found.iter().map(ResourceExt::name_any).collect())
}

/// What has failed until now: one failure does not keep the others from being tried.
#[derive(Default)]
pub struct Each {
    last: Option<Failure>,
    first_code: Option<u8>,
}

impl Each {
    /// Notes a failure; those before the last are told at once.
    pub fn failed(&mut self, console: &Console, failure: Failure) {
        self.first_code.get_or_insert(failure.exit_code());
        if let Some(earlier) = self.last.replace(failure) {
            console.failure(&earlier);
        }
    }

    /// The last failure, with the first one's exit code; 0 if there was none.
    pub fn ending(self) -> Result<u8, Failure> {
        match self.last {
            None => Ok(0),
            Some(mut failure) => {
                failure.passed_on = self.first_code;
                Err(failure)
            }
        }
    }
}
