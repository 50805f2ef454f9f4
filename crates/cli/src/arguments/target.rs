//! One job on the command line: its kind and its name.

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;

use crate::job_names;

/// A kind of training job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// An MPI job: one Launcher, any number of Workers
    #[value(aliases = ["mpijobs", "mpijob.kubeflow.org", "mpijobs.kubeflow.org", "mj"])]
    Mpijob,
    /// A job of Kubeflow Trainer
    #[value(aliases = ["trainjobs", "trainjob.trainer.kubeflow.org", "trainjobs.trainer.kubeflow.org"])]
    Trainjob,
    /// A PyTorch job of the Training Operator
    #[value(aliases = ["pytorchjobs", "pytorchjob.kubeflow.org", "pytorchjobs.kubeflow.org", "ptj"])]
    Pytorchjob,
    /// A TensorFlow job of the Training Operator
    #[value(aliases = ["tfjobs", "tfjob.kubeflow.org", "tfjobs.kubeflow.org"])]
    Tfjob,
}

impl From<Kind> for jobs::Kind {
    fn from(kind: Kind) -> jobs::Kind {
        match kind {
            Kind::Mpijob => jobs::Kind::MpiJob,
            Kind::Trainjob => jobs::Kind::TrainJob,
            Kind::Pytorchjob => jobs::Kind::PyTorchJob,
            Kind::Tfjob => jobs::Kind::TfJob,
        }
    }
}

/// One job by kind and name.
#[derive(Debug, Args)]
pub struct Target {
    /// Job kind: mpijob, trainjob, pytorchjob, tfjob
    #[arg(value_enum, hide_possible_values = true)]
    pub kind: Kind,
    /// Job name
    #[arg(add = ArgValueCompleter::new(job_names::candidates))]
    pub name: String,
}
