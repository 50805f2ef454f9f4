//! Pods and pod templates (`ValidatePodSpec`), as far as Jobs, other workloads and tools need the rules.

use serde_json::Value;

use super::pod_containers::{containers, security};
use super::{FieldFault, items, network, one_of, placement, pod_volumes, text};
use crate::names;

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
