//! Runs the search of lines away from the runtime, in turns, and ends a search that is too slow.
//!
//! A pattern may take very long for each line. A turn begins no other line after a moment. Searches of which a turn lasted
//! longer wait for one another, so that they hold up neither the runtime nor searches that are fast.

use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::{Class, Error};

/// How long a turn may begin further lines.
const TURN: Duration = Duration::from_millis(50);
/// How long the slow turns of one search may last together.
const MAX_SLOW: Duration = Duration::from_secs(15);

/// The turns at a time: of searches that are fast or begin, and of slow ones.
static FAST: Semaphore = Semaphore::const_new(2);
static SLOW: Semaphore = Semaphore::const_new(1);

/// What one search has cost so far.
#[derive(Debug, Default)]
pub struct Effort {
    /// How long its slow turns lasted.
    slow: Duration,
}

impl Effort {
    /// Runs a part of the search, which gets the time after which it must not begin another line.
    ///
    /// # Errors
    /// If the search is too slow to go on.
    pub async fn turn<T, F>(&mut self, search: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(Instant) -> T + Send + 'static,
    {
        if self.slow >= MAX_SLOW {
            return Err(too_slow());
        }
        let turns = if self.slow.is_zero() { &FAST } else { &SLOW };
        let turn = turns.acquire().await;
        let searched = tokio::task::spawn_blocking(move || {
            // Held until the part ends, even if nobody waits for it any more.
            let _turn = turn;
            let begun = Instant::now();
            (search(begun + TURN), begun.elapsed())
        });
        let (found, lasted) =
            searched.await.map_err(|error| Error::Client(format!("the search failed: {error}")))?;
        if lasted >= TURN {
            self.slow += lasted;
        }
        Ok(found)
    }
}

fn too_slow() -> Error {
    Error::Refused {
        class: Class::Invalid,
        reason: "PatternTooSlow".to_owned(),
        message: format!(
            "the search has ended before the end of the output: its pattern took more than {} s",
            MAX_SLOW.as_secs()
        ),
        advice: Some("use a simpler pattern, with fewer repetitions".into()),
        faults: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_search_leaves_the_runtime_to_others() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut effort = Effort::default();
        // It ends only if this task goes on meanwhile.
        let search = effort.turn(move |_| receiver.recv().is_ok());
        let (searched, sent) = tokio::join!(search, async { sender.send(()).is_ok() });
        assert!(searched.unwrap() && sent);
    }

    #[tokio::test]
    async fn a_search_whose_turns_last_too_long_ends_with_what_to_do() {
        let mut effort = Effort { slow: MAX_SLOW - TURN };
        let busy = |until: Instant| while Instant::now() < until {};
        effort.turn(busy).await.unwrap();
        let ended = effort.turn(busy).await.unwrap_err();
        assert_eq!((ended.class(), ended.reason()), (Class::Invalid, "PatternTooSlow"));
        assert!(ended.to_string().contains("before the end of the output"), "{ended}");
    }

    #[tokio::test]
    async fn a_slow_search_does_not_hold_up_a_fast_one() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let (mut slow, mut fast) = (Effort { slow: TURN }, Effort::default());
        // The slow search ends only after the fast one.
        let held = slow.turn(move |_| receiver.recv().is_err());
        let passing = async {
            let found = fast.turn(|_| 7).await.unwrap();
            drop(sender);
            found
        };
        let (held, passed) = tokio::join!(held, passing);
        assert_eq!((held.unwrap(), passed), (true, 7));
    }
}
