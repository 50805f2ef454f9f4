//! What controllers are made of: informers ([`cache`], [`index`], [`kinds`], [`packed`]), work queues ([`queue`]), event recorders ([`record`]),
//! pauses of the process ([`awake`]), and the supervision of long-running tasks ([`supervision`]).
//!
//! Everything is an ordinary client of the API. Nothing here knows what a controller decides.

pub mod awake;
pub mod cache;
pub mod index;
pub mod kinds;
pub mod packed;
pub mod queue;
pub mod record;
pub mod supervision;

/// Why a step failed. Every failed step is retried with exponential back-off.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API refused the request or did not answer.
    #[error("{0}")]
    Api(#[from] kube::Error),
    /// An object could not be encoded as JSON.
    #[error("cannot encode a request: {0}")]
    Encode(#[source] serde_json::Error),
    /// An object that a cache keeps as JSON could not be decoded.
    #[error("cannot decode a cached object: {0}")]
    Decode(#[source] serde_json::Error),
}

impl Error {
    /// Returns the HTTP status code of a refusal.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api(error) => refusal(error),
            Self::Encode(_) | Self::Decode(_) => None,
        }
    }
}

/// Words a failed request for an event: the server's own message, without the rest of its answer.
#[must_use]
pub fn in_words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

/// Returns the HTTP status code with which the API refused a request.
pub fn refusal(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Treats these status codes as success: the request is already fulfilled, or no longer matters.
pub fn allow<T>(codes: &[u16], result: Result<T, kube::Error>) -> Result<(), Error> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if refusal(&error).is_some_and(|code| codes.contains(&code)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
