//! The operator: brings the children and the status of every MPIJob, and of every TrainJob where Kubeflow Trainer does
//! not run, to the state that `plan` computes.
//!
//! One pass over a job is [`reconcile`]: observe → validate → plan → apply → report → write status. Reads come from
//! watches that select by label, so a pass sends no request until there is something to write; Secrets are never
//! listed or watched. The operator decides nothing itself: `plan` decides what to do, and returns what is written.
//! It installs nothing in a cluster; [`install_crd`] is for the embedded one.

pub mod allocator;
mod apply;
mod capacity;
pub mod certificates;
mod context;
mod decisions;
mod error;
mod events;
pub mod fence;
mod health;
mod install;
mod keys;
mod launcher_log;
mod launcher_pod;
pub mod lease;
mod memory;
mod metrics;
pub mod monitor;
mod nodes;
mod observe;
mod owned;
mod packed;
mod pod_groups;
pub mod progress;
mod progression;
mod publish;
mod readable;
mod reconcile;
mod references;
mod run;
pub mod serve;
mod slim;
mod status;
mod trainjobs;
mod vitals;
mod watch;
pub mod webhook;

pub use context::Settings;
pub use error::{Class, Error};
pub use health::{Health, Queue};
pub use install::{install_crd, install_trainjob_crds};
pub use metrics::{Format, Metrics};
pub use run::{operate, run};
pub use vitals::Vitals;
