//! Sets of completion indexes and their text form `1,3-5,7` (`status.completedIndexes`). Pure.

use std::collections::BTreeSet;

/// Reads the text form; what is no number, or lies at or beyond `completions`, is left out (as upstream does when
/// `completions` was lowered).
pub fn parse(text: &str, completions: i32) -> BTreeSet<i32> {
    let mut set = BTreeSet::new();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else { continue };
        set.extend(first.max(0)..=last.min(completions - 1));
    }
    set
}

/// Writes the text form: runs of three or more as `first-last`, as upstream writes them.
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
    fn text_and_back() {
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
}
