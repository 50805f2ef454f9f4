//! Times, as Kubernetes writes them (`metav1.Time`), and ages, as kubectl prints them (`apimachinery/pkg/util/duration.HumanDuration`).

use jiff::Timestamp;

/// Formats seconds as `5s`, `2m30s`, `15m`, `3h5m`, `12h`, `2d3h`, `15d`, `2y34d`, `10y`.
pub fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let pair = |large: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    match seconds {
        // Tolerate clocks that differ slightly.
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => pair(seconds / HOUR, "h", seconds / MINUTE % 60, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => pair(seconds / DAY, "d", seconds / HOUR % 24, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => pair(s / YEAR, "y", s / DAY % 365, "d"),
        s => format!("{}y", s / YEAR),
    }
}

/// Formats a time: RFC 3339, whole seconds, UTC.
pub fn timestamp(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// Returns the time since `then`, or `<unknown>` if `then` is not a time.
pub fn since(then: Option<&str>, now: Timestamp) -> String {
    match then.and_then(|t| t.parse::<Timestamp>().ok()) {
        Some(then) => human_duration(now.as_second() - then.as_second()),
        None => "<unknown>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_as_in_kubectl() {
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_799, "7h59m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (187_200, "2d4h"),
            (691_199, "7d23h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (66_009_600, "2y34d"),
            (252_288_000, "8y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_duration(seconds), text);
        }
    }
}
