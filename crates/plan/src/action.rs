//! Advice as values: what to do, in words that fit every interface, and the actions that do it.
//!
//! Nothing here names a command, a flag or a button. The command line words an [`Action`] as a command; a service
//! passes it on as JSON, and a dashboard makes a button or a link of it.

use api::Phase;
use serde::{Deserialize, Serialize};

/// The job that an action is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobRef {
    /// The kind, as spelled in `kind:`, e.g. `MPIJob`.
    pub kind: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// Something that a person can do. In JSON, an object with the action's name and its parameters:
/// `{"action": "Resume", "kind": "MPIJob", "namespace": "team", "name": "pi"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all_fields = "camelCase")]
pub enum Action {
    /// Look at the job, its pods and their events.
    Describe(JobRef),
    /// Explain what the job waits for.
    Explain(JobRef),
    /// Wait for the job's end.
    Wait(JobRef),
    /// Resume the suspended job.
    Resume(JobRef),
    /// Run the ended job again.
    Retry(JobRef),
    /// End it for good, without deleting it.
    Cancel(JobRef),
    /// Run another job like this one.
    Clone(JobRef),
    /// Delete the job.
    Delete(JobRef),
    /// Delete the job and its pods without a grace period.
    ForceDelete(JobRef),
    /// See what the job's pods use.
    ShowUsage(JobRef),
    /// Read the job's logs.
    Logs {
        /// The job.
        #[serde(flatten)]
        job: JobRef,
        /// The Workers to read, e.g. `0-99`; the Launcher if not given.
        #[serde(skip_serializing_if = "Option::is_none")]
        workers: Option<String>,
        /// Whether to wait for output.
        follow: bool,
        /// Whether to read the log of the previous run of each container.
        previous: bool,
    },
    /// List jobs.
    ListJobs {
        /// The namespace; all if not given.
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// Only jobs in these phases; all jobs if empty.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        phases: Vec<Phase>,
    },
    /// List the templates in a namespace.
    ListTemplates {
        /// The namespace.
        namespace: String,
    },
    /// List the queues of a namespace.
    ListQueues {
        /// The namespace.
        namespace: String,
    },
    /// Create a namespace.
    CreateNamespace {
        /// Its name.
        namespace: String,
    },
    /// Log in to the cluster again.
    LogIn,
    /// Create the job suspended.
    CreateSuspended,
    /// Create the job without the checks before it, and leave them to the server.
    SkipPreflight,
    /// Start a cluster on one's own machine.
    StartLocalCluster,
}

impl Action {
    /// Lists all jobs of a namespace.
    #[must_use]
    pub fn list_jobs(namespace: &str) -> Self {
        Action::ListJobs { namespace: Some(namespace.to_owned()), phases: Vec::new() }
    }
}

/// What to do about something. It is part of larger objects in JSON: `{…, "advice": "…", "actions": […]}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Advice {
    /// The advice for people, complete without the actions.
    #[serde(rename = "advice")]
    pub text: String,
    /// The actions that it recommends, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
}

impl Advice {
    /// Adds an action.
    #[must_use]
    pub fn with(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }
}

impl From<String> for Advice {
    fn from(text: String) -> Self {
        Advice { text, actions: Vec::new() }
    }
}

impl From<&str> for Advice {
    fn from(text: &str) -> Self {
        Advice::from(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn actions_have_a_stable_form_in_json() {
        let job =
            || JobRef { kind: "MPIJob".to_owned(), namespace: "team".to_owned(), name: "pi".to_owned() };
        let logs = Action::Logs { job: job(), workers: None, follow: true, previous: false };
        let advice = Advice::from("see it")
            .with(Action::Resume(job()))
            .with(logs)
            .with(Action::ListJobs { namespace: None, phases: vec![Phase::Failed] });
        let written = json!({ "advice": "see it", "actions": [
            { "action": "Resume", "kind": "MPIJob", "namespace": "team", "name": "pi" },
            { "action": "Logs", "kind": "MPIJob", "namespace": "team", "name": "pi", "follow": true,
                "previous": false },
            { "action": "ListJobs", "phases": ["Failed"] } ] });
        assert_eq!(serde_json::to_value(&advice).unwrap(), written);
        assert_eq!(serde_json::from_value::<Advice>(written).unwrap(), advice);
        let none = serde_json::to_value(Advice::from("ask")).unwrap();
        assert_eq!(none, json!({ "advice": "ask" }));
    }
}
