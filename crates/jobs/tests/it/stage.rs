//! An API server for each test, whose lists come in short pages, as a server may choose.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use cluster::apiserver::auth::{Identities, UserInfo};
use cluster::apiserver::{ApiServer, Endpoint};
use cluster::store::{DEFAULT_WINDOW, Store, Volatile};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Uri};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::Body;
use serde_json::{Value, json};
use tower::Service;

/// The namespace of a test.
pub const TEAM: &str = "team";
/// The number of objects in a page, whatever the request's limit.
const PAGE: u32 = 2;

/// An API with short pages that records the requests to it.
#[derive(Clone)]
struct Short {
    inner: Endpoint,
    lists: Arc<Mutex<Vec<String>>>,
}

impl Service<Request<Body>> for Short {
    type Response = <Endpoint as Service<Request<Body>>>::Response;
    type Error = <Endpoint as Service<Request<Body>>>::Error;
    type Future = <Endpoint as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<Body>>::poll_ready(&mut self.inner, context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let uri = request.uri().clone();
        if let Some(query) = uri.query().filter(|query| query.contains("limit=")) {
            self.lists.lock().unwrap().push(uri.to_string());
            *request.uri_mut() = shorter(uri.path(), query);
        }
        self.inner.call(request)
    }
}

fn shorter(path: &str, query: &str) -> Uri {
    let parts = query.split('&').map(|part| match part.split_once('=') {
        Some(("limit", _)) => format!("limit={PAGE}"),
        _ => part.to_owned(),
    });
    format!("{path}?{}", parts.collect::<Vec<_>>().join("&")).parse().unwrap()
}

/// An API whose watches of pods are never answered.
#[derive(Clone)]
struct WithoutPodWatches(Endpoint);

impl Service<Request<Body>> for WithoutPodWatches {
    type Response = <Endpoint as Service<Request<Body>>>::Response;
    type Error = <Endpoint as Service<Request<Body>>>::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        if request.uri().path().ends_with("/pods") && query.split('&').any(|part| part == "watch=true") {
            return std::future::pending().boxed();
        }
        let mut endpoint = self.0.clone();
        async move { endpoint.call(request).await }.boxed()
    }
}

/// An API server with one namespace.
pub struct Stage {
    pub client: Client,
    endpoint: Endpoint,
    lists: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    pub async fn new() -> Self {
        let store = Arc::new(Store::new(DEFAULT_WINDOW, Box::new(Volatile)));
        let server = Arc::new(ApiServer::new(store, Identities::new("token")));
        let lists = Arc::new(Mutex::new(Vec::new()));
        let endpoint = Endpoint::trusted(server, UserInfo::admin());
        let short = Short { inner: endpoint.clone(), lists: lists.clone() };
        let stage = Self { client: Client::new(short, TEAM), endpoint, lists };
        stage.create("v1", "Namespace", "namespaces", json!({ "metadata": { "name": TEAM } })).await;
        stage
    }

    /// A client that learns of pods only when it lists them.
    pub fn client_without_pod_watches(&self) -> Client {
        Client::new(WithoutPodWatches(self.endpoint.clone()), TEAM)
    }

    /// Installs the CRD of MPIJob; it is served at once.
    pub async fn define_mpijob(&self) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        crds.create(&PostParams::default(), &api::mpijob_crd()).await.unwrap();
    }

    /// The recorded list requests for this path, including further pages.
    pub fn lists_of(&self, path: &str) -> Vec<String> {
        let of_path = |list: &&String| list.starts_with(&format!("{path}?"));
        self.lists.lock().unwrap().iter().filter(of_path).cloned().collect()
    }

    /// Installs the CRD of a kind; it is served at once.
    pub async fn define(&self, version: &str, kind: &str, plural: &str, scope: &str) {
        let (group, version) = version.split_once('/').unwrap();
        let definition = json!({ "metadata": { "name": format!("{plural}.{group}") }, "spec": {
            "group": group, "scope": scope, "names": { "kind": kind, "plural": plural },
            "versions": [{ "name": version, "served": true, "storage": true, "subresources": { "status": {} }, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } });
        let (version, plural) = ("apiextensions.k8s.io/v1", "customresourcedefinitions");
        self.create(version, "CustomResourceDefinition", plural, definition).await;
    }

    /// Creates an object, with its status.
    pub async fn create(&self, version: &str, kind: &str, plural: &str, object: Value) -> DynamicObject {
        let (group, number) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource {
            group: group.to_owned(),
            version: number.to_owned(),
            api_version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let mut whole = object.clone();
        (whole["apiVersion"], whole["kind"]) = (json!(version), json!(kind));
        let status = whole.as_object_mut().unwrap().remove("status");
        let whole: DynamicObject = serde_json::from_value(whole).unwrap();
        let made = api.create(&PostParams::default(), &whole).await.unwrap();
        let Some(status) = status else { return made };
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(made.metadata.name.as_deref().unwrap(), &PatchParams::default(), &patch)
            .await
            .unwrap()
    }
}
