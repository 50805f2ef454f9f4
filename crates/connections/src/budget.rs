//! Bounds the memory of what clients send, and of what they are sent and do not read: of all of them together, and of
//! each.
//!
//! When all is taken, a client that holds little takes room from the one that holds most (max-min fairness:
//! Bertsekas and Gallager, *Data Networks*, 6.5.2): the oldest message of that one, which is the slowest to arrive,
//! is displaced. So of `n` clients each gets its `n`-th part of the memory, however long the others take to send
//! what they hold.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The memory that a server has for what clients send or do not read.
#[derive(Debug)]
pub struct Budget {
    state: Mutex<State>,
    most: usize,
    most_of_client: usize,
    /// Whether a client that has too much gives up its own oldest messages.
    is_rolling: bool,
}

/// Which budget is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// That of the client, which has too much or is displaced by one that has less.
    Client,
    /// That of all clients together.
    Total,
}

/// What one message holds; dropping it returns the memory.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    client: String,
    number: u64,
    displaced: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// The sum of what all clients hold.
    held: usize,
    /// One without a message has no entry.
    clients: HashMap<String, Client>,
}

/// What one client holds.
#[derive(Debug, Default)]
struct Client {
    /// The sum of its messages.
    held: usize,
    /// By the number of the share: the oldest first.
    messages: BTreeMap<u64, Message>,
}

#[derive(Debug)]
struct Message {
    bytes: usize,
    /// Whether it is processed, so that its memory cannot be returned.
    is_pinned: bool,
    displaced: CancellationToken,
}

impl Budget {
    /// Creates a budget of this many bytes, and of this many for one client.
    pub fn new(most: usize, most_of_client: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), most, most_of_client, is_rolling: false })
    }

    /// Creates such a budget for clients behind which there may be many people, such as addresses: one that has too much
    /// is not refused more. Its oldest messages are displaced, so that nobody can block the others of an address for long.
    pub fn rolling(most: usize, most_of_client: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), most, most_of_client, is_rolling: true })
    }

    /// Returns an empty share of a client: a user, or an address.
    pub fn share(self: &Arc<Self>, client: impl Into<String>) -> Share {
        self.share_with(client, CancellationToken::new())
    }

    /// Returns an empty share of a client that cancels this token when it is displaced.
    pub fn share_with(self: &Arc<Self>, client: impl Into<String>, displaced: CancellationToken) -> Share {
        let client = client.into();
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        let message = Message { bytes: 0, is_pinned: false, displaced: displaced.clone() };
        state.clients.entry(client.clone()).or_default().messages.insert(number, message);
        drop(state);
        Share { budget: self.clone(), client, number, displaced }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn message(&mut self, client: &str, number: u64) -> Option<&mut Message> {
        self.clients.get_mut(client)?.messages.get_mut(&number)
    }

    /// Returns the messages to displace so that a client which then holds `after` gets `missing` bytes. They
    /// belong to clients that hold more than that; `None` if these have too few of them.
    fn victims(&self, mut missing: usize, after: usize) -> Option<Vec<(String, u64)>> {
        if missing == 0 {
            return Some(Vec::new());
        }
        let mut richer: Vec<_> = self
            .clients
            .iter()
            .filter(|(_, client)| client.held > after)
            .map(|(name, client)| {
                let displaceable = client.messages.iter().filter(|(_, message)| !message.is_pinned);
                (client.held, name, displaceable.filter(|(_, message)| message.bytes > 0))
            })
            .collect();
        let mut victims = Vec::new();
        while missing > 0 {
            let richest = richer.iter_mut().max_by_key(|(held, ..)| *held);
            let (held, name, messages) = richest.filter(|(held, ..)| *held > after)?;
            match messages.next() {
                Some((number, message)) => {
                    victims.push(((*name).clone(), *number));
                    missing = missing.saturating_sub(message.bytes);
                    *held = held.saturating_sub(message.bytes);
                }
                // What is left of it cannot be displaced.
                None => *held = 0,
            }
        }
        Some(victims)
    }

    fn remove(&mut self, client: &str, number: u64) -> Option<Message> {
        let of_client = self.clients.get_mut(client)?;
        let message = of_client.messages.remove(&number)?;
        of_client.held = of_client.held.saturating_sub(message.bytes);
        self.held = self.held.saturating_sub(message.bytes);
        if of_client.messages.is_empty() {
            self.clients.remove(client);
        }
        Some(message)
    }

    fn displace(&mut self, client: &str, number: u64) {
        if let Some(message) = self.remove(client, number) {
            message.displaced.cancel();
        }
    }

    /// Displaces the oldest messages of a client until they have returned so many bytes, except one message. If they have
    /// too few, none is displaced.
    fn roll(&mut self, client: &str, except: u64, mut missing: usize) {
        let Some(of_client) = self.clients.get(client) else { return };
        let mut oldest = Vec::new();
        for (number, message) in &of_client.messages {
            if missing == 0 {
                break;
            }
            if *number != except && !message.is_pinned && message.bytes > 0 {
                missing = missing.saturating_sub(message.bytes);
                oldest.push(*number);
            }
        }
        if missing == 0 {
            oldest.into_iter().for_each(|number| self.displace(client, number));
        }
    }
}

impl Share {
    /// Takes more bytes, if necessary those of messages of clients that hold more. Never waits: a client that waited
    /// could itself hold what the others wait for. The memory of a displaced message counts as free at once, and is
    /// so when its reader sees that it is [`displaced`](Self::displaced).
    ///
    /// # Errors
    /// If the budget of the client or of all clients has no room for them, or the message is displaced. Then none
    /// are taken.
    pub fn take(&self, bytes: usize) -> Result<(), Exhausted> {
        let mut state = self.budget.lock();
        if state.message(&self.client, self.number).is_none() {
            return Err(Exhausted::Client);
        }
        let held = |state: &State| state.clients.get(&self.client).map_or(0, |client| client.held);
        let excess = held(&state).saturating_add(bytes).saturating_sub(self.budget.most_of_client);
        if self.budget.is_rolling {
            state.roll(&self.client, self.number, excess);
        }
        let after = held(&state).saturating_add(bytes);
        if after > self.budget.most_of_client {
            return Err(Exhausted::Client);
        }
        let missing = state.held.saturating_add(bytes).saturating_sub(self.budget.most);
        for (client, number) in state.victims(missing, after).ok_or(Exhausted::Total)? {
            state.displace(&client, number);
        }
        state.held += bytes;
        if let Some(message) = state.message(&self.client, self.number) {
            message.bytes += bytes;
        }
        if let Some(client) = state.clients.get_mut(&self.client) {
            client.held = after;
        }
        Ok(())
    }

    /// Returns some of the bytes that the message holds.
    pub fn release(&self, bytes: usize) {
        let mut guard = self.budget.lock();
        let state = &mut *guard;
        let Some(client) = state.clients.get_mut(&self.client) else { return };
        let Some(message) = client.messages.get_mut(&self.number) else { return };
        let bytes = bytes.min(message.bytes);
        message.bytes -= bytes;
        client.held = client.held.saturating_sub(bytes);
        state.held = state.held.saturating_sub(bytes);
    }

    /// Keeps the message from being displaced, because it is processed in a way that cannot be stopped.
    ///
    /// # Errors
    /// If it is displaced already.
    pub fn pin(&self) -> Result<(), Exhausted> {
        self.set_pinned(true)
    }

    /// Lets the message be displaced again.
    pub fn unpin(&self) {
        // A pinned message is not displaced.
        let _ = self.set_pinned(false);
    }

    fn set_pinned(&self, is_pinned: bool) -> Result<(), Exhausted> {
        let mut state = self.budget.lock();
        let message = state.message(&self.client, self.number).ok_or(Exhausted::Client)?;
        message.is_pinned = is_pinned;
        Ok(())
    }

    /// Resolves when the message is displaced: its memory must be returned.
    pub fn displaced(&self) -> impl Future<Output = ()> + Send + use<> {
        self.displaced.clone().cancelled_owned()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.lock().remove(&self.client, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_displaced(share: &Share) -> bool {
        share.displaced.is_cancelled()
    }

    #[test]
    fn a_share_is_bounded_by_its_client_and_by_all_and_returned_when_dropped() {
        let budget = Budget::new(10, 6);
        let (first, second, other) = (budget.share("jane"), budget.share("jane"), budget.share("joe"));
        assert_eq!((first.take(4), second.take(3)), (Ok(()), Err(Exhausted::Client)));
        assert_eq!((second.take(2), other.take(6)), (Ok(()), Err(Exhausted::Total)));
        drop(first);
        assert_eq!(other.take(5), Ok(()));
        drop((second, other));
        assert!(budget.lock().clients.is_empty());
    }

    #[test]
    fn a_client_that_holds_less_takes_the_room_of_those_that_hold_most() {
        let budget = Budget::new(128, 64);
        let of = |client: &'static str, count: usize| -> Vec<Share> {
            let shares = (0..count).map(|_| budget.share(client)).collect::<Vec<_>>();
            shares.iter().for_each(|share| assert_eq!(share.take(8), Ok(()), "{client}"));
            shares
        };
        let (first, second) = (of("first", 8), of("second", 8));
        assert_eq!(budget.lock().held, 128, "two clients hold all");
        let third = of("third", 5);
        let displaced = |shares: &[Share]| shares.iter().filter(|share| is_displaced(share)).count();
        assert_eq!(displaced(&first) + displaced(&second), 5);
        assert_eq!(displaced(&first).abs_diff(displaced(&second)), 1, "the one that holds most gives way");
        assert!(is_displaced(&first[0]) && !is_displaced(&first[7]), "the oldest message goes first");
        assert_eq!((first[0].take(0), first[0].pin()), (Err(Exhausted::Client), Err(Exhausted::Client)));
        // Those that gave way cannot take it back from one that holds no more than they do.
        let again = budget.share("first");
        assert_eq!((again.take(8), displaced(&third)), (Err(Exhausted::Total), 0));
        drop((first, second, third, again));
        assert!(budget.lock().clients.is_empty());
    }

    #[test]
    fn a_client_of_a_rolling_budget_gives_up_its_oldest_messages() {
        let budget = Budget::rolling(20, 10);
        let shares: Vec<Share> = (0..5).map(|_| budget.share("10.0.0.1")).collect();
        let other = budget.share("10.0.0.2");
        assert_eq!((other.take(5), shares[0].take(4), shares[1].take(4)), (Ok(()), Ok(()), Ok(())));
        assert_eq!((shares[1].pin(), shares[2].take(4)), (Ok(()), Ok(())));
        assert!(is_displaced(&shares[0]) && !is_displaced(&shares[1]), "the oldest gives way");
        assert_eq!((shares[3].take(4), is_displaced(&shares[2])), (Ok(()), true), "one in use does not");
        assert_eq!((shares[4].take(7), is_displaced(&shares[3])), (Err(Exhausted::Client), false));
        assert!(!is_displaced(&other), "others keep what they have");
        drop((shares, other));
        let state = budget.lock();
        assert_eq!((state.held, state.clients.len()), (0, 0));
    }

    #[test]
    fn a_share_returns_what_it_releases_and_cancels_the_given_token_when_displaced() {
        let (budget, token) = (Budget::rolling(10, 10), CancellationToken::new());
        let (first, second) = (budget.share_with("jane", token.clone()), budget.share("jane"));
        assert_eq!(first.take(8), Ok(()));
        first.release(6);
        assert_eq!((second.take(8), token.is_cancelled(), budget.lock().held), (Ok(()), false, 10));
        assert_eq!((second.take(1), token.is_cancelled()), (Ok(()), true));
        first.release(2);
        assert_eq!(budget.lock().held, 9, "a displaced share has nothing to return");
    }

    #[test]
    fn each_of_many_clients_gets_its_part() {
        let (budget, clients) = (Budget::new(1_000, 500), 99);
        let greedy = |client: usize| -> Vec<Share> {
            let shares = (0..50).map(|_| budget.share(client.to_string()));
            shares.filter(|share| share.take(2).is_ok()).collect()
        };
        // Each takes what it can get, again and again.
        let held: Vec<Vec<Share>> = (0..3).flat_map(|_| (0..clients).map(greedy)).collect();
        assert!(budget.lock().held > 998);
        let late = budget.share("late");
        assert_eq!(late.take(1_000 / (clients + 1) - 2), Ok(()));
        assert!(!is_displaced(&late));
        drop((held, late));
        assert!(budget.lock().clients.is_empty());
    }

    #[test]
    fn a_message_that_is_processed_is_not_displaced() {
        let budget = Budget::new(10, 10);
        let (pinned, other) = (budget.share("jane"), budget.share("joe"));
        assert_eq!((pinned.take(10), pinned.pin()), (Ok(()), Ok(())));
        assert_eq!(other.take(1), Err(Exhausted::Total));
        pinned.unpin();
        assert_eq!((other.take(1), is_displaced(&pinned)), (Ok(()), true));
    }

    #[test]
    fn nobody_is_displaced_by_what_is_refused_all_the_same() {
        let budget = Budget::new(10, 10);
        let (pinned, arriving, other) = (budget.share("jane"), budget.share("jane"), budget.share("joe"));
        assert_eq!((pinned.take(6), pinned.pin(), arriving.take(4)), (Ok(()), Ok(()), Ok(())));
        assert_eq!((other.take(5), is_displaced(&arriving)), (Err(Exhausted::Total), false));
        assert_eq!((other.take(4), is_displaced(&arriving)), (Ok(()), true));
    }
}
