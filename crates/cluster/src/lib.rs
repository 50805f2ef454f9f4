//! The embedded cluster: a Kubernetes API, the controllers that a job needs, a scheduler, and a node that runs pods
//! as local processes, in one process.
//!
//! It is a Kubernetes API, not a second backend: what works on it works on a cluster, and what it lacks it refuses
//! with a Kubernetes `Status`. It knows `api` and nothing above it: no MPIJob logic belongs here.
//!
//! How data walks: a request comes in over TLS or from the in-process client, [`apiserver`] authenticates it, decodes
//! and admits it, [`store`] commits it under the next resourceVersion, watchers see it; `controllers`, `scheduler` and
//! `node` are ordinary clients of the same API.

pub mod node;
pub mod controllers;
pub mod objects;
pub mod patch;
pub mod scheduler;
pub mod schema;
