//! What jobs used at most, from the samples of their pods to the store, so that advice about requests outlives a job.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use history::peaks::{self, MAX_REPORT, Measured, Report};
use history::{Error, Store};
use jiff::Timestamp;
use jobs::sizing::Requested;
use jobs::usage;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::board::{Board, Entry};
use crate::program::Program;
use crate::store::Kept;

/// The most jobs that are observed at once.
const MOST_JOBS: usize = 10_000;
/// How many intervals are between two reports about a job that runs.
const REPORT_EVERY: u32 = 12;
/// How often a report about a job that ended is repeated while the job's own record is missing.
const MOST_TRIES: u32 = 60;

/// The CPU of a pod in a minute that is not over.
#[derive(Clone, Copy, Debug)]
struct Minute {
    number: i64,
    sum: u64,
    samples: u64,
}

/// What the pods of a role used.
#[derive(Clone, Debug, Default)]
struct RolePeaks {
    measured: Measured,
    minutes: HashMap<String, Minute>,
}

impl RolePeaks {
    fn take(&mut self, pod: &usage::Measured, number: i64) {
        let cpu = u64::from(pod.cpu_millis);
        let measured = &mut self.measured;
        measured.samples += 1;
        measured.memory_bytes = measured.memory_bytes.max(pod.memory_bytes);
        measured.cpu_millicores_sum = measured.cpu_millicores_sum.saturating_add(cpu);
        let minute = self.minutes.entry(pod.name.clone()).or_insert(Minute { number, sum: 0, samples: 0 });
        minute.sum += cpu;
        minute.samples += 1;
    }

    /// Counts the minutes that are over.
    fn close(&mut self, is_over: impl Fn(i64) -> bool) {
        let measured = &mut self.measured;
        self.minutes.retain(|_, minute| {
            if is_over(minute.number) {
                let mean = minute.sum.checked_div(minute.samples).unwrap_or(0);
                measured.cpu_millicores = measured.cpu_millicores.max(mean);
            }
            !is_over(minute.number)
        });
    }
}

/// What a job used in one run.
#[derive(Clone, Debug)]
struct JobPeaks {
    source: String,
    program: Arc<Program>,
    roles: BTreeMap<String, RolePeaks>,
    /// Whether something is not reported yet.
    is_news: bool,
    has_ended: bool,
    tries: u32,
}

impl JobPeaks {
    fn of(program: &Arc<Program>) -> Self {
        let source = Uuid::new_v4().simple().to_string();
        let (program, roles) = (program.clone(), BTreeMap::new());
        Self { source, program, roles, is_news: false, has_ended: false, tries: 0 }
    }

    fn take(&mut self, pods: &[usage::Measured], number: i64) {
        for role in self.roles.values_mut() {
            role.close(|minute| minute != number);
        }
        for pod in pods.iter().filter(|pod| self.program.requested.contains_key(&pod.role)) {
            self.roles.entry(pod.role.clone()).or_default().take(pod, number);
            self.is_news = true;
        }
    }

    fn reports<'j>(&'j self, uid: &'j str) -> impl Iterator<Item = Report> + 'j {
        let Program { id, image, requested } = &*self.program;
        self.roles.iter().map(move |(role, peaks)| {
            let Requested { memory_bytes, cpu_millis } = requested.get(role).copied().unwrap_or_default();
            Report {
                uid: uid.to_owned(),
                role: role.clone(),
                source: self.source.clone(),
                program: id.clone(),
                image: image.clone(),
                measured: peaks.measured,
                requested: peaks::Requested { memory_bytes, cpu_millicores: cpu_millis },
            }
        })
    }
}

/// Keeps peaks.
#[derive(Default)]
pub struct Peaks {
    jobs: Mutex<HashMap<String, JobPeaks>>,
}

impl Peaks {
    fn jobs(&self) -> MutexGuard<'_, HashMap<String, JobPeaks>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what pods use now, by the uid of their job. Quick: it only remembers.
    pub fn measured(
        &self,
        jobs: &[Arc<Entry>],
        by_job: &HashMap<&str, Vec<usage::Measured>>,
        now: Timestamp,
    ) {
        let mut known = self.jobs();
        for job in jobs {
            let uid = job.row.uid.as_str();
            let (Some(program), Some(pods)) = (&job.program, by_job.get(uid)) else { continue };
            if known.len() >= MOST_JOBS && !known.contains_key(uid) {
                continue;
            }
            let peaks = known.entry(uid.to_owned()).or_insert_with(|| JobPeaks::of(program));
            peaks.take(pods, now.as_second().div_euclid(60));
        }
    }

    /// Reports until `stop`.
    pub async fn run(
        self: Arc<Self>,
        board: Arc<Board>,
        kept: Kept,
        every: Duration,
        stop: CancellationToken,
    ) {
        let work = async {
            let opened = kept.wait().await;
            for round in 0_u32.. {
                let (_, running) = board.snapshot(|job| job.row.phase == "Running");
                let running: HashSet<&str> = running.iter().map(|job| job.row.uid.as_str()).collect();
                let due = self.due(|uid| running.contains(uid), round % REPORT_EVERY == 0);
                let stored = store(&opened.store, &due).await;
                kept.note(&stored);
                if let Err(error) = &stored {
                    tracing::warn!(%error, "cannot record what jobs used at most; trying again");
                }
                self.reported(&due, &stored.unwrap_or_default());
                tokio::time::sleep(every).await;
            }
        };
        stop.run_until_cancelled(work).await;
    }

    /// Returns what is to be reported: of jobs that have ended, and with `all` of those that run.
    fn due(&self, is_running: impl Fn(&str) -> bool, all: bool) -> Vec<Report> {
        let mut due = Vec::new();
        for (uid, job) in self.jobs().iter_mut() {
            if !is_running(uid) && !job.has_ended {
                job.roles.values_mut().for_each(|role| role.close(|_| true));
                job.has_ended = true;
                job.is_news = true;
            }
            if job.is_news && (all || job.has_ended) {
                due.extend(job.reports(uid));
                job.is_news = false;
            }
        }
        due
    }

    /// Notes which jobs the store has; the others are reported again. What has ended and is stored is forgotten.
    fn reported(&self, due: &[Report], stored: &HashSet<String>) {
        let reported: HashSet<&str> = due.iter().map(|report| report.uid.as_str()).collect();
        self.jobs().retain(|uid, job| {
            if reported.contains(uid.as_str()) && !stored.contains(uid) {
                job.is_news = true;
                job.tries += 1;
            }
            !job.has_ended || (job.is_news && !job.roles.is_empty() && job.tries < MOST_TRIES)
        });
    }
}

/// Stores reports. Returns the uids of the jobs whose reports are all stored.
async fn store(store: &Store, due: &[Report]) -> Result<HashSet<String>, Error> {
    let mut stored = HashSet::new();
    for chunk in due.chunks(MAX_REPORT) {
        stored.extend(peaks::record(store, chunk).await?);
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Arc<Entry> {
        let pod = json!({ "template": { "spec": { "containers": [{ "name": "w", "image": "train:1",
            "resources": { "limits": { "memory": "1Gi" } } }] } } });
        let object = json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": { "name": "a", "namespace": "team", "uid": "u" },
            "spec": { "mpiReplicaSpecs": { "Worker": pod } }, "status": { "phase": "Running" } });
        Arc::new(Entry::of(&serde_json::from_value(object).unwrap()))
    }

    fn pod(name: &str, role: &str, cpu_millis: u32, memory_bytes: u64) -> usage::Measured {
        let (namespace, job, memory_mib) = ("team".to_owned(), "a".to_owned(), 0);
        let (name, role) = (name.to_owned(), role.to_owned());
        usage::Measured { namespace, job, name, role, cpu_millis, memory_mib, memory_bytes }
    }

    fn measure(peaks: &Peaks, second: i64, pods: &[usage::Measured]) {
        let by_job = HashMap::from([("u", pods.to_vec())]);
        peaks.measured(&[entry()], &by_job, Timestamp::from_second(second).unwrap());
    }

    #[test]
    fn cpu_peaks_are_means_of_a_minute_and_memory_peaks_are_of_a_moment() {
        let peaks = Peaks::default();
        let both = |cpu: u32, memory: u64| [pod("w-0", "worker", cpu, memory), pod("w-1", "worker", 100, 5)];
        measure(&peaks, 0, &both(900, 10));
        measure(&peaks, 30, &both(100, 40));
        measure(&peaks, 60, &both(300, 20));
        measure(&peaks, 61, &[pod("side", "initializer", 9000, 9000)]);
        let running = peaks.due(|_| true, true);
        assert_eq!(running.len(), 1);
        let cpu = |report: &Report| (report.measured.cpu_millicores, report.measured.cpu_millicores_sum);
        assert_eq!((cpu(&running[0]), running[0].measured.memory_bytes), ((500, 1600), 40));
        assert!(peaks.due(|_| true, true).is_empty(), "nothing is new");
        measure(&peaks, 90, &both(900, 20));
        let ended = peaks.due(|_| false, false);
        assert_eq!((cpu(&ended[0]), ended[0].measured.samples), ((600, 2600), 8));
        assert_eq!((ended[0].requested.memory_bytes, ended[0].image.as_str()), (Some(1 << 30), "train:1"));
    }

    #[test]
    fn what_ended_is_reported_until_it_is_stored_and_another_run_is_another_source() {
        let peaks = Peaks::default();
        measure(&peaks, 0, &[pod("w-0", "worker", 1, 1)]);
        let first = peaks.due(|_| false, false);
        peaks.reported(&first, &HashSet::new());
        assert_eq!(peaks.due(|_| false, false), first);
        peaks.reported(&first, &HashSet::from(["u".to_owned()]));
        assert!(peaks.due(|_| false, false).is_empty() && peaks.jobs().is_empty());
        measure(&peaks, 0, &[pod("w-0", "worker", 1, 1)]);
        let mut due = peaks.due(|_| false, false);
        assert_ne!(due[0].source, first[0].source);
        for _ in 0..MOST_TRIES {
            assert_eq!(due.len(), 1);
            peaks.reported(&due, &HashSet::new());
            due = peaks.due(|_| false, false);
        }
        assert!(due.is_empty() && peaks.jobs().is_empty(), "a job that is never recorded is given up");
    }
}
