//! The API through kube-rs, in process and over TLS.

use std::collections::BTreeMap;

use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions,
    WatchEvent, WatchParams,
};
use kube::discovery::{ApiResource, Discovery};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::served::{Served, client_of, only_api, serve, serve_with, soon};

fn config_map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        data: Some(data.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()),
        ..ConfigMap::default()
    }
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), "default")
}

fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "image"}]}}))
    .unwrap()
}

async fn create_map(client: &Client, name: &str) -> ConfigMap {
    maps(client).create(&PostParams::default(), &config_map(name, &[("a", "1")])).await.unwrap()
}

/// Returns the code, reason and message of an expected error.
fn refused<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("this should have been refused: {other:?}"),
    }
}

async fn raw(client: &Client, method: &str, path: &str, body: &Value) -> Result<Value, kube::Error> {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    client.request::<Value>(request.body(body.to_string().into_bytes()).unwrap()).await
}

#[tokio::test]
async fn the_same_api_is_served_in_process_and_over_tls() {
    let served = serve().await;
    let remote = served.remote().await;
    create_map(&served.cluster.client(), "local").await;
    create_map(&remote, "remote").await;
    for client in [served.cluster.client(), remote] {
        let names = maps(&client).list(&ListParams::default()).await.unwrap();
        assert_eq!(names.iter().map(|map| map.name_any()).collect::<Vec<_>>(), ["local", "remote"]);
        assert_eq!(client.apiserver_version().await.unwrap().major, "1");
    }
    served.cluster.stop().await;
}

#[tokio::test]
async fn requests_without_a_valid_token_are_rejected() {
    let served = serve().await;
    for token in [None, Some("wrong")] {
        let mut kubeconfig = served.cluster.kubeconfig();
        kubeconfig.auth_infos[0].auth_info.as_mut().unwrap().token = token.map(Into::into);
        let client = client_of(kubeconfig).await;
        assert_eq!(
            refused(maps(&client).list(&ListParams::default()).await),
            (401, "Unauthorized".into(), "Unauthorized".into())
        );
        assert_eq!(refused(client.list_api_groups().await).0, 401);
        assert!(client.apiserver_version().await.is_ok());
    }
    let mode = |path: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(served.state.path().join("cluster").join(path)).unwrap().permissions().mode()
            & 0o777
    };
    assert_eq!((mode("admin.token"), mode("pki/server.key"), mode("")), (0o600, 0o600, 0o700));
}

#[tokio::test]
async fn a_restart_keeps_the_kubeconfig_valid() {
    let Served { cluster, state } = serve().await;
    let (before, address) = (cluster.kubeconfig(), cluster.address());
    cluster.stop().await;
    let mut options = cluster::Options::new(state.path().join("cluster"));
    options.listen = address;
    only_api(&mut options);
    let again = cluster::Cluster::start(options).await.unwrap();
    assert!(maps(&client_of(before).await).list(&ListParams::default()).await.is_ok());
    let taken = cluster::Options { listen: address, ..cluster::Options::new(state.path().join("cluster")) };
    let error = cluster::Cluster::start(taken).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    again.stop().await;
}

#[tokio::test]
async fn objects_get_an_identity_and_keep_it() {
    let served = serve().await;
    let client = served.cluster.client();
    let made = create_map(&client, "m").await;
    assert!(made.uid().is_some() && made.creation_timestamp().is_some());
    let again = maps(&client).create(&PostParams::default(), &config_map("m", &[])).await;
    assert_eq!(refused(again), (409, "AlreadyExists".into(), "configmaps \"m\" already exists".into()));

    let mut changed = made.clone();
    changed.data = Some(BTreeMap::from([("a".into(), "2".into())]));
    let changed = maps(&client).replace("m", &PostParams::default(), &changed).await.unwrap();
    assert_eq!((changed.uid(), changed.creation_timestamp()), (made.uid(), made.creation_timestamp()));
    let stale = maps(&client).replace("m", &PostParams::default(), &made).await;
    let text = "Operation cannot be fulfilled on configmaps \"m\": the object has been modified; please apply your changes to the latest version and try again";
    assert_eq!(refused(stale), (409, "Conflict".into(), text.into()));

    let same = maps(&client).replace("m", &PostParams::default(), &changed).await.unwrap();
    assert_eq!(same.resource_version(), changed.resource_version(), "an update that changes nothing is none");
    assert_eq!(
        refused(maps(&client).get("nothing").await),
        (404, "NotFound".into(), "configmaps \"nothing\" not found".into())
    );
}

#[tokio::test]
async fn names_are_generated_and_dry_runs_leave_nothing() {
    let served = serve().await;
    let client = served.cluster.client();
    let generated = ConfigMap {
        metadata: ObjectMeta { generate_name: Some("some-".into()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let one = maps(&client).create(&PostParams::default(), &generated).await.unwrap().name_any();
    let other = maps(&client).create(&PostParams::default(), &generated).await.unwrap().name_any();
    assert!(one.starts_with("some-") && one.len() == 10 && one != other, "{one} {other}");

    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let draft = maps(&client).create(&dry, &config_map("draft", &[])).await.unwrap();
    assert!(draft.uid().is_some() && draft.resource_version().is_none());
    assert_eq!(maps(&client).get_opt("draft").await.unwrap(), None);
}

#[tokio::test]
async fn patches_of_every_type_are_applied() {
    let served = serve().await;
    let client = served.cluster.client();
    create_map(&client, "m").await;
    let params = PatchParams::apply("tester");
    let merge = Patch::Merge(json!({"data": {"b": "2"}}));
    let strategic = Patch::Strategic(json!({"data": {"c": "3", "a": null}}));
    let json_patch: Patch<Value> = Patch::Json(
        serde_json::from_value(json!([{"op": "replace", "path": "/data/b", "value": "x"}])).unwrap(),
    );
    for patch in [merge, strategic, json_patch] {
        maps(&client).patch("m", &PatchParams::default(), &patch).await.unwrap();
    }
    let data = maps(&client).get("m").await.unwrap().data.unwrap();
    assert_eq!(data, BTreeMap::from([("b".into(), "x".into()), ("c".into(), "3".into())]));

    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}, "data": {"k": "v"}});
    let made = maps(&client).patch("n", &params, &Patch::Apply(&applied)).await.unwrap();
    assert_eq!(made.data.unwrap()["k"], "v");
    let anonymous = maps(&client).patch("n", &PatchParams::default(), &Patch::Apply(&applied)).await;
    assert_eq!(refused(anonymous).0, 422);
    let renamed = Patch::Merge(json!({"metadata": {"name": "other"}}));
    assert_eq!(refused(maps(&client).patch("m", &PatchParams::default(), &renamed).await).0, 400);
}

#[tokio::test]
async fn a_body_of_another_kind_is_refused_as_in_kubernetes() {
    let served = serve().await;
    let client = served.cluster.client();
    let table = [
        ("v1", "Pod", "converting (v1.Pod) to (core.ConfigMap): unknown conversion"),
        ("v1", "PodList", "converting (v1.PodList) to (core.ConfigMap): unknown conversion"),
        ("apps/v1", "Deployment", "converting (v1.Deployment) to (core.ConfigMap): unknown conversion"),
        (
            "v1",
            "Deployment",
            "no kind \"Deployment\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
    ];
    for (version, kind, why) in table {
        let body = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "m"}}).to_string();
        let request = Request::post("/api/v1/namespaces/default/configmaps").body(body.into_bytes());
        let answer = client.request::<Value>(request.unwrap()).await;
        let wanted = format!("{kind} in version \"v1\" cannot be handled as a ConfigMap: {why}");
        assert_eq!(refused(answer), (400, "BadRequest".to_owned(), wanted));
    }
}

#[tokio::test]
async fn an_owner_that_is_given_twice_is_kept_once() {
    let served = serve().await;
    let client = served.cluster.client();
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "m", "ownerReferences": [owner, owner]}});
    let body = body.to_string().into_bytes().into();
    let request = Request::post("/api/v1/namespaces/default/configmaps").body(body);
    let answer = client.send(request.unwrap()).await.unwrap();
    let warning = answer.headers()["warning"].to_str().unwrap().to_owned();
    assert!(warning.ends_with("duplicate UID(s) observed: u\""), "{warning}");
    assert_eq!(maps(&client).get("m").await.unwrap().metadata.owner_references.unwrap().len(), 1);
}

#[tokio::test]
async fn fields_have_owners() {
    let served = serve().await;
    let client = served.cluster.client();
    let applied = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
    let apply = |manager: &str, force: bool, data: Value| {
        let params = PatchParams { force, ..PatchParams::apply(manager) };
        let maps = maps(&client);
        async move { maps.patch("m", &params, &Patch::Apply(applied(data))).await }
    };
    let made = apply("one", false, json!({"a": "1", "b": "1"})).await.unwrap();
    assert_eq!(made.managed_fields()[0].manager.as_deref(), Some("one"));
    let same = apply("one", false, json!({"a": "1", "b": "1"})).await.unwrap();
    assert_eq!(same.resource_version(), made.resource_version());
    let (code, reason, message) = refused(apply("two", false, json!({"a": "2"})).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert_eq!(message, "Apply failed with 1 conflict: conflict with \"one\": .data.a");
    let taken = apply("two", true, json!({"a": "2"})).await.unwrap();
    assert_eq!(taken.data.unwrap()["a"], "2");
    let given_up = apply("one", false, json!({})).await.unwrap();
    assert_eq!(given_up.data.unwrap(), BTreeMap::from([("a".into(), "2".into())]));
    let patch = Patch::Merge(json!({"data": {"c": "3"}}));
    let params = PatchParams { field_manager: Some("three".into()), ..PatchParams::default() };
    let patched = maps(&client).patch("m", &params, &patch).await.unwrap();
    let managers =
        patched.managed_fields().iter().filter_map(|entry| entry.manager.clone()).collect::<Vec<_>>();
    assert!(managers.contains(&"three".to_owned()), "{managers:?}");
}

#[tokio::test]
async fn concurrent_patches_are_all_kept() {
    let served = serve().await;
    let client = served.cluster.client();
    create_map(&client, "m").await;
    let writers = (0..12).map(|index| {
        let client = client.clone();
        async move {
            let patch = Patch::Merge(json!({"data": {format!("key{index}"): "x"}}));
            maps(&client).patch("m", &PatchParams::default(), &patch).await.map(|_| ())
        }
    });
    futures::future::try_join_all(writers).await.unwrap();
    assert_eq!(maps(&client).get("m").await.unwrap().data.unwrap().len(), 13);
}

#[tokio::test]
async fn a_watch_reports_every_change_in_order() {
    let served = serve().await;
    for client in [served.cluster.client(), served.remote().await] {
        let start = create_map(&client, "before").await.resource_version().unwrap();
        let mut events = maps(&client).watch(&WatchParams::default(), &start).await.unwrap().boxed();
        create_map(&client, "m").await;
        let patch = Patch::Merge(json!({"data": {"a": "2"}}));
        maps(&client).patch("m", &PatchParams::default(), &patch).await.unwrap();
        maps(&client).delete("m", &DeleteParams::default()).await.unwrap();
        let mut seen = Vec::new();
        while seen.len() < 3 {
            match soon(events.try_next()).await.unwrap().unwrap() {
                WatchEvent::Added(map) => seen.push(("added", map.name_any())),
                WatchEvent::Modified(map) => seen.push(("modified", map.name_any())),
                WatchEvent::Deleted(map) => seen.push(("deleted", map.name_any())),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(seen, [("added", "m".into()), ("modified", "m".into()), ("deleted", "m".into())]);
        maps(&client).delete("before", &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_watch_with_selectors_reports_objects_that_start_and_stop_matching() {
    let served = serve().await;
    let client = served.cluster.client();
    let params = WatchParams::default().labels("app=a");
    let mut events = pods(&client).watch(&params, "0").await.unwrap().boxed();
    pods(&client).create(&PostParams::default(), &pod("b")).await.unwrap();
    for label in ["a", "a2", "a"] {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"app": label}}}));
        pods(&client).patch("b", &PatchParams::default(), &patch).await.unwrap();
    }
    let mut seen = Vec::new();
    while seen.len() < 3 {
        match soon(events.try_next()).await.unwrap().unwrap() {
            WatchEvent::Added(_) => seen.push("added"),
            WatchEvent::Deleted(pod) => {
                assert_eq!(pod.labels()["app"], "a", "the last state that was selected");
                seen.push("deleted");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, ["added", "deleted", "added"]);
}

#[tokio::test]
async fn compacted_revisions_are_gone() {
    let served = serve_with(|options| {
        only_api(options);
        options.watch_window = 3;
    })
    .await;
    let client = served.cluster.client();
    let first = create_map(&client, "m0").await.resource_version().unwrap();
    for index in 1..8 {
        create_map(&client, &format!("m{index}")).await;
    }
    for version in [first.as_str(), "99999"] {
        let mut events = maps(&client).watch(&WatchParams::default(), version).await.unwrap().boxed();
        match soon(events.try_next()).await.unwrap().unwrap() {
            WatchEvent::Error(status) => assert_eq!((status.code, status.reason.as_str()), (410, "Expired")),
            other => panic!("{other:?}"),
        }
    }
    let exact = ListParams { resource_version: Some(first), ..ListParams::default() };
    let exact = exact.matching(kube::api::VersionMatch::Exact);
    assert_eq!(refused(maps(&client).list(&exact).await).0, 410);
    let path = "/api/v1/namespaces/default/configmaps?resourceVersion=99999";
    let request = Request::get(path).body(Vec::new()).unwrap();
    assert_eq!(client.send(request.map(Into::into)).await.unwrap().status(), 504);
}

#[tokio::test]
async fn pages_of_a_list_are_consistent() {
    let served = serve().await;
    let client = served.cluster.client();
    for index in 0..5 {
        create_map(&client, &format!("m{index}")).await;
    }
    let page = maps(&client).list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!((page.items.len(), page.metadata.remaining_item_count), (2, Some(3)));
    create_map(&client, "m2b").await;
    maps(&client).delete("m3", &DeleteParams::default()).await.unwrap();
    let token = page.metadata.continue_.clone().unwrap();
    let rest = maps(&client).list(&ListParams::default().continue_token(&token)).await.unwrap();
    assert_eq!(rest.iter().map(|map| map.name_any()).collect::<Vec<_>>(), ["m2", "m3", "m4"]);
    assert_eq!(rest.metadata.resource_version, page.metadata.resource_version);

    served.cluster.server().store().compact(u64::MAX);
    let late = maps(&client).list(&ListParams::default().continue_token(&token)).await;
    let Err(kube::Error::Api(status)) = late else { panic!("{late:?}") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    let next = status.metadata.as_ref().and_then(|metadata| metadata.continue_.clone()).unwrap();
    let rest = maps(&client).list(&ListParams::default().continue_token(&next)).await.unwrap();
    assert_eq!(rest.iter().map(|map| map.name_any()).collect::<Vec<_>>(), ["m2", "m2b", "m4"]);
}

#[tokio::test]
async fn a_watch_list_marks_the_end_of_its_initial_events() {
    let served = serve().await;
    let client = served.cluster.client();
    create_map(&client, "m").await;
    let path = "/api/v1/namespaces/default/configmaps?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    let lines = client.request_stream(Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
    let lines = soon(lines.lines().try_collect::<Vec<_>>()).await.unwrap();
    let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
    assert_eq!(lines[0]["type"], "ADDED");
    assert_eq!(lines[1]["type"], "BOOKMARK");
    assert_eq!(lines[1]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(lines.len(), 2);
}

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
async fn status_and_spec_are_written_separately() {
    let served = serve().await;
    let client = served.cluster.client();
    pods(&client).create(&PostParams::default(), &pod("p")).await.unwrap();
    let both = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}, "status": {"phase": "Running"}}));
    let patched = pods(&client).patch("p", &PatchParams::default(), &both).await.unwrap();
    assert_eq!(patched.status.unwrap().phase.as_deref(), Some("Pending"));
    let patched = pods(&client).patch_status("p", &PatchParams::default(), &both).await.unwrap();
    assert_eq!(patched.status.unwrap().phase.as_deref(), Some("Running"));
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

#[tokio::test]
async fn events_are_the_same_in_both_groups() {
    let served = serve().await;
    let client = served.cluster.client();
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "Why", "note": "what",
        "type": "Normal", "action": "Do", "reportingController": "c", "reportingInstance": "i",
        "eventTime": "2026-01-01T00:00:00.000000Z"});
    raw(&client, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", &event).await.unwrap();
    let core = Api::<k8s_openapi::api::core::v1::Event>::namespaced(client.clone(), "default")
        .get("e")
        .await
        .unwrap();
    assert_eq!((core.message.as_deref(), core.involved_object.name.as_deref()), (Some("what"), Some("p")));
}

#[tokio::test]
async fn malformed_requests_are_rejected_with_the_right_code() {
    let served = serve().await;
    let client = served.cluster.client();
    let post = |content_type: &str, body: Vec<u8>| {
        Request::post("/api/v1/namespaces/default/configmaps")
            .header("content-type", content_type)
            .body(body)
            .unwrap()
    };
    let get =
        |path: &str, accept: &str| Request::get(path).header("accept", accept).body(Vec::new()).unwrap();
    let deep = format!("{{\"metadata\":{}1{}}}", "[".repeat(9000), "]".repeat(9000));
    let table = [
        (post("application/json", b"{".to_vec()), 400),
        (post("application/json", deep.into_bytes()), 400),
        (post("application/json", b"[]".to_vec()), 400),
        (post("application/cbor", Vec::new()), 415),
        (post("application/json", vec![b' '; 4 << 20]), 413),
        (get("/api/v1/pods", "application/vnd.kubernetes.protobuf"), 406),
        (get("/api/v1/pods", "application/vnd.kubernetes.protobuf,application/json"), 200),
        (get("/api/v1/unheardof", "*/*"), 404),
        (get("/apis/no.such.group/v1/things", "*/*"), 404),
        (get("/api/v1/namespaces/default/configmaps/x/unheardof", "*/*"), 404),
        (Request::put("/api/v1/pods").body(Vec::new()).unwrap(), 405),
        (Request::delete("/version").body(Vec::new()).unwrap(), 405),
    ];
    for (request, code) in table {
        let (method, path) = (request.method().clone(), request.uri().clone());
        let answer = client.send(request.map(Into::into)).await.unwrap();
        assert_eq!(answer.status().as_u16(), code, "{method} {path}");
    }
}

#[tokio::test]
async fn changes_of_the_status_get_no_warnings_about_the_rest() {
    let served = serve().await;
    let client = served.cluster.client();
    let named = json!({"metadata": {"name": "s"}, "spec": {"externalName": "a.example.com", "ports": [{"port": 80}]}});
    let post =
        Request::post("/api/v1/namespaces/default/services").header("content-type", "application/json");
    let created =
        client.send(post.body(named.to_string().into_bytes()).unwrap().map(Into::into)).await.unwrap();
    assert!(created.status().is_success() && created.headers().contains_key("warning"), "{created:?}");
    let status = json!({"status": {"loadBalancer": {}}, "metadata": {"labels": {"a": "b"}}});
    let patch = Request::patch("/api/v1/namespaces/default/services/s/status")
        .header("content-type", "application/merge-patch+json");
    let patched =
        client.send(patch.body(status.to_string().into_bytes()).unwrap().map(Into::into)).await.unwrap();
    assert!(patched.status().is_success() && !patched.headers().contains_key("warning"), "{patched:?}");
}

#[tokio::test]
async fn unknown_and_duplicate_fields_are_dropped_reported_or_rejected() {
    let served = serve().await;
    let client = served.cluster.client();
    let body = r#"{"metadata":{"name":"m"},"data":{"a":"1","a":"2"},"datum":{}}"#;
    let post = |mode: &str| {
        let path = format!("/api/v1/namespaces/default/configmaps?dryRun=All&fieldValidation={mode}");
        let request = Request::post(path).header("content-type", "application/json");
        client.send(request.body(body.as_bytes().to_vec()).unwrap().map(Into::into))
    };
    let strict = post("Strict").await.unwrap();
    assert_eq!(strict.status(), 400);
    let warned = post("Warn").await.unwrap();
    let warnings =
        warned.headers().get_all("warning").iter().map(|value| value.to_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(warnings, [r#"299 - "unknown field \"datum\"""#, r#"299 - "duplicate field \"data.a\"""#]);
    assert!(post("Ignore").await.unwrap().headers().get("warning").is_none());
}

#[tokio::test]
async fn reviews_are_answered_by_the_same_rules_as_requests() {
    let served = serve().await;
    let client = served.cluster.client();
    let ask = |plural: &'static str, kind: &'static str, spec: Value| {
        let client = client.clone();
        async move {
            let group =
                if kind.contains("Access") { "authorization.k8s.io" } else { "authentication.k8s.io" };
            let body = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec});
            raw(&client, "POST", &format!("/apis/{group}/v1/{plural}"), &body).await.unwrap()["status"]
                .clone()
        }
    };
    let attributes =
        json!({"resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": "default"}});
    let own = ask("selfsubjectaccessreviews", "SelfSubjectAccessReview", attributes.clone()).await;
    assert_eq!(own["allowed"], true);
    let mut other = attributes;
    other["user"] = "somebody".into();
    assert_eq!(ask("subjectaccessreviews", "SubjectAccessReview", other).await["allowed"], false);
    let bad = ask("tokenreviews", "TokenReview", json!({"token": "no"})).await;
    assert_eq!(bad["authenticated"], Value::Null);
    let kubeconfig = serde_json::to_value(served.cluster.kubeconfig()).unwrap();
    let token = kubeconfig["users"][0]["user"]["token"].clone();
    let good = ask("tokenreviews", "TokenReview", json!({"token": token})).await;
    assert_eq!(good["user"]["username"], "kubernetes-admin");
}

#[tokio::test]
async fn a_stopped_cluster_ends_its_watches_and_frees_its_port() {
    let served = serve().await;
    let (remote, local, address) = (served.remote().await, served.cluster.client(), served.cluster.address());
    let far = maps(&remote).watch(&WatchParams::default(), "0").await.unwrap();
    let near = maps(&local).watch(&WatchParams::default(), "0").await.unwrap();
    soon(served.cluster.stop()).await;
    soon(far.collect::<Vec<_>>()).await;
    soon(near.collect::<Vec<_>>()).await;
    std::net::TcpListener::bind(address).unwrap();
}
