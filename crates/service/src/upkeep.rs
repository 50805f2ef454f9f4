//! What has to be done again and again for the store: deliver notifications, pack logs, forget what is too old.

use std::sync::Arc;
use std::time::Duration;

use history::logs::maintain;
use history::notifications::deliver::{Sender, attempt};
use history::notifications::{self, MAX_CLAIM, claim};
use history::{Error, audit, jobs, logs, series, sessions, usage};
use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::owners::Owners;
use crate::store::{Keep, Kept, Opened, Retention};

/// Logs that were written this long ago are packed, however few they are.
const PACK_AFTER: Duration = Duration::from_secs(600);
/// How many intervals are between two packings and measurements, and between two clearances.
const PACK_EVERY: u32 = 12;
const CLEAR_EVERY: u32 = 60;
/// A job that printed something is recorded within this time.
const RECORDED_WITHIN: Duration = Duration::from_secs(3600);
/// How often all packed logs are read and repaired: only a fault of the disk makes that necessary.
const REPAIR_EVERY: Duration = Duration::from_secs(24 * 3600);
/// How often all packed logs are listed, to remove what no row names.
const SWEEP_EVERY: Duration = maintain::GRACE;

/// Delivers notifications until `stop`.
///
/// # Errors
/// If the settings for notifications are not valid.
pub async fn deliver(
    keep: Keep,
    kept: Kept,
    owners: Arc<Owners>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let outgoing = &keep.notifications;
    let sender = Sender::new(outgoing.policy.clone(), &outgoing.authorities, outgoing.mail.as_ref())?;
    let sender = Arc::new(sender);
    let work = async {
        let opened = kept.wait().await;
        let store = &opened.store;
        // Tasks, because one that has the store to itself must go on while this waits for the store.
        let (mut running, most) = (JoinSet::new(), MAX_CLAIM as usize);
        loop {
            // Each ends on its own: a receiver that is slow keeps no other waiting.
            let room = u32::try_from(most - running.len()).unwrap_or(0);
            let claimed = match store.now().await {
                Ok(now) if room > 0 => claim(store, now, room).await,
                now => now.map(|_| Vec::new()),
            };
            kept.note(&claimed);
            let found = claimed.as_ref().map_or(0, Vec::len);
            match claimed {
                Ok(claims) => {
                    for claim in claims {
                        let (opened, sender, owners) = (opened.clone(), sender.clone(), owners.clone());
                        running.spawn(async move { attempt(&opened.store, &sender, &*owners, &claim).await });
                    }
                }
                Err(error) => tracing::warn!(%error, "cannot deliver notifications; trying again"),
            }
            tokio::select! {
                Some(ended) = running.join_next() => {
                    let Ok(sent) = ended else {
                        tracing::error!("a delivery panicked; it is sent again");
                        continue;
                    };
                    kept.note(&sent);
                    if let Err(error) = sent {
                        tracing::warn!(%error, "cannot record a delivery; it is sent again");
                    }
                }
                () = tokio::time::sleep(keep.every), if found == 0 => {}
                () = std::future::ready(()), if found > 0 => {}
            }
        }
    };
    stop.run_until_cancelled(work).await;
    Ok(())
}

/// Measures, packs and clears until `stop`.
pub async fn maintain(keep: Keep, kept: Kept, stop: CancellationToken) {
    let work = async {
        let opened = kept.wait().await;
        let mut due = Due { swept: None, repaired: Instant::now() };
        for round in 0_u32.. {
            if round % PACK_EVERY == 0 {
                let used = opened.store.used().await;
                if let Err(error) = &used {
                    tracing::warn!(%error, "cannot measure the store; trying again");
                }
                kept.note_used(used.unwrap_or_default());
            }
            // An object storage that is away keeps nothing else from being cleared.
            if opened.packs && round % PACK_EVERY == 0 {
                let packed = pack(&opened, &mut due).await;
                kept.note_packing(&packed);
            }
            if round % CLEAR_EVERY == 0
                && let Err(error) = clear(&opened, &keep.retention).await
            {
                tracing::warn!(%error, "cannot clear the store; trying again");
            }
            tokio::time::sleep(keep.every).await;
        }
    };
    stop.run_until_cancelled(work).await;
}

/// When what is seldom done was done last.
struct Due {
    swept: Option<Instant>,
    repaired: Instant,
}

/// Packs logs, and keeps what was packed in order.
async fn pack(opened: &Opened, due: &mut Due) -> Result<(), Error> {
    // First, because it asks a bucket for something even if nothing is to be packed.
    if due.swept.is_none_or(|swept| swept.elapsed() >= SWEEP_EVERY) {
        maintain::sweep(&opened.archive, before(maintain::GRACE)).await?;
        due.swept = Some(Instant::now());
    }
    while logs::pack_due(&opened.archive, before(PACK_AFTER)).await? > 0 {}
    if opened.archive.is_on_disk() && due.repaired.elapsed() >= REPAIR_EVERY {
        due.repaired = Instant::now();
        let found = maintain::repair(&opened.archive).await?;
        if found.truncated > 0 {
            tracing::error!(?found, "packed logs were damaged");
        }
    }
    Ok(())
}

/// Returns the time that was so long ago.
fn before(age: Duration) -> Timestamp {
    let age = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
    Timestamp::now().checked_sub(age).unwrap_or(Timestamp::MIN)
}

async fn clear(opened: &Opened, retention: &Retention) -> Result<(), Error> {
    let Retention { history, jobs: most_jobs, usage: usage_for, audit: audit_for, logs: logs_for, log_bytes } =
        *retention;
    let store = &opened.store;
    let gone = jobs::Retention { deleted_after: before(history), jobs: most_jobs };
    while jobs::prune(store, &gone).await? > 0 {}
    while series::prune(store, before(RECORDED_WITHIN)).await? > 0 {}
    sessions::prune(store, Timestamp::now()).await?;
    usage::prune(store, before(usage_for)).await?;
    audit::forget(store, before(audit_for)).await?;
    while notifications::prune(store, before(history)).await? > 0 {}
    let kept = maintain::Retention { after: before(logs_for), bytes: log_bytes };
    while maintain::prune(&opened.archive, &kept).await? > 0 {}
    Ok(())
}
