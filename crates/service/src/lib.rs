//! The training service: one API, over REST and gRPC, for every person and program that works with training jobs.
//!
//! The contract is `proto/training/v1`: from it come the messages, the adapters of both protocols, the OpenAPI document
//! and its page (`build/`). Each method is one function in [`methods`]. A call takes the same steps over both
//! protocols ([`call`]):
//!
//! ```text
//! REST ─▶ rest ─┐         identity   limits   access
//!               ├─▶ call ─▶ who? ──▶ often? ─▶ may? ─▶ methods ─▶ jobs, as the caller ─▶ Kubernetes
//! gRPC ─▶ grpc ─┘                                        └──────▶ board (rows, cut to what the caller may see)
//!                                                        watch ──▶ board
//! ```
//!
//! A browser's session becomes the bearer token of its request before these steps ([`browser`]). The dashboard is files that
//! anybody may read ([`dashboard`]).
//!
//! Around these steps, a call has a span of OpenTelemetry ([`spans`]), which is exported if the program is started with an
//! endpoint ([`traces`]).
//!
//! What pods used comes from [`samples`], which is kept in memory, and from a Prometheus ([`telemetry`]), if there is one.
//!
//! The service acts as its caller: requests to the cluster carry the caller's own token. Its own account reads jobs, their pods
//! and what is recorded and summed of them, and reviews tokens and permissions; it can change nothing.

pub mod contract;
mod json;
mod problem;

mod operation;
mod spans;
mod store;

mod access;
mod answers;
mod attachment;
mod audit;
mod body;
mod identity;
mod interval;
mod limits;
mod message;
mod metrics;
mod patterns;
mod turns;

mod board;
mod filter;
mod gpus;
mod program;
mod recorder;
mod rooms;
mod row;
mod samples;
mod seen;
mod unknown;
mod watch;

pub mod prometheus;
mod promql;
mod telemetry;

mod collector;
mod conditions;
mod ledger;
mod owners;
mod peaks;
mod places;
mod pods;
mod printed;
mod queues;
mod searches;
mod upkeep;

mod tenants;

mod service;

mod call;
mod methods;

mod adapters;
mod grpc;
mod response;
mod rest;

mod browser;
mod dashboard;
mod guide;
mod origin;
mod page;
mod session;
mod signin;

mod pages;
mod server;
pub mod tls;
pub mod traces;

pub use adapters::METHODS;
pub use history::logs::Bucket;
pub use methods::record as record_admissions;
pub use origin::Origin;
pub use problem::Problem;
pub use prometheus::Prometheus;
pub use server::serve;
pub use service::{Service, Settings};
pub use store::{Keep, Outgoing, Retention, STORE_URL, store_url};
