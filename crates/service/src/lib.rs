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
//! The service acts as its caller: requests to the cluster carry the caller's own token. Its own account watches jobs
//! for the board, and reviews tokens and permissions; it can do nothing else.

pub mod contract;
mod json;
mod problem;

mod access;
mod identity;
mod limits;
mod metrics;

mod board;
mod filter;
mod row;
mod watch;

mod service;

mod call;
mod methods;

mod adapters;
mod grpc;
mod rest;

mod pages;
mod server;
pub mod tls;

pub use adapters::METHODS;
pub use problem::Problem;
pub use server::serve;
pub use service::{Service, Settings};
