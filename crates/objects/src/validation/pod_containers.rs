//! The containers of pods and pod templates (`ValidatePodSpec`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{FieldFault, items, not_negative, one_of, pod_volumes, resources, text};
use crate::names;

pub(super) fn containers(spec: &Value, path: &str, volumes: &BTreeSet<&str>, faults: &mut Vec<FieldFault>) {
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
pub(super) fn security(context: &Value, at: &str, faults: &mut Vec<FieldFault>) {
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
