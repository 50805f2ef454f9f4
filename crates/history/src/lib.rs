//! What survives a training job and its pods: its states, attempts and specs, its logs, the metrics that it printed, what
//! it used, who did what to it, and the notifications about it. Also the sessions of browsers, which survive the service.
//!
//! Everything is in one [`store::Store`]: SQLite by default, PostgreSQL by configuration, through the same queries. Only
//! the chunks of logs are outside, in an object store ([`logs`]). Several processes may share one store: whatever two of
//! them report is stored once. A function that returns `Ok` from a write has made it durable.
//!
//! Data comes in as this crate's own plain types. It serves no requests and knows no Kubernetes client.

pub mod error;
pub mod store;

pub mod audit;
pub mod jobs;
pub mod logs;
pub mod namespaces;
pub mod notifications;
pub mod peaks;
pub mod series;
pub mod sessions;
pub mod usage;

pub use error::Error;
pub use store::Store;
