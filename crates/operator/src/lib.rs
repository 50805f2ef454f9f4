//! The operator: keeps every MPIJob's children and status as `plan` says they should be.
//!
//! One pass over a job is [`reconcile`]: observe → validate → plan → apply → report → write status. Reads come from
//! watches that select by label, so a pass costs no request until something is to be written; Secrets are never
//! listed or watched. It decides nothing itself: what to do is `plan`'s, and what is written is what `plan` returned.
//! It installs nothing in a cluster; [`install_crd`] is for the embedded one.

mod apply;
mod error;
mod events;
mod install;
mod keys;
mod launcher_log;
mod memory;
mod observe;
mod reconcile;
mod run;
mod status;
mod watch;

pub use error::{Class, Error};
pub use install::install_crd;
pub use run::{Settings, run};
