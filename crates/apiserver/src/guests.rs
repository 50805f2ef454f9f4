//! Limits the number of connections: a connection is kept once a request on it is authenticated. Until then others may
//! displace it, and it ends after [`GREETING_TIMEOUT`].

use std::sync::Arc;
use std::time::Duration;

use connections::{Slot, Slots};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The maximum number of connections, if the process may open enough files.
const MAX_CONNECTIONS: usize = 4096;
/// The minimum of that limit, however few files the process may open.
const MIN_CONNECTIONS: usize = 64;
/// How long a connection may take until a request on it is authenticated.
pub(super) const GREETING_TIMEOUT: Duration = Duration::from_secs(32);

/// Creates the slots of a process that can open this many files; half of them are reserved for other uses.
pub fn slots(descriptors: usize) -> Arc<Slots> {
    at_most((descriptors / 2).clamp(MIN_CONNECTIONS, MAX_CONNECTIONS))
}

/// Creates this many slots, at most half of them for one peer.
pub(super) fn at_most(most: usize) -> Arc<Slots> {
    Slots::new(most, most / 2)
}

/// Resolves when the connection must close: it is displaced, or no request on it was authenticated in time.
pub async fn outstays(slot: &Slot) {
    tokio::select! {
        () = slot.displaced() => {}
        () = tokio::time::sleep(GREETING_TIMEOUT) => {
            if slot.is_kept() {
                std::future::pending().await
            }
        }
    }
}

/// Raises this process's limit of open files to its hard limit, and returns it. Child processes that are
/// already running keep their limit.
pub fn raise_descriptor_limit() -> usize {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).map(|(soft, hard)| {
        let raised = setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map(|()| hard);
        raised.unwrap_or(soft)
    });
    match raised {
        Ok(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
        Err(error) => {
            tracing::warn!(%error, "the limit of open files cannot be read");
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_unauthenticated_connections_time_out() {
        let slots = at_most(8);
        let take = || slots.take([10, 0, 0, 1].into()).unwrap();
        let (silent, kept) = (take(), take());
        kept.keep();
        outstays(&silent).await;
        let stayed = tokio::time::timeout(GREETING_TIMEOUT * 10, outstays(&kept)).await;
        assert!(stayed.is_err());
    }
}
