//! The controllers that a job needs, each an ordinary client of the API: no back door into the store.
//!
//! Shape of each: observe (shared caches) → decide (pure) → apply. Changes come in through one shared watch per kind
//! ([`Watches`]); requests go out through the client. What a controller must not do: list by itself, wait in a loop, or
//! delete on the word of a cache alone where the deletion cannot be undone by a later step.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

pub mod cache;
mod endpoints;
mod event_expiry;
mod finished;
mod garbage;
mod job;
mod kinds;
mod namespace;
mod node_lifecycle;
mod pod_garbage;
pub(crate) mod queue;
pub(crate) mod record;

use cache::{Cache, follow};
use record::Recorder;

use crate::scheduler;

/// Why a step failed. Every failure is tried again after an exponential wait.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API refused or did not answer.
    #[error("{0}")]
    Api(#[from] kube::Error),
    /// An object could not be written as JSON.
    #[error("cannot encode a request: {0}")]
    Encode(#[source] serde_json::Error),
}

impl Error {
    /// The HTTP status code of a refusal.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api(error) => refusal(error),
            Self::Encode(_) => None,
        }
    }
}

/// The HTTP status code with which the API refused a request.
pub(crate) fn refusal(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Takes these refusals as an answer: what was asked for is so already, or no longer matters.
pub(crate) fn allow<T>(codes: &[u16], result: Result<T, kube::Error>) -> Result<(), Error> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if refusal(&error).is_some_and(|code| codes.contains(&code)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The shared watches: one per kind, for controllers and scheduler alike.
#[derive(Clone, Debug, Default)]
pub struct Watches {
    /// `batch/v1` Jobs.
    pub jobs: Cache<Job>,
    /// Pods.
    pub pods: Cache<Pod>,
    /// Nodes.
    pub nodes: Cache<Node>,
    /// Namespaces.
    pub namespaces: Cache<Namespace>,
    /// Services.
    pub services: Cache<Service>,
    /// EndpointSlices.
    pub slices: Cache<EndpointSlice>,
    /// Leases.
    pub leases: Cache<Lease>,
}

impl Watches {
    /// Follows every kind until `stop`.
    pub async fn follow(&self, client: &Client, stop: &CancellationToken) {
        let (c, s) = (client, stop);
        tokio::join!(
            follow(Api::all(c.clone()), self.jobs.clone(), s.clone()),
            follow(Api::all(c.clone()), self.pods.clone(), s.clone()),
            follow(Api::all(c.clone()), self.nodes.clone(), s.clone()),
            follow(Api::all(c.clone()), self.namespaces.clone(), s.clone()),
            follow(Api::all(c.clone()), self.services.clone(), s.clone()),
            follow(Api::all(c.clone()), self.slices.clone(), s.clone()),
            follow(Api::all(c.clone()), self.leases.clone(), s.clone()),
        );
    }
}

/// What the controllers need to know beyond the API.
#[derive(Clone, Debug)]
pub struct Options {
    /// The API's certificate authority in PEM, published in each namespace as ConfigMap `kube-root-ca.crt`; None: not
    /// published.
    pub root_ca: Option<String>,
    /// How long a node may give no sign of life, or be missing while it has pods, before it counts as lost.
    pub node_grace: Duration,
}

impl Default for Options {
    /// As kube-controller-manager: 40 s of grace (`--node-monitor-grace-period`, pod collector's `quarantineTime`).
    fn default() -> Self {
        Self { root_ca: None, node_grace: Duration::from_secs(40) }
    }
}

/// Runs the shared watches, every controller and the scheduler until `stop`.
pub async fn run(client: Client, options: Options, stop: CancellationToken) {
    let watches = Watches::default();
    let kinds = kinds::Kinds::default();
    kinds.share(&watches.jobs);
    kinds.share(&watches.pods);
    kinds.share(&watches.nodes);
    kinds.share(&watches.namespaces);
    kinds.share(&watches.services);
    kinds.share(&watches.slices);
    kinds.share(&watches.leases);
    let recorder = Recorder::start(client.clone(), "controller-manager", stop.clone());
    let job = job::Hands {
        client: client.clone(),
        jobs: watches.jobs.clone(),
        pods: watches.pods.clone(),
        recorder: recorder.named("job-controller"),
    };
    let scheduler = scheduler::Hands {
        client: client.clone(),
        pods: watches.pods.clone(),
        nodes: watches.nodes.clone(),
        namespaces: watches.namespaces.clone(),
        recorder: recorder.named("default-scheduler"),
    };
    let namespace = namespace::Hands {
        client: client.clone(),
        namespaces: watches.namespaces.clone(),
        kinds: kinds.clone(),
        root_ca: options.root_ca,
    };
    let node_lifecycle = node_lifecycle::Hands {
        client: client.clone(),
        nodes: watches.nodes.clone(),
        pods: watches.pods.clone(),
        leases: watches.leases.clone(),
        recorder: recorder.named("node-controller"),
        grace: options.node_grace,
    };
    let pod_garbage = pod_garbage::Hands {
        client: client.clone(),
        nodes: watches.nodes.clone(),
        pods: watches.pods.clone(),
        quarantine: options.node_grace,
    };
    let endpoints = endpoints::Hands {
        client: client.clone(),
        services: watches.services.clone(),
        slices: watches.slices.clone(),
        pods: watches.pods.clone(),
    };
    tokio::join!(
        watches.follow(&client, &stop),
        kinds.follow(&client, &stop),
        job::run(job, stop.clone()),
        finished::run(client.clone(), watches.jobs.clone(), stop.clone()),
        garbage::run(client.clone(), kinds.clone(), stop.clone()),
        namespace::run(namespace, stop.clone()),
        node_lifecycle::run(node_lifecycle, stop.clone()),
        pod_garbage::run(pod_garbage, stop.clone()),
        endpoints::run(endpoints, stop.clone()),
        event_expiry::run(client.clone(), stop.clone()),
        scheduler::run(scheduler, stop.clone()),
    );
}
