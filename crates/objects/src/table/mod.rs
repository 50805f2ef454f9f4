//! Lists as tables, for `kubectl get`: the columns of a kind and their cells.
//!
//! Columns of built-in kinds follow `kubernetes/pkg/printers/internalversion/printers.go`, those of a CRD its
//! `additionalPrinterColumns`. Other kinds show name and creation time. All columns are sent; `-o wide` also shows
//! those of priority 1. The caller passes the current time, because ages are rendered here.

mod apps;
mod batch;
mod cells;
mod pod;
mod rows;

use jiff::Timestamp;
use jsonpath::Path;
use serde_json::{Value, json};

use super::age::since;
use super::kinds::{Column, Kind};

/// The part of each object that its row contains (`includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl IncludeObject {
    /// Parses the request parameter; anything but `None` and `Object` means metadata.
    pub fn parse(text: Option<&str>) -> IncludeObject {
        match text {
            Some("None") => IncludeObject::None,
            Some("Object") => IncludeObject::Object,
            _ => IncludeObject::Metadata,
        }
    }
}

/// A heading: name, type, format, priority.
type Heading = (&'static str, &'static str, &'static str, i64);

/// Returns the table (`meta.k8s.io/v1`) of `objects`. The caller adds list metadata.
pub fn table(kind: &Kind, objects: &[&Value], include: IncludeObject, now: Timestamp) -> Value {
    let (columns, cells): (Vec<Value>, Vec<Vec<Value>>) = if kind.is_builtin() {
        let (headings, row) = rows::of(kind);
        (headings.iter().map(heading).collect(), objects.iter().map(|object| row(object, now)).collect())
    } else {
        let columns = custom_columns(kind);
        let paths: Vec<Option<Path>> = columns.iter().map(|c| Path::parse(&c.json_path).ok()).collect();
        let mut definitions = vec![heading(&("Name", "string", "name", 0))];
        definitions.extend(columns.iter().map(custom_heading));
        let cells = objects.iter().map(|object| custom_row(&columns, &paths, object, now)).collect();
        (definitions, cells)
    };
    let rows: Vec<Value> = objects
        .iter()
        .zip(cells)
        .map(|(object, cells)| {
            let mut row = json!({"cells": cells});
            if kind.is("", "Pod") {
                completed(object, &mut row);
            }
            match include {
                IncludeObject::None => row["object"] = Value::Null,
                IncludeObject::Metadata => {
                    row["object"] = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]});
                }
                IncludeObject::Object => row["object"] = (*object).clone(),
            }
            row
        })
        .collect();
    // Kinds without their own printer have null instead of an empty list of rows.
    const PLAIN: [&str; 4] = ["Role", "ClusterRole", "LimitRange", "CustomResourceDefinition"];
    let is_plain = kind.is_builtin() && PLAIN.contains(&kind.kind.as_str());
    let rows = if rows.is_empty() && is_plain { Value::Null } else { Value::Array(rows) };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": columns, "rows": rows})
}

/// Adds a row's condition for a pod that has ended (`podSuccessConditions`, `podFailedConditions`).
fn completed(pod: &Value, row: &mut Value) {
    let (reason, message) = match pod["status"]["phase"].as_str() {
        Some("Succeeded") => ("Succeeded", "The pod has completed successfully."),
        Some("Failed") => ("Failed", "The pod failed."),
        _ => return,
    };
    row["conditions"] =
        json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]);
}

fn heading((name, kind, format, priority): &Heading) -> Value {
    let description = if *format == "name" {
        "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names".to_owned()
    } else {
        (*name).to_owned()
    };
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

fn custom_columns(kind: &Kind) -> Vec<Column> {
    if !kind.columns.is_empty() {
        return kind.columns.clone();
    }
    vec![Column {
        name: "Age".to_owned(),
        kind: "date".to_owned(),
        format: String::new(),
        description:
            "CreationTimestamp is a timestamp representing the server time when this object was created."
                .to_owned(),
        priority: 0,
        json_path: ".metadata.creationTimestamp".to_owned(),
    }]
}

fn custom_heading(column: &Column) -> Value {
    let description = if column.description.is_empty() {
        format!("Custom resource definition column (in JSONPath format): {}", column.json_path)
    } else {
        column.description.clone()
    };
    json!({"name": column.name, "type": column.kind, "format": column.format, "description": description, "priority": column.priority})
}

fn custom_row(columns: &[Column], paths: &[Option<Path>], object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![json!(object["metadata"]["name"].as_str().unwrap_or_default())];
    for (column, path) in columns.iter().zip(paths) {
        let found = path.as_ref().and_then(|path| path.find(object).ok()).unwrap_or_default();
        cells.push(custom_cell(column, &found, now));
    }
    cells
}

/// Returns a cell of a CRD's column (`apiextensions-apiserver/pkg/registry/customresource/tableconvertor`).
fn custom_cell(column: &Column, found: &[&Value], now: Timestamp) -> Value {
    let Some(first) = found.first() else { return Value::Null };
    match (column.kind.as_str(), first) {
        (_, Value::Null) => Value::Null,
        ("date", Value::String(text)) => json!(since(Some(text), now)),
        ("integer", Value::Number(n)) => {
            n.as_i64().map_or_else(|| json!(n.as_f64().map(|f| f as i64)), |n| json!(n))
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => (*first).clone(),
        ("string", _) => {
            let text = |v: &&Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
            json!(found.iter().map(text).collect::<Vec<_>>().join(" "))
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_kind;

    fn cells(group: &str, kind: &str, object: &Value) -> Vec<Value> {
        let now = "2024-01-02T00:00:00Z".parse().unwrap();
        let table = table(builtin_kind(group, kind).unwrap(), &[object], IncludeObject::None, now);
        let cells = table["rows"][0]["cells"].as_array().unwrap().clone();
        assert_eq!(cells.len(), table["columnDefinitions"].as_array().unwrap().len());
        cells
    }

    #[test]
    fn a_load_balancer_shows_each_address_once_or_that_it_waits_for_one() {
        let shown = |ingress: Value| {
            let service = json!({ "metadata": { "name": "x" }, "spec": { "type": "LoadBalancer" },
                "status": { "loadBalancer": { "ingress": ingress } } });
            cells("", "Service", &service)[3].clone()
        };
        assert_eq!(shown(json!([])), "<pending>");
        assert_eq!(shown(json!([{}])), "<pending>");
        assert_eq!(
            shown(json!([{ "ip": "10.9.9.9" }, { "hostname": "h" }, { "ip": "10.9.9.9" }])),
            "10.9.9.9,h"
        );
    }

    #[test]
    fn a_port_of_a_slice_shows_its_number_or_its_name_or_an_asterisk() {
        let slice = json!({ "metadata": { "name": "x" }, "addressType": "IPv4",
            "ports": [{ "name": "a", "port": 80 }, { "name": "b" }, {}] });
        assert_eq!(cells("discovery.k8s.io", "EndpointSlice", &slice)[2], "80,b,*");
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table of cases")]
    fn rows_match_kubectl() {
        let meta = json!({"name": "x", "creationTimestamp": "2024-01-01T23:55:00Z"});
        let cases = [
            (
                "",
                "Pod",
                json!({"metadata": meta, "spec": {"nodeName": "n", "containers": [{}, {}]}, "status": {"phase": "Running", "podIP": "1.2.3.4",
                "podIPs": [{"ip": "1.2.3.4"}], "containerStatuses": [
                {"ready": true, "restartCount": 2, "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2024-01-01T23:58:00Z"}}},
                {"ready": false, "restartCount": 0, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}),
                json!([
                    "x",
                    "1/2",
                    "CrashLoopBackOff",
                    "2 (2m ago)",
                    "5m",
                    "1.2.3.4",
                    "n",
                    "<none>",
                    "<none>"
                ]),
            ),
            (
                "",
                "Pod",
                json!({"metadata": meta, "spec": {"containers": [{}]}, "status": {"phase": "Succeeded", "containerStatuses": [
                {"restartCount": 0, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}}),
                json!(["x", "0/1", "Completed", "0", "5m", "<none>", "<none>", "<none>", "<none>"]),
            ),
            (
                "",
                "Pod",
                json!({"metadata": {"resourceVersion": "1"}, "spec": {"containers": null}, "status": {}}),
                json!(["", "0/0", "", "0", "<unknown>", "<none>", "<none>", "<none>", "<none>"]),
            ),
            (
                "",
                "Pod",
                json!({"metadata": meta, "spec": {"containers": [{}], "initContainers": [{"name": "a"}, {"name": "b"}]},
                "status": {"phase": "Pending", "initContainerStatuses": [{"name": "a", "restartCount": 0, "state": {"terminated": {"exitCode": 0}}},
                {"name": "b", "restartCount": 0, "state": {"running": {}}}]}}),
                json!(["x", "0/1", "Init:1/2", "0", "5m", "<none>", "<none>", "<none>", "<none>"]),
            ),
            (
                "batch",
                "Job",
                json!({"metadata": meta, "spec": {"completions": 1, "selector": {"matchLabels": {"a": "b"}},
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
                "status": {"succeeded": 1, "startTime": "2024-01-01T23:55:00Z", "completionTime": "2024-01-01T23:55:30Z", "conditions": [{"type": "Complete", "status": "True"}]}}),
                json!(["x", "Complete", "1/1", "30s", "5m", "c", "i", "a=b"]),
            ),
            (
                "batch",
                "CronJob",
                json!({"metadata": meta, "spec": {"schedule": "0 2 * * *", "suspend": false, "jobTemplate": {"spec":
                {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}},
                "status": {"active": [{"name": "x-1"}], "lastScheduleTime": "2024-01-01T23:59:30Z"}}),
                json!(["x", "0 2 * * *", "<none>", "False", 1, "30s", "5m", "c", "i", "<none>"]),
            ),
            (
                "",
                "Service",
                json!({"metadata": meta, "spec": {"type": "ClusterIP", "clusterIPs": ["None"], "selector": {"a": "b"}}}),
                json!(["x", "ClusterIP", "None", "<none>", "<none>", "5m", "a=b"]),
            ),
            (
                "",
                "Node",
                json!({"metadata": {"name": "x", "creationTimestamp": "2024-01-01T23:55:00Z", "labels": {"node-role.kubernetes.io/worker": ""}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1", "architecture": "amd64", "kernelVersion": "6"}}}),
                json!([
                    "x",
                    "Ready",
                    "worker",
                    "5m",
                    "v1",
                    "<none>",
                    "<none>",
                    "<unknown>",
                    "6 (amd64)",
                    "<unknown>"
                ]),
            ),
            (
                "",
                "Event",
                json!({"metadata": meta, "type": "Warning", "reason": "R", "message": " m\n", "involvedObject": {"kind": "Pod", "name": "p"},
                "lastTimestamp": "2024-01-01T23:59:00Z", "firstTimestamp": "2024-01-01T23:58:00Z", "count": 3, "source": {"component": "c"}}),
                json!(["60s", "Warning", "R", "pod/p", "", "c", "m", "2m", 3, "x"]),
            ),
            (
                "",
                "ConfigMap",
                json!({"metadata": meta, "data": {"a": "1"}, "binaryData": {"b": ""}}),
                json!(["x", 2, "5m"]),
            ),
            ("", "Secret", json!({"metadata": meta, "type": "Opaque"}), json!(["x", "Opaque", 0, "5m"])),
            (
                "",
                "Namespace",
                json!({"metadata": meta, "status": {"phase": "Active"}}),
                json!(["x", "Active", "5m"]),
            ),
            (
                "coordination.k8s.io",
                "Lease",
                json!({"metadata": meta, "spec": {"holderIdentity": "h"}}),
                json!(["x", "h", "5m"]),
            ),
            (
                "",
                "PersistentVolumeClaim",
                json!({"metadata": meta, "spec": {"volumeName": "v"}, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}}),
                json!(["x", "Bound", "v", "1Gi", "RWO", "", "<unset>", "5m", "<unset>"]),
            ),
            (
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
                json!({"metadata": meta}),
                json!(["x", "2024-01-01T23:55:00Z"]),
            ),
        ];
        for (group, kind, object, expected) in cases {
            assert_eq!(json!(cells(group, kind, &object)), expected);
        }
    }

    #[test]
    fn every_kind_has_a_table() {
        for kind in crate::builtin_kinds().iter().filter(|k| k.is_stored()) {
            cells(&kind.group, &kind.kind, &json!({"metadata": {"name": "x"}}));
            cells(&kind.group, &kind.kind, &json!({}));
        }
    }

    #[test]
    fn columns_of_a_crd_are_shown() {
        let mut kind = Kind::new("g", "v1", "K", "ks", true);
        let column = |name: &str, kind: &str, path: &str| Column {
            name: name.into(),
            kind: kind.into(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            json_path: path.into(),
        };
        let object = json!({"metadata": {"name": "x", "creationTimestamp": "2024-01-01T23:00:00Z"}, "spec": {"n": 3, "s": "t"}});
        let now: Timestamp = "2024-01-02T00:00:00Z".parse().unwrap();
        let row = |kind: &Kind| table(kind, &[&object], IncludeObject::Metadata, now)["rows"][0].clone();
        assert_eq!(row(&kind)["cells"], json!(["x", "60m"]));
        assert_eq!(row(&kind)["object"]["kind"], "PartialObjectMetadata");
        kind.columns = vec![
            column("N", "integer", ".spec.n"),
            column("S", "string", ".spec.s"),
            column("M", "string", ".spec.none"),
            column("Age", "date", ".metadata.creationTimestamp"),
        ];
        assert_eq!(row(&kind)["cells"], json!(["x", 3, "t", null, "60m"]));
    }
}
