//! The store of what outlives jobs (`history`). It is opened in the background and opened again until that succeeds:
//! while it is away, what does not need it goes on, and what needs it is refused.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use history::audit::Appender;
use history::logs::{Archive, Bucket};
use history::notifications::address::{Network, Policy};
use history::notifications::mail;
use history::store::{Location, Settings, Used};
use history::{Error, Store};
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::problem::Problem;

/// The wait before the store is opened again: first, and at most.
const AGAIN_FIRST: Duration = Duration::from_millis(200);
const AGAIN_LAST: Duration = Duration::from_secs(30);
/// The log has the same trouble at most this often.
const LOGGED_EVERY: Duration = Duration::from_secs(60);
/// How much of its room the store may take before the log warns.
const NEARLY_FULL: f64 = 0.8;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// What the service keeps, where, and for how long.
#[derive(Clone, Debug)]
pub struct Keep {
    /// The database.
    pub database: Settings,
    /// The folder of packed logs. Without one, logs stay in the database, which several replicas share.
    pub logs: Option<PathBuf>,
    /// The bucket of packed logs in place of the folder, in which earlier ones are still read.
    pub bucket: Option<Bucket>,
    /// For how long.
    pub retention: Retention,
    /// How often the state of the cluster is recorded and work that is due is done.
    pub every: Duration,
    /// Where notifications may go, and how they get there.
    pub notifications: Outgoing,
    /// Whether the audit log has reads too.
    pub audit_reads: bool,
}

impl Keep {
    /// Keeps everything in a folder: a SQLite database and packed logs.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        let database = Settings::new(Location::File(folder.join("history.db")));
        Self { logs: Some(folder.join("logs")), ..Self::in_database(database) }
    }

    /// Lets webhooks reach receivers on this machine, also without TLS, so that they can be tried.
    #[must_use]
    pub fn with_local_webhooks(mut self) -> Self {
        self.notifications.policy.allowed.extend(Network::LOOPBACK);
        self.notifications.policy.allow_http = true;
        self
    }

    /// Keeps everything in a PostgreSQL database.
    #[must_use]
    pub fn in_postgres(url: String) -> Self {
        Self::in_database(Settings::new(Location::Postgres(url)))
    }

    /// Keeps everything in a database.
    #[must_use]
    pub fn in_database(database: Settings) -> Self {
        Self {
            database,
            logs: None,
            bucket: None,
            retention: Retention::default(),
            every: Duration::from_secs(5),
            notifications: Outgoing::default(),
            audit_reads: false,
        }
    }
}

/// The environment variable with the URL of a PostgreSQL database: arguments are readable by others.
pub const STORE_URL: &str = "ODH_TRAINING_STORE_URL";

/// Returns the URL of the database from a file, or else from the environment; `None` if neither has one.
///
/// # Errors
/// If the file cannot be read.
pub fn store_url(file: Option<&Path>) -> Result<Option<String>, std::io::Error> {
    let text = match file {
        Some(file) => std::fs::read_to_string(file)
            .map(Some)
            .map_err(|error| std::io::Error::new(error.kind(), format!("{}: {error}", file.display())))?,
        None => std::env::var(STORE_URL).ok(),
    };
    Ok(text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
}

/// For how long what is kept.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// The states and attempts of deleted jobs, and deliveries.
    pub history: Duration,
    /// The maximum number of deleted jobs.
    pub jobs: u32,
    /// Usage.
    pub usage: Duration,
    /// The audit log.
    pub audit: Duration,
    /// Logs.
    pub logs: Duration,
    /// The maximum size of all logs in bytes, compressed.
    pub log_bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            history: DAY * 90,
            jobs: 100_000,
            usage: DAY * 400,
            audit: DAY * 400,
            logs: DAY * 30,
            log_bytes: 10 << 30,
        }
    }
}

/// Where notifications may go, and how they get there.
#[derive(Clone, Default)]
pub struct Outgoing {
    /// The addresses that webhooks may reach.
    pub policy: Policy,
    /// Certificate authorities of webhooks in addition to those of the machine.
    pub authorities: Vec<CertificateDer<'static>>,
    /// The server for e-mails; without one, a rule cannot have an e-mail address.
    pub mail: Option<mail::Settings>,
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The mail settings may hold a password.
        f.debug_struct("Outgoing").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// The store, open.
pub struct Opened {
    /// The database.
    pub store: Store,
    /// The logs.
    pub archive: Archive,
    /// Whether logs are packed into files or objects.
    pub packs: bool,
    /// Appends to the audit log.
    pub audit: Appender,
}

#[derive(Clone)]
enum State {
    Opening,
    Away(Error),
    Open(Arc<Opened>),
}

/// The store as the parts of the service see it. Clones share it.
#[derive(Clone)]
pub struct Kept {
    state: watch::Receiver<State>,
    /// Whether the last write failed for a reason that the next one shares.
    trouble: Arc<Mutex<Trouble>>,
    /// Whether the last attempt to pack logs failed.
    packing: Arc<Mutex<Trouble>>,
    /// How much of its room is taken, as it was measured last.
    used: Arc<Mutex<Used>>,
}

impl Kept {
    /// Opens the store until `stop`.
    pub fn start(keep: &Keep, stop: &CancellationToken) -> Self {
        let (sender, state) = watch::channel(State::Opening);
        let (keep, stop) = (keep.clone(), stop.clone());
        tokio::spawn(async move {
            let mut wait = AGAIN_FIRST;
            loop {
                match open(&keep).await {
                    Ok(opened) => {
                        sender.send_replace(State::Open(Arc::new(opened)));
                        break;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot open the store; trying again");
                        sender.send_replace(State::Away(error));
                    }
                }
                if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                    return;
                }
                wait = (wait * 2).min(AGAIN_LAST);
            }
            stop.cancelled().await;
        });
        Self { state, trouble: Arc::default(), packing: Arc::default(), used: Arc::default() }
    }

    /// Returns the store.
    ///
    /// # Errors
    /// 503 while it is not open.
    pub fn opened(&self) -> Result<Arc<Opened>, Problem> {
        match &*self.state.borrow() {
            State::Open(opened) => Ok(opened.clone()),
            State::Opening => Err(Problem::unavailable("the store is being opened").because("StoreOpening")),
            State::Away(error) => Err(error.clone().into()),
        }
    }

    /// Returns the store once it is open.
    pub async fn wait(&self) -> Arc<Opened> {
        let mut state = self.state.clone();
        loop {
            if let State::Open(opened) = &*state.borrow_and_update() {
                return opened.clone();
            }
            if state.changed().await.is_err() {
                // The service stops.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns once it is known whether the store can be opened.
    pub async fn tried(&self) {
        let mut state = self.state.clone();
        // The sender is gone only when the service stops.
        let _ = state.wait_for(|state| !matches!(state, State::Opening)).await;
    }

    /// Returns the error of a store that a later release has written, once that is known; never returns otherwise.
    pub async fn too_new(&self) -> Error {
        let mut state = self.state.clone();
        loop {
            if let State::Away(error @ Error::TooNew { .. }) = &*state.borrow_and_update() {
                return error.clone();
            }
            if state.changed().await.is_err() {
                // The service stops.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Takes note of how a write went.
    pub fn note<T>(&self, result: &Result<T, Error>) {
        note(&self.trouble, "the store does not work", result);
    }

    /// Takes note of how packing logs went.
    pub fn note_packing<T>(&self, result: &Result<T, Error>) {
        note(&self.packing, "cannot pack logs; they stay in the database, trying again", result);
    }

    /// Takes note of how much of its room is taken. The log has it once when that becomes too much, and when it is
    /// less again.
    pub fn note_used(&self, used: Used) {
        let mut noted = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        for (of, before, now) in [("disk", noted.disk, used.disk), ("size", noted.size, used.size)] {
            match crossing(before, now) {
                Some(true) => tracing::warn!(of, used = now, "the store is nearly full"),
                Some(false) => tracing::info!(of, used = now, "the store is no longer nearly full"),
                None => {}
            }
        }
        *noted = used;
    }

    /// Returns how much of its room is taken.
    pub fn used(&self) -> Used {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is wrong with the store, in words for everybody; `None` if all is well, as far as known. The log
    /// has the errors.
    pub fn trouble(&self) -> Option<&'static str> {
        let is_noted =
            |trouble: &Mutex<Trouble>| trouble.lock().unwrap_or_else(PoisonError::into_inner).is_now;
        if self.opened().is_err() || is_noted(&self.trouble) {
            return Some("unavailable");
        }
        is_noted(&self.packing).then_some("logs cannot be packed")
    }
}

/// Returns whether the store becomes nearly full (`true`), or is no longer (`false`); `None` if neither.
fn crossing(before: Option<f64>, now: Option<f64>) -> Option<bool> {
    let was_full = before.is_some_and(|before| before >= NEARLY_FULL);
    let is_full = now? >= NEARLY_FULL;
    (was_full != is_full).then_some(is_full)
}

/// Something that fails now and then.
#[derive(Default)]
struct Trouble {
    is_now: bool,
    /// When the log had it last.
    logged: Option<Instant>,
}

fn note<T>(trouble: &Mutex<Trouble>, what: &'static str, result: &Result<T, Error>) {
    let mut trouble = trouble.lock().unwrap_or_else(PoisonError::into_inner);
    match result {
        Ok(_) => trouble.is_now = false,
        Err(Error::Invalid(_)) => {}
        Err(error) => {
            trouble.is_now = true;
            if trouble.logged.is_none_or(|logged| logged.elapsed() >= LOGGED_EVERY) {
                tracing::warn!(%error, "{what}");
                trouble.logged = Some(Instant::now());
            }
        }
    }
}

async fn open(keep: &Keep) -> Result<Opened, Error> {
    let store = Store::open(keep.database.clone()).await?;
    let archive = match (&keep.bucket, &keep.logs) {
        (Some(bucket), earlier) => Archive::in_bucket(store.clone(), bucket, earlier.as_deref()).await?,
        (None, Some(folder)) => Archive::in_folder(store.clone(), folder)?,
        // Nothing is ever packed into this memory.
        (None, None) => Archive::in_memory(store.clone()),
    };
    let packs = keep.bucket.is_some() || keep.logs.is_some();
    Ok(Opened { audit: Appender::start(store.clone()), archive, packs, store })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_store_that_cannot_be_opened_is_reported_and_opened_later() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("state");
        std::fs::write(&place, "a file in place of the folder").unwrap();
        let (stop, keep) = (CancellationToken::new(), Keep::in_folder(&place));
        let kept = Kept::start(&keep, &stop);
        kept.tried().await;
        let problem = kept.opened().err().unwrap();
        assert_eq!((problem.status.as_u16(), problem.reason.as_str()), (503, "StoreUnavailable"));
        assert!(!problem.message.contains("state"), "no path: {}", problem.message);
        assert_eq!(kept.trouble(), Some("unavailable"));
        std::fs::remove_file(&place).unwrap();
        let opened = kept.wait().await;
        assert_eq!(kept.trouble(), None);
        kept.note(&Err::<(), _>(Error::Locked));
        assert_eq!(kept.trouble(), Some("unavailable"), "strangers see it, so it has no details");
        kept.note(&opened.store.now().await);
        assert_eq!(kept.trouble(), None);
        kept.note_packing(&Err::<(), _>(Error::Timeout));
        assert_eq!(kept.trouble(), Some("logs cannot be packed"));
    }

    #[test]
    fn each_crossing_of_the_bound_is_noted_once() {
        let measured = [None, Some(0.7), Some(0.8), Some(0.9), None, Some(0.7), Some(0.7)];
        let crossings: Vec<_> = measured.windows(2).map(|pair| crossing(pair[0], pair[1])).collect();
        assert_eq!(crossings, [None, Some(true), None, None, None, None]);
        assert_eq!((crossing(None, Some(0.9)), crossing(Some(0.9), Some(0.7))), (Some(true), Some(false)));
    }
}
