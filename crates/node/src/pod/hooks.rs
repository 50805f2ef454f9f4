//! Commands run inside a container and requests sent to it, for probes and hooks.

use std::net::Ipv4Addr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, GRPCAction, HTTPGetAction, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{PodRun, probe_protocols};
use crate::environment::relocate;
use crate::logs::output_pipe;
use crate::sandbox::client::read_output;
use crate::sandbox::protocol::{CheckSpec, ExecSpec, HttpGet, Security, Streams, User};

/// The most bytes of a command's output kept for a message; kubelet's bound.
const MAX_OUTPUT_BYTES: u64 = 10 << 10;
/// The kernel's number of SIGKILL.
const SIGKILL: i32 = 9;

/// A running container, as far as hooks need it.
#[derive(Debug, Clone)]
pub struct Target {
    /// The sandbox's number for the container.
    pub process: u64,
    /// Its environment.
    pub env: Vec<(String, String)>,
    /// Its working directory.
    pub working_directory: String,
    /// Its user.
    pub user: User,
    /// The restrictions it runs under.
    pub security: Security,
    /// Plain mode: (mount path, real path) of volumes, longest first.
    pub paths: Vec<(String, String)>,
}

impl Target {
    /// Returns a command as it must run here: in plain mode, mount paths are replaced by real paths.
    pub fn relocate(&self, command: &[String]) -> Vec<String> {
        command.iter().map(|text| relocate(text, &self.paths)).collect()
    }

    /// Returns the environment of a process beside the container. As container runtimes do, it sets `TERM` if a
    /// terminal is used and the image sets none.
    pub fn env_for(&self, terminal: bool) -> Vec<(String, String)> {
        let mut env = self.env.clone();
        if terminal && !env.iter().any(|(name, _)| name == "TERM") {
            env.push(("TERM".to_owned(), "xterm".to_owned()));
        }
        env
    }
}

/// Runs a command inside the container. Succeeds if it exits with 0 within the timeout.
///
/// # Errors
/// The message for the Event.
pub async fn exec(
    run: &PodRun,
    target: &Target,
    command: &[String],
    timeout: Duration,
) -> Result<(), String> {
    let pipes = || output_pipe().map_err(|e| e.to_string());
    let ((out, read_out), (err, read_err)) = (pipes()?, pipes()?);
    let spec = ExecSpec {
        container: target.process,
        argv: target.relocate(command),
        env: target.env.clone(),
        working_directory: target.working_directory.clone(),
        user: target.user.clone(),
        security: target.security.clone(),
        streams: Streams::Outputs,
    };
    let running = run.node.sandbox.exec(spec, vec![out, err]).await.map_err(|failure| failure.message)?;
    let process = running.id;
    let finish = async {
        let (exit, out, err) = tokio::join!(
            running.ended(),
            read_output(read_out, MAX_OUTPUT_BYTES),
            read_output(read_err, MAX_OUTPUT_BYTES)
        );
        (exit.code, out + &err)
    };
    match tokio::time::timeout(timeout, finish).await {
        Ok((0, _)) => Ok(()),
        Ok((code, text)) if text.trim().is_empty() => Err(format!("command exited with {code}")),
        Ok((_, text)) => Err(text.trim_end().to_owned()),
        Err(_) => {
            run.node.sandbox.signal(process, SIGKILL).await;
            Err(format!("command {command:?} timed out after {timeout:?}"))
        }
    }
}

/// Sends an HTTP request.
///
/// # Errors
/// The message for the Event.
pub async fn http(
    run: &PodRun,
    container: &Container,
    action: &HTTPGetAction,
    timeout: Duration,
) -> Result<(), String> {
    let headers: Vec<(String, String)> = action
        .http_headers
        .iter()
        .flatten()
        .map(|header| (header.name.clone(), header.value.clone()))
        .collect();
    let port = port(container, &action.port)?;
    let path = action
        .path
        .clone()
        .filter(|path| path.starts_with('/'))
        .unwrap_or_else(|| format!("/{}", action.path.as_deref().unwrap_or_default()));
    let named =
        headers.iter().find(|(key, _)| key.eq_ignore_ascii_case("host")).map(|(_, value)| value.clone());
    let host = named.unwrap_or_else(|| format!("{}:{port}", run.address));
    let headers = headers.into_iter().filter(|(key, _)| !key.eq_ignore_ascii_case("host")).collect();
    let get = HttpGet { path, host, headers };
    if action.scheme.as_deref() == Some("HTTPS") {
        let address = address_of(run, action.host.as_deref())?;
        return probe_protocols::https(run, address, port, &get, timeout).await;
    }
    connect(run, action.host.as_deref(), port, timeout, Some(get)).await
}

/// Sends a gRPC health check.
///
/// # Errors
/// The message for the Event.
pub async fn grpc(run: &PodRun, action: &GRPCAction, timeout: Duration) -> Result<(), String> {
    let port = u16::try_from(action.port).map_err(|_| format!("invalid port {}", action.port))?;
    let service = action.service.as_deref().unwrap_or_default();
    probe_protocols::grpc(run, run.address, port, service, timeout).await
}

/// Opens a TCP connection.
///
/// # Errors
/// The message for the Event.
pub async fn tcp(
    run: &PodRun,
    container: &Container,
    action: &TCPSocketAction,
    timeout: Duration,
) -> Result<(), String> {
    connect(run, action.host.as_deref(), port(container, &action.port)?, timeout, None).await
}

async fn connect(
    run: &PodRun,
    host: Option<&str>,
    port: u16,
    timeout: Duration,
    http: Option<HttpGet>,
) -> Result<(), String> {
    let address = address_of(run, host)?;
    let timeout_millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let spec = CheckSpec { address, port, timeout_millis, http };
    run.node.sandbox.check(spec).await.map_err(|failure| failure.message)?
}

fn address_of(run: &PodRun, host: Option<&str>) -> Result<Ipv4Addr, String> {
    match host.filter(|host| !host.is_empty()) {
        None => Ok(run.address),
        Some(host) => {
            host.parse().map_err(|_| format!("host {host:?} is not an IPv4 address; names are not resolved"))
        }
    }
}

fn port(container: &Container, port: &IntOrString) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => name.parse().ok().or_else(|| {
            let mut ports = container.ports.iter().flatten();
            ports.find(|port| port.name.as_deref() == Some(name)).map(|port| port.container_port)
        }),
    };
    number.and_then(|number| u16::try_from(number).ok()).ok_or_else(|| format!("invalid port {port:?}"))
}
