//! Jobs on the command line: a kind, which may be left out, and names; or a selection of jobs.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use jiff::Timestamp;
use jobs::reference::Reference;

use super::read_moment;
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

/// The kind that a word names, in any case.
fn kind_of(word: &str) -> Option<jobs::Kind> {
    Kind::from_str(word, true).ok().map(jobs::Kind::from)
}

/// Reads `[KIND] NAME…`, where each name may also be `KIND/NAME`: the kind of all of them, and the jobs.
pub fn read_words(words: &[String]) -> (Option<jobs::Kind>, Vec<Reference>) {
    let kind = words.first().and_then(|word| kind_of(word));
    let names = if kind.is_some() { &words[1..] } else { words };
    let reference = |word: &String| match word.split_once('/').map(|(before, name)| (kind_of(before), name)) {
        Some((Some(own), name)) => Reference { kind: Some(own), name: name.to_owned() },
        _ => Reference { kind, name: word.clone() },
    };
    (kind, names.iter().map(reference).collect())
}

/// One job.
#[derive(Debug, Args)]
pub struct Target {
    /// Job: NAME, KIND NAME or KIND/NAME, with the kinds mpijob, trainjob, pytorchjob and tfjob; @latest is
    /// the newest job
    #[arg(value_name = "JOB", required = true, num_args = 1..=2, value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(job_names::candidates))]
    pub words: Vec<String>,
}

/// Several jobs, by name or by what they have in common.
#[derive(Debug, Args)]
pub struct Several {
    /// Jobs: NAME, KIND NAME or KIND/NAME, with the kinds mpijob, trainjob, pytorchjob and tfjob; @latest is
    /// the newest job
    #[arg(value_name = "JOB", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(job_names::candidates))]
    pub words: Vec<String>,
    /// Jobs with these labels, instead of names: team=vision,stage!=test
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// All jobs of the namespace, instead of names
    #[arg(long)]
    pub all: bool,
    /// Jobs in these states, instead of names: Pending, Running, Succeeded, Failed, or a reason like Suspended
    #[arg(long, value_name = "STATES", value_delimiter = ',')]
    pub status: Vec<String>,
    /// Jobs created before, instead of names: 90m, 7d, 2026-01-31
    #[arg(long, value_name = "AGE", value_parser = read_moment)]
    pub older_than: Option<Timestamp>,
}

impl Several {
    /// Whether jobs are selected by what they have in common.
    pub fn is_selection(&self) -> bool {
        self.selector.is_some() || self.all || !self.status.is_empty() || self.older_than.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_optional_and_may_be_written_in_any_way() {
        let read = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let (_, found) = read_words(&words);
            found
                .iter()
                .map(|it| format!("{}/{}", it.kind.map_or("?", jobs::Kind::word), it.name))
                .collect::<Vec<_>>()
        };
        assert_eq!(read("pi"), ["?/pi"]);
        assert_eq!(read("mpijob pi tau"), ["mpijob/pi", "mpijob/tau"]);
        assert_eq!(read("MPIJob pi"), ["mpijob/pi"]);
        assert_eq!(read("mpijobs.kubeflow.org/pi TrainJob/x y"), ["mpijob/pi", "trainjob/x", "?/y"]);
        assert_eq!(read("mpijob @latest"), ["mpijob/@latest"]);
        assert_eq!(read("mpijob"), [""; 0], "a kind alone names no job");
        assert_eq!(read("team/pi"), ["?/team/pi"], "the API refuses such a name");
    }
}
