//! Reads lists page by page, so that neither side holds more than a page of whole objects, and reports when a list was
//! too long to be read completely: counting only a part would be wrong.
//!
//! It reads and decides nothing: what nodes offer and pods hold is counted by [`plan::Capacity`].

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, ListParams};
use plan::Capacity;
use serde::de::DeserializeOwned;

/// The number of objects in a page.
pub const PAGE: u32 = 500;
/// The maximum number of pages read from one list.
pub const MOST_PAGES: usize = 200;

/// Pods that have not ended.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Reads at most `most_pages` pages and hands each to `keep`; returns whether that was the whole list.
///
/// # Errors
/// The server's errors, including the one for a list that changed too much to be continued.
pub async fn each<K>(
    api: &Api<K>,
    selection: ListParams,
    most_pages: usize,
    mut keep: impl FnMut(Vec<K>),
) -> Result<bool, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut parameters = selection.limit(PAGE);
    for _ in 0..most_pages {
        let page = api.list(&parameters).await?;
        keep(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(true),
        }
    }
    Ok(false)
}

/// Counts what all nodes offer and all pods hold. `None` if that may not be listed, or is too much to be read
/// completely.
pub async fn capacity(client: &Client) -> Option<Capacity> {
    let (nodes, pods): (Api<Node>, Api<Pod>) = (Api::all(client.clone()), Api::all(client.clone()));
    let (mut offered, mut held) = (Capacity::default(), Capacity::default());
    let not_ended = ListParams::default().fields(NOT_ENDED);
    let (nodes, pods) = futures::join!(
        each(&nodes, ListParams::default(), MOST_PAGES, |nodes| offered.add_nodes(nodes)),
        each(&pods, not_ended, MOST_PAGES, |pods| held.add_pods(&pods)),
    );
    (nodes.ok()? && pods.ok()?).then(|| offered.with(held))
}
