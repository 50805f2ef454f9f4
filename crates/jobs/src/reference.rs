//! A job as people refer to it: by kind and name, by its name alone, or as the newest one.

use futures::future::join_all;
use kube::Client;

use crate::list::{self, Selection};
use crate::{Advice, Attempt, Class, Error, Kind, view};

/// The name that stands for the newest job.
pub const LATEST: &str = "@latest";

/// A reference to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The kind; found out if not given.
    pub kind: Option<Kind>,
    /// The name, or [`LATEST`].
    pub name: String,
}

impl Reference {
    /// Returns the job's kind and name. Without a kind, every kind that the cluster serves is asked for the name.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Refused`] if several kinds have a job of that name, or the server's refusal.
    pub async fn resolve(&self, client: &Client, namespace: &str) -> Result<(Kind, String), Error> {
        match self.kind {
            _ if self.name == LATEST => latest(client, self.kind, namespace).await,
            Some(kind) => Ok((kind, self.name.clone())),
            None => Ok((kind_of(client, namespace, &self.name).await?, self.name.clone())),
        }
    }
}

/// The kind of the only job of this name.
async fn kind_of(client: &Client, namespace: &str, name: &str) -> Result<Kind, Error> {
    let answers = join_all(Kind::ALL.map(|kind| async move {
        let attempt = Attempt { verb: "get", what: kind.names(), name, namespace };
        let found = kind.api(client, namespace).get_metadata_opt(name).await;
        found.map(|found| found.map(|_| kind)).map_err(|error| Error::from_kube(error, attempt))
    }));
    let mut found = Vec::new();
    let mut refusal = None;
    for answer in answers.await {
        match answer {
            Ok(kind) => found.extend(kind),
            // The first kind is ours: its refusal tells most.
            Err(error) => {
                refusal.get_or_insert(error);
            }
        }
    }
    match (&found[..], refusal) {
        ([kind], _) => Ok(*kind),
        ([], Some(error)) if error.class() != Class::NotFound => Err(error),
        ([], _) => Err(list::not_found(client, None, namespace, name).await),
        (several, _) => {
            let kinds: Vec<&str> = several.iter().map(|kind| kind.name()).collect();
            Err(Error::Refused {
                class: Class::Usage,
                reason: "Ambiguous".to_owned(),
                message: format!("several jobs are named \"{name}\": {}", kinds.join(", ")),
                advice: Some(Advice::from("give the kind before the name")),
                faults: Vec::new(),
            })
        }
    }
}

/// The newest job of the namespace.
async fn latest(client: &Client, kind: Option<Kind>, namespace: &str) -> Result<(Kind, String), Error> {
    let selection = Selection { kind, namespace: Some(namespace.to_owned()), labels: None };
    let jobs = list::list(client, &selection).await?;
    let rows = jobs.iter().map(view::row).filter(|row| !row.deleting);
    let newest = rows.max_by_key(|row| row.created);
    newest.map(|row| (row.kind, row.name)).ok_or_else(|| Error::Refused {
        class: Class::NotFound,
        reason: "NotFound".to_owned(),
        message: format!("there is no training job in namespace \"{namespace}\""),
        advice: None,
        faults: Vec::new(),
    })
}
