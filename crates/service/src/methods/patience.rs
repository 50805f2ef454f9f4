//! Repeats a write that the cluster's admission did not answer about in time: under load its webhooks are slow, and the
//! API server gives up on them. Nothing was written then, so the same request may be sent again.

use std::future::Future;
use std::time::Duration;

use jobs::{ADMISSION_UNAVAILABLE, Error};
use tokio::time::Instant;

/// The first wait between two attempts, which doubles.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// Makes attempts for as long as `patience`; a last one may begin just before its end.
pub async fn patiently<T, F>(patience: Duration, mut attempt: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let (begun, mut wait) = (Instant::now(), FIRST_WAIT);
    loop {
        match attempt().await {
            Err(error) if error.reason() == ADMISSION_UNAVAILABLE && begun.elapsed() + wait < patience => {
                tracing::debug!(%error, "trying again");
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
            outcome => return outcome,
        }
    }
}
