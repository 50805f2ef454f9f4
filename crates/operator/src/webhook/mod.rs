//! Admission: requests for MPIJobs are checked, completed, counted and logged before they are stored, by the same
//! rules that the operator applies to a stored job. The operator works without it, too: an invalid job is then
//! stored and says so in its status.
//!
//! `/default` fills in defaults; `/validate` refuses, warns, enforces the namespace's quota and writes the audit
//! line. Three more paths do so for TrainJobs and their runtimes. See `docs/decisions/0005-check-jobs-at-admission.md` for when it fails open and when closed.

mod body;
mod configurations;
mod decide;
mod dry_run;
mod quota;
mod report;
mod review;
mod trainjobs;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use api::TrainJob;
use bytes::Bytes;
use connections::{Budget, Share};
use http::{Method, Request, StatusCode};
use jiff::Timestamp;
use kube::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use configurations::{DEFAULT_TRAINJOB, VALIDATE_RUNTIME, VALIDATE_TRAINJOB};
pub use configurations::{
    TRAINJOB_WEBHOOK_NAME, WEBHOOK_NAME, WebhookAddress, configurations, put_in_place,
    trainjob_configurations, trust,
};

use crate::certificates::{Kept, Shown};
use crate::serve::{Answer, Peer, serve, text, with_type};
use crate::vitals::Vitals;
use body::Refused;
use quota::{Quota, QuotaDecision};
pub use report::{Admission, Reporter, Sink, TrainingService, Unrecorded};
use review::Decision;
use serde::Serialize;
use trainjobs::Beside;

/// The accounts with which Kueue resumes jobs: that of its own manifests, and that of Red Hat's operator for OpenShift.
pub const KUEUE_ACCOUNTS: [&str; 2] = [
    "system:serviceaccount:kueue-system:kueue-controller-manager",
    "system:serviceaccount:openshift-kueue-operator:kueue-controller-manager",
];

/// Answers admission reviews.
pub struct Webhook {
    client: Client,
    beside: Beside,
    quota: Quota,
    vitals: Vitals,
    callers_are_proved: bool,
    reporter: Option<Reporter>,
    /// The users whose jobs may name another owner.
    trusted_creators: Vec<String>,
    /// The users who resume jobs although the namespace has no place.
    kueue_accounts: Vec<String>,
    /// The memory for reviews.
    memory: Arc<Budget>,
}

impl Webhook {
    /// Creates a webhook that uses `client` and keeps its quota records in `namespace`.
    #[must_use]
    pub fn new(client: Client, namespace: impl Into<String>, vitals: Vitals) -> Self {
        let quota = Quota::new(client.clone(), namespace.into());
        Self {
            client,
            beside: Beside::default(),
            quota,
            vitals,
            callers_are_proved: false,
            reporter: None,
            trusted_creators: Vec::new(),
            kueue_accounts: KUEUE_ACCOUNTS.map(str::to_owned).to_vec(),
            memory: Budget::new(body::MEMORY, body::MEMORY_OF_PEER),
        }
    }

    /// Lets these users create jobs on behalf of others: such a job keeps the owner that it names.
    #[must_use]
    pub fn trusting(self, trusted_creators: Vec<String>) -> Self {
        Self { trusted_creators, ..self }
    }

    /// Makes these the accounts of Kueue instead of [`KUEUE_ACCOUNTS`]: jobs that they resume are never refused for the
    /// namespace's quota.
    #[must_use]
    pub fn with_kueue_accounts(self, kueue_accounts: Vec<String>) -> Self {
        Self { kueue_accounts, ..self }
    }

    /// Marks callers as authenticated in the audit lines: only holders of the API server's certificate can call.
    #[must_use]
    pub fn of_proved_callers(self) -> Self {
        Self { callers_are_proved: true, ..self }
    }

    /// Reports what is written to an audit log.
    #[must_use]
    pub fn reporting_to(self, reporter: Option<Reporter>) -> Self {
        Self { reporter, ..self }
    }

    /// Answers one request.
    pub async fn answer<B>(self: Arc<Self>, request: Request<B>) -> Answer
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let Some(question) = Question::at(head.uri.path()) else {
            return text(StatusCode::NOT_FOUND, "not found: use /validate or /default\n");
        };
        if head.method != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only POST is allowed\n");
        }
        let peer = head.extensions.get::<Peer>().map(|Peer(address)| address.to_string());
        let share = Arc::new(self.memory.share(peer.unwrap_or_default()));
        let answered = body::unless_displaced(&share, async {
            match body::read(body, &share).await {
                Ok(body) => Ok(self.decide(question, body, &share).await),
                Err(Refused::TooMany(body)) if question != Question::ValidateRuntime => {
                    let refused = review::refuse_creation(body, &share).await;
                    refused.map(Ok).ok_or(Refused::TooLarge)
                }
                Err(refused) => Err(refused),
            }
        });
        let answered = match answered.await {
            Ok(answered) => answered,
            Err(refused) => return refused.answer(),
        };
        match answered {
            Ok((uid, decision)) => {
                let body = decision.answer(&uid).to_string().into_bytes();
                with_type(StatusCode::OK, "application/json", body)
            }
            Err(Unanswered::NotAReview(error)) => {
                text(StatusCode::BAD_REQUEST, format!("not a review of {}: {error}\n", question.of()))
            }
            // The API server then applies the failure policy.
            Err(Unanswered::Request(error)) => {
                tracing::warn!(%error, "cannot answer an admission review");
                let what = question.asks();
                text(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot check the {what}: {error}\n"))
            }
        }
    }

    /// Reads the review that a question is about, and decides. Returns the request's UID, too.
    async fn decide(
        &self,
        question: Question,
        body: Bytes,
        share: &Arc<Share>,
    ) -> Result<(String, Decision), Unanswered> {
        match question {
            Question::Default | Question::Validate => {
                let request = match review::read::<api::MPIJob>(body, share).await? {
                    Ok(request) => request,
                    Err(refused) => return Ok(refused),
                };
                let decision = match question {
                    Question::Validate => self.validate(&request).await?,
                    _ => decide::default(&request, &self.trusted_creators),
                };
                Ok((request.uid, decision))
            }
            Question::DefaultTrainJob | Question::ValidateTrainJob => {
                let request = match review::read::<TrainJob>(body, share).await? {
                    Ok(request) => request,
                    Err(refused) => return Ok(refused),
                };
                let decision = match question {
                    Question::ValidateTrainJob => self.validate_trainjob(&request).await?,
                    _ => trainjobs::default(&request, &self.trusted_creators, Timestamp::now()),
                };
                Ok((request.uid, decision))
            }
            Question::ValidateRuntime => {
                let request = match review::read::<trainjobs::AnyRuntime>(body, share).await? {
                    Ok(request) => request,
                    Err(refused) => return Ok(refused),
                };
                let decision = trainjobs::validate_runtime(&request);
                Ok((request.uid, decision))
            }
        }
    }

    async fn validate_trainjob(&self, request: &review::Request<TrainJob>) -> Result<Decision, kube::Error> {
        let decision = match decide::owner_change(request, &self.trusted_creators) {
            Some(denied) => denied,
            None => trainjobs::validate(&self.client, &self.beside, request).await?,
        };
        self.note(request, &decision);
        Ok(decision)
    }

    async fn validate(&self, request: &review::Request) -> Result<Decision, kube::Error> {
        let denied = decide::owner_change(request, &self.trusted_creators);
        let mut decision = denied.unwrap_or_else(|| decide::validate(request));
        if decision.denial.is_none() && decide::takes_place(request, &self.kueue_accounts) {
            let verdict = self.quota.take(&request.namespace, &request.name, request.dry_run).await?;
            if let QuotaDecision::Full { running, limit } = verdict {
                decision = decide::no_place(request, running, limit);
            }
        }
        if decision.denial.is_none() && request.dry_run && request.operation == "CREATE" {
            let refusals = dry_run::refusals(&self.client, request).await;
            if !refusals.is_empty() {
                let message = format!("Found validation errors: {}", refusals.join("; "));
                decision = Decision::deny(422, "Invalid", message);
            }
        }
        let verdict = if decision.denial.is_none() { "allowed" } else { "refused" };
        self.vitals.metrics.review_answered(&request.operation, verdict);
        self.note(request, &decision);
        Ok(decision)
    }

    /// Writes the audit line, and reports it unless nothing changes that a user can set.
    fn note<K>(&self, request: &review::Request<K>, decision: &Decision)
    where
        K: kube::Resource<DynamicType = ()> + Serialize,
    {
        let fields = decide::changed_fields(request);
        write_down(request, decision, &fields, self.callers_are_proved);
        let changes = request.operation != "UPDATE" || !fields.is_empty();
        if let Some(reporter) = self.reporter.as_ref().filter(|_| changes && !request.dry_run) {
            reporter.report(Admission::of(request, decision, &fields));
        }
    }
}

/// What a path asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Default,
    Validate,
    DefaultTrainJob,
    ValidateTrainJob,
    ValidateRuntime,
}

impl Question {
    fn at(path: &str) -> Option<Self> {
        Some(match path {
            "/default" => Self::Default,
            "/validate" => Self::Validate,
            DEFAULT_TRAINJOB => Self::DefaultTrainJob,
            VALIDATE_TRAINJOB => Self::ValidateTrainJob,
            VALIDATE_RUNTIME => Self::ValidateRuntime,
            _ => return None,
        })
    }

    /// The kind of object that it is about.
    fn of(self) -> &'static str {
        match self {
            Self::Default | Self::Validate => "an MPIJob",
            Self::DefaultTrainJob | Self::ValidateTrainJob => "a TrainJob",
            Self::ValidateRuntime => "a runtime",
        }
    }

    /// What is read to answer it.
    fn asks(self) -> &'static str {
        match self {
            Self::Default | Self::Validate => "quota",
            Self::DefaultTrainJob | Self::ValidateTrainJob | Self::ValidateRuntime => "runtime",
        }
    }
}

/// Why a review was not answered.
enum Unanswered {
    /// It is none.
    NotAReview(serde_json::Error),
    /// Something could not be read.
    Request(kube::Error),
}

impl From<serde_json::Error> for Unanswered {
    fn from(error: serde_json::Error) -> Self {
        Self::NotAReview(error)
    }
}

impl From<kube::Error> for Unanswered {
    fn from(error: kube::Error) -> Self {
        Self::Request(error)
    }
}

/// Answers reviews on loopback and configures the API server to send them there: for the embedded cluster, which
/// runs in this process. `installer` writes the configurations, as the installer of an operator does; `client` is
/// the operator's own and keeps quota records in `namespace`. What is written is reported to `reporter`. If the authority of the API server's client
/// certificate is given, in PEM, no other caller is answered. `trainjobs` is whether TrainJobs are sent there, too.
///
/// # Errors
/// If no port is free, no certificate can be made, or the API server refuses the configurations.
pub async fn on_loopback(
    installer: &Client,
    client: &Client,
    namespace: &str,
    callers: Option<&str>,
    trainjobs: bool,
    reporter: Option<Reporter>,
    (vitals, stop): (Vitals, CancellationToken),
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let address = WebhookAddress::Url(format!("https://{}", listener.local_addr()?));
    let kept = Kept::make(&[Ipv4Addr::LOCALHOST.to_string()], Timestamp::now())?;
    let (shown, webhook) = (Shown::new(&kept)?, Webhook::new(client.clone(), namespace, vitals));
    let webhook = webhook.reporting_to(reporter);
    let (webhook, acceptor) = match callers {
        Some(authorities) => (webhook.of_proved_callers(), shown.acceptor_for(authorities)?),
        None => (webhook, shown.acceptor()?),
    };
    let webhook = Arc::new(webhook);
    let answer = move |request| webhook.clone().answer(request);
    tokio::spawn(serve(listener, Some(acceptor), answer, stop));
    put_in_place(installer, &address, &kept.authorities, trainjobs).await?;
    Ok(())
}

/// Writes the audit line: who did what to which job, through any channel. It contains neither the job's content nor
/// any credential. It records what the caller claims; `caller_authenticated` is whether the caller proved to be the
/// API server.
fn write_down<K>(
    request: &review::Request<K>,
    decision: &Decision,
    fields: &[String],
    caller_authenticated: bool,
) where
    K: kube::Resource + Serialize,
{
    let job = request.object.as_ref().or(request.old_object.as_ref());
    let uid = job.and_then(|job| job.meta().uid.as_deref()).unwrap_or_default();
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
        fields = fields.join(","),
        "admission"
    );
}
