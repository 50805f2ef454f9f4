//! What the library does on an API server, in this process.

mod progress;
mod server;
