//! The numbers that jobs print, as series: kept with the archived lines that they come from, and stored with them in one
//! transaction ([`crate::logs::append_sampled`]), so that a restart neither repeats nor loses one.
//!
//! A series of any length has at most [`MAX_POINTS`] points and its last one. They become sparser as it grows, evenly over
//! its whole time. How many series a job has is bounded by the names that the caller looks for.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use crate::error::Error;
use crate::store::{Store, Write, micros, optional_time, time};

/// The maximum number of points of a series, besides its last one.
pub const MAX_POINTS: usize = 256;
/// The size of a stored point in bytes: its time, its step, its value.
const POINT_BYTES: usize = 24;
/// How a point without a step is stored.
const NO_STEP: i64 = i64::MIN;
/// The number of series that one transaction forgets.
const PRUNED_AT_ONCE: i64 = 1000;

/// A number at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When it was printed.
    pub at: Timestamp,
    /// The step of the training, if it is known.
    pub step: Option<i64>,
    /// The number.
    pub value: f64,
}

/// A number that a line contains.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The place of the line in its batch.
    pub line: usize,
    /// The series.
    pub name: &'static str,
    /// The number.
    pub point: Point,
}

/// What the lines of a batch contain.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// The part of the job that wrote the lines. Its series goes on through restarts and attempts.
    pub part: String,
    /// The samples, in the order of the lines.
    pub samples: Vec<Sample>,
}

/// What a list shows of a series; a value is `None` if it is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Values {
    /// The last value.
    pub newest: Option<f64>,
    /// The lowest value.
    pub lowest: Option<f64>,
    /// The highest value.
    pub highest: Option<f64>,
    /// The number of values that are NaN or infinite, which are none of these.
    pub not_finite: u64,
}

/// A series of any length.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// One of every `stride` points, and the last.
    points: Vec<Point>,
    stride: u64,
    /// The number of points so far.
    seen: u64,
    /// The lowest and the highest value so far: the points that had one may be among those that are left out. `None` without
    /// points, and for a series of which a former version kept only points.
    extent: Option<(f64, f64)>,
    /// The number of values that are NaN or infinite, which are no points.
    pub not_finite: u64,
    /// When the first of them was printed.
    pub first_not_finite: Option<Timestamp>,
}

impl Default for Series {
    fn default() -> Self {
        Self { points: Vec::new(), stride: 1, seen: 0, extent: None, not_finite: 0, first_not_finite: None }
    }
}

impl Series {
    /// Adds a point.
    pub fn push(&mut self, point: Point) {
        if !point.value.is_finite() {
            self.not_finite += 1;
            self.first_not_finite.get_or_insert(point.at);
            return;
        }
        if self.has_extra() {
            self.points.pop();
        }
        self.points.push(point);
        let value = point.value;
        self.extent = match (self.seen, self.extent) {
            (0, _) => Some((value, value)),
            (_, extent) => extent.map(|(lowest, highest)| (lowest.min(value), highest.max(value))),
        };
        self.seen += 1;
        if self.points.len() == MAX_POINTS && !self.has_extra() {
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.stride *= 2;
            if self.has_extra() {
                self.points.push(point);
            }
        }
    }

    /// Whether the last point is there only because it is the last.
    fn has_extra(&self) -> bool {
        self.seen > 0 && !(self.seen - 1).is_multiple_of(self.stride)
    }

    /// Returns the points, in the order in which they were added.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns what a list shows of it.
    #[must_use]
    pub fn values(&self) -> Values {
        Values {
            newest: self.points.last().map(|point| point.value),
            lowest: self.extent.map(|(lowest, _)| lowest),
            highest: self.extent.map(|(_, highest)| highest),
            not_finite: self.not_finite,
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.points.len() * POINT_BYTES);
        for Point { at, step, value } in &self.points {
            bytes.extend(micros(*at).to_le_bytes());
            bytes.extend(step.unwrap_or(NO_STEP).to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }
}

fn points_of(bytes: &[u8]) -> Result<Vec<Point>, Error> {
    let damaged = || Error::Damaged("a printed series: a point is cut off".to_owned());
    let (numbers, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(damaged());
    }
    let point = |numbers: &[[u8; 8]]| {
        let [at, step, value] = numbers else { return Err(damaged()) };
        Ok(Point {
            at: time(i64::from_le_bytes(*at))?,
            step: Some(i64::from_le_bytes(*step)).filter(|step| *step != NO_STEP),
            value: f64::from_le_bytes(*value),
        })
    };
    numbers.chunks(3).map(point).collect()
}

fn stored(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// How a value is stored that may be unknown: as NaN, which SQLite keeps as NULL. sqlx's `Any` declares an absent `f64` to
/// PostgreSQL as a `real`, and then the prepared statement refuses the next one that is there.
fn stored_value(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

fn value_of(row: &AnyRow, column: &str) -> Result<Option<f64>, Error> {
    let value: Option<f64> = row.try_get(column)?;
    Ok(value.filter(|value| value.is_finite()))
}

fn amount(stored: i64) -> Result<u64, Error> {
    u64::try_from(stored).map_err(|error| Error::damaged("a printed series", error))
}

/// Adds the samples of the lines from a place in their batch on.
pub(crate) async fn add(write: &mut Write, uid: &str, samples: &Samples, from: usize) -> Result<(), Error> {
    let mut by_name: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
    for sample in samples.samples.iter().filter(|sample| sample.line >= from) {
        by_name.entry(sample.name).or_default().push(sample.point);
    }
    for (name, points) in by_name {
        let mut series = lock(write, uid, &samples.part, name).await?;
        points.into_iter().for_each(|point| series.push(point));
        let Values { newest, lowest, highest, not_finite } = series.values();
        sqlx::query(
            "UPDATE printed_series SET seen = $4, stride = $5, not_finite = $6, first_not_finite = $7, changed = $8, \
             points = $9, newest = $10, lowest = $11, highest = $12 WHERE uid = $1 AND part = $2 AND name = $3",
        )
        .bind(uid)
        .bind(&samples.part)
        .bind(name)
        .bind(stored(series.seen))
        .bind(stored(series.stride))
        .bind(stored(not_finite))
        .bind(series.first_not_finite.map(micros))
        .bind(micros(Timestamp::now()))
        .bind(series.to_bytes())
        .bind(stored_value(newest))
        .bind(stored_value(lowest))
        .bind(stored_value(highest))
        .execute(&mut **write)
        .await?;
    }
    Ok(())
}

const COLUMNS: &str = "seen, stride, not_finite, first_not_finite, lowest, highest, points";

/// Creates a series if it is missing, and locks it until the transaction ends.
async fn lock(write: &mut Write, uid: &str, part: &str, name: &str) -> Result<Series, Error> {
    let query = format!(
        "INSERT INTO printed_series (uid, part, name, seen, stride, not_finite, changed, points) \
         VALUES ($1, $2, $3, 0, 1, 0, 0, $4) \
         ON CONFLICT (uid, part, name) DO UPDATE SET seen = printed_series.seen RETURNING {COLUMNS}"
    );
    let query = sqlx::query(sqlx::AssertSqlSafe(query)).bind(uid).bind(part).bind(name);
    series_of(&query.bind(Vec::<u8>::new()).fetch_one(&mut **write).await?)
}

fn series_of(row: &AnyRow) -> Result<Series, Error> {
    Ok(Series {
        extent: value_of(row, "lowest")?.zip(value_of(row, "highest")?),
        seen: amount(row.try_get("seen")?)?,
        stride: amount(row.try_get("stride")?)?.max(1),
        not_finite: amount(row.try_get("not_finite")?)?,
        first_not_finite: optional_time(row.try_get("first_not_finite")?)?,
        points: points_of(&row.try_get::<Vec<u8>, _>("points")?)?,
    })
}

/// Returns what parts of a job printed, by part and name.
///
/// # Errors
/// If the store fails.
pub async fn of_job(store: &Store, uid: &str) -> Result<BTreeMap<(String, String), Series>, Error> {
    let query = format!("SELECT part, name, {COLUMNS} FROM printed_series WHERE uid = $1");
    let rows = store.rows(sqlx::query(sqlx::AssertSqlSafe(query)).bind(uid)).await?;
    rows.iter().map(|row| Ok(((row.try_get("part")?, row.try_get("name")?), series_of(row)?))).collect()
}

/// The values of a job's series, by part and name.
pub type OfParts = BTreeMap<(String, String), Values>;

/// Returns what a list shows of the series that jobs printed, by job. For as many jobs as a page has.
///
/// # Errors
/// If the store fails.
pub async fn of_jobs(store: &Store, uids: &[&str]) -> Result<BTreeMap<String, OfParts>, Error> {
    let mut found: BTreeMap<String, OfParts> = BTreeMap::new();
    if uids.is_empty() {
        return Ok(found);
    }
    let places: Vec<String> = (1..=uids.len()).map(|place| format!("${place}")).collect();
    let query = format!(
        "SELECT uid, part, name, newest, lowest, highest, not_finite FROM printed_series WHERE uid IN ({})",
        places.join(", ")
    );
    let mut query = sqlx::query(sqlx::AssertSqlSafe(query));
    for uid in uids {
        query = query.bind(*uid);
    }
    for row in store.rows(query).await? {
        let of_job = found.entry(row.try_get("uid")?).or_default();
        of_job.insert((row.try_get("part")?, row.try_get("name")?), values_of(&row)?);
    }
    Ok(found)
}

fn values_of(row: &AnyRow) -> Result<Values, Error> {
    Ok(Values {
        newest: value_of(row, "newest")?,
        lowest: value_of(row, "lowest")?,
        highest: value_of(row, "highest")?,
        not_finite: amount(row.try_get("not_finite")?)?,
    })
}

/// Forgets the series of jobs that the history does not have, and that did not change since a time: a job may print before
/// it is recorded. Returns their number, some hundred in one call; 0 when all is done.
///
/// # Errors
/// If the store fails.
pub async fn prune(store: &Store, unchanged_since: Timestamp) -> Result<u64, Error> {
    let query = sqlx::query(
        "DELETE FROM printed_series WHERE uid IN (SELECT uid FROM printed_series AS series WHERE changed < $1 \
         AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.uid = series.uid) LIMIT $2)",
    );
    store.execute(query.bind(micros(unchanged_since)).bind(PRUNED_AT_ONCE)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(number: i64) -> Point {
        let at = Timestamp::from_second(number).unwrap_or_default();
        Point { at, step: Some(number).filter(|number| number % 3 != 0), value: number as f64 / 7.0 }
    }

    #[test]
    fn a_long_series_is_thinned_evenly_and_ends_with_its_last_point() {
        let mut series = Series::default();
        for number in 0..100_001 {
            series.push(point(number));
            assert_eq!(series.points().last(), Some(&point(number)));
            assert!(series.points().len() <= MAX_POINTS + 1);
        }
        let seconds: Vec<i64> = series.points().iter().map(|point| point.at.as_second()).collect();
        let gaps: Vec<i64> = seconds.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(seconds[0], 0);
        assert!(gaps[..gaps.len() - 1].iter().all(|gap| *gap == gaps[0]), "evenly spaced: {gaps:?}");
        assert!(gaps.last() <= gaps.first() && gaps.len() >= MAX_POINTS / 2);
    }

    #[test]
    fn a_series_goes_on_from_its_stored_form() {
        let (mut whole, mut stored) = (Series::default(), Series::default());
        for number in 0..5000 {
            whole.push(point(number));
            stored.push(point(number));
            stored.points = points_of(&stored.to_bytes()).unwrap();
        }
        assert_eq!(stored, whole);
        assert!(points_of(&[0; 23]).is_err() && points_of(&[0; 16]).is_err());
    }

    #[test]
    fn the_extreme_values_of_a_thinned_series_are_exact() {
        let mut series = Series::default();
        assert_eq!(series.values(), Values::default());
        for number in 0..1001 {
            let value = match number {
                701 => -5.5,
                703 => 9.5,
                _ => 1.0,
            };
            series.push(Point { value, ..point(number) });
        }
        let is_usual = |point: &Point| (point.value - 1.0).abs() < f64::EPSILON;
        assert!(series.points().iter().all(is_usual), "the points with these values are left out");
        let known = Values { newest: Some(1.0), lowest: Some(-5.5), highest: Some(9.5), not_finite: 0 };
        assert_eq!(series.values(), known);
        // Of a series of which only points were kept, they stay unknown.
        series.extent = None;
        series.push(Point { value: 0.5, ..point(2000) });
        assert_eq!(series.values(), Values { newest: Some(0.5), lowest: None, highest: None, not_finite: 0 });
    }

    #[test]
    fn what_is_not_finite_is_counted_and_is_no_point() {
        let mut series = Series::default();
        for (second, value) in [(1, 0.5), (2, f64::NAN), (3, f64::INFINITY), (4, 0.25)] {
            series.push(Point { value, ..point(second) });
        }
        assert_eq!(series.points().iter().map(|point| point.value).collect::<Vec<_>>(), [0.5, 0.25]);
        assert_eq!((series.not_finite, series.first_not_finite), (2, Some(point(2).at)));
    }
}
