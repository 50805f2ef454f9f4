//! Admission policies in CEL.

use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::served::{Served, serve, soon};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

async fn send(client: &Client, method: &str, path: &str, body: &Value) -> kube::Result<Value> {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    soon(client.request(request.body(body.to_string().into_bytes()).unwrap())).await
}

/// Creates a policy about ConfigMaps and its binding.
async fn policy(client: &Client, kind: &str, name: &str, spec: Value, binding: Value) {
    let mut whole = json!({"matchConstraints": {"resourceRules": [{"operations": ["CREATE", "UPDATE"],
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}});
    json_patch::merge(&mut whole, &spec);
    let api_version = "admissionregistration.k8s.io/v1";
    let object = json!({"apiVersion": api_version, "kind": format!("{kind}AdmissionPolicy"),
        "metadata": {"name": name}, "spec": whole});
    let kind = kind.to_lowercase();
    send(client, "POST", &format!("{GROUP}/{kind}admissionpolicies"), &object).await.unwrap();
    let mut bound = json!({"policyName": name});
    json_patch::merge(&mut bound, &binding);
    let object = json!({"metadata": {"name": name}, "spec": bound});
    send(client, "POST", &format!("{GROUP}/{kind}admissionpolicybindings"), &object).await.unwrap();
}

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

async fn create(client: &Client, name: &str, data: Value) -> kube::Result<Value> {
    send(client, "POST", "/api/v1/namespaces/default/configmaps", &map(name, data)).await
}

/// Returns the code, reason and message of an expected error.
fn refused(result: kube::Result<Value>) -> (u16, String, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("this should have been refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_validating_policy_denies_what_fails_its_validations() {
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    let spec = json!({
        "variables": [{"name": "size", "expression": "size(object.data)"},
            {"name": "broken", "expression": "object.data.nothing + 'x'"},
            {"name": "many", "expression": "variables.size > 1"}],
        "matchConditions": [{"name": "told-to", "expression": "'size' in object.data"}],
        "validations": [
            {"expression": "!variables.many", "messageExpression": "'not ' + string(variables.size) + ' values'"},
            {"expression": "namespaceObject.metadata.name == 'default' && request.operation == 'CREATE'",
             "reason": "Forbidden", "message": "only new ones"},
            {"expression": "object.data.size != 'broken' || variables.broken == 'x'"}]});
    policy(&client, "Validating", "p", spec, json!({"validationActions": ["Deny"]})).await;
    let denied =
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: ";
    assert_eq!(
        refused(create(&client, "a", json!({"size": "1", "b": "2"})).await),
        (422, "Invalid".into(), format!("{denied}not 2 values"))
    );
    // A match condition is false.
    create(&client, "c", json!({"a": "1", "b": "2"})).await.unwrap();
    create(&client, "a", json!({"size": "1"})).await.unwrap();
    let changed = map("a", json!({"size": "2"}));
    assert_eq!(
        refused(send(&client, "PUT", "/api/v1/namespaces/default/configmaps/a", &changed).await),
        (403, "Forbidden".into(), format!("{denied}only new ones"))
    );
    // A variable that fails to evaluate is an error only where it is used.
    let (code, _, message) = refused(create(&client, "d", json!({"size": "broken"})).await);
    assert_eq!(code, 422, "{message}");
    assert!(message.contains("composited variable \"broken\" fails to evaluate"), "{message}");
    // The policy doesn't apply to itself or its binding, so both can always be changed.
    send(&client, "DELETE", &format!("{GROUP}/validatingadmissionpolicybindings/p"), &json!({}))
        .await
        .unwrap();
    create(&client, "e", json!({"size": "1", "b": "2"})).await.unwrap();
    cluster.stop().await;
}

#[tokio::test]
async fn a_policy_takes_parameters_and_follows_its_failure_policy() {
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    create(&client, "limits", json!({"most": "1"})).await.unwrap();
    let of_maps = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let spec = json!({"paramKind": of_maps,
        "validations": [{"expression": "size(object.data) <= int(params.data.most)"}]});
    let reference = |name: &str| json!({"name": name, "parameterNotFoundAction": "Deny"});
    let binding = json!({"validationActions": ["Deny"], "paramRef": reference("limits")});
    policy(&client, "Validating", "p", spec, binding).await;
    let (code, _, message) = refused(create(&client, "a", json!({"a": "1", "b": "2"})).await);
    let expected = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed expression: size(object.data) <= int(params.data.most)";
    assert_eq!((code, message.as_str()), (422, expected));
    create(&client, "a", json!({"a": "1"})).await.unwrap();

    let missing = json!({"spec": {"paramRef": reference("nowhere")}});
    let path = format!("{GROUP}/validatingadmissionpolicybindings/p");
    let request = Request::patch(&path).header("content-type", "application/merge-patch+json");
    client.request::<Value>(request.body(missing.to_string().into_bytes()).unwrap()).await.unwrap();
    let (_, _, message) = refused(create(&client, "b", json!({"a": "1"})).await);
    let why = "denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert!(message.ends_with(why), "{message}");
    let ignore = json!({"spec": {"failurePolicy": "Ignore"}});
    let request = Request::patch(format!("{GROUP}/validatingadmissionpolicies/p"));
    let request = request.header("content-type", "application/merge-patch+json");
    client.request::<Value>(request.body(ignore.to_string().into_bytes()).unwrap()).await.unwrap();
    create(&client, "b", json!({"a": "1"})).await.unwrap();
    cluster.stop().await;
}

#[tokio::test]
async fn mutating_policies_change_objects_and_are_reinvoked() {
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    let merge = |expression: &str| json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    let patch = |expression: &str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
    // The first policy counts the entries, the second adds one, so the first is reinvoked.
    let first = json!({"reinvocationPolicy": "IfNeeded", "mutations": [
        merge("Object{data: {'count': string(size(object.data))}}")]});
    policy(&client, "Mutating", "a", first, json!({})).await;
    let second = json!({"reinvocationPolicy": "Never",
        "matchConditions": [{"name": "new", "expression": "!has(object.metadata.annotations)"}],
        "mutations": [merge("Object{metadata: Object.metadata{annotations: {'by': 'policy'}}}"),
            patch("[JSONPatch{op: 'test', path: '/data/a', value: '1'}, JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('b'), value: 'two'}]")]});
    policy(&client, "Mutating", "b", second, json!({})).await;
    let made = create(&client, "m", json!({"a": "1"})).await.unwrap();
    assert_eq!(made["data"], json!({"a": "1", "b": "two", "count": "3"}));
    assert_eq!(made["metadata"]["annotations"], json!({"by": "policy"}));
    // A JSON patch whose test fails has no effect.
    let made = create(&client, "n", json!({"a": "2"})).await.unwrap();
    assert_eq!(made["data"], json!({"a": "2", "count": "2"}));

    let third =
        json!({"reinvocationPolicy": "Never", "mutations": [merge("Object{data: Object.metadata{}}")]});
    policy(&client, "Mutating", "c", third, json!({})).await;
    let (code, reason, message) = refused(create(&client, "o", json!({"a": "1"})).await);
    assert_eq!((code, reason.as_str()), (403, "Invalid"));
    let expected = "policy 'c' with binding 'c' denied request: type mismatch: unexpected type name \"Object.metadata\", expected \"Object.data\", which matches field name path from root Object type";
    assert_eq!(message, expected);
    cluster.stop().await;
}

#[tokio::test]
async fn invalid_policies_are_rejected() {
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    let object = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["pods"]}]},
        "validations": [{"expression": "1 +"}]}});
    let path = format!("{GROUP}/validatingadmissionpolicies");
    let (code, _, message) = refused(send(&client, "POST", &path, &object).await);
    assert_eq!(code, 422);
    assert!(
        message.contains("spec.validations[0].expression: Invalid value: \"1 +\": compilation failed"),
        "{message}"
    );
    cluster.stop().await;
}
