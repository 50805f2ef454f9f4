//! Jobs as the store of the watch keeps them. The pod templates of a job, decoded, are 22 KB of mostly empty fields; as JSON they
//! are two. A pass decodes them, and what looks at many jobs at once does not need them.

use std::collections::BTreeMap;

use api::{MPIJob, MPIJobSpec, ReplicaSpec};
use kube::core::ObjectMeta;
use serde::{Deserialize, Deserializer, de};

/// An MPIJob whose roles are kept as JSON.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    /// The job without the roles (`spec.mpiReplicaSpecs`).
    pub rest: MPIJob,
    /// The roles, as JSON.
    roles: Box<str>,
}

impl Packed {
    fn of(mut job: MPIJob) -> Result<Self, serde_json::Error> {
        let roles = serde_json::to_string(&std::mem::take(&mut job.spec.mpi_replica_specs))?;
        Ok(Self { rest: job, roles: roles.into() })
    }

    /// All that is known of a job whose spec cannot be read.
    pub fn bare(metadata: ObjectMeta) -> Self {
        let rest = MPIJob { metadata, spec: MPIJobSpec::default(), status: None };
        Self { rest, roles: "{}".into() }
    }

    /// The job.
    ///
    /// # Errors
    /// None are known: the roles were encoded from values of the same type.
    pub fn whole(&self) -> Result<MPIJob, serde_json::Error> {
        let roles: BTreeMap<String, Box<ReplicaSpec>> = serde_json::from_str(&self.roles)?;
        let mut job = self.rest.clone();
        job.spec.mpi_replica_specs = roles;
        Ok(job)
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::of(MPIJob::deserialize(from)?).map_err(de::Error::custom)
    }
}

semantics::resource_as! {
    impl for Packed as MPIJob {
        self => self.rest.meta(), self.rest.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_is_the_same_after_it_was_kept() {
        let job = json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": { "name": "train", "namespace": "team", "uid": "1", "annotations": { "a": "b" } },
            "spec": { "slotsPerWorker": 2, "runPolicy": { "suspend": true }, "mpiReplicaSpecs": { "Worker": { "replicas": 3,
                "template": { "metadata": { "labels": { "x": "y" } }, "spec": { "containers": [{ "name": "w",
                    "image": "i", "resources": { "limits": { "memory": "1.5Gi", "cpu": 0.5 } } }] } } } } },
            "status": { "startTime": "2026-01-02T03:04:05Z" } });
        let job: MPIJob = serde_json::from_value(job).unwrap();
        let kept = Packed::of(job.clone()).unwrap();
        assert!(kept.rest.spec.mpi_replica_specs.is_empty() && kept.roles.contains("1.5Gi"));
        assert_eq!(serde_json::to_value(kept.whole().unwrap()).unwrap(), serde_json::to_value(job).unwrap());
    }
}
