//! How many jobs of a namespace may run at once: its annotation `training.opendatahub.io/max-concurrent-jobs`.
//!
//! What runs counts, whether a person or a queue has let it go. Jobs that anybody but Kueue creates or resumes may be
//! refused (`decide::takes_place`).
//!
//! What counts is what the API server has. A job that was admitted is stored a moment later, or never: somebody after us
//! refuses it, or the review was no API server's. So that two operators that are asked at the same moment do not both
//! give the last place away, every admitted job has a ticket in the Lease `mpi-operator-quota-<namespace>` in the
//! operator's own namespace, replaced only if nobody else has meanwhile. A caller that finds the last places ticketed waits
//! until those jobs are stored, and is refused then; or until they have not been stored for [`SETTLES_WITHIN`], and goes
//! ahead. Nobody is refused because of a job that is not there, and no place is given twice where an admitted job is
//! stored within that time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use api::{ANNOTATION_MAX_CONCURRENT_JOBS, MPIJob};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt};
use semantics::LONGEST_SUBDOMAIN;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The annotation of the Lease that holds the tickets.
const ANNOTATION_ADMITTED: &str = "training.opendatahub.io/admitted";
/// An admitted job is stored within this, or does not count any more.
const SETTLES_WITHIN: Duration = Duration::from_secs(3);
/// The longest wait for others to be stored; the API server waits 5 s for an answer.
const LONGEST_WAIT: Duration = Duration::from_secs(4);
/// How often others are looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// After this a ticket is thrown away, whatever became of it. Far more than [`LONGEST_WAIT`], as clocks differ.
const TICKET_KEPT: Duration = Duration::from_secs(30);
/// No more tickets than this are kept, so that the Lease stays small: the oldest go.
const MOST_TICKETS: usize = 512;
/// Other operators can be quicker this often.
const TRIES: usize = 16;
/// Jobs listed in one request.
const PAGE: u32 = 500;

/// What a namespace's quota says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QuotaDecision {
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
    /// The last reading of each namespace that has a limit. Questions about a namespace are answered one at a time, so only
    /// other processes contend for its Lease; namespaces do not wait for one another.
    readings: std::sync::Mutex<HashMap<String, Arc<Mutex<Option<Reading>>>>>,
}

/// What the API server had of a namespace.
struct Reading {
    /// When reading began: all that was stored before is in it.
    began: Instant,
    lease: Option<Lease>,
    jobs: Jobs,
}

impl Quota {
    pub(super) fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace, readings: std::sync::Mutex::default() }
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
    ) -> Result<QuotaDecision, kube::Error> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let Some(limit) = namespaces.get_opt(namespace).await?.as_ref().and_then(limit) else {
            return Ok(QuotaDecision::Free);
        };
        let question = Question { namespace, job, limit, dry_run };
        match self.ask(&question).await? {
            FirstAnswer::Settled(verdict) => Ok(verdict),
            FirstAnswer::Waiting(ticket) => {
                let verdict = self.wait(&question, ticket).await;
                if !matches!(verdict, Ok(QuotaDecision::Free)) {
                    self.give_back(&question).await;
                }
                verdict
            }
        }
    }

    /// Looks whether there is a place, and takes a ticket.
    async fn ask(&self, question: &Question<'_>) -> Result<FirstAnswer, kube::Error> {
        let mut asked = Instant::now();
        let readings = self.readings_of(question.namespace);
        let mut reading = readings.lock().await;
        for _ in 0..TRIES {
            let Reading { lease, jobs, .. } = self.read(question.namespace, &mut reading, asked).await?;
            let now = Timestamp::now();
            let mut tickets = lease.as_ref().map(tickets).unwrap_or_default();
            tickets.retain(|name, ticket| {
                ticket.until > now && !ticket.is_settled(name, jobs) && name != question.job
            });
            let running = jobs.running_but(question.job);
            let limit = question.limit;
            if running >= limit || question.job.len() > LONGEST_SUBDOMAIN {
                return Ok(FirstAnswer::Settled(QuotaDecision::Full { running, limit }));
            }
            if question.dry_run {
                return Ok(FirstAnswer::Settled(QuotaDecision::Free));
            }
            let goes_ahead = running + tickets.len() < limit;
            let number = tickets.values().map(|ticket| ticket.number + 1).max().unwrap_or(0);
            if tickets.len() >= MOST_TICKETS
                && let Some((oldest, _)) = tickets.iter().min_by_key(|(_, ticket)| ticket.number)
            {
                tickets.remove(&oldest.clone());
            }
            let resumed = jobs.stored.contains(question.job);
            let ticket = Ticket { number, admitted: goes_ahead, resumed, until: now + TICKET_KEPT };
            tickets.insert(question.job.to_owned(), ticket);
            match self.write(question.namespace, lease.clone(), &tickets).await {
                Ok(written) => {
                    // Nobody else has written since the Lease was read, so the reading stays valid for waiting questions.
                    *lease = Some(written);
                    return Ok(if goes_ahead {
                        FirstAnswer::Settled(QuotaDecision::Free)
                    } else {
                        FirstAnswer::Waiting(ticket)
                    });
                }
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                    asked = Instant::now();
                }
                Err(error) => return Err(error),
            }
        }
        Err(contended())
    }

    /// The readings of a namespace; those of namespaces about which nobody asks now are forgotten.
    fn readings_of(&self, namespace: &str) -> Arc<Mutex<Option<Reading>>> {
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = readings.entry(namespace.to_owned()).or_default().clone();
        readings.retain(|_, of| Arc::strong_count(of) > 1);
        mine
    }

    /// Returns a reading that began after the question came: the previous one if it is recent enough, or a new one. So
    /// concurrent questions take two lists in all, not one list each.
    async fn read<'a>(
        &self,
        namespace: &str,
        last: &'a mut Option<Reading>,
        asked: Instant,
    ) -> Result<&'a mut Reading, kube::Error> {
        let reading = match last.take().filter(|reading| reading.began > asked) {
            Some(reading) => reading,
            None => {
                let began = Instant::now();
                // In this order: what was admitted before the list is in one of the two.
                let lease = self.lease(namespace).await?;
                Reading { began, lease, jobs: self.jobs(namespace).await? }
            }
        };
        Ok(last.insert(reading))
    }

    /// Waits until those with earlier tickets are stored, or have not been for long enough. Times are measured here, by when
    /// things were seen, as the clocks of several operators differ.
    async fn wait(&self, question: &Question<'_>, own: Ticket) -> Result<QuotaDecision, kube::Error> {
        let begun = Instant::now();
        let mut admitted: BTreeMap<u64, Instant> = BTreeMap::new();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let asked = Instant::now();
            let readings = self.readings_of(question.namespace);
            let mut reading = readings.lock().await;
            let Reading { lease, jobs, .. } = self.read(question.namespace, &mut reading, asked).await?;
            let running = jobs.running_but(question.job);
            if running >= question.limit {
                return Ok(QuotaDecision::Full { running, limit: question.limit });
            }
            let mut tickets = lease.as_ref().map(tickets).unwrap_or_default();
            let earlier = tickets.iter().filter(|(name, ticket)| {
                ticket.number < own.number && !ticket.is_settled(name, jobs) && *name != question.job
            });
            let unsettled = earlier.filter(|(_, ticket)| {
                let since =
                    ticket.admitted.then(|| *admitted.entry(ticket.number).or_insert_with(Instant::now));
                since.is_none_or(|since| since.elapsed() < SETTLES_WITHIN)
            });
            let is_free = running + unsettled.count() < question.limit;
            if !is_free && begun.elapsed() < LONGEST_WAIT {
                continue;
            }
            let until = Timestamp::now() + TICKET_KEPT;
            tickets.insert(question.job.to_owned(), Ticket { admitted: true, until, ..own });
            match self.write(question.namespace, lease.clone(), &tickets).await {
                Ok(written) => {
                    *lease = Some(written);
                    return Ok(QuotaDecision::Free);
                }
                // Others have changed the Lease: what they did counts.
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                    *reading = None;
                }
                Err(error) => return Err(error),
            }
            if begun.elapsed() >= LONGEST_WAIT {
                return Err(contended());
            }
        }
    }

    /// Takes back the ticket of a job that was refused; one that stays holds nobody up for longer than [`LONGEST_WAIT`].
    async fn give_back(&self, question: &Question<'_>) {
        for _ in 0..TRIES {
            let Ok(Some(lease)) = self.lease(question.namespace).await else { return };
            let mut tickets = tickets(&lease);
            if tickets.remove(question.job).is_none() {
                return;
            }
            match self.write(question.namespace, Some(lease), &tickets).await {
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                _ => return,
            }
        }
    }

    async fn lease(&self, namespace: &str) -> Result<Option<Lease>, kube::Error> {
        self.leases().get_opt(&lease_name(namespace)).await
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Writes the tickets, if nobody has changed the Lease since it was read.
    async fn write(
        &self,
        namespace: &str,
        lease: Option<Lease>,
        tickets: &BTreeMap<String, Ticket>,
    ) -> Result<Lease, kube::Error> {
        let (name, leases) = (lease_name(namespace), self.leases());
        match lease {
            Some(lease) => leases.replace(&name, &PostParams::default(), &holding(lease, tickets)).await,
            None => {
                let metadata = kube::api::ObjectMeta { name: Some(name), ..Default::default() };
                leases.create(&PostParams::default(), &holding(Lease { metadata, spec: None }, tickets)).await
            }
        }
    }

    async fn jobs(&self, namespace: &str) -> Result<Jobs, kube::Error> {
        let jobs: Api<MPIJob> = Api::namespaced(self.client.clone(), namespace);
        let mut found = Jobs::default();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let listed = jobs.list(&page).await?;
            for job in &listed.items {
                found.stored.insert(job.name_any());
                if plan::counts_as_running(job) {
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

/// What is asked.
struct Question<'a> {
    namespace: &'a str,
    job: &'a str,
    limit: usize,
    dry_run: bool,
}

/// How a question was answered at first sight.
enum FirstAnswer {
    Settled(QuotaDecision),
    /// The last places are others' who are not stored yet; this is the ticket.
    Waiting(Ticket),
}

/// What stands for a job that is not stored yet.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Ticket {
    /// Grows from ticket to ticket of a Lease.
    number: u64,
    /// Whether it was admitted, or waits for those before it.
    admitted: bool,
    /// Whether the job was stored before, held back.
    resumed: bool,
    until: Timestamp,
}

impl Ticket {
    /// Whether what was admitted is stored.
    fn is_settled(&self, job: &str, jobs: &Jobs) -> bool {
        jobs.running.contains(job) || !self.resumed && jobs.stored.contains(job)
    }
}

fn contended() -> kube::Error {
    kube::Error::Service("too many concurrent changes by other operators; try again".into())
}

fn lease_name(namespace: &str) -> String {
    format!("mpi-operator-quota-{namespace}")
}

/// The jobs of a namespace, by name.
#[derive(Default)]
struct Jobs {
    stored: BTreeSet<String>,
    running: BTreeSet<String>,
}

impl Jobs {
    /// How many run, without this one.
    fn running_but(&self, job: &str) -> usize {
        self.running.iter().filter(|running| *running != job).count()
    }
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
            "the annotation is not a whole number: no limit applies"
        );
    }
    limit
}

fn tickets(lease: &Lease) -> BTreeMap<String, Ticket> {
    let text = lease.annotations().get(ANNOTATION_ADMITTED);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn holding(mut lease: Lease, tickets: &BTreeMap<String, Ticket>) -> Lease {
    // Names, numbers and times always become JSON.
    let text = serde_json::to_string(tickets).unwrap_or_default();
    lease.annotations_mut().insert(ANNOTATION_ADMITTED.to_owned(), text);
    lease
}
