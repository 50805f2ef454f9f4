//! Wire types: what stands in YAML, in the API server and in every client, and nothing else.
//!
//! This crate holds serde types and their schema. It computes nothing: defaults, validation and status are
//! `plan`'s, so that they have one home. Names and texts follow Kubeflow's MPI Operator v2
//! (`kubeflow/mpi-operator`, `pkg/apis/kubeflow/v2beta1/types.go`); what we add is additive and says so.

mod conditions;
mod crd;
mod mpijob;
mod names;

pub use conditions::*;
pub use crd::mpijob_crd;
pub use mpijob::*;
pub use names::*;
