//! Places that namespaces share equally: where all are taken, a namespace that has few gets the next one, or that of
//! the namespace that has most if that has more than one beyond it. Bounded by those that wait.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// A number of places.
pub struct Places {
    most: usize,
    state: Mutex<State>,
}

/// A place, or a request for one; dropping it gives it to another.
pub struct Place {
    places: Arc<Places>,
    namespace: String,
    number: u64,
    granted: CancellationToken,
    displaced: CancellationToken,
}

#[derive(Default)]
struct State {
    next: u64,
    /// One without places and requests has no entry.
    namespaces: HashMap<String, Namespace>,
}

/// What a namespace has; the oldest is first.
#[derive(Default)]
struct Namespace {
    /// Its places, with the token that is cancelled when one is taken away.
    taken: BTreeMap<u64, CancellationToken>,
    /// Its requests, with the tokens of the places that they become.
    waiting: BTreeMap<u64, (CancellationToken, CancellationToken)>,
}

impl Places {
    /// Creates this many places.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default() })
    }

    /// Takes a place once there is one for the namespace.
    pub async fn take(self: &Arc<Self>, namespace: &str) -> Place {
        let place = self.request(namespace);
        place.granted.cancelled().await;
        place
    }

    fn request(self: &Arc<Self>, namespace: &str) -> Place {
        let (granted, displaced) = (CancellationToken::new(), CancellationToken::new());
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        let of_namespace = state.namespaces.entry(namespace.to_owned()).or_default();
        of_namespace.waiting.insert(number, (granted.clone(), displaced.clone()));
        state.assign(self.most);
        drop(state);
        Place { places: self.clone(), namespace: namespace.to_owned(), number, granted, displaced }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Grants requests as long as there are places for them: first those of the namespaces that have fewest.
    fn assign(&mut self, most: usize) {
        while let Some(fewest) = self.next_to_grant().map(|namespace| namespace.taken.len()) {
            let taken: usize = self.namespaces.values().map(|namespace| namespace.taken.len()).sum();
            if taken >= most && !self.displace(fewest + 1) {
                return;
            }
            if let Some(namespace) = self.next_to_grant()
                && let Some((number, (granted, displaced))) = namespace.waiting.pop_first()
            {
                namespace.taken.insert(number, displaced);
                granted.cancel();
            }
        }
    }

    /// Returns the namespace that has fewest places of those with requests; of several, the one with the oldest.
    fn next_to_grant(&mut self) -> Option<&mut Namespace> {
        let waiting = self.namespaces.values_mut().filter(|namespace| !namespace.waiting.is_empty());
        waiting.min_by_key(|namespace| (namespace.taken.len(), namespace.waiting.keys().next().copied()))
    }

    /// Takes the newest place from the namespace that has most; false if it has no more than `beyond`.
    fn displace(&mut self, beyond: usize) -> bool {
        let richest = self.namespaces.values_mut().max_by_key(|namespace| namespace.taken.len());
        let newest = richest
            .filter(|namespace| namespace.taken.len() > beyond)
            .and_then(|namespace| namespace.taken.pop_last());
        newest.map(|(_, displaced)| displaced.cancel()).is_some()
    }
}

impl Place {
    /// Resolves when the place is another's.
    pub async fn displaced(&self) {
        self.displaced.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        if let Some(namespace) = state.namespaces.get_mut(&self.namespace) {
            namespace.taken.remove(&self.number);
            namespace.waiting.remove(&self.number);
            if namespace.taken.is_empty() && namespace.waiting.is_empty() {
                state.namespaces.remove(&self.namespace);
            }
        }
        state.assign(self.places.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of places among these.
    fn held(places: &[Place]) -> usize {
        let is_held = |place: &&Place| place.granted.is_cancelled() && !place.displaced.is_cancelled();
        places.iter().filter(is_held).count()
    }

    #[test]
    fn a_namespace_with_few_places_gets_those_of_the_one_with_most() {
        let places = Places::new(8);
        let of = |namespace: &str, count: usize| -> Vec<Place> {
            (0..count).map(|_| places.request(namespace)).collect()
        };
        let noisy = of("noisy", 20);
        assert_eq!(held(&noisy), 8, "while nobody else is there");
        let quiet = of("quiet", 1);
        assert_eq!((held(&noisy), held(&quiet)), (7, 1));
        assert!(noisy[7].displaced.is_cancelled(), "the newest gives way");
        let other = of("other", 20);
        assert_eq!((held(&noisy), held(&quiet), held(&other)), (4, 1, 3));
        drop(noisy);
        assert_eq!((held(&quiet), held(&other)), (1, 7));
        drop((quiet, other));
        assert!(places.lock().namespaces.is_empty());
    }

    #[test]
    fn the_next_place_is_for_the_namespace_that_has_fewest() {
        let places = Places::new(2);
        let (noisy, other) = ([places.request("noisy")], [places.request("other")]);
        let (more, quiet) = ([places.request("noisy")], [places.request("quiet")]);
        assert_eq!((held(&noisy), held(&other), held(&more), held(&quiet)), (1, 1, 0, 0));
        drop(other);
        assert_eq!((held(&noisy), held(&more), held(&quiet)), (1, 0, 1));
    }

    #[tokio::test]
    async fn a_request_that_is_given_up_holds_no_place() {
        let places = Places::new(1);
        let first = places.take("a").await;
        drop(places.request("b"));
        drop(first);
        let _second = places.take("c").await;
        assert_eq!(places.lock().namespaces.len(), 1);
    }
}
