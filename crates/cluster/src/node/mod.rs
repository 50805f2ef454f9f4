//! The node: runs pods as local processes, with the semantics of a kubelet.

mod mode;
pub mod sandbox;

pub use mode::{Mode, ModeChoice, ModeKind};
pub use sandbox::sandbox_main;
