//! Bounds the memory of what clients send: of all of them together, and of each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The memory that a server has for what clients send.
#[derive(Debug)]
pub struct Budget {
    /// How much each client holds; one that holds nothing has no entry.
    held: Mutex<HashMap<String, usize>>,
    most: usize,
    most_of_client: usize,
}

/// Which budget is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// That of the client.
    Client,
    /// That of all clients together.
    Total,
}

/// What one message holds; dropping it returns the memory.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    client: String,
    bytes: Mutex<usize>,
}

impl Budget {
    /// Creates a budget of this many bytes, and of this many for one client.
    pub fn new(most: usize, most_of_client: usize) -> Arc<Self> {
        Arc::new(Self { held: Mutex::default(), most, most_of_client })
    }

    /// Returns an empty share of a client: a user, or an address.
    pub fn share(self: &Arc<Self>, client: impl Into<String>) -> Share {
        Share { budget: self.clone(), client: client.into(), bytes: Mutex::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Takes more bytes. Never waits: a client that waited could itself hold what the others wait for.
    ///
    /// # Errors
    /// If the budget of the client or of all clients has no room for them. Then none are taken.
    pub fn take(&self, bytes: usize) -> Result<(), Exhausted> {
        let mut own = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = self.budget.lock();
        let of_client = held.get(&self.client).copied().unwrap_or_default();
        if of_client.saturating_add(bytes) > self.budget.most_of_client {
            return Err(Exhausted::Client);
        }
        if held.values().sum::<usize>().saturating_add(bytes) > self.budget.most {
            return Err(Exhausted::Total);
        }
        if bytes > 0 {
            held.insert(self.client.clone(), of_client + bytes);
            *own += bytes;
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let own = std::mem::take(self.bytes.get_mut().unwrap_or_else(PoisonError::into_inner));
        let mut held = self.budget.lock();
        let Some(of_client) = held.get_mut(&self.client) else { return };
        *of_client = of_client.saturating_sub(own);
        if *of_client == 0 {
            held.remove(&self.client);
        }
    }
}

/// What a JSON text consists of. Parsed, each part takes far more memory than its two bytes of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonSize {
    /// The number of objects and lists.
    pub containers: usize,
    /// The number of values in them, and one for each that is empty.
    pub values: usize,
}

/// Returns what a JSON text consists of, without parsing it.
pub fn json_size(json: &[u8]) -> JsonSize {
    let (mut size, mut in_text, mut is_escaped) = (JsonSize::default(), false, false);
    for byte in json {
        match (in_text, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b'{' | b'[') => {
                size.containers += 1;
                size.values += 1;
            }
            (false, b',') => size.values += 1,
            _ => {}
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_bounded_by_its_client_and_by_all_and_returned_when_dropped() {
        let budget = Budget::new(10, 6);
        let (first, second, other) = (budget.share("jane"), budget.share("jane"), budget.share("joe"));
        assert_eq!((first.take(4), second.take(3)), (Ok(()), Err(Exhausted::Client)));
        assert_eq!((second.take(2), other.take(5)), (Ok(()), Err(Exhausted::Total)));
        drop(first);
        assert_eq!(other.take(5), Ok(()));
        drop((second, other));
        assert!(budget.lock().is_empty());
    }

    #[test]
    fn parts_are_counted_outside_of_texts() {
        let of = |containers, values| JsonSize { containers, values };
        assert_eq!(json_size(br#"{"a":[{},{"b":"[{\",{"},[]]}"#), of(5, 7));
        assert_eq!(json_size(b"\"[,[\\\\\"[[1,2"), of(2, 3));
    }
}
