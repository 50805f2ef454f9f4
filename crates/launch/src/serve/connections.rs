//! Which of this pod's TCP connections go unanswered, by the kernel's own table. Nothing is sent: a connection that waits for an
//! answer, or whose data nobody acknowledges, is seen as it is. A peer that is merely slow is no such case, as its kernel
//! answers for it.
//!
//! The table is long where there are many ranks, and is read only when there is a reason: the kernel counts how often it
//! waited in vain for an acknowledgement, and while that number stays as it is every connection is answered.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// A connection counts as unanswered once it was seen so for so long.
const PATIENCE: Duration = Duration::from_secs(5);
/// A request to connect was sent again so often.
const LEAST_REQUESTS: u32 = 2;
/// Data were sent again so often: with the kernel's least pause of 0.2 s, doubling, that takes 12 s.
const LEAST_REPEATS: u32 = 6;
/// Data that were sent again so often are a reason to look again soon.
const DOUBTFUL_REPEATS: u32 = 2;
/// No more entries than this are kept.
const MOST_KEPT: usize = 256;
/// No more addresses than this are told of.
const MOST_TOLD: usize = 64;
/// `include/net/tcp_states.h`.
const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
/// The timer that repeats what was not acknowledged (`Documentation/networking/proc_net_tcp.rst`).
const RETRANSMIT: u8 = 1;

/// How a connection goes unanswered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Silence {
    /// Nobody answers the request to connect.
    Connecting,
    /// It was established, and nothing is acknowledged any more.
    Established,
}

/// What has changed about the connections to one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// They go unanswered.
    Unanswered { peer: SocketAddr, how: Silence, seconds: u64 },
    /// They did, and are answered now.
    Answered { peer: SocketAddr },
}

/// One line of the table: a connection that is established, or is to be.
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

/// What was seen so far.
#[derive(Default)]
pub struct Connections {
    waiting: BTreeMap<(SocketAddr, SocketAddr), Instant>,
    /// Of whom it was told, from which own address, and whether an answer was told of too: once each, as whoever tries again
    /// and again would fill a log.
    told: BTreeMap<SocketAddr, (SocketAddr, bool)>,
    /// How often the kernel had waited in vain when the tables were last looked at.
    timeouts: Option<u64>,
    /// Whether the tables showed anything then that is worth another look.
    doubtful: bool,
}

impl Connections {
    /// Looks at the tables of this network namespace if there is a reason to; `ours` says which sockets, by inode, belong to
    /// what runs here.
    pub fn look(&mut self, now: Instant, ours: impl Fn(u64) -> bool) -> Vec<News> {
        self.look_in(|path| fs::read_to_string(path).unwrap_or_default(), now, ours)
    }

    /// Whether a connection may be about to go unanswered.
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
        let is_quiet = timeouts.is_some() && timeouts == self.timeouts;
        let waits_for_answer = self.told.values().any(|(_, answered)| !answered);
        if is_quiet && !self.doubtful && !waits_for_answer {
            return Vec::new();
        }
        self.timeouts = timeouts;
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

/// A line of `/proc/net/tcp` or `tcp6`, if it shows an established connection, or one that was asked for again and again.
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

/// How often the kernel waited in vain for an acknowledgement, in this network namespace: `TCPTimeouts` among the counters
/// of `/proc/net/netstat`, a line of names and one of numbers for each group.
fn timeouts_of(counters: &str) -> Option<u64> {
    let mut groups = counters.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, numbers) = (groups.next()?, groups.next()?);
    let place = names.split_whitespace().position(|name| name == "TCPTimeouts")?;
    numbers.split_whitespace().nth(place)?.parse().ok()
}

/// An address as the kernel writes it: words in the machine's byte order, then the port.
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
    fn only_what_goes_unanswered_for_a_while_is_told_and_told_once() {
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
    fn the_tables_are_read_only_when_the_kernel_waited_in_vain() {
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
        // What was before is not known: the first look reads both tables.
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
    fn what_belongs_to_others_is_not_told() {
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
