//! Bounds the connections of a server, and the memory of what clients send or do not read ([`Budget`]): in total and of
//! one client. Shares of users are counted by [`share_of`].
//!
//! A connection takes a [`Slot`] and is *silent* until the server keeps it, for example because a request was
//! authenticated. Silent connections block nobody: when there is no room for another, the one that was silent for longest
//! is displaced, of the same peer if that has too many, otherwise of the peer with the most of them. Only kept connections
//! can exhaust the limits, and one user can have only so many of them kept ([`MOST_KEPT_OF_USER`]).

mod budget;
mod json;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;

pub use budget::{Budget, Exhausted, Share};
pub use json::{JsonLimits, JsonRefused, MOST_JSON_VALUES};

/// The most connections that are kept for one user, who needs only a token to open them. Further ones are served as well, and
/// make room for others when there is none.
pub const MOST_KEPT_OF_USER: usize = 128;

/// Returns the name by which a user's share of anything is counted. All service accounts of a namespace have one share: a
/// user who may create one there may create any number of them. For shares only, never for identity or permissions.
#[must_use]
pub fn share_of(user: &str) -> &str {
    const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
    let namespace = user.strip_prefix(SERVICE_ACCOUNT).and_then(|account| account.find(':'));
    namespace.map_or(user, |length| &user[..SERVICE_ACCOUNT.len() + length])
}

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
    /// The number of connections that are kept for each share of users.
    users: HashMap<String, usize>,
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
    /// Whether a user is known who has sent a request on it.
    is_known: AtomicBool,
    /// The share of users whose kept connections it is one of.
    counts_for: OnceLock<String>,
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
        let (number, is_known) = (AtomicU64::new(number), AtomicBool::new(false));
        Some(Slot { slots: self.clone(), peer, number, displaced, is_known, counts_for: OnceLock::new() })
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

    /// Keeps the connection of a known user, unless that has too many: such a one counts as used, and can be displaced.
    pub fn keep_for(&self, user: &str) {
        if self.counts_for.get().is_some() {
            return;
        }
        let user = share_of(user);
        self.is_known.store(true, Ordering::Relaxed);
        let mut guard = self.slots.lock();
        let state = &mut *guard;
        let has_room = state.users.get(user).is_none_or(|kept| *kept < MOST_KEPT_OF_USER);
        if has_room
            && let Some(peer) = state.peers.get_mut(&self.peer)
            && peer.silent.remove(&self.number()).is_some()
        {
            peer.kept += 1;
            *state.users.entry(user.to_owned()).or_default() += 1;
            // It was silent, so it counts for nobody yet.
            let _ = self.counts_for.set(user.to_owned());
        }
        drop(guard);
        self.touch();
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

    /// Whether the connection was kept, or its user is known, before it was displaced.
    pub fn is_kept(&self) -> bool {
        let state = self.slots.lock();
        let is_silent =
            state.peers.get(&self.peer).is_some_and(|peer| peer.silent.contains_key(&self.number()));
        !self.displaced.is_cancelled() && (!is_silent || self.is_known.load(Ordering::Relaxed))
    }

    /// Resolves when the connection is displaced and must close.
    pub async fn displaced(&self) {
        self.displaced.cancelled().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut guard = self.slots.lock();
        let state = &mut *guard;
        let Some(peer) = state.peers.get_mut(&self.peer) else { return };
        let was_silent = peer.silent.remove(&self.number()).is_some();
        // A displaced connection is no longer counted.
        if !was_silent && !self.displaced.is_cancelled() {
            peer.kept = peer.kept.saturating_sub(1);
            if let Some(user) = self.counts_for.get()
                && let Some(kept) = state.users.get_mut(user)
            {
                *kept = kept.saturating_sub(1);
                if *kept == 0 {
                    state.users.remove(user);
                }
            }
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
    fn one_user_cannot_block_others() {
        let slots = Slots::new(MOST_KEPT_OF_USER + 2, MOST_KEPT_OF_USER + 2);
        let take = |peer: u8| slots.take(address(peer)).unwrap();
        let of_one: Vec<Slot> = (0..MOST_KEPT_OF_USER + 2).map(|_| take(1)).collect();
        of_one.iter().for_each(|slot| slot.keep_for("eve"));
        assert!(of_one.iter().all(Slot::is_kept), "all are served while there is room");
        let other = take(2);
        other.keep_for("alice");
        assert!(other.is_kept() && of_one[MOST_KEPT_OF_USER].displaced.is_cancelled());
        assert!(of_one[..MOST_KEPT_OF_USER].iter().all(Slot::is_kept));
        drop(of_one);
        let again: Vec<Slot> = (0..MOST_KEPT_OF_USER).map(|_| take(1)).collect();
        again.iter().for_each(|slot| slot.keep_for("eve"));
        assert_eq!(slots.lock().users["eve"], MOST_KEPT_OF_USER, "those that ended count no more");
        drop((again, other));
        assert!(slots.lock().users.is_empty() && slots.lock().peers.is_empty());
    }

    #[test]
    fn service_accounts_of_a_namespace_have_one_share() {
        for (user, share) in [
            ("system:serviceaccount:team-a:bot-1", "system:serviceaccount:team-a"),
            ("system:serviceaccount:team-a:bot-2", "system:serviceaccount:team-a"),
            ("system:serviceaccount:team-b:bot-1", "system:serviceaccount:team-b"),
            ("system:serviceaccount:team-a", "system:serviceaccount:team-a"),
            ("system:serviceaccounts:team-a:x", "system:serviceaccounts:team-a:x"),
            ("system:node:node-1", "system:node:node-1"),
            ("jane", "jane"),
            ("", ""),
        ] {
            assert_eq!(share_of(user), share, "{user}");
        }
    }

    #[test]
    fn service_accounts_of_a_namespace_have_so_many_connections_kept_together() {
        let slots = Slots::new(MOST_KEPT_OF_USER + 1, MOST_KEPT_OF_USER + 1);
        let take = |number: usize| {
            let slot = slots.take(address(1)).unwrap();
            slot.keep_for(&format!("system:serviceaccount:team-a:bot-{number}"));
            slot
        };
        let kept: Vec<Slot> = (0..=MOST_KEPT_OF_USER).map(take).collect();
        let other = slots.take(address(2)).unwrap();
        other.keep_for("system:serviceaccount:team-b:bot");
        assert!(other.is_kept() && kept[MOST_KEPT_OF_USER].displaced.is_cancelled());
        drop((kept, other));
        assert!(slots.lock().users.is_empty());
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
