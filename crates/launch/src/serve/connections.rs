//! Finds this pod's TCP connections that go unanswered, in the kernel's own table. Nothing is sent: a connection
//! that waits for an answer, or whose data nobody acknowledges, is visible there. A peer that is merely slow does
//! not count, because its kernel answers for it.
//!
//! The table is long where there are many ranks, so it is read only when there is a reason: the kernel counts its
//! retransmission timeouts, and while that counter does not change, every connection is answered.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// A connection counts as unanswered once it has been seen unanswered for this long.
const PATIENCE: Duration = Duration::from_secs(5);
/// A request to connect counts as unanswered from this many retries on.
const LEAST_REQUESTS: u32 = 2;
/// Data count as unanswered from this many retransmissions on: with the kernel's shortest pause of 0.2 s, doubling,
/// that takes 12 s.
const LEAST_REPEATS: u32 = 6;
/// From this many retransmissions on, the table is worth another look soon.
const DOUBTFUL_REPEATS: u32 = 2;
/// The most entries kept.
const MOST_KEPT: usize = 256;
/// The most addresses reported.
const MOST_TOLD: usize = 64;
/// `include/net/tcp_states.h`.
const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
/// The retransmission timer (`Documentation/networking/proc_net_tcp.rst`).
const RETRANSMIT: u8 = 1;

/// How a connection goes unanswered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Silence {
    /// Nobody answers the request to connect.
    Connecting,
    /// It was established, and nothing is acknowledged any more.
    Established,
}

/// A change in the connections to one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// They go unanswered.
    Unanswered { peer: SocketAddr, how: Silence, seconds: u64 },
    /// They went unanswered, and are answered again.
    Answered { peer: SocketAddr },
}

/// One line of the table: a connection that is established, or about to be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    local: SocketAddr,
    peer: SocketAddr,
    /// How it goes unanswered, if it does.
    how: Option<Silence>,
    /// Whether it may be about to go unanswered.
    doubtful: bool,
    inode: u64,
}

/// What has been seen so far.
#[derive(Default)]
pub struct Connections {
    waiting: BTreeMap<(SocketAddr, SocketAddr), Instant>,
    /// The peers reported, with the local address, and whether the recovery has been reported too. Each is reported
    /// once, because a peer that retries over and over would fill a log.
    told: BTreeMap<SocketAddr, (SocketAddr, bool)>,
    /// The kernel's count of timeouts when the tables were last read; at first 0, which is what a new network
    /// namespace has while every connection in it is answered.
    timeouts: u64,
    /// Whether the tables then showed a reason for another look.
    doubtful: bool,
}

impl Connections {
    /// Reads the tables of this network namespace if there is a reason to. `ours` returns whether a socket, by
    /// inode, belongs to a process of this pod.
    pub fn look(&mut self, now: Instant, ours: impl Fn(u64) -> bool) -> Vec<News> {
        self.look_in(|path| fs::read_to_string(path).unwrap_or_default(), now, ours)
    }

    /// Returns whether a connection may be about to go unanswered.
    pub fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    fn look_in(
        &mut self,
        read: impl Fn(&str) -> String,
        now: Instant,
        ours: impl Fn(u64) -> bool,
    ) -> Vec<News> {
        let timeouts = timeouts_of(&read("/proc/self/net/netstat"));
        let is_quiet = timeouts == Some(self.timeouts);
        let waits_for_answer = self.told.values().any(|(_, answered)| !answered);
        if is_quiet && !self.doubtful && !waits_for_answer {
            return Vec::new();
        }
        self.timeouts = timeouts.unwrap_or_default();
        let tables = [read("/proc/self/net/tcp"), read("/proc/self/net/tcp6")];
        self.take(tables.iter().flat_map(|table| table.lines()), now, ours)
    }

    fn take<'a>(
        &mut self,
        lines: impl Iterator<Item = &'a str>,
        now: Instant,
        ours: impl Fn(u64) -> bool,
    ) -> Vec<News> {
        let (mut entries, mut fine) = (Vec::new(), Vec::new());
        self.doubtful = false;
        for entry in lines.filter_map(parse) {
            self.doubtful |= entry.doubtful && !self.told.contains_key(&entry.peer);
            match entry.how {
                Some(how) if entries.len() < MOST_KEPT => entries.push((entry, how)),
                None if self.told.contains_key(&entry.peer) => fine.push((entry.local, entry.peer)),
                _ => {}
            }
        }
        self.waiting.retain(|key, _| entries.iter().any(|(entry, _)| (entry.local, entry.peer) == *key));
        let mut news = Vec::new();
        for (entry, how) in entries {
            let since = *self.waiting.entry((entry.local, entry.peer)).or_insert(now);
            let waited = now.saturating_duration_since(since);
            let new = self.told.len() < MOST_TOLD && !self.told.contains_key(&entry.peer);
            if waited >= PATIENCE && new && ours(entry.inode) {
                self.told.insert(entry.peer, (entry.local, false));
                news.push(News::Unanswered { peer: entry.peer, how, seconds: waited.as_secs() });
            }
        }
        for (peer, (local, answered)) in &mut self.told {
            if !*answered && fine.contains(&(*local, *peer)) {
                *answered = true;
                news.push(News::Answered { peer: *peer });
            }
        }
        news
    }
}

/// Parses a line of `/proc/net/tcp` or `tcp6`. Returns `None` unless it is an established connection or a repeated
/// request.
fn parse(line: &str) -> Option<Entry> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, local, peer, state, _, timer, repeats, _, _, inode, ..] = fields.as_slice() else { return None };
    let hexadecimal = |text: &str| u32::from_str_radix(text, 16).ok();
    let (state, repeats) = (u8::from_str_radix(state, 16).ok()?, hexadecimal(repeats)?);
    let timer = u8::from_str_radix(timer.split(':').next()?, 16).ok()?;
    let how = match state {
        SYN_SENT if repeats >= LEAST_REQUESTS => Some(Silence::Connecting),
        ESTABLISHED if timer == RETRANSMIT && repeats >= LEAST_REPEATS => Some(Silence::Established),
        ESTABLISHED => None,
        _ => return None,
    };
    let doubtful = how.is_some() || timer == RETRANSMIT && repeats >= DOUBTFUL_REPEATS;
    Some(Entry { local: address(local)?, peer: address(peer)?, how, doubtful, inode: inode.parse().ok()? })
}

/// Returns the kernel's count of retransmission timeouts in this network namespace: `TCPTimeouts` among the
/// counters of `/proc/net/netstat`, which has a line of names and one of numbers for each group.
fn timeouts_of(counters: &str) -> Option<u64> {
    let mut groups = counters.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, numbers) = (groups.next()?, groups.next()?);
    let place = names.split_whitespace().position(|name| name == "TCPTimeouts")?;
    numbers.split_whitespace().nth(place)?.parse().ok()
}

/// Parses an address as the kernel writes it: words in the machine's byte order, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(host.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let host = match host.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKING: &str = "   3: 0300630A:BFD4 0100630A:DE31 02 00000001:00000000 01:0000000E 00000006     0        0 4711 2 0000000000000000 800 0 0 1 7";
    const SENDING: &str = "   4: 0300630A:0400 0200630A:C4AD 01 00000400:00000000 01:0000000E 00000006     0        0 4712 2 0000000000000000 800 0 0 1 7";
    const QUIET: &str = "   5: 0300630A:A090 0100630A:A1A7 01 00000000:00000000 02:0000722C 00000000     0        0 4713 2 0000000000000000 20 4 0 10 -1";

    #[test]
    fn a_connection_unanswered_for_a_while_is_reported_once() {
        let mut seen = Connections::default();
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let all = || [ASKING, SENDING, QUIET].into_iter();
        assert_eq!(seen.take(all(), at(0), |_| true), []);
        assert_eq!(seen.take(all(), at(4), |_| true), []);
        let peer: SocketAddr = "10.99.0.1:56881".parse().unwrap();
        let dead: SocketAddr = "10.99.0.2:50349".parse().unwrap();
        assert_eq!(
            seen.take(all(), at(6), |_| true),
            [
                News::Unanswered { peer, how: Silence::Connecting, seconds: 6 },
                News::Unanswered { peer: dead, how: Silence::Established, seconds: 6 }
            ]
        );
        assert_eq!(seen.take(all(), at(7), |_| true), []);
        let connected = ASKING.replace(
            " 02 00000001:00000000 01:0000000E 00000006 ",
            " 01 00000000:00000000 00:00000000 00000000 ",
        );
        let after = || [connected.as_str(), SENDING].into_iter();
        assert_eq!(seen.take(after(), at(8), |_| true), [News::Answered { peer }]);
        assert_eq!(seen.take(after(), at(9), |_| true), []);
    }

    #[test]
    fn the_tables_are_read_only_after_retransmission_timeouts() {
        use std::cell::Cell;
        let (timeouts, reads) = (Cell::new(3), Cell::new(0));
        let table = std::cell::RefCell::new(QUIET.to_owned());
        let read = |path: &str| match path {
            "/proc/self/net/netstat" => {
                format!(
                    "TcpExt: SyncookiesSent TCPTimeouts\nTcpExt: 9 {}\nIpExt: X\nIpExt: 1\n",
                    timeouts.get()
                )
            }
            _ => {
                reads.set(reads.get() + 1);
                table.borrow().clone()
            }
        };
        let mut seen = Connections::default();
        let begun = Instant::now();
        let mut look = |seconds: u64| seen.look_in(read, begun + Duration::from_secs(seconds), |_| true);
        // The past of a namespace with timeouts is unknown, so the first look reads both tables.
        assert_eq!((look(0), reads.take()), (vec![], 2));
        for minute in 1..600 {
            assert_eq!((look(minute * 60), reads.get()), (vec![], 0), "all is well");
        }
        timeouts.set(4);
        assert_eq!((look(40_000), reads.take()), (vec![], 2), "a packet was lost, and sent again");
        assert_eq!((look(40_001), reads.get()), (vec![], 0));
        timeouts.set(5);
        *table.borrow_mut() = SENDING.to_owned();
        assert_eq!(look(40_002), []);
        let news = look(40_007);
        assert!(matches!(news[..], [News::Unanswered { seconds: 5, .. }]), "{news:?}");
        *table.borrow_mut() = SENDING.replace("01:0000000E 00000006", "00:00000000 00000000");
        let news = look(40_008);
        assert!(matches!(news[..], [News::Answered { .. }]), "{news:?}");
        reads.take();
        assert_eq!((look(40_009), reads.get()), (vec![], 0));
    }

    #[test]
    fn a_namespace_without_timeouts_costs_no_table() {
        let mut seen = Connections::default();
        let read = |path: &str| {
            assert_eq!(path, "/proc/self/net/netstat");
            "TcpExt: SyncookiesSent TCPTimeouts\nTcpExt: 9 0\n".to_owned()
        };
        let begun = Instant::now();
        assert_eq!(seen.look_in(read, begun, |_| true), []);
        assert_eq!(seen.look_in(read, begun + PATIENCE, |_| true), []);
    }

    #[test]
    fn without_counters_the_tables_are_read_each_time() {
        let mut seen = Connections::default();
        let read = |path: &str| if path.ends_with("tcp") { ASKING.to_owned() } else { String::new() };
        let begun = Instant::now();
        assert_eq!(seen.look_in(read, begun, |_| true), []);
        assert!(seen.is_doubtful());
        assert_eq!(seen.look_in(read, begun + PATIENCE, |_| true).len(), 1);
        assert_eq!(timeouts_of("TcpExt: A\nTcpExt: 1\n"), None);
    }

    #[test]
    fn connections_of_others_are_not_reported() {
        let mut seen = Connections::default();
        let begun = Instant::now();
        let mut news = seen.take([ASKING].into_iter(), begun, |_| false);
        news.extend(seen.take([ASKING].into_iter(), begun + PATIENCE, |inode| inode != 4711));
        assert_eq!(news, []);
    }

    #[test]
    fn addresses_of_both_versions_are_read() {
        let mapped = "0000000000000000FFFF00000300630A:0400";
        assert_eq!(address(mapped), Some("10.99.0.3:1024".parse().unwrap()));
        let local = "00000000000000000000000001000000:0050";
        assert_eq!(address(local), Some("[::1]:80".parse().unwrap()));
        assert_eq!(address("nonsense"), None);
    }
}
