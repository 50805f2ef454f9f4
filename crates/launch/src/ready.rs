//! `odh-launch ready`: checks whether the agent in this pod answers and holds the job's key. For exec probes.

use std::time::Duration;

use crate::client::connect::{self, ConnectFault};
use crate::settings::Settings;

/// The check must not outlive the probe's own timeout by much.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to the local agent, and closes the connection once both sides have proved the key.
pub fn ready(settings: &Settings) -> Result<(), ConnectFault> {
    let settings = Settings { start_timeout: Duration::ZERO, ..settings.clone() };
    let host = match (&settings.registry, &settings.pod_name) {
        (Some(_), Some(name)) => name.as_str(),
        _ => "127.0.0.1",
    };
    connect::attempt(host, &settings, PROBE_TIMEOUT).map(drop)
}
