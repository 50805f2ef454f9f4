//! What a request's body may be: its kind, its fields, its media type.

use http::Request;
use serde_json::{Value, json};

use super::{maps, refused};
use crate::served::serve;

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
