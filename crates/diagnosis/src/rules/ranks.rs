//! How ranks end: killed, crashed, aborted, exited; out of memory on host and GPU; MPI's own errors.

mod ends;
mod errors;
mod resources;

use super::Rule;

/// Advice on a rank that was ended by a bus error.
pub(crate) const BUS_ERROR_ADVICE: &str = "Mount an emptyDir with medium: Memory at /dev/shm in the Workers (it counts against the memory limit): a bus error (signal 7) mostly means that /dev/shm, 64 MiB unless asked otherwise, is full. Another reason is a mapped file that was cut or whose volume is full or gone.";

/// All of them; what follows from the others is last.
pub(super) const RULES: [&[Rule]; 4] = [ends::RULES, errors::RULES, resources::RULES, ends::CONSEQUENCES];
