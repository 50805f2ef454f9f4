//! What is read of a cluster, on the embedded one's API.

mod reading;
mod stage;
