//! Who is connected: how many connections there may be, of all peers and of each.
//!
//! A connection is a *stranger* until a request on it has shown valid credentials. A stranger keeps nobody out: it has
//! [`GREETING_TIMEOUT`] to become known, and where there is no room for a new connection the oldest stranger has to go,
//! one of the same peer first. Only known connections can fill the place, and those of one peer no more than half of it.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio_util::sync::CancellationToken;

/// Connections at a time, where the process may open enough files.
const MAX_CONNECTIONS: usize = 4096;
/// Connections at a time, however few files the process may open.
const MIN_CONNECTIONS: usize = 64;
/// How long a connection may take until a request has shown credentials.
pub(super) const GREETING_TIMEOUT: Duration = Duration::from_secs(32);

/// See the module. Shared by all listeners of one API server.
pub struct Guests {
    state: Mutex<State>,
    /// Of all peers together.
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
    /// By age, the oldest first; each with what ends it.
    strangers: BTreeMap<u64, CancellationToken>,
}

impl Peer {
    fn count(&self) -> usize {
        self.known + self.strangers.len()
    }

    /// Ends the oldest stranger; false where there is none.
    fn evict(&mut self) -> bool {
        let oldest = self.strangers.pop_first();
        oldest.map(|(_, end)| end.cancel()).is_some()
    }
}

/// One connection, counted for as long as this lives.
pub struct Guest {
    guests: Arc<Guests>,
    peer: IpAddr,
    number: u64,
    /// Cancelled when it has to make room.
    end: CancellationToken,
}

impl Guests {
    /// As many as a process may have that can open this many files; half of them are left for everything else.
    pub fn new(descriptors: usize) -> Arc<Self> {
        Self::at_most((descriptors / 2).clamp(MIN_CONNECTIONS, MAX_CONNECTIONS))
    }

    /// As many as this, all peers together.
    pub(super) fn at_most(most: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), most })
    }

    /// Takes in a new connection, if need be in the place of the oldest stranger; `None` where there is no room.
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

    // Poisoned by a panic between two steps of counting: the worst is a place that stays taken.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    /// A request on the connection has shown valid credentials.
    pub fn know(&self) {
        let mut state = self.guests.lock();
        if let Some(peer) = state.peers.get_mut(&self.peer)
            && peer.strangers.remove(&self.number).is_some()
        {
            peer.known += 1;
        }
    }

    /// Resolves when the connection has to end: it makes room for another, or it has stayed a stranger for too long.
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
        // One that had to make room is counted no more.
        if !was_stranger && !self.end.is_cancelled() {
            peer.known = peer.known.saturating_sub(1);
        }
        if peer.count() == 0 {
            state.peers.remove(&self.peer);
        }
    }
}

/// Lets this process open as many files as its hard limit permits, and returns how many those are. Processes that have
/// been started before keep the limit that they have.
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
        // Those that are known stay, and only they can keep another one of the same peer out.
        first[1..].iter().for_each(|guest| guest.know());
        fifth.know();
        assert!(guests.admit(address(1)).is_none());
        first.pop();
        assert!(guests.admit(address(1)).is_some());
    }

    #[test]
    fn one_peer_keeps_no_other_out() {
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
    async fn a_stranger_has_a_while_and_who_is_known_stays() {
        let guests = Guests::at_most(8);
        let (stranger, known) = (guests.admit(address(1)).unwrap(), guests.admit(address(1)).unwrap());
        known.know();
        stranger.outstays().await;
        let stayed = tokio::time::timeout(GREETING_TIMEOUT * 10, known.outstays()).await;
        assert!(stayed.is_err());
    }
}
