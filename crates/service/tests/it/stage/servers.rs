//! The API servers of stages, and what an administrator prepares on them.

use std::sync::Arc;

use cluster::apiserver::auth::tokens::Keys;
use cluster::apiserver::auth::users::{self, Person, Users};
use cluster::apiserver::auth::{Identities, UserInfo};
use cluster::apiserver::{ApiServer, Endpoint, bootstrap};
use cluster::store::{DEFAULT_WINDOW, Store, Volatile};
use conformance::real::Real;
use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::config::{AuthInfo, Config, KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ADMIN, EXPIRED, JANE, JOE, NOBODYS, OTHER_TEAM, PATIENCE, TEAM, VERA};

/// Names the folder with the programs of a real API server to use.
pub(super) const REAL: &str = "ODH_REAL_BINARIES";

/// The API server of a stage.
pub(super) enum Server {
    Embedded(Arc<ApiServer>),
    Real(Box<Real>),
}

/// The embedded cluster's API, with clients as the administrator and without credentials.
pub(super) async fn embedded(folder: &TempDir) -> (Server, Client, Client) {
    let file = folder.path().join(users::FILE);
    let later = Timestamp::now() + 1.hour();
    let person = |name: &str, token: &str, until| Person::new(name, Vec::new(), token, until);
    let people = [
        person("jane", JANE, later),
        person("vera", VERA, later),
        person("joe", JOE, later),
        person("gone", EXPIRED, Timestamp::now() - 1.hour()),
    ];
    users::save(&file, &people).unwrap();
    let identities = Identities::new(ADMIN).with_users(Users::new(file)).with_keys(Keys::fresh().unwrap());
    let store = Arc::new(Store::new(DEFAULT_WINDOW, Box::new(Volatile)));
    let server = Arc::new(ApiServer::new(store, identities));
    bootstrap::roles(server.store()).await.unwrap();
    let admin = Client::new(Endpoint::trusted(server.clone(), UserInfo::admin()), "default");
    let nobody = Client::new(Endpoint::with_credentials(server.clone()), "default");
    (Server::Embedded(server), admin, nobody)
}

/// The same of a real server. It does not know tokens that have expired.
pub(super) async fn real(binaries: &std::path::Path) -> (Server, Client, Client) {
    let people = [("jane", JANE), ("vera", VERA), ("joe", JOE)];
    let real = Real::start_with(binaries, ADMIN, &people).await.unwrap();
    let (admin, nobody) = (client_of(&real, ADMIN).await, client_of(&real, "").await);
    (Server::Real(Box::new(real)), admin, nobody)
}

/// A client of a real server with a token, or without credentials.
async fn client_of(real: &Real, token: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(&real.kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let token = (!token.is_empty()).then(|| token.to_owned().into());
    config.auth_info = AuthInfo { token, ..AuthInfo::default() };
    Client::try_from(config).unwrap()
}

/// A client as the service's own account.
pub(super) async fn own(server: &Server, admin: &Client) -> Client {
    match server {
        Server::Embedded(server) => {
            let account = UserInfo::account("mpi-operator", "training-service");
            Client::new(Endpoint::trusted(server.clone(), account), "default")
        }
        Server::Real(real) => {
            let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "mpi-operator");
            let (params, request) = (PostParams::default(), TokenRequest::default());
            let made = accounts.create_token_request("training-service", &params, &request).await.unwrap();
            client_of(real, &made.status.unwrap().token.unwrap()).await
        }
    }
}

pub(super) async fn prepare(admin: &Client, server: &Server) {
    let crds: Api<CustomResourceDefinition> = Api::all(admin.clone());
    crds.create(&PostParams::default(), &api::mpijob_crd()).await.unwrap();
    let served = await_condition(crds, "mpijobs.kubeflow.org", is_crd_established());
    tokio::time::timeout(PATIENCE, served).await.unwrap().unwrap();
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    for name in ["mpi-operator", TEAM, OTHER_TEAM, NOBODYS] {
        let namespace = json!({ "metadata": { "name": name } });
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();
        if let Server::Real(_) = server {
            // Pods are refused without it, and no controller creates it there.
            let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), name);
            let account = json!({ "metadata": { "name": "default" }, "automountServiceAccountToken": false });
            let account = serde_json::from_value(account).unwrap();
            accounts.create(&PostParams::default(), &account).await.unwrap();
        }
    }
    for file in [
        include_str!("../../../../../deploy/base/user-roles.yaml"),
        include_str!("../../../../../deploy/service/service-account.yaml"),
        include_str!("../../../../../deploy/service/role.yaml"),
    ] {
        create_all(admin, file).await;
    }
    for (namespace, person, word) in
        [(TEAM, "jane", "edit"), (TEAM, "vera", "view"), (OTHER_TEAM, "joe", "edit")]
    {
        for role in [format!("kubeflow-mpijobs-{word}"), format!("system:aggregate-to-{word}")] {
            let subject = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": person });
            bind(admin, namespace, &format!("{person}-{}", role.replace(':', "-")), &role, subject).await;
        }
    }
    let subject = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane" });
    bind(admin, TEAM, "jane-views", "system:aggregate-to-view", subject).await;
    let subject = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "joe" });
    bind(admin, OTHER_TEAM, "joe-views", "system:aggregate-to-view", subject).await;
}

/// Creates the objects of a file.
pub(super) async fn create_all(admin: &Client, file: &str) {
    for text in file.split("\n---\n") {
        let object: DynamicObject = serde_saphyr::from_str(text).unwrap();
        let types = object.types.clone().unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types).unwrap());
        let objects: Api<DynamicObject> = match types.kind.as_str() {
            "ServiceAccount" => Api::namespaced_with(admin.clone(), "mpi-operator", &resource),
            _ => Api::all_with(admin.clone(), &resource),
        };
        objects.create(&PostParams::default(), &object).await.unwrap();
    }
}

pub(super) async fn bind(admin: &Client, namespace: &str, name: &str, role: &str, subject: Value) {
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> = Api::namespaced(admin.clone(), namespace);
    let binding = json!({ "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [subject] });
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
}
