//! The methods of the contract, each as one function over typed messages: the same for both protocols.
//!
//! A method runs after its caller is known and permitted ([`crate::call`]). What it does in the cluster it does with the
//! library `jobs` and the caller's own client; what it shows of many jobs comes from the board.

mod advice;
mod alerts;
mod artifacts;
mod audit;
mod availability;
mod batch;
mod capacity;
mod choices;
mod cost;
mod create;
mod faults;
mod gpus;
mod history;
mod identity;
mod job;
mod list;
mod logs;
mod measured;
mod metrics;
mod namespaces;
mod notifications;
mod overview;
mod patience;
mod ran;
mod related;
mod render;
mod rerun;
mod signin;
mod source;
mod stream;
mod suspension;
mod templates;
mod tenant;
mod usage;
mod values;
mod visible;

pub use self::history::get_history;
pub use advice::list_advice;
pub use alerts::list_alerts;
pub use artifacts::{list_artifacts, read_artifact, start_reader};
pub use audit::{export_audit, list_audit, record, record_admissions};
pub use availability::check_availability;
pub use batch::batch_jobs;
pub use capacity::check_capacity;
pub use choices::list_choices;
pub use create::create_job;
pub use gpus::list_gpus;
pub use identity::get_identity;
pub use job::{compare_jobs, delete_job, export_job, get_job, list_events};
pub use list::list_jobs;
pub use logs::read_logs;
pub use metrics::get_metrics;
pub use namespaces::list_namespaces;
pub use notifications::{
    delete_notification_rule, get_notification_rule, list_deliveries, list_notification_rules,
    put_notification_rule, test_notification_rule,
};
pub use overview::get_overview;
pub use related::list_related_jobs;
pub use render::render_job;
pub use rerun::{clone_job, retry_job};
pub use signin::create_sign_in;
pub use stream::watch_jobs;
pub use suspension::{cancel_job, resume_job, suspend_job};
pub use templates::{delete_template, get_template, list_templates, save_template};
pub use usage::list_usage;
