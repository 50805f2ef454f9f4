//! What patterns found in the output of jobs, and how far each was searched: the same pattern is never searched for again
//! from the beginning. What it finds in lines that are not archived yet is not part of that.
//!
//! The memory is bounded: at most [`MOST_SEARCHES`], of which the least recently used goes, and a series has few points.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use history::logs::{self, Archive, Line, Source};
use history::series::{Point, Series};
use jiff::Timestamp;
use jobs::logs::effort::Effort;
use jobs::logs::pattern::Pattern;
use tokio::sync::Mutex as Turn;
use tokio::time::{Instant, timeout_at};

use crate::printed;
use crate::problem::Problem;

/// The maximum number of searches that are remembered.
const MOST_SEARCHES: usize = 256;

/// The maximum number of lines that are searched at once, and the size at which fewer are, in bytes.
const BATCH_LINES: usize = 256;
const BATCH_BYTES: usize = 256 << 10;

/// A job's uid and a pattern.
type Key = (String, String);

/// What patterns found so far. The most recently used is the last.
#[derive(Default)]
pub struct Searches {
    known: Mutex<Vec<(Key, Arc<Turn<Search>>)>>,
}

impl Searches {
    /// Returns the search for a pattern in a job's output, for one searcher at a time.
    pub fn of(&self, uid: &str, pattern: &Pattern) -> Arc<Turn<Search>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (uid.to_owned(), pattern.as_str().to_owned());
        let before = known.iter().position(|(known, _)| *known == key).map(|place| known.remove(place).1);
        let search = before.unwrap_or_default();
        known.push((key, search.clone()));
        if known.len() > MOST_SEARCHES {
            known.remove(0);
        }
        search
    }
}

/// How far a source was searched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// The number of the next line.
    next_line: i64,
    /// The time of the last line.
    pub last: Timestamp,
    /// The number of lines with this time.
    pub at_last: u32,
}

/// A search for one pattern.
#[derive(Clone, Debug, Default)]
pub struct Search {
    places: BTreeMap<Source, Place>,
    found: BTreeMap<String, Series>,
}

impl Search {
    /// Returns what was found, by the pattern's groups.
    pub fn found(&self) -> &BTreeMap<String, Series> {
        &self.found
    }

    /// Returns how far a source was searched, if it has lines.
    pub fn place(&self, source: &Source) -> Option<Place> {
        self.places.get(source).copied().filter(|place| place.at_last > 0)
    }

    /// Searches what is archived of a source and was not searched before. Returns whether that is done in time.
    ///
    /// # Errors
    /// If the archive fails, or the pattern is too slow. What was searched until then is not searched again.
    pub async fn go_on(
        &mut self,
        archive: &Archive,
        source: &Source,
        pattern: &Pattern,
        effort: &mut Effort,
        until: Instant,
    ) -> Result<bool, Problem> {
        let Self { places, found } = self;
        let place = places.entry(source.clone()).or_default();
        let mut reader = logs::read_from(archive, source, place.next_line);
        let mut lines = Batch::default();
        loop {
            if Instant::now() >= until {
                return Ok(false);
            }
            while !lines.is_full() {
                let Some((_, number, line)) = reader.next_numbered().await? else { break };
                lines.push(number, line);
            }
            if lines.lines.is_empty() {
                return Ok(true);
            }
            let Some(searched) = search(&mut lines, pattern, effort, until).await? else { return Ok(false) };
            for (number, line, points) in searched {
                // Together, so that a caller who goes away leaves both or neither.
                add(found, points);
                let same = if line.at == place.last { place.at_last } else { 0 };
                *place = Place { next_line: number + 1, last: line.at, at_last: same + 1 };
            }
        }
    }

    /// Adds what lines contain that are not archived, and empties the batch. Returns whether that is done in time.
    ///
    /// # Errors
    /// If the pattern is too slow.
    pub async fn take_in(
        &mut self,
        lines: &mut Batch,
        pattern: &Pattern,
        effort: &mut Effort,
        until: Instant,
    ) -> Result<bool, Problem> {
        while !lines.lines.is_empty() {
            let Some(searched) = search(lines, pattern, effort, until).await? else { return Ok(false) };
            searched.into_iter().for_each(|(_, _, points)| add(&mut self.found, points));
        }
        Ok(true)
    }
}

/// Lines to search, with their numbers.
#[derive(Default)]
pub struct Batch {
    lines: Vec<(i64, Line)>,
    bytes: usize,
}

impl Batch {
    /// Adds a line.
    pub fn push(&mut self, number: i64, line: Line) {
        self.bytes += line.text.len();
        self.lines.push((number, line));
    }

    /// Whether it is to be searched before further lines are added.
    pub fn is_full(&self) -> bool {
        self.lines.len() >= BATCH_LINES || self.bytes >= BATCH_BYTES
    }
}

/// The numbers in a line, by the pattern's groups.
type Points = Vec<(String, Point)>;

/// Searches the first lines of a batch and takes them out: at least one. Returns `None` if the time is over.
async fn search(
    batch: &mut Batch,
    pattern: &Pattern,
    effort: &mut Effort,
    until: Instant,
) -> Result<Option<Vec<(i64, Line, Points)>>, Problem> {
    let (lines, pattern) = (std::mem::take(batch).lines, pattern.clone());
    let turn = effort.turn(move |end| {
        let (mut lines, mut searched) = (lines.into_iter(), Vec::new());
        for (number, line) in lines.by_ref() {
            let points = points(&line, &pattern);
            searched.push((number, line, points));
            if std::time::Instant::now() >= end {
                break;
            }
        }
        (searched, lines.collect::<Vec<_>>())
    });
    let Ok(turn) = timeout_at(until, turn).await else { return Ok(None) };
    let (searched, rest) = turn?;
    rest.into_iter().for_each(|(number, line)| batch.push(number, line));
    Ok(Some(searched))
}

fn points(line: &Line, pattern: &Pattern) -> Points {
    let Some(groups) = pattern.captures(&line.text) else { return Points::new() };
    let value = |name: &str| groups.name(name).and_then(|group| group.as_str().parse::<f64>().ok());
    let values: Vec<(&str, f64)> = pattern.names().filter_map(|name| Some((name, value(name)?))).collect();
    if values.is_empty() {
        return Points::new();
    }
    let step = printed::step(&line.text);
    let point = |(name, value): (&str, f64)| (name.to_owned(), Point { at: line.at, step, value });
    values.into_iter().map(point).collect()
}

fn add(found: &mut BTreeMap<String, Series>, points: Points) {
    for (name, point) in points {
        found.entry(name).or_default().push(point);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::new(text, false).unwrap()
    }

    #[test]
    fn named_groups_become_series_of_their_numbers() {
        let pattern = pattern("loss=(?<loss>\\S+)( acc=(?<accuracy>\\S+))?");
        let mut search = Search::default();
        for (second, text) in
            [(1, "step 1 loss=0.5 acc=0.7"), (2, "loss=nan"), (3, "loss=2e-1"), (4, "other"), (5, "loss=low")]
        {
            let line = Line { at: Timestamp::from_second(second).unwrap(), text: text.to_owned() };
            add(&mut search.found, super::points(&line, &pattern));
        }
        let points = |name: &str| {
            let points = search.found()[name].points().iter();
            points.map(|point| (point.at.as_second(), point.step, point.value)).collect::<Vec<_>>()
        };
        assert_eq!(points("loss"), [(1, Some(1), 0.5), (3, None, 0.2)]);
        assert_eq!(points("accuracy"), [(1, Some(1), 0.7)]);
        assert_eq!(search.found()["loss"].not_finite, 1);
    }

    #[test]
    fn the_search_that_was_used_longest_ago_is_forgotten() {
        let (searches, pattern) = (Searches::default(), pattern("x"));
        let first = searches.of("first", &pattern);
        let second = searches.of("second", &pattern);
        for number in 0..MOST_SEARCHES - 2 {
            searches.of(&number.to_string(), &pattern);
        }
        assert!(Arc::ptr_eq(&first, &searches.of("first", &pattern)));
        searches.of("one more", &pattern);
        assert!(Arc::ptr_eq(&first, &searches.of("first", &pattern)));
        assert!(!Arc::ptr_eq(&second, &searches.of("second", &pattern)));
    }

    #[tokio::test]
    async fn what_was_searched_is_not_searched_again() {
        use history::logs::maintain::{Retention, prune};
        use history::store::{Location, Settings, Store};
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Settings::new(Location::File(folder.path().join("s.db")))).await.unwrap();
        let archive = Archive::in_memory(store);
        let source =
            Source { uid: "u".to_owned(), attempt: 0, container: "launcher/0/p/0:main/0".to_owned() };
        let pattern = pattern("n=(?<n>[0-9]+)");
        let mut effort = Effort::default();
        let line = |number: i64| Line {
            at: Timestamp::from_second(number / 2).unwrap(),
            text: format!("n={number}"),
        };
        let until = Instant::now() + std::time::Duration::from_secs(60);
        let mut search = Search::default();
        for from in [0, 5, 10] {
            let lines: Vec<Line> = (from..from + 5).map(line).collect();
            logs::append(&archive, &source, from, &lines).await.unwrap();
            assert!(search.go_on(&archive, &source, &pattern, &mut effort, until).await.unwrap());
            // What was searched is gone from the archive.
            prune(&archive, &Retention { after: Timestamp::UNIX_EPOCH, bytes: 0 }).await.unwrap();
        }
        let found: Vec<f64> = search.found()["n"].points().iter().map(|point| point.value).collect();
        assert_eq!(found, (0..15).map(f64::from).collect::<Vec<_>>());
        let place = search.place(&source).unwrap();
        assert_eq!((place.last, place.at_last), (Timestamp::from_second(7).unwrap(), 1));
        logs::append(&archive, &source, 15, &[line(15)]).await.unwrap();
        assert!(!search.go_on(&archive, &source, &pattern, &mut effort, Instant::now()).await.unwrap());
        assert!(search.go_on(&archive, &source, &pattern, &mut effort, until).await.unwrap());
        assert_eq!(search.found()["n"].points().len(), 16);
    }
}
