//! The body of a review: read within a time and a budget of memory, because callers need not be known, and parsed away from
//! the runtime if it is large.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use connections::{Exhausted, JsonLimits, JsonRefused, Share};
use http::StatusCode;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;

use crate::serve::{Answer, text};

/// The memory for reviews: of all callers, and of one address, which is enough for the largest review. It includes
/// an estimate of what a review takes once it is parsed. When all is taken, each address has an equal part of it.
pub(super) const MEMORY: usize = 128 << 20;
pub(super) const MEMORY_OF_PEER: usize = 64 << 20;
/// The most bytes of a review: an object is bounded by 1.5 MiB in etcd, and an update has two.
const LONGEST: usize = 8 << 20;
/// What a review may consist of.
pub(super) const JSON_LIMITS: JsonLimits = JsonLimits { containers: 30_000, container_bytes: 1 << 10 };
/// How long a review may take to arrive: the API server gives up by then.
const WITHIN: Duration = Duration::from_secs(10);
/// The largest review that is parsed on the runtime.
const PARSED_AT_ONCE: usize = 256 << 10;

/// Why a body is not read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is too large.
    TooLarge,
    /// It has too many parts.
    TooMany(Bytes),
    /// It took too long.
    Late,
    /// There is no memory for it now.
    NoMemory(Exhausted),
    /// The connection failed.
    Broken(String),
}

impl Refused {
    /// Returns the response.
    pub(super) fn answer(&self) -> Answer {
        match self {
            Self::TooLarge | Self::TooMany(_) => {
                text(StatusCode::PAYLOAD_TOO_LARGE, "the review is too large\n")
            }
            Self::Late => text(StatusCode::REQUEST_TIMEOUT, "the review did not arrive in time\n"),
            Self::NoMemory(Exhausted::Client) => {
                text(StatusCode::TOO_MANY_REQUESTS, "too many reviews come from this address\n")
            }
            Self::NoMemory(Exhausted::Total) => {
                text(StatusCode::SERVICE_UNAVAILABLE, "too many reviews are in progress\n")
            }
            Self::Broken(error) => text(StatusCode::BAD_REQUEST, format!("{error}\n")),
        }
    }
}

/// Does what needs a share's memory, as long as another address does not displace it.
pub(super) async fn unless_displaced<T>(
    share: &Share,
    work: impl Future<Output = Result<T, Refused>>,
) -> Result<T, Refused> {
    tokio::select! {
        biased;
        () = share.displaced() => Err(Refused::NoMemory(Exhausted::Client)),
        done = work => done,
    }
}

/// Reads a body. Its memory belongs to `share` until that is dropped.
pub(super) async fn read<B>(body: B, share: &Share) -> Result<Bytes, Refused>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let read = async {
        let (mut body, mut bytes) = (std::pin::pin!(body), BytesMut::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Refused::Broken(error.into().to_string()))?;
            let Ok(mut data) = frame.into_data() else { continue };
            if bytes.len() + data.remaining() > LONGEST {
                return Err(Refused::TooLarge);
            }
            share.take(data.remaining()).map_err(Refused::NoMemory)?;
            bytes.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        Ok(bytes.freeze())
    };
    let bytes = tokio::time::timeout(WITHIN, read).await.unwrap_or(Err(Refused::Late))?;
    match JSON_LIMITS.take(&bytes, share) {
        Ok(()) => Ok(bytes),
        Err(JsonRefused::TooMany) => Err(Refused::TooMany(bytes)),
        Err(JsonRefused::NoMemory(exhausted)) => Err(Refused::NoMemory(exhausted)),
    }
}

/// Parses a review. Its memory is not returned before that ends, even if nobody waits for it any more.
pub(super) async fn parse<T: DeserializeOwned + Send + 'static>(
    bytes: Bytes,
    share: &Arc<Share>,
) -> Result<T, serde_json::Error> {
    if bytes.len() <= PARSED_AT_ONCE {
        return serde_json::from_slice(&bytes);
    }
    let share = share.clone();
    share.pin().map_err(|_| <serde_json::Error as serde::de::Error>::custom("there is no memory for it"))?;
    let parsed = tokio::task::spawn_blocking(move || {
        let parsed = serde_json::from_slice(&bytes);
        share.unpin();
        parsed
    });
    let parsed = parsed.await;
    parsed.unwrap_or_else(|error| Err(serde::de::Error::custom(error)))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use connections::{Budget, MOST_JSON_VALUES};
    use futures::{StreamExt as _, stream};
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};
    use tokio::time::Instant;

    use super::*;

    async fn of(text: String, share: &Share) -> Result<Bytes, Refused> {
        read(Full::new(Bytes::from(text)), share).await
    }

    #[tokio::test]
    async fn reviews_in_progress_hold_no_more_memory_than_there_is() {
        let budget = Budget::new(12 << 20, 8 << 20);
        let (first, second, other) = (budget.share("a"), budget.share("a"), budget.share("b"));
        let large = || " ".repeat(5 << 20);
        assert!(of(large(), &first).await.is_ok());
        assert_eq!(of(large(), &second).await, Err(Refused::NoMemory(Exhausted::Client)));
        assert!(of(large(), &other).await.is_ok());
        assert_eq!(of(large(), &budget.share("c")).await, Err(Refused::NoMemory(Exhausted::Total)));
        drop(first);
        assert!(of(large(), &budget.share("c")).await.is_ok());
        assert_eq!(
            of(" ".repeat(LONGEST + 1), &Budget::new(MEMORY, MEMORY).share("a")).await,
            Err(Refused::TooLarge)
        );
    }

    /// The start of a body whose end never arrives.
    fn stalled(start: Bytes) -> impl http_body::Body<Data = Bytes, Error = Infallible> + Send {
        StreamBody::new(stream::iter([Ok(Frame::data(start))]).chain(stream::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_in_time_is_refused_and_returns_its_memory() {
        let budget = Budget::new(1 << 20, 1 << 20);
        let (share, begun) = (budget.share("a"), Instant::now());
        let start = Bytes::from(vec![b' '; 1 << 20]);
        assert_eq!(read(stalled(start), &share).await, Err(Refused::Late));
        assert_eq!(begun.elapsed().as_secs(), WITHIN.as_secs());
        assert_eq!(Refused::Late.answer().status(), StatusCode::REQUEST_TIMEOUT);
        drop(share);
        assert!(of(" ".repeat(1 << 20), &budget.share("b")).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_that_send_slowly_do_not_keep_reviews_of_another_out() {
        for hostile in [2, 100] {
            let budget = Budget::new(MEMORY, MEMORY_OF_PEER);
            let (start, address) = (Bytes::from(vec![b' '; 256 << 10]), |n: usize| (n % hostile).to_string());
            // More than there is room for.
            let shares: Vec<Share> = (0..600).map(|n| budget.share(address(n))).collect();
            let slow = shares.iter().map(|share| read(stalled(start.clone()), share));
            let slow = futures::future::join_all(slow);
            let reviews = async {
                tokio::task::yield_now().await;
                assert_eq!(budget.share("other").take(MEMORY_OF_PEER), Err(Exhausted::Total));
                // Each needs 256 KiB with what it takes once it is parsed.
                let review = format!("[{}]", vec![r#"{"name":"value"}"#; 200].join(","));
                let own: Vec<Share> = (0..4).map(|_| budget.share("API server")).collect();
                for share in &own {
                    assert!(of(review.clone(), share).await.is_ok(), "{hostile}");
                }
            };
            tokio::select! {
                biased;
                _ = slow => unreachable!("they never end"),
                () = reviews => {}
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_arrives_slowly_gives_way_to_one_of_an_address_that_holds_less() {
        let budget = Budget::new(2 << 20, 2 << 20);
        let (slow, other) = (budget.share("a"), budget.share("b"));
        let start = Bytes::from(vec![b' '; 2 << 20]);
        let slow = unless_displaced(&slow, read(stalled(start), &slow));
        let other = async {
            tokio::task::yield_now().await;
            of(" ".repeat(1 << 20), &other).await
        };
        let (slow, other) = tokio::join!(slow, other);
        assert_eq!((slow, other.is_ok()), (Err(Refused::NoMemory(Exhausted::Client)), true));
    }

    #[test]
    fn a_review_that_is_parsed_keeps_its_memory_until_that_ends() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            // The only thread that parses is busy.
            let (sender, receiver) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || receiver.recv());
            let budget = Budget::new(PARSED_AT_ONCE * 2, PARSED_AT_ONCE * 2);
            let (share, other) = (Arc::new(budget.share("a")), budget.share("b"));
            let bytes = of(format!("[\"{}\"]", " ".repeat(PARSED_AT_ONCE)), &share).await.unwrap();
            let parsed = parse::<serde_json::Value>(bytes, &share);
            let taken = async {
                let taken = other.take(PARSED_AT_ONCE);
                sender.send(()).unwrap();
                taken
            };
            let (parsed, taken) = tokio::join!(parsed, taken);
            assert!(busy.await.is_ok() && parsed.is_ok());
            assert_eq!(taken, Err(Exhausted::Total));
            assert_eq!(other.take(PARSED_AT_ONCE), Ok(()), "it can be displaced again");
        });
    }

    #[test]
    fn an_idle_webhook_has_room_for_the_largest_review_of_one_address() {
        let share = Budget::new(MEMORY, MEMORY_OF_PEER).share("a");
        let objects = JSON_LIMITS.containers - 1;
        // An object counts as two values, with the comma after it; the list counts as one, as does each comma
        // between numbers.
        let numbers = MOST_JSON_VALUES - 2 * objects;
        let review = |numbers: usize| format!("[{}{}]", "{},".repeat(objects), vec!["0"; numbers].join(","));
        assert_eq!(share.take(LONGEST), Ok(()));
        assert_eq!(JSON_LIMITS.take(review(numbers).as_bytes(), &share), Ok(()));
        assert_eq!(JSON_LIMITS.take(review(numbers + 1).as_bytes(), &share), Err(JsonRefused::TooMany));
    }

    #[tokio::test]
    async fn a_review_of_many_small_parts_is_refused_before_it_is_parsed() {
        let share = Budget::new(MEMORY, MEMORY_OF_PEER).share("a");
        let list = |count: usize, part: &str| format!("[{}]", vec![part; count].join(","));
        for (most, part) in
            [(JSON_LIMITS.containers, "{}"), (MOST_JSON_VALUES, "0"), (MOST_JSON_VALUES, "\"\"")]
        {
            let refused = of(list(most + 1, part), &share).await;
            assert!(matches!(refused, Err(Refused::TooMany(_))), "{part}");
            let answer = refused.unwrap_err().answer();
            assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE, "{part}");
            assert!(of(list(1_000, part), &share).await.is_ok(), "{part}");
        }
        let (one, other) = (Budget::new(MEMORY, 8 << 20).share("a"), list(MOST_JSON_VALUES / 2, "0"));
        assert_eq!(
            of(other, &one).await,
            Err(Refused::NoMemory(Exhausted::Client)),
            "it needs more than its text"
        );
    }
}
