//! The command's output on the caller's side. Each stream has its own writer thread: the caller's stdout and stderr
//! may be shared with other processes, so they cannot be made non-blocking, while signals and pings must go on.
//!
//! At most [`WINDOW`](crate::wire::WINDOW) bytes wait here: the agent sends more only after it has been given
//! credit.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Enough for a loop around `write`.
const STACK: usize = 64 * 1024;

/// The writing end of one of the caller's streams.
pub struct Sink {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    ended: bool,
    written: u32,
    broken: bool,
}

/// What a sink has written since the last call of [`Sink::progress`].
pub struct Progress {
    /// Bytes written, or dropped because nobody reads them any more.
    pub written: u32,
    /// Nobody reads any more.
    pub broken: bool,
}

impl Sink {
    /// Starts the thread. It writes a byte to `wake` after each piece, so that a poll loop can call
    /// [`Sink::progress`].
    pub fn start(target: OwnedFd, wake: OwnedFd) -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .stack_size(STACK)
            .spawn(move || write_all(&of_thread, &target, &File::from(wake)))?;
        Ok(Self { shared, thread })
    }

    /// Hands a piece over to the thread.
    pub fn push(&self, piece: Vec<u8>) {
        self.shared.lock().waiting.push_back(piece);
        self.shared.changed.notify_one();
    }

    /// Returns what has been written since the last call, once that is at least `step` bytes or nothing waits.
    pub fn progress(&self, step: u32) -> Progress {
        let mut state = self.shared.lock();
        let written = match state.written >= step || state.waiting.is_empty() {
            true => std::mem::take(&mut state.written),
            false => 0,
        };
        Progress { written, broken: state.broken }
    }

    /// Waits until everything has been written.
    pub fn finish(self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_one();
        drop(self.thread.join());
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.lock();
        loop {
            if let Some(piece) = state.waiting.pop_front() {
                return Some(piece);
            }
            if state.ended {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn write_all(shared: &Shared, target: &OwnedFd, mut wake: &File) {
    let mut broken = false;
    while let Some(piece) = shared.next() {
        broken = broken || write_piece(target, &piece).is_err();
        let mut state = shared.lock();
        state.written = state.written.saturating_add(u32::try_from(piece.len()).unwrap_or(u32::MAX));
        state.broken = broken;
        drop(state);
        // If the pipe is full, the loop has a wake-up pending already.
        drop(wake.write(&[0]));
    }
}

fn write_piece(target: &OwnedFd, mut piece: &[u8]) -> Result<(), Errno> {
    while !piece.is_empty() {
        match nix::unistd::write(target, piece) {
            Ok(count) => piece = &piece[count..],
            Err(Errno::EINTR) => {}
            // Another process made the shared file description non-blocking.
            Err(Errno::EAGAIN) => {
                poll(
                    &mut [PollFd::new(std::os::fd::AsFd::as_fd(target), PollFlags::POLLOUT)],
                    PollTimeout::NONE,
                )?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
