//! Decides what to do about a TrainJob (Kubeflow Trainer), as pure functions, by the same steps as for an MPIJob:
//! [`validate`] → [`plan`] → [`report`].
//!
//! A TrainJob and the snapshot of its runtime become the Jobs that upstream's JobSet would have: same names, labels,
//! counts and order, because Kueue and Trainer's SDK compute and select them. There is no child MPIJob, which Kueue
//! would take for a second workload, and no JobSet. Transport, keys, hostfile and diagnosis are those of MPIJobs.

mod admission;
mod job_set;
mod merge;
mod objects;
mod observed;
mod planning;
mod pods;
mod progress;
mod report;
mod runtime;
mod valid;
mod validate;

pub use admission::{forbidden_changes, patch_times};
pub use job_set::{JobSet, Mpi, Need, Replicated, asked};
pub use objects::{Hosts, hostfile_name, job_name, key_name, read_hostfile};
pub use observed::SeenTrainJob;
pub use planning::{DEADLINE, ENDINGS, Ending, TrainJobOutlook, TrainJobPlan, deadline_failure, plan};
pub use progress::authority_name;
pub use report::{TrainJobReport, reject, report, without_runtime};
pub use runtime::{Runtime, snapshot_name, snapshot_text};
pub use valid::{GangPolicy, ValidTrainJob};
pub use validate::{Refusal, ineffective, is_ours, runtime_faults, runtime_ref, validate, warnings};
