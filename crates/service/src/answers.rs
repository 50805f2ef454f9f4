//! Responses until they are sent: what clients do not read takes memory of a budget, that of the user, or of the address of a
//! stranger.
//!
//! An HTTP library takes a response's frames out of its body before the client reads them. So each frame keeps its memory
//! counted until it is sent or dropped, in pieces that show whether the client reads. A user with too many unread responses is
//! refused. Many strangers may share an address, so instead of refusing another one, the service closes the connection with
//! the oldest unread response.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Error;
use axum::body::Body;
use bytes::Bytes;
use connections::{Budget, Exhausted, Share, Slot, share_of};
use http::{HeaderMap, Response, header};
use http_body::{Body as _, Frame, SizeHint};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::operation;
use crate::problem::Problem;
use crate::response::refuse;

/// The memory for unread responses to users: to all, and to each.
const MEMORY: usize = 256 << 20;
const MEMORY_OF_USER: usize = 64 << 20;
/// The memory for unread responses to strangers: to all, and to each address.
const MEMORY_OF_STRANGERS: usize = 64 << 20;
const MEMORY_OF_ADDRESS: usize = 4 << 20;
/// What an open response takes besides its content: its task, its stream and its head.
const RESPONSE: usize = 16 << 10;
/// The most bytes that are sent at once.
const PIECE: usize = 32 << 10;

/// The memory for responses that are not read yet.
pub struct Answers {
    users: Arc<Budget>,
    strangers: Arc<Budget>,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            users: Budget::new(MEMORY, MEMORY_OF_USER),
            strangers: Budget::rolling(MEMORY_OF_STRANGERS, MEMORY_OF_ADDRESS),
        }
    }
}

impl Answers {
    /// Takes the memory for a response to a user, until its content is known.
    ///
    /// # Errors
    /// 429 if the user has too many unread responses, 503 if there is no memory for another.
    pub fn reserve(&self, user: &str) -> Result<Arc<Share>, Problem> {
        let share = self.users.share(share_of(user));
        share.pin().and_then(|()| share.take(RESPONSE)).map_err(exhausted)?;
        Ok(Arc::new(share))
    }
}

/// Marks a response whose content is one copy for all.
#[derive(Clone, Copy, Debug)]
struct Common;

/// Notes that a response's content is one copy for all, which takes no memory of its own.
pub fn common(mut response: Response<Body>) -> Response<Body> {
    response.extensions_mut().insert(Common);
    response
}

/// The unread responses of a connection.
pub struct Connection {
    answers: Arc<Answers>,
    slot: Arc<Slot>,
    /// Cancelled when a response must make room for others.
    displaced: CancellationToken,
    /// How long a complete response may wait while the client reads none.
    patience: Duration,
    sending: Mutex<Sending>,
}

/// The pieces of complete responses on their way to the client.
struct Sending {
    pieces: usize,
    /// When the first began to wait, or the last one was sent.
    since: Instant,
}

impl Connection {
    /// Creates that of a connection.
    pub fn new(answers: Arc<Answers>, slot: Arc<Slot>, patience: Duration) -> Arc<Self> {
        let sending = Mutex::new(Sending { pieces: 0, since: Instant::now() });
        Arc::new(Self { answers, slot, displaced: CancellationToken::new(), patience, sending })
    }

    /// Counts a response until it is sent, or refuses it: then without content, because nothing would count that.
    pub async fn hold(self: &Arc<Self>, response: Response<Body>) -> Response<Body> {
        let is_common = response.extensions().get::<Common>().is_some();
        let (head, body) = response.into_parts();
        // A head alone is not held back by the client's windows.
        if body.is_end_stream() {
            return Response::from_parts(head, body);
        }
        let mut unread = Unread::new(body, self.share(), is_common);
        match unread.begin(self).await {
            Ok(()) => Response::from_parts(head, Body::new(unread)),
            Err(which) => refused(&head.headers, which),
        }
    }

    /// Returns an empty share of the caller of the present request.
    fn share(&self) -> Share {
        let (user, address) = (operation::share(), || format!("address {}", self.slot.peer()));
        let (budget, client) = match (user.is_empty(), self.slot.is_kept()) {
            (false, _) => (&self.answers.users, user),
            // What a known client asks for without a token: the files of the dashboard.
            (true, true) => (&self.answers.users, address()),
            (true, false) => (&self.answers.strangers, address()),
        };
        budget.share_with(client, self.displaced.clone())
    }

    /// Resolves when the connection must close: a response makes room for others, or is not read.
    pub async fn overdue(&self) {
        tokio::select! {
            () = self.displaced.cancelled() => tracing::debug!("closed a connection: others need its memory"),
            () = self.stalled() => tracing::debug!("closed a connection whose client does not read"),
        }
    }

    async fn stalled(&self) {
        loop {
            let now = Instant::now();
            let due = self.due().unwrap_or(now + self.patience);
            if due <= now {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }

    /// When the connection is stalled unless the client reads; `None` if no complete response waits.
    fn due(&self) -> Option<Instant> {
        let sending = self.lock();
        (sending.pieces > 0).then(|| sending.since + self.patience)
    }

    fn lock(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body whose frames are counted until they are sent.
struct Unread {
    /// The frames that were there when the response began.
    ready: VecDeque<Item>,
    /// What is left of the frame that is being sent.
    cut: Option<(Bytes, Arc<Charge>)>,
    rest: Option<Body>,
    is_exact: bool,
    is_common: bool,
    share: Arc<Share>,
    /// The connection, if the response is complete: a stream may wait for a client that pauses.
    watched: Option<Arc<Connection>>,
}

enum Item {
    Data(Bytes, Arc<Charge>),
    Other(Frame<Bytes>),
    Failed(Error),
}

impl Unread {
    fn new(body: Body, share: Share, is_common: bool) -> Self {
        let is_exact = body.size_hint().exact().is_some();
        let (ready, share) = (VecDeque::new(), Arc::new(share));
        Self { ready, cut: None, rest: Some(body), is_exact, is_common, share, watched: None }
    }

    /// Counts the response with what is there at once, which is all of it unless it is a stream.
    async fn begin(&mut self, connection: &Arc<Connection>) -> Result<(), Exhausted> {
        self.share.take(RESPONSE)?;
        // The content of a response over gRPC is followed by trailers.
        for _ in 0..2 {
            let Some(rest) = &mut self.rest else { break };
            let polled = poll_fn(|context| Poll::Ready(Pin::new(&mut *rest).poll_frame(context))).await;
            let Poll::Ready(frame) = polled else { break };
            let item = self.count(frame)?;
            self.ready.extend(item);
        }
        self.watched = self.rest.is_none().then(|| connection.clone());
        Ok(())
    }

    /// Counts the next frame.
    fn count(&mut self, frame: Option<Result<Frame<Bytes>, Error>>) -> Result<Option<Item>, Exhausted> {
        let frame = match frame {
            Some(Ok(frame)) => frame,
            other => {
                self.rest = None;
                return Ok(other.and_then(Result::err).map(Item::Failed));
            }
        };
        if frame.is_trailers() || self.rest.as_ref().is_some_and(http_body::Body::is_end_stream) {
            self.rest = None;
        }
        Ok(Some(match frame.into_data() {
            Ok(data) => {
                let bytes = if self.is_common { 0 } else { data.len() };
                Item::Data(data, Charge::take(&self.share, bytes)?)
            }
            Err(other) => Item::Other(other),
        }))
    }

    /// Cuts off the next piece.
    fn piece(&mut self) -> Option<Bytes> {
        let (left, charge) = self.cut.as_mut()?;
        let data = left.split_to(left.len().min(PIECE));
        let watch = self.watched.as_ref().map(Watch::begin);
        let piece = Piece { data, charge: charge.clone(), watch };
        if left.is_empty() {
            self.cut = None;
        }
        Some(Bytes::from_owner(piece))
    }

    /// The bytes of the frames that are there.
    fn left(&self) -> usize {
        let ready = self.ready.iter().map(|item| match item {
            Item::Data(data, _) => data.len(),
            Item::Other(_) | Item::Failed(_) => 0,
        });
        ready.sum::<usize>() + self.cut.as_ref().map_or(0, |(left, _)| left.len())
    }
}

impl http_body::Body for Unread {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        loop {
            if let Some(piece) = this.piece() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            let item = match this.ready.pop_front() {
                Some(item) => item,
                None => {
                    let Some(rest) = &mut this.rest else { return Poll::Ready(None) };
                    let frame = ready!(Pin::new(rest).poll_frame(context));
                    match this.count(frame) {
                        Ok(Some(item)) => item,
                        Ok(None) => return Poll::Ready(None),
                        Err(which) => {
                            this.rest = None;
                            Item::Failed(Error::new(exhausted(which)))
                        }
                    }
                }
            };
            match item {
                Item::Data(data, _) if data.is_empty() => {
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Item::Data(data, charge) => this.cut = Some((data, charge)),
                Item::Other(frame) => return Poll::Ready(Some(Ok(frame))),
                Item::Failed(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.cut.is_none() && self.ready.is_empty() && self.rest.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref().map_or(Some(0), |rest| rest.size_hint().exact());
        match rest.filter(|_| self.is_exact) {
            Some(rest) => SizeHint::with_exact(rest + self.left() as u64),
            None => SizeHint::default(),
        }
    }
}

/// The memory of a frame, until all its pieces are sent.
struct Charge {
    share: Arc<Share>,
    bytes: usize,
}

impl Charge {
    fn take(share: &Arc<Share>, bytes: usize) -> Result<Arc<Self>, Exhausted> {
        share.take(bytes)?;
        Ok(Arc::new(Self { share: share.clone(), bytes }))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.share.release(self.bytes);
    }
}

/// A piece that waits to be sent.
struct Piece {
    data: Bytes,
    #[expect(dead_code, reason = "holds the memory until it is dropped")]
    charge: Arc<Charge>,
    #[expect(dead_code, reason = "counts as progress when it is dropped")]
    watch: Option<Watch>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

/// A piece on its way, as its connection counts it.
struct Watch(Arc<Connection>);

impl Watch {
    fn begin(connection: &Arc<Connection>) -> Self {
        let mut sending = connection.lock();
        if sending.pieces == 0 {
            sending.since = Instant::now();
        }
        sending.pieces += 1;
        Self(connection.clone())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut sending = self.0.lock();
        sending.pieces = sending.pieces.saturating_sub(1);
        sending.since = Instant::now();
    }
}

fn exhausted(which: Exhausted) -> Problem {
    match which {
        Exhausted::Client => {
            Problem::too_many("the responses that this client has not read are too large together")
                .hint("read the responses, or cancel their requests")
        }
        Exhausted::Total => Problem::unavailable("the service has no memory for another response now"),
    }
}

/// The response, without content, in place of one with these headers.
fn refused(headers: &HeaderMap, which: Exhausted) -> Response<Body> {
    let problem = exhausted(which);
    let content_type = headers.get(header::CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    if content_type.is_some_and(|kind| kind.starts_with(b"application/grpc")) {
        return problem.grpc().into_http();
    }
    let mut response = refuse(&problem).map(|_| Body::empty());
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use connections::Slots;
    use futures::{StreamExt as _, stream};
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;
    use crate::operation::Operation;

    type Nothing = std::convert::Infallible;

    fn connection(answers: &Arc<Answers>) -> Arc<Connection> {
        let slot = Slots::new(8, 8).take(IpAddr::from([10, 0, 0, 1])).unwrap();
        Connection::new(answers.clone(), Arc::new(slot), Duration::from_millis(20))
    }

    async fn to_user(connection: &Arc<Connection>, user: &str, response: Response<Body>) -> Response<Body> {
        let work = async {
            operation::is_authenticated(user);
            Ok::<_, Nothing>(connection.hold(response).await)
        };
        Operation::new(None, None, &HeaderMap::new()).answer(work).await.unwrap()
    }

    fn large() -> Response<Body> {
        Response::new(Body::from(vec![0_u8; 20 << 20]))
    }

    #[tokio::test]
    async fn a_users_unread_responses_are_bounded_and_count_until_they_are_sent() {
        let answers = Arc::default();
        let connection = connection(&answers);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(to_user(&connection, "jane", large()).await);
        }
        let refused = to_user(&connection, "jane", large()).await;
        assert_eq!((refused.status().as_u16(), refused.body().is_end_stream()), (429, true));
        assert_eq!(to_user(&connection, "joe", large()).await.status(), 200);
        let mut body = held.pop().unwrap().into_body();
        assert_eq!(body.size_hint().exact(), Some(20 << 20));
        let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(piece.len(), PIECE);
        drop(body);
        assert_eq!(to_user(&connection, "jane", large()).await.status(), 429, "a piece waits to be sent");
        drop(piece);
        let read = to_user(&connection, "jane", large()).await.into_body().collect().await.unwrap();
        assert_eq!(read.to_bytes().len(), 20 << 20);
        assert!(!connection.displaced.is_cancelled());
    }

    #[tokio::test]
    async fn no_request_of_a_user_with_too_many_unread_responses_is_admitted() {
        let answers: Arc<Answers> = Arc::default();
        let connection = connection(&answers);
        let content = MEMORY_OF_USER - RESPONSE;
        let held = to_user(&connection, "jane", Response::new(Body::from(vec![0_u8; content]))).await;
        assert_eq!(answers.reserve("jane").map(|_| ()).unwrap_err().status, 429);
        assert!(answers.reserve("joe").is_ok());
        drop(held);
        assert!(answers.reserve("jane").is_ok());
    }

    #[tokio::test]
    async fn the_oldest_unread_response_to_a_stranger_makes_room_for_another_of_its_address() {
        let answers = Arc::default();
        let [first, second] = [(); 2].map(|()| connection(&answers));
        let small = || Response::new(Body::from("ok"));
        let mut held = vec![first.hold(small()).await];
        for _ in 1..MEMORY_OF_ADDRESS / RESPONSE {
            held.push(second.hold(small()).await);
        }
        assert!(held.iter().all(|response| response.status() == 200));
        tokio::time::timeout(Duration::from_secs(30), first.overdue()).await.unwrap();
        assert!(!second.displaced.is_cancelled());
        let huge = Response::new(Body::from(vec![0_u8; MEMORY_OF_ADDRESS]));
        assert_eq!(second.hold(huge).await.status(), 429);
    }

    #[tokio::test]
    async fn a_stream_counts_as_far_as_it_is_not_sent() {
        let answers = Arc::default();
        let connection = connection(&answers);
        let chunks = stream::repeat_with(|| Ok::<_, Nothing>(Bytes::from(vec![0_u8; 1 << 20]))).take(100);
        let response = to_user(&connection, "jane", Response::new(Body::from_stream(chunks))).await;
        let read = response.into_body().into_data_stream();
        let bytes = read.fold(0, |bytes, data| async move { bytes + data.unwrap().len() }).await;
        assert_eq!(bytes, 100 << 20);
    }

    #[tokio::test]
    async fn content_that_is_one_copy_for_all_takes_no_memory() {
        let answers = Arc::default();
        let connection = connection(&answers);
        let content = Bytes::from(vec![0_u8; MEMORY_OF_ADDRESS]);
        for _ in 0..100 {
            let response = common(Response::new(Body::from(content.clone())));
            assert_eq!(connection.hold(response).await.status(), 200);
        }
    }

    #[tokio::test]
    async fn a_connection_whose_client_does_not_read_a_complete_response_ends() {
        let answers = Arc::default();
        let connection = connection(&answers);
        let paused = stream::once(async { Ok::<_, Nothing>(Bytes::from("line")) }).chain(stream::pending());
        let mut paused = connection.hold(Response::new(Body::from_stream(paused))).await.into_body();
        let waiting = paused.frame().await;
        assert!(connection.due().is_none(), "a client may pause a stream");
        let mut read = connection.hold(Response::new(Body::from("read"))).await.into_body();
        drop(read.frame().await);
        assert!(connection.due().is_none());
        let mut unread = connection.hold(Response::new(Body::from("unread"))).await.into_body();
        let piece = unread.frame().await;
        tokio::time::timeout(Duration::from_secs(30), connection.overdue()).await.unwrap();
        drop((waiting, piece));
    }

    #[tokio::test]
    async fn a_response_over_grpc_keeps_its_trailers_and_is_refused_by_its_status() {
        let answers = Arc::default();
        let connection = connection(&answers);
        let response = |bytes: usize| {
            let trailers = HeaderMap::from_iter([(header::ETAG, http::HeaderValue::from_static("0"))]);
            let frames = [Frame::data(Bytes::from(vec![0_u8; bytes])), Frame::trailers(trailers)];
            let body = StreamBody::new(stream::iter(frames.map(Ok::<_, Nothing>)));
            let mut response = Response::new(Body::new(body));
            let content_type = http::HeaderValue::from_static("application/grpc");
            response.headers_mut().insert(header::CONTENT_TYPE, content_type);
            response
        };
        let read = to_user(&connection, "jane", response(100_000)).await.into_body().collect().await.unwrap();
        assert_eq!(read.trailers().unwrap()[header::ETAG], "0");
        let refused = to_user(&connection, "jane", response(MEMORY_OF_USER)).await;
        assert_eq!(refused.headers()["grpc-status"], "8");
        assert!(refused.body().is_end_stream());
    }
}
