//! Where the agent listens: on the job's port on every address, or, if pods have no network of their own, on any
//! free port of loopback, announced by a file in the registry.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use crate::settings::Settings;

/// Why the agent cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenFault {
    /// The port is taken, or not permitted.
    #[error("cannot listen on port {port}: {source}")]
    Port {
        /// The port; 0 is any.
        port: u16,
        /// The system's error.
        source: io::Error,
    },
    /// There is a registry but no name to announce.
    #[error("ODH_LAUNCH_REGISTRY is set but ODH_POD_NAME is not: the agent needs a name to announce itself")]
    NoName,
    /// The name is not valid as a file name.
    #[error("ODH_POD_NAME={0} is not a valid pod name")]
    BadName(String),
    /// The registry cannot be written.
    #[error("cannot announce the agent as {}: {source}", path.display())]
    Announce {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A file in the registry; dropping it removes the file.
pub struct Announcement {
    path: PathBuf,
    content: String,
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // A pod with the same name may have announced itself since.
        if std::fs::read_to_string(&self.path).is_ok_and(|content| content == self.content) {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

/// Listens as the settings say. Keep the announcement for as long as the listener.
pub fn listen(settings: &Settings) -> Result<(TcpListener, Option<Announcement>), ListenFault> {
    let Some(registry) = &settings.registry else {
        return Ok((bind_everywhere(settings.port)?, None));
    };
    let name = settings.pod_name.as_deref().ok_or(ListenFault::NoName)?;
    if name.starts_with('.') || name.contains('/') {
        return Err(ListenFault::BadName(name.to_owned()));
    }
    let (listener, address) = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr().map(|address| (listener, address)))
        .map_err(|source| ListenFault::Port { port: 0, source })?;
    let path = registry.join(name);
    let announcement =
        announce(path.clone(), address).map_err(|source| ListenFault::Announce { path, source })?;
    Ok((listener, Some(announcement)))
}

/// Binds both families on one socket if the kernel supports IPv6, else IPv4 alone.
fn bind_everywhere(port: u16) -> Result<TcpListener, ListenFault> {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
        .map_err(|source| ListenFault::Port { port, source })
}

/// Writes the file completely or not at all, because callers may read it meanwhile.
fn announce(path: PathBuf, address: SocketAddr) -> io::Result<Announcement> {
    let content = format!("{address}\n");
    let unfinished = path.with_file_name(format!(
        ".{}.{}",
        path.file_name().unwrap_or_default().to_string_lossy(),
        std::process::id()
    ));
    std::fs::write(&unfinished, &content)?;
    std::fs::rename(&unfinished, &path)?;
    Ok(Announcement { path, content })
}
