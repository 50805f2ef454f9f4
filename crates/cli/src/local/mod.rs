//! `odh local …`: a private cluster on this machine.
//!
//! `up` starts this same program in the background (`server`); all other verbs communicate with it through its state
//! file, its lock and its API. All state is in one directory (`home`). A client that is built without the feature
//! `local` only checks whether such a cluster is up.

#[cfg_attr(not(feature = "local"), expect(dead_code, reason = "a client alone only looks for one"))]
pub mod home;
#[cfg_attr(not(feature = "local"), expect(dead_code, reason = "a client alone only looks for one"))]
pub mod state;

#[cfg(feature = "local")]
mod adopt;
#[cfg(feature = "local")]
mod audit;
#[cfg(feature = "local")]
mod dashboard;
#[cfg(feature = "local")]
mod disk;
#[cfg(feature = "local")]
mod doctor;
#[cfg(feature = "local")]
mod down;
#[cfg(feature = "local")]
mod image;
#[cfg(feature = "local")]
mod launch_agent;
#[cfg(feature = "local")]
mod log;
#[cfg(feature = "local")]
mod node;
#[cfg(feature = "local")]
mod remembered;
#[cfg(feature = "local")]
mod roles;
#[cfg(feature = "local")]
mod run;
#[cfg(feature = "local")]
mod runtimes;
#[cfg(feature = "local")]
mod server;
#[cfg(feature = "local")]
mod service;
#[cfg(feature = "local")]
mod status;
#[cfg(feature = "local")]
mod up;
#[cfg(feature = "local")]
mod user;
#[cfg(feature = "local")]
mod variables;

#[cfg(feature = "local")]
use std::process::ExitCode;

#[cfg(feature = "local")]
use crate::arguments::{Global, LocalVerb};
#[cfg(feature = "local")]
use crate::console::Console;
#[cfg(feature = "local")]
use crate::failure::Failure;

/// Runs a verb; returns the exit code.
#[cfg(feature = "local")]
pub fn run(console: &Console, global: &Global, verb: &LocalVerb) -> Result<u8, Failure> {
    match verb {
        LocalVerb::Up(up) => up::run(console, up),
        LocalVerb::Down(down) => down::run(console, down),
        LocalVerb::Status(status) => status::status(console, status),
        LocalVerb::Kubeconfig(kubeconfig) => status::kubeconfig(console, kubeconfig),
        LocalVerb::Dashboard(dashboard) => crate::runtime()?.block_on(dashboard::run(console, dashboard)),
        LocalVerb::Run(run) => crate::runtime()?.block_on(run::run(console, global, run)),
        LocalVerb::User(user) => crate::runtime()?.block_on(user::run(console, global, user)),
        LocalVerb::Doctor(doctor) => doctor::run(console, doctor),
        LocalVerb::Image { verb } => image::run(console, verb),
        LocalVerb::Node { verb } => crate::runtime()?.block_on(node::run(console, verb)),
    }
}

/// The first process of a pod's sandbox, for which this program was started.
#[cfg(feature = "local")]
pub fn sandbox() -> ExitCode {
    cluster::node::sandbox_main()
}
