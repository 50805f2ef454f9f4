//! Shell completion: the script that a shell loads once, and the answers to the requests that the shell later sends to
//! this program.
//!
//! Candidates are computed from the definition of the command line (`arguments`) by clap's own engine.

use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Shells};
use jobs::Class;

use crate::arguments;
use crate::console::Console;
use crate::failure::Failure;

/// The variable by which a shell requests candidates; its value is the shell's name.
const VARIABLE: &str = "ODH_COMPLETE";

/// If this is a shell's request, answers it and exits the process.
pub fn if_asked() {
    CompleteEnv::with_factory(arguments::definition).var(VARIABLE).complete();
}

/// `odh completion SHELL`
pub fn script(console: &Console, shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string());
    let written = completer.is_some_and(|completer| {
        completer.write_registration(VARIABLE, "odh", "odh", "odh", &mut script).is_ok()
    });
    if !written {
        return Err(Failure::new(Class::Error, "Completion", format!("there is no completion for {shell}")));
    }
    console.document(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
