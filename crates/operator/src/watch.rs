//! Watches of the objects that jobs own, kept as stores to read from. Each selects by upstream's operator-name
//! label, so that neither the API server nor this process spends anything on other users' pods and ConfigMaps.
//! Secrets are not watched.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::{LABEL_JOB_NAME, LABEL_OPERATOR_NAME, OPERATOR_NAME};
use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::controller::Controller;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use plan::Gang;
use plan::kept::{Job, Pod};
use serde::de::DeserializeOwned;

use crate::health::Health;
use crate::memory::Memory;
use crate::owned::owner_by;
use crate::packed::Packed;
use crate::pod_groups;
use crate::readable::{Readable, Told, readable};
use crate::slim::{Slim, unwrapped};

/// The annotation with what `kubectl apply` last sent, which is the whole job a second time.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The page size of a list: a page is held completely before any of it is dropped.
pub(crate) const PAGE: u32 = 100;

/// The stores of the watches.
pub(crate) struct Stores {
    pub services: Store<Service>,
    pub config_maps: Store<ConfigMap>,
    pub pods: Store<Pod>,
    /// Maps jobs to their pods.
    pub pods_of_jobs: Arc<PodIndex>,
    pub jobs: Store<Job>,
    /// Present if jobs are scheduled as gangs.
    pub pod_groups: Option<PodGroups>,
}

/// The store of a watch of PodGroups, and their API.
pub(crate) struct PodGroups {
    pub store: Store<DynamicObject>,
    pub resource: ApiResource,
}

impl Stores {
    /// Waits until each watch has listed once. Supports a single waiter only.
    pub(crate) async fn ready(&self) {
        // An error means that the watches have stopped, and then this pass stops too.
        let _ = futures::join!(
            self.services.wait_until_ready(),
            self.config_maps.wait_until_ready(),
            self.pods.wait_until_ready(),
            self.jobs.wait_until_ready(),
        );
        if let Some(groups) = &self.pod_groups {
            let _ = groups.store.wait_until_ready().await;
        }
    }
}

/// Returns the controller of MPIJobs in one or all namespaces, which their children trigger too, the children's stores, and the
/// jobs that cannot be read. Records Launchers that fail or end, and the jobs that are triggered.
pub(crate) fn controller(
    client: &Client,
    namespace: Option<&str>,
    gang: Option<&Gang>,
    memory: &Arc<Memory>,
    health: &Arc<Health>,
) -> (Controller<Packed>, Stores, Told) {
    let (controller, unreadable) = of_jobs(scoped(client, namespace), health.clone());
    let (pods_seen, jobs_seen) = (memory.clone(), memory.clone());
    let (controller, services) = watch(controller, scoped(client, namespace), health, |_: &mut Service| {});
    let (controller, config_maps) =
        watch(controller, scoped(client, namespace), health, |_: &mut ConfigMap| {});
    let pods_of_jobs = Arc::new(PodIndex::by(LABEL_JOB_NAME));
    let index = pods_of_jobs.clone();
    let look = move |pod: &mut Pod| pods_seen.note(pod);
    let (controller, pods) =
        watch_noting(controller, scoped(client, namespace), health, look, move |event| index.note(event));
    let (controller, jobs) =
        watch(controller, scoped(client, namespace), health, move |job: &mut Job| jobs_seen.note_end(job));
    let (controller, pod_groups) = match gang {
        Some(gang) => {
            let (controller, groups) = watch_pod_groups(controller, client, namespace, gang, health);
            (controller, Some(groups))
        }
        None => (controller, None),
    };
    (controller, Stores { services, config_maps, pods, pods_of_jobs, jobs, pod_groups }, unreadable)
}

/// Adds the watch of the PodGroups, whose API is known only at run time.
fn watch_pod_groups(
    controller: Controller<Packed>,
    client: &Client,
    namespace: Option<&str>,
    gang: &Gang,
    health: &Arc<Health>,
) -> (Controller<Packed>, PodGroups) {
    let resource = pod_groups::resource(gang);
    let groups: Api<Slim<DynamicObject>> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let writer = reflector::store::Writer::new(resource.clone());
    let store = writer.as_reader();
    let stream = watcher(groups, ours())
        .map_ok(unwrapped)
        .default_backoff()
        .reflect(writer)
        .touched_objects()
        .inspect(|item| {
            if let Err(error) = item {
                tracing::warn!(kind = "PodGroup", %error, "a watch failed; trying again");
            }
        });
    let health = health.clone();
    let job = move |group: DynamicObject| woken(job_of(&group)?, &health);
    (controller.watches_stream_with(stream, job, resource.clone()), PodGroups { store, resource })
}

/// Selects children by upstream's operator-name label.
fn ours() -> watcher::Config {
    watcher::Config::default().labels(&format!("{LABEL_OPERATOR_NAME}={OPERATOR_NAME}"))
}

fn woken(job: ObjectRef<Packed>, health: &Health) -> Option<ObjectRef<Packed>> {
    health.woken(job.namespace.as_deref().unwrap_or_default(), &job.name);
    Some(job)
}

/// Returns the controller of these jobs, which trigger themselves, and those that cannot be read.
fn of_jobs(jobs: Api<Readable<Packed>>, health: Arc<Health>) -> (Controller<Packed>, Told) {
    let (store, writer) = reflector::store();
    let (events, unreadable) =
        readable(watcher(jobs, watcher::Config::default().page_size(PAGE)), Packed::bare);
    let stream = events
        .default_backoff()
        .modify(|job| {
            job.annotations_mut().remove(LAST_APPLIED);
        })
        .reflect(writer)
        .applied_objects()
        .inspect(move |job| {
            if let Ok(job) = job {
                health.woken(job.namespace().as_deref().unwrap_or_default(), &job.name_any());
            }
        });
    (Controller::for_stream(logged(stream), store), unreadable)
}

pub(crate) fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = kube::core::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// Adds the watch of one kind of child. `look` sees every version of an object, including the last one before its
/// deletion, and may drop what is not kept.
fn watch<K>(
    controller: Controller<Packed>,
    children: Api<Slim<K>>,
    health: &Arc<Health>,
    look: impl Fn(&mut K) + Send + 'static,
) -> (Controller<Packed>, Store<K>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Eq + Hash,
{
    watch_noting(controller, children, health, look, |_| {})
}

/// Like [`watch`]; `note` sees every event before the store does.
fn watch_noting<K>(
    controller: Controller<Packed>,
    children: Api<Slim<K>>,
    health: &Arc<Health>,
    look: impl Fn(&mut K) + Send + 'static,
    note: impl Fn(&watcher::Event<K>) + Send + 'static,
) -> (Controller<Packed>, Store<K>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Eq + Hash,
{
    let (store, writer) = reflector::store();
    let stream = watcher(children, ours().page_size(PAGE))
        .map_ok(unwrapped)
        .default_backoff()
        .modify(look)
        .inspect(move |event| {
            if let Ok(event) = event {
                note(event);
            }
        })
        .reflect(writer)
        .touched_objects();
    let health = health.clone();
    let job = move |child| woken(job_of(&child)?, &health);
    (controller.watches_stream(logged(stream), job), store)
}

/// The names of each job's pods, by the job's namespace and name, so that a pass reads no other job's pods. It sees
/// a pod before the store does, so it never lacks one that the store has.
pub(crate) struct PodIndex {
    /// The label with the job's name.
    label: &'static str,
    state: Mutex<IndexState>,
}

#[derive(Default)]
struct IndexState {
    pods: Names,
    /// What the list in progress has shown; it replaces the rest when the list is complete.
    listing: Option<Names>,
}

/// Names of pods, by their job's namespace and name.
type Names = HashMap<(String, String), BTreeSet<String>>;

impl PodIndex {
    /// An index of pods by the job that this label names.
    pub(crate) fn by(label: &'static str) -> Self {
        Self { label, state: Mutex::default() }
    }

    /// Returns the pods of a job that are in the store.
    pub(crate) fn pods_of(&self, namespace: &str, job: &str, store: &Store<Pod>) -> Vec<Arc<Pod>> {
        let key = (namespace.to_owned(), job.to_owned());
        let names = self.state().pods.get(&key).cloned().unwrap_or_default();
        names.iter().filter_map(|name| store.get(&ObjectRef::new(name).within(namespace))).collect()
    }

    pub(crate) fn note(&self, event: &watcher::Event<Pod>) {
        let mut state = self.state();
        match event {
            watcher::Event::Init => state.listing = Some(Names::new()),
            watcher::Event::InitApply(pod) => {
                // Pods in the store stay findable until the list is complete, and new ones are from then on.
                if let Some(listing) = &mut state.listing {
                    self.add(listing, pod);
                }
                self.add(&mut state.pods, pod);
            }
            watcher::Event::InitDone => {
                if let Some(listing) = state.listing.take() {
                    state.pods = listing;
                }
            }
            watcher::Event::Apply(pod) => self.add(&mut state.pods, pod),
            watcher::Event::Delete(pod) => self.remove(&mut state.pods, pod),
        }
    }

    fn add(&self, names: &mut Names, pod: &Pod) {
        if let Some(job) = owner_by(pod, self.label) {
            names.entry(job).or_default().insert(pod.name_any());
        }
    }

    fn remove(&self, names: &mut Names, pod: &Pod) {
        let Some(job) = owner_by(pod, self.label) else { return };
        if let Some(pods) = names.get_mut(&job) {
            pods.remove(&pod.name_any());
            if pods.is_empty() {
                names.remove(&job);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, IndexState> {
        // A panic elsewhere leaves at most a superfluous name.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs the failure of a watch, which recovers by itself.
pub(crate) fn logged<K: Resource<DynamicType = ()>>(
    stream: impl Stream<Item = Result<K, watcher::Error>>,
) -> impl Stream<Item = Result<K, watcher::Error>> {
    stream.inspect(|item| {
        if let Err(error) = item {
            tracing::warn!(kind = %K::kind(&()), %error, "a watch failed; trying again");
        }
    })
}

/// Returns the job that a child belongs to, by its label: pods of the Launcher belong to it through a Job. A forged
/// label causes a superfluous pass and nothing else.
fn job_of<K: Resource>(child: &K) -> Option<ObjectRef<Packed>> {
    let (namespace, name) = owner_by(child, LABEL_JOB_NAME)?;
    Some(ObjectRef::new(&name).within(&namespace))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, job: &str) -> Pod {
        let pod =
            json!({ "metadata": { "name": name, "namespace": "team", "labels": { LABEL_JOB_NAME: job } } });
        serde_json::from_value(pod).unwrap()
    }

    fn names(index: &PodIndex, job: &str, store: &Store<Pod>) -> Vec<String> {
        index.pods_of("team", job, store).iter().map(|pod| pod.name_any()).collect()
    }

    #[test]
    fn a_jobs_pods_are_found_as_the_watch_shows_them() {
        let index = PodIndex::by(LABEL_JOB_NAME);
        let (store, mut writer) = reflector::store();
        let mut see = |event: watcher::Event<Pod>| {
            index.note(&event);
            writer.apply_watcher_event(&event);
        };
        see(watcher::Event::Init);
        see(watcher::Event::InitApply(pod("a-0", "a")));
        see(watcher::Event::InitApply(pod("b-0", "b")));
        assert_eq!(names(&index, "a", &store), [""; 0], "the list is not over");
        see(watcher::Event::InitDone);
        see(watcher::Event::Apply(pod("a-1", "a")));
        assert_eq!(names(&index, "a", &store), ["a-0", "a-1"]);
        see(watcher::Event::Delete(pod("a-0", "a")));
        assert_eq!(names(&index, "a", &store), ["a-1"]);
        // Another list: pods that it does not show are gone once it is complete.
        see(watcher::Event::Init);
        see(watcher::Event::InitApply(pod("a-2", "a")));
        assert_eq!(names(&index, "a", &store), ["a-1"]);
        see(watcher::Event::InitDone);
        assert_eq!(names(&index, "a", &store), ["a-2"]);
        assert_eq!(names(&index, "b", &store), [""; 0]);
        assert_eq!(index.state().pods.len(), 1, "nothing is kept of a job without pods");
    }
}
