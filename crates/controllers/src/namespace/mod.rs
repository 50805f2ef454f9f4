//! The namespace controller. It empties a namespace that is being deleted, across all kinds, and then removes its
//! finalizer. In every other namespace it creates the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`,
//! which clients expect.
//!
//! Rules: `pkg/controller/namespace/deletion`, `pkg/controller/serviceaccount`, `rootcacertpublisher` of Kubernetes
//! 1.36. Each removal of an object in the namespace leads to another check, which reads the remaining objects live,
//! never from a cache.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Client, ResourceExt};

mod report;

use super::cache::{Cache, Key};
use super::kinds::{Kinds, MetaChange, Served};
use super::queue::{Queue, work};
use super::{Error, allow, refusal};
use controller_runtime::supervision::Scope;
use report::Remains;

/// Responses that need no retry: the object exists already, or the namespace is being deleted.
const SETTLED: [u16; 3] = [403, 404, 409];
/// Namespaces processed concurrently.
const CONCURRENCY: usize = 8;
/// Interval for checking a namespace that is being deleted, even if no change was seen.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The entry of `spec.finalizers` that keeps a namespace until it is empty.
const FINALIZER: &str = "kubernetes";
const ACCOUNT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";

/// The controller's dependencies.
#[derive(Clone)]
pub struct Context {
    /// The API.
    pub client: Client,
    /// The API, under the identity that creates service accounts.
    pub accounts: Client,
    /// The API, under the identity that publishes the certificate authority.
    pub certificates: Client,
    /// Every namespace.
    pub namespaces: Cache<Namespace>,
    /// Every kind.
    pub kinds: Kinds,
    /// The API's certificate authority in PEM, for `kube-root-ca.crt`; if `None`, the ConfigMap is not created.
    pub root_ca: Option<String>,
}

/// Runs until the scope ends.
pub async fn run(context: Context, scope: Scope) {
    let queue: Arc<Queue<String>> = Arc::default();
    let to = queue.clone();
    context.namespaces.on_change(&scope.stop, move |change| {
        if let Some(namespace) = change.new.as_ref() {
            to.add(namespace.name_any());
        }
    });
    let (to, namespaces) = (queue.clone(), context.namespaces.clone());
    context.kinds.on_change(&scope.stop, move |change| {
        if let Some(name) = worth_a_look(change, &namespaces) {
            to.add(name);
        }
    });
    context.namespaces.filled().await;
    for namespace in context.namespaces.list() {
        queue.add(namespace.name_any());
    }
    work(queue, CONCURRENCY, scope, |name| step(&context, name)).await;
}

/// Returns the namespace of a removed object, if it is being deleted or this controller had created the object.
fn worth_a_look(change: &MetaChange, namespaces: &Cache<Namespace>) -> Option<String> {
    let old = change.old.filter(|_| change.new.is_none())?;
    let name = old.namespace.clone()?;
    let ours = matches!(
        (change.served.resource.plural.as_str(), old.name.as_deref()),
        ("serviceaccounts", Some(ACCOUNT)) | ("configmaps", Some(ROOT_CA))
    );
    let namespace = namespaces.get(&Key::new("", &name))?;
    (ours || namespace.metadata.deletion_timestamp.is_some()).then_some(name)
}

async fn step(context: &Context, name: String) -> Result<Option<Duration>, Error> {
    let Some(namespace) = context.namespaces.get(&Key::new("", &name)) else { return Ok(None) };
    if namespace.metadata.deletion_timestamp.is_none() {
        furnish(context, &name).await?;
        return Ok(None);
    }
    let held = namespace.spec.as_ref().and_then(|s| s.finalizers.as_ref());
    if !held.is_some_and(|list| list.iter().any(|f| f == FINALIZER)) {
        return Ok(None);
    }
    let remains = clear(context, &name).await;
    if remains.is_empty() {
        finalize(context, &namespace).await?;
        return Ok(None);
    }
    write_conditions(context, &namespace, &remains).await?;
    Ok(Some(LOOK_AGAIN))
}

/// Creates the objects that every namespace has.
async fn furnish(context: &Context, namespace: &str) -> Result<(), Error> {
    let metadata = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let account = ServiceAccount { metadata: metadata(ACCOUNT), ..ServiceAccount::default() };
    let accounts: Api<ServiceAccount> = Api::namespaced(context.accounts.clone(), namespace);
    allow(&SETTLED, accounts.create(&PostParams::default(), &account).await)?;
    if let Some(certificate) = &context.root_ca {
        let data = Some([("ca.crt".to_owned(), certificate.clone())].into());
        let map = ConfigMap { metadata: metadata(ROOT_CA), data, ..ConfigMap::default() };
        let maps: Api<ConfigMap> = Api::namespaced(context.certificates.clone(), namespace);
        allow(&SETTLED, maps.create(&PostParams::default(), &map).await)?;
    }
    Ok(())
}

/// Deletes everything in the namespace and returns what is still there. Pods are deleted first, and all else only once
/// they are gone, because running pods rely on it (KEP-5080).
async fn clear(context: &Context, namespace: &str) -> Remains {
    let mut remains = Remains::default();
    let is_pods = |served: &Served| served.resource.group.is_empty() && served.resource.plural == "pods";
    let (pods, others): (Vec<_>, Vec<_>) = context
        .kinds
        .all()
        .into_iter()
        .filter(|served| served.namespaced)
        .partition(|served| is_pods(served));
    for served in pods.into_iter().chain(others) {
        if !is_pods(&served) && remains.objects.contains_key("pods.") {
            break;
        }
        if let Err(error) = clear_kind(context, &served, namespace, &mut remains).await {
            let kind = &served.resource;
            remains.failures.push(format!("{}, Resource={}: {error}", kind.api_version, kind.plural));
        }
    }
    remains
}

async fn clear_kind(
    context: &Context,
    served: &Served,
    namespace: &str,
    remains: &mut Remains,
) -> Result<(), Error> {
    let api = served.api(&context.client, namespace);
    let everything = ListParams::default();
    if api.list(&everything).await?.items.is_empty() {
        return Ok(());
    }
    api.delete_collection(&DeleteParams::background(), &everything).await?;
    let left = api.list(&everything).await?.items;
    if left.is_empty() {
        return Ok(());
    }
    remains.objects.insert(format!("{}.{}", served.resource.plural, served.resource.group), left.len());
    for finalizer in left.into_iter().flat_map(|object| object.metadata.finalizers.unwrap_or_default()) {
        *remains.finalizers.entry(finalizer).or_insert(0) += 1;
    }
    Ok(())
}

/// Removes our finalizer, upon which the API removes the namespace.
async fn finalize(context: &Context, namespace: &Namespace) -> Result<(), Error> {
    let mut next = namespace.clone();
    if let Some(list) = next.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
        list.retain(|f| f != FINALIZER);
    }
    let api: Api<Namespace> = Api::all(context.client.clone());
    match api.replace_subresource("finalize", &namespace.name_any(), &PostParams::default(), &next).await {
        Ok(_) => Ok(()),
        Err(error) if refusal(&error) == Some(404) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn write_conditions(context: &Context, namespace: &Namespace, remains: &Remains) -> Result<(), Error> {
    let mut next = namespace.clone();
    let status = next.status.get_or_insert_default();
    let known = status.conditions.take().unwrap_or_default();
    let wanted = report::conditions(remains, &known, Timestamp::now());
    let changed = wanted != known;
    status.conditions = Some(wanted);
    if !changed {
        return Ok(());
    }
    let api: Api<Namespace> = Api::all(context.client.clone());
    let written = api.replace_status(&namespace.name_any(), &PostParams::default(), &next).await?;
    context.namespaces.learn(written);
    Ok(())
}
