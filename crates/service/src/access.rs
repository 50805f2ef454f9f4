//! What callers may do, decided by the cluster (SubjectAccessReview) and kept for [`DECIDED_FOR`].

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jobs::Kind;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::identity::{Caller, Digest, Subject};
use crate::problem::Problem;
use crate::spans;

/// How long a decision is not asked for again.
pub const DECIDED_FOR: Duration = Duration::from_secs(10);
/// How long a refusal is not asked for again where a question is about many places, of which a caller may use few.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// The most decisions remembered. When there are more, all are forgotten: they are all asked for again soon anyway.
const MOST_DECISIONS: usize = 1 << 17;
/// The most reviews that one call asks for at once.
const AT_ONCE: usize = 16;

/// What is to be done, in terms of RBAC.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Right {
    /// The verb.
    pub verb: &'static str,
    /// The API group.
    pub group: &'static str,
    /// The resource, or the path of a URL if it begins with `/`.
    pub resource: &'static str,
    /// The subresource, or empty.
    pub subresource: &'static str,
    /// The namespace; empty for all.
    pub namespace: String,
}

impl Right {
    /// A verb on jobs of a kind.
    pub fn on_jobs(verb: &'static str, kind: Kind, namespace: &str) -> Self {
        Self {
            verb,
            group: kind.group(),
            resource: kind.plural(),
            subresource: "",
            namespace: namespace.to_owned(),
        }
    }

    /// A verb on a core resource, written `pods` or `pods/log`.
    pub fn on(verb: &'static str, resource: &'static str, namespace: &str) -> Self {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Self { verb, group: "", resource, subresource, namespace: namespace.to_owned() }
    }

    /// To administer a namespace: to change who may do what in it.
    pub fn to_administer(namespace: &str) -> Self {
        Self {
            verb: "patch",
            group: "rbac.authorization.k8s.io",
            resource: "rolebindings",
            subresource: "",
            namespace: namespace.to_owned(),
        }
    }

    /// A verb on a path that is no resource, e.g. `get` on `/metrics`.
    pub fn on_path(verb: &'static str, path: &'static str) -> Self {
        Self { verb, group: "", resource: path, subresource: "", namespace: String::new() }
    }
}

/// Decides by asking the cluster.
pub struct Access {
    /// A client as the service's own account.
    reviewer: Client,
    /// When each decision was made, and whether the right was there.
    decided: Mutex<HashMap<(Digest, Right), (Instant, bool)>>,
}

impl Access {
    /// Creates it from a client as the service's own account.
    pub fn new(reviewer: Client) -> Self {
        Self { reviewer, decided: Mutex::default() }
    }

    /// Whether the caller has the right.
    ///
    /// # Errors
    /// 503 if the cluster does not answer.
    pub async fn may(&self, caller: &Caller, right: Right) -> Result<bool, Problem> {
        self.decide((caller.id, right), || caller.subject(), DECIDED_FOR).await
    }

    /// Returns those of the rights that somebody has who need not be here.
    ///
    /// # Errors
    /// As [`Access::may`].
    pub async fn among_those_of(&self, subject: &Subject, rights: Vec<Right>) -> Result<Vec<Right>, Problem> {
        let (id, mut allowed) = (subject.id(), Vec::new());
        for right in rights {
            if self.decide((id, right.clone()), || subject.clone(), DECIDED_FOR).await? {
                allowed.push(right);
            }
        }
        Ok(allowed)
    }

    async fn decide(
        &self,
        question: (Digest, Right),
        subject: impl FnOnce() -> Subject,
        refused_for: Duration,
    ) -> Result<bool, Problem> {
        let now = Instant::now();
        let lasts = |allowed: bool| if allowed { DECIDED_FOR } else { refused_for };
        let known = self.decided.lock().unwrap_or_else(PoisonError::into_inner).get(&question).copied();
        if let Some((decided, allowed)) = known
            && now < decided + lasts(allowed)
        {
            return Ok(allowed);
        }
        let allowed = self.ask(subject(), &question.1).await?;
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        if decided.len() >= MOST_DECISIONS {
            decided.clear();
        }
        decided.insert(question, (now, allowed));
        Ok(allowed)
    }

    /// Returns those of the rights that the caller has.
    ///
    /// # Errors
    /// As [`Access::may`].
    pub async fn among(&self, caller: &Caller, rights: Vec<Right>) -> Result<Vec<Right>, Problem> {
        self.among_within(caller, rights, DECIDED_FOR).await
    }

    /// Returns those of the rights that the caller has, where they are about many places: a right that the caller
    /// gets is noticed within a minute.
    ///
    /// # Errors
    /// As [`Access::may`].
    pub async fn among_many(&self, caller: &Caller, rights: Vec<Right>) -> Result<Vec<Right>, Problem> {
        self.among_within(caller, rights, REFUSED_FOR).await
    }

    async fn among_within(
        &self,
        caller: &Caller,
        rights: Vec<Right>,
        refused_for: Duration,
    ) -> Result<Vec<Right>, Problem> {
        let asked = rights.into_iter().map(|right| async move {
            let allowed = self.decide((caller.id, right.clone()), || caller.subject(), refused_for).await?;
            Ok(allowed.then_some(right))
        });
        let answers: Vec<Result<Option<Right>, Problem>> =
            futures::stream::iter(asked).buffered(AT_ONCE).collect().await;
        answers.into_iter().filter_map(Result::transpose).collect()
    }

    /// Refuses the caller without the right; `what` names the object in the refusal.
    ///
    /// # Errors
    /// 403, or as [`Access::may`].
    pub async fn require(&self, caller: &Caller, right: Right, what: &str) -> Result<(), Problem> {
        let (verb, namespace) = (right.verb, right.namespace.clone());
        match self.may(caller, right).await? {
            true => Ok(()),
            false => Err(Problem::forbidden(&caller.user, verb, what, &namespace)),
        }
    }

    async fn ask(&self, subject: Subject, right: &Right) -> Result<bool, Problem> {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let is_path = right.resource.starts_with('/');
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(subject.user),
                uid: subject.uid,
                groups: Some(subject.groups),
                extra: Some(subject.extra).filter(|extra| !extra.is_empty()),
                resource_attributes: (!is_path).then(|| ResourceAttributes {
                    verb: some(right.verb),
                    group: some(right.group),
                    resource: some(right.resource),
                    subresource: some(right.subresource),
                    namespace: some(&right.namespace),
                    ..ResourceAttributes::default()
                }),
                non_resource_attributes: is_path
                    .then(|| NonResourceAttributes { verb: some(right.verb), path: some(right.resource) }),
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.reviewer.clone());
        let span = spans::cluster("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews");
        let reviewed =
            api.create(&PostParams::default(), &review).instrument(span).await.map_err(|error| {
                tracing::warn!(%error, "cannot review a permission");
                Problem::unavailable("the cluster cannot check permissions now")
            })?;
        Ok(reviewed.status.is_some_and(|status| status.allowed))
    }
}
