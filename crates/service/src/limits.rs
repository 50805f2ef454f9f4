//! How often and how much one user may ask: a token bucket for requests, and a number of open streams and of batches at
//! once. The service accounts of a namespace count as one user ([`share_of`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use connections::share_of;
use http::StatusCode;
use tokio::time::Instant;

use crate::problem::Problem;

/// The most users remembered. Beyond it, those whose bucket is full are forgotten, which changes nothing for them.
const MOST_USERS: usize = 10_000;
/// The batches of a user at once: the dashboard sends eight, one for each namespace and kind.
const MOST_BATCHES: usize = 16;

/// Limits for each user.
pub struct Limits {
    /// Requests a second, in the long run.
    rate: f64,
    /// Requests at once.
    burst: f64,
    /// Open streams.
    streams: usize,
    users: Mutex<HashMap<String, Bucket>>,
}

#[derive(Clone, Copy)]
struct Bucket {
    /// Below zero after a batch of more jobs than were left.
    left: f64,
    at: Instant,
    streams: usize,
    batches: usize,
}

impl Bucket {
    fn places(&mut self, of: Of) -> &mut usize {
        match of {
            Of::Stream => &mut self.streams,
            Of::Batch => &mut self.batches,
        }
    }
}

/// What takes a place.
#[derive(Clone, Copy)]
enum Of {
    Stream,
    Batch,
}

/// An open stream or a batch; dropping it gives its place back.
pub struct Place {
    limits: Arc<Limits>,
    share: String,
    of: Of,
}

impl Limits {
    /// Creates the limits.
    pub fn new(rate: u32, burst: u32, streams: usize) -> Self {
        Self {
            rate: f64::from(rate.max(1)),
            burst: f64::from(burst.max(1)),
            streams,
            users: Mutex::default(),
        }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// 429, with the time after which to try again.
    pub fn request(&self, user: &str) -> Result<(), Problem> {
        let now = Instant::now();
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = self.bucket(&mut users, user, now);
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        let wait = Duration::from_secs_f64((1.0 - bucket.left) / self.rate);
        let message = format!(
            "User '{user}' sends more than {} requests a second, where each job of a batch counts as one",
            self.rate
        );
        Err(too_many(message, wait))
    }

    /// Counts what a request that was admitted does for many objects: a request for each but the first. It is not refused, but
    /// later ones are, until the user could have sent that many.
    pub fn charge(&self, user: &str, objects: u32) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = self.bucket(&mut users, user, Instant::now());
        bucket.left -= f64::from(objects.saturating_sub(1));
    }

    /// Takes the place of a stream.
    ///
    /// # Errors
    /// 429 if the user has too many.
    pub fn stream(self: &Arc<Self>, user: &str) -> Result<Place, Problem> {
        self.place(user, Of::Stream, self.streams, "open streams")
    }

    /// Takes the place of a batch.
    ///
    /// # Errors
    /// 429 if the user has too many.
    pub fn batch(self: &Arc<Self>, user: &str) -> Result<Place, Problem> {
        self.place(user, Of::Batch, MOST_BATCHES, "batches in progress")
    }

    fn place(self: &Arc<Self>, user: &str, of: Of, most: usize, what: &str) -> Result<Place, Problem> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.bucket(&mut users, user, Instant::now()).places(of);
        if *taken >= most {
            let message = format!("User '{user}' has {most} {what}, the most there may be");
            return Err(too_many(message, Duration::from_secs(10)));
        }
        *taken += 1;
        Ok(Place { limits: self.clone(), share: share_of(user).to_owned(), of })
    }

    fn bucket<'u>(&self, users: &'u mut HashMap<String, Bucket>, user: &str, now: Instant) -> &'u mut Bucket {
        let filled = |bucket: &Bucket| {
            (bucket.left + now.duration_since(bucket.at).as_secs_f64() * self.rate).min(self.burst)
        };
        let user = share_of(user);
        if users.len() >= MOST_USERS && !users.contains_key(user) {
            users.retain(|_, bucket| bucket.streams + bucket.batches > 0 || filled(bucket) < self.burst);
        }
        let full = Bucket { left: self.burst, at: now, streams: 0, batches: 0 };
        let bucket = users.entry(user.to_owned()).or_insert(full);
        (bucket.left, bucket.at) = (filled(bucket), now);
        bucket
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut users = self.limits.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = users.get_mut(&self.share) {
            let taken = bucket.places(self.of);
            *taken = taken.saturating_sub(1);
        }
    }
}

fn too_many(message: String, wait: Duration) -> Problem {
    let mut problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
        .hint("wait as long as Retry-After says; for live data, use the stream");
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    problem.retry_after_seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_user_beyond_the_limit_waits_and_others_do_not() {
        let limits = Limits::new(1, 2, 1);
        assert!(limits.request("jane").is_ok() && limits.request("jane").is_ok());
        let refused = limits.request("jane").unwrap_err();
        assert_eq!(refused.status, 429);
        assert_eq!(refused.retry_after_seconds, 1);
        assert!(limits.request("joe").is_ok());
    }

    #[tokio::test]
    async fn the_service_accounts_of_a_namespace_share_what_one_user_may() {
        let limits = Arc::new(Limits::new(1, 1, 1));
        let account = |namespace: &str, name: &str| format!("system:serviceaccount:{namespace}:{name}");
        assert!(limits.request(&account("team-a", "bot-1")).is_ok());
        assert!(limits.request(&account("team-a", "bot-2")).is_err());
        assert!(limits.request(&account("team-b", "bot-1")).is_ok());
        let place = limits.stream(&account("team-a", "bot-1")).unwrap();
        assert!(limits.stream(&account("team-a", "bot-2")).is_err());
        drop(place);
        assert!(limits.stream(&account("team-a", "bot-2")).is_ok());
    }

    #[tokio::test]
    async fn a_closed_stream_makes_room_for_another() {
        let limits = Arc::new(Limits::new(1, 1, 1));
        let place = limits.stream("jane").unwrap();
        assert!(limits.stream("jane").is_err());
        drop(place);
        assert!(limits.stream("jane").is_ok());
    }

    #[tokio::test]
    async fn a_batch_counts_as_a_request_for_each_job_and_is_not_refused() {
        let limits = Limits::new(1, 2, 1);
        assert!(limits.request("jane").is_ok());
        limits.charge("jane", 1000);
        let refused = limits.request("jane").unwrap_err();
        // 998 below zero.
        assert!((990..=999).contains(&refused.retry_after_seconds), "{}", refused.retry_after_seconds);
        assert!(limits.request("joe").is_ok());
        limits.charge("joe", 1);
        assert!(limits.request("joe").is_ok(), "the first job is the request itself");
    }

    #[tokio::test]
    async fn a_user_has_a_number_of_batches_at_once() {
        let limits = Arc::new(Limits::new(1, 1, 1));
        let mut places: Vec<Place> = (0..MOST_BATCHES).map(|_| limits.batch("jane").unwrap()).collect();
        assert_eq!(limits.batch("jane").err().map(|refused| refused.status.as_u16()), Some(429));
        assert!(limits.batch("joe").is_ok() && limits.stream("jane").is_ok());
        places.pop();
        assert!(limits.batch("jane").is_ok());
    }
}
