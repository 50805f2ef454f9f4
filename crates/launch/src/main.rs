//! `odh-launch`: MPI launchers use it in place of ssh to start processes in other pods of a job.
//!
//! In a Worker it is the first process and serves (`odh-launch serve`). In the Launcher it is called as ssh or rsh
//! would be (`odh-launch HOST COMMAND...`). It needs no sshd, no root, no passwd entry and no shared library. It
//! must never run a command for a peer that has not proved that it holds the job's key, and never print that key.
//!
//! `arguments` and `settings` parse the command line and the environment once; everything else works on the parsed
//! values.

mod arguments;
mod client;
mod drain;
mod grace;
mod install;
mod key;
mod ready;
mod report;
mod resolve;
mod serve;
mod settings;
mod wire;

use std::process::ExitCode;

use arguments::Request;
use settings::Settings;

/// The exit code of ssh and rsh when they themselves, and not the remote command, have failed.
const EXIT_TRANSPORT: u8 = 255;
/// The exit code for a usage error.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let request = match arguments::parse(&words) {
        Ok(request) => request,
        Err(fault) => {
            report::line(&fault.to_string());
            return ExitCode::from(if fault.is_remote_call() { EXIT_TRANSPORT } else { EXIT_USAGE });
        }
    };
    let settings = match Settings::read(|name| std::env::var_os(name)) {
        Ok(settings) => settings,
        Err(fault) => {
            report::line(&fault.to_string());
            return ExitCode::from(EXIT_TRANSPORT);
        }
    };
    match request {
        Request::Help => print(arguments::HELP),
        Request::Version => print(concat!("odh-launch ", env!("CARGO_PKG_VERSION"), "\n")),
        Request::Install(directory) => code_of(install::install(&directory)),
        Request::Ready => code_of(ready::ready(&settings)),
        Request::Drain => {
            drain::drain(&settings);
            ExitCode::SUCCESS
        }
        Request::Serve => code_of(serve::serve(&settings)),
        Request::RemoteCommand(call) => match client::call(&call, &settings) {
            Ok(code) => ExitCode::from(code),
            Err(fault) => {
                report::line(&fault.to_string());
                ExitCode::from(EXIT_TRANSPORT)
            }
        },
    }
}

fn print(text: &str) -> ExitCode {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn code_of<Fault: std::fmt::Display>(outcome: Result<(), Fault>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            report::line(&fault.to_string());
            ExitCode::FAILURE
        }
    }
}
