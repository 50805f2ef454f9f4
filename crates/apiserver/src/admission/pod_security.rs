//! PodSecurity: enforces, warns and audits by a namespace's labels.
//!
//! Source: `k8s.io/pod-security-admission/admission` v0.36; [`objects::pod_security`] knows what a
//! level forbids. As in an unconfigured kube-apiserver, the default level is `privileged` and there are no
//! exemptions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Attributes, Operation, text};
use crate::status::{self, StatusError};
use crate::store::{Key, Resource};
use objects::pod_security::{self, Level, LevelVersion, Policy};

/// The maximum number of existing pods to check when a namespace becomes stricter
/// (`defaultNamespaceMaxPodsToCheck`).
const MAX_CHECKED_PODS: usize = 3000;
/// Subresources of pods that aren't checked.
const IGNORED: [&str; 8] = ["attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status"];

/// Checks a write of a namespace, a pod, or an object with a pod template.
///
/// # Errors
/// 403 for a pod, 422 for a namespace's labels.
pub fn check(at: &Attributes<'_>, object: &Value, old: Option<&Value>) -> Result<(), StatusError> {
    if at.operation == Operation::Delete {
        return Ok(());
    }
    let kind = at.kind();
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace") if at.subresource().is_empty() => check_namespace(at, object, old),
        ("", "Pod") if !IGNORED.contains(&at.subresource()) => {
            if old.is_some_and(|old| !is_significant(object, old)) {
                return Ok(());
            }
            judge(at, object, object, true)
        }
        ("batch", "Job") if at.subresource().is_empty() => {
            judge(at, object, &object["spec"]["template"], false)
        }
        ("batch", "CronJob") if at.subresource().is_empty() => {
            judge(at, object, &object["spec"]["jobTemplate"]["spec"]["template"], false)
        }
        _ => Ok(()),
    }
}

fn judge(at: &Attributes<'_>, object: &Value, pod: &Value, enforces: bool) -> Result<(), StatusError> {
    let namespace = at.namespace().unwrap_or_default();
    let namespace = at.context.server.store.get(&crate::namespaces(), &Key::new(None, namespace));
    let Some(namespace) = namespace else { return Ok(()) };
    let (policy, faults) = Policy::of(&namespace.value()["metadata"]["labels"]);
    let note =
        |key: &str, value: String| at.context.annotate(format!("pod-security.kubernetes.io/{key}"), value);
    if !faults.is_empty() {
        let texts = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        note("error", format!("Failed to parse policy: {texts}"));
    }
    let of = |wanted: LevelVersion| pod_security::details(&pod_security::violations(wanted, pod));
    if enforces {
        note("enforce-policy", policy.enforce.to_string());
    }
    let audited = of(policy.audit);
    if !audited.is_empty() {
        note("audit-violations", format!("would violate PodSecurity \"{}\": {audited}", policy.audit));
    }
    if enforces {
        let refused = of(policy.enforce);
        if !refused.is_empty() {
            let why = format!("violates PodSecurity \"{}\": {refused}", policy.enforce);
            return Err(at.forbidden(Some(object), &why));
        }
    }
    let warned = of(policy.warn);
    if !warned.is_empty() {
        at.context.warn(format!("would violate PodSecurity \"{}\": {warned}", policy.warn));
    }
    Ok(())
}

/// Returns whether an update of a pod changes its set of containers or their images.
fn is_significant(pod: &Value, old: &Value) -> bool {
    let list = |pod: &Value, field: &str| {
        let containers = pod["spec"][field].as_array().into_iter().flatten();
        containers.map(|c| (c["name"].clone(), c["image"].clone())).collect::<Vec<_>>()
    };
    ["containers", "initContainers", "ephemeralContainers"]
        .iter()
        .any(|field| list(pod, field) != list(old, field))
}

fn check_namespace(at: &Attributes<'_>, object: &Value, old: Option<&Value>) -> Result<(), StatusError> {
    let (policy, faults) = Policy::of(&object["metadata"]["labels"]);
    let Some(old) = old else {
        return if faults.is_empty() {
            Ok(())
        } else {
            Err(status::invalid_object(at.kind(), at.name, &faults))
        };
    };
    let (before, old_faults) = Policy::of(&old["metadata"]["labels"]);
    if !faults.is_empty() && faults != old_faults {
        return Err(status::invalid_object(at.kind(), at.name, &faults));
    }
    let (new, old) = (policy.enforce, before.enforce);
    let is_laxer = new.minor == old.minor && new.level <= old.level;
    if new != old && new.level != Level::Privileged && !is_laxer {
        warn_of_pods(at, new);
    }
    Ok(())
}

/// Warns about existing pods that violate the new level.
fn warn_of_pods(at: &Attributes<'_>, enforce: LevelVersion) {
    let pods = at.context.server.store.list(&Resource::new("", "pods"), Some(at.name)).records;
    // By violation: the first pod's name, and the number of pods.
    let mut found = BTreeMap::<String, (String, usize)>::new();
    for pod in pods.iter().take(MAX_CHECKED_PODS) {
        let violations = pod_security::violations(enforce, &pod.value());
        if violations.is_empty() {
            continue;
        }
        let name = text(&pod.value()["metadata"]["name"]).to_owned();
        found.entry(pod_security::reasons(&violations)).or_insert((name, 0)).1 += 1;
    }
    if pods.len() > MAX_CHECKED_PODS {
        at.context.warn(format!(
            "new PodSecurity enforce level only checked against the first {MAX_CHECKED_PODS} of {} existing pods",
            pods.len()
        ));
    }
    if found.is_empty() {
        return;
    }
    at.context.warn(format!(
        "existing pods in namespace \"{}\" violate the new PodSecurity enforce level \"{enforce}\"",
        at.name
    ));
    let mut lines = found
        .into_iter()
        .map(|(reasons, (name, count))| match count {
            1 => format!("{name}: {reasons}"),
            2 => format!("{name} (and 1 other pod): {reasons}"),
            count => format!("{name} (and {} other pods): {reasons}", count - 1),
        })
        .collect::<Vec<_>>();
    lines.sort();
    lines.into_iter().for_each(|line| at.context.warn(line));
}
