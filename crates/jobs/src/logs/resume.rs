//! Remembers where reading stopped, so that it can resume without losing or repeating a line.
//!
//! A server resumes at a time in whole seconds, so lines up to the last one read are sent again and must be dropped.
//! Lines with equal times are distinguished by counting them. Pure.

use jiff::Timestamp;

/// The position after the last line read.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    last: Option<Timestamp>,
    /// The number of lines read with the time `last`.
    at_last: usize,
    /// While replaying, the number of lines with the time `last` still to be dropped; `None` afterwards.
    to_drop: Option<usize>,
}

impl Resume {
    /// Returns the time from which to request lines after a break, and starts dropping lines that were already read.
    pub fn again(&mut self) -> Option<Timestamp> {
        self.to_drop = self.last.map(|_| self.at_last);
        self.last
    }

    /// Whether a line with that time is new.
    pub fn is_new(&mut self, at: Timestamp) -> bool {
        if let (Some(left), Some(last)) = (self.to_drop, self.last) {
            if at < last {
                return false;
            }
            if at == last && left > 0 {
                self.to_drop = Some(left - 1);
                return false;
            }
            self.to_drop = None;
        }
        if self.last == Some(at) {
            self.at_last += 1;
        } else {
            self.last = Some(at);
            self.at_last = 1;
        }
        true
    }
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
    fn a_break_at_any_line_loses_and_repeats_nothing() {
        let times = [1, 2, 2, 2, 3, 3, 9, 9].map(at);
        for first_cut in 0..=times.len() {
            for second_cut in first_cut..=times.len() {
                let mut resume = Resume::default();
                let mut got = Vec::new();
                for cut in [first_cut, second_cut, times.len()] {
                    let from = resume.again();
                    let replay = times[..cut]
                        .iter()
                        .enumerate()
                        .filter(|(_, time)| from.is_none_or(|from| **time >= from));
                    got.extend(replay.filter(|(_, time)| resume.is_new(**time)).map(|(index, _)| index));
                }
                assert_eq!(got, (0..times.len()).collect::<Vec<_>>(), "cut at {first_cut} and {second_cut}");
            }
        }
    }

    #[test]
    fn a_line_is_split_at_the_first_space() {
        let (time, text) = split("2026-01-01T00:00:00.5Z loss 0.3  acc 1");
        assert_eq!((time.unwrap().as_millisecond() % 1000, text), (500, "loss 0.3  acc 1"));
        assert_eq!(split("2026-01-01T00:00:00Z").1, "");
        assert_eq!(split("no time here"), (None, "no time here"));
    }
}
