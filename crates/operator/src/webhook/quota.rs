//! How many jobs of a namespace may run at once: its annotation `training.opendatahub.io/max-concurrent-jobs`.
//!
//! What runs counts, whether a person or a queue has let it go; refused are jobs that people create or resume
//! (`decide::takes_place`). What counts is what the API server has, plus what was admitted and has not been stored yet. The latter stands in a
//! Lease `mpi-operator-quota-<namespace>` in the operator's own namespace, replaced only if nobody else has meanwhile,
//! so two operators that are asked at the same moment do not both give the last place away. An admitted job that is
//! refused by somebody after us keeps its place for [`PLACE_HELD`], the longest that a webhook after us may take: then
//! a place can be refused that is free; never is one given that is not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::{ANNOTATION_MAX_CONCURRENT_JOBS, CONDITION_FAILED, CONDITION_SUCCEEDED, MPIJob};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt};
use tokio::sync::Mutex;

/// The annotation of the Lease that holds the admitted jobs.
const ANNOTATION_ADMITTED: &str = "training.opendatahub.io/admitted";
/// How long an admitted job keeps a place that it has not taken: the longest timeout of a webhook.
const PLACE_HELD: Duration = Duration::from_secs(30);
/// Other operators can be quicker this often.
const TRIES: usize = 16;
/// Jobs listed in one request.
const PAGE: u32 = 500;

/// What a namespace's quota says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is a place, or no limit.
    Free,
    /// There is none.
    Full {
        /// Jobs that run.
        running: usize,
        /// Jobs that may.
        limit: usize,
    },
}

/// Gives places away.
pub(super) struct Quota {
    client: Client,
    /// Where the Leases are.
    namespace: String,
    /// One question at a time, so that the Lease is contended by other processes only.
    turn: Mutex<()>,
}

impl Quota {
    pub(super) fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace, turn: Mutex::new(()) }
    }

    /// Takes a place for a job, but for a dry run.
    ///
    /// # Errors
    /// If the API server could not be asked.
    pub(super) async fn take(
        &self,
        namespace: &str,
        job: &str,
        dry_run: bool,
    ) -> Result<Verdict, kube::Error> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let Some(limit) = namespaces.get_opt(namespace).await?.as_ref().and_then(limit) else {
            return Ok(Verdict::Free);
        };
        let _turn = self.turn.lock().await;
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        let name = format!("mpi-operator-quota-{namespace}");
        for _ in 0..TRIES {
            // In this order: what was admitted before the list is in one of the two.
            let lease = leases.get_opt(&name).await?;
            let jobs = self.jobs(namespace).await?;
            let now = Timestamp::now();
            let mut admitted = lease.as_ref().map(admitted).unwrap_or_default();
            admitted.retain(|name, until| *until > now && !jobs.stored.contains(name) && name != job);
            let running = jobs.running.iter().filter(|running| *running != job).count() + admitted.len();
            if running >= limit {
                return Ok(Verdict::Full { running, limit });
            }
            if dry_run {
                return Ok(Verdict::Free);
            }
            admitted.insert(job.to_owned(), now + PLACE_HELD);
            let written = match lease {
                Some(lease) => {
                    leases.replace(&name, &PostParams::default(), &holding(lease, &admitted)).await
                }
                None => {
                    let lease = Lease {
                        metadata: kube::api::ObjectMeta { name: Some(name.clone()), ..Default::default() },
                        spec: None,
                    };
                    leases.create(&PostParams::default(), &holding(lease, &admitted)).await
                }
            };
            match written {
                Ok(_) => return Ok(Verdict::Free),
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {}
                Err(error) => return Err(error),
            }
        }
        Err(kube::Error::Service("other operators gave places away all the while; try again".into()))
    }

    async fn jobs(&self, namespace: &str) -> Result<Jobs, kube::Error> {
        let jobs: Api<MPIJob> = Api::namespaced(self.client.clone(), namespace);
        let mut found = Jobs::default();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let listed = jobs.list(&page).await?;
            for job in &listed.items {
                found.stored.insert(job.name_any());
                if runs(job) {
                    found.running.insert(job.name_any());
                }
            }
            match listed.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(found),
            }
        }
    }
}

/// The jobs of a namespace, by name.
#[derive(Default)]
struct Jobs {
    stored: BTreeSet<String>,
    running: BTreeSet<String>,
}

/// Whether a job takes a place: it has not ended and is not held back.
fn runs(job: &MPIJob) -> bool {
    let ended = job.status.as_ref().is_some_and(|status| {
        status.completion_time.is_some()
            || plan::is_true(status, CONDITION_SUCCEEDED)
            || plan::is_true(status, CONDITION_FAILED)
    });
    let held = job.spec.run_policy.as_ref().and_then(|policy| policy.suspend).unwrap_or(false);
    !ended && !held && plan::is_ours(job)
}

/// The limit that a namespace says; one that is no number is none, and the log says so.
fn limit(namespace: &Namespace) -> Option<usize> {
    let text = namespace.annotations().get(ANNOTATION_MAX_CONCURRENT_JOBS)?;
    let limit = text.trim().parse().ok();
    if limit.is_none() {
        tracing::warn!(
            namespace = namespace.name_any(),
            value = text,
            annotation = ANNOTATION_MAX_CONCURRENT_JOBS,
            "is no whole number and sets no limit"
        );
    }
    limit
}

fn admitted(lease: &Lease) -> BTreeMap<String, Timestamp> {
    let text = lease.annotations().get(ANNOTATION_ADMITTED);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn holding(mut lease: Lease, admitted: &BTreeMap<String, Timestamp>) -> Lease {
    // Names and times always become JSON.
    let text = serde_json::to_string(admitted).unwrap_or_default();
    lease.annotations_mut().insert(ANNOTATION_ADMITTED.to_owned(), text);
    lease
}
