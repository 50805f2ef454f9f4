//! What a person can do with training jobs, as functions on a `kube::Client`: read a manifest, build a job from
//! flags, create, get, list, describe, follow, read logs, wait, delete.
//!
//! Data comes in as bytes, flags and API objects, and goes out as values: rows, descriptions, streams of progress and
//! of log lines, and one [`Error`] whose [`Class`] is the exit code of every interface. Nothing here prints, reads
//! the environment or decides on colours; that is for whoever shows it.

pub mod manifest;

pub mod build;
pub mod submit;

pub mod delete;
pub mod describe;
pub mod explanation;
pub mod list;
pub mod logs;
pub mod pick;
pub mod progress;
pub mod view;
pub mod wait;

mod error;
mod refusal;

pub use error::{Class, Error, Fault, Position};
pub use refusal::{Attempt, explain};

use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;

/// The kind that every function here speaks of when it says "job".
pub fn mpijob_resource() -> ApiResource {
    ApiResource::erase::<api::MPIJob>(&())
}

/// MPIJobs of one namespace as raw objects, so that what a server says that we do not know is not lost.
pub fn mpijobs(client: &kube::Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &mpijob_resource())
}
