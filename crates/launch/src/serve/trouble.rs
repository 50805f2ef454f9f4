//! Looks for external trouble while a command runs: connections that nobody answers, and ranks that the kernel
//! kills because memory is exhausted. It only reports them, in words that the diagnosis parses.

use std::net::IpAddr;
use std::time::Instant;

use super::connections::{Connections, News, Silence};
use super::descendants;
use super::memory::Memory;

/// What has been seen so far.
pub struct Watch {
    pod: String,
    connections: Connections,
    memory: Option<Memory>,
}

impl Watch {
    /// Starts from the current state; what has happened before is not reported.
    pub fn begin(pod: &str) -> Self {
        let connections = Connections::default();
        Self { pod: pod.to_owned(), connections, memory: Memory::find() }
    }

    /// Looks at everything. `callers` are the addresses of the callers whose commands run.
    pub fn look(&mut self, now: Instant, callers: &[IpAddr]) -> Vec<String> {
        let news = self.connections.look(now, descendants::hold_socket);
        let mut told: Vec<String> = news.iter().map(|news| in_words(&self.pod, news, callers)).collect();
        told.extend(self.look_at_memory());
        told
    }

    /// Returns whether there may soon be more to report.
    pub fn is_doubtful(&self) -> bool {
        self.connections.is_doubtful()
    }

    /// Looks at the memory alone.
    pub fn look_at_memory(&mut self) -> Option<String> {
        let (kills, limit) = self.memory.as_mut()?.look()?;
        let what = if kills == 1 { "process was".to_owned() } else { "processes were".to_owned() };
        let (pod, limit) = (&self.pod, in_mebibytes(limit));
        Some(format!("{pod}: {kills} {what} killed by the kernel: out of memory, limit {limit}"))
    }
}

fn in_words(pod: &str, news: &News, callers: &[IpAddr]) -> String {
    match news {
        News::Unanswered { peer, how: Silence::Connecting, seconds } => {
            let whom = if callers.contains(&peer.ip()) { "the Launcher at " } else { "" };
            let (address, port) = (peer.ip(), peer.port());
            format!(
                "{pod}: no answer from {whom}{address} port {port} for {seconds} s: packets to it are dropped, or its machine is down"
            )
        }
        News::Unanswered { peer, how: Silence::Established, seconds } => {
            let (address, port) = (peer.ip(), peer.port());
            format!(
                "{pod}: connection to {address} port {port} is dead: nothing was acknowledged for {seconds} s or more, and even a slow machine would do that"
            )
        }
        News::Answered { peer } => format!("{pod}: {} port {} answers again", peer.ip(), peer.port()),
    }
}

/// Formats bytes as people write limits.
fn in_mebibytes(bytes: u64) -> String {
    const MEBIBYTE: u64 = 1 << 20;
    if bytes >= MEBIBYTE { format!("{} MiB", bytes / MEBIBYTE) } else { format!("{bytes} bytes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_use_words_that_the_diagnosis_parses() {
        let peer = "10.0.0.7:1024".parse().unwrap();
        let said = |how, callers: &[IpAddr]| {
            in_words("pi-worker-1", &News::Unanswered { peer, how, seconds: 6 }, callers)
        };
        assert!(
            said(Silence::Connecting, &[])
                .starts_with("pi-worker-1: no answer from 10.0.0.7 port 1024 for 6 s")
        );
        assert!(
            said(Silence::Connecting, &[peer.ip()])
                .starts_with("pi-worker-1: no answer from the Launcher at 10.0.0.7 port 1024")
        );
        assert!(
            said(Silence::Established, &[])
                .starts_with("pi-worker-1: connection to 10.0.0.7 port 1024 is dead")
        );
        assert_eq!(in_mebibytes(128 << 20), "128 MiB");
    }
}
