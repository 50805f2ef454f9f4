//! Bounds the connections of a server, and the memory of what clients send over them ([`Budget`]): in total and of one
//! client.
//!
//! A connection takes a [`Slot`] and is *silent* until the server keeps it, for example because a request was
//! authenticated. Silent connections block nobody: when there is no room for another, the one that was silent for longest
//! is displaced, of the same peer if that has too many, otherwise of the peer with the most of them. Only kept connections
//! can exhaust the limits.

mod budget;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

pub use budget::{Budget, Exhausted, Share, containers};

/// The slots of one server.
#[derive(Debug)]
pub struct Slots {
    state: Mutex<State>,
    most: usize,
    most_of_peer: usize,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    peers: HashMap<IpAddr, Peer>,
}

#[derive(Debug, Default)]
struct Peer {
    kept: usize,
    /// The one that was silent for longest first; each with the token that is cancelled when it is displaced.
    silent: BTreeMap<u64, CancellationToken>,
}

impl Peer {
    fn count(&self) -> usize {
        self.kept + self.silent.len()
    }

    /// Displaces the connection that was silent for longest; false if there is none.
    fn displace(&mut self) -> bool {
        let oldest = self.silent.pop_first();
        oldest.map(|(_, displaced)| displaced.cancel()).is_some()
    }
}

/// The slot of one connection; dropping it frees the slot.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    peer: IpAddr,
    /// Changes when the connection is used.
    number: AtomicU64,
    displaced: CancellationToken,
}

impl Slots {
    /// Creates slots for at most this many connections, and at most this many of one peer; at least one of each.
    pub fn new(most: usize, most_of_peer: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), most: most.max(1), most_of_peer: most_of_peer.max(1) })
    }

    /// Takes a slot for a connection, if necessary that of a silent one; `None` if there is no room.
    pub fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Slot> {
        let peer = peer.to_canonical();
        let mut state = self.lock();
        let own = state.peers.get_mut(&peer);
        if own.is_some_and(|own| own.count() >= self.most_of_peer && !own.displace()) {
            return None;
        }
        if state.peers.values().map(Peer::count).sum::<usize>() >= self.most {
            let most_silent = state.peers.values_mut().max_by_key(|peer| peer.silent.len());
            if !most_silent.is_some_and(Peer::displace) {
                return None;
            }
        }
        let (number, displaced) = (state.next, CancellationToken::new());
        state.next += 1;
        state.peers.entry(peer).or_default().silent.insert(number, displaced.clone());
        drop(state);
        Some(Slot { slots: self.clone(), peer, number: AtomicU64::new(number), displaced })
    }

    // After a panic between two steps of counting, at worst one slot stays taken.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// The peer's address; an IPv4 address is never written as IPv6.
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// The key among the silent connections; only changed while the state is locked.
    fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Records that the connection is used: of the connections that are not kept, it is the last to be displaced.
    pub fn touch(&self) {
        let mut guard = self.slots.lock();
        let state = &mut *guard;
        if let Some(peer) = state.peers.get_mut(&self.peer)
            && let Some(displaced) = peer.silent.remove(&self.number())
        {
            peer.silent.insert(state.next, displaced);
            self.number.store(state.next, Ordering::Relaxed);
            state.next += 1;
        }
    }

    /// Keeps the connection: from now on it is not displaced.
    pub fn keep(&self) {
        let mut state = self.slots.lock();
        if let Some(peer) = state.peers.get_mut(&self.peer)
            && peer.silent.remove(&self.number()).is_some()
        {
            peer.kept += 1;
        }
    }

    /// Whether the connection was kept before it was displaced.
    pub fn is_kept(&self) -> bool {
        let state = self.slots.lock();
        let peer = state.peers.get(&self.peer);
        !self.displaced.is_cancelled() && peer.is_none_or(|peer| !peer.silent.contains_key(&self.number()))
    }

    /// Resolves when the connection is displaced and must close.
    pub async fn displaced(&self) {
        self.displaced.cancelled().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        let Some(peer) = state.peers.get_mut(&self.peer) else { return };
        let was_silent = peer.silent.remove(&self.number()).is_some();
        // A displaced connection is no longer counted.
        if !was_silent && !self.displaced.is_cancelled() {
            peer.kept = peer.kept.saturating_sub(1);
        }
        if peer.count() == 0 {
            state.peers.remove(&self.peer);
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
    fn a_new_connection_takes_the_slot_of_its_peers_oldest_silent_one() {
        let slots = Slots::new(8, 4);
        let mut first: Vec<Slot> = (0..4).map(|_| slots.take(address(1)).unwrap()).collect();
        let fifth = slots.take(address(1)).unwrap();
        assert!(first[0].displaced.is_cancelled() && !first[1].displaced.is_cancelled());
        // Kept connections stay; only they can block another one of the same peer.
        first[1..].iter().for_each(Slot::keep);
        fifth.keep();
        assert!(slots.take(address(1)).is_none());
        assert!(first[1].is_kept() && !first[0].is_kept());
        first.pop();
        assert!(slots.take(address(1)).is_some());
    }

    #[test]
    fn the_connection_that_was_silent_for_longest_gives_way() {
        let slots = Slots::new(8, 2);
        let (used, idle) = (slots.take(address(1)).unwrap(), slots.take(address(1)).unwrap());
        used.touch();
        let third = slots.take(address(1)).unwrap();
        assert!(idle.displaced.is_cancelled() && !used.displaced.is_cancelled());
        drop((used, idle, third));
        assert!(slots.lock().peers.is_empty());
    }

    #[test]
    fn one_peer_cannot_block_others() {
        let slots = Slots::new(8, 4);
        let kept: Vec<Slot> = (0..4).map(|_| slots.take(address(1)).unwrap()).collect();
        kept.iter().for_each(Slot::keep);
        let silent = (2..=4).flat_map(|peer| [peer; 3]).map(|peer| slots.take(address(peer)).unwrap());
        let silent: Vec<Slot> = silent.collect();
        assert_eq!(silent.iter().filter(|slot| slot.displaced.is_cancelled()).count(), 5);
        assert!(kept.iter().all(|slot| !slot.displaced.is_cancelled()));
        drop((silent, kept));
        assert!(slots.lock().peers.is_empty());
    }

    #[test]
    fn when_all_slots_are_kept_the_next_connection_is_refused() {
        let slots = Slots::new(2, 2);
        let kept: Vec<Slot> = (1..=2).map(|peer| slots.take(address(peer)).unwrap()).collect();
        kept.iter().for_each(Slot::keep);
        assert!(slots.take(address(3)).is_none());
        drop(kept);
        assert!(slots.take(address(3)).is_some());
    }

    #[test]
    fn an_ipv4_peer_is_one_peer_however_it_is_written() {
        let slots = Slots::new(8, 1);
        let first = slots.take(address(1)).unwrap();
        let IpAddr::V4(plain) = address(1) else { panic!() };
        let second = slots.take(IpAddr::V6(plain.to_ipv6_mapped())).unwrap();
        assert!(first.displaced.is_cancelled() && second.peer() == address(1));
    }
}
