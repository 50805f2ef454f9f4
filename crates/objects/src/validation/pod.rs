//! Pods and pod templates (`ValidatePodSpec`, `ValidatePodUpdate`), as far as Jobs, other workloads and tools need the
//! rules.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    FieldFault, Reason, items, network, not_negative, one_of, placement, pod_volumes, resources, text,
};

use crate::notation::restore_equal_quantities;
use crate::{names, selectors::LabelSelector};

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn validate(pod: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    spec(&pod["spec"], "spec", &mut faults);
    // Templates are exempt, so that those from before this rule remain valid.
    for list in ["containers", "initContainers"] {
        for (index, container) in items(&pod["spec"], list) {
            let image = text(container, "image");
            if image != image.trim() {
                let text = "must not have leading or trailing whitespace";
                faults.push(FieldFault::invalid(format!("spec.{list}[{index}].image"), image, text));
            }
        }
    }
    faults
}

/// Validates a pod template, as in a Job.
pub(super) fn template(template: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    faults.extend(names::labels(&template["metadata"]["labels"], &format!("{path}.labels")));
    faults.extend(names::annotations(&template["metadata"]["annotations"], &format!("{path}.annotations")));
    spec(&template["spec"], &format!("{path}.spec"), faults);
    if items(&template["spec"], "ephemeralContainers").next().is_some() {
        let text = "ephemeral containers not allowed in pod template";
        faults.push(FieldFault::forbidden(format!("{path}.spec.ephemeralContainers"), text));
    }
}

fn spec(spec: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    let volumes = pod_volumes::volumes(spec, path, faults);
    containers(spec, path, &volumes, faults);
    one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], path, faults);
    one_of(spec, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], path, faults);
    if spec["activeDeadlineSeconds"].as_i64().is_some_and(|s| !(1..=i64::from(i32::MAX)).contains(&s)) {
        faults.push(FieldFault::invalid(
            format!("{path}.activeDeadlineSeconds"),
            spec["activeDeadlineSeconds"].clone(),
            "must be between 1 and 2147483647, inclusive",
        ));
    }
    for field in ["hostname", "subdomain"] {
        let value = text(spec, field);
        if !value.is_empty() {
            faults.extend(
                names::label(value)
                    .into_iter()
                    .map(|f| FieldFault::invalid(format!("{path}.{field}"), value, f)),
            );
        }
    }
    for (field, judge) in
        [("nodeName", names::subdomain as fn(&str) -> Vec<String>), ("serviceAccountName", names::subdomain)]
    {
        let value = text(spec, field);
        if !value.is_empty() {
            faults.extend(
                judge(value).into_iter().map(|f| FieldFault::invalid(format!("{path}.{field}"), value, f)),
            );
        }
    }
    faults.extend(names::labels(&spec["nodeSelector"], &format!("{path}.nodeSelector")));
    placement::placement(spec, path, faults);
    dns(spec, path, faults);
    security(&spec["securityContext"], &format!("{path}.securityContext"), faults);
    readiness(spec, path, faults);
}

fn containers(spec: &Value, path: &str, volumes: &BTreeSet<&str>, faults: &mut Vec<FieldFault>) {
    if items(spec, "containers").next().is_none() {
        faults.push(FieldFault::required(format!("{path}.containers"), ""));
    }
    let mut seen = BTreeSet::new();
    for list in ["containers", "initContainers"] {
        let mut host_ports = BTreeSet::new();
        for (index, container) in items(spec, list) {
            let (at, name) = (format!("{path}.{list}[{index}]"), text(container, "name"));
            if name.is_empty() {
                faults.push(FieldFault::required(format!("{at}.name"), ""));
            } else {
                faults.extend(
                    names::label(name)
                        .into_iter()
                        .map(|f| FieldFault::invalid(format!("{at}.name"), name, f)),
                );
            }
            if seen.contains(name) {
                faults.push(FieldFault::duplicate(format!("{at}.name"), name));
            } else if list == "containers" || !name.is_empty() {
                seen.insert(name);
            }
            self::container(container, &at, volumes, faults);
            ports(container, &at, spec["hostNetwork"] == true, &mut host_ports, faults);
            if !container["restartPolicy"].is_null() {
                one_of(container, "restartPolicy", &["Always", "Never", "OnFailure"], &at, faults);
            }
            if list == "initContainers" && container["restartPolicy"] != "Always" {
                for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
                    if container[probe].is_object() {
                        let text = "may not be set for init containers without restartPolicy=Always";
                        faults.push(FieldFault::forbidden(format!("{at}.{probe}"), text));
                    }
                }
            }
        }
    }
}

fn container(container: &Value, at: &str, volumes: &BTreeSet<&str>, faults: &mut Vec<FieldFault>) {
    let image = text(container, "image");
    if image.is_empty() {
        faults.push(FieldFault::required(format!("{at}.image"), ""));
    }
    one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], at, faults);
    one_of(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], at, faults);
    environment(container, at, faults);
    mounts(container, at, volumes, faults);
    resources::of_container(&container["resources"], &format!("{at}.resources"), faults);
    security(&container["securityContext"], &format!("{at}.securityContext"), faults);
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        self::probe(&container[probe], &format!("{at}.{probe}"), probe, faults);
    }
    for hook in ["postStart", "preStop"] {
        if container["lifecycle"][hook].is_object() {
            handler(&container["lifecycle"][hook], &format!("{at}.lifecycle.{hook}"), faults);
        }
    }
}

fn environment(container: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    for (index, variable) in items(container, "env") {
        let (at, name) = (format!("{at}.env[{index}]"), text(variable, "name"));
        if name.is_empty() {
            faults.push(FieldFault::required(format!("{at}.name"), ""));
        } else if let Some(fault) = names::env_name(name) {
            faults.push(FieldFault::invalid(format!("{at}.name"), name, fault));
        }
        value_from(variable, &format!("{at}.valueFrom"), faults);
    }
    let at = format!("{at}.envFrom");
    for (index, source) in items(container, "envFrom") {
        let kinds = ["configMapRef", "secretRef"].into_iter().filter(|kind| source[*kind].is_object());
        let kinds = kinds.collect::<Vec<_>>();
        let prefix = text(source, "prefix");
        if let Some(fault) = names::env_name(prefix).filter(|_| !prefix.is_empty()) {
            faults.push(FieldFault::invalid(format!("{at}[{index}].prefix"), prefix, fault));
        }
        for kind in &kinds {
            let (at, name) = (format!("{at}[{index}].{kind}.name"), text(&source[*kind], "name"));
            if name.is_empty() {
                faults.push(FieldFault::required(at, ""));
            } else {
                faults.extend(names::prefix(name).into_iter().map(|f| FieldFault::invalid(&at, name, f)));
            }
        }
        match kinds.len() {
            1 => {}
            0 => {
                let text = "must specify one of: `configMapRef` or `secretRef`";
                faults.push(FieldFault::invalid(&at, "", text));
            }
            _ => {
                let text = "may not have more than one field specified at a time";
                faults.push(FieldFault::invalid(&at, "", text));
            }
        }
    }
}

/// Validates the source of a variable's value (`validateEnvVarValueFrom`).
fn value_from(variable: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let from = &variable["valueFrom"];
    if !from.is_object() {
        return;
    }
    if !from["fieldRef"].is_null() {
        let allowed = &pod_volumes::IN_VARIABLES;
        pod_volumes::field_ref(&from["fieldRef"], allowed, &format!("{at}.fieldRef"), faults);
    }
    if !from["resourceFieldRef"].is_null() {
        let at = format!("{at}.resourceFieldRef");
        pod_volumes::resource_ref(&from["resourceFieldRef"], false, &at, faults);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let (source, at) = (&from[kind], format!("{at}.{kind}"));
        if source.is_null() {
            continue;
        }
        let (name, key) = (text(source, "name"), text(source, "key"));
        let judged = names::subdomain(name).into_iter();
        faults.extend(judged.map(|f| FieldFault::invalid(format!("{at}.name"), name, f)));
        if key.is_empty() {
            faults.push(FieldFault::required(format!("{at}.key"), ""));
        } else {
            let judged = names::config_key(key).into_iter();
            faults.extend(judged.map(|f| FieldFault::invalid(format!("{at}.key"), key, f)));
        }
    }
    let text = match from.as_object().map_or(0, |map| map.values().filter(|v| !v.is_null()).count()) {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    faults.push(FieldFault::invalid(at, "", text));
}

fn mounts(container: &Value, at: &str, volumes: &BTreeSet<&str>, faults: &mut Vec<FieldFault>) {
    let mut paths = BTreeSet::new();
    for (index, mount) in items(container, "volumeMounts") {
        let list = format!("{at}.volumeMounts");
        let at = format!("{list}[{index}]");
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            faults.push(FieldFault::required(format!("{at}.name"), ""));
        }
        if !volumes.contains(name) {
            faults.push(FieldFault::not_found(format!("{at}.name"), name));
        }
        if path.is_empty() {
            faults.push(FieldFault::required(format!("{at}.mountPath"), ""));
        }
        if !paths.insert(path) {
            faults.push(FieldFault::invalid(format!("{at}.mountPath"), path, "must be unique"));
        }
        // Kubernetes does not report the index of the mount.
        for field in ["subPath", "subPathExpr"] {
            pod_volumes::descending_path(text(mount, field), &format!("{list}.{field}"), faults);
        }
    }
}

fn ports(
    container: &Value,
    at: &str,
    host_network: bool,
    host_ports: &mut BTreeSet<(i64, String)>,
    faults: &mut Vec<FieldFault>,
) {
    let mut seen = BTreeSet::new();
    for (index, port) in items(container, "ports") {
        let (at, name) = (format!("{at}.ports[{index}]"), text(port, "name"));
        if !name.is_empty() {
            faults.extend(
                names::port_name(name)
                    .into_iter()
                    .map(|f| FieldFault::invalid(format!("{at}.name"), name, f)),
            );
            if !seen.insert(name) {
                faults.push(FieldFault::duplicate(format!("{at}.name"), name));
            }
        }
        let number = port["containerPort"].as_i64().unwrap_or_default();
        if number == 0 {
            faults.push(FieldFault::required(format!("{at}.containerPort"), ""));
        } else if let Some(fault) = names::port(number) {
            faults.push(FieldFault::invalid(format!("{at}.containerPort"), number, fault));
        }
        let host = port["hostPort"].as_i64().unwrap_or_default();
        if host != 0 {
            if let Some(fault) = names::port(host) {
                faults.push(FieldFault::invalid(format!("{at}.hostPort"), host, fault));
            }
            if host_network && host != number {
                let text = "must match `hostPort` when `hostNetwork` is true";
                faults.push(FieldFault::invalid(format!("{at}.containerPort"), number, text));
            }
            if !host_ports.insert((host, text(port, "protocol").to_owned())) {
                faults.push(FieldFault::duplicate(format!("{at}.hostPort"), host));
            }
        }
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &at, faults);
    }
}

fn probe(probe: &Value, at: &str, which: &str, faults: &mut Vec<FieldFault>) {
    if !probe.is_object() {
        return;
    }
    handler(probe, at, faults);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        not_negative(probe, field, at, faults);
    }
    if let Some(seconds) = probe["terminationGracePeriodSeconds"].as_i64().filter(|seconds| *seconds <= 0) {
        let field = format!("{at}.terminationGracePeriodSeconds");
        faults.push(FieldFault::invalid(field, seconds, "must be greater than 0"));
    }
    let threshold = probe["successThreshold"].as_i64().unwrap_or_default();
    if which != "readinessProbe" && threshold != 1 {
        faults.push(FieldFault::invalid(format!("{at}.successThreshold"), threshold, "must be 1"));
    }
}

/// Validates the action of a probe or hook (`validateHandler`).
fn handler(owner: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let kinds =
        ["exec", "httpGet", "tcpSocket", "grpc", "sleep"].into_iter().filter(|k| owner[*k].is_object());
    let kinds = kinds.collect::<Vec<_>>();
    if kinds.is_empty() {
        faults.push(FieldFault::required(at, "must specify a handler type"));
    }
    for extra in kinds.iter().skip(1) {
        let text = "may not specify more than 1 handler type";
        faults.push(FieldFault::forbidden(format!("{at}.{extra}"), text));
    }
    let Some(kind) = kinds.first() else { return };
    let (one, at) = (&owner[*kind], format!("{at}.{kind}"));
    match *kind {
        "exec" if items(one, "command").next().is_none() => {
            faults.push(FieldFault::required(format!("{at}.command"), ""));
        }
        "httpGet" => {
            if text(one, "path").is_empty() {
                faults.push(FieldFault::required(format!("{at}.path"), ""));
            }
            handler_port(one, &at, faults);
            one_of(one, "scheme", &["HTTP", "HTTPS"], &at, faults);
        }
        "tcpSocket" => handler_port(one, &at, faults),
        "grpc" => {
            let port = one["port"].as_i64().unwrap_or_default();
            if let Some(fault) = names::port(port) {
                faults.push(FieldFault::invalid(format!("{at}.port"), port, fault));
            }
        }
        _ => {}
    }
}

/// `ValidatePortNumOrName`.
fn handler_port(handler: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let at = format!("{at}.port");
    if let Some(name) = handler["port"].as_str() {
        faults.extend(names::port_name(name).into_iter().map(|f| FieldFault::invalid(&at, name, f)));
    } else {
        let port = handler["port"].as_i64().unwrap_or_default();
        faults.extend(names::port(port).map(|fault| FieldFault::invalid(at, port, fault)));
    }
}

/// Validates the user and group ids of a pod's or container's security context.
fn security(context: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let mut judge = |number: &Value, at: String| {
        if number.as_i64().is_some_and(|number| !(0..=i64::from(i32::MAX)).contains(&number)) {
            let text = "must be between 0 and 2147483647, inclusive";
            faults.push(FieldFault::invalid(at, number.clone(), text));
        }
    };
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        judge(&context[field], format!("{at}.{field}"));
    }
    for (index, group) in items(context, "supplementalGroups") {
        judge(group, format!("{at}.supplementalGroups[{index}]"));
    }
}

fn readiness(spec: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    for (index, gate) in items(spec, "readinessGates") {
        let (at, kind) =
            (format!("{path}.readinessGates[{index}].conditionType"), text(gate, "conditionType"));
        faults.extend(names::qualified_name(kind).into_iter().map(|f| FieldFault::invalid(&at, kind, f)));
    }
}

fn dns(spec: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    const MAX_SERVERS: usize = 3;
    const MAX_SEARCHES: usize = 32;
    const MAX_SEARCH_CHARS: usize = 2048;
    let config = &spec["dnsConfig"];
    let at = format!("{path}.dnsConfig");
    let servers = items(config, "nameservers").count();
    if spec["dnsPolicy"] == "None" && config.is_null() {
        faults.push(FieldFault::required(at, "must provide `dnsConfig` when `dnsPolicy` is None"));
        return;
    }
    if spec["dnsPolicy"] == "None" && servers == 0 {
        let text = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        faults.push(FieldFault::required(format!("{at}.nameservers"), text));
        return;
    }
    for (index, server) in items(config, "nameservers") {
        let server = server.as_str().unwrap_or_default();
        faults.extend(network::address(&format!("{at}.nameservers[{index}]"), server, &[]));
    }
    if servers > MAX_SERVERS {
        let text = format!("must not have more than {MAX_SERVERS} nameservers");
        faults.push(FieldFault::invalid(format!("{at}.nameservers"), config["nameservers"].clone(), text));
    }
    if items(config, "searches").count() > MAX_SEARCHES {
        let text = format!("must not have more than {MAX_SEARCHES} search paths");
        faults.push(FieldFault::invalid(format!("{at}.searches"), config["searches"].clone(), text));
    }
    let searches = items(config, "searches").map(|(_, search)| search.as_str().unwrap_or_default());
    if searches.collect::<Vec<_>>().join(" ").chars().count() > MAX_SEARCH_CHARS {
        let text = format!(
            "must not have more than {MAX_SEARCH_CHARS} characters (including spaces) in the search list"
        );
        faults.push(FieldFault::invalid(format!("{at}.searches"), config["searches"].clone(), text));
    }
    for (index, search) in items(config, "searches") {
        let search = search.as_str().unwrap_or_default();
        let judged_of = search.strip_suffix('.').unwrap_or(search);
        let judged = if search == "." { Vec::new() } else { names::search_domain(judged_of) };
        let search = judged_of;
        faults.extend(
            judged.into_iter().map(|f| FieldFault::invalid(format!("{at}.searches[{index}]"), search, f)),
        );
    }
}

/// Returns the forbidden changes of a pod's update: almost everything except for images, deadline and tolerations.
pub(super) fn validate_update(new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = status(&new["status"], &old["status"]);
    for list in ["containers", "initContainers"] {
        restarted(list, new, old, &mut faults);
    }
    let (new_spec, old_spec) = (&new["spec"], &old["spec"]);
    if new_spec == old_spec {
        return faults;
    }
    for list in ["containers", "initContainers"] {
        if items(new_spec, list).count() != items(old_spec, list).count() {
            let text = "pod updates may not add or remove containers";
            faults.push(FieldFault::forbidden(format!("spec.{list}"), text));
            return faults;
        }
    }
    if let Some(fault) = deadline(new_spec, old_spec) {
        faults.push(fault);
        if !new_spec["activeDeadlineSeconds"].is_null() {
            return faults;
        }
    }
    let mut munged = new_spec.clone();
    restore_equal_quantities(&mut munged, old_spec);
    for list in ["containers", "initContainers"] {
        for (index, container) in items(old_spec, list) {
            munged[list][index]["image"] = container["image"].clone();
        }
    }
    let gated = items(old_spec, "schedulingGates").next().is_some();
    if gated {
        node_selector_additions(&munged, old_spec, &mut faults);
        restore(&mut munged, old_spec, "nodeSelector");
        node_affinity_additions(&mut munged, old_spec, &mut faults);
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        restore(&mut munged, old_spec, field);
    }
    only_added(new_spec, old_spec, &mut faults);
    for (index, gate) in items(new_spec, "schedulingGates") {
        if !items(old_spec, "schedulingGates").any(|(_, g)| g == gate) {
            let name = text(gate, "name");
            let text = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            faults.push(FieldFault::forbidden(format!("spec.schedulingGates[{index}].name"), text));
        }
    }
    // Only the binding subresource assigns a node, and only once.
    if munged != *old_spec {
        let changed = changed_fields(&munged, old_spec).join(", ");
        let text = format!("pod updates may not change fields other than {UPDATABLE}\nchanged: {changed}");
        faults.push(FieldFault::forbidden("spec", text));
    }
    faults
}

/// Validates conditions and addresses of a pod (`validatePodConditions`, `validatePodIPs`).
fn status(status: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    if status == old {
        return faults;
    }
    for (index, condition) in items(status, "conditions") {
        let (at, kind) = (format!("status.conditions[{index}].Type"), text(condition, "type"));
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            faults.extend(names::qualified_name(kind).into_iter().map(|f| FieldFault::invalid(&at, kind, f)));
        }
    }
    let before = items(old, "podIPs").map(|(_, one)| text(one, "ip")).collect::<Vec<_>>();
    let all = items(status, "podIPs").map(|(_, one)| text(one, "ip")).collect::<Vec<_>>();
    for (index, one) in all.iter().enumerate() {
        faults.extend(network::address(&format!("status.podIPs[{index}]"), one, &before));
    }
    let malformed = all.iter().position(|one| !network::is_address(one));
    if let Some(index) = malformed.filter(|_| all.len() > 1) {
        let detail = format!("failed to check for dual stack with error:invalid IP[{index}]: {}", all[index]);
        faults.push(FieldFault::new("status.podIPs", Reason::Internal, None, detail));
    }
    let sixes = all.iter().filter(|one| one.contains(':')).count();
    let is_pair = all.len() == 2 && sixes == 1 && malformed.is_none();
    if all.len() > 1 && !is_pair {
        let detail = "may specify no more than one IP for each IP family";
        faults.push(FieldFault::invalid("status.podIPs", status["podIPs"].clone(), detail));
    }
    faults
}

/// A container that has ended, and that its pod does not start again, stays ended (`ValidateContainerStateTransition`).
fn restarted(list: &str, new: &Value, old: &Value, faults: &mut Vec<FieldFault>) {
    let policy = text(&old["spec"], "restartPolicy");
    if policy == "Always" {
        return;
    }
    let field = if list == "containers" { "containerStatuses" } else { "initContainerStatuses" };
    for (index, before) in items(&old["status"], field) {
        let ended = &before["state"]["terminated"];
        let name = text(before, "name");
        let has_own_policy = items(&old["spec"], list)
            .any(|(_, one)| text(one, "name") == name && !one["restartPolicy"].is_null());
        if ended.is_null() || has_own_policy || (policy == "OnFailure" && ended["exitCode"] != 0) {
            continue;
        }
        if items(&new["status"], field)
            .any(|(_, now)| text(now, "name") == name && now["state"]["terminated"].is_null())
        {
            let at = format!("status.{field}[{index}].state");
            faults.push(FieldFault::forbidden(at, "may not be transitioned to non-terminated state"));
        }
    }
}

fn restore(munged: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Some(value) => munged[field] = value.clone(),
        None => {
            munged.as_object_mut().map(|map| map.remove(field));
        }
    }
}

fn changed_fields(new: &Value, old: &Value) -> Vec<String> {
    let names: BTreeSet<&String> =
        [new, old].iter().flat_map(|v| v.as_object().into_iter().flatten().map(|(name, _)| name)).collect();
    names
        .into_iter()
        .filter(|name| new.get(*name) != old.get(*name))
        .map(|name| format!("spec.{name}"))
        .collect()
}

/// A deadline may be set and shortened; one that may not be so ends the validation of an update.
fn deadline(new: &Value, old: &Value) -> Option<FieldFault> {
    let invalid = |value: Value, text: &str| FieldFault::invalid("spec.activeDeadlineSeconds", value, text);
    match (new["activeDeadlineSeconds"].as_i64(), old["activeDeadlineSeconds"].as_i64()) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            Some(invalid(new.into(), "must be between 0 and 2147483647, inclusive"))
        }
        (Some(new), Some(old)) if new > old => {
            Some(invalid(new.into(), "must be less than or equal to previous value"))
        }
        (None, Some(_)) => Some(invalid(Value::Null, "must not update from a positive integer to nil value")),
        _ => None,
    }
}

fn only_added(new: &Value, old: &Value, faults: &mut Vec<FieldFault>) {
    let same = |a: &Value, b: &Value| {
        ["key", "operator", "value", "effect"].iter().all(|f| text(a, f) == text(b, f))
    };
    let gone = items(old, "tolerations").any(|(_, o)| !items(new, "tolerations").any(|(_, n)| same(n, o)));
    if gone {
        let text = "existing toleration can not be modified except its tolerationSeconds";
        faults.push(FieldFault::forbidden("spec.tolerations", text));
    }
}

/// Allows a gated pod's node affinity to become narrower (`validateNodeAffinityMutation`), and then treats it as
/// unchanged.
fn node_affinity_additions(munged: &mut Value, old: &Value, faults: &mut Vec<FieldFault>) {
    const TERMS: &str = "/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let before = &old["affinity"]["nodeAffinity"];
    if munged["affinity"]["nodeAffinity"] == *before {
        return;
    }
    let terms =
        |affinity: &Value| affinity.pointer(TERMS).and_then(Value::as_array).cloned().unwrap_or_default();
    let (given, kept) = (terms(&munged["affinity"]["nodeAffinity"]), terms(before));
    let at = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    if !kept.is_empty() && given.len() != kept.len() {
        let text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        faults.push(FieldFault::invalid(at, Value::Array(given), text));
    } else {
        for (index, (new, old)) in given.into_iter().zip(&kept).enumerate() {
            if !only_adds(&new, old) {
                let text = "only additions are allowed (no mutations or deletions)";
                faults.push(FieldFault::invalid(format!("{at}[{index}]"), new, text));
            }
        }
    }
    let is_alone = munged["affinity"]
        .as_object()
        .is_none_or(|map| map.iter().all(|(name, value)| name == "nodeAffinity" || value.is_null()));
    if munged["affinity"].is_null() {
        munged["affinity"] = json!({"nodeAffinity": before});
    } else if old["affinity"].is_null() && is_alone {
        restore(munged, old, "affinity");
    } else {
        restore(&mut munged["affinity"], &old["affinity"], "nodeAffinity");
    }
}

/// Returns whether a node selector term only gained requirements.
fn only_adds(new: &Value, old: &Value) -> bool {
    let list = |term: &Value, field: &str| term[field].as_array().cloned().unwrap_or_default();
    let fields = ["matchExpressions", "matchFields"];
    let is_empty = |term: &Value| fields.iter().all(|field| list(term, field).is_empty());
    (!is_empty(old) || is_empty(new))
        && fields.iter().all(|field| list(new, field).starts_with(&list(old, field)))
}

fn node_selector_additions(new: &Value, old: &Value, faults: &mut Vec<FieldFault>) {
    let kept = LabelSelector::of_map(&old["nodeSelector"]).matches_labels(&new["nodeSelector"]);
    if !kept {
        let text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        faults.push(FieldFault::new(
            "spec.nodeSelector",
            Reason::Invalid,
            Some(new["nodeSelector"].clone()),
            text,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(new: &Value, old: &Value) -> Vec<String> {
        validate_update(new, old).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_update_may_write_a_quantity_in_another_notation() {
        let pod = |limit: &str| {
            let resources = json!({ "limits": { "memory": limit }, "requests": { "memory": "1Gi" } });
            json!({ "spec": { "containers": [{ "name": "main", "image": "i", "resources": resources }],
                "volumes": [{ "name": "v", "emptyDir": { "sizeLimit": limit } }] } })
        };
        assert_eq!(faults(&pod("64Mi"), &pod("67108864")), Vec::<String>::new());
        assert!(faults(&pod("65Mi"), &pod("67108864"))[0].contains("changed: spec.containers, spec.volumes"));
    }

    #[test]
    fn a_deadline_that_may_not_be_set_ends_the_validation_of_an_update() {
        let pod = |deadline: Value, host: &str| json!({ "spec": { "activeDeadlineSeconds": deadline, "hostname": host } });
        let before = pod(json!(60), "a");
        for (deadline, fault) in
            [(-1, "must be between 0 and 2147483647"), (61, "must be less than or equal")]
        {
            let found = faults(&pod(json!(deadline), "b"), &before);
            assert!(found.len() == 1 && found[0].contains(fault), "{found:?}");
        }
        let found = faults(&pod(Value::Null, "b"), &before);
        assert!(found.len() == 2 && found[0].contains("from a positive integer to nil"), "{found:?}");
    }

    #[test]
    fn a_container_that_has_ended_stays_ended_unless_its_pod_starts_it_again() {
        let pod = |policy: &str, state: Value| {
            json!({ "spec": { "restartPolicy": policy, "containers": [{ "name": "main" }] },
                "status": { "containerStatuses": [{ "name": "main", "state": state }] } })
        };
        let ended = |code: i64| json!({ "terminated": { "exitCode": code } });
        for (policy, code, is_allowed) in
            [("Never", 3, false), ("OnFailure", 0, false), ("OnFailure", 3, true), ("Always", 0, true)]
        {
            let found = faults(&pod(policy, json!({ "running": {} })), &pod(policy, ended(code)));
            assert_eq!(found.is_empty(), is_allowed, "{policy} {code}: {found:?}");
            assert_eq!(faults(&pod(policy, ended(1)), &pod(policy, ended(code))), Vec::<String>::new());
        }
    }

    #[test]
    fn an_address_that_is_none_leaves_the_families_unknown() {
        let pod = |second: &str| json!({ "status": { "podIPs": [{ "ip": "10.1.1.1" }, { "ip": second }] } });
        let causes = |second: &str| {
            let found = validate_update(&pod(second), &json!({ "status": {} }));
            found.iter().map(|fault| fault.reason.cause()).collect::<Vec<_>>()
        };
        assert_eq!(causes(""), ["FieldValueInvalid", "InternalError", "FieldValueInvalid"]);
        assert_eq!(causes("10.1.1.2"), ["FieldValueInvalid"]);
        assert_eq!(causes("fd00::1"), Vec::<&str>::new());
    }
}
