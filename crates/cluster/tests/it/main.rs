//! The embedded cluster against the real thing: real processes, real sockets.

#[cfg(test)]
mod api;
#[cfg(test)]
mod kubectl;
mod sandbox;
#[cfg(test)]
mod served;
