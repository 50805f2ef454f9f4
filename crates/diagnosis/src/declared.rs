//! Whether the program that starts the ranks belongs to another MPI than the job declares. The options in the command,
//! the hostfile and the settings are then those of the declared MPI, and what the program reports is a consequence.
//!
//! The input is a diagnosis and the finding that it is based on; the output is the diagnosis, with the cause replaced
//! where the finding shows that the MPIs differ.

use super::Diagnosis;
use super::cause::Cause;
use super::rules;
use super::scan::Finding;

/// The names used in `spec.mpiImplementation`.
const OPEN_MPI: &str = "OpenMPI";
const INTEL: &str = "Intel";
const MPICH: &str = "MPICH";
/// The folder of Hydra's sources in Intel MPI, in the messages of its `mpiexec`.
const INTEL_HYDRA: &str = "/i_hydra/";

/// Returns the diagnosis with the cause [`Cause::MpiMismatch`] if the line of its finding was printed by an MPI that
/// does not read the options and the hostfile of the declared one.
pub(crate) fn compared(
    plain: Diagnosis,
    finding: &Finding,
    line: &str,
    declared: Option<&'static str>,
) -> Diagnosis {
    let Some(declared) = declared else { return plain };
    let of_image = if rules::of_open_mpi(finding.rule) {
        OPEN_MPI
    } else if !rules::of_hydra(finding.rule) {
        return plain;
    } else if line.contains(INTEL_HYDRA) {
        INTEL
    } else {
        MPICH
    };
    // MPICH and Intel MPI have the same options and the same hostfile.
    if (declared == OPEN_MPI) == (of_image == OPEN_MPI) {
        return plain;
    }
    let cause = Cause::MpiMismatch;
    let message = format!(
        "The image has {}, but the job declares {}: {}",
        in_words(of_image),
        in_words(declared),
        plain.message
    );
    let suggestion = format!(
        "Create the job with the MPI of its image (mpi: {of_image}; mpiImplementation in a manifest, or in a TrainJob's runtime), or use an image with {}. The options of mpirun in the job's command must be those of the same MPI.",
        in_words(declared)
    );
    Diagnosis { cause, message, suggestion, link: cause.link(), ..plain }
}

/// The name for people.
fn in_words(implementation: &'static str) -> &'static str {
    match implementation {
        OPEN_MPI => "Open MPI",
        INTEL => "Intel MPI",
        other => other,
    }
}
