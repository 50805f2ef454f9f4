//! Admission of pods by their service account: who says none runs as `default`, and finds a token.
//!
//! Rules: `plugin/pkg/admission/serviceaccount/admission.go`.

use std::time::Duration;

use serde_json::{Value, json};

use super::call::Call;
use super::create::random_suffix;
use super::status::{self, Refusal};
use crate::store::{Key, Resource, Start};

/// The account of who says none.
const DEFAULT: &str = "default";
/// How long the account `default` of a new namespace is waited for; upstream looks ten times, 50 to 100 ms apart, which
/// a busy laptop may need longer for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where a container finds its token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How a volume of tokens is called.
const VOLUME: &str = "kube-api-access-";
/// How long such a token is good, in seconds.
const TOKEN_SECONDS: i64 = 60 * 60 + 7;
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Gives a pod that is to be created its service account, the account's image pull secrets and a volume with its token.
/// Every other object passes.
///
/// # Errors
/// 403 for an account that is not there.
pub async fn admit(call: &Call<'_>, pod: &mut Value) -> Result<(), Refusal> {
    let is_pod = call.entry.kind.is("", "Pod") && call.action.subresource.is_empty();
    if !is_pod || !call.server.admits_service_accounts || pod["metadata"]["annotations"][MIRROR].is_string() {
        return Ok(());
    }
    let name = pod["spec"]["serviceAccountName"].as_str().filter(|name| !name.is_empty()).unwrap_or(DEFAULT);
    let name = name.to_owned();
    let account = account(call, &name).await.ok_or_else(|| {
        let namespace = call.action.namespace.unwrap_or_default();
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        );
        let own = pod["metadata"]["name"].as_str().unwrap_or_default();
        status::forbidden(call.about_name(own), &why)
    })?;
    for field in ["serviceAccountName", "serviceAccount"] {
        pod["spec"][field] = name.as_str().into();
    }
    let automount = |value: &Value| value["automountServiceAccountToken"].as_bool();
    if automount(&pod["spec"]).or_else(|| automount(&account)).unwrap_or(true) {
        mount_token(&mut pod["spec"], &format!("{VOLUME}{}", random_suffix()));
    }
    let has_secrets = pod["spec"]["imagePullSecrets"].as_array().is_some_and(|list| !list.is_empty());
    if let (Some(secrets), false) = (account["imagePullSecrets"].as_array(), has_secrets) {
        pod["spec"]["imagePullSecrets"] = json!(secrets);
    }
    Ok(())
}

/// The account; `default` may be about to be made.
async fn account(call: &Call<'_>, name: &str) -> Option<Value> {
    let accounts = Resource::new("", "serviceaccounts");
    let key = Key::new(call.action.namespace, name);
    let find = || call.server.store.get(&accounts, &key).map(|record| record.value.clone());
    let found = find();
    if found.is_some() || name != DEFAULT {
        return found;
    }
    let mut watch = call.server.store.watch(&accounts, Start::Now).ok()?;
    let made = async {
        loop {
            // It may have come before the watch began.
            if let Some(account) = find() {
                return Some(account);
            }
            watch.events.recv().await?;
        }
    };
    tokio::time::timeout(PATIENCE, made).await.ok().flatten()
}

/// Mounts a volume of this name in every container that mounts nothing there by itself.
fn mount_token(spec: &mut Value, volume: &str) {
    let mut is_mounted = false;
    for containers in ["initContainers", "containers"] {
        let list = spec.get_mut(containers).and_then(Value::as_array_mut);
        for container in list.into_iter().flatten() {
            let mounts = container["volumeMounts"].as_array().map(Vec::as_slice).unwrap_or_default();
            if mounts.iter().any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            push(
                container,
                "volumeMounts",
                json!({"name": volume, "readOnly": true, "mountPath": MOUNT_PATH}),
            );
            is_mounted = true;
        }
    }
    if !is_mounted {
        return;
    }
    let sources = json!([
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace",
            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]);
    push(spec, "volumes", json!({"name": volume, "projected": {"sources": sources, "defaultMode": 0o644}}));
}

fn push(object: &mut Value, field: &str, item: Value) {
    match object[field].as_array_mut() {
        Some(list) => list.push(item),
        None => object[field] = json!([item]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_container_that_mounts_nothing_there_gets_the_token() {
        let mut spec = json!({"containers": [{"name": "a"}, {"name": "b", "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}],
            "initContainers": [{"name": "c", "volumeMounts": [{"name": "x", "mountPath": "/x"}]}], "volumes": [{"name": "own"}]});
        mount_token(&mut spec, "kube-api-access-bcdfg");
        let mount = json!({"name": "kube-api-access-bcdfg", "readOnly": true, "mountPath": MOUNT_PATH});
        assert_eq!(spec["containers"][0]["volumeMounts"], json!([mount]));
        assert_eq!(spec["containers"][1]["volumeMounts"].as_array().map(Vec::len), Some(1));
        assert_eq!(spec["initContainers"][0]["volumeMounts"][1], mount);
        assert_eq!(spec["volumes"][1]["name"], "kube-api-access-bcdfg");
        assert_eq!(
            spec["volumes"][1]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"],
            3607
        );
        let mut own = json!({"containers": [{"volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}]});
        let before = own.clone();
        mount_token(&mut own, "v");
        assert_eq!(own, before);
    }
}
