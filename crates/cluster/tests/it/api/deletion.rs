//! Deletion: of objects with finalizers, bound pods, namespaces and definitions.

use futures::{StreamExt as _, TryStreamExt as _};
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt as _;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent,
    WatchParams,
};
use kube::discovery::{ApiResource, Discovery};
use serde_json::{Value, json};

use super::{config_map, create_map, maps, pod, pods, raw, refused};
use crate::served::{serve, soon};

#[tokio::test]
async fn deletion_waits_for_finalizers_and_preconditions() {
    let served = serve().await;
    let client = served.cluster.client();
    let mut map = config_map("m", &[]);
    map.metadata.finalizers = Some(vec!["test/hold".into()]);
    maps(&client).create(&PostParams::default(), &map).await.unwrap();
    let other = DeleteParams {
        preconditions: Some(Preconditions { uid: Some("other".into()), resource_version: None }),
        ..DeleteParams::default()
    };
    assert_eq!(refused(maps(&client).delete("m", &other).await).0, 409);
    let marked = maps(&client).delete("m", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps(&client).patch("m", &PatchParams::default(), &release).await.unwrap();
    assert_eq!(maps(&client).get_opt("m").await.unwrap(), None);

    create_map(&client, "n").await;
    let marked = maps(&client).delete("n", &DeleteParams::foreground()).await.unwrap().left().unwrap();
    assert_eq!(marked.finalizers(), ["foregroundDeletion"]);
    create_map(&client, "o").await;
    let gone = maps(&client).delete("o", &DeleteParams::background()).await.unwrap().right().unwrap();
    assert_eq!(gone.details.unwrap().name, "o");
}

#[tokio::test]
async fn a_bound_pod_stays_until_its_node_confirms_the_deletion() {
    let served = serve().await;
    let client = served.cluster.client();
    pods(&client).create(&PostParams::default(), &pod("p")).await.unwrap();
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}});
    let path = "/api/v1/namespaces/default/pods/p/binding";
    raw(&client, "POST", path, &binding).await.unwrap();
    let bound = pods(&client).get("p").await.unwrap();
    assert_eq!(bound.spec.unwrap().node_name.as_deref(), Some("n1"));
    assert_eq!(bound.status.unwrap().conditions.unwrap()[0].type_, "PodScheduled");
    let (code, _, message) = refused(raw(&client, "POST", path, &binding).await);
    assert_eq!(code, 409);
    assert!(message.contains("pod p is already assigned to node \"n1\""), "{message}");

    let list = pods(&client).list(&ListParams::default().fields("spec.nodeName=n1")).await.unwrap();
    assert_eq!(list.items.len(), 1);
    let marked = pods(&client).delete("p", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(marked.metadata.deletion_grace_period_seconds, Some(30));
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pods(&client).delete("p", &now).await.unwrap();
    assert_eq!(pods(&client).get_opt("p").await.unwrap(), None);
}

#[tokio::test]
async fn namespaces_terminate_and_are_finalized() {
    let served = serve().await;
    let client = served.cluster.client();
    let namespaces = Api::<Namespace>::all(client.clone());
    let names = namespaces.list(&ListParams::default()).await.unwrap();
    let names = names.iter().map(|namespace| namespace.name_any()).collect::<Vec<_>>();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let nowhere = Api::<ConfigMap>::namespaced(client.clone(), "nowhere");
    let missing = nowhere.create(&PostParams::default(), &config_map("m", &[])).await;
    assert_eq!(refused(missing), (404, "NotFound".into(), "namespaces \"nowhere\" not found".into()));

    let one: Namespace = serde_json::from_value(json!({"metadata": {"name": "one"}})).unwrap();
    namespaces.create(&PostParams::default(), &one).await.unwrap();
    let marked = namespaces.delete("one", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(marked.status.unwrap().phase.as_deref(), Some("Terminating"));
    let inside = Api::<ConfigMap>::namespaced(client.clone(), "one");
    let late = inside.create(&PostParams::default(), &config_map("m", &[])).await;
    let text = "configmaps is forbidden: unable to create new content in namespace one because it is being terminated";
    assert_eq!(refused(late), (403, "Forbidden".into(), text.into()));
    let empty = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "one"}, "spec": {"finalizers": []}});
    raw(&client, "PUT", "/api/v1/namespaces/one/finalize", &empty).await.unwrap();
    assert!(namespaces.get_opt("one").await.unwrap().is_none());
    assert_eq!(refused(namespaces.delete("default", &DeleteParams::default()).await).0, 403);
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.test.io"},
        "spec": {"group": "test.io", "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["sails"], "properties": {
                        "sails": {"type": "integer", "minimum": 1},
                        "colour": {"type": "string", "default": "white"}}},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}})
}

#[tokio::test]
async fn a_definition_is_served_at_once_and_deleted_with_its_objects() {
    let served = serve().await;
    let client = served.cluster.client();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    raw(&client, "POST", path, &definition()).await.unwrap();
    let stored: Value = client
        .request(Request::get(format!("{path}/boats.test.io")).body(Vec::new()).unwrap())
        .await
        .unwrap();
    let conditions = stored["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    );

    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    assert!(discovery.has_group("test.io"));
    let boats_resource = ApiResource::from_gvk_with_plural(
        &kube::api::GroupVersionKind::gvk("test.io", "v1", "Boat"),
        "boats",
    );
    let boats = Api::<DynamicObject>::namespaced_with(client.clone(), "default", &boats_resource);
    let boat = |mut value: Value| {
        value["apiVersion"] = "test.io/v1".into();
        value["kind"] = "Boat".into();
        serde_json::from_value::<DynamicObject>(value).unwrap()
    };
    let small = boat(json!({"metadata": {"name": "small"}, "spec": {"sails": 1, "rudder": 2}}));
    let made = boats.create(&PostParams::default(), &small).await.unwrap();
    assert_eq!(made.data["spec"], json!({"sails": 1, "colour": "white"}));
    assert_eq!(made.metadata.generation, Some(1));
    let none = boat(json!({"metadata": {"name": "none"}, "spec": {"sails": 0}}));
    let (code, reason, message) = refused(boats.create(&PostParams::default(), &none).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert!(message.contains("spec.sails: Invalid value: 0"), "{message}");

    let patch = Patch::Merge(json!({"spec": {"sails": 2}, "status": {"afloat": true}}));
    let changed = boats.patch("small", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!((changed.metadata.generation, &changed.data["status"]), (Some(2), &Value::Null));
    let changed = boats.patch_status("small", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!((changed.metadata.generation, &changed.data["status"]["afloat"]), (Some(2), &json!(true)));

    let mut events =
        boats.watch(&WatchParams::default(), &changed.resource_version().unwrap()).await.unwrap().boxed();
    raw(&client, "DELETE", &format!("{path}/boats.test.io"), &json!({})).await.unwrap();
    assert!(matches!(soon(events.try_next()).await.unwrap().unwrap(), WatchEvent::Deleted(_)));
    let gone = async {
        let key = format!("{path}/boats.test.io");
        let mut asked = tokio::time::interval(std::time::Duration::from_millis(5));
        while client.request::<Value>(Request::get(&key).body(Vec::new()).unwrap()).await.is_ok() {
            asked.tick().await;
        }
    };
    soon(gone).await;
    assert_eq!(refused(boats.list(&ListParams::default()).await).0, 404);
}
