//! What the API server lately said about callers' tokens, so that it is not asked about each request, and how often one
//! address may make it be asked.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::Request;
use sha2::{Digest as _, Sha256};

use crate::serve::Peer;

/// How long a decision about a token is cached (kube-rbac-proxy caches tokens for 2 min).
const DECISION_HOLDS: Duration = Duration::from_secs(60);
/// The time for which reviews of one address are counted, and the most addresses that are counted.
const WINDOW: Duration = Duration::from_secs(60);
const MOST_PEERS: usize = 1024;

/// A digest of what is decided about.
pub(crate) type Key = [u8; 32];

/// An address sends too many tokens that are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many unknown tokens from this address")]
pub(crate) struct TooMany;

/// Recent decisions. Refused tokens, which anyone can send, take no room from allowed ones.
pub(crate) struct Decisions {
    most_decisions: usize,
    most_reviews: u32,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    allowed: HashMap<Key, Instant>,
    refused: HashMap<Key, Instant>,
    reviews: HashMap<IpAddr, (Instant, u32)>,
}

impl Decisions {
    /// Keeps this many decisions of each kind, and lets one address cause this many reviews a minute.
    pub fn new(most_decisions: usize, most_reviews: u32) -> Self {
        Self { most_decisions, most_reviews, memory: Mutex::default() }
    }

    /// Returns the decision if it is known. Otherwise the caller may ask the API server, which is counted for the address.
    ///
    /// # Errors
    /// If the address has caused too many reviews.
    pub fn known(&self, key: &Key, peer: IpAddr, now: Instant) -> Result<Option<bool>, TooMany> {
        let mut memory = self.memory();
        match memory.decision(key, now) {
            Some(allowed) => Ok(Some(allowed)),
            None if memory.may_ask(peer, self.most_reviews, now) => Ok(None),
            None => Err(TooMany),
        }
    }

    /// Records what the API server said at `now`.
    pub fn keep(&self, key: Key, allowed: bool, now: Instant) {
        self.memory().keep(key, allowed, self.most_decisions, now);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn decision(&self, key: &Key, now: Instant) -> Option<bool> {
        let holds = |decisions: &HashMap<Key, Instant>| decisions.get(key).is_some_and(|until| *until > now);
        if holds(&self.allowed) { Some(true) } else { holds(&self.refused).then_some(false) }
    }

    fn keep(&mut self, key: Key, allowed: bool, most: usize, now: Instant) {
        let decisions = if allowed { &mut self.allowed } else { &mut self.refused };
        decisions.retain(|_, until| *until > now);
        if decisions.len() >= most
            && let Some(oldest) = decisions.iter().min_by_key(|(_, until)| **until).map(|(key, _)| *key)
        {
            decisions.remove(&oldest);
        }
        decisions.insert(key, now + DECISION_HOLDS);
    }

    /// Counts a review for this address. Returns whether it is permitted.
    fn may_ask(&mut self, peer: IpAddr, most: u32, now: Instant) -> bool {
        self.reviews.retain(|_, (until, _)| *until > now);
        if self.reviews.len() >= MOST_PEERS && !self.reviews.contains_key(&peer) {
            return false;
        }
        let (_, count) = self.reviews.entry(peer).or_insert((now + WINDOW, 0));
        *count += 1;
        *count <= most
    }
}

/// Returns the key of these words.
pub(crate) fn digest(words: &[&str]) -> Key {
    let mut digest = Sha256::new();
    for word in words {
        digest.update(word.as_bytes());
        // A byte that no word contains.
        digest.update([0]);
    }
    digest.finalize().into()
}

/// Returns the address of a request's client.
pub(crate) fn peer_of<B>(request: &Request<B>) -> IpAddr {
    request.extensions().get().map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |Peer(peer)| *peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_tokens_do_not_displace_good_ones_and_their_reviews_are_bounded() {
        let (decisions, now) = (Decisions::new(64, 12), Instant::now());
        decisions.keep([255; 32], true, now);
        let stranger = IpAddr::from([10, 0, 0, 1]);
        let asked = (0..200).filter(|number| {
            let unknown = decisions.known(&[*number; 32], stranger, now);
            decisions.keep([*number; 32], false, now);
            unknown == Ok(None)
        });
        assert_eq!(asked.count(), 12);
        assert_eq!(decisions.known(&[255; 32], stranger, now), Ok(Some(true)));
        assert_eq!(decisions.memory().refused.len(), 64);
        let other = IpAddr::from([10, 0, 0, 2]);
        assert_eq!(decisions.known(&[254; 32], other, now), Ok(None), "others are not held up");
        let later = now + WINDOW;
        assert_eq!(decisions.known(&[254; 32], stranger, later), Ok(None), "later it may ask again");
        assert_eq!(decisions.known(&[255; 32], other, now + DECISION_HOLDS), Ok(None));
    }
}
