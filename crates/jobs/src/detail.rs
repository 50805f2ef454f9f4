//! One job in full, for a page about it: its description, what it waits for and who must act, the steps of its way, and
//! the changes that may remove the cause of its trouble. All of it is computed from one reading of the cluster.

use std::time::Duration;

use api::Phase;
use kube::Client;
use kube::api::DynamicObject;
use plan::{Explanation, Step};

use crate::describe::{Children, Description, described};
use crate::explanation::{Explained, explained};
use crate::fix::{Fix, fixes};
use crate::last_lines::{MOST_LINES, last_lines};
use crate::view::health;
use crate::{Error, Kind, list, queue, runtime};

/// The time limit for the last lines of the output, which a page can do without.
const PATIENCE: Duration = Duration::from_secs(2);

/// A job in full.
#[derive(Clone, Debug)]
pub struct Detail {
    /// The job with its pods and events.
    pub description: Description,
    /// What it waits for, or how it ended.
    pub explanation: Explanation,
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// The changes that may remove the cause, the best one first.
    pub fixes: Vec<Fix>,
}

/// Reads a job in full. Of its output, the last lines are read if it failed or stalled, in at most [`PATIENCE`].
///
/// # Errors
/// If the job itself cannot be read.
pub async fn detail(client: &Client, kind: Kind, namespace: &str, name: &str) -> Result<Detail, Error> {
    let object = list::get(client, kind, namespace, name).await?;
    let place = async {
        // Only a queue's own suspension is a place in it.
        if kind.suspended(&object) { queue::place(client, namespace, &object).await } else { None }
    };
    let (children, place) = futures::join!(Children::read(client, &object), place);
    let Explained { explanation, steps, .. } =
        explained(client, &object, &children, place.as_ref(), None).await;
    let fixes = fixes(&object);
    let mut description = counted(client, object, &children).await;
    description.advise(&explanation);
    if has_last_lines(&description) {
        let lines = last_lines(client, &description.object, &children.pods, MOST_LINES);
        description.last_lines = tokio::time::timeout(PATIENCE, lines).await.unwrap_or_default();
    }
    Ok(Detail { description, explanation, steps, fixes })
}

/// Reads a job with its pods and events.
///
/// # Errors
/// If the job itself cannot be read.
pub async fn describe(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> Result<Description, Error> {
    let object = list::get(client, kind, namespace, name).await?;
    let children = Children::read(client, &object).await;
    let mut found = counted(client, object, &children).await;
    if kind == Kind::TrainJob {
        fill_from_runtime(client, &mut found).await;
    }
    if has_last_lines(&found) {
        found.last_lines = last_lines(client, &found.object, &children.pods, MOST_LINES).await;
    }
    if found.row.phase == Phase::Failed {
        let explained = explained(client, &found.object, &children, None, None).await;
        found.advise(&explained.explanation);
    }
    Ok(found)
}

/// Describes a job, and counts its Workers as the list of them shows them. Without a pod among them, the job's own counts are
/// all that is known.
async fn counted(client: &Client, object: DynamicObject, children: &Children) -> Description {
    let mut found = described(client, object, children).await;
    let Description { row, status, pods, object, .. } = &found;
    let listed = health::workers(row, status, pods);
    if listed.iter().any(|worker| worker.pod.is_some()) {
        found.row.workers = row.workers.recounted(&listed, row.ended, row.kind.suspended(object));
    }
    found
}

/// Whether the last lines of the output say something about the job: it failed, or it hangs.
fn has_last_lines(found: &Description) -> bool {
    found.row.phase == Phase::Failed || found.row.cause.is_some() && found.row.phase == Phase::Running
}

/// Fills in what a TrainJob leaves to its runtime, as far as that may be read.
async fn fill_from_runtime(client: &Client, found: &mut Description) {
    let Some(runtime) = runtime::used(client, &found.object).await else { return };
    if let Some(mpi) = runtime.mpi_implementation {
        found.row.mpi = mpi;
    }
    if found.row.image.is_empty() {
        found.row.image = runtime.images.into_iter().next().unwrap_or_default();
    }
}
