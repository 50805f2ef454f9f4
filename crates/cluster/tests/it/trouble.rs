//! Invalid input and overload: the API answers with the right code, keeps its limits and stays available.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use cluster::apiserver::auth::UserInfo;
use cluster::apiserver::{Body, Endpoint};
use cluster::store::{Key, Resource};

use crate::served::{Served, serve, soon};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn endpoint(served: &Served) -> Endpoint {
    Endpoint::trusted(served.cluster.server().clone(), UserInfo::admin())
}

async fn send(endpoint: &Endpoint, request: Request<Full<Bytes>>) -> Response<Body> {
    endpoint.clone().oneshot(request).await.unwrap_or_else(|never: Infallible| match never {})
}

fn request(method: &str, path: &str, media: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    request.body(Full::new(body.into())).unwrap()
}

/// Returns the code of a response and, for an error, its reason.
async fn outcome(endpoint: &Endpoint, request: Request<Full<Bytes>>) -> (u16, Value) {
    let answer = send(endpoint, request).await;
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice::<Value>(&body).unwrap_or_default()["reason"].clone())
}

#[tokio::test]
async fn oversized_deep_and_malformed_requests_are_rejected() {
    let served = serve().await;
    let endpoint = endpoint(&served);
    let json_media = "application/json";
    let deep = |depth: usize| format!("{{\"data\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let bomb = {
        let lines = (1..30).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(",")));
        format!("a0: &a0 [x,x,x,x,x,x,x,x,x]\n{}", lines.collect::<String>())
    };
    let large = vec![b' '; 3 * 1024 * 1024 + 1];
    let table = [
        (request("POST", MAPS, json_media, large), 413, "RequestEntityTooLarge"),
        (request("POST", MAPS, json_media, deep(100_000)), 400, "BadRequest"),
        (request("POST", MAPS, "application/yaml", deep(100_000)), 400, "BadRequest"),
        (request("POST", MAPS, "application/yaml", bomb), 400, "BadRequest"),
        (request("POST", MAPS, json_media, "{"), 400, "BadRequest"),
        (request("POST", MAPS, json_media, "[]"), 400, "BadRequest"),
        (request("POST", MAPS, json_media, vec![0xff, 0xfe]), 400, "BadRequest"),
        (request("POST", MAPS, "application/cbor", vec![0xa0]), 415, "UnsupportedMediaType"),
        (request("POST", MAPS, "text/html", "<p>"), 415, "UnsupportedMediaType"),
        (request("PATCH", &format!("{MAPS}/m"), json_media, "{}"), 415, "UnsupportedMediaType"),
        (request("GET", &format!("{MAPS}?limit=x"), json_media, ""), 400, "BadRequest"),
        (request("GET", &format!("{MAPS}?labelSelector=a+b+c"), json_media, ""), 400, "BadRequest"),
        (request("GET", &format!("{MAPS}?continue=x&limit=1"), json_media, ""), 400, "BadRequest"),
        (request("BREW", MAPS, json_media, ""), 405, "MethodNotAllowed"),
    ];
    for (request, code, reason) in table {
        let shown = format!("{} {}", request.method(), request.uri());
        assert_eq!(outcome(&endpoint, request).await, (code, json!(reason)), "{shown}");
    }
    for media in ["application/cbor", "application/vnd.kubernetes.protobuf", "image/png"] {
        let get = Request::get(MAPS).header("accept", media).body(Full::new(Bytes::new())).unwrap();
        assert_eq!(outcome(&endpoint, get).await, (406, json!("NotAcceptable")), "{media}");
    }
    served.cluster.stop().await;
}

/// Time is paused and only advances while waiting, so the timeout passes at once.
#[tokio::test(start_paused = true)]
async fn a_missing_body_times_out() {
    let store = cluster::store::Store::new(16, Box::new(cluster::store::Volatile));
    let identities = cluster::apiserver::auth::Identities::new("token");
    let server = cluster::apiserver::ApiServer::new(std::sync::Arc::new(store), identities);
    let endpoint = Endpoint::trusted(std::sync::Arc::new(server), UserInfo::admin());
    let never = StreamBody::new(futures::stream::pending::<Result<http_body::Frame<Bytes>, Infallible>>());
    let request = Request::post("/api/v1/namespaces").header("content-type", "application/json");
    let answer = endpoint.oneshot(request.body(never).unwrap()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
}

/// A JSON value with a few dozen nodes.
fn any_json() -> impl Strategy<Value = Value> {
    let words = prop_oneof![
        Just("metadata"),
        Just("name"),
        Just("spec"),
        Just("data"),
        Just("labels"),
        Just("containers"),
        Just("$patch"),
        Just("$retainKeys"),
        Just("op"),
        Just("path"),
        Just("value"),
        Just("from"),
        Just("/data/a"),
        Just("replace"),
        Just("delete"),
        Just("merge"),
        Just("ports"),
        Just("apiVersion"),
        Just("kind"),
        Just("v1"),
        Just("status"),
        Just("finalizers"),
        Just("managedFields"),
        Just("ownerReferences"),
        Just("template"),
        Just("m"),
        Just("0"),
    ]
    .prop_map(str::to_owned);
    let text = prop_oneof![3 => words, 1 => ".{0,12}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|n| json!(n)),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(text.clone(), inner, 0..6).prop_map(|map| json!(map)),
        ]
    })
}

const MEDIA: [&str; 7] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const PATHS: [&str; 13] = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/m",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/pods/p",
    "/api/v1/namespaces/default/pods/p/status",
    "/apis/batch/v1/namespaces/default/jobs",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/api/v1/namespaces/default/pods/p/binding",
    "/api/v1/namespaces/default/pods/p/eviction",
    "/api/v1/namespaces/default/serviceaccounts/s/token",
    "/api/v1/namespaces/default/finalize",
    "/apis/apps/v1/namespaces/default/deployments/d/scale",
];

/// A body: arbitrary JSON, a real object with one part replaced, or arbitrary bytes.
fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}});
    let paths = [
        "/metadata",
        "/metadata/labels",
        "/spec",
        "/spec/containers",
        "/spec/containers/0",
        "/spec/containers/0/ports/0/containerPort",
        "/kind",
    ];
    let changed = (prop::sample::select(paths.to_vec()), any_json()).prop_map(move |(path, value)| {
        let mut pod = pod.clone();
        *pod.pointer_mut(path).unwrap() = value;
        pod.to_string().into_bytes()
    });
    prop_oneof![
        3 => any_json().prop_map(|value| value.to_string().into_bytes()),
        3 => changed,
        1 => prop::collection::vec(any::<u8>(), 0..200),
        1 => ".{0,100}".prop_map(String::into_bytes),
    ]
}

/// Tests a property against an API in this process: each response must be a success or a `Status`.
fn hold<S: Strategy>(cases: u32, strategy: &S, of: impl Fn(S::Value) -> Request<Full<Bytes>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let served = runtime.block_on(serve());
    let endpoint = endpoint(&served);
    runtime.block_on(async {
        for (path, body) in [
            (MAPS, json!({"metadata": {"name": "m"}, "data": {"a": "1"}})),
            (
                "/api/v1/namespaces/default/pods",
                json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
            ),
        ] {
            let made = send(&endpoint, request("POST", path, "application/json", body.to_string())).await;
            assert_eq!(made.status(), 201);
        }
    });
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(strategy, |input| {
        let request = of(input);
        let shown = format!("{} {}", request.method(), request.uri());
        let (code, body) = runtime.block_on(async {
            let answer = send(&endpoint, request).await;
            (answer.status().as_u16(), answer.into_body().collect().await.unwrap().to_bytes())
        });
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        // Some of kube-apiserver's own errors are untyped: they have code 500 and no reason.
        let is_ours = code < 500 || (code == 500 && body["reason"].is_null());
        prop_assert!(is_ours, "{shown}: {body}");
        prop_assert!(
            code < 400 || (body["kind"] == "Status" && body["code"] == code),
            "{shown}: {code} {body}"
        );
        Ok(())
    });
    runtime.block_on(served.cluster.stop());
    result.unwrap();
}

#[test]
fn any_body_is_written_or_rejected() {
    let methods = prop::sample::select(vec!["POST", "PUT", "PATCH", "DELETE"]);
    let media = prop::sample::select(MEDIA.to_vec());
    let path = prop::sample::select(PATHS.to_vec());
    hold(1000, &(methods, path, media, any_body()), |(method, path, media, body)| {
        let path = if media.contains("apply") { format!("{path}?fieldManager=f") } else { path.to_owned() };
        request(method, &path, media, body)
    });
}

#[tokio::test]
async fn mistyped_bodies_of_subresources_are_rejected() {
    let served = serve().await;
    let endpoint = endpoint(&served);
    let media = "application/json";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod["spec"]}}});
    for (path, object) in [
        ("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "s"}})),
        ("/api/v1/namespaces/default/pods", pod),
        ("/apis/apps/v1/namespaces/default/deployments", deployment),
    ] {
        let made = outcome(&endpoint, request("POST", path, media, object.to_string())).await;
        assert_eq!(made.0, 201, "{path}");
    }
    let pod = "/api/v1/namespaces/default/pods/p";
    let token = "/api/v1/namespaces/default/serviceaccounts/s/token";
    let scale = "/apis/apps/v1/namespaces/default/deployments/d/scale";
    let namespace = "/api/v1/namespaces/default";
    let table = [
        ("POST", token.to_owned(), media, json!({"spec": "text"})),
        ("POST", token.to_owned(), media, json!({"spec": [1]})),
        ("POST", token.to_owned(), media, json!({"spec": {"audiences": "a"}})),
        ("POST", token.to_owned(), media, json!({"spec": {"expirationSeconds": "600"}})),
        (
            "POST",
            format!("{pod}/binding"),
            media,
            json!({"target": {"name": "n"}, "metadata": {"annotations": {"a": [1]}}}),
        ),
        ("POST", format!("{pod}/eviction"), media, json!({"deleteOptions": {"gracePeriodSeconds": "1"}})),
        ("DELETE", pod.to_owned(), media, json!({"preconditions": {"uid": 1}})),
        ("DELETE", pod.to_owned(), media, json!({"gracePeriodSeconds": "0"})),
        ("PUT", format!("{namespace}/finalize"), media, json!({"spec": {"finalizers": [{"a": 1}]}})),
        ("PUT", format!("{namespace}/finalize"), media, json!({"spec": "text"})),
        ("PUT", scale.to_owned(), media, json!(["text"])),
        ("PUT", scale.to_owned(), media, json!({"spec": {"replicas": "1"}})),
        ("PATCH", scale.to_owned(), "application/merge-patch+json", json!({"spec": {"replicas": "1"}})),
        (
            "PATCH",
            scale.to_owned(),
            "application/json-patch+json",
            json!([{"op": "replace", "path": "", "value": []}]),
        ),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(),
            media,
            json!({"spec": 1}),
        ),
    ];
    for (method, path, media, body) in table {
        let answered = outcome(&endpoint, request(method, &path, media, body.to_string())).await;
        assert_eq!(answered, (400, json!("BadRequest")), "{method} {path} {body}");
    }
    let store = served.cluster.server().store();
    let stored = store.get(&Resource::new("", "pods"), &Key::new(Some("default"), "p")).unwrap();
    assert!(
        stored.value()["metadata"]["annotations"].is_null() && stored.value()["spec"]["nodeName"].is_null()
    );
    let stored = store.get(&Resource::new("apps", "deployments"), &Key::new(Some("default"), "d")).unwrap();
    assert_eq!(stored.value()["spec"]["replicas"], 3);
    served.cluster.stop().await;
}

/// A cluster-scoped CustomResourceDefinition with arbitrary contents and one validation rule.
fn definition(rule: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.y"}, "spec": {"group": "x.y", "scope": "Cluster",
        "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-validations": [{"rule": rule}]}}}]}})
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test]
async fn no_request_can_create_an_object_that_is_too_deep() {
    const WAYS: [&str; 2] = ["", "&dryRun=All"];
    let served = serve().await;
    let endpoint = endpoint(&served);
    let media = "application/json";
    let made = outcome(&endpoint, request("POST", DEFINITIONS, media, definition("true").to_string())).await;
    assert_eq!(made.0, 201);
    let nested = |levels: usize| (0..levels).fold(json!(1), |value, _| json!({"a": value}));
    let things = "/apis/x.y/v1/things";
    let thing = |name: &str, a: Value| json!({"apiVersion": "x.y/v1", "kind": "Thing", "metadata": {"name": name}, "a": a});
    for (path, object) in [(things, thing("t", nested(100))), (MAPS, json!({"metadata": {"name": "m"}}))] {
        let made = outcome(&endpoint, request("POST", path, media, object.to_string())).await;
        assert_eq!(made.0, 201, "{path}");
    }
    let path = |levels: usize| "/a".repeat(levels);
    let step = |at: usize| json!({"op": "add", "path": path(at), "value": nested(99)});
    let deep = Value::Array((0..80).map(|n| step(1 + 99 * n)).collect());
    let deeper = json!([{"op": "add", "path": path(101), "value": nested(30)}]);
    let too_large = (413, json!("RequestEntityTooLarge"));
    let store = served.cluster.server().store();
    let stored = store.get(&Resource::new("x.y", "things"), &Key::new(None, "t")).unwrap();
    let mut put = thing("t", nested(123));
    put["metadata"]["resourceVersion"] = stored.revision.to_string().into();
    for way in WAYS {
        let with = |name: &str| format!("{things}/{name}?fieldManager=f{way}");
        let table = [
            request("PATCH", &format!("{MAPS}/m?{way}"), "application/json-patch+json", deep.to_string()),
            request("PATCH", &with("t"), "application/json-patch+json", deep.to_string()),
            request("PATCH", &with("t"), "application/json-patch+json", deeper.to_string()),
            request("PATCH", &with("t"), "application/merge-patch+json", thing("t", nested(123)).to_string()),
            request(
                "PATCH",
                &with("new"),
                "application/apply-patch+yaml",
                thing("new", nested(123)).to_string(),
            ),
            request("PUT", &with("t"), media, put.to_string()),
            request("POST", &format!("{things}?{way}"), media, thing("new", nested(123)).to_string()),
        ];
        for request in table {
            let shown = format!("{} {} {:?}", request.method(), request.uri(), request.headers());
            let answered = outcome(&endpoint, request).await;
            // The YAML parser rejects such depth by itself.
            let expected =
                if shown.contains("yaml") { (400, json!("BadRequest")) } else { too_large.clone() };
            assert_eq!(answered, expected, "{shown}");
        }
    }
    let listed = outcome(&endpoint, request("GET", things, media, "")).await;
    assert_eq!(listed.0, 200);
    served.cluster.stop().await;
}

#[tokio::test]
async fn too_expensive_rules_are_rejected() {
    let served = serve().await;
    let endpoint = endpoint(&served);
    let media = "application/json";
    let doubled = |start: &str| (0..28).fold(start.to_owned(), |text, _| format!("{text}.replace('x','xx')"));
    let literal = definition(&format!("size({}) > 0", doubled("'x'")));
    let answer = send(&endpoint, request("POST", DEFINITIONS, media, literal.to_string())).await;
    assert_eq!(answer.status(), 422);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("steps whatever it is about"), "{body:?}");
    let of_value = definition(&format!("!has(self.a) || size({}) > 0", doubled("self.a")));
    assert_eq!(outcome(&endpoint, request("POST", DEFINITIONS, media, of_value.to_string())).await.0, 201);
    let thing = json!({"apiVersion": "x.y/v1", "kind": "Thing", "metadata": {"name": "t"}, "a": "x"});
    let refused = outcome(&endpoint, request("POST", "/apis/x.y/v1/things", media, thing.to_string())).await;
    assert_eq!(refused, (422, json!("Invalid")));
    served.cluster.stop().await;
}

#[test]
fn any_selector_and_token_is_parsed_or_rejected() {
    let text = prop_oneof![
        "[a-z=!,() ><]{0,24}",
        ".{0,40}",
        "[A-Za-z0-9_-]{0,60}",
        "(a|b|metadata.name)(=|!=|==| in | notin )\\(?[a-z,]{0,6}\\)?"
    ];
    let names = prop::sample::select(vec![
        "labelSelector",
        "fieldSelector",
        "continue",
        "resourceVersion",
        "limit",
        "fieldValidation",
        "dryRun",
    ]);
    hold(800, &(names, text), |(name, text)| {
        let escaped = text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        request("GET", &format!("{MAPS}?{name}={escaped}"), "application/json", "")
    });
}

#[test]
fn any_rule_is_compiled_and_run_or_rejected() {
    let part = prop::sample::select(vec![
        "self",
        "oldSelf",
        ".l",
        ".s",
        "size(",
        "(",
        ")",
        "[",
        "]",
        "0",
        "1",
        "-1",
        "'a'",
        " + ",
        " / ",
        " % ",
        " == ",
        " < ",
        " && ",
        " || ",
        "!",
        "?",
        ":",
        ".all(x, ",
        ".exists(y, ",
        ".map(z, ",
        "x",
        "y",
        "has(",
        ",",
        "matches(",
        "'('",
        "9223372036854775807",
        "quantity(",
        "true",
    ]);
    let rule = prop::collection::vec(part, 1..12).prop_map(|parts| parts.concat());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let served = runtime.block_on(serve());
    let endpoint = endpoint(&served);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let number = std::cell::Cell::new(0);
    let config = Config { cases: 300, failure_persistence: None, ..Config::default() };
    let compiled = std::cell::Cell::new(0);
    let result = TestRunner::new(config).run(&rule, |rule| {
        number.set(number.get() + 1);
        let plural = format!("k{}s", number.get());
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.x.y")}, "spec": {"group": "x.y", "scope": "Cluster",
            "names": {"plural": plural, "kind": format!("K{}", number.get())}, "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
                "properties": {"l": {"type": "array", "items": {"type": "integer"}}, "s": {"type": "string"}},
                "x-kubernetes-validations": [{"rule": rule, "message": "m"}]}}}}}]}});
        let object = json!({"apiVersion": "x.y/v1", "kind": format!("K{}", number.get()), "metadata": {"name": "o"},
            "spec": {"l": vec![1; 500], "s": "a".repeat(500)}});
        let (made, written) = runtime.block_on(async {
            let made = send(&endpoint, request("POST", definitions, "application/json", definition.to_string())).await;
            let path = format!("/apis/x.y/v1/{plural}");
            let written = send(&endpoint, request("POST", &path, "application/json", object.to_string())).await;
            (made.status().as_u16(), written.status().as_u16())
        });
        prop_assert!(matches!(made, 201 | 422), "{rule}: {made}");
        prop_assert!(matches!((made, written), (201, 201 | 422) | (422, 404)), "{rule}: {made} {written}");
        compiled.set(compiled.get() + u32::from(made == 201));
        Ok(())
    });
    runtime.block_on(served.cluster.stop());
    result.unwrap();
    assert!(compiled.get() > 5, "only {} of the rules were rules", compiled.get());
}

#[tokio::test]
async fn a_watcher_that_does_not_read_blocks_nobody() {
    let served = serve().await;
    const EVENTS: usize = 6000;
    const BYTES: usize = 10_000;
    let store = served.cluster.server().store().clone();
    let (resource, key) = (Resource::new("", "configmaps"), Key::new(Some("default"), "m"));
    let map = |number: usize| {
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m", "namespace": "default"},
            "data": {"n": number.to_string(), "a": "x".repeat(BYTES)}})
    };
    let mut record = store.create(&resource, key.clone(), map(0)).await.unwrap();
    let remote = served.remote().await;
    let watch = Request::get(format!("{MAPS}?watch=1&resourceVersion=0"));
    let stuck = remote.send(watch.body(kube::client::Body::empty()).unwrap()).await.unwrap();
    assert_eq!(stuck.status(), 200);
    for number in 1..=EVENTS {
        record = store.replace(&resource, &key, record.revision, map(number)).await.unwrap();
        tokio::task::yield_now().await;
    }
    // It finally reads the queued events and then the end of the stream; the rest was dropped.
    let mut body = stuck.into_body();
    let mut bytes = 0;
    let end = async {
        while let Some(Ok(frame)) = body.frame().await {
            bytes += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    soon(end).await;
    assert!(bytes < EVENTS * BYTES, "{bytes} bytes were kept for one watcher");
    served.cluster.stop().await;
}

#[tokio::test]
async fn thousands_of_idle_connections_block_nobody() {
    // Both ends of each connection are in this process, so use all file descriptors that it may open.
    let (_, most) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
    let most = most.min(16_384);
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, most, most).unwrap();
    let count = usize::try_from(most / 4).unwrap().min(2000);
    let served = serve().await;
    let address = served.cluster.address();
    let mut silent = Vec::new();
    for _ in 0..count {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let remote = served.remote().await;
    let maps: Api<ConfigMap> = Api::namespaced(remote, "default");
    soon(maps.list(&ListParams::default())).await.unwrap();
    drop(silent);
    let answered = tokio::time::timeout(Duration::from_secs(20), maps.list(&ListParams::default())).await;
    assert!(answered.unwrap().is_ok());
    served.cluster.stop().await;
}

#[tokio::test]
async fn disconnected_watchers_do_not_block_writes() {
    let served = serve().await;
    let client = served.cluster.client();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    for _ in 0..300 {
        let watch = Request::get(format!("{MAPS}?watch=1")).body(kube::client::Body::empty()).unwrap();
        drop(client.send(watch).await.unwrap());
    }
    let map = json!({"metadata": {"name": "m"}});
    soon(maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap())).await.unwrap();
    served.cluster.stop().await;
}
