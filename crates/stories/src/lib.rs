//! What the stories share: a person's home with its own cluster, commands typed in it, bounded waiting, and a
//! record of the mode that each story ran in.
//!
//! A story uses `odh` and `kubectl` as a person would, and checks what they print. It must not use the product's
//! code: what it cannot see from outside, a person cannot see either.

#![expect(clippy::panic, clippy::expect_used, reason = "a story that cannot go on fails, with what it saw")]

mod home;
mod machine;
mod modes;
mod mpi_job;
mod waiting;

pub use home::{Answer, EXAMPLES_IMAGE, Home, places};
pub use machine::{
    Leftovers, a_process_of, first_process_of, in_network_of, kill_process, permits_root, permits_rootless,
};
pub use modes::{Mode, record};
pub use mpi_job::{Job, quoted};
pub use waiting::{eventually, within};
