//! The API server: turns HTTP requests into responses, on top of the store.
//!
//! How a request is processed: [`auth`] authenticates the user, [`route`] derives the action from method and
//! path, [`auth`] authorizes it, [`query`] and [`negotiate`] parse the parameters and the response format.
//! Then one of [`read`], [`watch`], [`create`], [`update`], [`patching`], [`delete`], [`subresources`],
//! [`reviews`] handles it, using [`objects`] and the store; [`reply`] writes the response. An error at any step
//! becomes a `Status` ([`status`]). The loopback listener ([`listen`]) and the in-process client share this
//! path.
//!
//! The API server does no controller's work: what a controller does in Kubernetes, a controller does here.

pub mod admission;
pub mod audit;
pub mod auth;
mod body;
pub mod bootstrap;
mod catalog;
pub mod compaction;
mod create;
mod decoding;
mod definitions;
mod delete;
mod discovery;
mod dispatch;
mod documents;
mod endpoint;
mod eviction;
pub mod expiry;
mod find;
mod generated_names;
pub mod guests;
#[cfg(test)]
mod hostile;
mod in_process;
pub mod listen;
mod managed;
mod metrics;
mod negotiate;
mod openapi;
mod openapi_protobuf;
mod owners;
mod patching;
mod protobuf;
mod query;
mod read;
mod reply;
mod request_context;
mod reviews;
mod route;
mod scale;
mod selection;
mod service_accounts;
pub mod services;
mod status;
pub mod store;
pub mod streams;
mod subresources;
pub mod tls;
mod token_request;
mod type_meta;
mod update;
mod versions;
mod watch;

use std::sync::{Arc, PoisonError, RwLock};

pub use ::kubelet;
pub use definitions::restore;
pub use endpoint::Endpoint;
pub use reply::Body;

use audit::Audit;
use auth::Identities;
use auth::authority::Authority;
use catalog::Catalog;
use kubelet::Kubelets;

use crate::store::{Resource, Store};

/// The API server. One instance serves all endpoints of a cluster.
pub struct ApiServer {
    store: Arc<Store>,
    catalog: RwLock<Arc<Catalog>>,
    identities: Identities,
    authority: Authority,
    /// Whether the admission plug-in ServiceAccount is enabled.
    admits_service_accounts: bool,
    audit: Option<Arc<Audit>>,
    /// The nodes that serve logs and streams.
    pub kubelets: Kubelets,
    compaction: compaction::Compaction,
    hooks: admission::Hooks,
    policies: admission::Policies,
    /// The open streams into pods.
    pub sessions: streams::Sessions,
    quotas: admission::quota::Quotas,
    services: services::Services,
}

impl ApiServer {
    /// Returns the CA certificate, in PEM, of the client certificate that this server presents to webhooks
    /// that request one. Each process generates a new one.
    pub fn webhook_authority(&self) -> Option<String> {
        self.hooks.identity().map(|identity| identity.authority.clone())
    }

    /// Creates a server on an existing store. It serves the built-in kinds.
    pub fn new(store: Arc<Store>, identities: Identities) -> Self {
        Self {
            authority: Authority::new(store.clone()),
            admits_service_accounts: false,
            audit: None,
            store,
            catalog: RwLock::new(Arc::new(Catalog::of_builtin(&served()))),
            identities,
            kubelets: Kubelets::default(),
            compaction: compaction::Compaction::default(),
            hooks: admission::Hooks::default(),
            policies: admission::Policies::default(),
            sessions: streams::Sessions::default(),
            quotas: admission::quota::Quotas::default(),
            services: services::Services::default(),
        }
    }

    /// Enables the admission plug-in ServiceAccount, for a cluster whose controllers create the account
    /// `default`.
    #[must_use]
    pub fn with_service_accounts(self) -> Self {
        Self { admits_service_accounts: true, ..self }
    }

    /// Enables audit logging of every request.
    #[must_use]
    pub fn with_audit(self, audit: Option<Audit>) -> Self {
        Self { audit: audit.map(Arc::new), ..self }
    }

    /// Returns the server's store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change_catalog(&self, change: impl Fn(&Catalog) -> Catalog) {
        let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        *catalog = Arc::new(change(&catalog));
    }
}

/// Returns the built-in kinds: those in the store, and the metrics that are read from the nodes.
fn served() -> Vec<Arc<objects::Kind>> {
    objects::builtin_kinds().iter().cloned().chain(metrics::kinds()).collect()
}

/// The namespaces that always exist (`pkg/controlplane/controller/systemnamespaces`).
pub const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Returns the resource `namespaces`.
pub fn namespaces() -> Resource {
    Resource::new("", "namespaces")
}
