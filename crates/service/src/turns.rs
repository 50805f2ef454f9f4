//! Places for work that takes long, given in turns. Of the shares of users that wait, the one that holds the fewest places is
//! next, and of several the one that waits for longest since its last turn. So the work of one share keeps that of others
//! waiting only while it is in progress.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use connections::Exhausted;
use tokio::sync::oneshot;
use tokio::task::JoinError;

/// The places, and how many may wait for one.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The number of places.
    pub places: usize,
    /// The most that wait, of one share.
    pub waiting_of_share: usize,
    /// The most that wait, of all.
    pub waiting: usize,
}

/// A number of places.
#[derive(Debug)]
pub struct Turns {
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of places in use, by share.
    held: HashMap<String, usize>,
    /// Those that wait, by share; the share that had its turn last is the last.
    lines: VecDeque<Line>,
}

/// Those of one share that wait, the first first.
#[derive(Debug)]
struct Line {
    share: String,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// A place; dropping it gives it to the next.
#[derive(Debug)]
struct Turn {
    turns: Arc<Turns>,
    share: String,
}

impl Turns {
    /// Creates free places.
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, state: Mutex::default() })
    }

    /// Waits for a place, for work of a share.
    ///
    /// # Errors
    /// If too many wait, of this share or of all.
    async fn take(self: &Arc<Self>, share: &str) -> Result<Turn, Exhausted> {
        let turn = self.wait(share)?;
        self.give();
        // The sender is not dropped while this waits.
        turn.await.map_err(|_| Exhausted::Total)
    }

    /// Runs work of a share away from the runtime. Its place is held until the work ends, even if nobody waits for it any more.
    /// The inner result is an error if the work panics.
    ///
    /// # Errors
    /// If too many wait, of this share or of all.
    pub async fn run<T, F>(self: &Arc<Self>, share: &str, work: F) -> Result<Result<T, JoinError>, Exhausted>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let turn = self.take(share).await?;
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        Ok(done.await)
    }

    fn wait(&self, share: &str) -> Result<oneshot::Receiver<Turn>, Exhausted> {
        let mut state = self.lock();
        state.forget_cancelled();
        if state.waiting() >= self.bounds.waiting {
            return Err(Exhausted::Total);
        }
        let (sender, receiver) = oneshot::channel();
        match state.lines.iter().position(|line| line.share == share) {
            Some(at) => {
                let line = state.lines.get_mut(at).ok_or(Exhausted::Total)?;
                if line.waiting.len() >= self.bounds.waiting_of_share {
                    return Err(Exhausted::Client);
                }
                line.waiting.push_back(sender);
            }
            None => {
                let waiting = VecDeque::from([sender]);
                state.lines.push_back(Line { share: share.to_owned(), waiting });
            }
        }
        Ok(receiver)
    }

    /// Gives free places to those that wait.
    fn give(self: &Arc<Self>) {
        loop {
            let next = self.lock().next(self.bounds.places);
            let Some((share, sender)) = next else { return };
            // One that was cancelled meanwhile returns the turn, which is dropped here and goes to the next.
            let _ = sender.send(Turn { turns: self.clone(), share });
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn waiting(&self) -> usize {
        self.lines.iter().map(|line| line.waiting.len()).sum()
    }

    fn forget_cancelled(&mut self) {
        for line in &mut self.lines {
            line.waiting.retain(|sender| !sender.is_closed());
        }
        self.lines.retain(|line| !line.waiting.is_empty());
    }

    /// Takes a place, if one is free, for the one whose turn it is.
    fn next(&mut self, places: usize) -> Option<(String, oneshot::Sender<Turn>)> {
        self.forget_cancelled();
        if self.held.values().sum::<usize>() >= places {
            return None;
        }
        let held = |line: &Line| self.held.get(&line.share).copied().unwrap_or_default();
        let (at, _) = self.lines.iter().enumerate().min_by_key(|(_, line)| held(line))?;
        let mut line = self.lines.remove(at)?;
        let sender = line.waiting.pop_front()?;
        let share = line.share.clone();
        *self.held.entry(share.clone()).or_default() += 1;
        if !line.waiting.is_empty() {
            self.lines.push_back(line);
        }
        Some((share, sender))
    }

    fn release(&mut self, share: &str) {
        let left = self.held.get(share).copied().unwrap_or_default().saturating_sub(1);
        if left == 0 {
            self.held.remove(share);
        } else {
            self.held.insert(share.to_owned(), left);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.lock().release(&self.share);
        self.turns.give();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt as _;

    use super::*;

    fn turns(places: usize) -> Arc<Turns> {
        Turns::new(Bounds { places, waiting_of_share: 3, waiting: 5 })
    }

    #[tokio::test]
    async fn a_share_gets_its_turn_before_those_that_hold_more() {
        let turns = turns(2);
        let mut held = vec![turns.take("jane").await.unwrap(), turns.take("jane").await.unwrap()];
        let (mut third, mut fourth) = (pin!(turns.take("jane")), pin!(turns.take("jane")));
        let (mut of_joe, mut of_vera) = (pin!(turns.take("joe")), pin!(turns.take("vera")));
        for waits in [third.as_mut().now_or_never(), fourth.as_mut().now_or_never()] {
            assert!(waits.is_none());
        }
        assert!(of_joe.as_mut().now_or_never().is_none() && of_vera.as_mut().now_or_never().is_none());
        held.pop();
        let joe = of_joe.as_mut().now_or_never();
        assert!(joe.is_some() && third.as_mut().now_or_never().is_none(), "jane holds another place");
        held.pop();
        let third = third.now_or_never();
        assert!(
            third.is_some() && of_vera.as_mut().now_or_never().is_none(),
            "the first of both that hold none"
        );
        drop(joe);
        let vera = of_vera.now_or_never();
        assert!(vera.is_some() && fourth.as_mut().now_or_never().is_none());
        drop((third, vera));
        assert!(fourth.now_or_never().is_some(), "nobody else waits");
    }

    #[tokio::test]
    async fn those_that_wait_are_bounded_of_a_share_and_of_all() {
        let turns = turns(1);
        let held = turns.take("jane").await.unwrap();
        let waits = |share: &'static str| {
            let turns = turns.clone();
            let mut waits = Box::pin(async move { turns.take(share).await });
            let refused = waits.as_mut().now_or_never().map(|taken| taken.map(drop));
            (waits, refused)
        };
        let (mut waiting, mut refused): (Vec<_>, Vec<_>) = (0..4).map(|_| waits("jane")).unzip();
        assert_eq!(refused.pop(), Some(Some(Err(Exhausted::Client))));
        assert_eq!(refused, [None, None, None]);
        waiting.pop();
        let (others, refused): (Vec<_>, Vec<_>) = ["joe", "vera", "kim"].map(waits).into_iter().unzip();
        assert_eq!(refused, [None, None, Some(Err(Exhausted::Total))]);
        // Those that do not wait any more leave their places to others, and hold none.
        drop((waiting, others));
        let (mut kim, refused) = waits("kim");
        assert_eq!(refused, None);
        drop(held);
        let turn = kim.as_mut().now_or_never();
        assert!(turn.is_some_and(|turn| turn.is_ok()));
        let state = turns.lock();
        assert!(state.held.is_empty() && state.lines.is_empty());
    }
}
