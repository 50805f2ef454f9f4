//! Leader election among several operators: the leader holds a Lease (`coordination.k8s.io/v1`) with upstream's
//! name and timing, so that ours and upstream's never work at the same time.
//!
//! The leader renews every fifth of the lease's duration. It writes for two thirds of the duration after it sent
//! the last successful renewal. Nobody else takes the lease before the whole duration has passed since they saw
//! that renewal. The third between the two is for requests in flight. See [`crate::fence`] for how writes are
//! blocked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as Record, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams};

use crate::fence::Fence;

/// The lease's name, as upstream.
pub const LEASE_NAME: &str = "mpi-operator";
/// The lease's duration, as upstream.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How often the leader renews, and others check, within a duration.
const LOOKS: u32 = 5;

/// A lease, held or sought by one process.
pub struct Lease {
    records: Api<Record>,
    namespace: String,
    identity: String,
    duration: Duration,
    fence: Arc<Fence>,
    /// The record as this process last wrote it, while it holds the lease.
    held: Mutex<Option<Record>>,
}

/// Another holder's record, and since when it has not changed.
struct Watched {
    version: Option<String>,
    since: Instant,
}

impl Lease {
    /// Returns a lease in a namespace, not held yet.
    ///
    /// # Errors
    /// If there is no randomness to distinguish this process from others on its host.
    pub fn new(client: Client, namespace: &str, duration: Duration) -> std::io::Result<Self> {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Self {
            records: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            identity: format!("{}_{:032x}", host.trim(), u128::from_be_bytes(bytes)),
            duration,
            fence: Arc::default(),
            held: Mutex::default(),
        })
    }

    /// Returns the fence, which is open while the lease is certainly held.
    #[must_use]
    pub fn fence(&self) -> Arc<Fence> {
        self.fence.clone()
    }

    /// Returns the identity of this process in the lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns once the lease is held.
    pub async fn acquire(&self) {
        let mut watched: Option<Watched> = None;
        let mut told: Option<String> = None;
        loop {
            match self.bounded(self.take(&mut watched)).await {
                Ok(None) => return,
                Ok(Some(holder)) => {
                    if told.as_ref() != Some(&holder) {
                        tracing::info!(holder, "standing by");
                        told = Some(holder);
                    }
                }
                Err(error) => {
                    let namespace = &self.namespace;
                    tracing::warn!(namespace, %error, "cannot acquire the lease; trying again");
                }
            }
            tokio::time::sleep(self.duration / LOOKS).await;
        }
    }

    /// Renews the lease. Returns the reason once it is lost.
    pub async fn keep(&self) -> String {
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.duration / LOOKS) => {}
                () = self.fence.shut() => {}
            }
            if !self.fence.is_open() {
                return "it could not be renewed in time".to_owned();
            }
            match self.bounded(self.renew()).await {
                Ok(None) => {}
                Ok(Some(holder)) => {
                    self.fence.close();
                    return format!("{holder:?} holds it");
                }
                Err(error) => tracing::warn!(%error, "cannot renew the lease; trying again"),
            }
        }
    }

    /// Releases the lease, so that another process takes it at once. Closes the fence before, so nothing is written
    /// afterwards.
    pub async fn release(&self) {
        self.fence.close();
        let Some(mut record) = self.held().take() else { return };
        let transitions = record.spec.as_ref().and_then(|spec| spec.lease_transitions);
        // As client-go's ReleaseOnCancel writes it.
        record.spec = Some(LeaseSpec {
            holder_identity: None,
            lease_duration_seconds: Some(1),
            renew_time: Some(MicroTime(Timestamp::now())),
            acquire_time: Some(MicroTime(Timestamp::now())),
            lease_transitions: transitions,
            ..LeaseSpec::default()
        });
        match self.bounded(async { self.write(&record).await.map(|_| ()) }).await {
            Ok(()) => tracing::info!("released the lease"),
            Err(error) => tracing::warn!(%error, "cannot release the lease; it will expire"),
        }
    }

    /// Takes the lease if it is free or has expired. Returns its holder otherwise.
    async fn take(&self, watched: &mut Option<Watched>) -> Result<Option<String>, kube::Error> {
        let sent = Instant::now();
        let Some(record) = self.records.get_opt(LEASE_NAME).await? else {
            let name = Some(LEASE_NAME.to_owned());
            let metadata = ObjectMeta { name, ..ObjectMeta::default() };
            let record = Record { metadata, spec: Some(self.spec(None)) };
            let made = self.records.create(&PostParams::default(), &record).await;
            return self.settle(made, sent);
        };
        let spec = record.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if !holder.is_empty() && holder != self.identity {
            let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
            let version = record.metadata.resource_version.clone();
            let seen = watched.get_or_insert_with(|| Watched { version: version.clone(), since: sent });
            if seen.version != version {
                *seen = Watched { version, since: Instant::now() };
            }
            if seen.since.elapsed() < Duration::from_secs(seconds) {
                return Ok(Some(holder));
            }
        }
        let record = Record { spec: Some(self.spec(Some(&spec))), ..record };
        let sent = Instant::now();
        let written = self.write(&record).await;
        self.settle(written, sent)
    }

    /// Renews the lease. Returns its holder if that is another process.
    async fn renew(&self) -> Result<Option<String>, kube::Error> {
        let Some(mut record) = self.held().clone() else { return Ok(Some(String::new())) };
        if let Some(spec) = record.spec.as_mut() {
            spec.renew_time = Some(MicroTime(Timestamp::now()));
        }
        let sent = Instant::now();
        match self.write(&record).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                let found = self.records.get(LEASE_NAME).await?;
                let holder = found.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
                if holder.as_deref() == Some(self.identity.as_str()) {
                    // Our own answer was lost, or somebody changed a label: start the next renewal from this
                    // version.
                    *self.held() = Some(found);
                    return Ok(None);
                }
                Ok(Some(holder.unwrap_or_default()))
            }
            written => self.settle(written, sent),
        }
    }

    /// Opens the fence if the record was written. A conflict means that another process was faster.
    fn settle(
        &self,
        written: Result<Record, kube::Error>,
        sent: Instant,
    ) -> Result<Option<String>, kube::Error> {
        match written {
            Ok(record) => {
                *self.held() = Some(record);
                self.fence.open_until(sent + self.duration * 2 / 3);
                Ok(None)
            }
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                Ok(Some("another process, which was faster".to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the record of a lease that this process takes over from `before`.
    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = Some(MicroTime(Timestamp::now()));
        let transitions = before.and_then(|spec| spec.lease_transitions);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX)),
            acquire_time: now.clone(),
            renew_time: now,
            lease_transitions: Some(before.map_or(0, |_| transitions.unwrap_or(0).saturating_add(1))),
            ..LeaseSpec::default()
        }
    }

    /// Replaces the record, unless it has changed since it was read.
    async fn write(&self, record: &Record) -> Result<Record, kube::Error> {
        self.records.replace(LEASE_NAME, &PostParams::default(), record).await
    }

    /// Bounds a request, so that one that hangs leaves time to retry.
    async fn bounded<T>(&self, ask: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
        match tokio::time::timeout(self.duration / LOOKS, ask).await {
            Ok(answer) => answer,
            Err(late) => Err(kube::Error::Service(late.into())),
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Record>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
