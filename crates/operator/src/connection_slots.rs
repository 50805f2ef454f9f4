//! A bounded number of slots for a server's connections. A client with many connections displaces its own that
//! have not sent a request yet. When all slots are taken, the address with the most such connections gives way, so
//! that clients with requests never wait behind silent ones.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The most connections at a time.
const MAX_CONNECTIONS: usize = 256;
/// The most connections at a time from one address.
const MAX_OF_PEER: usize = 64;

/// All slots, in the order in which they were taken.
#[derive(Debug, Default)]
pub(crate) struct ConnectionSlots {
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

/// The slot of one connection; dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    number: u64,
    /// The peer's address.
    pub peer: IpAddr,
    /// Cancelled when another connection takes the slot.
    pub displaced: CancellationToken,
}

impl ConnectionSlots {
    /// Takes a slot for a connection from `peer`. Returns `None` if all are taken by connections that have sent
    /// requests.
    pub(crate) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionSlot> {
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
        Some(ConnectionSlot { slots: self.clone(), number, peer, displaced })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionSlot {
    /// Records that a request has come: from now on the slot cannot be taken.
    pub(crate) fn asks(&self) {
        let mut taken = self.slots.lock();
        taken.iter_mut().filter(|one| one.number == self.number).for_each(|one| one.asked = true);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.lock().retain(|one| one.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_connections_make_room_and_active_ones_stay() {
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let slots: Arc<ConnectionSlots> = Arc::default();
        let asking: Vec<ConnectionSlot> = (0..10).map(|_| slots.take(address(1)).unwrap()).collect();
        asking.iter().for_each(ConnectionSlot::asks);
        let silent: Vec<ConnectionSlot> = (0..300).map(|_| slots.take(address(1)).unwrap()).collect();
        assert_eq!(silent.iter().filter(|slot| !slot.displaced.is_cancelled()).count(), MAX_OF_PEER - 10);
        assert!(asking.iter().all(|slot| !slot.displaced.is_cancelled()));
        // Others find slots, although these crowds are as large as all slots together.
        let crowds: Vec<ConnectionSlot> = (2..200)
            .flat_map(|peer| (0..3).filter_map(|_| slots.take(address(peer))).collect::<Vec<_>>())
            .collect();
        assert_eq!(slots.lock().len(), MAX_CONNECTIONS);
        assert!(slots.take(address(250)).is_some());
        crowds.iter().for_each(ConnectionSlot::asks);
        drop(silent);
        drop(crowds);
        drop(asking);
        assert_eq!(slots.lock().len(), 0);
    }

    #[test]
    fn when_all_slots_are_in_use_the_next_connection_is_refused() {
        let slots: Arc<ConnectionSlots> = Arc::default();
        let peer = IpAddr::from([10, 0, 0, 1]);
        let taken: Vec<ConnectionSlot> = (0..MAX_OF_PEER).map(|_| slots.take(peer).unwrap()).collect();
        taken.iter().for_each(ConnectionSlot::asks);
        assert!(slots.take(peer).is_none());
        drop(taken);
        assert!(slots.take(peer).is_some());
    }
}
