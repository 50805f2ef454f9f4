//! The endpoint at which programs report their progress: Trainer's status server (`kubeflow/trainer`,
//! `pkg/statusserver`), with its path, limits, answers and field manager; and the same for MPIJobs, with their path.
//!
//! A caller shows its pod's token, whose audience names the job. Upstream accepts any such token of the namespace; here
//! the pod must be one of the job's. Every replica answers, whether it leads or not.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use api::{LABEL_JOB_NAME, LABEL_TRAINJOB, MPIJob, TrainJob, TrainerStatus};
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PartialObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use plan::{ProgressEndpoint, ReportingKind, progress_audience, progress_path};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::certificates::{Error, Kept, Shown};
use crate::decisions::{Decisions, digest, peer_of};
use crate::owned::is_controlled_by;
use crate::serve::{Answer, bearer, serve, with_type};

/// The owner of `status.trainerStatus` in server-side apply.
const FIELD_MANAGER: &str = "trainer-status";
/// The most bytes of a report.
const LONGEST_REPORT: usize = 1 << 16;
/// The most cached decisions of each kind: one for each token, of which a pod has one an hour.
const MOST_DECISIONS: usize = 4096;
/// The most reviews of tokens from one address a minute. All pods of a node may have one address.
const MOST_REVIEWS: u32 = 120;
/// Where a review has the pod that a token is bound to.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// Where programs report, and the certificate that they see there.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The address without a path.
    pub url: String,
    /// The certificate.
    pub certificate: Arc<Shown>,
}

impl Progress {
    /// Returns what jobs are made with now: the authorities change when the certificate is renewed.
    pub(crate) fn endpoint(&self) -> ProgressEndpoint {
        ProgressEndpoint { url: self.url.clone(), authorities: self.certificate.authorities() }
    }
}

/// Answers reports at a listener until `stop`, with a certificate of its own for this address: for the embedded cluster.
///
/// # Errors
/// If there is no certificate.
pub fn serve_at(
    (listener, address): (TcpListener, SocketAddr),
    client: Client,
    stop: CancellationToken,
) -> Result<Progress, Error> {
    let certificate = Shown::new(&Kept::make(&[address.ip().to_string()], Timestamp::now())?)?;
    let (server, acceptor) = (Arc::new(ProgressServer::new(client)), certificate.acceptor()?);
    let answer = move |request| server.clone().answer(request);
    tokio::spawn(serve(listener, Some(acceptor), answer, stop));
    Ok(Progress { url: format!("https://{address}"), certificate })
}

/// Answers reports.
pub struct ProgressServer {
    client: Client,
    decisions: Decisions,
}

/// The job that a report is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub kind: ReportingKind,
    pub namespace: String,
    pub name: String,
}

/// Why a report was not accepted, as a Kubernetes `Status`.
struct Refusal {
    code: StatusCode,
    reason: &'static str,
    message: String,
}

impl Refusal {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into() }
    }

    fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "Train job not found")
    }

    fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "Internal error")
    }

    fn answer(self) -> Answer {
        let Self { code, reason, message } = self;
        // As Go writes it.
        let status = json!({ "metadata": {}, "status": "Failure", "message": message, "reason": reason,
            "code": code.as_u16() });
        with_type(code, "application/json", status.to_string().into_bytes())
    }
}

impl ProgressServer {
    /// Creates a server with this client, which must be allowed to create TokenReviews, to get pods, MPIJobs and Jobs, and
    /// to patch the status of MPIJobs and TrainJobs.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, decisions: Decisions::new(MOST_DECISIONS, MOST_REVIEWS) }
    }

    /// Answers one request.
    pub async fn answer<B>(self: Arc<Self>, request: Request<B>) -> Answer
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        match self.accept(request).await {
            Ok(accepted) => with_type(StatusCode::OK, "application/json", accepted.to_string().into_bytes()),
            Err(refusal) => refusal.answer(),
        }
    }

    /// Writes a report into the status of its job; returns it as it was understood.
    async fn accept<B>(&self, request: Request<B>) -> Result<Value, Refusal>
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let too_large =
            || Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", "Payload too large");
        if length(request.headers()).is_some_and(|length| length > LONGEST_REPORT) {
            return Err(too_large());
        }
        let Some(job) = target(&request) else {
            return Err(Refusal::new(StatusCode::NOT_FOUND, "NotFound", "Not found"));
        };
        let token = bearer(&request).unwrap_or_default().to_owned();
        self.check(&token, peer_of(&request), &job).await?;
        let body = Limited::new(request.into_body(), LONGEST_REPORT).collect().await;
        let report = read(&body.map_err(|_| too_large())?.to_bytes());
        let invalid = |_| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", "Invalid payload");
        match report.map_err(invalid)? {
            Some(status) => {
                self.write(&job, &status).await?;
                Ok(json!({ "trainerStatus": status }))
            }
            None => Ok(json!({})),
        }
    }

    /// Refuses a caller that is no pod of the job.
    async fn check(&self, token: &str, peer: IpAddr, job: &Target) -> Result<(), Refusal> {
        let (audience, now) = (progress_audience(job.kind, &job.namespace, &job.name), Instant::now());
        let key = digest(&[token, &audience]);
        let known = self.decisions.known(&key, peer, now).map_err(|error| {
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", error.to_string())
        })?;
        let allowed = match known {
            Some(allowed) => allowed,
            None => {
                let allowed = self.is_from_pod_of(job, token, audience).await.map_err(|error| {
                    tracing::warn!(%error, ?job, "cannot review the token of a report");
                    Refusal::internal()
                })?;
                // A job of this name may come.
                let allowed = allowed.ok_or_else(Refusal::not_found)?;
                self.decisions.keep(key, allowed, now);
                allowed
            }
        };
        if allowed { Ok(()) } else { Err(Refusal::new(StatusCode::FORBIDDEN, "Forbidden", "Forbidden")) }
    }

    /// Whether a token is that of a pod of the job; `None` if there is no such job.
    async fn is_from_pod_of(
        &self,
        job: &Target,
        token: &str,
        audience: String,
    ) -> Result<Option<bool>, kube::Error> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: Some(vec![audience.clone()]) };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let status = reviews.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        let is_valid = status.authenticated == Some(true)
            // A server that does not know audiences would accept every token.
            && status.audiences.is_some_and(|audiences| audiences.contains(&audience));
        let Some((name, uid)) =
            status.user.filter(|_| is_valid).and_then(|user| pod_of(&user, &job.namespace))
        else {
            return Ok(Some(false));
        };
        let pod = self.metadata::<Pod>(job, &name).await?;
        let Some(pod) = pod.filter(|pod| pod.uid().as_deref() == Some(uid.as_str())) else {
            return Ok(Some(false));
        };
        let label = match job.kind {
            ReportingKind::TrainJob => LABEL_TRAINJOB,
            ReportingKind::MpiJob => LABEL_JOB_NAME,
        };
        let is_labelled = pod.labels().get(label).map(String::as_str) == Some(job.name.as_str());
        if is_labelled { self.belongs_to(&pod, job).await } else { Ok(Some(false)) }
    }

    /// Whether a pod belongs to a job, or to a Job that does; `None` if there is no such job. Upstream's labels are not
    /// enough: users may set them on pods of their own. A user who may create pods in the namespace can name an owner, too, but can also mount the job's Secret.
    async fn belongs_to(
        &self,
        pod: &PartialObjectMeta<Pod>,
        job: &Target,
    ) -> Result<Option<bool>, kube::Error> {
        let owner = match job.kind {
            ReportingKind::TrainJob => {
                self.metadata::<TrainJob>(job, &job.name).await?.and_then(|found| found.uid())
            }
            ReportingKind::MpiJob => {
                self.metadata::<MPIJob>(job, &job.name).await?.and_then(|found| found.uid())
            }
        };
        let Some(owner) = owner else { return Ok(None) };
        let Some(controller) = pod.owner_references().iter().find(|owner| owner.controller == Some(true))
        else {
            return Ok(Some(false));
        };
        if controller.uid == owner {
            return Ok(Some(true));
        }
        let between = self.metadata::<Job>(job, &controller.name).await?;
        let is_own = between.is_some_and(|found| {
            found.uid().as_deref() == Some(controller.uid.as_str()) && is_controlled_by(&found, &owner)
        });
        Ok(Some(is_own))
    }

    async fn metadata<K>(&self, job: &Target, name: &str) -> Result<Option<PartialObjectMeta<K>>, kube::Error>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        Api::<K>::namespaced(self.client.clone(), &job.namespace).get_metadata_opt(name).await
    }

    async fn write(&self, job: &Target, status: &TrainerStatus) -> Result<(), Refusal> {
        match write(&self.client, job, status).await {
            Ok(()) => Ok(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => {
                Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", status.message.clone()))
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Err(Refusal::not_found()),
            Err(error) => {
                tracing::warn!(%error, ?job, "cannot write the progress of a job");
                Err(Refusal::internal())
            }
        }
    }
}

/// Writes what a job's program has reported into the job's status, in place of what it reported before.
///
/// # Errors
/// If the server refuses it or cannot be reached.
pub(crate) async fn write(client: &Client, job: &Target, status: &TrainerStatus) -> Result<(), kube::Error> {
    let Target { kind, namespace, name } = job;
    let (client, parameters) = (client.clone(), PatchParams::apply(FIELD_MANAGER).force());
    let patch = |version: &str, kind: &str| {
        let metadata = json!({ "name": name });
        Patch::Apply(json!({ "apiVersion": version, "kind": kind, "metadata": metadata,
            "status": { "trainerStatus": status } }))
    };
    match kind {
        ReportingKind::MpiJob => {
            let (jobs, patch) =
                (Api::<MPIJob>::namespaced(client, namespace), patch("kubeflow.org/v2beta1", "MPIJob"));
            jobs.patch_status(name, &parameters, &patch).await.map(drop)
        }
        ReportingKind::TrainJob => {
            let (jobs, patch) = (
                Api::<TrainJob>::namespaced(client, namespace),
                patch("trainer.kubeflow.org/v1alpha1", "TrainJob"),
            );
            jobs.patch_status(name, &parameters, &patch).await.map(drop)
        }
    }
}

/// The length that a request claims to have.
fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The job that a request is about.
fn target<B>(request: &Request<B>) -> Option<Target> {
    let path = request.uri().path();
    let (_, rest) = path.strip_prefix("/apis/")?.split_once("/namespaces/")?;
    let mut parts = rest.split('/');
    let (namespace, _, name) = (parts.next()?, parts.next()?, parts.next()?);
    let is_name =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
    if request.method() != Method::POST || !is_name(namespace) || !is_name(name) {
        return None;
    }
    let kind = ReportingKind::ALL.into_iter().find(|kind| progress_path(*kind, namespace, name) == path)?;
    Some(Target { kind, namespace: namespace.to_owned(), name: name.to_owned() })
}

/// A body, of which Go reads null as nothing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    trainer_status: Option<Map<String, Value>>,
}

/// Reads the report in a body; `None` if it says nothing.
fn read(body: &[u8]) -> Result<Option<TrainerStatus>, serde_json::Error> {
    let Report { trainer_status } = serde_json::from_slice(body)?;
    let Some(mut status) = trainer_status else { return Ok(None) };
    status.retain(|_, value| !value.is_null());
    serde_json::from_value(Value::Object(status)).map(Some)
}

/// The name and UID of the pod that a token is bound to, if its account is one of the namespace.
fn pod_of(user: &UserInfo, namespace: &str) -> Option<(String, String)> {
    let account = format!("system:serviceaccount:{namespace}:");
    user.username.as_deref().filter(|name| name.starts_with(&account))?;
    let extra = user.extra.as_ref()?;
    let one = |key: &str| extra.get(key)?.first().cloned();
    Some((one(POD_NAME)?, one(POD_UID)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_trainer_reads_it() {
        assert_eq!(read(b"{}").unwrap(), None);
        assert_eq!(read(br#"{"trainerStatus": null}"#).unwrap(), None);
        for wrong in [&b""[..], b"[]", br#"{"trainerStatus": 7}"#, br#"{"trainerStatus": {"metrics": 7}}"#] {
            assert!(read(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
        let body = br#"{"trainerStatus": {"progressPercentage": 40, "metrics": null, "unknown": 1}}"#;
        let status = TrainerStatus { progress_percentage: Some(40), ..TrainerStatus::default() };
        assert_eq!(read(body).unwrap(), Some(status));
    }

    #[test]
    fn only_the_path_of_a_jobs_status_is_answered() {
        let target =
            |method: &str, path: &str| target(&Request::builder().method(method).uri(path).body(()).unwrap());
        for kind in ReportingKind::ALL {
            let path = progress_path(kind, "team", "digits");
            let (namespace, name) = ("team".to_owned(), "digits".to_owned());
            assert_eq!(target("POST", &path), Some(Target { kind, namespace, name }));
            assert_eq!(target("GET", &path), None);
            assert_eq!(target("POST", &progress_path(kind, "team", "a%2Fb")), None);
            assert_eq!(target("POST", &progress_path(kind, "", "digits")), None);
        }
        for wrong in [
            "/",
            "/apis/trainer.kubeflow.org/v1alpha1/namespaces/a/b/trainjobs/c/status",
            "/apis/trainer.kubeflow.org/v1alpha1/namespaces/a/mpijobs/c/status",
            "/apis/kubeflow.org/v2beta1/namespaces/a/mpijobs/c",
        ] {
            assert_eq!(target("POST", wrong), None);
        }
    }
}
