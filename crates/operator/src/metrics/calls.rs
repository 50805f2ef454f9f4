//! Counts and times the requests to the API server: a layer around a client.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, Uri};
use kube::client::Body;
use tower::{BoxError, Service};

use super::Metrics;

/// A client whose requests are counted.
#[derive(Clone)]
pub(crate) struct Counted {
    /// The client that sends the requests.
    pub inner: kube::Client,
    /// The metrics that count them.
    pub metrics: Arc<Metrics>,
}

impl Service<Request<Body>> for Counted {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (inner, metrics) = (self.inner.clone(), self.metrics.clone());
        async move {
            let (verb, resource) = name_call(request.method(), request.uri());
            let since = Instant::now();
            let answer = inner.send(request).await;
            let code = match &answer {
                Ok(answer) => answer.status().as_str().to_owned(),
                Err(_) => "error".to_owned(),
            };
            metrics.request_ended(verb, resource, code, since.elapsed());
            answer.map_err(Into::into)
        }
        .boxed()
    }
}

/// Returns the verb and the resource of a request as RBAC names them
/// (`apiserver/pkg/endpoints/request/requestinfo.go`); a subresource follows a slash.
fn name_call(method: &Method, uri: &Uri) -> (&'static str, String) {
    let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    let rest = match parts.as_slice() {
        ["api", _version, rest @ ..] | ["apis", _, _version, rest @ ..] => rest,
        other => return (plain_verb(method), other.join("/")),
    };
    let rest = match rest {
        ["namespaces", _namespace, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    let (resource, named) = match rest {
        [] => (String::new(), false),
        [resource] => ((*resource).to_owned(), false),
        [resource, _name] => ((*resource).to_owned(), true),
        [resource, _name, subresource, ..] => (format!("{resource}/{subresource}"), true),
    };
    let watches = uri.query().is_some_and(|query| query.contains("watch=true") || query.contains("watch=1"));
    let verb = match (method.as_str(), named) {
        ("GET", _) if watches => "watch",
        ("GET", false) => "list",
        ("DELETE", false) => "deletecollection",
        _ => plain_verb(method),
    };
    (verb, resource)
}

fn plain_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "get",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_named_as_rbac_names_them() {
        let table = [
            ("GET", "/api/v1/pods?labelSelector=a&watch=true", ("watch", "pods")),
            ("GET", "/apis/batch/v1/namespaces/n/jobs?limit=500", ("list", "jobs")),
            ("GET", "/api/v1/namespaces/n/secrets/s", ("get", "secrets")),
            ("POST", "/api/v1/namespaces/n/pods", ("create", "pods")),
            (
                "PATCH",
                "/apis/kubeflow.org/v2beta1/namespaces/n/mpijobs/j/status",
                ("patch", "mpijobs/status"),
            ),
            ("PUT", "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", ("update", "leases")),
            ("DELETE", "/api/v1/namespaces/n/pods", ("deletecollection", "pods")),
            ("GET", "/api/v1/namespaces/n", ("get", "namespaces")),
            ("GET", "/api/v1/namespaces/n/pods/p/log?tailLines=1", ("get", "pods/log")),
            ("GET", "/version", ("get", "version")),
        ];
        for (method, uri, (verb, resource)) in table {
            let named = name_call(&method.parse().unwrap(), &uri.parse().unwrap());
            assert_eq!(named, (verb, resource.to_owned()), "{method} {uri}");
        }
    }
}
