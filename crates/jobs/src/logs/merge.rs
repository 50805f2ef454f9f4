//! Merges the lines of many pods into one stream, by the time at which they were written.
//!
//! Each pod's reader has its own bounded channel, so a pod that is ahead waits for those that are behind. While a pod
//! that may still deliver an older line is silent, the others are held back. If each pod is read to its end, this
//! lasts as long as necessary; when following, only for a moment: a pod that was silent for longer holds nobody back
//! until it writes again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use tokio::sync::mpsc::{self, error::TryRecvError};
use tokio::time::Instant;

use super::{BATCH_BYTES, BATCH_LINES, Batch, Item, Sender, bytes_of};
use crate::Error;

/// How long a silent pod holds the others back while following.
pub(super) const PATIENCE: Duration = Duration::from_millis(300);

/// The lines of one pod that are still to be merged.
struct Lane {
    from: mpsc::Receiver<Batch>,
    lines: VecDeque<Result<Item, Error>>,
    /// Whether more lines may come.
    open: bool,
    /// Whether it was silent for too long to be waited for.
    idle: bool,
}

impl Lane {
    /// Takes what is available, without waiting.
    fn fill(&mut self) {
        while self.open && self.lines.is_empty() {
            match self.from.try_recv() {
                Ok(batch) => {
                    self.lines.extend(batch);
                    self.idle = false;
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => self.open = false,
            }
        }
    }

    fn is_dry(&self) -> bool {
        self.open && self.lines.is_empty()
    }

    /// Whether the others must wait for its next line.
    fn holds_back(&self) -> bool {
        self.is_dry() && !self.idle
    }

    fn time(&self) -> Option<Option<Timestamp>> {
        self.lines.front().map(time_of)
    }
}

/// The sort key of an item; items without a time, such as notes, do not wait.
fn time_of(item: &Result<Item, Error>) -> Option<Timestamp> {
    match item {
        Ok(Item::Line { at, .. }) => *at,
        _ => None,
    }
}

/// Merges the lines of every channel that `arrivals` delivers, until both are exhausted.
///
/// `patience` is how long to wait for a silent pod; `None` waits forever.
pub(super) async fn merge(
    mut arrivals: mpsc::Receiver<mpsc::Receiver<Batch>>,
    sender: Sender,
    patience: Option<Duration>,
) {
    let mut lanes: Vec<Lane> = Vec::new();
    let mut more_lanes = true;
    let mut held_since = None;
    loop {
        while more_lanes {
            match arrivals.try_recv() {
                Ok(from) => lanes.push(Lane { from, lines: VecDeque::new(), open: true, idle: false }),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => more_lanes = false,
            }
        }
        lanes.iter_mut().filter(|lane| lane.is_dry()).for_each(Lane::fill);
        lanes.retain(|lane| lane.open || !lane.lines.is_empty());
        let any_line = lanes.iter().any(|lane| !lane.lines.is_empty());
        let held_back = lanes.iter().any(Lane::holds_back) || (more_lanes && patience.is_none());
        if any_line && !held_back {
            held_since = None;
            let batch = take(&mut lanes, BATCH_LINES);
            if sender.send(batch).await.is_err() {
                return;
            }
            continue;
        }
        if lanes.is_empty() && !more_lanes {
            return;
        }
        let ends = match (any_line, patience) {
            (true, Some(patience)) => Some(*held_since.get_or_insert_with(Instant::now) + patience),
            _ => None,
        };
        if !news(&mut arrivals, &mut more_lanes, &mut lanes, ends).await {
            held_since = None;
            lanes.iter_mut().filter(|lane| lane.is_dry()).for_each(|lane| lane.idle = true);
        }
    }
}

/// Waits until a dry lane or a new one delivers something, or a lane ends; returns `false` on timeout.
async fn news(
    arrivals: &mut mpsc::Receiver<mpsc::Receiver<Batch>>,
    more_lanes: &mut bool,
    lanes: &mut Vec<Lane>,
    ends: Option<Instant>,
) -> bool {
    let fresh = {
        let mut dry: FuturesUnordered<_> = lanes
            .iter_mut()
            .filter(|lane| lane.is_dry())
            .map(|lane| async move {
                match lane.from.recv().await {
                    Some(batch) => {
                        lane.lines.extend(batch);
                        lane.idle = false;
                    }
                    None => lane.open = false,
                }
            })
            .collect();
        let late = async {
            match ends {
                Some(ends) => tokio::time::sleep_until(ends).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            fresh = arrivals.recv(), if *more_lanes => Some(fresh),
            Some(()) = dry.next(), if !dry.is_empty() => None,
            () = late => return false,
        }
    };
    match fresh {
        Some(Some(from)) => lanes.push(Lane { from, lines: VecDeque::new(), open: true, idle: false }),
        Some(None) => *more_lanes = false,
        None => {}
    }
    true
}

/// Takes the oldest lines, up to `most` or [`BATCH_BYTES`], or until a lane that holds the others back runs dry.
fn take(lanes: &mut [Lane], most: usize) -> Batch {
    let mut heads: BinaryHeap<Reverse<(Option<Timestamp>, usize)>> =
        lanes.iter().enumerate().filter_map(|(index, lane)| Some(Reverse((lane.time()?, index)))).collect();
    let (mut taken, mut bytes) = (Vec::with_capacity(most), 0);
    while let Some(Reverse((_, index))) = heads.pop() {
        let Some(lane) = lanes.get_mut(index) else { break };
        // A run of lines from one pod is taken at once: the heads of the others do not change meanwhile.
        let next = heads.peek().map(|Reverse(head)| *head);
        while let Some(time) = lane.time() {
            let is_full = taken.len() >= most || bytes >= BATCH_BYTES;
            if is_full || next.is_some_and(|next| (time, index) > next) {
                break;
            }
            let line = lane.lines.pop_front();
            bytes += line.as_ref().map_or(0, bytes_of);
            taken.extend(line);
            if lane.lines.is_empty() {
                lane.fill();
            }
        }
        if taken.len() >= most || bytes >= BATCH_BYTES {
            break;
        }
        match lane.time() {
            Some(time) => heads.push(Reverse((time, index))),
            // Its next line may be older than the others' heads.
            None if lane.holds_back() => break,
            None => {}
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn line(pod: &str, nanosecond: i128) -> Result<Item, Error> {
        let at = Timestamp::from_nanosecond(nanosecond).ok();
        let (text, also) = (nanosecond.to_string(), Vec::new());
        Ok(Item::Line { pod: Arc::from(pod), at, rank: None, level: None, text, also, cursor: None })
    }

    fn texts(batch: &Batch) -> Vec<String> {
        let text = |item: &Result<Item, Error>| match item {
            Ok(Item::Line { text, .. }) => text.clone(),
            other => format!("{other:?}"),
        };
        batch.iter().map(text).collect()
    }

    async fn all(mut from: mpsc::Receiver<Batch>) -> Vec<String> {
        let mut found = Vec::new();
        while let Some(batch) = from.recv().await {
            found.extend(texts(&batch));
        }
        found
    }

    #[tokio::test]
    async fn lines_of_many_pods_come_in_the_order_of_their_times() {
        let (arrive, arrivals) = mpsc::channel(8);
        let (to, from) = mpsc::channel(2);
        let merging = tokio::spawn(merge(arrivals, to, None));
        for pod in 0..7_i128 {
            let (lane, lines) = mpsc::channel(1);
            arrive.send(lines).await.unwrap();
            tokio::spawn(async move {
                for chunk in 0..10 {
                    let batch = (0..10).map(|number| line("p", (chunk * 10 + number) * 7 + pod)).collect();
                    lane.send(batch).await.unwrap();
                    for _ in 0..pod {
                        tokio::task::yield_now().await;
                    }
                }
            });
        }
        drop(arrive);
        let found = all(from).await;
        assert_eq!(found, (0..700).map(|number| number.to_string()).collect::<Vec<_>>());
        merging.await.unwrap();
    }

    #[tokio::test]
    async fn a_batch_of_long_lines_has_few_of_them() {
        let (arrive, arrivals) = mpsc::channel(1);
        let (to, mut from) = mpsc::channel(100);
        let (lane, lines) = mpsc::channel(1);
        arrive.send(lines).await.unwrap();
        let long = |_| match line("p", 1) {
            Ok(Item::Line { pod, at, rank, level, also, cursor, .. }) => {
                let text = "x".repeat(BATCH_BYTES / 2);
                Ok(Item::Line { pod, at, rank, level, text, also, cursor })
            }
            other => other,
        };
        lane.send((0..10).map(long).collect()).await.unwrap();
        drop((arrive, lane));
        merge(arrivals, to, None).await;
        let mut sizes = Vec::new();
        while let Some(batch) = from.recv().await {
            sizes.push(batch.len());
        }
        assert_eq!(sizes, [2; 5]);
    }

    /// Two followed pods.
    async fn two(patience: Duration) -> ([mpsc::Sender<Batch>; 2], mpsc::Receiver<Batch>) {
        let (arrive, arrivals) = mpsc::channel(8);
        let (to, from) = mpsc::channel(2);
        tokio::spawn(merge(arrivals, to, Some(patience)));
        let (one, lines) = mpsc::channel(1);
        arrive.send(lines).await.unwrap();
        let (other, lines) = mpsc::channel(1);
        arrive.send(lines).await.unwrap();
        ([one, other], from)
    }

    #[tokio::test]
    async fn a_pod_that_may_deliver_an_older_line_is_waited_for() {
        let ([late, early], mut from) = two(Duration::from_secs(3_600)).await;
        early.send(vec![line("e", 5)]).await.unwrap();
        late.send(vec![line("l", 3)]).await.unwrap();
        assert_eq!(texts(&from.recv().await.unwrap()), ["3"]);
        late.send(vec![line("l", 10)]).await.unwrap();
        assert_eq!(texts(&from.recv().await.unwrap()), ["5"]);
        drop(early);
        assert_eq!(texts(&from.recv().await.unwrap()), ["10"]);
        drop(late);
        assert!(from.recv().await.is_none());
    }

    #[tokio::test]
    async fn a_silent_pod_holds_nobody_back_for_long() {
        let ([silent, busy], mut from) = two(Duration::from_millis(1)).await;
        for number in 0..50 {
            busy.send(vec![line("b", number)]).await.unwrap();
            assert_eq!(texts(&from.recv().await.unwrap()), [number.to_string()]);
        }
        drop((silent, busy));
        assert!(from.recv().await.is_none());
    }
}
