//! The body of a review: read within a time and a budget of memory, because callers need not be known, and parsed away from
//! the runtime if it is large.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use connections::{Exhausted, JsonSize, Share, json_size};
use http::StatusCode;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;

use crate::serve::{Answer, text};

/// The memory for reviews: of all callers, and of one address. It includes an estimate of what a review takes once it is
/// parsed.
pub(super) const MEMORY: usize = 128 << 20;
pub(super) const MEMORY_OF_PEER: usize = 64 << 20;
/// The most bytes of a review: an object is bounded by 1.5 MiB in etcd, and an update has two.
const LONGEST: usize = 8 << 20;
/// The most objects and lists in a review, and what each of them takes in memory once it is parsed.
const MOST_CONTAINERS: usize = 30_000;
const CONTAINER_BYTES: usize = 1 << 10;
/// The same of values in them.
const MOST_VALUES: usize = 200_000;
const VALUE_BYTES: usize = 128;
/// How long a review may take to arrive: the API server gives up by then.
const WITHIN: Duration = Duration::from_secs(10);
/// The largest review that is parsed on the runtime.
const PARSED_AT_ONCE: usize = 256 << 10;

/// Why a body is not read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is too large.
    TooLarge,
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
            Self::TooLarge => text(StatusCode::PAYLOAD_TOO_LARGE, "the review is too large\n"),
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
    let JsonSize { containers, values } = json_size(&bytes);
    if containers > MOST_CONTAINERS || values > MOST_VALUES {
        return Err(Refused::TooLarge);
    }
    share.take(containers * CONTAINER_BYTES + values * VALUE_BYTES).map_err(Refused::NoMemory)?;
    Ok(bytes)
}

/// Parses a review.
pub(super) async fn parse<T: DeserializeOwned + Send + 'static>(
    bytes: Bytes,
) -> Result<T, serde_json::Error> {
    if bytes.len() <= PARSED_AT_ONCE {
        return serde_json::from_slice(&bytes);
    }
    let parsed = tokio::task::spawn_blocking(move || serde_json::from_slice(&bytes)).await;
    parsed.unwrap_or_else(|error| Err(serde::de::Error::custom(error)))
}

#[cfg(test)]
mod tests {
    use connections::Budget;
    use http_body_util::Full;

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

    #[tokio::test]
    async fn a_review_of_many_small_parts_is_refused_before_it_is_parsed() {
        let share = Budget::new(MEMORY, MEMORY_OF_PEER).share("a");
        let list = |count: usize, part: &str| format!("[{}]", vec![part; count].join(","));
        for (most, part) in [(MOST_CONTAINERS, "{}"), (MOST_VALUES, "0"), (MOST_VALUES, "\"\"")] {
            assert_eq!(of(list(most + 1, part), &share).await, Err(Refused::TooLarge), "{part}");
            assert!(of(list(1_000, part), &share).await.is_ok(), "{part}");
        }
        let (one, other) = (Budget::new(MEMORY, 8 << 20).share("a"), list(MOST_VALUES / 2, "0"));
        assert_eq!(
            of(other, &one).await,
            Err(Refused::NoMemory(Exhausted::Client)),
            "it needs more than its text"
        );
    }
}
