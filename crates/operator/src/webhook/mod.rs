//! Admission: requests for MPIJobs are checked, completed, counted and logged before they are stored, by the same
//! rules that the operator applies to a stored job. The operator works without it, too: an invalid job is then
//! stored and says so in its status.
//!
//! `/default` fills in defaults; `/validate` refuses, warns, enforces the namespace's quota and writes the audit
//! line. See `docs/decisions/0005-check-jobs-at-admission.md` for when it fails open and when closed.

mod configurations;
mod decide;
mod quota;
mod review;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use kube::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use configurations::{WEBHOOK_NAME, WebhookAddress, configurations, put_in_place, trust};

use crate::certificates::{Kept, Shown};
use crate::serve::{Answer, serve, text, with_type};
use crate::vitals::Vitals;
use quota::{Quota, QuotaDecision};
use review::{Decision, Review};

/// The most bytes of a review: an object is bounded by 1.5 MiB in etcd, and an update has two.
const LONGEST_REVIEW: usize = 8 << 20;

/// Answers admission reviews.
pub struct Webhook {
    quota: Quota,
    vitals: Vitals,
    callers_are_proved: bool,
}

impl Webhook {
    /// Creates a webhook that uses `client` and keeps its quota records in `namespace`.
    #[must_use]
    pub fn new(client: Client, namespace: impl Into<String>, vitals: Vitals) -> Self {
        Self { quota: Quota::new(client, namespace.into()), vitals, callers_are_proved: false }
    }

    /// Marks callers as authenticated in the audit lines: only holders of the API server's certificate can call.
    #[must_use]
    pub fn of_proved_callers(self) -> Self {
        Self { callers_are_proved: true, ..self }
    }

    /// Answers one request.
    pub async fn answer<B>(self: Arc<Self>, request: Request<B>) -> Answer
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let validates = match head.uri.path() {
            "/validate" => true,
            "/default" => false,
            _ => return text(StatusCode::NOT_FOUND, "not found: use /validate or /default\n"),
        };
        if head.method != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only POST is allowed\n");
        }
        let body = match Limited::new(body, LONGEST_REVIEW).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return text(StatusCode::PAYLOAD_TOO_LARGE, format!("{error}\n")),
        };
        let review: Review = match serde_json::from_slice(&body) {
            Ok(review) => review,
            Err(error) => {
                return text(StatusCode::BAD_REQUEST, format!("not a review of an MPIJob: {error}\n"));
            }
        };
        let request = &review.request;
        let decision = if validates { self.validate(request).await } else { Ok(decide::default(request)) };
        match decision {
            Ok(decision) => {
                let body = decision.answer(&request.uid).to_string().into_bytes();
                with_type(StatusCode::OK, "application/json", body)
            }
            // The API server then applies the failure policy.
            Err(error) => {
                tracing::warn!(%error, "cannot answer an admission review");
                text(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot check the quota: {error}\n"))
            }
        }
    }

    async fn validate(&self, request: &review::Request) -> Result<Decision, kube::Error> {
        let mut decision = decide::validate(request);
        if decision.denial.is_none() && decide::takes_place(request) {
            let verdict = self.quota.take(&request.namespace, &request.name, request.dry_run).await?;
            if let QuotaDecision::Full { running, limit } = verdict {
                let message = format!("Quota exceeded: {running}/{limit} jobs running");
                decision = Decision::deny(403, "Forbidden", message);
            }
        }
        let verdict = if decision.denial.is_none() { "allowed" } else { "refused" };
        self.vitals.metrics.review_answered(&request.operation, verdict);
        write_down(request, &decision, self.callers_are_proved);
        Ok(decision)
    }
}

/// Answers reviews on loopback and configures the API server to send them there: for the embedded cluster, which
/// runs in this process. `installer` writes the configurations, as the installer of an operator does; `client` is
/// the operator's own and keeps quota records in `namespace`. If the authority of the API server's client
/// certificate is given, in PEM, no other caller is answered.
///
/// # Errors
/// If no port is free, no certificate can be made, or the API server refuses the configurations.
pub async fn on_loopback(
    installer: &Client,
    client: &Client,
    namespace: &str,
    callers: Option<&str>,
    (vitals, stop): (Vitals, CancellationToken),
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let address = WebhookAddress::Url(format!("https://{}", listener.local_addr()?));
    let kept = Kept::make(&[Ipv4Addr::LOCALHOST.to_string()], Timestamp::now())?;
    let (shown, webhook) = (Shown::new(&kept)?, Webhook::new(client.clone(), namespace, vitals));
    let (webhook, acceptor) = match callers {
        Some(authorities) => (webhook.of_proved_callers(), shown.acceptor_for(authorities)?),
        None => (webhook, shown.acceptor()?),
    };
    let webhook = Arc::new(webhook);
    let answer = move |request| webhook.clone().answer(request);
    tokio::spawn(serve(listener, Some(acceptor), answer, stop));
    put_in_place(installer, &address, &kept.authorities).await?;
    Ok(())
}

/// Writes the audit line: who did what to which job, through any channel. It contains neither the job's content nor
/// any credential. It records what the caller claims; `caller_authenticated` is whether the caller proved to be the
/// API server.
fn write_down(request: &review::Request, decision: &Decision, caller_authenticated: bool) {
    let job = request.object.as_ref().or(request.old_object.as_ref());
    let uid = job.and_then(|job| job.metadata.uid.as_deref()).unwrap_or_default();
    tracing::info!(
        target: "audit",
        operation = request.operation,
        namespace = request.namespace,
        job = request.name,
        uid,
        user = request.user_info.username,
        user_uid = request.user_info.uid,
        groups = request.user_info.groups.join(","),
        dry_run = request.dry_run,
        caller_authenticated,
        allowed = decision.denial.is_none(),
        refusal = decision.denial.as_ref().map(|denial| denial.message.as_str()),
        fields = decide::changed_fields(request).join(","),
        "admission"
    );
}
