//! The settings, parsed once from the environment.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The default of `ODH_LAUNCH_PORT`: the port on which agents listen.
const DEFAULT_PORT: u16 = 7222;
/// The default of `ODH_LAUNCH_START_TIMEOUT`: how long a Launcher waits for a Worker.
const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(600);
/// The default of `ODH_LAUNCH_PEER_TIMEOUT`: how long a peer may be silent before it counts as gone.
const DEFAULT_PEER_TIMEOUT: Duration = Duration::from_secs(60);
/// The default of `ODH_LAUNCH_GRACE`, and that of Kubernetes' `terminationGracePeriodSeconds`.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// The longest timeout that is accepted: one week.
const MAX_TIMEOUT_SECONDS: u64 = 7 * 24 * 3600;

/// The settings in the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `ODH_LAUNCH_KEY`: the file with the job's key.
    pub key: Option<PathBuf>,
    /// `ODH_LAUNCH_PORT`: the port on which agents listen.
    pub port: u16,
    /// `ODH_LAUNCH_REGISTRY`: a folder in which agents on loopback announce their addresses by pod name. It is set
    /// where pods have no network of their own and names do not resolve.
    pub registry: Option<PathBuf>,
    /// `ODH_POD_NAME`: the name to announce in the registry.
    pub pod_name: Option<String>,
    /// `ODH_LAUNCH_START_TIMEOUT`, seconds: how long a caller waits for an agent to come up.
    pub start_timeout: Duration,
    /// `ODH_LAUNCH_PEER_TIMEOUT`, seconds: how long an established peer may be silent.
    pub peer_timeout: Duration,
    /// `ODH_LAUNCH_GRACE`, seconds: how long the pod may take to end, its `terminationGracePeriodSeconds`.
    pub grace: Duration,
}

/// A variable with an invalid value.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{name}={value} is not {wanted}")]
pub struct SettingFault {
    name: &'static str,
    value: String,
    wanted: &'static str,
}

impl Settings {
    /// Reads the settings through `variable`, which has the signature of `std::env::var_os`. An empty variable
    /// counts as not set.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, SettingFault> {
        let given = |name: &'static str| variable(name).filter(|value| !value.is_empty());
        Ok(Self {
            key: given("ODH_LAUNCH_KEY").map(PathBuf::from),
            port: number(&given, "ODH_LAUNCH_PORT", "a port number from 1 to 65535", 1, u64::from(u16::MAX))?
                .and_then(|port| u16::try_from(port).ok())
                .unwrap_or(DEFAULT_PORT),
            registry: given("ODH_LAUNCH_REGISTRY").map(PathBuf::from),
            pod_name: given("ODH_POD_NAME").map(|name| name.to_string_lossy().into_owned()),
            start_timeout: seconds(&given, "ODH_LAUNCH_START_TIMEOUT", 0)?.unwrap_or(DEFAULT_START_TIMEOUT),
            peer_timeout: seconds(&given, "ODH_LAUNCH_PEER_TIMEOUT", 1)?.unwrap_or(DEFAULT_PEER_TIMEOUT),
            grace: seconds(&given, "ODH_LAUNCH_GRACE", 0)?.unwrap_or(DEFAULT_GRACE),
        })
    }
}

fn seconds(
    given: &impl Fn(&'static str) -> Option<OsString>,
    name: &'static str,
    least: u64,
) -> Result<Option<Duration>, SettingFault> {
    Ok(number(given, name, "a whole number of seconds, at most a week", least, MAX_TIMEOUT_SECONDS)?
        .map(Duration::from_secs))
}

fn number(
    given: &impl Fn(&'static str) -> Option<OsString>,
    name: &'static str,
    wanted: &'static str,
    least: u64,
    most: u64,
) -> Result<Option<u64>, SettingFault> {
    let Some(value) = given(name) else { return Ok(None) };
    let value = value.to_string_lossy();
    match value.parse::<u64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
        _ => Err(SettingFault { name, value: value.into_owned(), wanted }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, SettingFault> {
        Settings::read(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v)))
    }

    #[test]
    fn unset_variables_have_defaults() {
        let settings = read(&[("ODH_LAUNCH_PORT", "")]).unwrap();
        assert_eq!((settings.port, settings.start_timeout.as_secs()), (7222, 600));
        assert_eq!((settings.key, settings.registry), (None, None));
    }

    #[test]
    fn invalid_values_are_refused_with_name_and_value() {
        for (name, value) in [
            ("ODH_LAUNCH_PORT", "70000"),
            ("ODH_LAUNCH_PORT", "0"),
            ("ODH_LAUNCH_START_TIMEOUT", "10m"),
            ("ODH_LAUNCH_START_TIMEOUT", "-1"),
            ("ODH_LAUNCH_PEER_TIMEOUT", "0"),
        ] {
            let text = read(&[(name, value)]).unwrap_err().to_string();
            assert!(text.starts_with(&format!("{name}={value} is not ")), "{text}");
        }
    }
}
