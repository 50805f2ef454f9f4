//! Translates security contexts of pods for this node: a container's privileges, and the fields that the node cannot
//! enforce.
//!
//! Pure. Rules: `pkg/securitycontext`, `pkg/kubelet/sysctl`. Fields that the current mode cannot enforce are reported
//! in one Event per pod ([`not_held`]). A container that needs what no mode can give is refused.

use k8s_openapi::api::core::v1::{Container, PodSpec};

use crate::mode::ModeKind;
use crate::sandbox::protocol::Security;

/// Capabilities by number (`linux/capability.h`).
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];
/// A container's default capabilities when it runs as root, as in Docker and containerd.
const DEFAULT: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SYS_CHROOT",
    "MKNOD",
    "AUDIT_WRITE",
    "SETFCAP",
];
/// Sysctls that affect only the pod's own namespaces (`pkg/kubelet/sysctl/safe_sysctls.go`).
const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

fn number(name: &str) -> Result<u32, String> {
    let bare = name.strip_prefix("CAP_").unwrap_or(name);
    let found = NAMES.iter().position(|known| *known == bare).and_then(|number| u32::try_from(number).ok());
    found.ok_or_else(|| format!("unknown capability {name:?}"))
}

/// Returns a container's privileges.
///
/// # Errors
/// When it requests something unknown, or something that no mode of this node gives.
pub fn of(container: &Container) -> Result<Security, String> {
    let wanted = container.security_context.clone().unwrap_or_default();
    if wanted.privileged == Some(true) {
        return Err(
            "this node does not run privileged containers, because it gives no access to devices and the machine; \
             remove securityContext.privileged, or add the capabilities that are needed"
                .to_owned(),
        );
    }
    let changes = wanted.capabilities.unwrap_or_default();
    let (add, dropped) = (changes.add.unwrap_or_default(), changes.drop.unwrap_or_default());
    let all = |list: &[String]| list.iter().any(|name| name.eq_ignore_ascii_case("all"));
    let named: Vec<u32> = dropped
        .iter()
        .filter(|name| !name.eq_ignore_ascii_case("all"))
        .map(|name| number(name))
        .collect::<Result<_, _>>()?;
    let base: &[&str] = match (all(&add), all(&dropped)) {
        (true, _) => &NAMES,
        (false, true) => &[],
        (false, false) => &DEFAULT,
    };
    let mut capabilities = base.iter().map(|name| number(name)).collect::<Result<Vec<_>, _>>()?;
    capabilities.retain(|number| !named.contains(number));
    for name in add.iter().filter(|name| !name.eq_ignore_ascii_case("all")) {
        capabilities.push(number(name)?);
    }
    capabilities.sort_unstable();
    capabilities.dedup();
    Ok(Security {
        may_gain_privileges: wanted.allow_privilege_escalation != Some(false),
        capabilities,
        read_only_root: wanted.read_only_root_filesystem == Some(true),
    })
}

/// Returns the first sysctl of a pod that is not safe.
pub fn forbidden_sysctl(spec: &PodSpec) -> Option<&str> {
    let wanted = spec.security_context.as_ref()?.sysctls.as_ref()?;
    wanted.iter().map(|sysctl| sysctl.name.as_str()).find(|name| {
        let dotted = name.replace('/', ".");
        !SAFE_SYSCTLS.contains(&dotted.as_str())
    })
}

/// Returns a pod's sysctls, with dots in their names.
pub fn sysctls(spec: &PodSpec) -> Vec<(String, String)> {
    let wanted = spec.security_context.iter().flat_map(|context| context.sysctls.iter().flatten());
    wanted.map(|sysctl| (sysctl.name.replace('/', "."), sysctl.value.clone())).collect()
}

/// Returns the fields of a pod that this mode does not enforce, with the reason, for an Event.
pub fn not_held(spec: &PodSpec, mode: ModeKind) -> Vec<String> {
    let shared = spec.security_context.clone().unwrap_or_default();
    let mut found = Vec::new();
    let mut tell = |is_there: bool, what: &str| {
        if is_there && !found.iter().any(|told| told == what) {
            found.push(what.to_owned());
        }
    };
    tell(
        mode != ModeKind::Root && shared.supplemental_groups.is_some_and(|groups| !groups.is_empty()),
        "securityContext.supplementalGroups (one id only)",
    );
    let plain = mode == ModeKind::Plain;
    tell(
        plain && shared.sysctls.is_some_and(|list| !list.is_empty()),
        "securityContext.sysctls (no namespaces)",
    );
    let unconfined = |profile: Option<&str>| !matches!(profile, None | Some("Unconfined" | "RuntimeDefault"));
    let local = |profile: &Option<k8s_openapi::api::core::v1::SeccompProfile>| {
        unconfined(profile.as_ref().map(|profile| profile.type_.as_str()))
    };
    tell(local(&shared.seccomp_profile), "seccompProfile Localhost (no seccomp)");
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        let own = container.security_context.clone().unwrap_or_default();
        tell(plain && own.read_only_root_filesystem == Some(true), "readOnlyRootFilesystem (no mounts)");
        let added =
            own.capabilities.as_ref().is_some_and(|changes| changes.add.iter().flatten().next().is_some());
        tell(plain && added, "capabilities.add (no namespaces)");
        tell(local(&own.seccomp_profile), "seccompProfile Localhost (no seccomp)");
        tell(plain && own.run_as_user.or(shared.run_as_user).is_some(), "runAsUser (one user only)");
    }
    found
}

/// Returns the fields of a pod that this node ignores in every mode, each with what the pod has instead.
pub fn ignored(spec: &PodSpec) -> Vec<&'static str> {
    let fields = [
        (spec.host_network == Some(true), "hostNetwork (the pod has a network of its own)"),
        (spec.host_pid == Some(true), "hostPID (the pod sees its own processes)"),
        (spec.host_ipc == Some(true), "hostIPC (the pod has its own shared memory)"),
        (
            spec.set_hostname_as_fqdn == Some(true),
            "setHostnameAsFQDN (the host name is the first label of the full name)",
        ),
        (
            spec.hostname_override.is_some(),
            "hostnameOverride (the host name is spec.hostname, or the pod's name)",
        ),
    ];
    fields.into_iter().filter(|(is_set, _)| *is_set).map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn container(context: serde_json::Value) -> Container {
        serde_json::from_value(json!({"name": "c", "securityContext": context})).unwrap()
    }

    #[test]
    fn capabilities_are_dropped_and_added() {
        let of = |changes| of(&container(json!({"capabilities": changes}))).map(|found| found.capabilities);
        assert_eq!(of(json!({})).unwrap().len(), DEFAULT.len());
        assert_eq!(of(json!({"drop": ["ALL"]})), Ok(vec![]));
        assert_eq!(of(json!({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]})), Ok(vec![10]));
        assert_eq!(of(json!({"add": ["ALL"]})).unwrap().len(), NAMES.len());
        assert!(!of(json!({"drop": ["CAP_NET_RAW"]})).unwrap().contains(&13));
        assert_eq!(of(json!({"add": ["FLY"]})), Err("unknown capability \"FLY\"".to_owned()));
    }

    #[test]
    fn impossible_requests_are_rejected_and_unenforced_fields_reported() {
        assert!(of(&container(json!({"privileged": true}))).unwrap_err().contains("privileged"));
        let spec: PodSpec = serde_json::from_value(json!({
            "securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}], "supplementalGroups": [5]},
            "containers": [{"name": "c", "securityContext": {"readOnlyRootFilesystem": true}}],
        }))
        .unwrap();
        assert_eq!(forbidden_sysctl(&spec), None);
        assert_eq!(not_held(&spec, ModeKind::Root), Vec::<String>::new());
        assert_eq!(not_held(&spec, ModeKind::Rootless).len(), 1);
        assert_eq!(not_held(&spec, ModeKind::Plain).len(), 3);
        let unsafe_one: PodSpec = serde_json::from_value(json!({
            "securityContext": {"sysctls": [{"name": "kernel/msgmax", "value": "1"}]}, "containers": [],
        }))
        .unwrap();
        assert_eq!(forbidden_sysctl(&unsafe_one), Some("kernel/msgmax"));
    }

    #[test]
    fn fields_without_effect_are_named_with_what_the_pod_has_instead() {
        let spec = PodSpec {
            host_network: Some(true),
            set_hostname_as_fqdn: Some(true),
            host_pid: Some(false),
            ..PodSpec::default()
        };
        let told = ignored(&spec);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("hostNetwork") && told[1].starts_with("setHostnameAsFQDN"), "{told:?}");
        assert!(ignored(&PodSpec::default()).is_empty());
    }
}
