//! An API server with the definition of MPIJob and a namespace, and clients of it that do not hear everything.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use cluster::apiserver::auth::{Identities, UserInfo};
use cluster::apiserver::{ApiServer, Endpoint};
use cluster::store::{DEFAULT_WINDOW, Store, Volatile};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::Request;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use kube::client::Body;
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Client, ResourceExt};
use serde_json::json;
use tower::Service;

/// The namespace.
pub const TEAM: &str = "team";
/// The longest wait of a test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The API of a new server.
pub async fn endpoint() -> Endpoint {
    let store = Arc::new(Store::new(DEFAULT_WINDOW, Box::new(Volatile)));
    let server = Arc::new(ApiServer::new(store, Identities::new("token")));
    let endpoint = Endpoint::trusted(server, UserInfo::admin());
    let client = Client::new(endpoint.clone(), TEAM);
    let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": TEAM } })).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(client);
    let crd = crds.create(&PostParams::default(), &api::mpijob_crd()).await.unwrap();
    let name = crd.name_any();
    let served = await_condition(crds, &name, is_crd_established());
    tokio::time::timeout(PATIENCE, served).await.unwrap().unwrap();
    endpoint
}

/// The API to a client whose watches of pods are never answered.
#[derive(Clone)]
pub struct WithoutPodWatches(pub Endpoint);

impl Service<Request<Body>> for WithoutPodWatches {
    type Response = <Endpoint as Service<Request<Body>>>::Response;
    type Error = <Endpoint as Service<Request<Body>>>::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.split('&').any(|part| part == "watch=true" || part == "watch=1");
        if is_watch && request.uri().path().ends_with("/pods") {
            return std::future::pending().boxed();
        }
        let mut endpoint = self.0.clone();
        async move { endpoint.call(request).await }.boxed()
    }
}
