//! What people, service accounts and the administrator have: rights, namespaces, prices.

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use super::servers::{bind, create_all};
use super::{Stage, TEAM};

impl Stage {
    /// A token of a service account that edits jobs of the team, for an audience.
    pub async fn account_token(&self, audiences: &[&str]) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), TEAM);
        if accounts.get_opt("pipeline").await.unwrap().is_none() {
            let account = json!({ "metadata": { "name": "pipeline" } });
            accounts.create(&PostParams::default(), &serde_json::from_value(account).unwrap()).await.unwrap();
            let subject = json!({ "kind": "ServiceAccount", "name": "pipeline", "namespace": TEAM });
            bind(&self.admin, TEAM, "pipeline", "kubeflow-mpijobs-edit", subject).await;
        }
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(audiences.iter().map(|audience| (*audience).to_owned()).collect()),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let made = accounts.create_token_request("pipeline", &PostParams::default(), &request).await.unwrap();
        made.status.unwrap().token.unwrap()
    }

    /// Deletes that account, and with it its tokens.
    pub async fn delete_account(&self) {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), TEAM);
        accounts.delete("pipeline", &kube::api::DeleteParams::default()).await.unwrap();
    }

    /// Gives a person a role in a namespace.
    pub async fn allow(&self, namespace: &str, person: &str, role: &str) {
        let subject = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": person });
        bind(&self.admin, namespace, &format!("{person}-{}", role.replace(':', "-")), role, subject).await;
    }

    /// Creates a file's ClusterRole and its binding.
    pub async fn allow_everywhere(&self, file: &str) {
        create_all(&self.admin, file).await;
    }

    /// Creates a ClusterRole.
    pub async fn create_role(&self, name: &str, rights: Value) {
        let roles: Api<k8s_openapi::api::rbac::v1::ClusterRole> = Api::all(self.admin.clone());
        let role = json!({ "metadata": { "name": name }, "rules": [rights] });
        roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    }

    /// Creates a namespace.
    pub async fn create_namespace(&self, name: &str) {
        let namespaces: Api<Namespace> = Api::all(self.admin.clone());
        let namespace = json!({ "metadata": { "name": name } });
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();
    }

    /// Deletes a namespace, as its controller does once it is empty.
    pub async fn delete_namespace(&self, name: &str) {
        let namespaces: Api<Namespace> = Api::all(self.admin.clone());
        namespaces.delete(name, &DeleteParams::default()).await.unwrap();
        let mut namespace = namespaces.get(name).await.unwrap();
        namespace.spec.as_mut().unwrap().finalizers = None;
        namespaces.replace_subresource("finalize", name, &PostParams::default(), &namespace).await.unwrap();
    }

    /// Takes a person's roles in the team away.
    pub async fn revoke(&self, person: &str) {
        let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> =
            Api::namespaced(self.admin.clone(), TEAM);
        for binding in bindings.list(&kube::api::ListParams::default()).await.unwrap() {
            if binding.subjects.iter().flatten().any(|subject| subject.name == person) {
                bindings.delete(&binding.name_any(), &kube::api::DeleteParams::default()).await.unwrap();
            }
        }
    }
}

/// Sets prices, which only administrators may read.
pub async fn set_prices(stage: &Stage, prices: Value) {
    let namespaces: Api<Namespace> = Api::all(stage.admin.clone());
    let namespace = json!({ "metadata": { "name": "odh-training-prices" } });
    // It may be there already.
    let _ = namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await;
    let maps: Api<ConfigMap> = Api::namespaced(stage.admin.clone(), "odh-training-prices");
    let _ = maps.delete("prices", &DeleteParams::default()).await;
    let map = json!({ "metadata": { "name": "prices" }, "data": prices });
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
}
