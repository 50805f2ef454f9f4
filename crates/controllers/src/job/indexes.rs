//! Sets of completion indexes and their text form `1,3-5,7` (`status.completedIndexes`). Pure.

use std::collections::BTreeSet;

/// Parses the text form. Skips anything that is not a number, and indexes not below `completions` (as upstream does
/// after `completions` was lowered).
pub fn parse(text: &str, completions: i32) -> BTreeSet<i32> {
    ranges(text, completions).flat_map(|(first, last)| first..=last).collect()
}

/// Returns how many of `members` the text form contains, and whether it contains no others. Parses as [`parse`] does,
/// but does not expand ranges: a Job may have two billion completions.
pub fn named(text: &str, completions: i32, members: &BTreeSet<i32>) -> (usize, bool) {
    let mut ranges: Vec<(i32, i32)> = ranges(text, completions).collect();
    ranges.sort_unstable();
    let (mut hits, mut all, mut from) = (0, 0_i64, 0);
    for (first, last) in ranges {
        let first = first.max(from);
        if first > last {
            continue;
        }
        hits += members.range(first..=last).count();
        all += i64::from(last) - i64::from(first) + 1;
        from = last.saturating_add(1);
    }
    (hits, i64::try_from(hits).is_ok_and(|hits| hits == all))
}

/// Returns the ranges of the text form (first and last index), limited to `completions`.
fn ranges(text: &str, completions: i32) -> impl Iterator<Item = (i32, i32)> {
    text.split(',').filter(|part| !part.is_empty()).filter_map(move |part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<i32>().ok()?.max(0), last.parse::<i32>().ok()?);
        Some((first, last.min(completions.saturating_sub(1))))
    })
}

/// Formats the indexes; as upstream, runs of three or more become `first-last`.
pub fn format(set: &BTreeSet<i32>) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = set.iter().copied().peekable();
    while let Some(first) = rest.next() {
        let mut last = first;
        while rest.next_if_eq(&(last + 1)).is_some() {
            last += 1;
        }
        match last - first {
            0 => parts.push(first.to_string()),
            1 => parts.push(format!("{first},{last}")),
            _ => parts.push(format!("{first}-{last}")),
        }
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_round_trip_through_text() {
        for (text, completions, expected) in [
            ("", 5, ""),
            ("0", 5, "0"),
            ("0,1", 5, "0,1"),
            ("0-2,4", 5, "0-2,4"),
            ("1,3-5,7", 10, "1,3-5,7"),
            ("1,3-5,7", 5, "1,3,4"),
            ("x,2", 5, "2"),
        ] {
            assert_eq!(format(&parse(text, completions)), expected, "{text} of {completions}");
        }
    }

    #[test]
    fn ranges_are_compared_without_expansion() {
        let members = parse("0-4,7", 10);
        for (text, expected) in
            [("0-2", (3, true)), ("3-5", (2, false)), ("0-3,2-4,7", (6, true)), ("", (0, true))]
        {
            assert_eq!(named(text, i32::MAX, &members), expected, "{text}");
        }
        assert_eq!(named("0-2147483647", i32::MAX, &members), (6, false));
    }
}
