//! CPU and memory usage of the node and its containers, as metrics-server reads it from a kubelet. CPU is a rate over a
//! short window.
//!
//! Keeps two samples of each running container. Samples are taken every [`PERIOD`] and dropped with the container. A
//! rate covers the time from the older sample, or from the container's start, to the query.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;

use super::sandbox::protocol::Usage;
use super::{LocalNode, lock};
use kubelet::{NodeUsage, PodUsage, Used};

/// Time between two samples; a rate covers one to two of them.
pub const PERIOD: Duration = Duration::from_secs(10);
/// Nanoseconds per tick of `/proc/stat`.
const TICK_NANOS: u64 = 10_000_000;

/// Total CPU time at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    at: Timestamp,
    cpu_nanos: u64,
}

/// The last two samples of a container or of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Samples {
    older: Sample,
    newer: Sample,
}

impl Samples {
    /// Starts sampling at the given time and total CPU time.
    pub fn new(at: Timestamp, cpu_nanos: u64) -> Samples {
        let sample = Sample { at, cpu_nanos };
        Samples { older: sample, newer: sample }
    }

    fn take(&mut self, at: Timestamp, cpu_nanos: u64) {
        self.older = std::mem::replace(&mut self.newer, Sample { at, cpu_nanos });
    }

    /// Returns the usage in billionths of a CPU, from the older sample until now.
    fn rate(&self, at: Timestamp, cpu_nanos: u64) -> u64 {
        let nanos = at.duration_since(self.older.at).as_nanos().max(1);
        let used = u128::from(cpu_nanos.saturating_sub(self.older.cpu_nanos)) * 1_000_000_000;
        u64::try_from(used / nanos.unsigned_abs()).unwrap_or(u64::MAX)
    }
}

/// Samples by the sandbox's container number; 0 is the machine.
pub type Sampled = Mutex<HashMap<u64, Samples>>;

/// Takes samples until dropped.
pub async fn sample(node: Arc<LocalNode>) {
    let mut tick = tokio::time::interval(PERIOD);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Ok(usage) = node.sandbox.measure().await else { return };
        let now = Timestamp::now();
        let mut sampled = lock(&node.sampled);
        let machine = machine_cpu_nanos();
        sampled.entry(0).or_insert_with(|| Samples::new(now, machine)).take(now, machine);
        let running = usage.containers.iter().map(|container| (container.process, container.cpu_nanos));
        let live = lock(&node.live).values().map(|live| live.target.process).collect();
        renew(&mut sampled, now, &running.collect(), &live);
    }
}

/// Takes a sample of each container that ran when it was measured. One that has started since keeps what it has.
fn renew(
    sampled: &mut HashMap<u64, Samples>,
    now: Timestamp,
    running: &HashMap<u64, u64>,
    live: &HashSet<u64>,
) {
    sampled.retain(|number, _| *number == 0 || running.contains_key(number) || live.contains(number));
    for (number, cpu_nanos) in running {
        let samples = sampled.entry(*number);
        samples
            .and_modify(|samples| samples.take(now, *cpu_nanos))
            .or_insert_with(|| Samples::new(now, *cpu_nanos));
    }
}

/// Returns the machine's non-idle CPU time, from `/proc/stat`.
fn machine_cpu_nanos() -> u64 {
    busy_ticks(&std::fs::read_to_string("/proc/stat").unwrap_or_default()) * TICK_NANOS
}

/// Adds user, nice, system, irq, softirq and steal of the first line; not idle or iowait.
fn busy_ticks(stat: &str) -> u64 {
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let numbers: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
    [0, 1, 2, 5, 6, 7].iter().filter_map(|index| numbers.get(*index)).sum()
}

/// Returns the memory that is not available, in bytes.
fn machine_memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    };
    let (total, available) = (kibibytes("MemTotal:"), kibibytes("MemAvailable:"));
    total.unwrap_or(0).saturating_sub(available.unwrap_or(0)) * 1024
}

impl LocalNode {
    /// Returns the usage of the node of this name and of its pods. If the machine poses as several nodes, a node's
    /// usage is that of its pods; the usage of a single node is that of the machine.
    pub(super) async fn usage_of(&self, node: &str) -> Option<NodeUsage> {
        let usage = self.sandbox.measure().await.ok()?;
        let time = Timestamp::now();
        let pods = self.pods_of(node, &usage, time);
        let node = if self.shape().names.len() == 1 {
            let cpu_total_nanos = machine_cpu_nanos();
            let sampled = lock(&self.sampled);
            let cpu_nanocores = sampled.get(&0).map_or(0, |samples| samples.rate(time, cpu_total_nanos));
            Used { cpu_total_nanos, cpu_nanocores, memory_bytes: machine_memory_bytes() }
        } else {
            pods.iter().flat_map(|pod| &pod.containers).fold(Used::default(), |sum, (_, used)| Used {
                cpu_total_nanos: sum.cpu_total_nanos + used.cpu_total_nanos,
                cpu_nanocores: sum.cpu_nanocores + used.cpu_nanocores,
                memory_bytes: sum.memory_bytes + used.memory_bytes,
            })
        };
        Some(NodeUsage { time, window: PERIOD, node, pods })
    }

    fn pods_of(&self, node: &str, usage: &Usage, time: Timestamp) -> Vec<PodUsage> {
        let found: HashMap<u64, _> = usage.containers.iter().map(|used| (used.process, used)).collect();
        let sampled = lock(&self.sampled);
        let mut pods: BTreeMap<String, PodUsage> = BTreeMap::new();
        for ((uid, container), live) in lock(&self.live).iter().filter(|(_, live)| live.node == node) {
            let Some(used) = found.get(&live.target.process) else { continue };
            let rate = sampled.get(&used.process).map_or(0, |samples| samples.rate(time, used.cpu_nanos));
            let used = Used {
                cpu_total_nanos: used.cpu_nanos,
                cpu_nanocores: rate,
                memory_bytes: used.memory_bytes,
            };
            let traffic = usage.pods.iter().find(|pod| pod.pod == *uid);
            let pod = pods.entry(uid.clone()).or_insert_with(|| PodUsage {
                namespace: live.namespace.clone(),
                name: live.pod.clone(),
                uid: uid.clone(),
                containers: Vec::new(),
                traffic: traffic.map(|traffic| (traffic.received_bytes, traffic.sent_bytes)),
            });
            pod.containers.push((container.clone(), used));
        }
        let mut pods: Vec<PodUsage> = pods.into_values().collect();
        pods.iter_mut().for_each(|pod| pod.containers.sort_by(|a, b| a.0.cmp(&b.0)));
        pods
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_taken_from_the_older_sample() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut samples = Samples::new(at(100), 0);
        assert_eq!(samples.rate(at(102), 1_000_000_000), 500_000_000);
        samples.take(at(110), 5_000_000_000);
        assert_eq!(samples.rate(at(110), 5_000_000_000), 500_000_000);
        samples.take(at(120), 5_000_000_000);
        assert_eq!(samples.rate(at(120), 5_000_000_000), 0);
        // A clock or counter that goes backwards gives a rate of zero.
        assert_eq!(samples.rate(at(115), 0), 0);
    }

    #[test]
    fn a_container_that_starts_while_others_are_measured_has_a_rate() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut sampled = HashMap::from([(7, Samples::new(at(99), 0)), (8, Samples::new(at(99), 0))]);
        // Container 7 started after the measurement, 8 ended before it, and 9 was noticed by it first.
        renew(&mut sampled, at(100), &HashMap::from([(9, 1_000)]), &HashSet::from([7, 9]));
        assert_eq!(sampled.get(&7).unwrap().rate(at(101), 1_000_000_000), 500_000_000);
        assert!(!sampled.contains_key(&8));
        assert_eq!(sampled.get(&9).unwrap().rate(at(101), 1_000), 0);
    }

    #[test]
    fn idle_and_iowait_do_not_count_as_busy() {
        assert_eq!(busy_ticks("cpu  1 2 3 1000 500 4 5 6 7 8\ncpu0 9 9 9"), 21);
        assert_eq!(busy_ticks(""), 0);
    }
}
