//! Which ranks a job has, and on which Worker each runs, as far as its spec or its hostfile says: the ranks fill the slots of one
//! host after the other.

use std::ops::Range;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject};
use kube::{Client, ResourceExt};
use plan::trainjob::{hostfile_name, read_hostfile};

use crate::{Kind, view};

/// The ranks of a job whose hosts have a fixed number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    slots: u32,
    /// The number of hosts before Worker 0: 1 if the first ranks are the Launcher's.
    before: u32,
    hosts: u32,
}

impl Ranks {
    /// Reads the ranks of a job that has a Launcher: a TrainJob's from its hostfile; `None` if they cannot be known.
    pub async fn read(client: &Client, job: &DynamicObject) -> Option<Self> {
        if Kind::of(job) != Kind::TrainJob {
            return Self::of(job);
        }
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &job.namespace()?);
        let map = maps.get_opt(&hostfile_name(&job.name_any())).await.ok()??;
        // That of an earlier job of this name may still be waiting to be deleted.
        let is_own = map.owner_references().iter().any(|owner| Some(&owner.uid) == job.metadata.uid.as_ref());
        let hosts = read_hostfile(&job.name_any(), map.data?.get("hostfile").filter(|_| is_own)?)?;
        hosts.slots.checked_mul(hosts.count)?;
        Some(Self { slots: hosts.slots, before: u32::from(hosts.launcher_first), hosts: hosts.count })
    }

    /// Returns the ranks of an MPIJob.
    fn of(job: &DynamicObject) -> Option<Self> {
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

    /// The ranks of a Worker. That with the last number is the Launcher of a TrainJob, if the first ranks are its.
    pub fn of_worker(self, index: i32) -> Range<u32> {
        let Some(index) = u32::try_from(index).ok().filter(|index| *index < self.hosts) else { return 0..0 };
        let first = (index + self.before) % self.hosts * self.slots;
        first..first + self.slots
    }
}

/// Whether lines of a Launcher's output have tags of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagsSeen {
    /// Some have.
    Some,
    /// None has, though the command asks for tags.
    AskedFor,
    /// None has, and nothing is known to ask for tags.
    None,
}

/// Why ranks that were asked for have no line, as far as it is known.
pub fn no_line_of(missing: &[u32], ranks: Option<Ranks>, tags: TagsSeen) -> String {
    let none = format!("no line is tagged with rank {}", super::ranges(missing.iter().copied()));
    match ranks.map(Ranks::count).filter(|count| missing.iter().all(|rank| rank >= count)) {
        Some(count) => format!("{none}: the job has slots for ranks 0 to {}", count - 1),
        None => match tags {
            TagsSeen::Some => none,
            TagsSeen::AskedFor => format!("{none}, nor with any other: no rank has printed a line"),
            TagsSeen::None => format!(
                "{none}; start ranks with mpirun --tag-output (Open MPI) or -prepend-rank (MPICH, Intel MPI)"
            ),
        },
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
        let of_trainjob = Ranks { slots: 2, before: 1, hosts: 3 };
        let of_workers: Vec<_> = (0..4).map(|index| of_trainjob.of_worker(index)).collect();
        assert_eq!(of_workers, [2..4, 4..6, 0..2, 0..0], "the Launcher is the last Worker");
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
        let of = |missing: &[u32], tags| no_line_of(missing, ranks(2, 2, false), tags);
        let beyond = "no line is tagged with rank 9: the job has slots for ranks 0 to 3";
        assert_eq!(of(&[9], TagsSeen::Some), beyond);
        assert_eq!(of(&[1], TagsSeen::Some), "no line is tagged with rank 1");
        let silent = "no line is tagged with rank 0, nor with any other: no rank has printed a line";
        assert_eq!(of(&[0], TagsSeen::AskedFor), silent);
        let untagged = of(&[0, 1], TagsSeen::None);
        assert!(
            untagged.starts_with("no line is tagged with rank 0-1; start ranks with mpirun --tag-output"),
            "{untagged}"
        );
    }
}
