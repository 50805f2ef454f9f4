//! Which ranks a job has, and on which Worker each runs, as far as its spec says: the ranks fill the slots of one host after the
//! other. Pure.

use std::ops::Range;

use kube::api::DynamicObject;

use crate::{Kind, view};

/// The ranks of a job whose hosts have a fixed number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    slots: u32,
    /// The number of hosts before the first Worker: 1 if the Launcher takes ranks.
    before: u32,
    hosts: u32,
}

impl Ranks {
    /// Returns the ranks of a job that has a Launcher.
    pub fn of(job: &DynamicObject) -> Option<Self> {
        if Kind::of(job) != Kind::MpiJob {
            return None;
        }
        let (row, spec) = (view::row(job), view::spec(job));
        let before = u32::from(spec.run_launcher_as_worker == Some(true));
        let hosts = u32::try_from(row.workers.of).ok()?.checked_add(before)?;
        let slots = u32::try_from(row.slots_per_worker).ok().filter(|slots| *slots > 0)?;
        slots.checked_mul(hosts).filter(|ranks| *ranks > 0).map(|_| Self { slots, before, hosts })
    }

    /// The number of ranks that the slots suffice for.
    pub fn count(self) -> u32 {
        self.slots * self.hosts
    }

    /// The ranks of a Worker.
    pub fn of_worker(self, index: i32) -> Range<u32> {
        let Some(host) = u32::try_from(index).ok().and_then(|index| index.checked_add(self.before)) else {
            return 0..0;
        };
        let first = host.saturating_mul(self.slots);
        first..first.saturating_add(self.slots)
    }
}

/// Why ranks that were asked for have no line, as far as it is known. `any` is whether any line has a tag.
pub fn no_line_of(missing: &[u32], ranks: Option<Ranks>, any: bool) -> String {
    let listed = super::ranges(missing.iter().copied());
    match ranks.map(Ranks::count).filter(|count| missing.iter().all(|rank| rank >= count)) {
        Some(count) => {
            format!("no line is tagged with rank {listed}: the job has slots for ranks 0 to {}", count - 1)
        }
        None if any => format!("no line is tagged with rank {listed}"),
        None => format!(
            "no line is tagged with rank {listed}; start ranks with mpirun --tag-output (Open MPI) or -prepend-rank \
             (MPICH, Intel MPI)"
        ),
    }
}

/// A note about chosen ranks that the job cannot have; `None` if it may have all of them, or if that is unknown.
pub fn beyond(chosen: &[u32], ranks: Option<Ranks>) -> Option<String> {
    let count = ranks?.count();
    let beyond: Vec<u32> = chosen.iter().copied().filter(|rank| *rank >= count).collect();
    (!beyond.is_empty()).then(|| {
        let listed = super::ranges(beyond.iter().copied());
        format!("there is no rank {listed}: the job has slots for ranks 0 to {}", count - 1)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ranks(workers: u32, slots: u32, launcher: bool) -> Option<Ranks> {
        let job = json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pi"},
            "spec": {"slotsPerWorker": slots, "runLauncherAsWorker": launcher,
                "mpiReplicaSpecs": {"Worker": {"replicas": workers}}}});
        Ranks::of(&serde_json::from_value(job).unwrap())
    }

    #[test]
    fn ranks_fill_one_host_after_the_other() {
        let plain = ranks(3, 2, false).unwrap();
        assert_eq!((plain.count(), plain.of_worker(0), plain.of_worker(2)), (6, 0..2, 4..6));
        let with_launcher = ranks(3, 2, true).unwrap();
        assert_eq!((with_launcher.count(), with_launcher.of_worker(0)), (8, 2..4));
        assert_eq!(ranks(0, 2, false), None);
    }

    #[test]
    fn ranks_that_a_job_cannot_have_are_named() {
        let of = |chosen: &[u32]| beyond(chosen, ranks(2, 2, false));
        let note = "there is no rank 4-5: the job has slots for ranks 0 to 3";
        assert_eq!((of(&[3, 4, 5]).as_deref(), of(&[0, 3])), (Some(note), None));
        assert_eq!(beyond(&[9], None), None, "its slots are not known");
    }

    #[test]
    fn a_rank_without_a_line_has_a_reason() {
        let of = |missing: &[u32], any| no_line_of(missing, ranks(2, 2, false), any);
        assert_eq!(of(&[9], true), "no line is tagged with rank 9: the job has slots for ranks 0 to 3");
        assert_eq!(of(&[1], true), "no line is tagged with rank 1");
        assert!(
            of(&[0, 1], false)
                .starts_with("no line is tagged with rank 0-1; start ranks with mpirun --tag-output")
        );
    }
}
