//! What a user can do with training jobs, as functions on a `kube::Client`: read a manifest, build a job from flags,
//! create, get, list, describe, follow, read logs, wait, delete, suspend, run again, compare, explain, export, keep
//! templates. Every front end uses them: the command line, and a service for other programs.
//!
//! The inputs are bytes, flags and API objects. The outputs are values: rows, descriptions, streams of progress and of
//! log lines, and one [`Error`] whose [`Class`] determines the exit code in every interface. Nothing here prints,
//! reads the environment or decides on colours; that is up to the caller.

pub mod kind;
pub mod manifest;

pub mod asked;
pub mod availability;
pub mod build;
pub mod preflight;
pub mod setting;
pub mod submit;

pub mod alike;
pub mod apply;
pub mod artifacts;
pub mod bundle;
pub mod cancel;
pub mod capacity;
pub mod choices;
pub mod compare;
pub mod delete;
pub mod describe;
pub mod detail;
pub mod events;
pub mod exec;
pub mod explanation;
pub mod export;
pub mod fix;
pub mod forward;
pub mod gpus;
pub mod last_lines;
pub mod list;
pub mod live;
pub mod logs;
pub mod mistyped;
pub mod overview;
pub mod pick;
pub mod prices;
pub mod progress;
pub mod queue;
pub mod redaction;
pub mod reference;
pub mod rerun;
pub mod runtime;
pub mod scale;
pub mod sizing;
pub mod standard;
pub mod suspension;
pub mod template;
mod template_rules;
pub mod usage;
pub mod view;
pub mod wait;

mod cluster_queue;
mod error;
mod flat;
mod part;
mod refusal;

pub use cluster_queue::UnknownQuota;
pub use error::{Class, Error, Fault, Position};
pub use kind::{Kind, LABEL_JOB_SET};
pub use plan::{Action, Advice, JobRef};
pub use refusal::{ADMISSION_UNAVAILABLE, Attempt, FIELD_MANAGER_CONFLICT};
