//! The checks of level baseline (`policy/check_*.go`), in the order of their ids.

use serde_json::Value;

use super::{
    Violation, bad_containers, bad_seccomp, containers, has_user_namespace, named, plural, proc_mount,
    quoted, setters, sorted,
};

/// Capabilities that a container may add.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Sysctls that a pod may change, with the first version that allows them.
const SYSCTLS: [(&str, u32); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];
/// SELinux types, with the first version that allows them.
const SELINUX_TYPES: [(&str, u32); 5] = [
    ("", 0),
    ("container_t", 0),
    ("container_init_t", 0),
    ("container_kvm_t", 0),
    ("container_engine_t", 31),
];
const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Returns what baseline forbids. With `for_restricted`, omits checks for which restricted has a stricter one.
pub fn violations(minor: u32, pod: &Value, for_restricted: bool) -> Vec<Violation> {
    let unless =
        |overridden: bool, check: Option<Violation>| check.filter(|_| !(for_restricted && overridden));
    let proc_mount = if minor >= 35 && has_user_namespace(pod) { None } else { proc_mount(pod) };
    let seccomp = if minor >= 19 { bad_seccomp(pod) } else { seccomp_annotations(pod) };
    let found = [
        app_armor(pod),
        unless(minor >= 22, capabilities(pod)),
        host_namespaces(pod),
        unless(true, host_paths(pod)),
        host_ports(pod),
        host_probes(pod).filter(|_| minor >= 34),
        privileged(pod),
        unless(minor >= 35, proc_mount),
        selinux(minor, pod),
        unless(minor >= 19, seccomp),
        sysctls(minor, pod),
        host_process(pod),
    ];
    found.into_iter().flatten().collect()
}

fn app_armor(pod: &Value) -> Option<Violation> {
    let kind = |owner: &Value| {
        let profile = &owner["securityContext"]["appArmorProfile"];
        let kind = profile["type"].as_str().unwrap_or_default();
        (profile.is_object() && !matches!(kind, "RuntimeDefault" | "Localhost")).then(|| kind.to_owned())
    };
    let on_pod = kind(&pod["spec"]);
    let bad = bad_containers(pod, |c| kind(c).is_some());
    let is_allowed = |profile: &str| {
        profile.is_empty() || profile == "runtime/default" || profile.starts_with("localhost/")
    };
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    let annotations = sorted(annotations.filter_map(|(key, value)| {
        let value = value.as_str().unwrap_or_default();
        (key.starts_with(APPARMOR) && !is_allowed(value)).then(|| format!("{key}={value:?}"))
    }));
    let mut who = Vec::new();
    if on_pod.is_some() || !bad.is_empty() {
        who.push(setters(on_pod.is_some(), &bad));
    }
    if !annotations.is_empty() {
        who.push(plural("annotation", annotations.len()));
    }
    if who.is_empty() {
        return None;
    }
    let mut values = sorted(on_pod.into_iter().chain(containers(pod).filter_map(kind)));
    values.extend(annotations);
    let reason = if values.len() == 1 { "forbidden AppArmor profile" } else { "forbidden AppArmor profiles" };
    let detail = format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(&values));
    Some(Violation { reason, detail })
}

fn capabilities(pod: &Value) -> Option<Violation> {
    fn added(container: &Value) -> impl Iterator<Item = String> {
        let list = container["securityContext"]["capabilities"]["add"].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).filter(|name| !CAPABILITIES.contains(name)).map(str::to_owned)
    }
    let bad = bad_containers(pod, |c| added(c).next().is_some());
    let names = sorted(containers(pod).flat_map(added));
    (!bad.is_empty()).then(|| Violation {
        reason: "non-default capabilities",
        detail: format!(
            "{} must not include {} in securityContext.capabilities.add",
            named("container", &bad),
            quoted(&names)
        ),
    })
}

fn host_namespaces(pod: &Value) -> Option<Violation> {
    let set = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| pod["spec"][field] == true);
    let set = set.map(|field| format!("{field}=true")).collect::<Vec<_>>();
    (!set.is_empty()).then(|| Violation { reason: "host namespaces", detail: set.join(", ") })
}

fn host_paths(pod: &Value) -> Option<Violation> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let bad = volumes.filter(|volume| !volume["hostPath"].is_null());
    let bad = bad.map(|volume| volume["name"].as_str().unwrap_or_default()).collect::<Vec<_>>();
    (!bad.is_empty()).then(|| Violation { reason: "hostPath volumes", detail: named("volume", &bad) })
}

fn host_ports(pod: &Value) -> Option<Violation> {
    fn ports(container: &Value) -> impl Iterator<Item = String> {
        let ports = container["ports"].as_array().into_iter().flatten();
        ports
            .filter_map(|port| port["hostPort"].as_i64())
            .filter(|port| *port != 0)
            .map(|port| port.to_string())
    }
    let bad = bad_containers(pod, |c| ports(c).next().is_some());
    let numbers = sorted(containers(pod).flat_map(ports));
    (!bad.is_empty()).then(|| Violation {
        reason: "hostPort",
        detail: format!(
            "{} {} {} {}",
            named("container", &bad),
            uses(&bad),
            plural("hostPort", numbers.len()),
            numbers.join(", ")
        ),
    })
}

pub(super) fn uses(names: &[&str]) -> &'static str {
    if names.len() == 1 { "uses" } else { "use" }
}

fn host_probes(pod: &Value) -> Option<Violation> {
    fn hosts(container: &Value) -> impl Iterator<Item = String> {
        let handlers = ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| &container[probe]);
        let hooks = ["postStart", "preStop"].map(|hook| &container["lifecycle"][hook]);
        handlers.into_iter().chain(hooks).flat_map(|handler| {
            let hosts =
                ["httpGet", "tcpSocket"].map(|action| handler[action]["host"].as_str().unwrap_or_default());
            hosts.into_iter().filter(|host| !host.is_empty()).map(str::to_owned)
        })
    }
    let bad = sorted(bad_containers(pod, |c| hosts(c).next().is_some()).into_iter().map(str::to_owned));
    let bad = bad.iter().map(String::as_str).collect::<Vec<_>>();
    let names = sorted(containers(pod).flat_map(hosts));
    (!bad.is_empty()).then(|| Violation {
        reason: "probe or lifecycle host",
        detail: format!(
            "{} {} {} {}",
            named("container", &bad),
            uses(&bad),
            plural("probe or lifecycle host", names.len()),
            quoted(&names)
        ),
    })
}

fn privileged(pod: &Value) -> Option<Violation> {
    let bad = bad_containers(pod, |c| c["securityContext"]["privileged"] == true);
    (!bad.is_empty()).then(|| Violation {
        reason: "privileged",
        detail: format!("{} must not set securityContext.privileged=true", named("container", &bad)),
    })
}

fn selinux(minor: u32, pod: &Value) -> Option<Violation> {
    let text = |options: &Value, field: &str| options[field].as_str().unwrap_or_default().to_owned();
    let bad_type = |options: &Value| {
        let given = text(options, "type");
        let is_allowed = SELINUX_TYPES.iter().any(|(name, since)| *name == given && *since <= minor);
        (!is_allowed).then_some(given)
    };
    let is_bad = |owner: &Value| {
        let options = &owner["securityContext"]["seLinuxOptions"];
        options.is_object()
            && (bad_type(options).is_some()
                || !text(options, "user").is_empty()
                || !text(options, "role").is_empty())
    };
    let on_pod = is_bad(&pod["spec"]);
    let bad = bad_containers(pod, is_bad);
    if !on_pod && bad.is_empty() {
        return None;
    }
    let all = || {
        std::iter::once(&pod["spec"])
            .chain(containers(pod))
            .map(|owner| &owner["securityContext"]["seLinuxOptions"])
    };
    let mut data = Vec::new();
    let types = sorted(all().filter(|options| options.is_object()).filter_map(bad_type));
    if !types.is_empty() {
        data.push(named("type", &types));
    }
    for field in ["user", "role"] {
        if all().any(|options| !text(options, field).is_empty()) {
            data.push(format!("{field} may not be set"));
        }
    }
    let who = setters(on_pod, &bad);
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {}", data.join("; "));
    Some(Violation { reason: "seLinuxOptions", detail })
}

/// Before v1.19, profiles were set by annotations.
fn seccomp_annotations(pod: &Value) -> Option<Violation> {
    let annotations = &pod["metadata"]["annotations"];
    let bad = |key: String| {
        let value = annotations[&key].as_str()?;
        let is_allowed =
            matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
        (!is_allowed).then(|| format!("{key}={value:?}"))
    };
    let keys =
        containers(pod).map(|c| format!("{SECCOMP_CONTAINER}{}", c["name"].as_str().unwrap_or_default()));
    let found = sorted(std::iter::once(SECCOMP_POD.to_owned()).chain(keys).filter_map(bad));
    (!found.is_empty()).then(|| Violation {
        reason: "seccompProfile",
        detail: format!("forbidden {} {}", plural("annotation", found.len()), found.join(", ")),
    })
}

fn sysctls(minor: u32, pod: &Value) -> Option<Violation> {
    let list = pod["spec"]["securityContext"]["sysctls"].as_array().into_iter().flatten();
    let names = list.map(|sysctl| sysctl["name"].as_str().unwrap_or_default());
    let bad = names.filter(|name| !SYSCTLS.iter().any(|(known, since)| known == name && *since <= minor));
    let bad = bad.collect::<Vec<_>>();
    (!bad.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: bad.join(", ") })
}

fn host_process(pod: &Value) -> Option<Violation> {
    let is_bad = |owner: &Value| owner["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let (on_pod, bad) = (is_bad(&pod["spec"]), bad_containers(pod, is_bad));
    (on_pod || !bad.is_empty()).then(|| Violation {
        reason: "hostProcess",
        detail: format!(
            "{} must not set securityContext.windowsOptions.hostProcess=true",
            setters(on_pod, &bad)
        ),
    })
}
