//! `metrics.k8s.io/v1beta1`: the present usage of nodes and pods, for `kubectl top`; read from the nodes,
//! never stored. Also the supported part of a kubelet's `/stats/summary`, through `nodes/proxy`.
//!
//! Rules: `k8s.io/metrics/pkg/apis/metrics/v1beta1`, `k8s.io/kubelet/pkg/apis/stats/v1alpha1`.

use std::sync::Arc;

use http::{Method, Response};
use serde_json::{Value, json};

use super::ApiServer;
use super::kubelet::{NodeUsage, PodUsage, Used};
use super::negotiate::ResponseFormat;
use super::reply::{self, Body};
use super::request_context::RequestContext;
use super::selection::Selection;
use super::status::{self, About, StatusError};
use crate::store::{Key, Record, Resource};
use objects::Kind;

/// The API group.
pub const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";
/// The supported verbs.
const VERBS: &[&str] = &["get", "list"];

/// Returns the kinds of the group.
pub fn kinds() -> [Arc<Kind>; 2] {
    let make = |name: &str, plural: &str, namespaced| {
        let mut kind = Kind::new(GROUP, VERSION, name, plural, namespaced);
        kind.verbs = VERBS;
        kind.singular = String::new();
        Arc::new(kind)
    };
    [make("NodeMetrics", "nodes", false), make("PodMetrics", "pods", true)]
}

/// Handles get and list.
///
/// # Errors
/// 400 for invalid selectors; 404 for a node or pod that isn't running; 406.
pub async fn answer(context: &RequestContext<'_>) -> Result<Response<Body>, StatusError> {
    let selection =
        Selection::parse(&context.entry.kind, &context.query.label_selector, &context.query.field_selector)?;
    let mut items =
        if context.entry.kind.kind == "NodeMetrics" { nodes(context).await } else { pods(context).await };
    if context.action.verb == "get" {
        let item = items.into_iter().find(|item| item["metadata"]["name"] == context.action.name);
        let item = item.ok_or_else(|| status::not_found(context.about()))?;
        return show(context, &[&item], true);
    }
    items.retain(|item| selection.matches(item));
    show(context, &items.iter().collect::<Vec<_>>(), false)
}

fn show(context: &RequestContext<'_>, items: &[&Value], single: bool) -> Result<Response<Body>, StatusError> {
    match (context.form, items, single) {
        (ResponseFormat::Table(version), ..) => reply::table(context, items, version, true, &json!({}))
            .map(|table| reply::json_value(200, &table)),
        (_, [only], true) => Ok(reply::json_value(200, only)),
        _ => {
            let kind = &context.entry.kind;
            let list = json!({"kind": kind.list_kind, "apiVersion": kind.api_version(), "metadata": {}, "items": items});
            Ok(reply::json_value(200, &list))
        }
    }
}

/// Returns the Node objects, each with the usage that it reports.
async fn usages(server: &ApiServer) -> Vec<(Arc<Record>, NodeUsage)> {
    let mut found = Vec::new();
    for record in server.store.list(&Resource::new("", "nodes"), None).records {
        // A node has no namespace: its key is its name.
        let name = record.key.as_str();
        let Some(kubelet) = server.kubelets.get(name) else { continue };
        if let Some(usage) = kubelet.usage(name).await {
            found.push((record, usage));
        }
    }
    found
}

fn head(context: &RequestContext<'_>, of: &Value, usage: &NodeUsage) -> Value {
    let mut metadata =
        json!({"name": of["metadata"]["name"], "creationTimestamp": objects::timestamp(usage.time)});
    for field in ["namespace", "labels"] {
        if !of["metadata"][field].is_null() {
            metadata[field] = of["metadata"][field].clone();
        }
    }
    json!({"kind": context.entry.kind.kind, "apiVersion": context.entry.kind.api_version(), "metadata": metadata,
        "timestamp": objects::timestamp(usage.time), "window": format!("{}s", usage.window.as_secs())})
}

/// Formats usage as metrics-server does.
fn amounts(used: &Used) -> Value {
    json!({"cpu": format!("{}n", used.cpu_nanocores), "memory": format!("{}Ki", used.memory_bytes.div_ceil(1024))})
}

async fn nodes(context: &RequestContext<'_>) -> Vec<Value> {
    let usages = usages(context.server).await;
    let item = |(record, usage): &(Arc<Record>, NodeUsage)| {
        let mut item = head(context, &record.value(), usage);
        item["usage"] = amounts(&usage.node);
        item
    };
    usages.iter().map(item).collect()
}

async fn pods(context: &RequestContext<'_>) -> Vec<Value> {
    let usages = usages(context.server).await;
    let resource = Resource::new("", "pods");
    let item = |usage: &NodeUsage, pod: &PodUsage| {
        let record = context.server.store.get(&resource, &Key::new(Some(&pod.namespace), &pod.name))?;
        let is_same = record.value()["metadata"]["uid"] == pod.uid.as_str();
        let is_wanted = context.action.namespace.is_none_or(|namespace| namespace == pod.namespace);
        if !is_same || !is_wanted {
            return None;
        }
        let mut item = head(context, &record.value(), usage);
        let containers = pod.containers.iter();
        item["containers"] =
            containers.map(|(name, used)| json!({"name": name, "usage": amounts(used)})).collect();
        Some(item)
    };
    let pairs = usages.iter().flat_map(|(_, usage)| usage.pods.iter().map(move |pod| (usage, pod)));
    let mut items: Vec<Value> = pairs.filter_map(|(usage, pod)| item(usage, pod)).collect();
    items.sort_by_key(|item| {
        let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
        (text("namespace"), text("name"))
    });
    items
}

/// Returns the node's name if the request is for its summary.
pub fn summary_of<'a>(method: &Method, path: &'a str) -> Option<&'a str> {
    let name = path.strip_prefix("/api/v1/nodes/")?.strip_suffix("/proxy/stats/summary")?;
    (*method == Method::GET && !name.is_empty() && !name.contains('/')).then_some(name)
}

/// Returns a node's summary: CPU, memory and network of the node and its pods.
///
/// # Errors
/// 404 for an unknown node; 500 if it doesn't answer.
pub async fn summary(server: &ApiServer, name: &str) -> Result<Response<Body>, StatusError> {
    let about = About { group: "", resource: "nodes", name };
    let node = server.store.get(&Resource::new("", "nodes"), &Key::new(None, name));
    node.ok_or_else(|| status::not_found(about))?;
    let silent = || status::internal(format!("the node {name:?} does not answer"));
    let kubelet = server.kubelets.get(name).ok_or_else(silent)?;
    let usage = kubelet.usage(name).await.ok_or_else(silent)?;
    let time = objects::timestamp(usage.time);
    let parts = |used: &Used| {
        (
            json!({"time": time, "usageNanoCores": used.cpu_nanocores, "usageCoreNanoSeconds": used.cpu_total_nanos}),
            json!({"time": time, "workingSetBytes": used.memory_bytes}),
        )
    };
    let pods: Vec<Value> = usage
        .pods
        .iter()
        .map(|pod| {
            let containers: Vec<Value> = pod
                .containers
                .iter()
                .map(|(name, used)| {
                    let (cpu, memory) = parts(used);
                    json!({"name": name, "cpu": cpu, "memory": memory})
                })
                .collect();
            let mut shown = json!({"containers": containers,
                "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}});
            if let Some((received, sent)) = pod.traffic {
                shown["network"] =
                    json!({"time": time, "name": "eth0", "rxBytes": received, "txBytes": sent});
            }
            shown
        })
        .collect();
    let (cpu, memory) = parts(&usage.node);
    let summary = json!({"node": {"nodeName": name, "cpu": cpu, "memory": memory}, "pods": pods});
    Ok(reply::json_value(200, &summary))
}
