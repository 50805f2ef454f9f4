//! `odh local …`: a cluster of one's own on this machine.
//!
//! `up` starts this same program in the background (`server`); everything else talks to that through its state file,
//! its lock and its API. The state lies in one directory (`home`) and nowhere else.

pub mod home;
pub mod state;

mod doctor;
mod down;
mod log;
mod node;
mod roles;
mod run;
mod server;
mod status;
mod up;
mod user;

use std::process::ExitCode;

use crate::arguments::{Global, LocalVerb};
use crate::console::Console;
use crate::failure::Failure;

/// Runs a verb; the exit code.
pub fn run(console: &Console, global: &Global, verb: &LocalVerb) -> Result<u8, Failure> {
    match verb {
        LocalVerb::Up(up) => up::run(console, up),
        LocalVerb::Down(down) => down::run(console, down),
        LocalVerb::Status(status) => status::status(console, status),
        LocalVerb::Kubeconfig(kubeconfig) => status::kubeconfig(console, kubeconfig),
        LocalVerb::Run(run) => crate::runtime()?.block_on(run::run(console, global, run)),
        LocalVerb::User(user) => crate::runtime()?.block_on(user::run(console, global, user)),
        LocalVerb::Doctor(doctor) => doctor::run(console, doctor),
        LocalVerb::Node { verb } => crate::runtime()?.block_on(node::run(console, verb)),
    }
}

/// The first process of a pod's sandbox: this program was started for that alone.
pub fn sandbox() -> ExitCode {
    cluster::node::sandbox_main()
}
