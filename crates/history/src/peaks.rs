//! What jobs used at most while they ran, role by role, and what they requested: kept with the job's history, so that the
//! next run of the same program can be given what it needs.
//!
//! A source is one process that samples one run of a job. It reports its own figures again and again, each time in full,
//! and readers merge the sources: the highest peak counts, and the samples of all.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use crate::error::Error;
use crate::namespaces::Tenant;
use crate::store::{Store, optional_time};

/// The maximum number of rows in one report.
pub const MAX_REPORT: usize = 1000;
/// The maximum number of rows that are read: a row is one role of one run.
const MAX_ROWS: i64 = 20_000;

/// What a job requests for each pod of a role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requested {
    /// Memory in bytes; `None` if it requests none.
    pub memory_bytes: Option<u64>,
    /// CPU in thousandths of a core; `None` if it requests none.
    pub cpu_millicores: Option<u64>,
}

/// What the pods of a role used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The number of samples, each of one pod.
    pub samples: u64,
    /// The most memory of any pod in bytes.
    pub memory_bytes: u64,
    /// The most CPU of any pod in thousandths of a core, as the mean of a minute.
    pub cpu_millicores: u64,
    /// The CPU of all samples together, in thousandths of a core.
    pub cpu_millicores_sum: u64,
}

/// What a source reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The job's uid.
    pub uid: String,
    /// The role of the pods: `worker`, `launcher`.
    pub role: String,
    /// What distinguishes this source from others of the same job.
    pub source: String,
    /// What identifies the program that the job runs.
    pub program: String,
    /// The program's image.
    pub image: String,
    /// What was used so far.
    pub measured: Measured,
    /// What the job requests.
    pub requested: Requested,
}

/// Stores what sources report, in place of their earlier reports. Reports about jobs that were not recorded yet are left
/// out. Returns the uids of the jobs that are recorded.
///
/// # Errors
/// If there are too many reports, an amount is too large, or the store fails. Nothing is then stored.
pub async fn record(store: &Store, reports: &[Report]) -> Result<Vec<String>, Error> {
    if reports.len() > MAX_REPORT {
        return Err(Error::Invalid(format!("at most {MAX_REPORT} peaks may be reported at once")));
    }
    let mut sorted: Vec<&Report> = reports.iter().collect();
    // All replicas lock rows in the same order.
    sorted.sort_by_key(|report| (&report.uid, &report.role, &report.source));
    let mut stored = Vec::new();
    let mut write = store.write().await?;
    for report in sorted {
        let Report { uid, role, source, program, image, measured, requested } = report;
        let known =
            sqlx::query("SELECT uid FROM jobs WHERE uid = $1").bind(uid).fetch_optional(&mut *write).await?;
        if known.is_none() {
            continue;
        }
        let Measured { samples, memory_bytes, cpu_millicores, cpu_millicores_sum } = *measured;
        sqlx::query(
            "INSERT INTO job_peaks (uid, role, source, program, image, samples, memory_bytes, cpu_millicores, \
             cpu_millicores_sum, requested_memory_bytes, requested_cpu_millicores) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (uid, role, source) DO UPDATE SET \
             samples = excluded.samples, memory_bytes = excluded.memory_bytes, \
             cpu_millicores = excluded.cpu_millicores, cpu_millicores_sum = excluded.cpu_millicores_sum",
        )
        .bind(uid)
        .bind(role)
        .bind(source)
        .bind(program)
        .bind(image)
        .bind(amount(samples)?)
        .bind(amount(memory_bytes)?)
        .bind(amount(cpu_millicores)?)
        .bind(amount(cpu_millicores_sum)?)
        .bind(requested.memory_bytes.map(amount).transpose()?)
        .bind(requested.cpu_millicores.map(amount).transpose()?)
        .execute(&mut *write)
        .await?;
        if stored.last() != Some(uid) {
            stored.push(uid.clone());
        }
    }
    write.commit().await?;
    Ok(stored)
}

fn amount(amount: u64) -> Result<i64, Error> {
    i64::try_from(amount).map_err(|_| Error::Invalid(format!("{amount} is too much")))
}

/// Which runs to return. `None` does not restrict.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'f> {
    /// The namespace.
    pub namespace: Option<&'f str>,
    /// The program.
    pub program: Option<&'f str>,
    /// Of which namespaces of a name.
    pub tenant: Tenant,
}

/// A run that succeeded, with what it used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The job's uid.
    pub uid: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When it started to run.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub finished: Option<Timestamp>,
    /// The program.
    pub program: String,
    /// The program's image.
    pub image: String,
    /// What the pods of each role used and were to get.
    pub roles: BTreeMap<String, (Measured, Requested)>,
}

const RUNS: &str = "SELECT uid, role, kind, namespace, name, started, finished, program, image, samples, memory_bytes, \
       cpu_millicores, cpu_millicores_sum, requested_memory_bytes, requested_cpu_millicores \
     FROM (SELECT peaks.*, jobs.kind, jobs.namespace, jobs.name, jobs.started, jobs.finished, DENSE_RANK() OVER \
         (PARTITION BY jobs.namespace, peaks.program ORDER BY COALESCE(jobs.finished, jobs.created) DESC, peaks.uid) AS place \
       FROM (SELECT uid, role, program, image, CAST(SUM(samples) AS BIGINT) AS samples, MAX(memory_bytes) AS memory_bytes, \
           MAX(cpu_millicores) AS cpu_millicores, CAST(SUM(cpu_millicores_sum) AS BIGINT) AS cpu_millicores_sum, \
           MAX(requested_memory_bytes) AS requested_memory_bytes, \
           MAX(requested_cpu_millicores) AS requested_cpu_millicores \
         FROM job_peaks WHERE ($2 IS NULL OR program = $2) GROUP BY uid, role, program, image) AS peaks \
       JOIN jobs ON jobs.uid = peaks.uid \
       WHERE jobs.phase = 'Succeeded' AND ($1 IS NULL OR jobs.namespace = $1) \
         AND ($5 = 1 OR jobs.namespace_uid = (SELECT n.uid FROM namespaces n WHERE n.name = jobs.namespace))) AS runs \
     WHERE place <= $3 ORDER BY namespace, program, place, role LIMIT $4";

/// Returns runs that succeeded, at most the newest `most` of each program in each namespace: by namespace and program, the
/// newest first.
///
/// # Errors
/// If the store fails.
pub async fn runs(store: &Store, filter: Filter<'_>, most: u32) -> Result<Vec<Run>, Error> {
    let query = sqlx::query(RUNS).bind(filter.namespace).bind(filter.program);
    let rows = store.rows(query.bind(i64::from(most)).bind(MAX_ROWS).bind(filter.tenant.is_any())).await?;
    let mut runs: Vec<Run> = Vec::new();
    for row in &rows {
        let (uid, program): (String, String) = (row.try_get("uid")?, row.try_get("program")?);
        let role: String = row.try_get("role")?;
        let used = (measured(row)?, requested(row)?);
        match runs.last_mut().filter(|run| run.uid == uid && run.program == program) {
            Some(run) => {
                run.roles.insert(role, used);
            }
            None => runs.push(Run {
                kind: row.try_get("kind")?,
                namespace: row.try_get("namespace")?,
                name: row.try_get("name")?,
                started: optional_time(row.try_get("started")?)?,
                finished: optional_time(row.try_get("finished")?)?,
                image: row.try_get("image")?,
                roles: BTreeMap::from([(role, used)]),
                uid,
                program,
            }),
        }
    }
    Ok(runs)
}

fn stored(amount: i64) -> Result<u64, Error> {
    u64::try_from(amount).map_err(|error| Error::damaged("a job's peaks", error))
}

fn measured(row: &AnyRow) -> Result<Measured, Error> {
    Ok(Measured {
        samples: stored(row.try_get("samples")?)?,
        memory_bytes: stored(row.try_get("memory_bytes")?)?,
        cpu_millicores: stored(row.try_get("cpu_millicores")?)?,
        cpu_millicores_sum: stored(row.try_get("cpu_millicores_sum")?)?,
    })
}

fn requested(row: &AnyRow) -> Result<Requested, Error> {
    let amount = |column: &str| -> Result<Option<u64>, Error> {
        row.try_get::<Option<i64>, _>(column)?.map(stored).transpose()
    };
    Ok(Requested {
        memory_bytes: amount("requested_memory_bytes")?,
        cpu_millicores: amount("requested_cpu_millicores")?,
    })
}
