//! Admission webhooks: the API calls a real TLS server on loopback.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, ServerConfig};

use crate::served::{Served, serve, soon};

/// Maps the path and the `request` of a review to its `response`; the server adds the uid.
type Judge = dyn Fn(&str, &Value) -> Value + Send + Sync;

/// A webhook server; stops when dropped.
struct Webhook {
    address: SocketAddr,
    ca: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    _serving: JoinSet<()>,
}

impl Webhook {
    async fn serve(judge: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Self {
        let made =
            rcgen::generate_simple_self_signed(vec!["127.0.0.1".into(), "hook.default.svc".into()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), Arc::new(judge), asked.clone()));
        Self { address, ca: STANDARD.encode(made.cert.pem()), asked, _serving: serving }
    }

    fn config(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.address), "caBundle": self.ca})
    }

    /// Returns the requests so far with their paths, and clears them.
    fn asked(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    judge: Arc<Judge>,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, judge, asked) = (acceptor.clone(), judge.clone(), asked.clone());
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request| answer(request, judge.clone(), asked.clone()));
            // Clients that disconnect early don't matter.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    judge: Arc<Judge>,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let mut review: Value = serde_json::from_slice(&body).unwrap();
    let question = review["request"].take();
    asked.lock().unwrap().push((path.clone(), question.clone()));
    let mut response = judge(&path, &question);
    if response["hang"] == true {
        std::future::pending::<()>().await;
    }
    if let Some(code) = response["http"].as_u64() {
        let body = Full::new(Bytes::from_static(b"out of order"));
        return Ok(Response::builder().status(u16::try_from(code).unwrap()).body(body).unwrap());
    }
    if response["uid"].is_null() {
        response["uid"] = question["uid"].clone();
    }
    review.as_object_mut().unwrap().remove("request");
    review["response"] = response;
    Ok(Response::new(Full::new(Bytes::from(review.to_string()))))
}

fn allow() -> Value {
    json!({"allowed": true})
}

fn patch(operations: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

/// A webhook about ConfigMaps, as part of a configuration, with changes.
fn hook(webhook: &Webhook, path: &str, change: &Value) -> Value {
    let mut hook = json!({"name": format!("{}.example.com", path.trim_matches('/')), "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "clientConfig": webhook.config(path),
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]});
    json_patch::merge(&mut hook, change);
    hook
}

async fn configure(client: &Client, kind: &str, name: &str, hooks: Vec<Value>) {
    let plural = format!("{}configurations", kind.to_lowercase());
    let body = json!({"kind": format!("{kind}Configuration"), "apiVersion": "admissionregistration.k8s.io/v1",
        "metadata": {"name": name}, "webhooks": hooks});
    let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
    let request = Request::post(path).header("content-type", "application/json");
    client.request::<Value>(request.body(body.to_string().into_bytes()).unwrap()).await.unwrap();
}

async fn mutating(client: &Client, name: &str, hooks: Vec<Value>) {
    configure(client, "MutatingWebhook", name, hooks).await;
}

async fn validating(client: &Client, name: &str, hooks: Vec<Value>) {
    configure(client, "ValidatingWebhook", name, hooks).await;
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

fn map(name: &str, data: &Value) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap()
}

async fn create(client: &Client, name: &str) -> kube::Result<ConfigMap> {
    soon(maps(client).create(&PostParams::default(), &map(name, &json!({"a": "1"})))).await
}

/// Returns the code, reason and message of an expected error.
fn refused<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("this should have been refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_validating_webhook_sees_every_write_and_its_message_is_returned() {
    let webhook = Webhook::serve(|_, question| {
        if question["object"]["data"]["a"] == "bad" {
            return json!({"allowed": false, "status": {"message": "bad data", "code": 422, "reason": "Unfit"}});
        }
        json!({"allowed": true, "warnings": ["mind the gap"]})
    })
    .await;
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    validating(&client, "v", vec![hook(&webhook, "/v", &json!({}))]).await;

    let made = create(&client, "m").await.unwrap();
    let asked = webhook.asked();
    let (_, question) = &asked[0];
    assert_eq!(asked.len(), 1);
    assert_eq!(question["operation"], "CREATE");
    assert_eq!(question["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(question["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!((&question["name"], &question["namespace"]), (&json!("m"), &json!("default")));
    assert_eq!(question["userInfo"]["username"], "kubernetes-admin");
    assert_eq!(question["object"]["metadata"]["uid"].as_str(), made.metadata.uid.as_deref());
    assert_eq!((&question["oldObject"], &question["dryRun"]), (&Value::Null, &json!(false)));
    assert_eq!(question["options"]["kind"], "CreateOptions");

    let message = "admission webhook \"v.example.com\" denied the request: bad data";
    let bad = soon(maps(&client).replace("m", &PostParams::default(), &map("m", &json!({"a": "bad"})))).await;
    assert_eq!(refused(bad), (422, "Unfit".into(), message.into()));
    let question = &webhook.asked()[0].1;
    assert_eq!(
        (&question["operation"], &question["oldObject"]["data"]["a"]),
        (&json!("UPDATE"), &json!("1"))
    );

    let change = Patch::Merge(json!({"data": {"a": "bad"}}));
    assert_eq!(refused(maps(&client).patch("m", &PatchParams::default(), &change).await).0, 422);
    for name in ["m", "new"] {
        let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"a": "bad"}});
        let apply =
            maps(&client).patch(name, &PatchParams::apply("me").force(), &Patch::Apply(&applied)).await;
        assert_eq!(refused(apply).2, message);
    }
    assert_eq!(webhook.asked().last().unwrap().1["operation"], "CREATE");

    maps(&client).delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    let question = &webhook.asked()[0].1;
    assert_eq!((&question["operation"], &question["object"]), (&json!("DELETE"), &Value::Null));
    assert_eq!((&question["name"], &question["options"]["kind"]), (&json!("m"), &json!("DeleteOptions")));
    cluster.stop().await;
}

#[tokio::test]
async fn mutating_webhooks_run_in_order_and_are_reinvoked() {
    let webhook = Webhook::serve(|path, question| match path {
        "/first" if question["object"]["data"]["second"].is_null() => {
            patch(&json!([{"op": "add", "path": "/data/first", "value": "1"}]))
        }
        "/first" => patch(&json!([{"op": "add", "path": "/data/first", "value": "again"}])),
        "/second" => patch(&json!([{"op": "add", "path": "/data/second", "value": "2"}])),
        _ => allow(),
    })
    .await;
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    // Ordered by name, not by age.
    mutating(&client, "b", vec![hook(&webhook, "/second", &json!({}))]).await;
    let first = hook(&webhook, "/first", &json!({"reinvocationPolicy": "IfNeeded"}));
    mutating(&client, "a", vec![first]).await;

    let generated: ConfigMap =
        serde_json::from_value(json!({"metadata": {"generateName": "m-"}, "data": {"a": "1"}})).unwrap();
    let made = soon(maps(&client).create(&PostParams::default(), &generated)).await.unwrap();
    assert_eq!(json!(made.data), json!({"a": "1", "first": "again", "second": "2"}));
    let asked = webhook.asked();
    let paths = asked.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>();
    assert_eq!(paths, ["/first", "/second", "/first"]);
    let metadata = &asked[0].1["object"]["metadata"];
    assert_eq!(
        (&metadata["uid"], &metadata["name"], &asked[0].1["name"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert!(made.name_any().starts_with("m-"));
    // Fields that a webhook sets have no owner.
    let fields = json!(made.metadata.managed_fields.unwrap()[0].fields_v1);
    assert_eq!(fields["f:data"], json!({".": {}, "f:a": {}}));

    // Invalid managedFields from a webhook are ignored.
    let spoil = Webhook::serve(|_, _| {
        patch(&json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{"operation": "Odd"}]}]))
    })
    .await;
    mutating(&client, "c", vec![hook(&spoil, "/spoil", &json!({}))]).await;
    let made = create(&client, "kept").await.unwrap();
    assert_eq!(made.metadata.managed_fields.unwrap().len(), 1);
    cluster.stop().await;
}

#[tokio::test]
async fn a_changed_object_is_defaulted_and_validated_again() {
    let webhook = Webhook::serve(|_, question| {
        let name = question["object"]["metadata"]["name"].as_str().unwrap_or_default();
        let port = json!({"containerPort": 80});
        match name {
            "defaulted" => {
                patch(&json!([{"op": "add", "path": "/spec/containers/0/ports", "value": [port]}]))
            }
            "broken" => patch(&json!([{"op": "add", "path": "/spec/containers/0/name", "value": "A B"}])),
            "mistyped" => patch(&json!([{"op": "add", "path": "/spec/containers", "value": 7}])),
            _ => patch(&json!([{"op": "remove", "path": "/nothing"}])),
        }
    })
    .await;
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    let rules = json!({"rules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods"]}]});
    mutating(&client, "m", vec![hook(&webhook, "/m", &rules)]).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let make = async |name: &str| {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        soon(pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap())).await
    };
    let made = make("defaulted").await.unwrap();
    assert_eq!(
        json!(made.spec.unwrap().containers[0].ports),
        json!([{"containerPort": 80, "protocol": "TCP"}])
    );
    assert_eq!(refused(make("broken").await).0, 422);
    assert_eq!(refused(make("mistyped").await).0, 500);
    assert_eq!(refused(make("other").await).0, 500);
    cluster.stop().await;
}

#[tokio::test]
async fn a_webhook_is_called_only_for_matching_writes() {
    let webhook = Webhook::serve(|_, _| json!({"allowed": false})).await;
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    let spaces: Api<Namespace> = Api::all(client.clone());
    for (name, label) in [("marked", "yes"), ("plain", "no")] {
        let space = json!({"metadata": {"name": name, "labels": {"hook": label}}});
        spaces.create(&PostParams::default(), &serde_json::from_value(space).unwrap()).await.unwrap();
    }
    let selector = json!({"matchLabels": {"hook": "yes"}});
    let hooks = vec![
        hook(&webhook, "/space", &json!({"namespaceSelector": selector})),
        hook(&webhook, "/object", &json!({"objectSelector": selector})),
        hook(
            &webhook,
            "/condition",
            &json!({"matchConditions": [
            {"name": "big", "expression": "request.operation == 'CREATE' && has(object.data) && int(object.data.a) > 5"},
            {"name": "not-me", "expression": "request.userInfo.username != 'me'"}]}),
        ),
        hook(
            &webhook,
            "/scope",
            &json!({"rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["*"], "scope": "Cluster"}], "objectSelector": {"matchLabels": {"cluster": "yes"}}}),
        ),
    ];
    validating(&client, "v", hooks).await;
    let table = [
        ("marked", json!({}), "1", Some("space")),
        ("plain", json!({}), "1", None),
        ("plain", json!({"hook": "yes"}), "1", Some("object")),
        ("plain", json!({}), "6", Some("condition")),
    ];
    for (index, (namespace, labels, number, denied_by)) in table.into_iter().enumerate() {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let map = json!({"metadata": {"name": format!("m{index}"), "labels": labels}, "data": {"a": number}});
        let made = soon(maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap())).await;
        match denied_by {
            None => assert!(made.is_ok(), "{made:?}"),
            Some(name) => {
                let text = format!(
                    "admission webhook \"{name}.example.com\" denied the request without explanation"
                );
                assert_eq!(refused(made), (400, String::new(), text));
            }
        }
    }
    let space = json!({"metadata": {"name": "third", "labels": {"cluster": "yes"}}});
    let made = spaces.create(&PostParams::default(), &serde_json::from_value(space).unwrap()).await;
    assert!(refused(made).2.contains("scope.example.com"));
    cluster.stop().await;
}

#[tokio::test]
async fn a_failing_webhook_follows_its_failure_policy() {
    let webhook = Webhook::serve(|path, _| match path {
        "/slow" => json!({"hang": true}),
        "/broken" => json!({"http": 500}),
        "/lost" => json!({"http": 404}),
        _ => json!({"allowed": true, "uid": "another"}),
    })
    .await;
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    let begin =
        |name: &str| format!("Internal error occurred: failed calling webhook \"{name}.example.com\": ");
    let url = |path: &str| format!("https://{}{path}", webhook.address);
    let table = [
        ("slow", json!({"timeoutSeconds": 1}), format!("failed to call webhook: Post \"{}?timeout=1s\": context deadline exceeded", url("/slow"))),
        ("broken", json!({}), "failed to call webhook: an error on the server (\"out of order\") has prevented the request from succeeding".into()),
        ("lost", json!({}), "failed to call webhook: the server could not find the requested resource".into()),
        ("gone", json!({"clientConfig": {"url": "https://127.0.0.1:1/x"}}), "failed to call webhook: Post \"https://127.0.0.1:1/x?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused".into()),
        ("stranger", json!({"clientConfig": {"url": url("/x"), "caBundle": null}}), format!("failed to call webhook: Post \"{}?timeout=10s\": tls: failed to verify certificate: x509: certificate signed by unknown authority", url("/x"))),
    ];
    for (index, (name, change, text)) in table.into_iter().enumerate() {
        validating(&client, name, vec![hook(&webhook, &format!("/{name}"), &change)]).await;
        let (code, reason, message) = refused(create(&client, &format!("closed-{index}")).await);
        assert_eq!((code, reason, message), (500, "InternalError".into(), begin(name) + &text));
        drop_configuration(&client, name).await;
        let mut change = change.clone();
        change["failurePolicy"] = json!("Ignore");
        validating(&client, name, vec![hook(&webhook, &format!("/{name}"), &change)]).await;
        create(&client, &format!("open-{index}")).await.unwrap();
        drop_configuration(&client, name).await;
    }
    validating(&client, "odd", vec![hook(&webhook, "/odd", &json!({}))]).await;
    let message = refused(create(&client, "odd").await).2;
    assert!(message.contains("received invalid webhook response: expected response.uid="), "{message}");
    cluster.stop().await;
}

async fn drop_configuration(client: &Client, name: &str) {
    let path = format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}");
    let request = Request::delete(path).body(Vec::new()).unwrap();
    client.request::<Value>(request).await.unwrap();
}

#[tokio::test]
async fn webhooks_are_reached_through_services_and_in_dry_runs() {
    let webhook = Webhook::serve(|_, _| json!({"allowed": false, "status": {"reason": "Never"}})).await;
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();

    // Webhooks don't apply to webhook configurations, so these can always be changed.
    let everything = json!({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
        "objectSelector": {"matchLabels": {"never": "yes"}}, "failurePolicy": "Fail",
        "clientConfig": {"url": null, "caBundle": webhook.ca,
            "service": {"name": "hook", "namespace": "default", "port": 443, "path": "/service"}}});
    let mut all = hook(&webhook, "/all", &everything);
    all["objectSelector"] = json!({});
    all["matchConditions"] = json!([{"name": "maps", "expression": "request.kind.kind == 'ConfigMap'"}]);
    validating(&client, "all", vec![all]).await;
    drop_configuration(&client, "all").await;
    let mut all = hook(&webhook, "/all", &everything);
    all["objectSelector"] = json!({});
    all["matchConditions"] = json!([{"name": "maps", "expression": "request.kind.kind == 'ConfigMap'"}]);
    validating(&client, "all", vec![all]).await;

    let text = "failed calling webhook \"all.example.com\": failed to call webhook: \
                Post \"https://hook.default.svc:443/service?timeout=10s\": ";
    let internal = |why: &str| format!("Internal error occurred: {text}{why}");
    assert_eq!(refused(create(&client, "m").await).2, internal("service \"hook\" not found"));
    raw(
        &client,
        "/api/v1/namespaces/default/services",
        &json!({"kind": "Service", "apiVersion": "v1",
        "metadata": {"name": "hook"}, "spec": {"clusterIP": "None", "ports": [{"port": 443}]}}),
    )
    .await;
    assert_eq!(
        refused(create(&client, "m").await).2,
        internal("no endpoints available for service \"hook\"")
    );
    raw(
        &client,
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        &json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": "IPv4",
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "endpoints": [{"addresses": ["127.0.0.1"]}], "ports": [{"port": webhook.address.port()}]}),
    )
    .await;
    let denied = "admission webhook \"all.example.com\" denied the request: Never";
    assert_eq!(refused(create(&client, "m").await), (400, "Never".into(), denied.into()));
    assert_eq!(webhook.asked()[0].0, "/service");

    // A dry run calls the webhook, too, with `dryRun` set.
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let made = maps(&client).create(&dry, &map("m", &json!({}))).await;
    assert_eq!(refused(made).2, denied);
    assert_eq!(webhook.asked()[0].1["dryRun"], true);
    cluster.stop().await;
}

async fn raw(client: &Client, path: &str, body: &Value) {
    let request = Request::post(path).header("content-type", "application/json");
    client.request::<Value>(request.body(body.to_string().into_bytes()).unwrap()).await.unwrap();
}

/// Many concurrent writes succeed although each one waits for a webhook: calls are limited, not rejected.
#[tokio::test]
async fn many_concurrent_calls_succeed() {
    let webhook = Webhook::serve(|_, _| allow()).await;
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    // The maximum timeout, because a busy machine needs time for so many calls.
    validating(&client, "v", vec![hook(&webhook, "/v", &json!({"timeoutSeconds": 30}))]).await;
    let mut writes = JoinSet::new();
    for index in 0..300 {
        let client = client.clone();
        writes.spawn(async move { create(&client, &format!("m-{index}")).await.is_ok() });
    }
    let done = tokio::time::timeout(Duration::from_secs(60), writes.join_all()).await.unwrap();
    assert_eq!(done.iter().filter(|ok| **ok).count(), 300);
    assert_eq!(webhook.asked().len(), 300);
    cluster.stop().await;
}
