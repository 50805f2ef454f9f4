//! The methods of the contract, each as one function over typed messages: the same for both protocols.
//!
//! A method runs after its caller is known and permitted ([`crate::call`]). What it does in the cluster it does with the
//! library `jobs` and the caller's own client; what it shows of many jobs comes from the board.

mod batch;
mod create;
mod identity;
mod job;
mod list;
mod logs;
mod rerun;
mod source;
mod stream;
mod suspension;
mod visible;

pub use batch::batch_jobs;
pub use create::{check_availability, create_job};
pub use identity::get_identity;
pub use job::{compare_jobs, delete_job, export_job, get_job, list_events};
pub use list::list_jobs;
pub use logs::read_logs;
pub use rerun::{clone_job, retry_job};
pub use stream::watch_jobs;
pub use suspension::{resume_job, suspend_job};
