//! Lists, their pages, and watches.

use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use http::Request;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

use super::{create_map, maps, pod, pods, refused};
use crate::served::{only_api, serve, serve_with, soon};

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
