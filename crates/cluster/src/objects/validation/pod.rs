//! Pods and pod templates (`ValidatePodSpec`, `ValidatePodUpdate`): the rules that jobs, their neighbours and tools meet.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{FieldFault, Reason, items, not_negative, one_of, text};
use crate::objects::{Quantity, names, selectors::LabelSelector};

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];

pub(super) fn validate(pod: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    spec(&pod["spec"], "spec", &mut faults);
    faults
}

/// A pod template, as in a Job.
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
    let volumes = volumes(spec, path, faults);
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
    not_negative(spec, "terminationGracePeriodSeconds", path, faults);
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
    tolerations(spec, path, faults);
    gates(spec, path, faults);
    dns(spec, path, faults);
    node_affinity(spec, path, faults);
}

fn volumes<'v>(spec: &'v Value, path: &str, faults: &mut Vec<FieldFault>) -> BTreeSet<&'v str> {
    let mut seen = BTreeSet::new();
    for (index, volume) in items(spec, "volumes") {
        let (at, name) = (format!("{path}.volumes[{index}]"), text(volume, "name"));
        if name.is_empty() {
            faults.push(FieldFault::required(format!("{at}.name"), ""));
        } else {
            faults.extend(
                names::label(name).into_iter().map(|f| FieldFault::invalid(format!("{at}.name"), name, f)),
            );
            if !seen.insert(name) {
                faults.push(FieldFault::duplicate(format!("{at}.name"), name));
            }
        }
        volume_source(volume, &at, faults);
    }
    seen
}

fn volume_source(volume: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let sources: Vec<&String> = volume
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(n, v)| *n != "name" && !v.is_null())
        .map(|(n, _)| n)
        .collect();
    if sources.is_empty() {
        faults.push(FieldFault::required(at, "must specify a volume type"));
    }
    for extra in sources.iter().skip(1) {
        faults
            .push(FieldFault::forbidden(format!("{at}.{extra}"), "may not specify more than 1 volume type"));
    }
    let secret = &volume["secret"];
    if secret.is_object() && text(secret, "secretName").is_empty() {
        faults.push(FieldFault::required(format!("{at}.secret.secretName"), ""));
    }
    let map = &volume["configMap"];
    if map.is_object() && text(map, "name").is_empty() {
        faults.push(FieldFault::required(format!("{at}.configMap.name"), ""));
    }
    let claim = &volume["persistentVolumeClaim"];
    if claim.is_object() && text(claim, "claimName").is_empty() {
        faults.push(FieldFault::required(format!("{at}.persistentVolumeClaim.claimName"), ""));
    }
    let host = &volume["hostPath"];
    if host.is_object() {
        let path = text(host, "path");
        if path.is_empty() {
            faults.push(FieldFault::required(format!("{at}.hostPath.path"), ""));
        } else if path.split('/').any(|part| part == "..") {
            faults.push(FieldFault::invalid(format!("{at}.hostPath.path"), path, "must not contain '..'"));
        }
        let types = [
            "",
            "DirectoryOrCreate",
            "Directory",
            "FileOrCreate",
            "File",
            "Socket",
            "CharDevice",
            "BlockDevice",
        ];
        one_of(host, "type", &types, &format!("{at}.hostPath"), faults);
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        mode(&volume[source], "defaultMode", &format!("{at}.{source}"), faults);
        for (index, item) in items(&volume[source], "items") {
            let item_at = format!("{at}.{source}.items[{index}]");
            mode(item, "mode", &item_at, faults);
            relative_path(text(item, "path"), &format!("{item_at}.path"), faults);
        }
    }
}

fn mode(object: &Value, field: &str, at: &str, faults: &mut Vec<FieldFault>) {
    if object[field].as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        let text = "must be a number between 0 and 0777 (octal), both inclusive";
        faults.push(FieldFault::invalid(format!("{at}.{field}"), object[field].clone(), text));
    }
}

fn relative_path(path: &str, at: &str, faults: &mut Vec<FieldFault>) {
    if path.is_empty() {
        faults.push(FieldFault::required(at, ""));
    } else if path.starts_with('/') {
        faults.push(FieldFault::invalid(at, path, "must be a relative path"));
    } else if path.split('/').any(|part| part == "..") {
        faults.push(FieldFault::invalid(at, path, "must not contain '..'"));
    } else if path.starts_with("..") {
        faults.push(FieldFault::invalid(at, path, "must not start with '..'"));
    }
}

fn containers(spec: &Value, path: &str, volumes: &BTreeSet<&str>, faults: &mut Vec<FieldFault>) {
    if items(spec, "containers").next().is_none() {
        faults.push(FieldFault::required(format!("{path}.containers"), ""));
    }
    let mut seen = BTreeSet::new();
    for list in ["initContainers", "containers"] {
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
                if !seen.insert(name) {
                    faults.push(FieldFault::duplicate(format!("{at}.name"), name));
                }
            }
            self::container(container, &at, volumes, faults);
            ports(container, &at, spec["hostNetwork"] == true, &mut host_ports, faults);
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
    } else if image != image.trim() {
        let text = "must not have leading or trailing whitespace";
        faults.push(FieldFault::invalid(format!("{at}.image"), image, text));
    }
    one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], at, faults);
    one_of(container, "terminationMessagePolicy", &["FallbackToLogsOnError", "File"], at, faults);
    environment(container, at, faults);
    mounts(container, at, volumes, faults);
    resources(&container["resources"], &format!("{at}.resources"), faults);
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        self::probe(&container[probe], &format!("{at}.{probe}"), probe, faults);
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
        let from = &variable["valueFrom"];
        if !from.is_object() {
            continue;
        }
        let sources = from.as_object().map_or(0, |map| map.values().filter(|v| !v.is_null()).count());
        if !text(variable, "value").is_empty() && sources > 0 {
            let text = "may not be specified when `value` is not empty";
            faults.push(FieldFault::invalid(format!("{at}.valueFrom"), "", text));
        } else if sources != 1 {
            let text = if sources == 0 {
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            } else {
                "may not have more than one field specified at a time"
            };
            faults.push(FieldFault::invalid(format!("{at}.valueFrom"), "", text));
        }
    }
    for (index, source) in items(container, "envFrom") {
        let sources = ["configMapRef", "secretRef"].iter().filter(|s| source[**s].is_object()).count();
        if sources != 1 {
            let text = if sources == 0 {
                "must specify one of: `configMapRef` or `secretRef`"
            } else {
                "may not have more than one field specified at a time"
            };
            faults.push(FieldFault::invalid(format!("{at}.envFrom[{index}]"), "", text));
        }
    }
}

fn mounts(container: &Value, at: &str, volumes: &BTreeSet<&str>, faults: &mut Vec<FieldFault>) {
    let mut paths = BTreeSet::new();
    for (index, mount) in items(container, "volumeMounts") {
        let at = format!("{at}.volumeMounts[{index}]");
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            faults.push(FieldFault::required(format!("{at}.name"), ""));
        } else if !volumes.contains(name) {
            faults.push(FieldFault::not_found(format!("{at}.name"), name));
        }
        if path.is_empty() {
            faults.push(FieldFault::required(format!("{at}.mountPath"), ""));
        } else if !paths.insert(path) {
            faults.push(FieldFault::invalid(format!("{at}.mountPath"), path, "must be unique"));
        }
        let sub = text(mount, "subPath");
        if !sub.is_empty() {
            relative_path(sub, &format!("{at}.subPath"), faults);
        }
    }
}

fn resources(resources: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    for which in ["limits", "requests"] {
        for (name, amount) in resources[which].as_object().into_iter().flatten() {
            let at = format!("{at}.{which}[{name}]");
            resource_name(name, &at, faults);
            match Quantity::of(amount) {
                Err(error) => faults.push(FieldFault::invalid(&at, amount.clone(), error.to_string())),
                Ok(q) if q.is_negative() => {
                    faults.push(FieldFault::invalid(
                        &at,
                        amount.clone(),
                        "must be greater than or equal to 0",
                    ));
                }
                Ok(q) if is_extended(name) && !q.is_whole() => {
                    faults.push(FieldFault::invalid(&at, amount.clone(), "must be an integer"));
                }
                Ok(_) => {}
            }
        }
    }
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        let at = format!("{at}.requests");
        let limit = &resources["limits"][name];
        let (Ok(request_amount), Ok(limit_amount)) = (Quantity::of(request), Quantity::of(limit)) else {
            continue;
        };
        if is_extended(name) && request_amount != limit_amount {
            faults.push(FieldFault::invalid(
                at,
                request.clone(),
                format!("must be equal to {name} limit of {limit_amount}"),
            ));
        } else if request_amount > limit_amount {
            let text = format!("must be less than or equal to {name} limit of {limit_amount}");
            faults.push(FieldFault::invalid(at, request.clone(), text));
        }
    }
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        if is_extended(name) && resources["limits"].get(name).is_none() {
            let text = "Limit must be set for non overcommitable resources";
            faults.push(FieldFault::required(format!("{at}.limits"), text));
            let _ = request;
        }
    }
}

fn resource_name(name: &str, at: &str, faults: &mut Vec<FieldFault>) {
    faults.extend(names::qualified_name(name).into_iter().map(|f| FieldFault::invalid(at, name, f)));
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !name.contains('/') && !standard {
        faults.push(FieldFault::invalid(at, name, "must be a standard resource type or fully qualified"));
    }
}

fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.starts_with("kubernetes.io/")
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
    let handlers = ["exec", "httpGet", "tcpSocket", "grpc"].iter().filter(|h| probe[**h].is_object()).count();
    if handlers == 0 {
        faults.push(FieldFault::required(at, "must specify a handler type"));
    } else if handlers > 1 {
        faults.push(FieldFault::forbidden(at, "may not specify more than 1 handler type"));
    }
    if probe["exec"].is_object() && items(&probe["exec"], "command").next().is_none() {
        faults.push(FieldFault::required(format!("{at}.exec.command"), ""));
    }
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        not_negative(probe, field, at, faults);
    }
    if which != "readinessProbe" && probe["successThreshold"].as_i64().is_some_and(|n| n != 1) {
        faults.push(FieldFault::invalid(
            format!("{at}.successThreshold"),
            probe["successThreshold"].clone(),
            "must be 1",
        ));
    }
}

fn tolerations(spec: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    for (index, toleration) in items(spec, "tolerations") {
        let at = format!("{path}.tolerations[{index}]");
        let (key, value) = (text(toleration, "key"), text(toleration, "value"));
        if !key.is_empty() {
            faults.extend(
                names::qualified_name(key)
                    .into_iter()
                    .map(|f| FieldFault::invalid(format!("{at}.key"), key, f)),
            );
        }
        match toleration["operator"].as_str().unwrap_or("Equal") {
            "Equal" | "" => {
                if key.is_empty() {
                    let text = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
                    faults.push(FieldFault::invalid(
                        format!("{at}.operator"),
                        text_of(toleration, "operator"),
                        text,
                    ));
                }
                faults.extend(
                    names::label_value(value)
                        .map(|f| FieldFault::invalid(format!("{at}.operator"), value, f)),
                );
            }
            "Exists" if !value.is_empty() => {
                let text = "value must be empty when `operator` is 'Exists'";
                faults.push(FieldFault::invalid(format!("{at}.operator"), toleration.clone(), text));
            }
            "Exists" => {}
            other => {
                faults.push(FieldFault::not_supported(format!("{at}.operator"), other, &["Equal", "Exists"]))
            }
        }
        if !toleration["tolerationSeconds"].is_null() && text(toleration, "effect") != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            faults.push(FieldFault::invalid(format!("{at}.effect"), text_of(toleration, "effect"), detail));
        }
        if !text(toleration, "effect").is_empty() {
            one_of(toleration, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"], &at, faults);
        }
    }
}

fn text_of(object: &Value, field: &str) -> String {
    text(object, field).to_owned()
}

fn gates(spec: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    let mut seen = BTreeSet::new();
    for (index, gate) in items(spec, "schedulingGates") {
        let (at, name) = (format!("{path}.schedulingGates[{index}]"), text(gate, "name"));
        faults.extend(names::qualified_name(name).into_iter().map(|f| FieldFault::invalid(&at, name, f)));
        if !seen.insert(name) {
            faults.push(FieldFault::duplicate(at, name));
        }
    }
}

fn dns(spec: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    const MAX_SERVERS: usize = 3;
    const MAX_SEARCHES: usize = 32;
    let config = &spec["dnsConfig"];
    let at = format!("{path}.dnsConfig");
    let servers = items(config, "nameservers").count();
    if spec["dnsPolicy"] == "None" && servers == 0 {
        let text = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        faults.push(FieldFault::required(format!("{at}.nameservers"), text));
    }
    if servers > MAX_SERVERS {
        let text = format!("must not have more than {MAX_SERVERS} nameservers");
        faults.push(FieldFault::invalid(format!("{at}.nameservers"), config["nameservers"].clone(), text));
    }
    if items(config, "searches").count() > MAX_SEARCHES {
        let text = format!("must not have more than {MAX_SEARCHES} search paths");
        faults.push(FieldFault::invalid(format!("{at}.searches"), config["searches"].clone(), text));
    }
    for (index, search) in items(config, "searches") {
        let search = search.as_str().unwrap_or_default();
        let judged = if search == "." {
            Vec::new()
        } else {
            names::subdomain(&search.trim_end_matches('.').replace('_', "-"))
        };
        faults.extend(
            judged.into_iter().map(|f| FieldFault::invalid(format!("{at}.searches[{index}]"), search, f)),
        );
    }
}

fn node_affinity(spec: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    if !required.is_object() {
        return;
    }
    let at = format!("{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution");
    if items(required, "nodeSelectorTerms").next().is_none() {
        faults.push(FieldFault::required(
            format!("{at}.nodeSelectorTerms"),
            "must have at least one node selector term",
        ));
    }
    for (index, term) in items(required, "nodeSelectorTerms") {
        for (which, expression) in items(term, "matchExpressions") {
            let at = format!("{at}.nodeSelectorTerms[{index}].matchExpressions[{which}]");
            let values = items(expression, "values").count();
            match text(expression, "operator") {
                "In" | "NotIn" if values == 0 => {
                    let text = "must be specified when `operator` is 'In' or 'NotIn'";
                    faults.push(FieldFault::required(format!("{at}.values"), text));
                }
                "Exists" | "DoesNotExist" if values > 0 => {
                    let text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    faults.push(FieldFault::forbidden(format!("{at}.values"), text));
                }
                "Gt" | "Lt" if values != 1 => {
                    let text = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                    faults.push(FieldFault::required(format!("{at}.values"), text));
                }
                operator if !OPERATORS.contains(&operator) => {
                    faults.push(FieldFault::invalid(
                        format!("{at}.operator"),
                        operator,
                        "not a valid selector operator",
                    ));
                }
                _ => {}
            }
        }
    }
}

/// What an update does to a pod that may not be done: almost everything but images, deadline and tolerations.
pub(super) fn validate_update(new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
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
    deadline(new_spec, old_spec, &mut faults);
    let mut munged = new_spec.clone();
    for list in ["containers", "initContainers"] {
        for (index, container) in items(old_spec, list) {
            munged[list][index]["image"] = container["image"].clone();
        }
    }
    let gated = items(old_spec, "schedulingGates").next().is_some();
    if gated {
        node_selector_additions(&munged, old_spec, &mut faults);
        restore(&mut munged, old_spec, "nodeSelector");
        restore(&mut munged, old_spec, "affinity");
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        restore(&mut munged, old_spec, field);
    }
    only_added(new_spec, old_spec, &mut faults);
    for (_, gate) in items(new_spec, "schedulingGates") {
        if !items(old_spec, "schedulingGates").any(|(_, g)| g == gate) {
            let name = text(gate, "name");
            let text = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            faults.push(FieldFault::forbidden("spec.schedulingGates", text));
        }
    }
    // A pod is bound to its node once, by the binding subresource.
    if munged != *old_spec {
        let changed = changed_fields(&munged, old_spec).join(", ");
        let text = format!("pod updates may not change fields other than {UPDATABLE}\nchanged: {changed}");
        faults.push(FieldFault::forbidden("spec", text));
    }
    faults
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

fn deadline(new: &Value, old: &Value, faults: &mut Vec<FieldFault>) {
    let path = "spec.activeDeadlineSeconds";
    match (new["activeDeadlineSeconds"].as_i64(), old["activeDeadlineSeconds"].as_i64()) {
        (Some(new), Some(old)) if new > old => {
            faults.push(FieldFault::invalid(path, new, "must be less than or equal to previous value"));
        }
        (None, Some(_)) => {
            faults.push(FieldFault::invalid(
                path,
                Value::Null,
                "must not update from a positive integer to nil value",
            ));
        }
        _ => {}
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
