//! The possible exit codes of each command; [`super::EXIT_CODES`] has the numbers' meanings.
//!
//! Any interrupted command ends with 130. Here, 130 is listed only for commands that run until something happens,
//! which users are expected to interrupt.

/// Codes of every command that contacts a cluster: success, error, invalid usage, not allowed.
const ASKS: &[u8] = &[0, 1, 2, 4];
/// The same for a command that takes the name of an object.
const NAMES: &[u8] = &[0, 1, 2, 3, 4];
/// … and can run until something happens.
const NAMES_AND_GOES_ON: &[u8] = &[0, 1, 2, 3, 4, 130];
/// … and until the job is deleted.
const WATCHES_ONE: &[u8] = &[0, 1, 2, 3, 4, 103, 130];
/// A command that changes an existing job.
const CHANGES: &[u8] = &[0, 1, 2, 3, 4, 7];
/// A command that creates a job, and can wait for its end.
const MAKES: &[u8] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 100, 103, 130];
/// A command that asks the training service, which may not be there.
const REPORTS: &[u8] = &[0, 1, 2, 3, 4, 5];
/// A command that contacts no server.
const ALONE: &[u8] = &[0, 1, 2];
/// A command that contacts this machine's cluster, which may not be up.
const LOCAL: &[u8] = &[0, 1, 2, 3];

/// Returns the exit codes of a command, given its words after `odh`; `None` for one that only groups others.
pub fn of(command: &str) -> Option<&'static [u8]> {
    Some(match command {
        "training create" | "training retry" | "training clone" | "training templates use" => MAKES,
        "training get" => WATCHES_ONE,
        "training list" => &[0, 1, 2, 3, 4, 130],
        "training logs" | "training events" => NAMES_AND_GOES_ON,
        "training top" | "training runtimes" => NAMES,
        "training describe" | "training explain" | "training compare" | "training export" => NAMES,
        "training support-bundle" | "training exec" => NAMES,
        "training templates show" | "training templates delete" => NAMES,
        "training templates list" => ASKS,
        "training templates save" => &[0, 1, 2, 3, 4, 5],
        "training suspend" | "training resume" | "training cancel" => CHANGES,
        "training scale" => &[0, 1, 2, 3, 4, 5, 7],
        "training apply" => &[0, 1, 2, 3, 4, 5, 6, 7],
        "training diff" => &[0, 1, 2, 3, 4, 5],
        "training cp" => NAMES,
        "training port-forward" => NAMES,
        "training delete" => &[0, 1, 2, 3, 4, 8, 130],
        "training wait" => &[0, 1, 2, 3, 4, 5, 8, 100, 103, 130],
        "training preflight" => &[0, 1, 2, 3, 4, 5, 6, 7],
        "training diagnose" => LOCAL,
        "training usage" | "training audit" | "training capacity" | "training advice" => REPORTS,
        "training notifications list" | "training notifications deliveries" => REPORTS,
        "training notifications alerts" => REPORTS,
        "training notifications put" | "training notifications test" | "training notifications delete" => {
            REPORTS
        }
        "local up" => &[0, 1, 2, 7, 130],
        "local down" => &[0, 1, 2, 4],
        "local status" | "local kubeconfig" | "local dashboard" | "local user" | "local node list" => LOCAL,
        "local run" => MAKES,
        "local image list" => ALONE,
        "local image add" => ASKS,
        "local image rm" => NAMES,
        "local node down" | "local node up" => NAMES,
        "local node drain" => &[0, 1, 2, 3, 4, 7, 8],
        "local doctor" | "version" | "completion" | "help" => ALONE,
        _ => return None,
    })
}
