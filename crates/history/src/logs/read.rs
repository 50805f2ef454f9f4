//! Reads the archive: the lines of many sources, merged by time, with at most one part of each in memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Archive, Line, Source, codec, source_of, sources};
use crate::error::Error;
use crate::store::micros;

/// The maximum number of lines that [`tail`] returns.
pub const MAX_TAIL_LINES: usize = 10_000;
/// The maximum size of what [`tail`] returns, in bytes of text.
const MAX_TAIL_BYTES: usize = 64 << 20;
/// The maximum number of sources that are merged: each has a part in memory.
pub const MAX_SOURCES: usize = 2048;

/// Which lines to read.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The job's uid.
    pub uid: String,
    /// The attempt; without it, all.
    pub attempt: Option<u32>,
    /// The containers, as in [`Source::container`]; without any, all.
    pub containers: Vec<String>,
    /// Lines from this time on.
    pub since: Option<Timestamp>,
    /// Lines before this time.
    pub until: Option<Timestamp>,
}

/// Lines in the order of their times.
pub struct Reader {
    archive: Archive,
    since: i64,
    until: i64,
    sources: Vec<Position>,
    /// The next line of each source that has one.
    heads: BinaryHeap<Reverse<Head>>,
    begun: bool,
}

/// A line that waits for its turn, ordered by time, then by source.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    at: i64,
    place: usize,
    number: i64,
    text: String,
}

/// How far a source has been read.
struct Position {
    source: Source,
    next_line: i64,
    part: Option<Part>,
}

/// A part that is being read.
struct Part {
    lines: codec::Lines,
    next_line: i64,
    end: i64,
}

/// Opens the selected lines for reading.
///
/// # Errors
/// If there are too many sources, or the store fails.
pub async fn read(archive: &Archive, selection: &Selection) -> Result<Reader, Error> {
    let mut selected = sources(archive, &selection.uid, selection.attempt).await?;
    selected
        .retain(|source| selection.containers.is_empty() || selection.containers.contains(&source.container));
    if selected.len() > MAX_SOURCES {
        return Err(Error::Invalid(format!(
            "the logs of {} containers were asked for, and {MAX_SOURCES} can be read at once",
            selected.len()
        )));
    }
    Ok(Reader {
        archive: archive.clone(),
        since: selection.since.map_or(i64::MIN, micros),
        until: selection.until.map_or(i64::MAX, micros),
        sources: selected.into_iter().map(|source| Position { source, next_line: 0, part: None }).collect(),
        heads: BinaryHeap::new(),
        begun: false,
    })
}

/// Opens the lines of one source from a number on.
#[must_use]
pub fn read_from(archive: &Archive, source: &Source, next_line: i64) -> Reader {
    let sources = vec![Position { source: source.clone(), next_line, part: None }];
    let (since, until) = (i64::MIN, i64::MAX);
    Reader { archive: archive.clone(), since, until, sources, heads: BinaryHeap::new(), begun: false }
}

/// Returns the last of the selected lines, in order, at most [`MAX_TAIL_LINES`] and some MiB.
///
/// # Errors
/// If there are too many sources, or the store fails.
pub async fn tail(
    archive: &Archive,
    selection: &Selection,
    lines: usize,
) -> Result<Vec<(Source, Line)>, Error> {
    let lines = lines.min(MAX_TAIL_LINES);
    if lines == 0 {
        return Ok(Vec::new());
    }
    let mut reader = read(archive, selection).await?;
    for place in 0..reader.sources.len() {
        reader.skip_to_tail(place, lines).await?;
    }
    let (mut last, mut bytes) = (VecDeque::new(), 0);
    while let Some((source, line)) = reader.next().await? {
        bytes += line.text.len();
        last.push_back((source, line));
        while last.len() > lines || bytes > MAX_TAIL_BYTES {
            let Some((_, dropped)) = last.pop_front() else { break };
            bytes -= dropped.text.len();
        }
    }
    Ok(last.into())
}

impl Reader {
    /// Returns the next line and its source.
    ///
    /// # Errors
    /// If the store or the object store fails, or a chunk is damaged.
    pub async fn next(&mut self) -> Result<Option<(Source, Line)>, Error> {
        Ok(self.next_numbered().await?.map(|(source, _, line)| (source, line)))
    }

    /// As [`Reader::next`], with the line's number in its source.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub async fn next_numbered(&mut self) -> Result<Option<(Source, i64, Line)>, Error> {
        if !self.begun {
            for place in 0..self.sources.len() {
                self.advance(place).await?;
            }
            self.begun = true;
        }
        let Some(Reverse(Head { at, place, number, text })) = self.heads.pop() else { return Ok(None) };
        self.advance(place).await?;
        let Some(position) = self.sources.get(place) else { return Ok(None) };
        Ok(Some((position.source.clone(), number, Line { at: crate::store::time(at)?, text })))
    }

    /// Reads the next line of a source into the heap.
    async fn advance(&mut self, place: usize) -> Result<(), Error> {
        let (since, until) = (self.since, self.until);
        let Some(position) = self.sources.get_mut(place) else { return Ok(()) };
        loop {
            let Some(part) = position.part.as_mut() else {
                position.part = open_part(&self.archive, position, (since, until)).await?;
                if position.part.is_none() {
                    return Ok(());
                }
                continue;
            };
            let Some(line) = part.lines.next()? else {
                position.next_line = part.end.max(position.next_line);
                position.part = None;
                continue;
            };
            let number = part.next_line;
            part.next_line += 1;
            let at = micros(line.at);
            if number < position.next_line || at < since {
                continue;
            }
            if at >= until {
                // Time does not go back within a source.
                return Ok(());
            }
            position.next_line = number + 1;
            self.heads.push(Reverse(Head { at, place, number, text: line.text }));
            return Ok(());
        }
    }

    /// Moves a source forward so that about this many of its selected lines are left, and not fewer.
    async fn skip_to_tail(&mut self, place: usize, lines: usize) -> Result<(), Error> {
        let Some(position) = self.sources.get_mut(place) else { return Ok(()) };
        let wanted = i64::try_from(lines).unwrap_or(i64::MAX);
        let (mut before, mut found) = (i64::MAX, 0_i64);
        while found < wanted {
            let query = sqlx::query(
                "SELECT first_line, lines, last FROM log_parts WHERE uid = $1 AND attempt = $2 AND source = $3 \
                 AND first_line < $4 AND first < $5 ORDER BY first_line DESC LIMIT 100",
            );
            let Source { uid, attempt, container } = &position.source;
            let query =
                query.bind(uid).bind(i64::from(*attempt)).bind(container).bind(before).bind(self.until);
            let rows = self.archive.store.rows(query).await?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in rows {
                let (first, count, last): (i64, i64, i64) =
                    (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                before = first;
                // Of a part that goes beyond the end, an unknown number of lines is selected.
                found += if last < self.until { count } else { 0 };
                if found >= wanted {
                    position.next_line = first + (found - wanted);
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Opens the part of a source that holds its next selected line, if any.
async fn open_part(
    archive: &Archive,
    position: &Position,
    (since, until): (i64, i64),
) -> Result<Option<Part>, Error> {
    let Source { uid, attempt, container } = &position.source;
    let find = || {
        sqlx::query(
            "SELECT first_line, lines, data, object, digest FROM log_parts \
             WHERE uid = $1 AND attempt = $2 AND source = $3 AND first_line + lines > $4 AND last >= $5 AND first < $6 \
             ORDER BY first_line LIMIT 1",
        )
        .bind(uid)
        .bind(i64::from(*attempt))
        .bind(container)
        .bind(position.next_line)
        .bind(since)
        .bind(until)
    };
    let mut missing: Option<String> = None;
    loop {
        let Some(row) = archive.store.row(find()).await? else { return Ok(None) };
        let (first, lines): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let object: Option<String> = row.try_get(3)?;
        let Some(data) = data_of(archive, &row, object.as_deref()).await? else {
            // It was removed or repaired after the row was read; then the row has changed too.
            if missing.is_some() && missing == object {
                return Err(Error::Damaged(format!("log chunk {} is missing", object.unwrap_or_default())));
            }
            missing = object;
            continue;
        };
        let lines = Part { lines: codec::Lines::new(data), next_line: first, end: first + lines };
        return Ok(Some(lines));
    }
}

/// Returns the bytes of a part, or `None` if its chunk is not there.
async fn data_of(archive: &Archive, row: &AnyRow, object: Option<&str>) -> Result<Option<Vec<u8>>, Error> {
    let Some(object) = object else { return Ok(Some(row.try_get("data")?)) };
    let Some(data) = archive.get(object).await? else { return Ok(None) };
    match codec::digest(&data) == row.try_get::<String, _>("digest")? {
        true => Ok(Some(data.into())),
        false => Err(Error::Damaged(format!("log chunk {object} is not what was written"))),
    }
}

/// Returns the source of a row with the columns `uid`, `attempt` and `source`.
pub(super) fn source_in(row: &AnyRow) -> Result<Source, Error> {
    let uid: String = row.try_get("uid")?;
    source_of(&uid, row.try_get("attempt")?, row.try_get("source")?)
}
