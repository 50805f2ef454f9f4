//! The embedded cluster against the real thing: real processes, real sockets.

mod api;
mod kubectl;
mod sandbox;
mod served;
