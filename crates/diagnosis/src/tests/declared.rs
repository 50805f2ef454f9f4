//! Jobs that declare another MPI than their image has. The texts are those of real programs.

use super::super::{Cause, Diagnosis, Ending, Facts, Output, diagnose};

/// `-prepend-rank`, given to Open MPI 4.1.4.
const OPEN_MPI_4: &str = "mpirun: Error: unknown option \"-prepend-rank\"\nType 'mpirun --help' for usage.\n";
/// `-prepend-rank`, given to Open MPI 5.0.11.
const OPEN_MPI_5: &str = "--------------------------------------------------------------------------\nAn unrecognized option was included on the mpirun command line:\n\n  Option: --prepend-rank\n\nPlease use the \"mpirun --help\" command to obtain a list of all\nsupported options.\n--------------------------------------------------------------------------\n";
/// `--tag-output`, given to MPICH 5.0.2.
const MPICH: &str = "[mpiexec@pi-launcher] match_arg (/mpich-5.0.2/src/pm/hydra/lib/utils/args.c:166): unrecognized argument tag-output\n[mpiexec@pi-launcher] HYDU_parse_array (/mpich-5.0.2/src/pm/hydra/lib/utils/args.c:181): argument matching returned error\n[mpiexec@pi-launcher] parse_args (/mpich-5.0.2/src/pm/hydra/mpiexec/get_parameters.c:318): error parsing input array\n[mpiexec@pi-launcher] HYD_uii_mpx_get_parameters (/mpich-5.0.2/src/pm/hydra/mpiexec/get_parameters.c:48): unable to parse user arguments\n[mpiexec@pi-launcher] main (/mpich-5.0.2/src/pm/hydra/mpiexec/mpiexec.c:49): error parsing parameters\n";
/// `-x A`, given to MPICH 5.0.2.
const MPICH_VARIABLE: &str = "[mpiexec@pi-launcher] match_arg (/mpich-5.0.2/src/pm/hydra/lib/utils/args.c:166): unrecognized argument x\n[mpiexec@pi-launcher] HYDU_parse_array (/mpich-5.0.2/src/pm/hydra/lib/utils/args.c:181): argument matching returned error\n";
/// `--tag-output`, given to Intel MPI 2021.19.
const INTEL: &str = "[mpiexec@pi-launcher] match_arg (../../../../../src/pm/i_hydra/libhydra/arg/hydra_arg.c:82): unrecognized argument tag-output\n[mpiexec@pi-launcher] HYD_arg_parse_array (../../../../../src/pm/i_hydra/libhydra/arg/hydra_arg.c:106): argument matching returned error\n[mpiexec@pi-launcher] mpiexec_get_parameters (../../../../../src/pm/i_hydra/mpiexec/mpiexec_params.c:1219): error parsing input array\n[mpiexec@pi-launcher] main (../../../../../src/pm/i_hydra/mpiexec/mpiexec.c:1747): error parsing parameters\n";

fn found(text: &str, code: i32, mpi: Option<&'static str>) -> Diagnosis {
    let facts = Facts { mpi, ..Facts::default() };
    diagnose(&Output::from(text), Ending::Exited(code), &facts).unwrap()
}

#[test]
fn an_option_that_another_mpi_than_the_declared_one_refuses_names_both() {
    let no_slots = "There are not enough slots available in the system to satisfy the 8\nslots that were requested by the application:\n";
    let as_root = "mpirun has detected an attempt to run as root.\n";
    let cases = [
        ("MPICH", OPEN_MPI_4, 1, "Open MPI", "MPICH", "OpenMPI"),
        ("Intel", OPEN_MPI_4, 1, "Open MPI", "Intel MPI", "OpenMPI"),
        ("MPICH", OPEN_MPI_5, 213, "Open MPI", "MPICH", "OpenMPI"),
        ("Intel", OPEN_MPI_5, 213, "Open MPI", "Intel MPI", "OpenMPI"),
        ("OpenMPI", MPICH, 255, "MPICH", "Open MPI", "MPICH"),
        ("OpenMPI", MPICH_VARIABLE, 255, "MPICH", "Open MPI", "MPICH"),
        ("OpenMPI", INTEL, 255, "Intel MPI", "Open MPI", "Intel"),
        // Without an option that tells them apart, Open MPI does not see the hostfile and the settings of the other.
        ("MPICH", no_slots, 1, "Open MPI", "MPICH", "OpenMPI"),
        ("Intel", as_root, 1, "Open MPI", "Intel MPI", "OpenMPI"),
    ];
    for (declared, text, code, of_image, of_job, value) in cases {
        let answer = found(text, code, Some(declared));
        assert_eq!(answer.cause, Cause::MpiMismatch, "{answer:#?}");
        let begins = format!("The image has {of_image}, but the job declares {of_job}: ");
        assert!(answer.message.starts_with(&begins), "{answer:#?}");
        assert!(answer.suggestion.contains(&format!("(mpi: {value};")), "{answer:#?}");
        let first = text.lines().find(|line| !line.starts_with("---")).unwrap();
        assert_eq!(answer.evidence[0].text, first, "{answer:#?}");
        assert!(answer.link.ends_with("#mpimismatch"), "{answer:#?}");
    }
}

#[test]
fn an_option_that_the_declared_mpi_refuses_is_wrong_itself() {
    let cases = [
        (Some("OpenMPI"), OPEN_MPI_4, 1),
        (Some("OpenMPI"), OPEN_MPI_5, 213),
        (Some("MPICH"), MPICH, 255),
        (Some("Intel"), INTEL, 255),
        // Both have the same options.
        (Some("Intel"), MPICH, 255),
        (Some("MPICH"), INTEL, 255),
        (None, OPEN_MPI_4, 1),
        (None, MPICH, 255),
    ];
    for (declared, text, code) in cases {
        let answer = found(text, code, declared);
        assert_eq!(answer.cause, Cause::BadOption, "{declared:?} {answer:#?}");
    }
    let quoted: String = OPEN_MPI_4.lines().map(|line| format!("[1,0]<stderr>:{line}\n")).collect();
    let facts = Facts { mpi: Some("MPICH"), ..Facts::default() };
    let answer = diagnose(&Output::from(quoted.as_str()), Ending::Exited(1), &facts);
    assert!(answer.is_none_or(|answer| answer.cause != Cause::MpiMismatch), "a rank printed it");
}
