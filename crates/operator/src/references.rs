//! What pods mount and does not exist. A kubelet says so in events of the pod only, which the operator may not read, while the
//! pod's status shows nothing but a container that is being created. So the server is asked for the objects by name; of a
//! Secret, only its metadata is read.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, PodSpec, Secret};
use kube::Resource;
use kube::api::{Api, PartialObjectMeta};
use kube::core::NamespaceResourceScope;
use plan::{ObservedState, ValidJob};

use crate::context::Context;
use crate::memory::KnownAttempt;

/// An answer is good for this long.
const FRESH: Duration = Duration::from_secs(10);
/// No more objects of a job are asked for at a time.
const MOST_ASKED: usize = 16;

/// Returns the words of a kubelet about an object that pods of the job mount and that does not exist, if they have waited for
/// their volumes for a while.
pub(crate) async fn missing(
    context: &Context,
    job: &ValidJob,
    seen: &ObservedState,
    known: &mut KnownAttempt,
    now: Timestamp,
) -> Option<String> {
    let roles = plan::waits_for_volumes(job, seen, now);
    if roles.is_empty() {
        known.references_asked = None;
        return None;
    }
    if let Some((_, answer)) = known.references_asked.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
        return answer.clone();
    }
    let mut found = None;
    let mounted = roles.into_iter().filter_map(|role| role.template.spec.as_ref()).flat_map(mounted);
    for Mounted { volume, is_secret, name } in mounted.take(MOST_ASKED) {
        let is_missing = match is_secret {
            true => lacks::<Secret>(context, job, &name).await,
            false => lacks::<ConfigMap>(context, job, &name).await,
        };
        if is_missing {
            let kind = if is_secret { "secret" } else { "configmap" };
            found =
                Some(format!("MountVolume.SetUp failed for volume {volume:?} : {kind} {name:?} not found"));
            break;
        }
    }
    known.references_asked = Some((Instant::now(), found.clone()));
    found
}

struct Mounted {
    volume: String,
    is_secret: bool,
    name: String,
}

/// The Secrets and ConfigMaps that a pod cannot do without.
fn mounted(pod: &PodSpec) -> Vec<Mounted> {
    let mut all = Vec::new();
    for volume in pod.volumes.iter().flatten() {
        let mut add = |is_secret: bool, name: &str, optional: Option<bool>| {
            if optional != Some(true) && !name.is_empty() {
                all.push(Mounted { volume: volume.name.clone(), is_secret, name: name.to_owned() });
            }
        };
        if let Some(secret) = &volume.secret {
            add(true, secret.secret_name.as_deref().unwrap_or_default(), secret.optional);
        }
        if let Some(map) = &volume.config_map {
            add(false, &map.name, map.optional);
        }
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            source.secret.iter().for_each(|secret| add(true, &secret.name, secret.optional));
            source.config_map.iter().for_each(|map| add(false, &map.name, map.optional));
        }
    }
    all
}

/// Whether there is no object of this name. One that cannot be asked for counts as there.
async fn lacks<K>(context: &Context, job: &ValidJob, name: &str) -> bool
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug,
    K: serde::de::DeserializeOwned,
{
    let objects: Api<K> = Api::namespaced(context.client.clone(), &job.namespace);
    let found: Result<Option<PartialObjectMeta<K>>, _> = objects.get_metadata_opt(name).await;
    matches!(found, Ok(None))
}
