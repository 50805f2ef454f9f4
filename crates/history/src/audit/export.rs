//! Exports lines of the audit log, and verifies what was exported.

use futures::stream::{self, Stream};
use sqlx::Row as _;

use super::{Anchor, COLUMNS, GENESIS, PAGE, hash};
use crate::error::Error;
use crate::store::Store;

/// A line as exported, with the entry exactly as it was hashed.
struct Exported<'l> {
    seq: i64,
    previous: &'l str,
    hash: &'l str,
    entry: &'l str,
}

impl<'l> Exported<'l> {
    fn text(&self) -> String {
        let Self { seq, previous, hash, entry } = self;
        format!("{{\"seq\":{seq},\"previous\":\"{previous}\",\"hash\":\"{hash}\",\"entry\":{entry}}}\n")
    }

    /// Reads exactly what [`Exported::text`] writes: another spelling of the same JSON is a change too.
    fn parse(line: &'l str) -> Option<Self> {
        let (seq, rest) = line.strip_prefix("{\"seq\":")?.split_once(",\"previous\":\"")?;
        let (previous, rest) = rest.split_once("\",\"hash\":\"")?;
        let (hash, rest) = rest.split_once("\",\"entry\":")?;
        Some(Self { seq: seq.parse().ok()?, previous, hash, entry: rest.strip_suffix('}')? })
    }
}

/// Streams the lines after one number up to another as JSON lines, each with its line feed.
///
/// The `hash` of the last one is the closing hash, for [`Anchor`] and [`truncate`].
pub fn export(
    store: &Store,
    after: i64,
    through: i64,
) -> impl Stream<Item = Result<String, Error>> + Send + use<> {
    let store = store.clone();
    stream::try_unfold((store, after, None::<String>), move |(store, after, previous)| async move {
        let previous = match previous {
            Some(previous) => previous,
            None => hash_of(&store, after).await?,
        };
        let rows = store.rows(sqlx::query(COLUMNS).bind(after).bind(through).bind(PAGE)).await?;
        let (mut text, mut at) = (String::new(), Anchor { seq: after, hash: previous });
        for row in &rows {
            let (seq, hash, entry): (i64, String, String) =
                (row.try_get("seq")?, row.try_get("hash")?, row.try_get("entry")?);
            text.push_str(&Exported { seq, previous: &at.hash, hash: &hash, entry: &entry }.text());
            at = Anchor { seq, hash };
        }
        Ok((!rows.is_empty()).then_some((text, (store, at.seq, Some(at.hash)))))
    })
}

/// Returns the numbers between which the present lines are: after the first of them, up to the second.
///
/// # Errors
/// If the store fails.
pub async fn bounds(store: &Store) -> Result<(i64, i64), Error> {
    let query =
        "SELECT (SELECT COALESCE(MAX(through), 0) FROM audit_seals), seq FROM audit_head WHERE id = 1";
    match store.row(sqlx::query(query)).await? {
        Some(row) => Ok((row.try_get(0)?, row.try_get(1)?)),
        None => Err(Error::Damaged("the audit log has lost its head".to_owned())),
    }
}

/// Returns `H(seq)`, of a line or of a seal.
async fn hash_of(store: &Store, seq: i64) -> Result<String, Error> {
    let sql =
        "SELECT hash FROM audit WHERE seq = $1 UNION ALL SELECT hash FROM audit_seals WHERE through = $1";
    match store.row(sqlx::query(sql).bind(seq)).await? {
        Some(row) => Ok(row.try_get(0)?),
        None if seq == 0 => Ok(GENESIS.to_owned()),
        None => Err(Error::Invalid(format!("the audit log has no line {seq}"))),
    }
}

/// Verifies an exported file line by line, without a store. Returns its closing hash.
///
/// # Errors
/// The number of the first line that is wrong, counted in the file from 1.
pub fn verify_export<'l>(lines: impl Iterator<Item = &'l str>) -> Result<Option<Anchor>, usize> {
    let mut at: Option<Anchor> = None;
    for (line, number) in lines.zip(1..) {
        let Exported { seq, previous, hash: stated, entry } = Exported::parse(line).ok_or(number)?;
        let follows = at.as_ref().is_none_or(|at| at.seq + 1 == seq && at.hash == previous);
        if !follows || hash(previous, seq, entry) != stated {
            return Err(number);
        }
        at = Some(Anchor { seq, hash: stated.to_owned() });
    }
    Ok(at)
}
