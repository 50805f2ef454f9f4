//! The checks of level restricted that baseline does not have (`policy/check_*.go`), in the order of their ids.

use serde_json::Value;

use super::baseline::uses;
use super::{
    Violation, bad_containers, bad_seccomp, containers, has_user_namespace, named, plural, proc_mount,
    quoted, setters, sorted,
};

/// Allowed kinds of volumes.
const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Returns what restricted forbids beyond baseline.
pub fn violations(minor: u32, pod: &Value) -> Vec<Violation> {
    let is_windows = minor >= 25 && pod["spec"]["os"]["name"] == "windows";
    let is_apart = minor >= 35 && has_user_namespace(pod);
    let when =
        |applies: bool, check: fn(&Value) -> Option<Violation>| if applies { check(pod) } else { None };
    let found = [
        when(minor >= 8 && !is_windows, privilege_escalation),
        when(minor >= 22 && !is_windows, capabilities),
        when(minor >= 35, proc_mount),
        volumes(pod),
        when(!is_apart, non_root),
        when(minor >= 23 && !is_apart, user),
        when(minor >= 19 && !is_windows, seccomp),
    ];
    found.into_iter().flatten().collect()
}

fn privilege_escalation(pod: &Value) -> Option<Violation> {
    let bad = bad_containers(pod, |c| c["securityContext"]["allowPrivilegeEscalation"] != false);
    (!bad.is_empty()).then(|| Violation {
        reason: "allowPrivilegeEscalation != false",
        detail: format!(
            "{} must set securityContext.allowPrivilegeEscalation=false",
            named("container", &bad)
        ),
    })
}

fn capabilities(pod: &Value) -> Option<Violation> {
    fn list<'v>(container: &'v Value, field: &str) -> impl Iterator<Item = &'v str> {
        let list = container["securityContext"]["capabilities"][field].as_array();
        list.into_iter().flatten().filter_map(Value::as_str)
    }
    fn added(container: &Value) -> impl Iterator<Item = String> {
        list(container, "add").filter(|name| *name != "NET_BIND_SERVICE").map(str::to_owned)
    }
    let keeping = bad_containers(pod, |c| !list(c, "drop").any(|name| name == "ALL"));
    let adding = bad_containers(pod, |c| added(c).next().is_some());
    let mut details = Vec::new();
    if !keeping.is_empty() {
        let who = named("container", &keeping);
        details.push(format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !adding.is_empty() {
        let names = sorted(containers(pod).flat_map(added));
        let who = named("container", &adding);
        details
            .push(format!("{who} must not include {} in securityContext.capabilities.add", quoted(&names)));
    }
    (!details.is_empty())
        .then(|| Violation { reason: "unrestricted capabilities", detail: details.join("; ") })
}

fn volumes(pod: &Value) -> Option<Violation> {
    let all = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let is_allowed = |volume: &&Value| VOLUMES.iter().any(|kind| !volume[kind].is_null());
    let bad = all.filter(|volume| !is_allowed(volume)).collect::<Vec<_>>();
    if bad.is_empty() {
        return None;
    }
    let names = bad.iter().map(|volume| volume["name"].as_str().unwrap_or_default()).collect::<Vec<_>>();
    let kind = |volume: &&Value| {
        let fields = volume.as_object().into_iter().flatten();
        let mut kinds = fields.filter(|(field, value)| *field != "name" && !value.is_null());
        kinds.next().map_or("unknown".to_owned(), |(field, _)| field.clone())
    };
    let kinds = sorted(bad.iter().map(kind));
    Some(Violation {
        reason: "restricted volume types",
        detail: format!(
            "{} {} {} {}",
            named("volume", &names),
            uses(&names),
            plural("restricted volume type", kinds.len()),
            quoted(&kinds)
        ),
    })
}

fn non_root(pod: &Value) -> Option<Violation> {
    let own = |owner: &Value| owner["securityContext"]["runAsNonRoot"].as_bool();
    let on_pod = own(&pod["spec"]);
    let explicit = bad_containers(pod, |c| own(c) == Some(false));
    let reason = "runAsNonRoot != true";
    if on_pod == Some(false) || !explicit.is_empty() {
        let who = setters(on_pod == Some(false), &explicit);
        return Some(Violation {
            reason,
            detail: format!("{who} must not set securityContext.runAsNonRoot=false"),
        });
    }
    let implicit = bad_containers(pod, |c| own(c).is_none() && on_pod != Some(true));
    (!implicit.is_empty()).then(|| Violation {
        reason,
        detail: format!(
            "pod or {} must set securityContext.runAsNonRoot=true",
            named("container", &implicit)
        ),
    })
}

fn user(pod: &Value) -> Option<Violation> {
    let is_root = |owner: &Value| owner["securityContext"]["runAsUser"] == 0;
    let (on_pod, bad) = (is_root(&pod["spec"]), bad_containers(pod, is_root));
    (on_pod || !bad.is_empty()).then(|| Violation {
        reason: "runAsUser=0",
        detail: format!("{} must not set runAsUser=0", setters(on_pod, &bad)),
    })
}

fn seccomp(pod: &Value) -> Option<Violation> {
    let bad = bad_seccomp(pod);
    if bad.is_some() {
        return bad;
    }
    let is_set = |owner: &Value| owner["securityContext"]["seccompProfile"].is_object();
    let on_pod = is_set(&pod["spec"]);
    let silent = bad_containers(pod, |c| !on_pod && !is_set(c));
    (!silent.is_empty()).then(|| Violation {
        reason: "seccompProfile",
        detail: format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            named("container", &silent)
        ),
    })
}
