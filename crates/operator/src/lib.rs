//! The operator: keeps every MPIJob's children and status as `plan` says they should be.
//!
//! One pass over a job is [`reconcile`]: observe → validate → plan → apply → report → write status. Reads come from
//! watches that select by label, so a pass costs no request until something is to be written; Secrets are never
//! listed or watched. It decides nothing itself: what to do is `plan`'s, and what is written is what `plan` returned.
//! It installs nothing in a cluster; [`install_crd`] is for the embedded one.

mod apply;
mod capacity;
pub mod certificates;
mod error;
mod events;
pub mod fence;
mod health;
mod install;
mod keys;
mod launcher_log;
pub mod lease;
mod memory;
mod metrics;
pub mod monitor;
mod nodes;
mod observe;
mod places;
mod pod_groups;
mod reconcile;
mod run;
pub mod serve;
mod status;
mod vitals;
mod watch;
pub mod webhook;

pub use error::{Class, Error};
pub use health::{Health, Queue};
pub use install::install_crd;
pub use metrics::{Format, Metrics};
pub use run::{Settings, operate, run};
pub use vitals::Vitals;
