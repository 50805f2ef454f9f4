//! Which changes start another cycle: those that add a pod to place, and those that could help a waiting one. The
//! decision is pure; [`listen`] connects it to the caches.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::order::is_waiting;
use super::snapshot::node_name;
use controller_runtime::cache::Change;
use semantics::has_ended;

/// Notifies `wake` of relevant changes until `until` is cancelled.
pub fn listen(context: &Context, wake: &Arc<Notify>, until: &CancellationToken) {
    let to = wake.clone();
    context.pods.on_change(until, move |change| {
        if pod_matters(change) {
            to.notify_one();
        }
    });
    let to = wake.clone();
    context.nodes.on_change(until, move |change| {
        if node_matters(change) {
            to.notify_one();
        }
    });
    let to = wake.clone();
    context.namespaces.on_change(until, move |_| to.notify_one());
    let to = wake.clone();
    context.claims.on_change(until, move |_| to.notify_one());
    let to = wake.clone();
    context.volumes.on_change(until, move |_| to.notify_one());
    let to = wake.clone();
    context.classes.on_change(until, move |_| to.notify_one());
    let to = wake.clone();
    // A budget that allows more evictions may change the victims. Notify on any change of a budget.
    context.budgets.on_change(until, move |_| to.notify_one());
}

/// Returns whether a pod to place is new or changed, or a pod was bound, freed resources or changed its labels.
fn pod_matters(change: &Change<Pod>) -> bool {
    match (&change.old, &change.new) {
        (_, Some(new)) if is_waiting(new) => {
            // Our own condition on it does not count.
            change
                .old
                .as_ref()
                .is_none_or(|old| old.spec != new.spec || old.metadata.labels != new.metadata.labels)
        }
        (None, Some(_)) => true,
        (Some(old), Some(new)) => {
            node_name(old) != node_name(new)
                || has_ended(old) != has_ended(new)
                || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
                || old.metadata.labels != new.metadata.labels
        }
        (_, None) => true,
    }
}

/// Returns whether the change affects a filter; a heartbeat does not.
fn node_matters(change: &Change<Node>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let allocatable = |node: &Node| node.status.as_ref().map(|s| (s.allocatable.clone(), s.capacity.clone()));
    old.spec != new.spec || old.metadata.labels != new.metadata.labels || allocatable(old) != allocatable(new)
}
