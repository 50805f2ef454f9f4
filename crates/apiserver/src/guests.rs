//! Limits the number of connections, in total and per peer.
//!
//! A connection is a *stranger* until a request on it is authenticated. Strangers block nobody: each must
//! authenticate within [`GREETING_TIMEOUT`], and if there is no room for a new connection, the oldest
//! stranger is closed, preferably one of the same peer. Only authenticated connections can exhaust the limit,
//! and those of one peer at most half of it.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio_util::sync::CancellationToken;

/// The maximum number of connections, if the process may open enough files.
const MAX_CONNECTIONS: usize = 4096;
/// The minimum of that limit, however few files the process may open.
const MIN_CONNECTIONS: usize = 64;
/// How long a connection may take until a request on it is authenticated.
pub(super) const GREETING_TIMEOUT: Duration = Duration::from_secs(32);

/// The connection limiter, shared by all listeners of one API server.
pub struct Guests {
    state: Mutex<State>,
    /// The limit over all peers.
    most: usize,
}

#[derive(Default)]
struct State {
    next: u64,
    peers: HashMap<IpAddr, Peer>,
}

#[derive(Default)]
struct Peer {
    known: usize,
    /// In order of age, oldest first; each with the token that closes it.
    strangers: BTreeMap<u64, CancellationToken>,
}

impl Peer {
    fn count(&self) -> usize {
        self.known + self.strangers.len()
    }

    /// Closes the oldest stranger; false if there is none.
    fn evict(&mut self) -> bool {
        let oldest = self.strangers.pop_first();
        oldest.map(|(_, end)| end.cancel()).is_some()
    }
}

/// One connection; counted until dropped.
pub struct Guest {
    guests: Arc<Guests>,
    peer: IpAddr,
    number: u64,
    /// Cancelled when the connection has to make room.
    end: CancellationToken,
}

impl Guests {
    /// Creates a limiter for a process that can open this many files; half of them are reserved for other
    /// uses.
    pub fn new(descriptors: usize) -> Arc<Self> {
        Self::at_most((descriptors / 2).clamp(MIN_CONNECTIONS, MAX_CONNECTIONS))
    }

    /// Creates a limiter with this total limit.
    pub(super) fn at_most(most: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), most })
    }

    /// Admits a new connection, if necessary by closing the oldest stranger; `None` if there is no room.
    pub fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Arc<Guest>> {
        let mut state = self.lock();
        let own = state.peers.get_mut(&peer);
        if own.is_some_and(|own| own.count() >= (self.most / 2).max(1) && !own.evict()) {
            return None;
        }
        if state.peers.values().map(Peer::count).sum::<usize>() >= self.most {
            let most_strangers = state.peers.values_mut().max_by_key(|peer| peer.strangers.len());
            if !most_strangers.is_some_and(Peer::evict) {
                return None;
            }
        }
        let (number, end) = (state.next, CancellationToken::new());
        state.next += 1;
        state.peers.entry(peer).or_default().strangers.insert(number, end.clone());
        drop(state);
        Some(Arc::new(Guest { guests: self.clone(), peer, number, end }))
    }

    // After a panic between two steps of counting, at worst one slot stays occupied.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    /// Marks the connection as authenticated.
    pub fn know(&self) {
        let mut state = self.guests.lock();
        if let Some(peer) = state.peers.get_mut(&self.peer)
            && peer.strangers.remove(&self.number).is_some()
        {
            peer.known += 1;
        }
    }

    /// Resolves when the connection must close: it has to make room, or it hasn't authenticated in time.
    pub async fn outstays(&self) {
        tokio::select! {
            () = self.end.cancelled() => {}
            () = tokio::time::sleep(GREETING_TIMEOUT) => {
                if self.is_known() {
                    std::future::pending().await
                }
            }
        }
    }

    fn is_known(&self) -> bool {
        let state = self.guests.lock();
        let peer = state.peers.get(&self.peer);
        !self.end.is_cancelled() && peer.is_none_or(|peer| !peer.strangers.contains_key(&self.number))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut state = self.guests.lock();
        let Some(peer) = state.peers.get_mut(&self.peer) else { return };
        let was_stranger = peer.strangers.remove(&self.number).is_some();
        // A connection that had to make room is no longer counted.
        if !was_stranger && !self.end.is_cancelled() {
            peer.known = peer.known.saturating_sub(1);
        }
        if peer.count() == 0 {
            state.peers.remove(&self.peer);
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

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn a_new_connection_takes_the_place_of_its_peers_oldest_stranger() {
        let guests = Guests::at_most(8);
        let mut first = (0..4).map(|_| guests.admit(address(1)).unwrap()).collect::<Vec<_>>();
        let fifth = guests.admit(address(1)).unwrap();
        assert!(first[0].end.is_cancelled() && !first[1].end.is_cancelled());
        // Authenticated connections stay; only they can block another one of the same peer.
        first[1..].iter().for_each(|guest| guest.know());
        fifth.know();
        assert!(guests.admit(address(1)).is_none());
        first.pop();
        assert!(guests.admit(address(1)).is_some());
    }

    #[test]
    fn one_peer_cannot_block_others() {
        let guests = Guests::at_most(8);
        let known = (0..4).map(|_| guests.admit(address(1)).unwrap()).collect::<Vec<_>>();
        known.iter().for_each(|guest| guest.know());
        let strangers = (2..=4).flat_map(|peer| [peer; 3]).map(|peer| guests.admit(address(peer)).unwrap());
        let strangers = strangers.collect::<Vec<_>>();
        assert_eq!(strangers.iter().filter(|guest| guest.end.is_cancelled()).count(), 5);
        assert!(known.iter().all(|guest| !guest.end.is_cancelled()));
        drop((strangers, known));
        assert!(guests.lock().peers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn only_unauthenticated_connections_time_out() {
        let guests = Guests::at_most(8);
        let (stranger, known) = (guests.admit(address(1)).unwrap(), guests.admit(address(1)).unwrap());
        known.know();
        stranger.outstays().await;
        let stayed = tokio::time::timeout(GREETING_TIMEOUT * 10, known.outstays()).await;
        assert!(stayed.is_err());
    }
}
