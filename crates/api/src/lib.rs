//! Wire types: what appears in YAML, in the API server and in every client, and nothing else.
//!
//! This crate holds serde types and their schema. It computes nothing: defaults, validation and status belong to
//! `plan`, so that each exists once. Names and texts follow Kubeflow's MPI Operator v2 (`kubeflow/mpi-operator`,
//! `pkg/apis/kubeflow/v2beta1/types.go`) and Kubeflow Trainer (`kubeflow/trainer`, `pkg/apis/trainer/v1alpha1`); everything that we add is additive and documented as ours.

mod conditions;
mod crd;
mod definitions;
mod mpijob;
mod names;
mod trainer_crd;
mod training_runtime;
mod trainjob;

pub use conditions::*;
pub use crd::mpijob_crd;
pub use definitions::{Definition, MPIJOB_DEFINITION, TRAINER_DEFINITIONS};
pub use mpijob::*;
pub use names::*;
pub use trainer_crd::{cluster_training_runtime_crd, trainer_crds, training_runtime_crd, trainjob_crd};
pub use training_runtime::*;
pub use trainjob::*;
