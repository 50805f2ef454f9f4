//! Stories: what people do, as they see it. One file for each person's goal.

#![expect(clippy::expect_used, reason = "a story that cannot go on fails, with what it saw")]

mod as_on_a_cluster;
mod bad_input;
mod clean_up;
mod command_line;
mod documents;
mod examples;
mod exceptions;
mod failures;
mod implementations;
mod isolation;
mod kept_state;
mod kubectl;
mod less_to_type;
mod main_job;
mod many_workers;
mod network;
mod restart;
mod service;
mod trainjob;
mod unprivileged;
mod users;
mod worker_lost;
