//! Bodies of requests: read for known callers only, within a time and a budget of memory, and interpreted away from the
//! runtime if they are large. A body that arrives slowly gives its memory to a caller that has less.

use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use connections::{Exhausted, Share};
use http::StatusCode;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::time::Sleep;

use crate::operation;
use crate::problem::Problem;
use crate::turns::{Bounds, Turns};

/// The memory for what callers send: of all of them, and of each. It includes an estimate of what a message takes once it
/// is parsed.
pub const MEMORY: usize = 256 << 20;
pub const MEMORY_OF_CALLER: usize = 64 << 20;
/// The largest body: larger than the largest manifest.
pub const MAX_BODY: usize = 4 << 20;
/// How long a body may take to arrive.
const WITHIN: Duration = Duration::from_secs(20);
/// The largest text that is parsed on the runtime.
const PARSED_AT_ONCE: usize = 64 << 10;
/// How many texts are parsed away from the runtime at a time, and how many wait for that.
const APART: Bounds = Bounds { places: 2, waiting_of_share: 32, waiting: 1024 };

static WORKING: LazyLock<Arc<Turns>> = LazyLock::new(|| Turns::new(APART));

/// A body that holds memory of its caller's share while it is read, and that ends with a [`Problem`] if it has too much,
/// takes too long, or is displaced.
pub struct Bounded {
    inner: Body,
    share: Arc<Share>,
    left: usize,
    deadline: Pin<Box<Sleep>>,
    displaced: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Bounded {
    /// Bounds a body from now on.
    pub fn new(inner: Body, share: Arc<Share>, most: usize) -> Self {
        let (deadline, displaced) = (Box::pin(tokio::time::sleep(WITHIN)), Box::pin(share.displaced()));
        Self { inner, share, left: most, deadline, displaced }
    }

    /// Reads the whole body, which is not displaced any more then: a call is not stopped half-way.
    ///
    /// # Errors
    /// 408, 413, 429 or 503 if it is beyond a bound, 400 if it cannot be read.
    pub async fn bytes(self) -> Result<Bytes, Problem> {
        let share = self.share.clone();
        let collected = self.collect().await?;
        share.pin().map_err(exhausted)?;
        Ok(collected.to_bytes())
    }

    fn admit(&mut self, bytes: usize) -> Result<(), Problem> {
        self.left = self.left.checked_sub(bytes).ok_or_else(too_large)?;
        self.share.take(bytes).map_err(exhausted)
    }
}

impl http_body::Body for Bounded {
    type Data = Bytes;
    type Error = Problem;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Problem>>> {
        if self.deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(late())));
        }
        if self.displaced.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(exhausted(Exhausted::Client))));
        }
        let frame = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => {
                let fault = format!("the body cannot be read: {error}");
                return Poll::Ready(Some(Err(Problem::usage("", fault, "send it again"))));
            }
            Some(Ok(frame)) => frame,
        };
        let admitted = frame.data_ref().map_or(Ok(()), |data| {
            let bytes = data.len();
            self.admit(bytes)
        });
        Poll::Ready(Some(admitted.map(|()| frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn late() -> Problem {
    Problem {
        status: StatusCode::REQUEST_TIMEOUT,
        ..Problem::usage("", "the body did not arrive in time", "")
    }
}

fn too_large() -> Problem {
    let fault = format!("the body is larger than {} MiB", MAX_BODY >> 20);
    Problem { status: StatusCode::PAYLOAD_TOO_LARGE, ..Problem::usage("", fault, "send a smaller one") }
}

/// The problem of a caller whose requests do not fit into memory now.
pub fn exhausted(which: Exhausted) -> Problem {
    match which {
        Exhausted::Client => Problem::too_many("the caller's requests in progress are too large together")
            .hint("send large requests one after another"),
        Exhausted::Total => Problem::unavailable("the service has no memory for another request now"),
    }
}

/// Does work on a text of this many bytes: away from the runtime if it is large, in turns of the callers.
///
/// # Errors
/// Those of `parse`, 429 if too many large texts of the caller wait, or 503 if it cannot be run.
pub async fn parse<T, F>(size: usize, parse: F) -> Result<T, Problem>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Problem> + Send + 'static,
{
    if size <= PARSED_AT_ONCE { parse() } else { apart(parse).await }
}

async fn apart<T, F>(work: F) -> Result<T, Problem>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Problem> + Send + 'static,
{
    let done = WORKING.run(&operation::share(), work).await.map_err(exhausted)?;
    done.unwrap_or_else(|_| Err(Problem::unavailable("the request cannot be read now")))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{self, RecvTimeoutError};

    use connections::Budget;
    use futures::{StreamExt as _, stream};
    use tokio::time::Instant;

    use super::*;

    fn of(bytes: usize, share: &Arc<Share>) -> Bounded {
        Bounded::new(Body::from(vec![b' '; bytes]), share.clone(), MAX_BODY)
    }

    #[tokio::test]
    async fn bodies_in_progress_hold_no_more_memory_than_there_is() {
        let budget = Budget::new(10 << 20, 6 << 20);
        let share = |user: &str| Arc::new(budget.share(user));
        let (first, second, other) = (share("jane"), share("jane"), share("joe"));
        assert!(of(4 << 20, &first).bytes().await.is_ok());
        assert_eq!(of(4 << 20, &second).bytes().await.unwrap_err().status, 429);
        assert!(of(4 << 20, &other).bytes().await.is_ok());
        assert_eq!(of(4 << 20, &share("vera")).bytes().await.unwrap_err().status, 503);
        drop(first);
        assert!(of(4 << 20, &share("vera")).bytes().await.is_ok());
        assert_eq!(of(MAX_BODY + 1, &share("vera")).bytes().await.unwrap_err().status, 413);
    }

    /// A body of which only the start arrives.
    fn stalled(bytes: usize, share: &Arc<Share>) -> Bounded {
        let start = Ok::<_, std::io::Error>(Bytes::from(vec![b' '; bytes]));
        let body = Body::from_stream(stream::iter([start]).chain(stream::pending()));
        Bounded::new(body, share.clone(), MAX_BODY)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_in_time_is_refused() {
        let (share, begun) = (Arc::new(Budget::new(8, 8).share("jane")), Instant::now());
        assert_eq!(stalled(8, &share).bytes().await.unwrap_err().status, 408);
        assert_eq!(begun.elapsed().as_secs(), WITHIN.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_arrives_slowly_gives_way_to_one_of_a_caller_that_has_less() {
        let budget = Budget::new(8 << 20, 4 << 20);
        let share = |user: &str| Arc::new(budget.share(user));
        let (jane, joe, vera) = (share("jane"), share("joe"), share("vera"));
        let arriving = async {
            tokio::task::yield_now().await;
            of(2 << 20, &vera).bytes().await
        };
        let displaced = async { tokio::join!(stalled(4 << 20, &jane).bytes(), arriving) };
        tokio::select! {
            biased;
            _ = stalled(3 << 20, &joe).bytes() => unreachable!("another caller holds more"),
            (slow, arrived) = displaced => {
                assert_eq!(slow.unwrap_err().status, 429);
                assert!(arrived.is_ok());
            }
        }
    }

    #[tokio::test]
    async fn what_is_parsed_apart_leaves_the_runtime_to_others() {
        let (sender, receiver) = std::sync::mpsc::channel();
        // It ends only if this task goes on meanwhile.
        let parsed = parse(PARSED_AT_ONCE + 1, move || Ok(receiver.recv().is_ok()));
        let (parsed, sent) = tokio::join!(parsed, async { sender.send(()).is_ok() });
        assert!(parsed.unwrap() && sent);
    }

    async fn of_user(
        user: &'static str,
        work: impl Future<Output = Result<(), Problem>>,
    ) -> Result<(), Problem> {
        let work = async {
            operation::is_authenticated(user);
            Ok::<_, ()>(http::Response::new(work.await))
        };
        let operation = operation::Operation::new(None, None, &http::HeaderMap::new());
        operation.answer(work).await.unwrap().into_body()
    }

    #[tokio::test]
    async fn large_texts_of_one_caller_keep_another_waiting_only_while_they_are_parsed() {
        let ((first, is_first_open), (second, is_second_open)) = (gate(), gate());
        let begun = Arc::new(AtomicUsize::new(0));
        // The first of the one caller end when the other caller waits, those after them when the other is done.
        let hostile = (0..8).map(|_| {
            let (begun, first, second) = (begun.clone(), is_first_open.clone(), is_second_open.clone());
            let work = move || {
                let open = if begun.fetch_add(1, Ordering::SeqCst) < APART.places { first } else { second };
                let waited = open.lock().unwrap().recv_timeout(Duration::from_secs(30));
                let is_open = waited == Err(RecvTimeoutError::Disconnected);
                if is_open { Ok(()) } else { Err(Problem::unavailable("the other caller waits")) }
            };
            of_user("hostile", parse(PARSED_AT_ONCE + 1, work))
        });
        let hostile = futures::future::join_all(hostile);
        let honest = async {
            let small = of_user("honest", parse(PARSED_AT_ONCE, || Ok(()))).await;
            drop(first);
            let large = of_user("honest", parse(PARSED_AT_ONCE + 1, || Ok(()))).await;
            drop(second);
            small.and(large)
        };
        let (all, honest) = tokio::join!(hostile, honest);
        assert!(honest.is_ok() && all.iter().all(Result::is_ok), "{all:?}");
    }

    /// What ends the waiting for it when the sender is dropped.
    fn gate() -> (mpsc::Sender<()>, Arc<Mutex<mpsc::Receiver<()>>>) {
        let (sender, receiver) = mpsc::channel();
        (sender, Arc::new(Mutex::new(receiver)))
    }
}
