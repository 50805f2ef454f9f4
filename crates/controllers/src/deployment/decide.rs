//! Decides which ReplicaSets a Deployment has, and how many pods each keeps. Pure.
//!
//! Rules: `pkg/controller/deployment/{rolling,recreate,sync}.go` and `util/deployment_util.go` of Kubernetes 1.36. One
//! difference: scaling during a roll-out changes the new set first, not all sets in proportion.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

/// The label that separates the pods of one template from those of another.
pub const HASH_LABEL: &str = "pod-template-hash";
/// The annotation with the revision of the template, which each new template increments.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// The annotation in which kubectl keeps the last applied state.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The longest prefix of a set's name that leaves room for the hash.
const PREFIX_MAX: usize = 242;

/// The changes to the sets.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// A set for a template that has none yet.
    pub create: Option<ReplicaSet>,
    /// Sets to resize, with their new number of pods.
    pub resize: Vec<(String, i32)>,
    /// Old sets beyond `revisionHistoryLimit`.
    pub delete: Vec<String>,
    /// The revision to record on the Deployment and its newest set.
    pub revision: i64,
}

/// Returns the set of the Deployment's current template.
pub fn newest<'a>(deployment: &Deployment, sets: &'a [Arc<ReplicaSet>]) -> Option<&'a Arc<ReplicaSet>> {
    let template = deployment.spec.as_ref().map(|spec| without_hash(&spec.template))?;
    let same = sets.iter().filter(|set| {
        let own = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
        own.is_some_and(|own| without_hash(own) == template)
    });
    same.min_by_key(|set| set.metadata.creation_timestamp.as_ref().map(|t| t.0))
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    let metadata = template.metadata.get_or_insert_default();
    if let Some(labels) = &mut metadata.labels {
        labels.remove(HASH_LABEL);
    }
    metadata.labels = metadata.labels.take().filter(|labels| !labels.is_empty());
    template
}

/// Returns the number of pods that a set requests.
pub fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// Returns an object's revision; 0 if it has none.
pub fn revision<K: Resource>(object: &K) -> i64 {
    object.annotations().get(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Decides the next step. `old_pods_left`: whether pods of old sets are still running.
pub fn decide(deployment: &Deployment, sets: &[Arc<ReplicaSet>], old_pods_left: bool) -> Plan {
    let Some(spec) = &deployment.spec else { return Plan::default() };
    let wanted = spec.replicas.unwrap_or(1);
    let new = newest(deployment, sets);
    let old: Vec<&Arc<ReplicaSet>> =
        sets.iter().filter(|set| Some(set.name_any()) != new.map(|n| n.name_any())).collect();
    let highest = old.iter().map(|set| revision(set.as_ref())).max().unwrap_or(0);
    let mut plan = Plan {
        revision: highest.saturating_add(1).max(new.map_or(0, |set| revision(set.as_ref()))),
        ..Plan::default()
    };
    if spec.paused == Some(true) {
        paused(&mut plan, new, &old, wanted);
        return plan;
    }
    let strategy = spec.strategy.as_ref();
    if strategy.and_then(|s| s.type_.as_deref()) == Some("Recreate") {
        recreate(deployment, &mut plan, new, &old, old_pods_left);
    } else {
        let rolling = strategy.and_then(|s| s.rolling_update.clone()).unwrap_or_default();
        let limits = limits(rolling.max_surge.as_ref(), rolling.max_unavailable.as_ref(), wanted);
        roll(deployment, &mut plan, new, &old, limits);
    }
    if let Some(new) = new {
        forget(&mut plan, &old, usize::try_from(spec.revision_history_limit.unwrap_or(10)).unwrap_or(0));
        if old.iter().all(|set| size(set) == 0) && size(new) != wanted && plan.resize.is_empty() {
            plan.resize.push((new.name_any(), wanted));
        }
    }
    plan
}

/// Paused: only scales, and only if at most one set has pods.
fn paused(plan: &mut Plan, new: Option<&Arc<ReplicaSet>>, old: &[&Arc<ReplicaSet>], wanted: i32) {
    plan.revision = plan.revision.min(new.map_or(plan.revision, |set| revision(set.as_ref())));
    let mut active = new.into_iter().chain(old.iter().copied()).filter(|set| size(set) > 0);
    let only = match (active.next(), active.next()) {
        (Some(only), None) => Some(only),
        (None, _) => new,
        _ => None,
    };
    if let Some(only) = only.filter(|set| size(set) != wanted) {
        plan.resize.push((only.name_any(), wanted));
    }
}

/// Returns how many pods there may be above the wanted number, and how many below (`ResolveFenceposts`).
fn limits(surge: Option<&IntOrString>, unavailable: Option<&IntOrString>, wanted: i32) -> (i32, i32) {
    let resolve = |value: Option<&IntOrString>, up: bool| match value {
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent: i32 = text.trim_end_matches('%').parse().unwrap_or(25);
            let product = percent.saturating_mul(wanted);
            if up { product.saturating_add(99) / 100 } else { product / 100 }
        }
        None => 0,
    };
    let (surge, unavailable) = (resolve(surge, true), resolve(unavailable, false));
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable.min(wanted.max(0))) }
}

/// Returns how many of the wanted pods may be unavailable.
pub fn may_be_unavailable(spec: &DeploymentSpec, wanted: i32) -> i32 {
    let rolling = spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    rolling.map_or(0, |r| limits(r.max_surge.as_ref(), r.max_unavailable.as_ref(), wanted).1)
}

fn roll(
    deployment: &Deployment,
    plan: &mut Plan,
    new: Option<&Arc<ReplicaSet>>,
    old: &[&Arc<ReplicaSet>],
    (surge, unavailable): (i32, i32),
) {
    let wanted = i64::from(deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1));
    let (surge, unavailable) = (i64::from(surge), i64::from(unavailable));
    let (size, available) =
        (|set: &ReplicaSet| i64::from(size(set)), |set: &ReplicaSet| i64::from(available(set)));
    let old_total: i64 = old.iter().map(|set| size(set)).sum();
    let present = new.map_or(0, |set| size(set));
    let room = (wanted + surge - old_total - present).max(0);
    let target = if present > wanted { wanted } else { present + room.min(wanted - present) };
    match new {
        None => plan.create = Some(new_set(deployment, count(target), plan.revision)),
        Some(new) if target != present => {
            plan.resize.push((new.name_any(), count(target)));
            return;
        }
        Some(_) => {}
    }
    // Pods that the new set is still waiting for count as unavailable.
    let missing = target - new.map_or(0, |set| available(set));
    let mut spare = old_total + target - (wanted - unavailable) - missing;
    for set in old.iter().filter(|set| size(set) > 0) {
        // Remove unavailable pods first; they need no replacement.
        let broken = (size(set) - available(set)).max(0);
        let down = spare.min(broken).max(0);
        spare -= down;
        let healthy = size(set) - down;
        let all = new.map_or(0, |set| available(set)) + old.iter().map(|set| available(set)).sum::<i64>();
        let removable = (all - (wanted - unavailable) - removed(plan, old)).max(0);
        let more = removable.min(healthy).min(spare.max(0)).min(available(set));
        spare -= more;
        if down + more > 0 {
            plan.resize.push((set.name_any(), count(size(set) - down - more)));
        }
    }
}

/// Converts a number of pods for a field. Sums are computed in 64 bits, because a single field may have the largest
/// value.
fn count(pods: i64) -> i32 {
    i32::try_from(pods.max(0)).unwrap_or(i32::MAX)
}

/// Returns the number of available pods that the plan already removes.
fn removed(plan: &Plan, old: &[&Arc<ReplicaSet>]) -> i64 {
    old.iter()
        .filter_map(|set| {
            let (_, to) = plan.resize.iter().find(|(name, _)| *name == set.name_any())?;
            Some((i64::from(available(set)) - i64::from(*to)).max(0))
        })
        .sum()
}

fn recreate(
    deployment: &Deployment,
    plan: &mut Plan,
    new: Option<&Arc<ReplicaSet>>,
    old: &[&Arc<ReplicaSet>],
    old_pods_left: bool,
) {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    plan.resize.extend(old.iter().filter(|set| size(set) > 0).map(|set| (set.name_any(), 0)));
    if !plan.resize.is_empty() || old_pods_left {
        return;
    }
    match new {
        None => plan.create = Some(new_set(deployment, wanted, plan.revision)),
        Some(new) if size(new) != wanted => plan.resize.push((new.name_any(), wanted)),
        Some(_) => {}
    }
}

/// Deletes old sets without pods, oldest first, except for the newest `keep`.
fn forget(plan: &mut Plan, old: &[&Arc<ReplicaSet>], keep: usize) {
    let is_empty =
        |set: &ReplicaSet| size(set) == 0 && set.status.as_ref().is_none_or(|status| status.replicas == 0);
    let mut empty: Vec<&&Arc<ReplicaSet>> =
        old.iter().filter(|set| is_empty(set) && set.metadata.deletion_timestamp.is_none()).collect();
    empty.sort_by_key(|set| revision(set.as_ref()));
    let surplus = empty.len().saturating_sub(keep);
    plan.delete = empty.into_iter().take(surplus).map(|set| set.name_any()).collect();
}

/// Creates a set of the current template.
fn new_set(deployment: &Deployment, replicas: i32, revision: i64) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count);
    let hash = hash(&spec.template, collisions);
    let mut template = spec.template;
    let metadata = template.metadata.get_or_insert_default();
    metadata.labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.clone());
    let mut selector = spec.selector;
    selector.match_labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.clone());
    let prefix: String = deployment.name_any().chars().take(PREFIX_MAX).collect();
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{prefix}-{hash}")),
            namespace: deployment.namespace(),
            labels: template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()),
            annotations: Some(annotations(deployment, revision)),
            owner_references: deployment.controller_owner_ref(&()).map(|mut owner| {
                owner.block_owner_deletion = Some(true);
                vec![owner]
            }),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    }
}

fn annotations(deployment: &Deployment, revision: i64) -> BTreeMap<String, String> {
    let own = deployment.annotations().iter().filter(|(name, _)| *name != LAST_APPLIED);
    let mut all: BTreeMap<String, String> = own.map(|(name, value)| (name.clone(), value.clone())).collect();
    all.insert(REVISION.to_owned(), revision.to_string());
    all
}

/// Returns a short name for a template: FNV-1a over its JSON, in letters that form no words (`rand.SafeEncodeString`).
fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let text = serde_json::to_string(template).unwrap_or_default();
    let salt = collisions.map(|count| count.to_string()).unwrap_or_default();
    let mut sum = 0x811c_9dc5_u32;
    for byte in text.bytes().chain(salt.bytes()) {
        sum = (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    sum.to_string().bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
