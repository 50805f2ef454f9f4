//! Wire types: what appears in YAML, in the API server and in every client, and nothing else.
//!
//! This crate holds serde types and their schema. It computes nothing: defaults, validation and status belong to
//! `plan`, so that each exists once. Names and texts follow Kubeflow's MPI Operator v2 (`kubeflow/mpi-operator`,
//! `pkg/apis/kubeflow/v2beta1/types.go`); everything that we add is additive and documented as ours.

mod conditions;
mod crd;
mod mpijob;
mod names;

pub use conditions::*;
pub use crd::mpijob_crd;
pub use mpijob::*;
pub use names::*;
