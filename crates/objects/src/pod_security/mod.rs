//! The Pod Security Standards: what a level forbids in a pod, by version of the standards. Pure.
//!
//! Source: `k8s.io/pod-security-admission/policy` v0.36, with the same ids, order and messages.
//! `crates/objects/tests/pod-security.json` verifies it against that module.

mod baseline;
mod restricted;

use serde_json::Value;

use super::FieldFault;

/// The levels, from least to most strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything is allowed.
    Privileged,
    /// No known privilege escalation.
    Baseline,
    /// Hardened.
    Restricted,
}

/// The newest version in which a check changed. Later versions are treated as this one.
const NEWEST: u32 = 35;

/// A level and its Kubernetes version; `None` is the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelVersion {
    /// The level.
    pub level: Level,
    /// The minor version, of `v1.MINOR`.
    pub minor: Option<u32>,
}

impl std::fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.minor {
            Some(minor) => write!(f, "{}:v1.{minor}", self.level.name()),
            None => write!(f, "{}:latest", self.level.name()),
        }
    }
}

impl Level {
    /// Returns the name used in labels.
    pub fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }

    fn parse(text: &str) -> Option<Level> {
        [Level::Privileged, Level::Baseline, Level::Restricted].into_iter().find(|level| level.name() == text)
    }
}

/// A namespace's policy, by mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Violations are rejected.
    pub enforce: LevelVersion,
    /// Violations are recorded in the audit log.
    pub audit: LevelVersion,
    /// Violations lead to a warning for the client.
    pub warn: LevelVersion,
}

impl Policy {
    /// Reads a namespace's labels. Always returns a policy. An unreadable label leads to the strictest `enforce`, and
    /// to no `warn` or `audit`.
    pub fn of(labels: &Value) -> (Policy, Vec<FieldFault>) {
        const UNSET: LevelVersion = LevelVersion { level: Level::Privileged, minor: None };
        let mut policy = Policy { enforce: UNSET, audit: UNSET, warn: UNSET };
        let mut faults = Vec::new();
        let enforced = read(labels, "enforce", Level::Restricted, &mut policy.enforce, &mut faults);
        read(labels, "audit", Level::Privileged, &mut policy.audit, &mut faults);
        read(labels, "warn", Level::Privileged, &mut policy.warn, &mut faults);
        let has = |name: &str| labels[format!("{PREFIX}{name}")].is_string();
        if enforced && !has("warn") && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if !has("warn-version") {
                policy.warn.minor = policy.enforce.minor;
            }
        }
        (policy, faults)
    }
}

const PREFIX: &str = "pod-security.kubernetes.io/";

/// Reads one mode. Returns whether its level is set and valid.
fn read(
    labels: &Value,
    mode: &str,
    otherwise: Level,
    into: &mut LevelVersion,
    faults: &mut Vec<FieldFault>,
) -> bool {
    let mut fault = |label: &str, value: &str, detail: &str| {
        faults.push(FieldFault::invalid(format!("metadata.labels[{label}]"), value, detail));
    };
    let label = format!("{PREFIX}{mode}");
    let mut is_level = false;
    if let Some(text) = labels[&label].as_str() {
        match Level::parse(text) {
            Some(level) => (into.level, is_level) = (level, true),
            None => {
                fault(&label, text, "must be one of privileged, baseline, restricted");
                into.level = otherwise;
            }
        }
    }
    let label = format!("{label}-version");
    if let Some(text) = labels[&label].as_str()
        && text != "latest"
    {
        into.minor = text
            .strip_prefix("v1.")
            .filter(|minor| *minor == "0" || !minor.starts_with(['0', '+']))
            .and_then(|minor| minor.parse().ok());
        if into.minor.is_none() {
            fault(&label, text, "must be \"latest\" or \"v1.x\"");
        }
    }
    is_level
}

/// A violation of a check: a short reason, and the containers or values concerned.
pub struct Violation {
    /// E.g. `hostPort`.
    pub reason: &'static str,
    /// E.g. `container "a" uses hostPort 80`.
    pub detail: String,
}

/// Returns the violations of a pod or pod template, in the order of the checks.
pub fn violations(wanted: LevelVersion, pod: &Value) -> Vec<Violation> {
    let minor = wanted.minor.unwrap_or(NEWEST).min(NEWEST);
    match wanted.level {
        Level::Privileged => Vec::new(),
        Level::Baseline => baseline::violations(minor, pod, false),
        Level::Restricted => {
            let mut found = baseline::violations(minor, pod, true);
            found.extend(restricted::violations(minor, pod));
            found
        }
    }
}

/// Formats the violations in one line, with their details.
pub fn details(violations: &[Violation]) -> String {
    violations.iter().map(|v| format!("{} ({})", v.reason, v.detail)).collect::<Vec<_>>().join(", ")
}

/// Formats the violations in one line, without their details.
pub fn reasons(violations: &[Violation]) -> String {
    violations.iter().map(|v| v.reason).collect::<Vec<_>>().join(", ")
}

/// Returns all containers, in the order in which checks list them.
fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(move |list| pod["spec"][list].as_array().into_iter().flatten())
}

/// Returns the names of the containers for which `bad` is true.
fn bad_containers<'v>(pod: &'v Value, bad: impl Fn(&'v Value) -> bool) -> Vec<&'v str> {
    containers(pod).filter(|c| bad(c)).map(|c| c["name"].as_str().unwrap_or_default()).collect()
}

/// Formats `container "a"` or `containers "a", "b"`.
fn named<S: AsRef<str>>(singular: &str, names: &[S]) -> String {
    format!("{} {}", plural(singular, names.len()), quoted(names))
}

fn plural(singular: &str, count: usize) -> String {
    if count == 1 { singular.to_owned() } else { format!("{singular}s") }
}

fn quoted<S: AsRef<str>>(names: &[S]) -> String {
    names.iter().map(|name| format!("\"{}\"", name.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Formats where something is set: `pod and container "a"`.
fn setters(pod: bool, containers: &[&str]) -> String {
    let mut all = Vec::new();
    if pod {
        all.push("pod".to_owned());
    }
    if !containers.is_empty() {
        all.push(named("container", containers));
    }
    all.join(" and ")
}

/// Returns the distinct texts, sorted.
fn sorted(texts: impl Iterator<Item = String>) -> Vec<String> {
    texts.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

/// Returns whether the pod has its own user namespace, which allows more from v1.35 on.
fn has_user_namespace(pod: &Value) -> bool {
    pod["spec"]["hostUsers"] == false
}

/// Returns the violation of `procMount`, a check of both levels.
fn proc_mount(pod: &Value) -> Option<Violation> {
    let kind = |c: &Value| {
        c["securityContext"]["procMount"].as_str().filter(|kind| *kind != "Default").map(str::to_owned)
    };
    let bad = bad_containers(pod, |c| kind(c).is_some());
    let kinds = sorted(containers(pod).filter_map(kind));
    (!bad.is_empty()).then(|| Violation {
        reason: "procMount",
        detail: format!(
            "{} must not set securityContext.procMount to {}",
            named("container", &bad),
            quoted(&kinds)
        ),
    })
}

/// Returns the violation of a seccomp profile that is not allowed.
fn bad_seccomp(pod: &Value) -> Option<Violation> {
    let kind = |owner: &Value| {
        let profile = &owner["securityContext"]["seccompProfile"];
        let kind = profile["type"].as_str().unwrap_or_default();
        (profile.is_object() && !matches!(kind, "Localhost" | "RuntimeDefault")).then(|| kind.to_owned())
    };
    let on_pod = kind(&pod["spec"]);
    let bad = bad_containers(pod, |c| kind(c).is_some());
    if on_pod.is_none() && bad.is_empty() {
        return None;
    }
    let who = setters(on_pod.is_some(), &bad);
    let kinds = sorted(on_pod.into_iter().chain(containers(pod).filter_map(kind)));
    Some(Violation {
        reason: "seccompProfile",
        detail: format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(&kinds)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_define_a_policy() {
        let table = [
            (json!({}), "privileged:latest privileged:latest privileged:latest", 0),
            (
                json!({"enforce": "baseline", "enforce-version": "v1.30"}),
                "baseline:v1.30 privileged:latest baseline:v1.30",
                0,
            ),
            (
                json!({"enforce": "baseline", "warn": "privileged"}),
                "baseline:latest privileged:latest privileged:latest",
                0,
            ),
            (
                json!({"warn": "restricted", "audit": "baseline"}),
                "privileged:latest baseline:latest restricted:latest",
                0,
            ),
            (
                json!({"enforce": "strict", "warn-version": "1.30"}),
                "restricted:latest privileged:latest privileged:latest",
                2,
            ),
        ];
        for (labels, expected, count) in table {
            let labels: serde_json::Map<_, _> = labels
                .as_object()
                .unwrap()
                .iter()
                .map(|(k, v)| (format!("{PREFIX}{k}"), v.clone()))
                .collect();
            let (policy, faults) = Policy::of(&Value::Object(labels));
            assert_eq!(format!("{} {} {}", policy.enforce, policy.audit, policy.warn), expected);
            assert_eq!(faults.len(), count, "{faults:?}");
        }
    }

    /// Compares with the upstream module's results for the pods of `tests/pod-security.json`, for each level and
    /// version.
    #[test]
    fn violations_match_the_upstream_module() {
        let table: Value = serde_json::from_str(include_str!("../../tests/pod-security.json")).unwrap();
        let mut count = 0;
        for case in table["cases"].as_array().unwrap() {
            for (key, expected) in case["verdicts"].as_object().unwrap() {
                let (level, minor) = key.split_once(":v1.").unwrap();
                let wanted = LevelVersion { level: Level::parse(level).unwrap(), minor: minor.parse().ok() };
                let found = details(&violations(wanted, &case["pod"]));
                assert_eq!(found, expected.as_str().unwrap(), "{key} of {}", case["pod"]);
                count += 1;
            }
        }
        assert!(count > 800, "{count}");
    }
}
