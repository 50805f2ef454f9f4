//! The persona matrix: three users × every verb × every served resource × two namespaces and the cluster,
//! each tested with a review and with a real request over TLS.
//!
//! The expectations are tables, copied from the definitions of roles in Kubernetes' documentation
//! ("User-facing roles"), and evaluated without any code of the cluster.

use futures::StreamExt as _;
use http::Request;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::access::{bind, let_in, make, namespace, user, with_token};
use crate::served::{Served, serve};

const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
const READ: [&str; 3] = ["get", "list", "watch"];
/// The number of concurrent requests.
const CONCURRENCY: usize = 8;

/// What `view` and `edit` may read in their namespace.
const VIEWED: [(&str, &[&str]); 10] = [
    (
        "",
        &[
            "bindings",
            "configmaps",
            "endpoints",
            "events",
            "limitranges",
            "namespaces",
            "namespaces/status",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "pods/log",
            "pods/status",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
            "serviceaccounts",
            "services",
            "services/status",
        ],
    ),
    (
        "apps",
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
    ),
    ("autoscaling", &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    ("batch", &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    ("discovery.k8s.io", &["endpointslices"]),
    ("events.k8s.io", &["events"]),
    ("metrics.k8s.io", &["nodes", "pods"]),
    ("networking.k8s.io", &["ingresses", "ingresses/status", "networkpolicies"]),
    ("policy", &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    ("resource.k8s.io", &["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"]),
];

/// What only `edit` may read.
const EDITOR_READS: [(&str, &[&str]); 2] = [
    ("", &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"]),
    ("coordination.k8s.io", &["leases"]),
];

/// What `edit` may write with every verb.
const EDITED: [(&str, &[&str]); 8] = [
    (
        "",
        &[
            "configmaps",
            "events",
            "persistentvolumeclaims",
            "pods",
            "pods/attach",
            "pods/exec",
            "pods/portforward",
            "pods/proxy",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
            "services/proxy",
        ],
    ),
    (
        "apps",
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
    ),
    ("autoscaling", &["horizontalpodautoscalers"]),
    ("batch", &["cronjobs", "jobs"]),
    ("coordination.k8s.io", &["leases"]),
    ("events.k8s.io", &["events"]),
    ("networking.k8s.io", &["ingresses", "networkpolicies"]),
    ("policy", &["poddisruptionbudgets"]),
];

/// What `edit` may only create.
const EDITOR_CREATES: [&str; 2] = ["pods/eviction", "serviceaccounts/token"];

/// What every authenticated user may create anywhere.
const ASKED_BY_ALL: [(&str, &str); 3] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Persona {
    ClusterAdmin,
    Editor,
    Viewer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Own,
    Other,
    Cluster,
}

impl Scope {
    fn namespace(self) -> &'static str {
        match self {
            Scope::Own => "own",
            Scope::Other => "other",
            Scope::Cluster => "",
        }
    }
}

/// A resource or subresource in discovery.
#[derive(Clone, Debug)]
struct Listed {
    group: String,
    version: String,
    name: String,
    namespaced: bool,
}

fn stands_in(table: &[(&str, &[&str])], resource: &Listed) -> bool {
    table.iter().any(|(group, names)| *group == resource.group && names.contains(&resource.name.as_str()))
}

fn expected(persona: Persona, verb: &str, resource: &Listed, place: Scope) -> bool {
    let key = (resource.group.as_str(), resource.name.as_str());
    if persona == Persona::ClusterAdmin || verb == "create" && ASKED_BY_ALL.contains(&key) {
        return true;
    }
    if place != Scope::Own {
        return false;
    }
    let reads = READ.contains(&verb) && stands_in(&VIEWED, resource);
    let is_editor = persona == Persona::Editor;
    let edits = if READ.contains(&verb) {
        stands_in(&EDITOR_READS, resource)
    } else {
        let creates = key.0.is_empty() && EDITOR_CREATES.contains(&key.1) && verb == "create";
        // `edit` may write these resources, but not others of the group that it may read.
        let claims =
            key.0 == "resource.k8s.io" && ["resourceclaims", "resourceclaimtemplates"].contains(&key.1);
        stands_in(&EDITED, resource) || creates || claims
    };
    reads || is_editor && edits
}

async fn get(client: &Client, path: &str) -> Value {
    client.request(Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
}

/// Returns everything in discovery.
async fn discovered(client: &Client) -> Vec<Listed> {
    let mut versions = vec![(String::new(), "v1".to_owned())];
    for group in get(client, "/apis").await["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            versions.push((text(&group["name"]), text(&version["version"])));
        }
    }
    let mut found = Vec::new();
    for (group, version) in versions {
        let path =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        for resource in get(client, &path).await["resources"].as_array().unwrap() {
            found.push(Listed {
                group: group.clone(),
                version: version.clone(),
                name: resource["name"].as_str().unwrap().to_owned(),
                namespaced: resource["namespaced"].as_bool().unwrap(),
            });
        }
    }
    found
}

/// Returns where a resource can be accessed: in a namespace, and across all of them; a Namespace is in
/// itself.
fn places(resource: &Listed) -> &'static [Scope] {
    let is_namespace = resource.group.is_empty() && resource.name.split('/').next() == Some("namespaces");
    if resource.namespaced || is_namespace {
        &[Scope::Own, Scope::Other, Scope::Cluster]
    } else {
        &[Scope::Cluster]
    }
}

/// Returns whether a review allows the action.
async fn reviewed(client: &Client, verb: &str, resource: &Listed, place: Scope) -> bool {
    let (name, subresource) = resource.name.split_once('/').unwrap_or((&resource.name, ""));
    let body = json!({"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": {"resourceAttributes": {
        "verb": verb, "group": resource.group, "version": resource.version, "resource": name, "subresource": subresource,
        "namespace": place.namespace()}}});
    let request = Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        .header("content-type", "application/json");
    let answer: Value = client.request(request.body(body.to_string().into()).unwrap()).await.unwrap();
    answer["status"]["allowed"].as_bool().unwrap()
}

/// Returns a real request; `None` if no path expresses it.
fn request(verb: &str, resource: &Listed, place: Scope) -> Option<Request<Vec<u8>>> {
    let (name, subresource) = resource.name.split_once('/').unwrap_or((&resource.name, ""));
    let is_namespace = resource.group.is_empty() && name == "namespaces";
    let of_all =
        matches!(verb, "list" | "watch" | "deletecollection") || verb == "create" && subresource.is_empty();
    // Subresources belong to a single object, single objects to their namespace, and a Namespace to itself.
    if of_all && (!subresource.is_empty() || is_namespace && place != Scope::Cluster)
        || !of_all && place == Scope::Cluster && (resource.namespaced || is_namespace)
        || of_all && verb == "create" && resource.namespaced && place == Scope::Cluster
    {
        return None;
    }
    let mut path =
        if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    path = format!("{path}/{}", resource.version);
    if place != Scope::Cluster && !is_namespace {
        path = format!("{path}/namespaces/{}", place.namespace());
    }
    path = format!("{path}/{name}");
    if !of_all {
        let object = if is_namespace { place.namespace() } else { "none" };
        path = format!("{path}/{object}");
    }
    if !subresource.is_empty() {
        path = format!("{path}/{subresource}");
    }
    let (method, query) = match verb {
        "get" | "list" => ("GET", ""),
        "watch" => ("GET", "?watch=1&timeoutSeconds=1"),
        "create" => ("POST", "?dryRun=All"),
        "update" => ("PUT", "?dryRun=All"),
        "patch" => ("PATCH", "?dryRun=All"),
        _ => ("DELETE", "?dryRun=All"),
    };
    let media = if verb == "patch" { "application/merge-patch+json" } else { "application/json" };
    // The options of a deletion come from its body or else from the query, so it has no body.
    let body = if matches!(method, "GET" | "DELETE") { Vec::new() } else { b"{}".to_vec() };
    Some(
        Request::builder()
            .method(method)
            .uri(format!("{path}{query}"))
            .header("content-type", media)
            .body(body)
            .unwrap(),
    )
}

/// Returns whether a real request passes authorization, whatever its result.
async fn got_past(client: &Client, request: Request<Vec<u8>>) -> bool {
    let (parts, body) = request.into_parts();
    let answer = client.send(Request::from_parts(parts, kube::client::Body::from(body))).await.unwrap();
    if answer.status() != 403 {
        // The events of a watch don't matter.
        return true;
    }
    let bytes = answer.into_body().collect_bytes().await.unwrap();
    let status: Value = serde_json::from_slice(&bytes).unwrap();
    !status["message"].as_str().unwrap().contains(" cannot ")
}

async fn personas(served: &Served) -> Vec<(Persona, Client)> {
    let admin = served.cluster.client();
    for name in ["own", "other"] {
        namespace(&admin, name).await;
    }
    bind(&admin, "own", "edit", user("editor")).await;
    bind(&admin, "own", "view", user("viewer")).await;
    let binding = json!({"metadata": {"name": "boss"}, "subjects": [user("boss")],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}});
    make(Api::<k8s_openapi::api::rbac::v1::ClusterRoleBinding>::all(admin), binding).await;
    let mut personas = Vec::new();
    for (persona, name) in
        [(Persona::ClusterAdmin, "boss"), (Persona::Editor, "editor"), (Persona::Viewer, "viewer")]
    {
        personas.push((persona, with_token(served, &let_in(served, name, &[])).await));
    }
    personas
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_persona_may_what_its_role_says_and_nothing_else() {
    let served = serve().await;
    let definition = serde_json::to_value(api::mpijob_crd()).unwrap();
    let definitions: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(served.cluster.client());
    definitions.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
    let personas = personas(&served).await;
    let resources = discovered(&served.cluster.client()).await;
    let mut cases = Vec::new();
    for (persona, client) in &personas {
        for resource in &resources {
            for place in places(resource) {
                cases.extend(VERBS.map(|verb| (*persona, client, resource, *place, verb)));
            }
        }
    }
    let outcomes = futures::stream::iter(&cases).map(|(persona, client, resource, place, verb)| async move {
        let wanted = expected(*persona, verb, resource, *place);
        let said = reviewed(client, verb, resource, *place).await;
        let done = match request(verb, resource, *place) {
            Some(request) => Some(got_past(client, request).await),
            None => None,
        };
        let is_right = said == wanted && done.is_none_or(|done| done == wanted);
        (
            done.is_some(),
            (!is_right).then(|| {
                format!(
                    "{persona:?} {verb} {}/{} {place:?}: wanted {wanted}, review {said}, request {done:?}",
                    resource.group, resource.name
                )
            }),
        )
    });
    let outcomes = outcomes.buffer_unordered(CONCURRENCY).collect::<Vec<_>>().await;
    let wrong = outcomes.iter().filter_map(|(_, fault)| fault.clone()).collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), outcomes.len(), wrong.join("\n"));
    let requests = outcomes.iter().filter(|(sent, _)| *sent).count();
    println!("{} reviews and {requests} requests about {} resources", outcomes.len(), resources.len());
    assert!(resources.len() > 50 && outcomes.len() > 3000 && requests > 1500, "discovery lists too little");
    served.cluster.stop().await;
}
