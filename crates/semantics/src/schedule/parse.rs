//! Parses the text of a schedule.

use std::num::IntErrorKind;

use super::{Calendar, Field, Times};

/// Why a text is not a schedule; the messages are those of `robfig/cron`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// It has more or fewer fields than five.
    #[error("expected exactly 5 fields, found {}: [{}]", .0.len(), .0.join(" "))]
    Fields(Vec<String>),
    /// A range has more than two ends.
    #[error("too many hyphens: {0}")]
    Hyphens(String),
    /// A range has more than one step.
    #[error("too many slashes: {0}")]
    Slashes(String),
    /// A value is neither a number nor a name of this field.
    #[error("failed to parse int from {0}: strconv.Atoi: parsing {0:?}: {1}")]
    Number(String, &'static str),
    /// A number is negative.
    #[error("negative number ({0}) not allowed: {1}")]
    Negative(i64, String),
    /// A value is too small.
    #[error("beginning of range ({0}) below minimum ({1}): {2}")]
    Below(i64, i64, String),
    /// A value is too large.
    #[error("end of range ({0}) above maximum ({1}): {2}")]
    Above(i64, i64, String),
    /// A range ends before it begins.
    #[error("beginning of range ({0}) beyond end of range ({1}): {2}")]
    Reversed(i64, i64, String),
    /// A step is zero.
    #[error("step of range should be a positive number: {0}")]
    Step(String),
    /// A word with `@` is unknown.
    #[error("unrecognized descriptor: {0}")]
    Descriptor(String),
    /// What follows `@every` is not a duration of Go.
    #[error("failed to parse duration {0}: time: {1}")]
    Duration(String, String),
}

/// The values of a field.
struct Bounds {
    min: i64,
    max: i64,
    /// Names of the values from `min` on.
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds { min: 0, max: 59, names: &[] };
const HOURS: Bounds = Bounds { min: 0, max: 23, names: &[] };
const DAYS: Bounds = Bounds { min: 1, max: 31, names: &[] };
const MONTHS: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAYS: Bounds = Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// The units of a duration, in nanoseconds.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", NANOSECONDS),
    ("m", 60 * NANOSECONDS),
    ("h", 3_600 * NANOSECONDS),
];
const NANOSECONDS: i128 = 1_000_000_000;
/// The digits after the point that count; more are finer than a nanosecond.
const FRACTION_DIGITS: usize = 15;
/// What these digits are parts of.
const FRACTION_PARTS: i128 = 1_000_000_000_000_000;

pub(super) fn times(text: &str) -> Result<Times, ScheduleError> {
    if text.starts_with('@') {
        return descriptor(text);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [minutes, hours, days, months, weekdays] = fields[..] else {
        return Err(ScheduleError::Fields(fields.into_iter().map(str::to_owned).collect()));
    };
    Ok(Times::Calendar(Calendar {
        minutes: field(minutes, &MINUTES)?,
        hours: field(hours, &HOURS)?,
        days: field(days, &DAYS)?,
        months: field(months, &MONTHS)?,
        weekdays: field(weekdays, &WEEKDAYS)?,
    }))
}

fn descriptor(text: &str) -> Result<Times, ScheduleError> {
    times(match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let wrong = || ScheduleError::Descriptor(text.to_owned());
            let duration = text.strip_prefix("@every ").ok_or_else(wrong)?;
            let nanoseconds =
                nanoseconds(duration).map_err(|why| ScheduleError::Duration(text.to_owned(), why))?;
            // At least a second, and whole ones.
            return Ok(Times::Every((nanoseconds / 1_000_000_000).max(1)));
        }
    })
}

fn field(text: &str, bounds: &Bounds) -> Result<Field, ScheduleError> {
    let mut field = Field::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let Field { values, is_star } = range(part, bounds)?;
        field = Field { values: field.values | values, is_star: field.is_star || is_star };
    }
    Ok(field)
}

/// Parses `*`, `5`, `1-5`, and each of them with a step, as in `5/15`.
fn range(text: &str, bounds: &Bounds) -> Result<Field, ScheduleError> {
    let copy = || text.to_owned();
    let (span, steps) = text.split_once('/').map_or((text, None), |(span, steps)| (span, Some(steps)));
    let ends: Vec<&str> = span.split('-').collect();
    let is_star = matches!(ends[0], "*" | "?");
    let (first, mut last) = match ends[..] {
        _ if is_star => (bounds.min, bounds.max),
        [one] => [value(one, bounds)?; 2].into(),
        [first, last] => (value(first, bounds)?, value(last, bounds)?),
        _ => return Err(ScheduleError::Hyphens(copy())),
    };
    let step = match steps {
        None => 1,
        Some(steps) if steps.contains('/') => return Err(ScheduleError::Slashes(copy())),
        Some(step) => {
            if ends.len() == 1 {
                last = bounds.max;
            }
            number(step)?
        }
    };
    if first < bounds.min {
        return Err(ScheduleError::Below(first, bounds.min, copy()));
    }
    if last > bounds.max {
        return Err(ScheduleError::Above(last, bounds.max, copy()));
    }
    if first > last {
        return Err(ScheduleError::Reversed(first, last, copy()));
    }
    if step == 0 {
        return Err(ScheduleError::Step(copy()));
    }
    let every = usize::try_from(step).unwrap_or(usize::MAX);
    let values = (first..=last).step_by(every).fold(0, |bits, value| bits | 1 << value);
    Ok(Field { values, is_star: is_star && step == 1 })
}

fn value(text: &str, bounds: &Bounds) -> Result<i64, ScheduleError> {
    let named = (bounds.min..).zip(bounds.names).find(|(_, name)| name.eq_ignore_ascii_case(text));
    named.map_or_else(|| number(text), |(value, _)| Ok(value))
}

fn number(text: &str) -> Result<i64, ScheduleError> {
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(ScheduleError::Negative(number, text.to_owned())),
        Ok(number) => Ok(number),
        Err(error) => {
            let is_large = matches!(error.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow);
            let why = if is_large { "value out of range" } else { "invalid syntax" };
            Err(ScheduleError::Number(text.to_owned(), why))
        }
    }
}

/// Parses a duration as Go writes it: `1h30m`, `1.5h`, `-5ms`.
fn nanoseconds(text: &str) -> Result<i64, String> {
    let invalid = || format!("invalid duration {text:?}");
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0;
    while !rest.is_empty() {
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let (amount, after) =
            rest.split_at(rest.find(|letter: char| !is_number(letter)).unwrap_or(rest.len()));
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        rest = after;
        let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        if unit.is_empty() {
            return Err(format!("missing unit in duration {text:?}"));
        }
        let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("unknown unit {unit:?} in duration {text:?}"));
        };
        let digits = |text: String| text.parse::<i64>().map(i128::from).map_err(|_| invalid());
        total += digits(format!("0{whole}"))? * size;
        total += digits(format!("{fraction:0<FRACTION_DIGITS$.FRACTION_DIGITS$}"))? * size / FRACTION_PARTS;
        if total > i128::from(i64::MAX) {
            return Err(invalid());
        }
    }
    let total = i64::try_from(total).map_err(|_| invalid())?;
    Ok(if text.starts_with('-') { -total } else { total })
}
