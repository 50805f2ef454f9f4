//! What fields of Kubernetes objects mean, wherever they are read: amounts of resources, what a pod requests, which
//! labels a selector matches, the state of a pod and what it waits for, which resources are GPUs, when a CronJob is due,
//! what is the name of an object and of an image.
//!
//! Input is typed or raw (JSON) objects, output is values. Nothing here does IO or reads the clock, and nothing knows
//! MPIJobs. The rules are those of Kubernetes 1.36; each module names their source.

mod gpus;
pub mod image_name;
pub mod kept;
pub mod local_images;
pub mod local_nodes;
mod main_container;
mod matching;
mod names;
mod pods;
mod quantity;
mod resource_as;
mod resources;
mod schedule;
mod summary;
mod waiting;

pub use gpus::{GPU_SUFFIX, INTEL_GPUS, NVIDIA_GPU, gpus, is_gpu, names_gpu};
pub use main_container::main_container;
pub use matching::{Operator, labels_match, node_matches, term_matches, tolerates};
pub use names::{LONGEST_SUBDOMAIN, is_label, is_subdomain};
pub use pods::{PodState, has_ended, is_deleted, is_ended_phase, is_ready, phase};
pub use quantity::{NotAQuantity, Quantity};
pub use resources::{
    Amounts, List, PodResources, add, amounts, limits_without_overhead, pod_limits, pod_requests,
    raw_amounts, requests, requests_without_overhead, subtract,
};
pub use schedule::{Schedule, ScheduleError, time_zone};
pub use summary::{ContainerView, PodSummary, Summarized, summary};
pub use waiting::{Starting, Wait, waits_for};
