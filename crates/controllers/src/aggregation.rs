//! Fills in the rules of ClusterRoles that aggregate others by label.
//!
//! Rule: `pkg/controller/clusterroleaggregation`: any change of a ClusterRole leads to a check of every role with an
//! `aggregationRule`. Only the rules are written, by server-side apply. [`objects::access::aggregate`] decides what to
//! aggregate.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::cache::{Cache, Key, follow};
use super::queue::{Queue, work};
use super::{Error, allow};
use controller_runtime::supervision::Scope;
use objects::access::{Rule, aggregate};

/// One step checks all roles.
const CONCURRENCY: usize = 1;
/// The field manager of the rules.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Runs until the scope ends.
pub async fn run(client: Client, scope: Scope) {
    let roles = Cache::<ClusterRole>::default();
    let queue: Arc<Queue<Key>> = Arc::default();
    // Every change leads to the same step, so that changes of many roles at once lead to one or two steps.
    let every_role = Key::new("", "");
    let (to, all) = (queue.clone(), roles.clone());
    roles.on_change(&scope.stop, move |_| to.add(every_role.clone()));
    tokio::join!(
        follow(Api::all(client.clone()), roles, scope.stop.clone()),
        work(queue.clone(), CONCURRENCY, scope, |key| step(&client, &all, &queue, key)),
    );
}

async fn step(
    client: &Client,
    roles: &Cache<ClusterRole>,
    queue: &Queue<Key>,
    key: Key,
) -> Result<Option<std::time::Duration>, Error> {
    let all = roles.list().iter().map(|role| json!(role.as_ref())).collect::<Vec<_>>();
    for role in all.iter().filter(|role| role["aggregationRule"].is_object()) {
        let Some(rules) = aggregate::gathered(role, all.iter()) else { continue };
        if rules == Rule::of_role(role) {
            continue;
        }
        write(client, roles, role, &rules).await?;
        // A role that aggregates this one is checked when the watch delivers the change, and to be sure also after this
        // step.
        queue.add(key.clone());
    }
    Ok(None)
}

async fn write(
    client: &Client,
    roles: &Cache<ClusterRole>,
    role: &Value,
    rules: &[Rule],
) -> Result<(), Error> {
    let name = role["metadata"]["name"].as_str().unwrap_or_default();
    let intent = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "uid": role["metadata"]["uid"]}, "rules": rules});
    let api: Api<ClusterRole> = Api::all(client.clone());
    let written = api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(intent)).await;
    if let Ok(written) = &written {
        tracing::debug!(
            role = written.name_any(),
            rules = rules.len(),
            "gathered the rules of a ClusterRole"
        );
        roles.learn(written.clone());
    }
    allow(&[404, 409], written)
}
