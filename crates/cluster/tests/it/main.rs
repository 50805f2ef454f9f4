//! The embedded cluster against the real thing: real processes, real sockets.

mod sandbox;
