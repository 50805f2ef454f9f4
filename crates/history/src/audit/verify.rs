//! Verifies the chain of the audit log.

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row as _};

use super::truncate::truncation;
use super::{Anchor, COLUMNS, Entry, GENESIS, PAGE, column, fingerprint, hash, head_of};
use crate::error::Error;
use crate::store::{Store, micros};

/// What is wrong at a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its content does not match its hash, or its hash does not match the line before.
    Changed,
    /// It is missing.
    Removed,
    /// It was not appended by [`append`].
    Inserted,
}

/// The result of [`verify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verification {
    /// The chain is intact.
    Intact {
        /// The number of lines that are present.
        lines: u64,
        /// The end of the chain.
        head: Anchor,
    },
    /// The chain is broken.
    Broken {
        /// The number of the first line with a fault.
        seq: i64,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// Verifies the whole chain, in one consistent view, page by page.
///
/// # Errors
/// If the store fails. A broken chain is a result.
pub async fn verify(store: &Store, anchors: &[Anchor]) -> Result<Verification, Error> {
    let mut view = store.snapshot().await?;
    let row = sqlx::query("SELECT seq, hash FROM audit_head WHERE id = 1").fetch_optional(&mut *view).await?;
    let head = head_of(row.as_ref())?;
    let seals = seals(&mut view).await?;
    let sealed = seals.last().cloned();
    let mut chain =
        Chain { at: sealed.clone().unwrap_or(Anchor { seq: 0, hash: GENESIS.to_owned() }), lines: 0 };
    let (mut unrecorded, mut anchors) = (seals, anchors.to_vec());
    // Nothing present can prove or disprove what was truncated before the last seal.
    anchors.retain(|anchor| anchor.seq >= chain.at.seq);
    if let Some(broken) = anchored(&anchors, &chain.at) {
        return Ok(broken);
    }
    let start = chain.at.seq;
    let mut after = i64::MIN;
    loop {
        let rows = page(&mut view, after, i64::MAX).await?;
        for row in &rows {
            after = row.try_get("seq")?;
            if let Some(fault) = chain.step(row, &head)? {
                return Ok(fault);
            }
            if let Some(broken) = anchored(&anchors, &chain.at) {
                return Ok(broken);
            }
            if let Some(seal) = truncation(&row.try_get::<String, _>("entry")?) {
                unrecorded.retain(|other| *other != seal);
            }
        }
        if rows.is_empty() {
            break;
        }
    }
    // The line that records the last truncation is never truncated itself.
    let forged = sealed.is_some_and(|sealed| unrecorded.contains(&sealed));
    Ok(match () {
        () if forged => Verification::Broken { seq: start, fault: Fault::Removed },
        () if chain.at.seq < head.seq => {
            Verification::Broken { seq: chain.at.seq + 1, fault: Fault::Removed }
        }
        () if chain.at != head => Verification::Broken { seq: head.seq, fault: Fault::Changed },
        () => match anchors.iter().filter(|anchor| anchor.seq > chain.at.seq).min_by_key(|a| a.seq) {
            Some(_) => Verification::Broken { seq: chain.at.seq + 1, fault: Fault::Removed },
            None => Verification::Intact { lines: chain.lines, head },
        },
    })
}

/// How far a chain has been verified.
struct Chain {
    at: Anchor,
    lines: u64,
}

impl Chain {
    /// Verifies the next line.
    fn step(&mut self, row: &AnyRow, head: &Anchor) -> Result<Option<Verification>, Error> {
        let seq: i64 = row.try_get("seq")?;
        let broken = |seq, fault| Ok(Some(Verification::Broken { seq, fault }));
        if seq > head.seq || seq <= self.at.seq {
            return match seq > head.seq && self.at.seq < head.seq {
                true => broken(self.at.seq + 1, Fault::Removed),
                false => broken(seq, Fault::Inserted),
            };
        }
        if seq > self.at.seq + 1 {
            return broken(self.at.seq + 1, Fault::Removed);
        }
        let text: String = row.try_get("entry")?;
        let hash = hash(&self.at.hash, seq, &text);
        if hash != row.try_get::<String, _>("hash")? || !columns_match(row, &text)? {
            return broken(seq, Fault::Changed);
        }
        self.at = Anchor { seq, hash };
        self.lines += 1;
        Ok(None)
    }
}

/// Whether the columns that queries select by are those of the entry.
fn columns_match(row: &AnyRow, text: &str) -> Result<bool, Error> {
    let Ok(entry) = serde_json::from_str::<Entry>(text) else { return Ok(false) };
    let Entry { at, who, namespace, job, request, channel, .. } = &entry;
    Ok(row.try_get::<i64, _>("at")? == micros(*at)
        && row.try_get::<String, _>("who")? == column(&who.name)
        && row.try_get::<Option<String>, _>("namespace")? == namespace.as_deref().map(column)
        && row.try_get::<Option<String>, _>("job")? == job.as_deref().map(column)
        && row.try_get::<String, _>("request")? == column(request)
        && row.try_get::<String, _>("channel")? == channel.as_str()
        && row.try_get::<String, _>("fingerprint")? == fingerprint(&entry)?)
}

fn anchored(anchors: &[Anchor], at: &Anchor) -> Option<Verification> {
    let differs = anchors.iter().any(|anchor| anchor.seq == at.seq && anchor.hash != at.hash);
    differs.then_some(Verification::Broken { seq: at.seq, fault: Fault::Changed })
}

async fn page(view: &mut AnyConnection, after: i64, through: i64) -> Result<Vec<AnyRow>, Error> {
    Ok(sqlx::query(COLUMNS).bind(after).bind(through).bind(PAGE).fetch_all(view).await?)
}

async fn seals(view: &mut AnyConnection) -> Result<Vec<Anchor>, Error> {
    let rows = sqlx::query("SELECT through, hash FROM audit_seals ORDER BY through").fetch_all(view).await?;
    rows.iter().map(|row| Ok(Anchor { seq: row.try_get(0)?, hash: row.try_get(1)? })).collect()
}
