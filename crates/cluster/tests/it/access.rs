//! Authorization over TLS: roles, bindings, the escalation check, impersonation and certificates.

use std::collections::BTreeMap;

use cluster::apiserver::auth::users::{self, Person};
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, Role, RoleBinding};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, Kubeconfig};
use serde_json::{Value, json};

use crate::served::{Served, client_of, serve, serve_with, soon};

/// The lifetime of a user's token, in hours.
const HOURS: i64 = 1;

/// Returns the kubeconfig of another user.
pub fn kubeconfig_of(served: &Served, credential: AuthInfo) -> Kubeconfig {
    let mut kubeconfig = served.cluster.kubeconfig();
    kubeconfig.auth_infos[0].auth_info = Some(credential);
    kubeconfig
}

/// Returns a client with a bearer token.
pub async fn with_token(served: &Served, token: &str) -> Client {
    let credential = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
    client_of(kubeconfig_of(served, credential)).await
}

/// Adds a user and returns their token.
pub fn let_in(served: &Served, name: &str, groups: &[&str]) -> String {
    let path = served.state.path().join("cluster").join(users::FILE);
    let mut people = users::load(&path).unwrap();
    let token = format!("token-of-{name}");
    let expires = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(HOURS);
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    people.push(Person::new(name, groups, &token, expires));
    users::save(&path, &people).unwrap();
    token
}

/// Creates an object from JSON.
pub async fn make<K>(api: Api<K>, value: Value) -> K
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    api.create(&PostParams::default(), &serde_json::from_value(value).unwrap()).await.unwrap()
}

/// Creates a namespace.
pub async fn namespace(client: &Client, name: &str) {
    make(Api::<Namespace>::all(client.clone()), json!({"metadata": {"name": name}})).await;
}

/// Binds a ClusterRole in a namespace.
pub async fn bind(client: &Client, namespace: &str, role: &str, subject: Value) {
    let name = format!("{role}-{}", subject["name"].as_str().unwrap());
    let binding = json!({"metadata": {"name": name}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}});
    make(Api::<RoleBinding>::namespaced(client.clone(), namespace), binding).await;
}

pub fn user(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
}

/// Returns the code and message of an expected error.
pub fn refused<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        other => panic!("this should have been refused: {other:?}"),
    }
}

async fn request(client: &Client, path: &str, headers: &[(&str, &str)]) -> kube::Result<Value> {
    let mut request = Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client.request(request.body(Vec::new()).unwrap()).await
}

async fn whoami(client: &Client) -> Value {
    let review = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(
            json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}).to_string().into(),
        )
        .unwrap();
    client.request::<Value>(review).await.unwrap()["status"]["userInfo"].clone()
}

#[tokio::test]
async fn a_user_has_the_permissions_of_a_role_while_it_is_bound() {
    let served = serve().await;
    let admin = served.cluster.client();
    namespace(&admin, "team").await;
    let anna = with_token(&served, &let_in(&served, "anna", &[])).await;
    let maps = Api::<ConfigMap>::namespaced(anna.clone(), "team");
    let denied = r#"configmaps is forbidden: User "anna" cannot list resource "configmaps" in API group "" in the namespace "team""#;
    assert_eq!(refused(maps.list(&ListParams::default()).await), (403, denied.to_owned()));
    bind(&admin, "team", "view", user("anna")).await;
    maps.list(&ListParams::default()).await.unwrap();
    // The user may get this namespace by name, but no other, and no Secrets.
    Api::<Namespace>::all(anna.clone()).get("team").await.unwrap();
    for path in [
        "/api/v1/namespaces/default",
        "/api/v1/namespaces",
        "/api/v1/namespaces/team/secrets",
        "/api/v1/configmaps",
        "/metrics",
    ] {
        assert_eq!(refused(request(&anna, path, &[]).await).0, 403, "{path}");
    }
    assert_eq!(refused(maps.create(&PostParams::default(), &ConfigMap::default()).await).0, 403);
    Api::<RoleBinding>::namespaced(admin, "team")
        .delete("view-anna", &DeleteParams::default())
        .await
        .unwrap();
    assert_eq!(refused(maps.list(&ListParams::default()).await).0, 403);
    users::save(&served.state.path().join("cluster").join(users::FILE), &[]).unwrap();
    assert_eq!(refused(maps.list(&ListParams::default()).await).0, 401);
    served.cluster.stop().await;
}

#[tokio::test]
async fn permission_to_update_does_not_permit_creation() {
    let served = serve().await;
    let admin = served.cluster.client();
    let role = json!({"metadata": {"name": "patcher"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"],
        "verbs": ["get", "patch", "update", "list"], "resourceNames": ["own", "new"]}]});
    make(Api::<ClusterRole>::all(admin.clone()), role).await;
    bind(&admin, "default", "patcher", user("ben")).await;
    make(Api::<ConfigMap>::namespaced(admin.clone(), "default"), json!({"metadata": {"name": "own"}})).await;
    let ben = with_token(&served, &let_in(&served, "ben", &[])).await;
    let maps = Api::<ConfigMap>::namespaced(ben.clone(), "default");
    let apply = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}});
    let parameters = PatchParams::apply("test");
    maps.patch("own", &parameters, &Patch::Apply(apply("own"))).await.unwrap();
    let (code, message) = refused(maps.patch("new", &parameters, &Patch::Apply(apply("new"))).await);
    assert_eq!(code, 403);
    assert!(message.contains(r#"User "ben" cannot create resource "configmaps""#), "{message}");
    // One object may be listed by name; the others may not.
    let only = ListParams::default().fields("metadata.name=own");
    assert_eq!(maps.list(&only).await.unwrap().items.len(), 1);
    assert_eq!(refused(maps.list(&ListParams::default()).await).0, 403);
    served.cluster.stop().await;
}

#[tokio::test]
async fn selectors_do_not_widen_a_permission_for_named_objects() {
    let served = serve().await;
    let admin = served.cluster.client();
    let role = json!({"metadata": {"name": "one"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"],
        "verbs": ["get", "list", "watch", "deletecollection"], "resourceNames": ["allowed"]}]});
    make(Api::<ClusterRole>::all(admin.clone()), role).await;
    bind(&admin, "default", "one", user("mallory")).await;
    for name in ["allowed", "other"] {
        make(Api::<ConfigMap>::namespaced(admin.clone(), "default"), json!({"metadata": {"name": name}}))
            .await;
    }
    let mallory = with_token(&served, &let_in(&served, "mallory", &[])).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let escaped = "fieldSelector=metadata.namespace%21%3Dx%5C%2Cmetadata.name%3Dallowed";
    let open = "fieldSelector=metadata.namespace%21%3Dx%5C";
    for (path, code) in [
        (format!("{maps}?{escaped}"), 403),
        (format!("{maps}?watch=1&{escaped}"), 403),
        // The watch of one object appends its name to the selector, which ends in a backslash here.
        (format!("{maps}/allowed?watch=1&{open}"), 400),
    ] {
        assert_eq!(refused(request(&mallory, &path, &[]).await).0, code, "{path}");
    }
    for selector in [escaped, "fieldSelector=metadata.name%3Dallowed"] {
        let deletion = Request::delete(format!("{maps}?{selector}")).body(Vec::new()).unwrap();
        assert_eq!(refused(mallory.request::<Value>(deletion).await).0, 403, "{selector}");
    }
    let listed =
        request(&mallory, &format!("{maps}?fieldSelector=metadata.name%3Dallowed"), &[]).await.unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    served.cluster.stop().await;
}

#[tokio::test]
async fn users_cannot_grant_permissions_that_they_do_not_have() {
    let served = serve().await;
    let admin = served.cluster.client();
    namespace(&admin, "team").await;
    bind(&admin, "team", "admin", user("lead")).await;
    let lead = with_token(&served, &let_in(&served, "lead", &["leads"])).await;
    let roles = Api::<Role>::namespaced(lead.clone(), "team");
    let role = |name: &str, resource: &str| {
        serde_json::from_value::<Role>(json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""],
            "resources": [resource], "verbs": ["get", "create"]}]}))
        .unwrap()
    };
    let post = PostParams::default();
    roles.create(&post, &role("mine", "pods")).await.unwrap();
    assert_eq!(
        refused(roles.create(&post, &role("more", "nodes")).await),
        (
            403,
            "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"lead\" (groups=[\"leads\" \"system:authenticated\"]) is \
             attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], \
             Verbs:[\"create\" \"get\"]}"
                .to_owned()
        )
    );
    // Nor can an update, whatever the patch type.
    let wider = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    assert_eq!(refused(roles.patch("mine", &PatchParams::default(), &Patch::Merge(&wider)).await).0, 403);
    let bindings = Api::<RoleBinding>::namespaced(lead.clone(), "team");
    let binding = |name: &str, kind: &str, role: &str| {
        serde_json::from_value::<RoleBinding>(
            json!({"metadata": {"name": name}, "subjects": [user("friend")],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}}),
        )
        .unwrap()
    };
    bindings.create(&post, &binding("own", "Role", "mine")).await.unwrap();
    bindings.create(&post, &binding("edit", "ClusterRole", "edit")).await.unwrap();
    let (code, message) =
        refused(bindings.create(&post, &binding("all", "ClusterRole", "cluster-admin")).await);
    assert_eq!(code, 403);
    assert!(message.contains("attempting to grant RBAC permissions not currently held"), "{message}");
    let missing = refused(bindings.create(&post, &binding("none", "Role", "missing")).await);
    assert_eq!(missing, (404, r#"roles.rbac.authorization.k8s.io "missing" not found"#.to_owned()));
    // The verb `bind` on that role allows it.
    let may_bind = json!({"metadata": {"name": "binder"}, "rules": [{"apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles"], "resourceNames": ["cluster-admin"], "verbs": ["bind"]}]});
    make(Api::<ClusterRole>::all(admin.clone()), may_bind).await;
    bind(&admin, "team", "binder", user("lead")).await;
    bindings.create(&post, &binding("all", "ClusterRole", "cluster-admin")).await.unwrap();
    served.cluster.stop().await;
}

#[tokio::test]
async fn cluster_roles_are_aggregated_by_label() {
    let served = serve_with(|options| options.nodes = 0).await;
    let admin = served.cluster.client();
    let roles = Api::<ClusterRole>::all(admin.clone());
    let part = json!({"metadata": {"name": "widgets-edit", "labels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["create"]}]});
    make(roles.clone(), part).await;
    bind(&admin, "default", "admin", user("anna")).await;
    let asked = json!({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": {"user": "anna",
        "resourceAttributes": {"verb": "create", "group": "example.com", "resource": "widgets", "namespace": "default"}}});
    let may = async |wanted: bool| loop {
        let review = Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews")
            .header("content-type", "application/json");
        let answer: Value = admin.request(review.body(asked.to_string().into()).unwrap()).await.unwrap();
        if answer["status"]["allowed"] == wanted {
            return answer["status"].clone();
        }
        tokio::task::yield_now().await;
    };
    // `admin` aggregates `edit`, which aggregates the new role.
    let answer = soon(may(true)).await;
    assert_eq!(
        answer["reason"],
        r#"RBAC: allowed by RoleBinding "admin-anna/default" of ClusterRole "admin" to User "anna""#
    );
    roles.delete("widgets-edit", &DeleteParams::default()).await.unwrap();
    soon(may(false)).await;
    served.cluster.stop().await;
}

#[tokio::test]
async fn impersonation_requires_permission_and_changes_the_user() {
    let served = serve().await;
    let admin = served.cluster.client();
    let remote = served.remote().await;
    bind(&admin, "default", "view", user("anna")).await;
    let path = "/api/v1/namespaces/default/configmaps";
    let as_anna = [("Impersonate-User", "anna")];
    request(&remote, path, &as_anna).await.unwrap();
    assert_eq!(refused(request(&remote, "/api/v1/namespaces/default/secrets", &as_anna).await).0, 403);
    let as_robot = [("Impersonate-User", "system:serviceaccount:default:robot")];
    let (_, message) = refused(request(&remote, path, &as_robot).await);
    assert!(message.contains("User \"system:serviceaccount:default:robot\" cannot list"), "{message}");
    let anna = with_token(&served, &let_in(&served, "anna", &[])).await;
    let (code, message) = refused(request(&anna, path, &[("Impersonate-User", "kubernetes-admin")]).await);
    assert_eq!(code, 403);
    assert!(
        message.contains(
            r#"User "anna" cannot impersonate resource "users" in API group "" at the cluster scope"#
        )
    );
    served.cluster.stop().await;
}

#[tokio::test]
async fn only_client_certificates_of_the_cluster_authenticate() {
    let served = serve().await;
    let pki = served.state.path().join("cluster").join("pki");
    let client_with = async |certificate: &str, key: &str| {
        use base64::Engine as _;
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let credential = AuthInfo {
            client_certificate_data: Some(encode(certificate)),
            client_key_data: Some(encode(key).into()),
            ..AuthInfo::default()
        };
        client_of(kubeconfig_of(&served, credential)).await
    };
    let (certificate, key) = cluster::tls::sign_client(&pki, "carla", "team", 1).unwrap();
    let carla = whoami(&client_with(&certificate, &key).await).await;
    assert_eq!(carla["username"], "carla");
    assert_eq!(carla["groups"], json!(["team", "system:authenticated"]));
    assert!(
        carla["extra"]["authentication.kubernetes.io/credential-id"][0]
            .as_str()
            .unwrap()
            .starts_with("X509SHA256=")
    );
    // Certificates of another CA and expired ones are rejected.
    let other = serve().await;
    let foreign =
        cluster::tls::sign_client(&other.state.path().join("cluster/pki"), "carla", "system:masters", 1)
            .unwrap();
    let expired = cluster::tls::sign_client(&pki, "carla", "", 0).unwrap();
    for (certificate, key) in [foreign, expired] {
        let client = client_with(&certificate, &key).await;
        let result = Api::<Pod>::namespaced(client, "default").list(&ListParams::default()).await;
        // A certificate that expires right now may still pass the handshake, but no further.
        let is_refused = match &result {
            Ok(_) => false,
            Err(kube::Error::Api(status)) => status.code == 401,
            Err(_) => true,
        };
        assert!(is_refused, "{result:?}");
    }
    other.cluster.stop().await;
    served.cluster.stop().await;
}

#[tokio::test]
async fn a_self_subject_review_returns_the_user() {
    let served = serve().await;
    let admin = whoami(&served.remote().await).await;
    assert_eq!(
        admin,
        json!({"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]})
    );
    let anna = whoami(&with_token(&served, &let_in(&served, "anna", &["team"])).await).await;
    assert_eq!(
        (&anna["username"], &anna["groups"]),
        (&json!("anna"), &json!(["team", "system:authenticated"]))
    );
    assert!(!anna["uid"].as_str().unwrap().is_empty());
    served.cluster.stop().await;
}

#[tokio::test]
async fn access_reviews_answer_for_other_users_and_reject_incomplete_questions() {
    let served = serve().await;
    let admin = served.cluster.client();
    bind(&admin, "default", "view", user("anna")).await;
    let review = async |kind: &str, path: &str, spec: Value| {
        let body = json!({"kind": kind, "apiVersion": "authorization.k8s.io/v1", "spec": spec});
        let request = Request::post(format!("/apis/authorization.k8s.io/v1/{path}"))
            .header("content-type", "application/json");
        admin.request::<Value>(request.body(body.to_string().into()).unwrap()).await
    };
    let asked = json!({"verb": "list", "resource": "pods", "namespace": "default"});
    let spec = json!({"user": "anna", "resourceAttributes": asked});
    let access = review("SubjectAccessReview", "subjectaccessreviews", spec.clone()).await.unwrap();
    assert_eq!(access["status"]["allowed"], true);
    let local = "namespaces/default/localsubjectaccessreviews";
    assert_eq!(
        review("LocalSubjectAccessReview", local, spec.clone()).await.unwrap()["status"]["allowed"],
        true
    );
    let elsewhere = "namespaces/kube-system/localsubjectaccessreviews";
    assert_eq!(refused(review("LocalSubjectAccessReview", elsewhere, spec).await).0, 422);
    for spec in [
        json!({"user": "anna"}),
        json!({"resourceAttributes": asked}),
        json!({"user": "anna", "resourceAttributes": asked, "nonResourceAttributes": {"verb": "get", "path": "/"}}),
    ] {
        assert_eq!(
            refused(review("SubjectAccessReview", "subjectaccessreviews", spec.clone()).await).0,
            422,
            "{spec}"
        );
    }
    let anna = with_token(&served, &let_in(&served, "anna", &[])).await;
    let body = json!({"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "spec": {"namespace": "default"}});
    let request = Request::post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews")
        .header("content-type", "application/json");
    let rules = anna.request::<Value>(request.body(body.to_string().into()).unwrap()).await.unwrap();
    let resources: BTreeMap<&str, &Value> = rules["status"]["resourceRules"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|rule| {
            rule["resources"]
                .as_array()
                .unwrap()
                .iter()
                .map(move |name| (name.as_str().unwrap(), &rule["verbs"]))
        })
        .collect();
    assert_eq!(resources["pods"], &json!(["get", "list", "watch"]));
    assert!(!resources.contains_key("secrets"));
    served.cluster.stop().await;
}
