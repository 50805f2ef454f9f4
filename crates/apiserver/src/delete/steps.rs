//! What to do with an object that is to be deleted.

use jiff::{SignedDuration, Timestamp};
use objects::Kind;
use serde_json::{Value, json};

use super::Options;
use crate::definitions;

/// The default `terminationGracePeriodSeconds` of a pod.
const DEFAULT_GRACE_SECONDS: i64 = 30;
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What to do with an object now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It is being deleted already, and no later than requested.
    Nothing,
    /// Mark it and keep it.
    Mark,
    /// Remove it.
    Remove,
}

pub(super) fn plan(kind: &Kind, options: &Options, next: &mut Value, now: Timestamp) -> Step {
    if kind.is("", "Namespace") {
        return plan_namespace(kind, options, next, now);
    }
    let finalizers_changed = set_garbage_finalizers(kind, options, next) | set_cleanup_finalizer(kind, next);
    let has_finalizers = next["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    if kind.is("", "Pod") {
        return plan_pod(options, next, now, has_finalizers, finalizers_changed);
    }
    if !has_finalizers {
        return Step::Remove;
    }
    let is_marked = !next["metadata"]["deletionTimestamp"].is_null();
    if is_marked && !finalizers_changed {
        return Step::Nothing;
    }
    mark(next, now, 0);
    Step::Mark
}

fn plan_pod(
    options: &Options,
    next: &mut Value,
    now: Timestamp,
    has_finalizers: bool,
    finalizers_changed: bool,
) -> Step {
    let asked = options.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let marked = !next["metadata"]["deletionTimestamp"].is_null();
    let current = next["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    let grace = if marked { asked.unwrap_or(current).min(current) } else { pod_grace(asked, next) };
    if marked && current > 0 && grace == current {
        // The running deletion cannot be changed otherwise (`BeforeDelete`).
        return Step::Nothing;
    }
    let is_last = grace == 0 && !has_finalizers;
    if marked && grace == current && !finalizers_changed {
        return if is_last { Step::Remove } else { Step::Nothing };
    }
    if marked {
        // A grace period can only be shortened; it starts at the first deletion (`BeforeDelete`).
        let from =
            next["metadata"]["deletionTimestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
        let end = from.unwrap_or(now).checked_sub(SignedDuration::from_secs(current)).unwrap_or(now);
        let end = end.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
        next["metadata"]["deletionTimestamp"] = objects::timestamp(end).into();
        next["metadata"]["deletionGracePeriodSeconds"] = grace.into();
    } else {
        mark(next, now, grace);
    }
    if is_last { Step::Remove } else { Step::Mark }
}

/// `pkg/registry/core/pod/strategy.go`, CheckGracefulDelete.
fn pod_grace(asked: Option<i64>, pod: &Value) -> i64 {
    let is_assigned = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    if !is_assigned || semantics::has_ended(pod) {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    let grace = asked.or(own).unwrap_or(DEFAULT_GRACE_SECONDS);
    if grace < 0 { 1 } else { grace }
}

/// `pkg/registry/core/namespace/storage/storage.go`, Delete.
fn plan_namespace(kind: &Kind, options: &Options, next: &mut Value, now: Timestamp) -> Step {
    let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    if next["metadata"]["deletionTimestamp"].is_null() {
        set_garbage_finalizers(kind, options, next);
        next["metadata"]["deletionTimestamp"] = objects::timestamp(now).into();
        next["status"]["phase"] = "Terminating".into();
        return if is_empty(&next["spec"]["finalizers"]) && is_empty(&next["metadata"]["finalizers"]) {
            Step::Remove
        } else {
            Step::Mark
        };
    }
    if is_empty(&next["spec"]["finalizers"]) && is_empty(&next["metadata"]["finalizers"]) {
        return Step::Remove;
    }
    Step::Nothing
}

fn mark(next: &mut Value, now: Timestamp, grace: i64) {
    let metadata = &mut next["metadata"];
    if metadata["deletionTimestamp"].is_null() {
        let end = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
        metadata["deletionTimestamp"] = objects::timestamp(end).into();
        if let Some(generation) = metadata["generation"].as_i64() {
            metadata["generation"] = (generation + 1).into();
        }
    }
    metadata["deletionGracePeriodSeconds"] = grace.into();
}

/// Adds or removes the finalizers that tell the garbage collector how to handle dependents. Returns whether
/// they changed.
fn set_garbage_finalizers(kind: &Kind, options: &Options, next: &mut Value) -> bool {
    let own = next["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let has = |name: &str| own.iter().any(|finalizer| finalizer == name);
    let (orphan, foreground) = match (options.propagation_policy.as_deref(), options.orphan_dependents) {
        // Events have no dependents (`eventStrategy.DefaultGarbageCollectionPolicy`).
        _ if kind.kind == "Event" && kind.is_builtin() => (false, false),
        (Some("Orphan"), _) | (None, Some(true)) => (true, false),
        (Some("Foreground"), _) => (false, true),
        (Some(_), _) | (None, Some(false)) => (false, false),
        (None, None) if has(ORPHAN) => (true, false),
        (None, None) if has(FOREGROUND) => (false, true),
        (None, None) => (orphans_by_default(kind), false),
    };
    let mut wanted = own
        .iter()
        .filter(|finalizer| *finalizer != ORPHAN && *finalizer != FOREGROUND)
        .cloned()
        .collect::<Vec<_>>();
    if orphan {
        wanted.push(ORPHAN.into());
    }
    if foreground {
        wanted.push(FOREGROUND.into());
    }
    if wanted == own {
        return false;
    }
    if wanted.is_empty()
        && let Some(metadata) = next["metadata"].as_object_mut()
    {
        metadata.remove("finalizers");
    } else {
        next["metadata"]["finalizers"] = json!(wanted);
    }
    true
}

/// Adds the finalizer that keeps a CustomResourceDefinition until its objects are gone.
fn set_cleanup_finalizer(kind: &Kind, next: &mut Value) -> bool {
    let is_marked = !next["metadata"]["deletionTimestamp"].is_null();
    if is_marked || !kind.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        return false;
    }
    let mut finalizers = next["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push(definitions::CLEANUP_FINALIZER.into());
    next["metadata"]["finalizers"] = finalizers.into();
    true
}

/// Deleting a Job orphans its pods by default (`jobStrategy.DefaultGarbageCollectionPolicy`).
pub(super) fn orphans_by_default(kind: &Kind) -> bool {
    kind.is("batch", "Job")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(value: Value) -> Value {
        let mut pod = json!({"metadata": {"name": "p", "generation": 1}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        json_patch::merge(&mut pod, &value);
        pod
    }

    #[test]
    fn pods_are_deleted_gracefully() {
        let Some(kind) = objects::builtin_kind("", "Pod") else { panic!("pods are not served") };
        let now = Timestamp::UNIX_EPOCH;
        let options = |seconds| Options { grace_period_seconds: seconds, ..Options::default() };
        let marked = json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}});
        let table = [
            (pod(json!({})), None, Step::Mark, json!("1970-01-01T00:00:30Z")),
            (pod(json!({})), Some(0), Step::Remove, json!("1970-01-01T00:00:00Z")),
            (pod(json!({"spec": {"nodeName": null}})), None, Step::Remove, json!("1970-01-01T00:00:00Z")),
            (
                pod(json!({"status": {"phase": "Failed"}})),
                Some(9),
                Step::Remove,
                json!("1970-01-01T00:00:00Z"),
            ),
            (pod(marked.clone()), None, Step::Nothing, json!("1970-01-01T00:00:30Z")),
            (pod(marked.clone()), Some(60), Step::Nothing, json!("1970-01-01T00:00:30Z")),
            (pod(marked.clone()), Some(5), Step::Mark, json!("1970-01-01T00:00:05Z")),
            (pod(marked), Some(0), Step::Remove, json!("1970-01-01T00:00:00Z")),
            (
                pod(json!({"metadata": {"finalizers": ["x/y"]}})),
                Some(0),
                Step::Mark,
                json!("1970-01-01T00:00:00Z"),
            ),
        ];
        for (mut value, seconds, step, end) in table {
            let before = value.clone();
            assert_eq!(plan(kind, &options(seconds), &mut value, now), step, "{before} {seconds:?}");
            assert_eq!(value["metadata"]["deletionTimestamp"], end, "{before} {seconds:?}");
        }
    }

    #[test]
    fn propagation_policies_become_finalizers() {
        let Some(job) = objects::builtin_kind("batch", "Job") else { panic!("jobs are not served") };
        let Some(map) = objects::builtin_kind("", "ConfigMap") else { panic!("configmaps are not served") };
        let policy = |policy: Option<&str>| Options {
            propagation_policy: policy.map(Into::into),
            ..Options::default()
        };
        let table = [
            (&job, None, json!(["orphan"])),
            (&job, Some("Background"), Value::Null),
            (&map, None, Value::Null),
            (&map, Some("Foreground"), json!(["foregroundDeletion"])),
            (&map, Some("Orphan"), json!(["orphan"])),
        ];
        for (kind, name, finalizers) in table {
            let mut value = json!({"metadata": {"name": "x"}});
            set_garbage_finalizers(kind, &policy(name), &mut value);
            assert_eq!(value["metadata"]["finalizers"], finalizers, "{kind:?} {name:?}");
        }
    }
}
