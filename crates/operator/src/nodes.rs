//! Which nodes do not report any more, asked once for all jobs that have pods on them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::Api;

/// An answer is good for this long, unless a pod of the node became unready after it was given.
const FRESH: Duration = Duration::from_secs(30);

/// What the API server answered about nodes lately, by their names.
#[derive(Default)]
pub(crate) struct SharedNodes {
    answers: Mutex<BTreeMap<String, Answer>>,
}

#[derive(Clone)]
struct Answer {
    at: Instant,
    /// When the pod became unready for whose sake the node was asked for.
    since: Timestamp,
    /// Why the node counts as lost, if it does.
    lost: Option<String>,
}

impl SharedNodes {
    /// Returns the message of the node's Ready condition if the node no longer reports; `None` if it reports or cannot be
    /// read. `since` is when a pod of it last became unready while its containers are ready.
    pub(crate) async fn words_of_lost(
        &self,
        client: &Client,
        node: &str,
        since: Timestamp,
    ) -> Option<String> {
        if let Some(answer) = self.known(node, since) {
            return answer.lost;
        }
        // Taken before the request: the answer may lack what happens during it.
        let at = Instant::now();
        let found = match Api::<Node>::all(client.clone()).get_opt(node).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(node, %error, "cannot read a node");
                return None;
            }
        };
        let lost = found.as_ref().and_then(words);
        let answer = Answer { at, since, lost: lost.clone() };
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|_, answer| answer.at.elapsed() < FRESH);
        answers.insert(node.to_owned(), answer);
        lost
    }

    fn known(&self, node: &str, since: Timestamp) -> Option<Answer> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(node).filter(|known| known.at.elapsed() < FRESH && since <= known.since).cloned()
    }
}

fn words(node: &Node) -> Option<String> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    (ready.status == "Unknown").then(|| ready.message.clone().unwrap_or_default())
}
