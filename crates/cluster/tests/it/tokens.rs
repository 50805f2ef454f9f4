//! Service account tokens: requested, mounted, reviewed, renewed, rejected.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cluster::access::UserInfo;
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use kube::Client;
use kube::api::{Api, DeleteParams, LogParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use crate::access::{bind, make, namespace, refused, with_token};
use crate::served::{Served, serve, serve_with, soon};

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

async fn ask(client: &Client, account: &str, spec: Value) -> kube::Result<Value> {
    let path = format!("/api/v1/namespaces/default/serviceaccounts/{account}/token");
    let request = Request::post(path).header("content-type", "application/json");
    let body = json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec});
    client.request(request.body(body.to_string().into()).unwrap()).await
}

async fn token(client: &Client, account: &str, spec: Value) -> String {
    ask(client, account, spec).await.unwrap()["status"]["token"].as_str().unwrap().to_owned()
}

async fn review(client: &Client, token: &str, audiences: &[&str]) -> Value {
    let request = Request::post("/apis/authentication.k8s.io/v1/tokenreviews")
        .header("content-type", "application/json");
    let body = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1",
        "spec": {"token": token, "audiences": audiences}});
    client.request::<Value>(request.body(body.to_string().into()).unwrap()).await.unwrap()["status"].clone()
}

/// Returns the status code of a request with a token.
async fn code(served: &Served, token: &str) -> u16 {
    let client = with_token(served, token).await;
    match Api::<ConfigMap>::namespaced(client, "default").list(&kube::api::ListParams::default()).await {
        Ok(_) => 200,
        result => refused(result).0,
    }
}

fn robot(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "namespace": "default", "name": name})
}

fn claims(token: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap()).unwrap()
}

fn pod_of(account: &str) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": account, "containers": [{"name": "main", "image": "i"}]}})
}

#[tokio::test]
async fn a_token_is_valid_while_its_bound_objects_exist() {
    let served = serve().await;
    let admin = served.cluster.client();
    let accounts = Api::<ServiceAccount>::namespaced(admin.clone(), "default");
    let account = make(accounts.clone(), json!({"metadata": {"name": "robot"}})).await;
    bind(&admin, "default", "view", robot("robot")).await;
    let pods = Api::<Pod>::namespaced(admin.clone(), "default");
    let pod = make(pods.clone(), pod_of("robot")).await;
    let secrets = Api::<Secret>::namespaced(admin.clone(), "default");
    make(secrets.clone(), json!({"metadata": {"name": "s"}})).await;

    let plain = token(&admin, "robot", json!({})).await;
    assert_eq!(code(&served, &plain).await, 200);
    let status = review(&admin, &plain, &[]).await;
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:robot");
    assert_eq!(status["user"]["uid"].as_str(), account.metadata.uid.as_deref());
    assert_eq!(
        status["user"]["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    assert_eq!(status["audiences"], json!([ISSUER]));
    let said = claims(&plain);
    assert_eq!(said["exp"].as_i64().unwrap() - said["iat"].as_i64().unwrap(), 3600);

    let reference =
        |kind: &str, name: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}});
    let of_pod = token(&admin, "robot", reference("Pod", "p")).await;
    let of_secret = token(&admin, "robot", reference("Secret", "s")).await;
    let status = review(&admin, &of_pod, &[]).await;
    assert_eq!(status["user"]["extra"]["authentication.kubernetes.io/pod-name"], json!(["p"]));
    assert_eq!(status["user"]["extra"]["authentication.kubernetes.io/pod-uid"], json!([pod.metadata.uid]));
    assert_eq!((code(&served, &of_pod).await, code(&served, &of_secret).await), (200, 200));
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    secrets.delete("s", &DeleteParams::default()).await.unwrap();
    assert_eq!((code(&served, &of_pod).await, code(&served, &of_secret).await), (401, 401));
    // An object that is created again under the same name doesn't revive the token.
    make(pods, pod_of("robot")).await;
    make(secrets, json!({"metadata": {"name": "s"}})).await;
    assert_eq!((code(&served, &of_pod).await, code(&served, &of_secret).await), (401, 401));
    assert_eq!(code(&served, &plain).await, 200);
    accounts.delete("robot", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(&served, &plain).await, 401);
    make(accounts, json!({"metadata": {"name": "robot"}})).await;
    assert_eq!(code(&served, &plain).await, 401);
    served.cluster.stop().await;
}

#[tokio::test]
async fn a_token_is_valid_only_for_its_audiences() {
    let served = serve().await;
    let admin = served.cluster.client();
    make(Api::<ServiceAccount>::namespaced(admin.clone(), "default"), json!({"metadata": {"name": "robot"}}))
        .await;
    bind(&admin, "default", "view", robot("robot")).await;
    let vault = token(&admin, "robot", json!({"audiences": ["vault", "other"]})).await;
    assert_eq!(code(&served, &vault).await, 401);
    assert_eq!(review(&admin, &vault, &[]).await["authenticated"], Value::Null);
    assert_eq!(review(&admin, &vault, &["vault", "third"]).await["audiences"], json!(["vault"]));
    let both = token(&admin, "robot", json!({"audiences": ["vault", ISSUER]})).await;
    assert_eq!(code(&served, &both).await, 200);
    served.cluster.stop().await;
}

#[tokio::test]
async fn foreign_and_forged_tokens_are_rejected() {
    let served = serve().await;
    let other = serve().await;
    let admin = served.cluster.client();
    let mut tokens = Vec::new();
    for cluster in [&served, &other] {
        let client = cluster.cluster.client();
        make(
            Api::<ServiceAccount>::namespaced(client.clone(), "default"),
            json!({"metadata": {"name": "robot"}}),
        )
        .await;
        tokens.push(token(&client, "robot", json!({})).await);
    }
    bind(&admin, "default", "view", robot("robot")).await;
    let [good, foreign] = tokens.try_into().unwrap();
    assert_eq!(code(&served, &good).await, 200);
    let [header, body, signature] = good.split('.').collect::<Vec<_>>()[..] else { panic!("{good}") };
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let mut head: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
    head["alg"] = "none".into();
    let mut said = claims(&good);
    said["sub"] = "system:serviceaccount:kube-system:namespace-controller".into();
    let table = [
        ("signed by another cluster", foreign),
        ("without a signature", format!("{}.{body}.", encoded(&head))),
        ("of another account", format!("{header}.{}.{signature}", encoded(&said))),
        ("cut short", good[..good.len() - 4].to_owned()),
    ];
    for (what, token) in table {
        assert_eq!(code(&served, &token).await, 401, "{what}");
        let status = review(&admin, &token, &[]).await;
        assert_eq!(status["authenticated"], Value::Null, "{what}");
        assert!(!status["error"].as_str().unwrap().contains(&token), "{what}: the answer repeats the token");
    }
    other.cluster.stop().await;
    served.cluster.stop().await;
}

#[tokio::test]
async fn invalid_token_requests_are_rejected_with_a_reason() {
    let served = serve().await;
    let admin = served.cluster.client();
    make(Api::<ServiceAccount>::namespaced(admin.clone(), "default"), json!({"metadata": {"name": "robot"}}))
        .await;
    make(Api::<Pod>::namespaced(admin.clone(), "default"), pod_of("other")).await;
    let pod =
        |uid: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}});
    let gone = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "gone"}});
    let map = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "m"}});
    let table = [
        ("robot", json!({"expirationSeconds": 599}), 422, "may not specify a duration less than 10 minutes"),
        (
            "robot",
            json!({"expirationSeconds": (1_i64 << 32) + 1}),
            422,
            "may not specify a duration larger than 2^32 seconds",
        ),
        (
            "robot",
            pod(""),
            400,
            "cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name.",
        ),
        (
            "robot",
            pod("1"),
            409,
            "the UID in the bound object reference (1) does not match the UID in record",
        ),
        ("robot", gone, 404, "secrets \"gone\" not found"),
        ("robot", map, 400, "cannot bind token to object of type"),
        ("nobody", json!({}), 404, "serviceaccounts \"nobody\" not found"),
    ];
    for (account, spec, wanted, text) in table {
        let (code, message) = refused(ask(&admin, account, spec.clone()).await);
        assert_eq!(code, wanted, "{spec}: {message}");
        assert!(message.contains(text), "{spec}: {message}");
    }
    // An account without permission cannot even request tokens for itself.
    bind(&admin, "default", "view", robot("robot")).await;
    let own = with_token(&served, &token(&admin, "robot", json!({})).await).await;
    assert_eq!(refused(ask(&own, "robot", json!({})).await).0, 403);
    served.cluster.stop().await;
}

#[tokio::test]
async fn a_pod_gets_an_account_a_token_and_the_accounts_secrets() {
    let served = serve_with(|options| options.nodes = 0).await;
    let admin = served.cluster.client();
    // A pod in a new namespace waits for the account that a controller creates.
    namespace(&admin, "team").await;
    let pods = Api::<Pod>::namespaced(admin.clone(), "team");
    let container = json!([{"name": "main", "image": "i"}]);
    let pod =
        make(pods.clone(), json!({"metadata": {"name": "plain"}, "spec": {"containers": container}})).await;
    let spec = pod.spec.unwrap();
    assert_eq!(spec.service_account_name.as_deref(), Some("default"));
    let volume = &spec.volumes.as_ref().unwrap()[0];
    assert!(volume.name.starts_with("kube-api-access-"));
    let mount = &spec.containers[0].volume_mounts.as_ref().unwrap()[0];
    assert_eq!(
        (mount.name.as_str(), mount.mount_path.as_str()),
        (volume.name.as_str(), "/var/run/secrets/kubernetes.io/serviceaccount")
    );
    let accounts = Api::<ServiceAccount>::namespaced(admin, "team");
    let quiet = json!({"metadata": {"name": "quiet"}, "automountServiceAccountToken": false, "imagePullSecrets": [{"name": "registry"}]});
    make(accounts, quiet).await;
    let quiet = json!({"metadata": {"name": "quiet"}, "spec": {"serviceAccountName": "quiet", "containers": container}});
    let spec = make(pods.clone(), quiet).await.spec.unwrap();
    assert!(spec.volumes.is_none_or(|volumes| volumes.is_empty()));
    assert_eq!(spec.image_pull_secrets.unwrap()[0].name, "registry");
    let missing = json!({"metadata": {"name": "lost"}, "spec": {"serviceAccountName": "gone", "containers": container}});
    let missing = pods.create(&PostParams::default(), &serde_json::from_value(missing).unwrap()).await;
    assert_eq!(
        refused(missing),
        (403, r#"pods "lost" is forbidden: error looking up service account team/gone: serviceaccount "gone" not found"#.to_owned())
    );
    let odd =
        json!({"metadata": {"name": "odd"}, "spec": {"serviceAccountName": "a/b", "containers": container}});
    let odd = pods.create(&PostParams::default(), &serde_json::from_value(odd).unwrap()).await;
    assert_eq!(
        refused(odd),
        (403, r#"pods "odd" is forbidden: error looking up service account team/a/b: invalid resource name "a/b": [may not contain '/']"#.to_owned())
    );
    served.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pods_token_is_mounted_and_renewed() {
    let served = serve_with(|options| {
        options.sandbox_program = vec![env!("CARGO_BIN_EXE_cluster-sandbox").into()];
    })
    .await;
    let admin = served.cluster.client();
    let pods = Api::<Pod>::namespaced(admin.clone(), "default");
    let script =
        "cd \"$KUBE_API_ACCESS\"; cat namespace; echo; head -1 ca.crt; cat token; echo; exec sleep 600";
    // In plain mode nothing is mounted; the variable contains the volume's real path.
    let pod = json!({"metadata": {"name": "p"}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "i",
        "command": ["sh", "-c", script], "env": [{"name": "KUBE_API_ACCESS", "value": "/var/run/secrets/kubernetes.io/serviceaccount"}]}]}});
    let made = make(pods.clone(), pod).await;
    let log = soon(async {
        loop {
            let log = pods.logs("p", &LogParams::default()).await.unwrap_or_default();
            if log.lines().count() >= 3 {
                return log;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let [namespace, authority, first] = log.lines().collect::<Vec<_>>()[..] else { panic!("{log}") };
    assert_eq!((namespace, authority), ("default", "-----BEGIN CERTIFICATE-----"));
    let uid = made.metadata.uid.unwrap();
    assert_eq!(claims(first)["kubernetes.io"]["pod"]["uid"], uid.as_str());
    assert_eq!(review(&admin, first, &[]).await["user"]["username"], "system:serviceaccount:default:default");

    // With an expired token in the volume, any refresh of the volume renews it.
    let volume = made.spec.unwrap().volumes.unwrap()[0].name.clone();
    let file =
        served.state.path().join("cluster/run/pods").join(&uid).join("volumes").join(volume).join("token");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), first);
    let maps = Api::<ConfigMap>::namespaced(admin, "default");
    let touch = async |value: &str| {
        let patch = json!({"metadata": {"annotations": {"touched": value}}});
        maps.patch("kube-root-ca.crt", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    };
    let stale = format!("x.{}.x", URL_SAFE_NO_PAD.encode(json!({"iat": 1, "exp": 2}).to_string()));
    std::fs::write(&file, &stale).unwrap();
    touch("1").await;
    let second = soon(async {
        loop {
            match std::fs::read_to_string(&file) {
                Ok(token) if token != stale => return token,
                _ => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    assert_ne!(second, first);
    assert_eq!(claims(&second)["sub"], "system:serviceaccount:default:default");
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    soon(await_condition(pods, "p", |pod: Option<&Pod>| pod.is_none())).await.unwrap();
    assert_eq!(code(&served, &second).await, 401, "the token outlives its pod");
    served.cluster.stop().await;
}

#[tokio::test]
async fn the_issuers_public_key_is_served() {
    let served = serve().await;
    let admin = served.cluster.client();
    make(
        Api::<ServiceAccount>::namespaced(admin.clone(), "default"),
        json!({"metadata": ObjectMeta { name: Some("robot".into()), ..ObjectMeta::default() }}),
    )
    .await;
    let robot = with_token(&served, &token(&admin, "robot", json!({})).await).await;
    let get = async |path: &str| {
        robot.request::<Value>(Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
    };
    assert_eq!(get("/.well-known/openid-configuration").await["issuer"], ISSUER);
    let keys = get("/openid/v1/jwks").await;
    assert_eq!((&keys["keys"][0]["alg"], &keys["keys"][0]["d"]), (&json!("ES256"), &Value::Null));
    served.cluster.stop().await;
}

#[tokio::test]
async fn a_node_gets_tokens_only_for_pods_that_run_on_it() {
    let served = serve().await;
    let admin = served.cluster.client();
    let accounts = Api::<ServiceAccount>::namespaced(admin.clone(), "default");
    make(accounts, json!({"metadata": {"name": "robot"}})).await;
    let pods = Api::<Pod>::namespaced(admin, "default");
    for (name, node) in [("here", Some("n1")), ("there", Some("n2")), ("waits", None)] {
        let mut pod = pod_of("robot");
        (pod["metadata"]["name"], pod["spec"]["nodeName"]) = (json!(name), json!(node));
        make(pods.clone(), pod).await;
    }
    let node = served.cluster.client_of(UserInfo::known("system:node:n1", &["system:nodes"]));
    let bound = |pod: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod}});
    assert!(!token(&node, "robot", bound("here")).await.is_empty());
    for (spec, why) in [
        (json!({}), "not bound to a pod"),
        (bound("there"), "scheduled on a different node"),
        (bound("waits"), "not scheduled"),
    ] {
        let (code, message) = refused(ask(&node, "robot", spec).await);
        assert!(code == 403 && message.contains(why), "{code} {message}");
    }
}
