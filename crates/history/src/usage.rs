//! What jobs used over a period, exact to the second: GPU-hours, CPU-hours and memory, by namespace, kind, user
//! and job.
//!
//! A source is one running pod. Replicas may report the same source with different starts; at each second it counts
//! once, with the largest amount reported for that second. Times are whole seconds: a start or an end within a second
//! is that second.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use crate::error::Error;
use crate::namespaces::Tenant;
use crate::store::{Store, micros};

/// The maximum number of running sources in one report.
pub const MAX_REPORT: usize = 1000;
/// The number of intervals that are read at once.
const PAGE: i64 = 1000;

/// What a source holds while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// CPU in thousandths of a core.
    pub cpu_millicores: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// GPUs by the name of their resource: `nvidia.com/gpu`.
    pub gpus: BTreeMap<String, u64>,
    /// The model of the GPUs that the pod asks for, as its node selector names it; empty if it names none.
    pub gpu_model: String,
}

/// A source that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The job's uid.
    pub uid: String,
    /// What identifies the source within the job: the pod's uid.
    pub source: String,
    /// When it started.
    pub started: Timestamp,
    /// The job's kind.
    pub kind: String,
    /// The job's namespace.
    pub namespace: String,
    /// The job's name.
    pub job: String,
    /// The job's owner.
    pub user: String,
    /// What it holds.
    pub resources: Resources,
}

/// Records that sources run at a moment. Repeating it is harmless.
///
/// # Errors
/// If there are too many, an amount is too large, or the store fails. Nothing is then recorded.
pub async fn record(store: &Store, running: &[Running], seen: Timestamp) -> Result<(), Error> {
    if running.len() > MAX_REPORT {
        return Err(Error::Invalid(format!("at most {MAX_REPORT} running pods may be reported at once")));
    }
    let mut sorted: Vec<&Running> = running.iter().collect();
    // All replicas lock rows in the same order.
    sorted.sort_by_key(|one| (&one.uid, &one.source, one.started));
    let amount =
        |amount: u64| i64::try_from(amount).map_err(|_| Error::Invalid(format!("{amount} is too much")));
    let mut write = store.write().await?;
    for Running { uid, source, started, kind, namespace, job, user, resources } in sorted {
        let Resources { cpu_millicores, memory_bytes, gpus, gpu_model } = resources;
        for gpus in gpus.values() {
            amount(*gpus)?;
        }
        sqlx::query(
            "INSERT INTO usage_intervals (uid, source, started, seen, namespace, job, username, cpu_millicores, \
             memory_bytes, gpus, gpu_model, kind, namespace_uid) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $13, \
             COALESCE((SELECT j.namespace_uid FROM jobs j WHERE j.uid = $1), \
                (SELECT n.uid FROM namespaces n WHERE n.name = $5 AND n.created <= $12))) \
             ON CONFLICT (uid, source, started) DO UPDATE SET kind = excluded.kind, \
             namespace_uid = COALESCE(usage_intervals.namespace_uid, excluded.namespace_uid), \
             seen = CASE WHEN excluded.seen > usage_intervals.seen THEN excluded.seen ELSE usage_intervals.seen END",
        )
        .bind(uid)
        .bind(source)
        .bind(started.as_second())
        .bind(seen.as_second())
        .bind(namespace)
        .bind(job)
        .bind(user)
        .bind(amount(*cpu_millicores)?)
        .bind(amount(*memory_bytes)?)
        .bind(serde_json::to_string(gpus).map_err(|error| Error::Invalid(error.to_string()))?)
        .bind(gpu_model)
        .bind(micros(*started))
        .bind(kind)
        .execute(&mut *write)
        .await?;
    }
    write.commit().await
}

/// The end of a source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// The job's uid.
    pub uid: String,
    /// The source within the job.
    pub source: String,
    /// When it ended.
    pub at: Timestamp,
}

/// Records that sources have ended. If several ends of one are reported, the earliest counts.
///
/// # Errors
/// If the store fails. Nothing is then recorded.
pub async fn ended(store: &Store, ends: &[End]) -> Result<(), Error> {
    let mut sorted: Vec<&End> = ends.iter().collect();
    // All replicas lock rows in the same order.
    sorted.sort();
    let mut write = store.write().await?;
    for End { uid, source, at } in sorted {
        sqlx::query(
            "UPDATE usage_intervals SET ended = $3 WHERE uid = $1 AND source = $2 AND started <= $3 \
             AND (ended IS NULL OR ended > $3)",
        )
        .bind(uid)
        .bind(source)
        .bind(at.as_second())
        .execute(&mut *write)
        .await?;
    }
    write.commit().await
}

/// Ends the intervals that no replica has seen running since a time, at the moment when they were last seen: their end
/// was missed. Returns their number.
///
/// # Errors
/// If the store fails.
pub async fn end_unseen(store: &Store, since: Timestamp) -> Result<u64, Error> {
    let query = sqlx::query("UPDATE usage_intervals SET ended = seen WHERE ended IS NULL AND seen < $1");
    store.execute(query.bind(since.as_second())).await
}

/// Forgets intervals that ended before a time. Returns their number.
///
/// # Errors
/// If the store fails.
pub async fn prune(store: &Store, before: Timestamp) -> Result<u64, Error> {
    store.execute(sqlx::query("DELETE FROM usage_intervals WHERE ended < $1").bind(before.as_second())).await
}

/// A period: from its first second up to, not including, its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Its first second.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
}

/// What usage is summed by. Without any, there is one sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// By namespace.
    pub namespace: bool,
    /// By kind of job.
    pub kind: bool,
    /// By user.
    pub user: bool,
    /// By job.
    pub job: bool,
}

/// What a sum is about; `None` where it is not grouped.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The namespace.
    pub namespace: Option<String>,
    /// The kind of the jobs.
    pub kind: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// The job's name and uid.
    pub job: Option<(String, String)>,
}

/// A sum of usage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Thousandths of a CPU core times seconds.
    pub cpu_millicore_seconds: u128,
    /// Bytes times seconds.
    pub memory_byte_seconds: u128,
    /// GPUs times seconds, by the name of their resource.
    pub gpu_seconds: BTreeMap<String, u128>,
    /// The same by resource and model; the model is empty where pods name none.
    pub gpu_model_seconds: BTreeMap<(String, String), u128>,
}

impl Used {
    /// Returns the amounts by resource.
    #[must_use]
    pub fn amounts(&self) -> Vec<Amount<'_>> {
        let millicores = self.cpu_millicore_seconds;
        let cpu = format!("{}.{:03}", millicores / 1000, millicores % 1000);
        let memory = self.memory_byte_seconds;
        let amount = |resource, amount_seconds, hours| Amount { resource, amount_seconds, hours };
        let mut amounts = vec![
            amount("cpu", cpu, hours(millicores, 1000)),
            amount("memory", memory.to_string(), hours(memory, 1 << 30)),
        ];
        let gpus = self.gpu_seconds.iter();
        amounts.extend(gpus.map(|(name, gpus)| amount(name, gpus.to_string(), hours(*gpus, 1))));
        amounts
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: Self) {
        self.cpu_millicore_seconds += other.cpu_millicore_seconds;
        self.memory_byte_seconds += other.memory_byte_seconds;
        for (name, gpus) in other.gpu_seconds {
            *self.gpu_seconds.entry(name).or_default() += gpus;
        }
        for (model, gpus) in other.gpu_model_seconds {
            *self.gpu_model_seconds.entry(model).or_default() += gpus;
        }
    }

    fn add(&mut self, resources: &Resources, seconds: u64) {
        let seconds = u128::from(seconds);
        self.cpu_millicore_seconds += u128::from(resources.cpu_millicores) * seconds;
        self.memory_byte_seconds += u128::from(resources.memory_bytes) * seconds;
        for (name, gpus) in resources.gpus.iter().filter(|(_, gpus)| **gpus > 0) {
            let amount = u128::from(*gpus) * seconds;
            *self.gpu_seconds.entry(name.clone()).or_default() += amount;
            let model = (name.clone(), resources.gpu_model.clone());
            *self.gpu_model_seconds.entry(model).or_default() += amount;
        }
    }
}

/// How much of a resource was used, as decimal texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount<'u> {
    /// `cpu`, `memory`, or the resource of a GPU.
    pub resource: &'u str,
    /// Cores, bytes or GPUs times seconds, exact.
    pub amount_seconds: String,
    /// Cores, GiB or GPUs times hours, rounded half up to four digits.
    pub hours: String,
}

/// Returns what was used in a period. Sources that still run count up to now.
///
/// # Errors
/// If the store fails.
pub async fn usage(
    store: &Store,
    period: Period,
    group: Group,
    (namespace, tenant): (Option<&str>, Tenant),
    now: Timestamp,
) -> Result<BTreeMap<Key, Used>, Error> {
    let (from, until) = (period.from.as_second(), period.until.min(now).as_second());
    let mut sums: BTreeMap<Key, Used> = BTreeMap::new();
    let mut source: Option<Source> = None;
    let mut after = (String::new(), String::new(), i64::MIN);
    loop {
        let query = sqlx::query(
            "SELECT uid, source, started, ended, kind, namespace, job, username, cpu_millicores, \
             memory_bytes, gpus, gpu_model FROM usage_intervals \
             WHERE started < $1 AND (ended IS NULL OR ended > $2) \
             AND ($3 IS NULL OR namespace = $3) AND (uid, source, started) > ($4, $5, $6) \
             AND ($8 = 1 OR COALESCE(namespace_uid, \
                (SELECT j.namespace_uid FROM jobs j WHERE j.uid = usage_intervals.uid)) = \
                (SELECT n.uid FROM namespaces n WHERE n.name = usage_intervals.namespace)) \
             ORDER BY uid, source, started LIMIT $7",
        );
        let query = query.bind(until).bind(from).bind(namespace);
        let query = query.bind(after.0).bind(after.1).bind(after.2).bind(PAGE).bind(tenant.is_any());
        let rows = store.rows(query).await?;
        for row in &rows {
            let next = Source::of(row, group, (from, until))?;
            match source.as_mut().filter(|source| source.id == next.id) {
                Some(source) => source.intervals.extend(next.intervals),
                None => {
                    source.replace(next).into_iter().for_each(|source| source.add_to(&mut sums));
                }
            }
        }
        let Some(last) = rows.last() else { break };
        after = (last.try_get(0)?, last.try_get(1)?, last.try_get(2)?);
    }
    source.into_iter().for_each(|source| source.add_to(&mut sums));
    Ok(sums)
}

/// The intervals of one source.
struct Source {
    id: (String, String),
    key: Key,
    intervals: Vec<Interval>,
}

/// When a source held what: from a second up to, not including, another.
#[derive(Clone, Debug)]
struct Interval {
    from: i64,
    until: i64,
    resources: Resources,
}

impl Source {
    fn of(row: &AnyRow, group: Group, (from, until): (i64, i64)) -> Result<Self, Error> {
        let uid: String = row.try_get("uid")?;
        let amount = |column: &str| -> Result<u64, Error> {
            u64::try_from(row.try_get::<i64, _>(column)?).map_err(|error| Error::damaged("usage", error))
        };
        let gpus: String = row.try_get("gpus")?;
        let resources = Resources {
            cpu_millicores: amount("cpu_millicores")?,
            memory_bytes: amount("memory_bytes")?,
            gpus: serde_json::from_str(&gpus).map_err(|error| Error::damaged("usage", error))?,
            gpu_model: row.try_get("gpu_model")?,
        };
        let ended: Option<i64> = row.try_get("ended")?;
        let interval = Interval {
            from: row.try_get::<i64, _>("started")?.max(from),
            until: ended.unwrap_or(until).min(until),
            resources,
        };
        let job: String = row.try_get("job")?;
        let key = Key {
            namespace: group.namespace.then(|| row.try_get("namespace")).transpose()?,
            kind: group.kind.then(|| row.try_get("kind")).transpose()?,
            user: group.user.then(|| row.try_get("username")).transpose()?,
            job: group.job.then(|| (job, uid.clone())),
        };
        Ok(Self { id: (uid, row.try_get("source")?), key, intervals: vec![interval] })
    }

    fn add_to(self, sums: &mut BTreeMap<Key, Used>) {
        let sum = sums.entry(self.key).or_default();
        for (resources, seconds) in merge(&self.intervals) {
            sum.add(&resources, seconds);
        }
    }
}

/// Returns what a source held for how many seconds. Where intervals overlap, the largest amount of each counts.
fn merge(intervals: &[Interval]) -> Vec<(Resources, u64)> {
    let edges: BTreeSet<i64> =
        intervals.iter().flat_map(|interval| [interval.from, interval.until]).collect();
    let starts = edges.iter().copied();
    starts
        .zip(edges.iter().copied().skip(1))
        .filter_map(|(from, until)| {
            let mut largest: Option<Resources> = None;
            for Interval { resources, .. } in
                intervals.iter().filter(|interval| interval.from <= from && until <= interval.until)
            {
                let largest = largest.get_or_insert_default();
                largest.cpu_millicores = largest.cpu_millicores.max(resources.cpu_millicores);
                largest.memory_bytes = largest.memory_bytes.max(resources.memory_bytes);
                for (name, gpus) in &resources.gpus {
                    let most = largest.gpus.entry(name.clone()).or_default();
                    *most = (*most).max(*gpus);
                }
                // A pod's node selector does not change.
                resources.gpu_model.clone_into(&mut largest.gpu_model);
            }
            Some((largest?, until.abs_diff(from)))
        })
        .collect()
}

/// Writes sums as CSV (RFC 4180), one row for each resource of each sum. Kinds of jobs are not in it.
///
/// `amount_seconds` is exact: cores, bytes or GPUs times seconds. `hours` is rounded to four digits: cores, GiB or GPUs
/// times hours. With a currency, `cost` and `currency` follow: what `cost` returns for a resource of a sum, empty if it has no
/// price.
///
/// # Errors
/// If the writer fails.
pub fn write_csv(
    out: impl io::Write,
    period: Period,
    sums: &BTreeMap<Key, Used>,
    currency: Option<&str>,
    cost: impl Fn(&Used, &str) -> Option<String>,
) -> Result<(), io::Error> {
    let mut csv = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out);
    let head = ["from", "until", "namespace", "user", "job", "uid", "resource", "amount_seconds", "hours"];
    let priced = currency.map(|_| ["cost", "currency"]);
    csv.write_record(head.iter().chain(priced.iter().flatten()))?;
    let (from, until) = (period.from.to_string(), period.until.to_string());
    for (key, used) in sums {
        let Key { namespace, kind: _, user, job } = key;
        let (job, uid) = job.as_ref().map_or(("", ""), |(job, uid)| (job.as_str(), uid.as_str()));
        for Amount { resource, amount_seconds: amount, hours } in used.amounts() {
            let texts =
                [namespace.as_deref().unwrap_or(""), user.as_deref().unwrap_or(""), job, uid, resource];
            let priced = currency.map(|currency| [cost(used, resource).unwrap_or_default(), cell(currency)]);
            let [namespace, user, job, uid, resource] = texts.map(cell);
            let row = [&from, &until, &namespace, &user, &job, &uid, &resource, &amount, &hours];
            csv.write_record(row.into_iter().chain(priced.iter().flatten()))?;
        }
    }
    csv.flush()
}

/// Returns a text that no spreadsheet takes for a formula (OWASP, "CSV injection").
fn cell(text: &str) -> String {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '|', '%']) {
        true => format!("'{text}"),
        false => text.to_owned(),
    }
}

/// Returns a quotient of an amount times seconds as hours, rounded half up to four digits.
fn hours(amount_seconds: u128, unit: u128) -> String {
    let divisor = unit * 3600;
    let (whole, rest) = (amount_seconds / divisor, amount_seconds % divisor);
    let digits = (rest * 10_000 + divisor / 2) / divisor;
    format!("{}.{:04}", whole + digits / 10_000, digits % 10_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn interval() -> impl Strategy<Value = Interval> {
        let gpus = proptest::collection::btree_map("(a|b)", 0_u64..4, 0..3);
        (0_i64..60, 0_i64..30, 0_u64..5, 0_u64..5, gpus).prop_map(|(from, length, cpu, memory, gpus)| {
            Interval {
                from,
                until: from + length,
                resources: Resources {
                    cpu_millicores: cpu,
                    memory_bytes: memory,
                    gpus,
                    gpu_model: String::new(),
                },
            }
        })
    }

    /// Counts second by second.
    fn naive(intervals: &[Interval], from: i64, until: i64) -> Used {
        let mut used = Used::default();
        for second in from..until {
            let running: Vec<_> = intervals.iter().filter(|i| i.from <= second && second < i.until).collect();
            let most = |amount: fn(&Resources) -> u64| {
                u128::from(running.iter().map(|i| amount(&i.resources)).max().unwrap_or(0))
            };
            used.cpu_millicore_seconds += most(|resources| resources.cpu_millicores);
            used.memory_byte_seconds += most(|resources| resources.memory_bytes);
            for name in ["a", "b"] {
                let gpus =
                    running.iter().filter_map(|i| i.resources.gpus.get(name)).max().copied().unwrap_or(0);
                if gpus > 0 {
                    *used.gpu_seconds.entry(name.to_owned()).or_default() += u128::from(gpus);
                    let model = (name.to_owned(), String::new());
                    *used.gpu_model_seconds.entry(model).or_default() += u128::from(gpus);
                }
            }
        }
        used
    }

    proptest! {
        #[test]
        fn the_sum_is_that_of_a_count_second_by_second(
            intervals in proptest::collection::vec(interval(), 0..6), from in 0_i64..90, length in 0_i64..90,
        ) {
            let until = from + length;
            let clipped: Vec<Interval> = intervals
                .iter()
                .map(|i| Interval { from: i.from.max(from), until: i.until.min(until), ..i.clone() })
                .filter(|i| i.from < i.until)
                .collect();
            let mut used = Used::default();
            for (resources, seconds) in merge(&clipped) {
                used.add(&resources, seconds);
            }
            prop_assert_eq!(used, naive(&intervals, from, until));
        }
    }

    #[test]
    fn hours_are_rounded_to_four_digits() {
        assert_eq!(hours(3600, 1), "1.0000");
        assert_eq!(hours(1, 1), "0.0003");
        assert_eq!(hours(7199 * 1000 + 999, 1000), "2.0000");
    }

    #[test]
    fn no_cell_is_a_formula_and_quotes_survive() {
        let key = Key {
            namespace: Some("=HYPERLINK(\"x\")".to_owned()),
            kind: None,
            user: Some("a,\"b\"\n".to_owned()),
            job: Some(("-1+1".to_owned(), "@u".to_owned())),
        };
        let used = Used { cpu_millicore_seconds: 1500, ..Used::default() };
        let period = Period { from: Timestamp::UNIX_EPOCH, until: Timestamp::UNIX_EPOCH };
        let mut out = Vec::new();
        let sums = BTreeMap::from([(key, used)]);
        write_csv(&mut out, period, &sums, None, |_, _| None).unwrap();
        let rows: Vec<csv::StringRecord> =
            csv::Reader::from_reader(out.as_slice()).records().map(Result::unwrap).collect();
        assert_eq!(rows[0].get(2), Some("'=HYPERLINK(\"x\")"));
        assert_eq!(rows[0].get(3), Some("a,\"b\"\n"));
        assert_eq!((rows[0].get(4), rows[0].get(5)), (Some("'-1+1"), Some("'@u")));
        assert_eq!((rows[0].get(6), rows[0].get(7), rows[0].len()), (Some("cpu"), Some("1.500"), 9));
        let mut priced = Vec::new();
        let cost = |_: &Used, resource: &str| (resource == "cpu").then(|| "0.0100".to_owned());
        write_csv(&mut priced, period, &sums, Some("EUR"), cost).unwrap();
        let rows: Vec<csv::StringRecord> =
            csv::Reader::from_reader(priced.as_slice()).records().map(Result::unwrap).collect();
        assert_eq!((rows[0].get(9), rows[0].get(10)), (Some("0.0100"), Some("EUR")));
        assert_eq!((rows[1].get(9), rows[1].get(10)), (Some(""), Some("EUR")));
    }
}
