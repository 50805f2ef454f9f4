//! `odh`: arguments → jobs → print.
//!
//! This program has no rules about jobs; those are in `jobs`, `plan` and the server. It parses arguments, makes calls,
//! and prints: data to stdout, prose to stderr. Its exit code tells scripts how the command ended (`jobs::Class`).

mod advice;
mod arguments;
mod complete;
mod connect;
mod console;
mod failure;
mod global;
mod help;
mod interrupt;
mod job_names;
mod local;
mod object;
mod output;
mod settings;
mod shown;
mod table;
mod training;
mod training_service;
mod usage;
mod version;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use console::Console;
use failure::Failure;

#[cfg(feature = "local")]
/// The argument with which this program starts the first process of a pod's sandbox; internal.
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
    let raw = settings::current().expanded(arguments::called_by_kubectl(std::env::args_os().collect()));
    let arguments = match arguments::parse(&raw) {
        Ok(arguments) => arguments,
        Err(error) => return console::usage(error, &raw),
    };
    let console = Console::new(arguments.global.color, arguments.command.output());
    if let Some(filter) = arguments.global.log_filter() {
        let filter = tracing_subscriber::EnvFilter::new(filter);
        let logging = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        // A local cluster in this process logs by its own rules.
        let _ = logging.with_ansi(false).log_internal_errors(false).try_init();
    }
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
        Command::Training { verb } => runtime()?.block_on(async {
            match training::run(console, &arguments.global, verb).await {
                Err(failure) => Err(connect::hinting_at_local_users(failure, &arguments.global).await),
                ended => ended,
            }
        }),
        #[cfg(feature = "local")]
        Command::Local { verb } => local::run(console, &arguments.global, verb),
    }
}

/// A command makes only a few concurrent requests: one thread is enough, and starts fastest.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(jobs::Class::Error, "Runtime", format!("cannot start: {error}")))
}
