//! `odh`: arguments → jobs → print.
//!
//! This program holds no rule about jobs; what may be and what happens is `jobs`', `plan`'s and the server's. It reads
//! arguments, calls, and prints: data on stdout, prose on stderr, and an exit code by which scripts can tell endings
//! apart (`jobs::Class`).

mod arguments;
mod complete;
mod connect;
mod console;
mod failure;
mod help;
mod interrupt;
mod local;
mod object;
mod output;
mod settings;
mod shown;
mod table;
mod training;
mod version;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};
use console::Console;
use failure::Failure;

#[cfg(feature = "local")]
/// The name under which this program starts the first process of a pod's sandbox; not for people.
const SANDBOX: &str = "__sandbox";

fn main() -> ExitCode {
    #[cfg(feature = "local")]
    if std::env::args_os().nth(1).is_some_and(|first| first == SANDBOX) {
        return local::sandbox();
    }
    if let Err(failure) = settings::load() {
        Console::new(arguments::Color::Auto, arguments::Output::Table).failure(&failure);
        return ExitCode::from(failure.exit_code());
    }
    complete::if_asked();
    let words = arguments::called_by_kubectl(std::env::args_os().collect());
    let raw: Vec<_> = arguments::split_kind_and_name(words);
    let arguments = match Arguments::try_parse_from(&raw) {
        Ok(arguments) => arguments,
        Err(error) => return console::usage(&error, &raw),
    };
    let console = Console::new(arguments.global.color, arguments.command.output());
    let code = match run(&console, &arguments) {
        Ok(code) => code,
        Err(failure) => {
            console.failure(&failure);
            failure.exit_code()
        }
    };
    ExitCode::from(code)
}

fn run(console: &Console, arguments: &Arguments) -> Result<u8, Failure> {
    match &arguments.command {
        Command::Completion { shell } => complete::script(console, *shell),
        Command::Help(asked) => help::run(console, asked),
        Command::Version { output } => version::version(console, *output),
        Command::Training { verb } => runtime()?.block_on(training::run(console, &arguments.global, verb)),
        #[cfg(feature = "local")]
        Command::Local { verb } => local::run(console, &arguments.global, verb),
    }
}

/// A command makes a few requests at a time: one thread is enough, and starts fastest.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(jobs::Class::Error, "Runtime", format!("cannot start: {error}")))
}
