//! Maintains the status of PodDisruptionBudgets, by which the API refuses evictions.
//!
//! Input: budgets, pods and their controllers from the shared caches. Output: the status. The pure module [`decide`]
//! computes it. Supported controllers are ReplicaSets (and their Deployments) and ReplicationControllers. For other
//! controllers the number of wanted pods is unknown, so percentages cannot be computed.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, PostParams};
use kube::{Client, Resource, ResourceExt};

mod decide;

use super::cache::{Cache, Key};
use super::queue::{Queue, work};
use super::record::{Note, Recorder};
use super::{Error, allow};
use controller_runtime::supervision::Scope;
use decide::BudgetState;

/// Responses that need no retry: the object is gone, or its change leads to another step.
const SETTLED: [u16; 2] = [404, 409];
/// Budgets processed concurrently.
const CONCURRENCY: usize = 4;

/// The controller's dependencies.
#[derive(Clone)]
pub struct Context {
    /// The API.
    pub client: Client,
    /// Every budget.
    pub budgets: Cache<PodDisruptionBudget>,
    /// Every pod.
    pub pods: Cache<Pod>,
    /// Every Deployment.
    pub deployments: Cache<Deployment>,
    /// Every ReplicaSet.
    pub replica_sets: Cache<ReplicaSet>,
    /// Every ReplicationController.
    pub replication_controllers: Cache<ReplicationController>,
    /// Records Events.
    pub recorder: Recorder,
}

/// Runs until the scope ends.
pub async fn run(context: Context, scope: Scope) {
    let queue: Arc<Queue<Key>> = Arc::default();
    let to = queue.clone();
    context.budgets.on_change(&scope.stop, move |change| {
        if let Some(budget) = change.latest() {
            to.add(Key::of(budget.as_ref()));
        }
    });
    let (to, budgets) = (queue.clone(), context.budgets.clone());
    context.pods.on_change(&scope.stop, move |change| {
        let Some(namespace) = change.latest().and_then(|pod| pod.namespace()) else { return };
        for budget in budgets.list_in(&namespace) {
            let both = [&change.old, &change.new].into_iter().flatten();
            if both.into_iter().any(|pod| decide::selects(&budget, pod)) {
                to.add(Key::of(budget.as_ref()));
            }
        }
    });
    wake_by(&context.deployments, &context.budgets, &queue, &scope);
    wake_by(&context.replica_sets, &context.budgets, &queue, &scope);
    wake_by(&context.replication_controllers, &context.budgets, &queue, &scope);
    context.budgets.filled().await;
    context.pods.filled().await;
    context.deployments.filled().await;
    context.replica_sets.filled().await;
    context.replication_controllers.filled().await;
    for budget in context.budgets.list() {
        queue.add(Key::of(budget.as_ref()));
    }
    work(queue, CONCURRENCY, scope, |key| step(&context, key)).await;
}

/// Enqueues the budgets of a namespace when a controller in it changes, because its number of wanted pods may have
/// changed.
fn wake_by<K>(
    controllers: &Cache<K>,
    budgets: &Cache<PodDisruptionBudget>,
    queue: &Arc<Queue<Key>>,
    scope: &Scope,
) where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    let (to, budgets) = (queue.clone(), budgets.clone());
    controllers.on_change(&scope.stop, move |change| {
        let Some(namespace) = change.latest().and_then(|controller| controller.meta().namespace.clone())
        else {
            return;
        };
        for budget in budgets.list_in(&namespace) {
            to.add(Key::of(budget.as_ref()));
        }
    });
}

async fn step(context: &Context, key: Key) -> Result<Option<Duration>, Error> {
    let budget = context.budgets.get(&key).filter(|budget| budget.metadata.deletion_timestamp.is_none());
    let Some(budget) = budget else { return Ok(None) };
    let mut pods = context.pods.list_in(&key.namespace);
    pods.retain(|pod| decide::selects(&budget, pod));
    let now = Timestamp::now();
    if pods.is_empty() {
        context.recorder.note(budget.as_ref(), Note::normal("NoPods", "No matching pods found"));
    }
    let (status, again) = match decide::verdict(&budget, &pods, |pod| scale(context, pod), now) {
        Ok(BudgetState { status, again, has_unmanaged }) => {
            if has_unmanaged {
                let text = "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.";
                context.recorder.note(budget.as_ref(), Note::warning("UnmanagedPods", text));
            }
            (status, again)
        }
        Err(why) => {
            let text = format!("Failed to calculate the number of expected pods: {why}");
            context.recorder.note(budget.as_ref(), Note::warning("CalculateExpectedPodCountFailed", text));
            (decide::failed(&budget, &why, now), None)
        }
    };
    if budget.status.as_ref() != Some(&status) {
        let api: Api<PodDisruptionBudget> = Api::namespaced(context.client.clone(), &key.namespace);
        let next = PodDisruptionBudget { status: Some(status), ..budget.as_ref().clone() };
        match api.replace_status(&key.name, &PostParams::default(), &next).await {
            Ok(written) => context.budgets.learn(written),
            error => allow(&SETTLED, error)?,
        }
    }
    Ok(again)
}

/// Returns the UID of a pod's controller and the number of pods that it wants; `None` for a pod without a controller.
fn scale(context: &Context, pod: &Pod) -> Result<Option<(String, i32)>, String> {
    let Some(owner) = controller(pod) else { return Ok(None) };
    let namespace = pod.namespace().unwrap_or_default();
    let found = match owner.kind.as_str() {
        "ReplicaSet" => of_set(context, &namespace, owner),
        "ReplicationController" => context
            .replication_controllers
            .get(&Key::new(namespace, owner.name.clone()))
            .filter(|found| found.metadata.uid.as_ref() == Some(&owner.uid))
            .map(|found| {
                (owner.uid.clone(), found.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1))
            }),
        _ => None,
    };
    found.map(Some).ok_or_else(|| format!("found no controllers for pod \"{}\"", pod.name_any()))
}

fn of_set(context: &Context, namespace: &str, owner: &OwnerReference) -> Option<(String, i32)> {
    let set = context.replica_sets.get(&Key::new(namespace, owner.name.clone()))?;
    if set.metadata.uid.as_ref() != Some(&owner.uid) {
        return None;
    }
    match controller(set.as_ref()).filter(|above| above.kind == "Deployment") {
        Some(above) => {
            let deployment = context.deployments.get(&Key::new(namespace, above.name.clone()))?;
            let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            Some((above.uid.clone(), wanted))
        }
        None => Some((owner.uid.clone(), set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1))),
    }
}

fn controller<K: Resource<DynamicType = ()>>(object: &K) -> Option<&OwnerReference> {
    object.owner_references().iter().find(|owner| owner.controller == Some(true))
}
