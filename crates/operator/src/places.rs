//! A bounded number of places for a server's connections. A client with many connections displaces its own that
//! have not sent a request yet. When all places are taken, the address with the most such connections gives way, so
//! that clients with requests never wait behind silent ones.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The most connections at a time.
const MAX_CONNECTIONS: usize = 256;
/// The most connections at a time from one address.
const MAX_OF_PEER: usize = 64;

/// All places, in the order in which they were taken.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: Mutex<Vec<Taken>>,
}

#[derive(Debug)]
struct Taken {
    number: u64,
    peer: IpAddr,
    /// Whether it has sent a request.
    asked: bool,
    displaced: CancellationToken,
}

/// The place of one connection; dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    /// The peer's address.
    pub peer: IpAddr,
    /// Cancelled when another connection takes the place.
    pub displaced: CancellationToken,
}

impl Places {
    /// Takes a place for a connection from `peer`. Returns `None` if all are taken by connections that have sent
    /// requests.
    pub(crate) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let mut taken = self.lock();
        let of = |peer: IpAddr| taken.iter().filter(|other| other.peer == peer).count();
        let crowd = if of(peer) >= MAX_OF_PEER {
            Some(peer)
        } else if taken.len() >= MAX_CONNECTIONS {
            let silent = taken.iter().rev().filter(|other| !other.asked);
            Some(silent.max_by_key(|other| of(other.peer))?.peer)
        } else {
            None
        };
        if let Some(crowd) = crowd {
            let oldest = taken.iter().position(|other| other.peer == crowd && !other.asked)?;
            taken.remove(oldest).displaced.cancel();
        }
        let number = taken.last().map_or(0, |last| last.number + 1);
        let displaced = CancellationToken::new();
        taken.push(Taken { number, peer, asked: false, displaced: displaced.clone() });
        Some(Place { places: self.clone(), number, peer, displaced })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Records that a request has come: from now on the place cannot be taken.
    pub(crate) fn asks(&self) {
        let mut taken = self.places.lock();
        taken.iter_mut().filter(|one| one.number == self.number).for_each(|one| one.asked = true);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().retain(|one| one.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_connections_make_room_and_active_ones_stay() {
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let places: Arc<Places> = Arc::default();
        let asking: Vec<Place> = (0..10).map(|_| places.take(address(1)).unwrap()).collect();
        asking.iter().for_each(Place::asks);
        let silent: Vec<Place> = (0..300).map(|_| places.take(address(1)).unwrap()).collect();
        assert_eq!(silent.iter().filter(|place| !place.displaced.is_cancelled()).count(), MAX_OF_PEER - 10);
        assert!(asking.iter().all(|place| !place.displaced.is_cancelled()));
        // Others find places, although these crowds are as large as all places together.
        let crowds: Vec<Place> = (2..200)
            .flat_map(|peer| (0..3).filter_map(|_| places.take(address(peer))).collect::<Vec<_>>())
            .collect();
        assert_eq!(places.lock().len(), MAX_CONNECTIONS);
        assert!(places.take(address(250)).is_some());
        crowds.iter().for_each(Place::asks);
        drop(silent);
        drop(crowds);
        drop(asking);
        assert_eq!(places.lock().len(), 0);
    }

    #[test]
    fn when_all_places_are_in_use_the_next_connection_is_refused() {
        let places: Arc<Places> = Arc::default();
        let peer = IpAddr::from([10, 0, 0, 1]);
        let taken: Vec<Place> = (0..MAX_OF_PEER).map(|_| places.take(peer).unwrap()).collect();
        taken.iter().for_each(Place::asks);
        assert!(places.take(peer).is_none());
        drop(taken);
        assert!(places.take(peer).is_some());
    }
}
