//! The runtimes for TrainJobs that are shipped with the operator. Their images need no mapping: an image that
//! `odh local up --image` maps to nothing stands for this machine's own programs.

use kube::Client;

use super::roles::apply;
use crate::failure::Failure;

const RUNTIMES: [&str; 5] = [
    include_str!("../../../../deploy/runtimes/openmpi.yaml"),
    include_str!("../../../../deploy/runtimes/intel-mpi.yaml"),
    include_str!("../../../../deploy/runtimes/mpich.yaml"),
    include_str!("../../../../deploy/runtimes/deepspeed-distributed.yaml"),
    include_str!("../../../../deploy/runtimes/horovod.yaml"),
];

/// The namespace of Trainer, and what is in it.
const VERSION: &str = include_str!("trainer-version.yaml");
const TRAINER_NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: kubeflow-system}\n";

/// Applies the runtimes, and the version of Trainer's API, without which Kubeflow's SDK warns each time it is started.
pub async fn install(client: &Client) -> Result<(), Failure> {
    apply(client, "Trainer's namespace", &[TRAINER_NAMESPACE]).await?;
    let all: Vec<&str> = RUNTIMES.into_iter().chain([VERSION]).collect();
    apply(client, "the runtimes for TrainJobs", &all).await
}

#[cfg(test)]
mod tests {
    use api::ClusterTrainingRuntime;
    use kube::ResourceExt as _;

    use super::*;

    #[test]
    fn every_shipped_runtime_is_installed() {
        let listed = include_str!("../../../../deploy/runtimes/kustomization.yaml");
        let files: Vec<&str> = listed.lines().filter_map(|line| line.trim().strip_prefix("- ")).collect();
        let name = |text| serde_saphyr::from_str::<ClusterTrainingRuntime>(text).unwrap().name_any();
        assert_eq!(RUNTIMES.map(|text| format!("{}.yaml", name(text))).to_vec(), files);
    }
}
