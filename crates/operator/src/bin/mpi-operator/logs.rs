//! Log output: JSON for machines, one object per line with the fields of the span (the trace of a pass, the job)
//! beside the line's own; text for a person at a terminal.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::flags::LogFormat;

/// The klog verbosity from which details are logged.
const DETAILS: i32 = 4;

/// Starts logging to stderr.
pub fn start(format: LogFormat, verbosity: i32) {
    let usual = if verbosity >= DETAILS { "info,operator=debug,mpi_operator=debug" } else { "info" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
    let is_terminal = std::io::stderr().is_terminal();
    let logs =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(is_terminal).with_writer(std::io::stderr);
    let is_text = match format {
        LogFormat::Auto => is_terminal,
        LogFormat::Json => false,
        LogFormat::Text => true,
    };
    if is_text {
        logs.init();
    } else {
        logs.json().flatten_event(true).with_span_list(false).init();
    }
}
