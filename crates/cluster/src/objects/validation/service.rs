//! Services (`ValidateService`): ports, addresses, affinity.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::{FieldFault, items, one_of, text};
use crate::objects::names;

pub(super) fn validate(service: &Value) -> Vec<FieldFault> {
    let (spec, mut faults) = (&service["spec"], Vec::new());
    one_of(spec, "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], "spec", &mut faults);
    one_of(spec, "sessionAffinity", &["ClientIP", "None"], "spec", &mut faults);
    let headless = spec["clusterIP"] == "None";
    let named = text(spec, "type") == "ExternalName";
    if items(spec, "ports").next().is_none() && !headless && !named {
        faults.push(FieldFault::required("spec.ports", ""));
    }
    if headless && matches!(text(spec, "type"), "LoadBalancer" | "NodePort") {
        let text = "may not be set to 'None' for LoadBalancer services";
        faults.push(FieldFault::invalid("spec.clusterIPs[0]", "None", text));
    }
    if named {
        let name = text(spec, "externalName");
        if name.is_empty() {
            faults.push(FieldFault::required("spec.externalName", ""));
        } else {
            let judged = names::subdomain(name.trim_end_matches('.'));
            faults.extend(judged.into_iter().map(|f| FieldFault::invalid("spec.externalName", name, f)));
        }
    }
    let address = text(spec, "clusterIP");
    if !matches!(address, "" | "None") && address.parse::<IpAddr>().is_err() {
        let text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        faults.push(FieldFault::invalid("spec.clusterIPs[0]", address, text));
    }
    faults.extend(names::labels(&spec["selector"], "spec.selector"));
    ports(spec, &mut faults);
    faults
}

fn ports(spec: &Value, faults: &mut Vec<FieldFault>) {
    let several = items(spec, "ports").count() > 1;
    let (mut seen_names, mut seen_ports) = (BTreeSet::new(), BTreeSet::new());
    for (index, port) in items(spec, "ports") {
        let (at, name) = (format!("spec.ports[{index}]"), text(port, "name"));
        if name.is_empty() && several {
            faults.push(FieldFault::required(format!("{at}.name"), ""));
        } else if !name.is_empty() {
            faults.extend(
                names::label(name).into_iter().map(|f| FieldFault::invalid(format!("{at}.name"), name, f)),
            );
            if !seen_names.insert(name) {
                faults.push(FieldFault::duplicate(format!("{at}.name"), name));
            }
        }
        let number = port["port"].as_i64().unwrap_or_default();
        if let Some(fault) = names::port(number) {
            faults.push(FieldFault::invalid(format!("{at}.port"), number, fault));
        }
        match &port["targetPort"] {
            Value::Number(target) => {
                let target = target.as_i64().unwrap_or_default();
                if let Some(fault) = names::port(target) {
                    faults.push(FieldFault::invalid(format!("{at}.targetPort"), target, fault));
                }
            }
            Value::String(target) => {
                let judged = names::port_name(target);
                faults.extend(
                    judged
                        .into_iter()
                        .map(|f| FieldFault::invalid(format!("{at}.targetPort"), target.as_str(), f)),
                );
            }
            _ => {}
        }
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &at, faults);
        if !seen_ports.insert((number, text(port, "protocol"))) {
            faults.push(FieldFault::duplicate(&at, port.clone()));
        }
    }
}

/// The address is the service's for life, unless it becomes or was a mere name.
pub(super) fn validate_update(new: &Value, old: &Value) -> Vec<FieldFault> {
    let (new, old) = (&new["spec"], &old["spec"]);
    let named = |spec: &Value| text(spec, "type") == "ExternalName";
    let before = text(old, "clusterIP");
    if named(new) || named(old) || before.is_empty() || text(new, "clusterIP") == before {
        return Vec::new();
    }
    vec![FieldFault::invalid("spec.clusterIPs[0]", new["clusterIP"].clone(), "may not change once set")]
}
