//! Reading from a cluster, tested against the embedded cluster's API.

mod progress;
mod server;
