//! Watches of TrainJobs and of what they own, kept as stores to read from. They select by a label of our own, so that
//! JobSets of other jobs cost nothing. Runtimes are not watched: each job reads its own once and keeps a snapshot.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use api::{LABEL_TRAINJOB, TrainJob, TrainJobSpec};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::runtime::controller::Controller;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use plan::kept::{Job, Pod};
use serde::de::DeserializeOwned;

use super::memory::TrainMemory;
use crate::owned::owner_by;
use crate::readable::{Readable, Told, readable};
use crate::slim::{Slim, unwrapped};
use crate::watch::{LAST_APPLIED, PAGE, PodIndex, logged, scoped};

/// The stores of the watches.
pub(super) struct Stores {
    pub services: Store<Service>,
    pub config_maps: Store<ConfigMap>,
    pub jobs: Store<Job>,
    pub pods: Store<Pod>,
    /// Maps jobs to their pods.
    pub pods_of_jobs: Arc<PodIndex>,
}

impl Stores {
    /// Waits until each watch has listed once. Supports a single waiter only.
    pub async fn ready(&self) {
        // An error means that the watches have stopped, and then this stops too.
        let _ = futures::join!(
            self.services.wait_until_ready(),
            self.config_maps.wait_until_ready(),
            self.jobs.wait_until_ready(),
            self.pods.wait_until_ready(),
        );
    }
}

/// Returns the controller of TrainJobs in one or all namespaces, which what they own triggers too, the stores, and the jobs that
/// cannot be read.
pub(super) fn controller(
    client: &Client,
    namespace: Option<&str>,
    memories: &Arc<TrainMemory>,
) -> (Controller<TrainJob>, Stores, Told) {
    let (store, writer) = reflector::store();
    let jobs: Api<Readable<TrainJob>> = scoped(client, namespace);
    let bare = |metadata| TrainJob { metadata, spec: TrainJobSpec::default(), status: None };
    let (events, unreadable) = readable(watcher(jobs, watcher::Config::default().page_size(PAGE)), bare);
    let stream = events
        .default_backoff()
        .modify(|job| {
            job.annotations_mut().remove(LAST_APPLIED);
        })
        .reflect(writer)
        .applied_objects();
    let controller = Controller::for_stream(logged(stream), store);
    let (controller, services) = watch(controller, scoped(client, namespace), |_| {});
    let (controller, config_maps) = watch(controller, scoped(client, namespace), |_| {});
    let (controller, jobs) = watch(controller, scoped(client, namespace), |_| {});
    let pods_of_jobs = Arc::new(PodIndex::by(LABEL_TRAINJOB));
    let (index, memories) = (pods_of_jobs.clone(), memories.clone());
    let (controller, pods) = watch(controller, scoped(client, namespace), move |event| {
        if let watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) | watcher::Event::Delete(pod) =
            event
        {
            memories.note(pod);
        }
        index.note(event);
    });
    (controller, Stores { services, config_maps, jobs, pods, pods_of_jobs }, unreadable)
}

/// Adds the watch of one kind of child; `note` sees every event before the store does.
fn watch<K>(
    controller: Controller<TrainJob>,
    children: Api<Slim<K>>,
    note: impl Fn(&watcher::Event<K>) + Send + 'static,
) -> (Controller<TrainJob>, Store<K>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Eq + Hash,
{
    let (store, writer) = reflector::store();
    let stream = watcher(children, watcher::Config::default().labels(LABEL_TRAINJOB).page_size(PAGE))
        .map_ok(unwrapped)
        .default_backoff()
        .inspect(move |event| {
            if let Ok(event) = event {
                note(event);
            }
        })
        .reflect(writer)
        .touched_objects();
    let job = |child: K| {
        let (namespace, name) = owner_by(&child, LABEL_TRAINJOB)?;
        Some(ObjectRef::<TrainJob>::new(&name).within(&namespace))
    };
    (controller.watches_stream(logged(stream), job), store)
}
