//! The service over real connections, REST and gRPC, on the embedded cluster's API, without controllers and node: the
//! tests play the operator.

#![expect(clippy::unwrap_used, reason = "a test's own steps end it where they fail")]
#![expect(clippy::panic, reason = "a test's own steps end it where they fail")]

mod advice;
mod alerting;
mod artifacts;
mod auditing;
mod authorization;
mod browser;
mod choices;
mod contract;
mod every_method;
mod gpus;
mod hostile;
mod install;
mod jobs;
mod keeping;
mod kills;
mod line;
mod lists;
mod logs;
mod metrics;
mod newer;
mod notifying;
mod overview;
#[expect(dead_code, reason = "the tests of `history` use more of it")]
#[path = "../../../history/tests/it/place.rs"]
mod place;
mod prometheus;
mod site;
mod stage;
mod stores;
mod streams;
mod table;
mod templates;
mod traces;
mod trouble;
mod unread;
