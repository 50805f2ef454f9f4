//! The service over real connections, REST and gRPC, on the embedded cluster's API, without controllers and node: the
//! tests play the operator.

#![expect(clippy::unwrap_used, reason = "a test's own steps end it where they fail")]
#![expect(clippy::panic, reason = "a test's own steps end it where they fail")]

mod authorization;
mod contract;
mod hostile;
mod jobs;
mod lists;
mod logs;
mod stage;
mod streams;
