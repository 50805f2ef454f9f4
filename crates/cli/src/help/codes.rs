//! Which exit codes each command can end with; the numbers and what they mean are [`super::EXIT_CODES`]'s.
//!
//! A command that is interrupted ends with 130 whatever it does. Here that stands where a command goes on until something
//! happens, so that people interrupt it.

/// What every command can say that asks a cluster for something: all is well, an error, not understood, not allowed.
const ASKS: &[u8] = &[0, 1, 2, 4];
/// The same of one that is given the name of something.
const NAMES: &[u8] = &[0, 1, 2, 3, 4];
/// … and can go on until something happens.
const NAMES_AND_GOES_ON: &[u8] = &[0, 1, 2, 3, 4, 130];
/// … and until the job is gone.
const WATCHES_ONE: &[u8] = &[0, 1, 2, 3, 4, 103, 130];
/// One that changes a job that is there.
const CHANGES: &[u8] = &[0, 1, 2, 3, 4, 7];
/// One that makes a job, and waits for its end if asked.
const MAKES: &[u8] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 100, 103, 130];
/// One that asks nobody.
const ALONE: &[u8] = &[0, 1, 2];
/// One that asks the cluster of this machine, which may not be up.
const LOCAL: &[u8] = &[0, 1, 2, 3];

/// The exit codes of a command, by its words after `odh`; nothing for one that only holds others.
pub fn of(command: &str) -> Option<&'static [u8]> {
    Some(match command {
        "training create" | "training retry" | "training clone" | "training templates use" => MAKES,
        "training get" => WATCHES_ONE,
        "training list" => &[0, 1, 2, 3, 4, 130],
        "training logs" | "training events" => NAMES_AND_GOES_ON,
        "training top" => NAMES,
        "training describe" | "training explain" | "training compare" | "training export" => NAMES,
        "training support-bundle" | "training exec" => NAMES,
        "training templates show" | "training templates delete" => NAMES,
        "training templates list" => ASKS,
        "training templates save" => &[0, 1, 2, 3, 4, 5],
        "training suspend" | "training resume" => CHANGES,
        "training delete" => &[0, 1, 2, 3, 4, 8, 130],
        "training wait" => &[0, 1, 2, 3, 4, 8, 100, 103, 130],
        "training preflight" => &[0, 1, 2, 3, 4, 5, 6],
        "training diagnose" => LOCAL,
        "local up" => &[0, 1, 2, 7, 130],
        "local down" => &[0, 1, 2, 4],
        "local status" | "local kubeconfig" | "local user" | "local node list" => LOCAL,
        "local run" => MAKES,
        "local node down" | "local node up" => NAMES,
        "local node drain" => &[0, 1, 2, 3, 4, 7, 8],
        "local doctor" | "version" | "completion" | "help" => ALONE,
        _ => return None,
    })
}
