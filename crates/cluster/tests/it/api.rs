//! The API through kube-rs, in process and over TLS.

mod bodies;
mod deletion;
mod watching;

use std::collections::BTreeMap;

use futures::StreamExt as _;
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::served::{Served, client_of, only_api, serve, soon};

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
