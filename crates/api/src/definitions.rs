//! The definitions as an API server takes them, for programs that install or read them.

/// A CustomResourceDefinition as JSON, equal to its file in `deploy/crd`.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// Its name, such as `mpijobs.kubeflow.org`.
    pub name: &'static str,
    /// All of it.
    pub json: &'static str,
}

macro_rules! definition {
    ($name:literal, $file:literal) => {
        Definition { name: $name, json: include_str!(concat!(env!("OUT_DIR"), "/", $file, ".json")) }
    };
}

/// MPIJob.
pub const MPIJOB_DEFINITION: Definition = definition!("mpijobs.kubeflow.org", "kubeflow.org_mpijobs");

/// TrainJob and its runtimes.
pub const TRAINER_DEFINITIONS: [Definition; 3] = [
    definition!("trainjobs.trainer.kubeflow.org", "trainer.kubeflow.org_trainjobs"),
    definition!("trainingruntimes.trainer.kubeflow.org", "trainer.kubeflow.org_trainingruntimes"),
    definition!(
        "clustertrainingruntimes.trainer.kubeflow.org",
        "trainer.kubeflow.org_clustertrainingruntimes"
    ),
];
