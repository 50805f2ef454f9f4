//! The admission plug-in ServiceAccount: sets the default account of a pod, and mounts a token.
//!
//! Rules: `plugin/pkg/admission/serviceaccount/admission.go`.

use std::time::Duration;

use serde_json::{Value, json};

use super::generated_names::random_suffix;
use super::request_context::RequestContext;
use super::status::{self, StatusError};
use crate::store::{Key, Resource, Start};

/// The account of pods that don't specify one.
const DEFAULT: &str = "default";
/// How long to wait for the account `default` of a new namespace. Upstream checks ten times, 50 to 100 ms
/// apart, which is too short on a busy laptop.
const PATIENCE: Duration = Duration::from_secs(5);
/// The directory of the token in a container.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The prefix of a token volume's name.
const VOLUME: &str = "kube-api-access-";
/// The lifetime of such a token in seconds.
const TOKEN_SECONDS: i64 = 60 * 60 + 7;
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Pods of an account with this annotation may use only the Secrets that the account lists.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

/// Sets a new pod's service account, the account's image pull secrets and a volume with its token. Leaves
/// other objects alone.
///
/// # Errors
/// 403 for an unknown account, or for a Secret that the account doesn't allow.
pub async fn admit(context: &RequestContext<'_>, pod: &mut Value) -> Result<(), StatusError> {
    let is_pod = context.entry.kind.is("", "Pod") && context.action.subresource.is_empty();
    if !is_pod || !context.server.admits_service_accounts {
        return Ok(());
    }
    let own = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let refuse = |why: &str| Err(status::forbidden(context.about_name(&own), why));
    if pod["metadata"]["annotations"][MIRROR].is_string() {
        return mirrored(&pod["spec"]).map_or(Ok(()), refuse);
    }
    let name = pod["spec"]["serviceAccountName"].as_str().filter(|name| !name.is_empty()).unwrap_or(DEFAULT);
    let name = name.to_owned();
    let account = account(context, &name).await.ok_or_else(|| {
        let namespace = context.action.namespace.unwrap_or_default();
        let faults = objects::path_segment_faults(&name);
        let why = match faults.as_slice() {
            [] => format!("serviceaccount {name:?} not found"),
            // The client that looks it up refuses the name (`rest.Request.Name`).
            faults => format!("invalid resource name {name:?}: [{}]", faults.join(" ")),
        };
        let why = format!("error looking up service account {namespace}/{name}: {why}");
        status::forbidden(context.about_name(&own), &why)
    })?;
    for field in ["serviceAccountName", "serviceAccount"] {
        pod["spec"][field] = name.as_str().into();
    }
    let automount = |value: &Value| value["automountServiceAccountToken"].as_bool();
    if automount(&pod["spec"]).or_else(|| automount(&account)).unwrap_or(true) {
        mount_token(&mut pod["spec"]);
    }
    let has_secrets = pod["spec"]["imagePullSecrets"].as_array().is_some_and(|list| !list.is_empty());
    if let (Some(secrets), false) = (account["imagePullSecrets"].as_array(), has_secrets) {
        pod["spec"]["imagePullSecrets"] = json!(secrets);
    }
    if account["metadata"]["annotations"][ENFORCE].as_str().is_some_and(is_true) {
        return unlent(&pod["spec"], &account).map_or(Ok(()), |why| refuse(&why));
    }
    Ok(())
}

/// Returns whether Go's `strconv.ParseBool` parses the text as true.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

fn items<'v>(object: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    object[field].as_array().into_iter().flatten()
}

/// Returns why a mirror pod isn't allowed, if it uses accounts, tokens or Secrets.
fn mirrored(spec: &Value) -> Option<&'static str> {
    let has_account = spec["serviceAccountName"].as_str().is_some_and(|name| !name.is_empty());
    let containers = || items(spec, "initContainers").chain(items(spec, "containers"));
    let mut sources = items(spec, "volumes").flat_map(|volume| items(&volume["projected"], "sources"));
    let has_secrets = items(spec, "imagePullSecrets").next().is_some()
        || items(spec, "volumes").any(|volume| volume["secret"].is_object())
        || items(spec, "volumes")
            .flat_map(|v| items(&v["projected"], "sources"))
            .any(|s| s["secret"].is_object())
        || containers().any(|container| {
            items(container, "env").any(|one| one["valueFrom"]["secretKeyRef"].is_object())
                || items(container, "envFrom").any(|one| one["secretRef"].is_object())
        });
    if has_account {
        Some("a mirror pod may not reference service accounts")
    } else if has_secrets {
        Some("a mirror pod may not reference secrets")
    } else if sources.any(|source| source["serviceAccountToken"].is_object()) {
        Some("a mirror pod may not use ServiceAccountToken volume projections")
    } else {
        None
    }
}

/// Reports the first Secret that a pod uses and its account doesn't list (`limitSecretReferences`).
fn unlent(spec: &Value, account: &Value) -> Option<String> {
    let names =
        |field: &str| items(account, field).filter_map(|one| one["name"].as_str()).collect::<Vec<_>>();
    let (lent, pulled) = (names("secrets"), names("imagePullSecrets"));
    let own = account["metadata"]["name"].as_str().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let end = format!("is not allowed because service account {own} does not reference that secret");
    let volumes = items(spec, "volumes").filter(|volume| volume["secret"].is_object());
    let mut wanted = volumes
        .map(|volume| (text(&volume["secret"]["secretName"]), "volume with".to_owned()))
        .collect::<Vec<_>>();
    for (list, what) in [("initContainers", "init container"), ("containers", "container")] {
        for container in items(spec, list) {
            let what = format!("{what} {}", text(&container["name"]));
            for one in items(container, "env").filter(|one| one["valueFrom"]["secretKeyRef"].is_object()) {
                let name = text(&one["valueFrom"]["secretKeyRef"]["name"]);
                wanted.push((name, format!("{what} with envVar {} referencing", text(&one["name"]))));
            }
            for one in items(container, "envFrom").filter(|one| one["secretRef"].is_object()) {
                wanted.push((text(&one["secretRef"]["name"]), format!("{what} with envFrom referencing")));
            }
        }
    }
    if let Some((name, what)) = wanted.iter().find(|(name, _)| !lent.contains(&name.as_str())) {
        return Some(format!("{what} secret.secretName={name:?} {end}"));
    }
    let pulls = items(spec, "imagePullSecrets").map(|one| text(&one["name"])).enumerate();
    pulls.into_iter().find(|(_, name)| !pulled.contains(&name.as_str())).map(|(index, name)| {
        format!(
            "imagePullSecrets[{index}].name={name:?} is not allowed because service account {own} does not reference that imagePullSecret"
        )
    })
}

/// Returns the account. Waits for `default`, which may be about to be created.
async fn account(context: &RequestContext<'_>, name: &str) -> Option<Value> {
    let accounts = Resource::new("", "serviceaccounts");
    let key = Key::new(context.action.namespace, name);
    let find = || context.server.store.get(&accounts, &key).map(|record| record.to_value());
    let found = find();
    if found.is_some() || name != DEFAULT {
        return found;
    }
    let mut watch = context.server.store.watch(&accounts, Start::Now).ok()?;
    let made = async {
        loop {
            // It may have been created before the watch started.
            if let Some(account) = find() {
                return Some(account);
            }
            watch.events.recv().await?;
        }
    };
    tokio::time::timeout(PATIENCE, made).await.ok().flatten()
}

/// Mounts a token volume, existing or new, in every container that has no mount of its own at that path.
fn mount_token(spec: &mut Value) {
    let volumes = items(spec, "volumes").filter_map(|volume| volume["name"].as_str());
    let present = volumes.into_iter().find(|name| name.starts_with(VOLUME)).map(str::to_owned);
    let is_there = present.is_some();
    let volume = present.unwrap_or_else(|| format!("{VOLUME}{}", random_suffix()));
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
    if !is_mounted || is_there {
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
    fn containers_without_a_mount_of_their_own_get_the_token() {
        let mut spec = json!({"containers": [{"name": "a"}, {"name": "b", "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}],
            "initContainers": [{"name": "c", "volumeMounts": [{"name": "x", "mountPath": "/x"}]}], "volumes": [{"name": "own"}]});
        mount_token(&mut spec);
        let name = spec["volumes"][1]["name"].clone();
        assert!(name.as_str().is_some_and(|name| name.starts_with(VOLUME)), "{name}");
        let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
        assert_eq!(spec["containers"][0]["volumeMounts"], json!([mount]));
        assert_eq!(spec["containers"][1]["volumeMounts"].as_array().map(Vec::len), Some(1));
        assert_eq!(spec["initContainers"][0]["volumeMounts"][1], mount);
        assert_eq!(
            spec["volumes"][1]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"],
            3607
        );
        let mut own = json!({"containers": [{"volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}]});
        let before = own.clone();
        mount_token(&mut own);
        assert_eq!(own, before);
        let mut again = json!({"containers": [{"name": "a"}], "volumes": [{"name": "kube-api-access-own", "emptyDir": {}}]});
        mount_token(&mut again);
        assert_eq!(again["volumes"].as_array().map(Vec::len), Some(1));
        assert_eq!(again["containers"][0]["volumeMounts"][0]["name"], "kube-api-access-own");
    }

    #[test]
    fn pods_may_use_only_the_secrets_of_their_account() {
        let account = json!({"metadata": {"name": "a"}, "secrets": [{"name": "mine"}]});
        let pod = |secret: &str| json!({"containers": [{"name": "c", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}]}]});
        assert_eq!(unlent(&pod("mine"), &account), None);
        assert_eq!(
            unlent(&pod("other"), &account).as_deref(),
            Some(
                "container c with envVar E referencing secret.secretName=\"other\" is not allowed because service account a does not reference that secret"
            )
        );
    }
}
