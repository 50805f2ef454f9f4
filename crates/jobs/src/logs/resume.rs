//! Remembers where reading stopped, so that it can resume without losing or repeating a line: after a broken connection to the
//! server, and in another request, from the [`Cursor`] of a line.
//!
//! A position is a time and the number of lines that were read of it. Its times are whole microseconds, because the archive
//! keeps no more. A server resumes at a time, so lines up to the position are sent again and must be dropped. If they are not
//! sent again, lines are missing: the log was rotated meanwhile. Pure.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;

/// The longest text of a cursor.
const LONGEST_CURSOR: usize = 200;
/// By how much the times of neighbouring lines may be out of order: nodes write two streams into one log.
const DISORDER_MICROSECONDS: i64 = 50_000;
/// The letters of a pod's UID that a cursor has.
const UID_LETTERS: usize = 8;

/// The pod that a stream of lines comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The part of the job that the pod is, such as `worker-3`.
    pub part: String,
    /// When the pod was created, in seconds since 1970; 0 if it is gone.
    pub created: i64,
    /// The beginning of its UID; empty if it is gone.
    pub uid: String,
}

impl Run {
    /// The run of a pod.
    pub fn new(part: String, created: Option<Timestamp>, uid: &str) -> Self {
        let uid = uid.chars().filter(char::is_ascii_alphanumeric).take(UID_LETTERS).collect();
        Self { part, created: created.map_or(0, Timestamp::as_second), uid }
    }
}

/// The place after a line in the output of a pod. As text, it is opaque to those who send it back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    run: Arc<Run>,
    /// Microseconds since 1970.
    at: i64,
    /// The number of lines read with this time.
    count: u32,
}

impl Cursor {
    /// The part of the job whose output it is a place in.
    pub fn part(&self) -> &str {
        &self.run.part
    }

    /// The place after a line of a part's output that was kept: after so many lines with the line's time.
    pub fn of_kept(part: &str, created: i64, at: Timestamp, count: u32) -> Self {
        let run = Run { part: part.to_owned(), created, uid: String::new() };
        Self { run: Arc::new(run), at: at.as_microsecond(), count }
    }

    /// When the line before it was written.
    pub fn at(&self) -> Timestamp {
        Timestamp::from_microsecond(self.at).unwrap_or_default()
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { part, created, uid } = &*self.run;
        write!(f, "{part}.{created:x}.{uid}.{:x}.{:x}", self.at, self.count)
    }
}

impl FromStr for Cursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fault = || "is not the cursor of a line".to_owned();
        if text.len() > LONGEST_CURSOR {
            return Err(fault());
        }
        let parts: Vec<&str> = text.split('.').collect();
        let [part, created, uid, at, count] = parts[..] else { return Err(fault()) };
        let number = |digits: &str| i64::from_str_radix(digits, 16).ok();
        let read = || {
            let run = Run { part: part.to_owned(), created: number(created)?, uid: uid.to_owned() };
            let at = number(at).filter(|at| Timestamp::from_microsecond(*at).is_ok())?;
            Some(Cursor { run: Arc::new(run), at, count: u32::from_str_radix(count, 16).ok()? })
        };
        read().ok_or_else(fault)
    }
}

/// Whether a line was read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Novelty {
    /// It was read before the break.
    Known,
    /// It follows what was read.
    New,
    /// It is new, and lines before it are missing.
    AfterGap,
}

/// The position after the last line read of one pod.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    run: Arc<Run>,
    /// In microseconds.
    last: Option<i64>,
    /// The number of lines read with the time `last`.
    at_last: u32,
    /// While replaying, the number of lines with the time `last` still to be dropped; `None` afterwards.
    to_drop: Option<u32>,
}

impl Resume {
    /// The beginning of a pod's output, or the place after a cursor of it. `None` if all of it was read before the cursor,
    /// which is of a later pod.
    pub fn new(run: Run, cursor: Option<&Cursor>) -> Option<Self> {
        let beginning = Self { run: Arc::new(run), ..Self::default() };
        let Some(Cursor { run: before, at, count }) = cursor else { return Some(beginning) };
        let run = &beginning.run;
        let is_same = before.uid == run.uid || before.uid.is_empty() || run.uid.is_empty();
        match run.created.cmp(&before.created) {
            _ if is_same => Some(Self { last: Some(*at), at_last: *count, ..beginning }),
            std::cmp::Ordering::Less => None,
            _ => Some(beginning),
        }
    }

    /// Returns the time from which to request lines, after a break or a cursor, and starts dropping lines that were already read.
    pub fn again(&mut self) -> Option<Timestamp> {
        self.to_drop = self.last.map(|_| self.at_last);
        self.last.and_then(|last| Timestamp::from_microsecond(last).ok())
    }

    /// Whether a line with that time is new.
    pub fn novelty(&mut self, at: Timestamp) -> Novelty {
        let at = at.as_nanosecond().div_euclid(1_000);
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        let mut novelty = Novelty::New;
        if let (Some(left), Some(last)) = (self.to_drop, self.last) {
            if at < last {
                return Novelty::Known;
            }
            if at == last && left > 0 {
                self.to_drop = Some(left - 1);
                return Novelty::Known;
            }
            if left > 0 && left == self.at_last && at - last > DISORDER_MICROSECONDS {
                novelty = Novelty::AfterGap;
            }
            self.to_drop = None;
        }
        if self.last == Some(at) {
            self.at_last = self.at_last.saturating_add(1);
        } else {
            self.last = Some(at);
            self.at_last = 1;
        }
        novelty
    }

    /// The place after the last line.
    pub fn cursor(&self) -> Option<Cursor> {
        Some(Cursor { run: self.run.clone(), at: self.last?, count: self.at_last })
    }
}

/// The second that a time is in: kube rounds the time of a request to the nearest second, which may be a later one, and
/// lines that are sent again are dropped.
pub fn whole_second(at: Timestamp) -> Timestamp {
    let seconds = i64::try_from(at.as_nanosecond().div_euclid(1_000_000_000)).unwrap_or_default();
    Timestamp::from_second(seconds).unwrap_or(at)
}

/// Splits a line into time and text; the server puts the time before the line, separated by one space.
pub fn split(line: &str) -> (Option<Timestamp>, &str) {
    match line.split_once(' ') {
        Some((time, text)) => match time.parse() {
            Ok(at) => (Some(at), text),
            Err(_) => (None, line),
        },
        None => (line.parse().ok(), if line.parse::<Timestamp>().is_ok() { "" } else { line }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanoseconds: i128) -> Timestamp {
        Timestamp::from_nanosecond(nanoseconds).unwrap()
    }

    #[test]
    fn a_log_is_requested_from_a_time_that_is_not_rounded_up() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(whole_second(at("2026-01-01T00:00:18.999Z")), at("2026-01-01T00:00:18Z"));
        assert_eq!(whole_second(at("2026-01-01T00:00:18Z")), at("2026-01-01T00:00:18Z"));
    }

    fn worker(created: i64, uid: &str) -> Run {
        Run::new("worker-3".to_owned(), Timestamp::from_second(created).ok(), uid)
    }

    /// Reads the lines up to a place, as far as a server sends them from a time on.
    fn read(resume: &mut Resume, times: &[Timestamp], until: usize, got: &mut Vec<usize>) {
        let from = resume.again();
        let sent =
            times[..until].iter().enumerate().filter(|(_, time)| from.is_none_or(|from| **time >= from));
        got.extend(sent.filter(|(_, time)| resume.novelty(**time) == Novelty::New).map(|(index, _)| index));
    }

    #[test]
    fn a_break_at_any_line_loses_and_repeats_nothing() {
        // Several lines of one microsecond, and of one nanosecond.
        let times = [1, 2, 2, 1_002, 3_000, 3_001, 9_999_999, 9_999_999].map(at);
        for first_cut in 0..=times.len() {
            for second_cut in first_cut..=times.len() {
                let mut resume = Resume::new(worker(1, "a"), None).unwrap();
                let mut got = Vec::new();
                for cut in [first_cut, second_cut, times.len()] {
                    read(&mut resume, &times, cut, &mut got);
                }
                assert_eq!(got, (0..times.len()).collect::<Vec<_>>(), "cut at {first_cut} and {second_cut}");
            }
        }
    }

    #[test]
    fn another_request_goes_on_at_the_cursor_of_a_line_also_in_the_archive() {
        let times = [1, 2, 2, 1_002, 3_000, 3_001, 9_999_999, 9_999_999].map(at);
        // The archive keeps microseconds.
        let archived = times.map(|time| Timestamp::from_microsecond(time.as_microsecond()).unwrap());
        for cut in 1..=times.len() {
            for later in [&times, &archived] {
                let mut resume = Resume::new(worker(1, "a"), None).unwrap();
                let mut got = Vec::new();
                read(&mut resume, &times, cut, &mut got);
                let cursor: Cursor = resume.cursor().unwrap().to_string().parse().unwrap();
                let mut resume = Resume::new(worker(1, "a"), Some(&cursor)).unwrap();
                read(&mut resume, later, later.len(), &mut got);
                assert_eq!(got, (0..times.len()).collect::<Vec<_>>(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn of_other_pods_of_the_same_part_the_earlier_ones_were_read_and_the_later_ones_were_not() {
        let mut resume = Resume::new(worker(5, "b"), None).unwrap();
        resume.novelty(at(9_000));
        let cursor = resume.cursor().unwrap();
        assert!(Resume::new(worker(4, "a"), Some(&cursor)).is_none());
        let mut later = Resume::new(worker(6, "c"), Some(&cursor)).unwrap();
        assert_eq!(later.again(), None);
        assert_eq!(later.novelty(at(1)), Novelty::New, "the clock of its node is behind");
        // Of a pod that is gone, only the part is known.
        let mut gone =
            Resume::new(Run { part: "worker-3".to_owned(), ..Run::default() }, Some(&cursor)).unwrap();
        assert_eq!(gone.again(), Some(at(9_000)));
        assert_eq!(gone.novelty(at(9_500)), Novelty::Known);
    }

    #[test]
    fn lines_that_a_rotation_removed_are_noticed() {
        let mut resume = Resume::default();
        let mut novelty = |seconds: i128| resume.novelty(at(seconds * 1_000_000_000));
        assert_eq!(novelty(1), Novelty::New);
        resume.again();
        let mut novelty = |seconds: i128| resume.novelty(at(seconds * 1_000_000_000));
        assert_eq!(novelty(5), Novelty::AfterGap, "the last line was not sent again");
        assert_eq!(novelty(6), Novelty::New);
        resume.again();
        let mut novelty = |seconds: i128| resume.novelty(at(seconds * 1_000_000_000));
        assert_eq!([novelty(6), novelty(7)], [Novelty::Known, Novelty::New]);
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        for text in ["", "x", "worker-3.1.a.1", "worker-3.1.a.1.x", "worker-3.1.a.7fffffffffffffff.1"] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
        assert!("w".repeat(300).parse::<Cursor>().is_err());
    }

    #[test]
    fn a_line_is_split_at_the_first_space() {
        let (time, text) = split("2026-01-01T00:00:00.5Z loss 0.3  acc 1");
        assert_eq!((time.unwrap().as_millisecond() % 1000, text), (500, "loss 0.3  acc 1"));
        assert_eq!(split("2026-01-01T00:00:00Z").1, "");
        assert_eq!(split("no time here"), (None, "no time here"));
    }
}
