//! The negative cache of the name server, as CoreDNS has one: a name that did not exist, or had no records of the type, does
//! not for a while, whatever is created meanwhile. Positive answers are never cached.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::names::{Record, Wanted};
use crate::lock;

/// The most names that are remembered; CoreDNS's default is about the same. Beyond it, names are looked up again.
const MOST_NAMES: usize = 10_000;

/// The records that a negative answer has beside it, if any, and until when it holds.
type Negative = (Option<Vec<Record>>, Instant);

/// The names that did not exist, each for the same time.
#[derive(Debug)]
pub struct Negatives {
    for_time: Duration,
    /// The answer, and until when it holds.
    known: Mutex<HashMap<(String, Wanted), Negative>>,
}

impl Negatives {
    /// A cache that keeps negative answers for this time; zero disables it.
    pub fn new(for_time: Duration) -> Self {
        Self { for_time, known: Mutex::default() }
    }

    /// Returns the cached negative answer about a name, or looks it up.
    pub fn or_else(
        &self,
        name: &str,
        wanted: Wanted,
        now: Instant,
        look_up: impl FnOnce() -> Option<Vec<Record>>,
    ) -> Option<Vec<Record>> {
        if self.for_time.is_zero() {
            return look_up();
        }
        let mut known = lock(&self.known);
        let asked = (name.to_owned(), wanted);
        if let Some((answer, _)) = known.get(&asked).filter(|(_, until)| now < *until) {
            return answer.clone();
        }
        let answer = look_up();
        if answer.as_ref().is_some_and(|records| !records.is_empty()) {
            known.remove(&asked);
            return answer;
        }
        if known.len() >= MOST_NAMES {
            known.retain(|_, (_, until)| now < *until);
        }
        if known.len() < MOST_NAMES {
            known.insert(asked, (answer.clone(), now + self.for_time));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn found() -> Option<Vec<Record>> {
        Some(vec![Record::Address(Ipv4Addr::LOCALHOST)])
    }

    #[test]
    fn a_name_that_did_not_exist_does_not_for_a_while() {
        let (negatives, start) = (Negatives::new(TTL), Instant::now());
        let ask = |seconds: u64, now: fn() -> Option<Vec<Record>>| {
            negatives.or_else("a", Wanted::Address, start + Duration::from_secs(seconds), now)
        };
        assert_eq!(ask(0, || None), None);
        assert_eq!(ask(29, found), None, "asking does not make it last longer or shorter");
        assert_eq!(ask(30, found), found());
        assert_eq!(ask(31, || None), None, "a name that disappears does so at once");
        assert_eq!(ask(32, found), None);
    }

    #[test]
    fn names_and_types_are_cached_separately() {
        let (negatives, now) = (Negatives::new(TTL), Instant::now());
        assert_eq!(negatives.or_else("a", Wanted::Other, now, || Some(Vec::new())), Some(Vec::new()));
        assert_eq!(negatives.or_else("a", Wanted::Other, now, || None), Some(Vec::new()));
        assert_eq!(negatives.or_else("a", Wanted::Address, now, found), found());
        assert_eq!(negatives.or_else("b", Wanted::Address, now, found), found());
    }

    #[test]
    fn without_a_time_nothing_is_cached_and_the_cache_is_bounded() {
        let (off, now) = (Negatives::new(Duration::ZERO), Instant::now());
        assert_eq!(off.or_else("a", Wanted::Address, now, || None), None);
        assert_eq!(off.or_else("a", Wanted::Address, now, found), found());
        let negatives = Negatives::new(TTL);
        for number in 0..=MOST_NAMES {
            negatives.or_else(&number.to_string(), Wanted::Address, now, || None);
        }
        assert_eq!(lock(&negatives.known).len(), MOST_NAMES);
        negatives.or_else("late", Wanted::Address, now + TTL, || None);
        assert_eq!(lock(&negatives.known).len(), 1, "expired answers make room");
    }
}
