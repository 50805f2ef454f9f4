//! TCP and HTTP probes, run in a short-lived child of the sandbox, which is in the pods' outer network.
//!
//! Blocking on purpose: the process has nothing else to do, and a timeout bounds it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::protocol::{CheckSpec, ConnectSpec, FilterSpec, HttpGet, ListenSpec};

/// The most that is read of an answer, as in a kubelet (10 KiB).
const MAX_ANSWER_BYTES: usize = 10 << 10;

/// Runs the probe.
///
/// # Errors
/// The message for the Event, worded as kubelet's (`pkg/probe`).
pub fn check(spec: &CheckSpec) -> Result<(), String> {
    let timeout = Duration::from_millis(spec.timeout_millis.max(1));
    let address = SocketAddr::from((spec.address, spec.port));
    let stream =
        TcpStream::connect_timeout(&address, timeout).map_err(|e| format!("dial tcp {address}: {e}"))?;
    match &spec.http {
        None => Ok(()),
        Some(get) => {
            http(stream, get, timeout).map_err(|e| format!("Get \"http://{address}{}\": {e}", get.path))?
        }
    }
}

/// Connects to an address, or to the loopback of the process's network namespace, as port forwarding needs.
///
/// # Errors
/// The reason, worded as a container runtime's (`containerd/pkg/cri`).
pub fn connect(spec: &ConnectSpec) -> Result<TcpStream, String> {
    let timeout = Duration::from_millis(spec.timeout_millis.max(1));
    if let Some(address) = spec.address {
        let address = SocketAddr::from((address, spec.port));
        return TcpStream::connect_timeout(&address, timeout)
            .map_err(|error| format!("dial tcp {address}: {error}"));
    }
    let four = SocketAddr::from((Ipv4Addr::LOCALHOST, spec.port));
    let six = SocketAddr::from((Ipv6Addr::LOCALHOST, spec.port));
    TcpStream::connect_timeout(&four, timeout)
        .or_else(|error| TcpStream::connect_timeout(&six, timeout).map_err(|_| error))
        .map_err(|error| format!("failed to connect to localhost:{} inside the pod: {error}", spec.port))
}

/// Listens on a port of every address.
///
/// # Errors
/// Errors of the kernel.
pub fn listen(spec: ListenSpec) -> std::io::Result<OwnedFd> {
    let address = (Ipv4Addr::UNSPECIFIED, spec.port);
    if spec.stream {
        TcpListener::bind(address).map(Into::into)
    } else {
        UdpSocket::bind(address).map(Into::into)
    }
}

/// Loads a ruleset atomically.
///
/// # Errors
/// The output of the program.
pub fn filter(spec: &FilterSpec) -> Result<(), String> {
    let shown = spec.program.display();
    let ran = std::process::Command::new(&spec.program).arg("-f").arg(&spec.rules).output();
    let ran = ran.map_err(|error| format!("{shown}: {error}"))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(format!("{shown}: {}", said.lines().next().unwrap_or("failed without output")))
}

/// Returns the text of a probe's HTTP request, as a kubelet writes it.
pub fn request(get: &HttpGet) -> String {
    let mut request = format!("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", get.path, get.host);
    let named = |name: &str| get.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
    if !named("user-agent") {
        request.push_str("User-Agent: kube-probe/1.36\r\n");
    }
    if !named("accept") {
        request.push_str("Accept: */*\r\n");
    }
    for (key, value) in &get.headers {
        request.push_str(&format!("{key}: {value}\r\n"));
    }
    request.push_str("\r\n");
    request
}

fn http(mut stream: TcpStream, get: &HttpGet, timeout: Duration) -> std::io::Result<Result<(), String>> {
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(request(get).as_bytes())?;
    let mut answer = Vec::new();
    let mut chunk = [0; 1024];
    while !answer.contains(&b'\n') && answer.len() < MAX_ANSWER_BYTES {
        match stream.read(&mut chunk)? {
            0 => break,
            count => answer.extend_from_slice(&chunk[..count]),
        }
    }
    Ok(judge(&String::from_utf8_lossy(&answer)))
}

/// Evaluates a status line.
///
/// # Errors
/// The failure, in kubelet's words.
pub fn judge(answer: &str) -> Result<(), String> {
    let status = answer
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1))
        .and_then(|code| code.trim().parse::<u16>().ok());
    match status {
        Some(200..=399) => Ok(()),
        Some(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
        None => Err("malformed HTTP response".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn statuses_from_200_to_399_succeed() {
        for (line, well) in [
            ("HTTP/1.1 200 OK\r\n", true),
            ("HTTP/1.0 399 Odd\r\n", true),
            ("HTTP/1.1 404 Not Found\r\n", false),
            ("HTTP/1.1 500\r\n", false),
            ("SSH-2.0-OpenSSH_9.2", false),
            ("", false),
        ] {
            assert_eq!(judge(line).is_ok(), well, "{line:?}");
        }
    }
}
