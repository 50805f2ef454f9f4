//! Folds lines that several ranks or pods wrote alike within a moment into one, with the list of those that wrote it. Pure.
//!
//! The order of the lines of each source is kept: a line joins an earlier equal line only if its source wrote nothing in
//! between. What is held back is bounded in number, in size and in the time between the lines.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{Cursor, Item, Origin, bytes_of};
use crate::Error;

/// The longest time between equal lines that are folded.
pub const WINDOW: Duration = Duration::from_millis(500);
/// The maximum number of different lines held back.
const MAX_HELD: usize = 1024;
/// The maximum size of what is held back, in bytes.
const MAX_HELD_BYTES: usize = 1 << 20;

/// The lines that are held back.
#[derive(Default)]
pub(super) struct Fold {
    /// In the order in which the first of each was written.
    held: VecDeque<Result<Item, Error>>,
    /// The size of their texts, in bytes.
    bytes: usize,
    /// The number of lines passed on so far: the place of `held[0]`.
    passed: usize,
    /// The place of the last line of each source.
    last: HashMap<(Arc<str>, Option<u32>), usize>,
    /// The places of the lines that are held back, by text.
    places: HashMap<String, usize>,
    /// The lines of each pod up to the first that is held back: whether each has been passed on.
    unsettled: HashMap<Arc<str>, BTreeMap<Cursor, bool>>,
}

impl Fold {
    /// Takes the next line, and passes on the lines that no later one can join.
    pub(super) fn push(&mut self, item: Result<Item, Error>, mut pass: impl FnMut(Result<Item, Error>)) {
        if let Ok(Item::Line { pod, rank, at, text, cursor, .. }) = &item {
            self.release(*at, &mut pass);
            if let Some(cursor) = cursor {
                self.unsettled.entry(pod.clone()).or_default().insert(cursor.clone(), false);
            }
            let source = (pod.clone(), *rank);
            let after = self.last.get(&source).copied();
            let place = self.places.get(text).copied();
            let joins = place.filter(|place| after.is_none_or(|after| after < *place));
            if let Some(place) = joins
                && let Some(Ok(Item::Line { also, .. })) = self.held.get_mut(place - self.passed)
            {
                also.push(Origin { pod: pod.clone(), rank: *rank, cursor: cursor.clone() });
                self.last.insert(source, place);
                return;
            }
            let place = self.passed + self.held.len();
            self.last.insert(source, place);
            self.places.insert(text.clone(), place);
        }
        self.bytes += bytes_of(&item);
        self.held.push_back(item);
        while self.held.len() > MAX_HELD || self.bytes > MAX_HELD_BYTES {
            self.pass_first(&mut pass);
        }
    }

    /// Passes on what is too old for a line of this time to join, and all that is not a line before it.
    fn release(&mut self, now: Option<Timestamp>, pass: &mut impl FnMut(Result<Item, Error>)) {
        let waits = |item: &Result<Item, Error>| match item {
            Ok(Item::Line { at, .. }) => match (at, now) {
                (Some(at), Some(now)) => now.duration_since(*at).unsigned_abs() <= WINDOW,
                _ => true,
            },
            _ => false,
        };
        while self.held.front().is_some_and(|first| !waits(first)) {
            self.pass_first(pass);
        }
    }

    fn pass_first(&mut self, pass: &mut impl FnMut(Result<Item, Error>)) {
        let Some(mut first) = self.held.pop_front() else { return };
        self.bytes -= bytes_of(&first);
        if let Ok(Item::Line { pod, text, also, cursor, .. }) = &mut first {
            if self.places.get(text) == Some(&self.passed) {
                self.places.remove(text);
            }
            self.settle(pod, cursor, also);
        }
        self.passed += 1;
        if self.held.is_empty() {
            // Everything before has been passed on, so its order is settled.
            self.last.clear();
        }
        pass(first);
    }

    /// Replaces the places of a line by those up to which everything of its pods has been passed on with it: a line may have
    /// joined one that was written earlier, before others of its pod.
    fn settle(&mut self, pod: &Arc<str>, cursor: &mut Option<Cursor>, also: &mut [Origin]) {
        let mut mark = |pod: &Arc<str>, cursor: &Option<Cursor>| {
            let lines = cursor.as_ref().and_then(|_| self.unsettled.get_mut(pod));
            let passed = lines.zip(cursor.as_ref()).and_then(|(lines, cursor)| lines.get_mut(cursor));
            passed.into_iter().for_each(|passed| *passed = true);
        };
        mark(pod, cursor);
        also.iter().for_each(|origin| mark(&origin.pod, &origin.cursor));
        let mut settled = |pod: &Arc<str>| {
            let lines = self.unsettled.get_mut(pod)?;
            let mut last = None;
            while let Some(line) = lines.first_entry().filter(|line| *line.get()) {
                last = Some(line.remove_entry().0);
            }
            if lines.is_empty() {
                self.unsettled.remove(pod);
            }
            last
        };
        *cursor = settled(pod);
        // The first origin of each further pod gets its place; for the others, nothing is left.
        also.iter_mut().for_each(|origin| origin.cursor = settled(&origin.pod));
    }

    /// Passes on everything.
    pub(super) fn flush(&mut self, mut pass: impl FnMut(Result<Item, Error>)) {
        while !self.held.is_empty() {
            self.pass_first(&mut pass);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

/// Writes numbers as ranges: `0-3,7`. Duplicates are written once.
pub fn ranges(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut numbers: Vec<u32> = numbers.into_iter().collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(number) => *end = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |(start, end): &(u32, u32)| match start == end {
        true => start.to_string(),
        false => format!("{start}-{end}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(rank: u32, milliseconds: i64, text: &str) -> Result<Item, Error> {
        Ok(Item::Line {
            pod: Arc::from("pi-launcher"),
            at: Timestamp::from_millisecond(milliseconds).ok(),
            rank: Some(rank),
            level: None,
            text: text.to_owned(),
            also: Vec::new(),
            cursor: None,
        })
    }

    fn folded(lines: Vec<Result<Item, Error>>) -> Vec<(Vec<u32>, String)> {
        let mut fold = Fold::default();
        let mut passed = Vec::new();
        for item in lines {
            fold.push(item, |item| passed.push(item));
        }
        fold.flush(|item| passed.push(item));
        let shown = |item: Result<Item, Error>| match item {
            Ok(Item::Line { rank, also, text, .. }) => {
                let others = also.into_iter().filter_map(|origin| origin.rank);
                (rank.into_iter().chain(others).collect(), text)
            }
            Ok(Item::Note(note)) => (Vec::new(), note),
            other => panic!("{other:?}"),
        };
        passed.into_iter().map(shown).collect()
    }

    #[test]
    fn equal_lines_of_different_ranks_are_folded() {
        let lines = (0..4).map(|rank| line(rank, i64::from(rank), "ready")).collect();
        assert_eq!(folded(lines), [(vec![0, 1, 2, 3], "ready".to_owned())]);
    }

    #[test]
    fn a_rank_that_repeats_itself_is_shown_twice() {
        assert_eq!(folded(vec![line(0, 0, "a"), line(0, 1, "a"), line(1, 2, "a")]).len(), 2);
    }

    #[test]
    fn lines_far_apart_are_not_folded() {
        assert_eq!(folded(vec![line(0, 0, "a"), line(1, 501, "a")]).len(), 2);
        assert_eq!(folded(vec![line(0, 0, "a"), line(1, 500, "a")]).len(), 1);
    }

    #[test]
    fn a_line_has_the_place_up_to_which_everything_of_its_pod_was_passed_on() {
        let place = |number: u32| Some(format!("launcher.1.a.1.{number:x}").parse::<Cursor>().unwrap());
        let with = |line: Result<Item, Error>, number: u32| match line {
            Ok(Item::Line { pod, at, rank, level, text, also, .. }) => {
                Ok(Item::Line { pod, at, rank, level, text, also, cursor: place(number) })
            }
            other => other,
        };
        // The third line joins the first, before which the second was written.
        let lines = [with(line(0, 0, "a"), 1), with(line(0, 1, "b"), 2), with(line(1, 2, "a"), 3)];
        let (mut fold, mut passed) = (Fold::default(), Vec::new());
        lines.into_iter().for_each(|item| fold.push(item, |item| passed.push(item)));
        fold.flush(|item| passed.push(item));
        let cursors: Vec<(Option<Cursor>, Vec<Option<Cursor>>)> = passed
            .into_iter()
            .map(|item| match item {
                Ok(Item::Line { cursor, also, .. }) => {
                    (cursor, also.into_iter().map(|origin| origin.cursor).collect())
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(cursors, [(place(1), vec![None]), (place(3), vec![])]);
    }

    #[test]
    fn long_lines_that_are_held_back_are_bounded_by_their_size() {
        let (mut fold, mut passed) = (Fold::default(), 0);
        let half = MAX_HELD_BYTES / 2;
        for number in 0..10 {
            fold.push(line(0, 0, &format!("{number}{}", "x".repeat(half - 1))), |_| passed += 1);
            assert!(fold.bytes <= MAX_HELD_BYTES);
        }
        assert_eq!(passed, 8);
        fold.flush(|_| passed += 1);
        assert_eq!((passed, fold.bytes), (10, 0));
    }

    #[test]
    fn notes_stay_where_they_are() {
        let lines = vec![line(0, 0, "a"), Ok(Item::Note("note".to_owned())), line(1, 1, "b")];
        let texts: Vec<String> = folded(lines).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["a", "note", "b"]);
    }

    #[test]
    fn numbers_are_written_as_ranges() {
        assert_eq!(ranges([7, 0, 1, 2, 3, 2]), "0-3,7");
        assert_eq!(ranges([5]), "5");
        assert_eq!(ranges([]), "");
        assert_eq!(ranges([u32::MAX, u32::MAX - 1]), format!("{}-{}", u32::MAX - 1, u32::MAX));
    }

    proptest! {
        #[test]
        fn every_rank_keeps_its_lines_in_order(
            lines in proptest::collection::vec((0..4_u32, 0..3_u8, 0..300_i64), 0..200)
        ) {
            let mut at = 0;
            let mut items = Vec::new();
            let mut written: Vec<Vec<String>> = vec![Vec::new(); 4];
            for (rank, text, later) in lines {
                at += later;
                written[rank as usize].push(text.to_string());
                items.push(line(rank, at, &text.to_string()));
            }
            let folded = folded(items);
            for rank in 0..4_u32 {
                let read: Vec<String> =
                    folded.iter().filter(|(ranks, _)| ranks.contains(&rank)).map(|(_, text)| text.clone()).collect();
                prop_assert_eq!(&read, &written[rank as usize]);
            }
        }
    }
}
