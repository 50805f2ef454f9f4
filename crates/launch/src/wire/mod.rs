//! The protocol between caller and agent: a handshake that proves the key on both sides, then sealed frames. Bytes
//! in, bytes out; no sockets here.

pub mod backlog;
pub mod frame;
pub mod handshake;
pub mod sealed;

/// The first version of the protocol, and the only one so far.
pub const VERSION: u8 = 1;
/// The most bytes of one stream that a sender may have in flight before the receiver has reported them written.
/// This bounds memory, and lets signals and pings overtake a stream that nobody reads.
pub const WINDOW: u32 = 256 * 1024;
/// A receiver returns credit in steps of this many bytes.
pub const CREDIT_STEP: u32 = 64 * 1024;
/// The most bytes of a stream in one frame.
pub const CHUNK: usize = 32 * 1024;
/// The longest command: the kernel's own limit for one argument (`MAX_ARG_STRLEN`), less the terminating zero.
pub const MAX_COMMAND: usize = 128 * 1024 - 1;
