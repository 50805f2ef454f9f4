//! Durations in annotations: `90s`, `10m`, `1h30m`.

use std::time::Duration;

/// The longest duration that an annotation may ask for: ten years, so that sums with a time stay in range.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Parses `text` as a positive duration of hours, minutes and seconds; `None` if it is invalid or longer than ten
/// years.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let parsed: jiff::SignedDuration = text.trim().parse().ok()?;
    let duration = Duration::try_from(parsed).ok()?;
    (!duration.is_zero() && duration <= LONGEST).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_and_other_text_is_rejected() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("1h30m", 5400), (" 2h ", 7200), ("1m30s", 90)] {
            assert_eq!(parse_duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "10", "0s", "-1m", "ten minutes", "10 parsecs", "999999999h"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
