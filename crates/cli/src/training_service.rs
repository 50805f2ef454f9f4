//! Finds the training service of the selected cluster and asks it over REST, as the user of the kubeconfig.
//!
//! The rule is that of the Python SDK: `ODH_TRAINING_URL` (with `ODH_TRAINING_TOKEN` and `ODH_TRAINING_CA`), else the extension
//! of the kubeconfig's cluster, else the service's Route on OpenShift, else the service of the pod's own cluster. A token is only
//! for the address that the same place names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Limited};
use jobs::Class;
use kube::api::{Api, DynamicObject};
use kube::client::Body;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde_json::Value;

use crate::connect::{self, Origin, Selected, connect};
use crate::console::Console;
use crate::failure::Failure;
use crate::global::Global;

/// The extension of a kubeconfig's cluster that says where its training service is.
pub const EXTENSION: &str = "training.opendatahub.io/service";
/// The namespace and the name of the service in a cluster (`deploy/service`).
const NAMESPACE: &str = "mpi-operator";
const NAME: &str = "odh-training";
/// What a pod has of its cluster.
const IN_POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How often a request is sent while the service asks to send it again, and the longest pause that it may ask for.
const MOST_TRIES: u32 = 4;
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The maximum size of an answer; the service's own bound on an export is smaller.
const MOST_BYTES: usize = 64 << 20;

/// The training service, as a user.
pub struct TrainingService {
    client: Client,
    url: String,
    /// The namespace to use by default.
    pub namespace: String,
}

/// Finds the service.
pub async fn find(console: &Console, global: &Global) -> Result<TrainingService, Failure> {
    if global.act_as.is_some() {
        return Err(Failure::usage(
            "the training service does not act for another user",
            "leave out --as, or use a kubeconfig of that user",
        ));
    }
    let connection = connect(console, global).await?;
    let place = match place_of_environment()? {
        Some(place) => place,
        None => match connect::origin(global)? {
            Origin::Kubeconfig(selected) => of_kubeconfig(&selected, &connection.client).await?,
            Origin::Pod(_) => of_pod(),
        },
    };
    check_address(&place.url)?;
    let mut config = place.config().await?;
    // The answer says when to try again, which may be long after what a person waits for in silence.
    config.default_retry = false;
    let client = client::connect(config).map_err(|error| connect::no_client(&error))?;
    Ok(TrainingService { client, url: place.url, namespace: connection.namespace })
}

/// An address, and who asks there.
struct Place {
    url: String,
    authority: Option<PathBuf>,
    user: AuthInfo,
    /// What it is called in messages.
    name: String,
}

impl Place {
    async fn config(&self) -> Result<Config, Failure> {
        let named = "service".to_owned();
        let authority = self.authority.as_ref().map(|file| file.display().to_string());
        let cluster = Cluster {
            server: Some(self.url.clone()),
            certificate_authority: authority,
            ..Cluster::default()
        };
        let context = Context { cluster: named.clone(), user: Some(named.clone()), ..Context::default() };
        let cluster = NamedCluster { name: named.clone(), cluster: Some(cluster), ..NamedCluster::default() };
        let user = NamedAuthInfo {
            name: named.clone(),
            auth_info: Some(self.user.clone()),
            ..NamedAuthInfo::default()
        };
        let context = NamedContext { name: named.clone(), context: Some(context), ..NamedContext::default() };
        let kubeconfig = Kubeconfig {
            clusters: vec![cluster],
            auth_infos: vec![user],
            contexts: vec![context],
            current_context: Some(named),
            ..Kubeconfig::default()
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        config.map_err(|error| connect::unreadable(&self.name, &error))
    }
}

/// Refuses an address that is not a service's, or would send the token without TLS to another machine.
fn check_address(url: &str) -> Result<(), Failure> {
    let address = url.parse::<Uri>().ok();
    let parts = address.as_ref().and_then(|address| Some((address.scheme_str()?, address.host()?)));
    match parts {
        Some(("https", _) | ("http", "localhost" | "127.0.0.1" | "[::1]")) => Ok(()),
        Some(("http", _)) => Err(Failure::usage(
            format!("{url} would send the token without TLS"),
            "write https://; http:// is only for a service on this machine",
        )),
        _ => Err(Failure::usage(
            format!("{url:?} is not the address of a training service"),
            "write https://HOST[:PORT]",
        )),
    }
}

fn place_of_environment() -> Result<Option<Place>, Failure> {
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
    let Some(url) = variable("ODH_TRAINING_URL") else { return Ok(None) };
    let Some(token) = variable("ODH_TRAINING_TOKEN") else {
        return Err(Failure::usage(
            "ODH_TRAINING_URL is set without ODH_TRAINING_TOKEN",
            "set both: the token of a kubeconfig is only for the service that the kubeconfig names",
        ));
    };
    let user = AuthInfo { token: Some(token.trim().to_owned().into()), ..AuthInfo::default() };
    let authority = variable("ODH_TRAINING_CA").map(PathBuf::from);
    Ok(Some(Place { url, authority, user, name: "ODH_TRAINING_URL".to_owned() }))
}

async fn of_kubeconfig(selected: &Selected, client: &Client) -> Result<Place, Failure> {
    let Selected { kubeconfig, options, name, .. } = selected;
    let context = options.context.as_ref().or(kubeconfig.current_context.as_ref());
    let context = kubeconfig.contexts.iter().find(|known| Some(&known.name) == context);
    let context = context.and_then(|known| known.context.as_ref());
    let cluster = kubeconfig.clusters.iter().find(|known| context.is_some_and(|of| of.cluster == known.name));
    let user = context.and_then(|context| context.user.as_ref());
    let user = kubeconfig.auth_infos.iter().find(|known| Some(&known.name) == user);
    let user = user.and_then(|known| known.auth_info.clone()).unwrap_or_default();
    let extensions = cluster.and_then(|known| known.cluster.as_ref()?.extensions.as_ref());
    let entry = extensions.and_then(|all| all.iter().find(|extension| extension.name == EXTENSION));
    let text = |field: &str| Some(entry?.extension.get(field)?.as_str()?.to_owned());
    if let Some(url) = text("url") {
        let authority = text("certificateAuthority").map(PathBuf::from);
        return Ok(Place { url, authority, user, name: name.clone() });
    }
    match route(client).await {
        Some(host) => {
            Ok(Place { url: format!("https://{host}"), authority: None, user, name: name.clone() })
        }
        None => Err(Failure::new(
            Class::NotFound,
            "NoTrainingService",
            format!("{name} names no training service, and the cluster has no Route {NAMESPACE}/{NAME}"),
        )
        .with_hint("set ODH_TRAINING_URL, ODH_TRAINING_TOKEN and ODH_TRAINING_CA, or ask an administrator for the address")),
    }
}

/// Asks an OpenShift cluster for the host of the service's Route.
async fn route(client: &Client) -> Option<String> {
    let kind = GroupVersionKind::gvk("route.openshift.io", "v1", "Route");
    let routes: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), NAMESPACE, &ApiResource::from_gvk(&kind));
    let found = routes.get_opt(NAME).await.ok().flatten()?;
    found.data.pointer("/spec/host").and_then(Value::as_str).map(str::to_owned)
}

fn of_pod() -> Place {
    let folder = Path::new(IN_POD);
    // OpenShift puts the authority of services' certificates beside that of the API server.
    let authority =
        ["service-ca.crt", "ca.crt"].map(|file| folder.join(file)).into_iter().find(|file| file.exists());
    let token = folder.join("token").display().to_string();
    let user = AuthInfo { token_file: Some(token), ..AuthInfo::default() };
    Place { url: format!("https://{NAME}.{NAMESPACE}.svc"), authority, user, name: "this pod".to_owned() }
}

impl TrainingService {
    /// Sends a request without a body; returns the answer, which is JSON.
    pub async fn get(&self, path: &str, query: &[(&str, String)]) -> Result<Value, Failure> {
        read(&self.text(Method::GET, &with_query(path, query), None).await?)
    }

    /// As [`TrainingService::get`], but returns the answer as it came.
    pub async fn get_text(&self, path: &str, query: &[(&str, String)]) -> Result<String, Failure> {
        self.text(Method::GET, &with_query(path, query), None).await
    }

    /// Sends a request that changes something; returns the answer.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        read(&self.text(method, path, body).await?)
    }

    async fn text(&self, method: Method, path: &str, body: Option<&Value>) -> Result<String, Failure> {
        let mut tries = 0;
        loop {
            let sent = self.once(method.clone(), path, body).await?;
            let status = sent.status().as_u16();
            let after = sent.headers().get("retry-after").and_then(|value| value.to_str().ok());
            tries += 1;
            if let Some(pause) = pause(status, after).filter(|_| tries < MOST_TRIES) {
                tokio::time::sleep(pause).await;
                continue;
            }
            let body = Limited::new(sent.into_body(), MOST_BYTES).collect().await;
            let bytes = body.map_err(|error| self.unreachable(&*error))?.to_bytes();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            return if (200..300).contains(&status) { Ok(text) } else { Err(problem(status, &text)) };
        }
    }

    async fn once(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<http::Response<Body>, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", "application/json, text/csv")
            .header("user-agent", concat!("odh/", env!("CARGO_PKG_VERSION")))
            .header("content-type", "application/json")
            .body(Body::from(body.map(|body| body.to_string().into_bytes()).unwrap_or_default()));
        let request = request.map_err(|error| Failure::usage(error.to_string(), "check the names"))?;
        self.client.send(request).await.map_err(|error| self.unreachable(&error))
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> Failure {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        Failure::new(
            Class::Error,
            "Unreachable",
            format!("cannot reach the training service at {}: {text}", self.url),
        )
        .with_hint(unreachable_hint(&self.url))
    }
}

fn unreachable_hint(url: &str) -> &'static str {
    let address = url.parse::<Uri>().ok();
    match address.as_ref().and_then(Uri::host) {
        Some("localhost" | "127.0.0.1" | "[::1]") => {
            "if it is that of the local cluster, start it with: odh local up; a certificate that is not trusted needs ODH_TRAINING_CA"
        }
        _ => "check the address and the network; a certificate that is not trusted needs ODH_TRAINING_CA",
    }
}

/// How long to wait before the same request is sent again; `None` if it is not: only what was not done is, and only if it is
/// possible again in a moment.
fn pause(status: u16, retry_after: Option<&str>) -> Option<Duration> {
    let after = Duration::from_secs(retry_after?.parse().ok()?);
    (matches!(status, 429 | 503) && after <= LONGEST_PAUSE).then_some(after)
}

fn with_query(path: &str, query: &[(&str, String)]) -> String {
    let pairs = query.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = pairs.map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// Writes a value so that it can be a part of a path or of a query (RFC 3986, unreserved characters).
pub fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte))
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

fn read(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::new(
            Class::Error,
            "NotTheService",
            format!("the answer is not the training service's: {error}"),
        )
        .with_hint("check the address of the training service")
    })
}

/// The failure of a problem document (RFC 9457), as the service sends it.
fn problem(status: u16, text: &str) -> Failure {
    let problem: Value = serde_json::from_str(text).unwrap_or_default();
    let of = |field: &str| problem.get(field).and_then(Value::as_str).unwrap_or_default();
    let class = match (status, of("code")) {
        (_, "QuotaExceeded") => Class::Quota,
        (400 | 422, _) => Class::Invalid,
        (401 | 403, _) => Class::NotAllowed,
        (404, _) => Class::NotFound,
        (409, _) => Class::Conflict,
        _ => Class::Error,
    };
    let reason = if of("reason").is_empty() { "TrainingService" } else { of("reason") };
    let mut message = of("detail").to_owned();
    if message.is_empty() {
        message = format!("the training service answered {status}");
    }
    let fields = problem.get("fields").and_then(Value::as_array).into_iter().flatten();
    for field in fields {
        let of = |name: &str| field.get(name).and_then(Value::as_str).unwrap_or_default();
        let line = format!("{} {}", of("path"), of("fault"));
        if !message.contains(of("fault")) {
            message = format!("{message}; {}", line.trim());
        }
    }
    let failure = Failure::new(class, reason, message);
    match of("hint") {
        "" => failure,
        hint => failure.with_hint(hint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_short_pause_is_waited_for() {
        let pauses = [(503, Some("1")), (429, Some("2")), (503, Some("30")), (503, None), (500, Some("1"))];
        let waited: Vec<Option<u64>> =
            pauses.map(|(status, after)| pause(status, after).map(|pause| pause.as_secs())).to_vec();
        assert_eq!(waited, [Some(1), Some(2), None, None, None]);
    }

    #[test]
    fn a_token_is_not_sent_without_tls_to_another_machine() {
        for url in
            ["https://training.example", "http://127.0.0.1:8080", "http://localhost", "http://[::1]:80/"]
        {
            assert!(check_address(url).is_ok(), "{url}");
        }
        let refusal = |url: &str| check_address(url).unwrap_err().message;
        for url in ["http://training.example", "HTTP://10.0.0.1:80", "http://localhost@training.example/"] {
            assert_eq!(refusal(url), format!("{url} would send the token without TLS"));
        }
        for url in ["training.example", "ftp://127.0.0.1", "http://", "https:///path"] {
            assert!(refusal(url).contains("is not the address of a training service"), "{url}");
        }
    }

    #[test]
    fn a_service_on_this_machine_that_is_away_is_started_with_the_local_cluster() {
        for url in ["https://127.0.0.1:8443", "http://localhost", "https://[::1]:1/"] {
            assert!(unreachable_hint(url).contains("odh local up"), "{url}");
        }
        assert!(!unreachable_hint("https://training.example").contains("odh local up"));
    }

    #[test]
    fn values_of_a_query_are_escaped_and_empty_ones_left_out() {
        let query = [("who", "a b&c".to_owned()), ("since", String::new()), ("by", "ä".to_owned())];
        assert_eq!(with_query("/api/v1/usage", &query), "/api/v1/usage?who=a%20b%26c&by=%C3%A4");
        assert_eq!(with_query("/api/v1/usage", &[]), "/api/v1/usage");
    }

    #[test]
    fn a_problem_is_a_failure_with_its_class_reason_and_hint() {
        let text = r#"{"code":"Forbidden","reason":"Forbidden","detail":"jane may not","hint":"ask"}"#;
        let failure = problem(403, text);
        assert_eq!((failure.class, &*failure.reason), (Class::NotAllowed, "Forbidden"));
        assert_eq!((failure.message.as_str(), failure.hint().as_deref()), ("jane may not", Some("ask")));
        let unknown = problem(502, "<html>");
        assert_eq!(
            (unknown.class, unknown.message.as_str()),
            (Class::Error, "the training service answered 502")
        );
    }
}
