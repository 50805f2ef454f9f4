//! The controllers that jobs need. Each is an ordinary client of the API, without direct access to the store.
//!
//! Each has the same shape: observe (shared caches) → decide (pure) → apply. Changes arrive through one shared watch
//! per kind ([`Watches`]); requests go out through the client. A controller must not list by itself or wait in a loop.
//! It must not delete based on a cache alone if a later step cannot undo the deletion.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

mod aggregation;
mod cron_job;
mod deployment;
mod disruption;
mod endpoints;
mod finished;
mod garbage;
mod job;
mod namespace;
mod node_lifecycle;
mod pod_garbage;
mod replicas;
pub mod scheduler;
mod volumes;

pub use volumes::default_class;

use controller_runtime::cache::{Cache, follow};
use controller_runtime::packed::Packed;
use controller_runtime::record::Recorder;
// For the controllers below: `super::Error` and so on.
use controller_runtime::{Error, allow, cache, in_words, kinds, queue, record, refusal};

use controller_runtime::supervision::{Health, supervise};
use objects::access::UserInfo;

/// The shared watches: one per kind, for controllers and scheduler.
#[derive(Clone, Debug, Default)]
pub struct Watches {
    /// `batch/v1` Jobs.
    pub jobs: Cache<Packed<Job>>,
    /// CronJobs.
    pub cron_jobs: Cache<CronJob>,
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
    /// PodDisruptionBudgets.
    pub budgets: Cache<PodDisruptionBudget>,
    /// Deployments.
    pub deployments: Cache<Deployment>,
    /// ReplicaSets.
    pub replica_sets: Cache<ReplicaSet>,
    /// ReplicationControllers.
    pub replication_controllers: Cache<ReplicationController>,
    /// PersistentVolumeClaims.
    pub claims: Cache<PersistentVolumeClaim>,
    /// PersistentVolumes.
    pub volumes: Cache<PersistentVolume>,
    /// StorageClasses.
    pub classes: Cache<StorageClass>,
}

impl Watches {
    /// Shares these watches with `kinds`, so that it does not open its own.
    fn share(&self, kinds: &kinds::Kinds, stop: &CancellationToken) {
        kinds.share(&self.jobs, stop);
        kinds.share(&self.cron_jobs, stop);
        kinds.share(&self.pods, stop);
        kinds.share(&self.nodes, stop);
        kinds.share(&self.namespaces, stop);
        kinds.share(&self.services, stop);
        kinds.share(&self.slices, stop);
        kinds.share(&self.leases, stop);
        kinds.share(&self.budgets, stop);
        kinds.share(&self.deployments, stop);
        kinds.share(&self.replica_sets, stop);
        kinds.share(&self.replication_controllers, stop);
        kinds.share(&self.claims, stop);
        kinds.share(&self.volumes, stop);
        kinds.share(&self.classes, stop);
    }

    /// Follows every kind until `stop`.
    async fn follow(&self, client: &Client, health: &Health, stop: &CancellationToken) {
        let (c, h, s) = (client, health, stop);
        tokio::join!(
            watch(c, &self.jobs, h, s),
            watch(c, &self.cron_jobs, h, s),
            watch(c, &self.pods, h, s),
            watch(c, &self.nodes, h, s),
            watch(c, &self.namespaces, h, s),
            watch(c, &self.services, h, s),
            watch(c, &self.slices, h, s),
            watch(c, &self.leases, h, s),
            watch(c, &self.budgets, h, s),
            watch(c, &self.deployments, h, s),
            watch(c, &self.replica_sets, h, s),
            watch(c, &self.replication_controllers, h, s),
            watch(c, &self.claims, h, s),
            watch(c, &self.volumes, h, s),
            watch(c, &self.classes, h, s),
        );
    }
}

/// Follows one kind until `stop`.
async fn watch<K>(client: &Client, cache: &Cache<K>, health: &Health, stop: &CancellationToken)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let part = format!("watch on {}", K::plural(&()));
    supervise(part, health, stop, |scope| follow(Api::all(client.clone()), cache.clone(), scope.stop)).await;
}

/// The configuration of the controllers.
#[derive(Clone, Debug)]
pub struct Options {
    /// The API's certificate authority in PEM, published in each namespace as ConfigMap `kube-root-ca.crt`; not
    /// published if `None`.
    pub root_ca: Option<String>,
    /// How long a node may be silent, or missing while it has pods, before it counts as lost.
    pub node_grace: Duration,
    /// The folder for directories of claims; if `None`, no volumes are provisioned.
    pub volumes: Option<std::path::PathBuf>,
    /// Records failures of controllers.
    pub health: Health,
}

impl Default for Options {
    /// The defaults of kube-controller-manager: 40 s of grace (`--node-monitor-grace-period`, pod collector's
    /// `quarantineTime`).
    fn default() -> Self {
        Self { root_ca: None, node_grace: Duration::from_secs(40), volumes: None, health: Health::default() }
    }
}

/// Creates a client per controller, with the identity that the controller has in Kubernetes and the rights of that
/// identity's default role. A new controller, or a new kind of request, needs its rights in `access/own_roles.txt`.
#[derive(Clone)]
pub struct Clients(Arc<dyn Fn(UserInfo) -> Client + Send + Sync>);

impl Clients {
    /// Uses `make` to create a client for a user.
    pub fn new(make: impl Fn(UserInfo) -> Client + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// Returns a client for the service account of this name in `kube-system`.
    fn account(&self, name: &str) -> Client {
        (self.0)(UserInfo::account("kube-system", name))
    }

    /// Returns a client for a component without a service account.
    fn user(&self, name: &str) -> Client {
        (self.0)(UserInfo::known(name, &[]))
    }
}

impl From<Client> for Clients {
    /// Uses the same client for all.
    fn from(client: Client) -> Self {
        Self::new(move |_| client.clone())
    }
}

/// Runs the shared watches, every controller and the scheduler until `stop`. Each is a separate task that is restarted
/// if it fails.
pub async fn run(clients: impl Into<Clients>, options: Options, stop: CancellationToken) {
    let clients = clients.into();
    // This identity may list and watch everything, and write Events.
    let client = clients.user("system:kube-controller-manager");
    let watches = Watches::default();
    let kinds = kinds::Kinds::default();
    watches.share(&kinds, &stop);
    let recorder = Recorder::start(client.clone(), "controller-manager", stop.clone());
    let job = job::Context {
        client: clients.account("job-controller"),
        jobs: watches.jobs.clone(),
        pods: watches.pods.clone(),
        recorder: recorder.named("job-controller"),
    };
    let scheduler = scheduling(&clients, &watches, &kinds, &recorder);
    let namespace = namespace::Context {
        client: clients.account("namespace-controller"),
        accounts: clients.account("service-account-controller"),
        certificates: clients.account("root-ca-cert-publisher"),
        namespaces: watches.namespaces.clone(),
        kinds: kinds.clone(),
        root_ca: options.root_ca,
    };
    let node_lifecycle = node_lifecycle::Context {
        client: clients.account("node-controller"),
        nodes: watches.nodes.clone(),
        pods: watches.pods.clone(),
        leases: watches.leases.clone(),
        recorder: recorder.named("node-controller"),
        grace: options.node_grace,
    };
    let pod_garbage = pod_garbage::Context {
        client: clients.account("pod-garbage-collector"),
        nodes: watches.nodes.clone(),
        pods: watches.pods.clone(),
        quarantine: options.node_grace,
    };
    let endpoints = endpoints::Context {
        client: clients.account("endpointslice-controller"),
        endpoints: clients.account("endpoint-controller"),
        services: watches.services.clone(),
        slices: watches.slices.clone(),
        pods: watches.pods.clone(),
    };
    let disruption = disruption::Context {
        client: clients.account("disruption-controller"),
        budgets: watches.budgets.clone(),
        pods: watches.pods.clone(),
        deployments: watches.deployments.clone(),
        replica_sets: watches.replica_sets.clone(),
        replication_controllers: watches.replication_controllers.clone(),
        recorder: recorder.named("controllermanager"),
    };
    let garbage = clients.account("generic-garbage-collector");
    let aggregation = clients.account("clusterrole-aggregation-controller");
    let volumes = keeping(&clients, &watches, &recorder, options.volumes);
    let (h, s) = (&options.health, &stop);
    tokio::join!(
        watches.follow(&client, h, s),
        supervise("discovery", h, s, |scope| kinds.clone().follow(garbage.clone(), scope.stop)),
        supervise("clusterrole-aggregation-controller", h, s, |scope| {
            aggregation::run(aggregation.clone(), scope)
        }),
        supervise("job-controller", h, s, |scope| job::run(job.clone(), scope)),
        supervise("generic-garbage-collector", h, s, |scope| {
            garbage::run(garbage.clone(), kinds.clone(), scope)
        }),
        supervise("namespace-controller", h, s, |scope| namespace::run(namespace.clone(), scope)),
        supervise("node-controller", h, s, |scope| node_lifecycle::run(node_lifecycle.clone(), scope)),
        supervise("pod-garbage-collector", h, s, |scope| pod_garbage::run(pod_garbage.clone(), scope)),
        supervise("endpointslice-controller", h, s, |scope| endpoints::run(endpoints.clone(), scope)),
        supervise("disruption-controller", h, s, |scope| disruption::run(disruption.clone(), scope)),
        supervise("persistentvolume-controller", h, s, |scope| volumes::run(volumes.clone(), scope)),
        recur(&clients, &watches, &recorder, h, s),
        expire(&clients, &watches, h, s),
        replicate(&clients, &watches, &recorder, h, s),
        supervise("kube-scheduler", h, s, |scope| scheduler::run(scheduler.clone(), scope)),
    );
}

/// Runs the controller that creates Jobs by their schedules.
async fn recur(
    clients: &Clients,
    watches: &Watches,
    recorder: &Recorder,
    health: &Health,
    stop: &CancellationToken,
) {
    let cron_job = cron_job::Context {
        client: clients.account("cronjob-controller"),
        cron_jobs: watches.cron_jobs.clone(),
        jobs: watches.jobs.clone(),
        recorder: recorder.named("cronjob-controller"),
    };
    supervise("cronjob-controller", health, stop, |scope| cron_job::run(cron_job.clone(), scope)).await;
}

/// Runs the controller that deletes finished Jobs.
async fn expire(clients: &Clients, watches: &Watches, health: &Health, stop: &CancellationToken) {
    let finished = clients.account("ttl-after-finished-controller");
    supervise("ttl-after-finished-controller", health, stop, |scope| {
        finished::run(finished.clone(), watches.jobs.clone(), scope)
    })
    .await;
}

/// Runs the controllers of Deployments, ReplicaSets and ReplicationControllers.
async fn replicate(
    clients: &Clients,
    watches: &Watches,
    recorder: &Recorder,
    health: &Health,
    stop: &CancellationToken,
) {
    let deployment = deployment::Context {
        client: clients.account("deployment-controller"),
        deployments: watches.deployments.clone(),
        sets: watches.replica_sets.clone(),
        pods: watches.pods.clone(),
        recorder: recorder.named("deployment-controller"),
    };
    let replica_sets = replicas::Context {
        client: clients.account("replicaset-controller"),
        sets: watches.replica_sets.clone(),
        pods: watches.pods.clone(),
        recorder: recorder.named("replicaset-controller"),
    };
    let replication_controllers = replicas::Context {
        client: clients.account("replication-controller"),
        sets: watches.replication_controllers.clone(),
        pods: watches.pods.clone(),
        recorder: recorder.named("replication-controller"),
    };
    tokio::join!(
        supervise("deployment-controller", health, stop, |scope| {
            deployment::run(deployment.clone(), scope)
        }),
        supervise("replicaset-controller", health, stop, |scope| {
            replicas::run(replica_sets.clone(), scope)
        }),
        supervise("replication-controller", health, stop, |scope| {
            replicas::run(replication_controllers.clone(), scope)
        }),
    );
}

fn scheduling(
    clients: &Clients,
    watches: &Watches,
    kinds: &kinds::Kinds,
    recorder: &Recorder,
) -> scheduler::Context {
    scheduler::Context {
        client: clients.user("system:kube-scheduler"),
        pods: watches.pods.clone(),
        nodes: watches.nodes.clone(),
        namespaces: watches.namespaces.clone(),
        budgets: watches.budgets.clone(),
        claims: watches.claims.clone(),
        volumes: watches.volumes.clone(),
        classes: watches.classes.clone(),
        groups: scheduler::groups::Groups::default(),
        kinds: kinds.clone(),
        recorder: recorder.named("default-scheduler"),
    }
}

fn keeping(
    clients: &Clients,
    watches: &Watches,
    recorder: &Recorder,
    folder: Option<std::path::PathBuf>,
) -> volumes::Context {
    volumes::Context {
        client: clients.account("persistent-volume-binder"),
        claims: watches.claims.clone(),
        volumes: watches.volumes.clone(),
        classes: watches.classes.clone(),
        pods: watches.pods.clone(),
        nodes: watches.nodes.clone(),
        recorder: recorder.named("persistentvolume-controller"),
        folder,
    }
}
