//! A small DNS client (RFC 1035, RFC 3596): A and AAAA over UDP, or over TCP if the answer was truncated. Bounded
//! in time, in size and in the number of questions.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::Unresolved;
use super::resolv_conf::ResolvConf;

/// The longest time for one name, whatever the configuration says; the caller retries anyway.
const MAX_TIME: Duration = Duration::from_secs(20);
/// UDP answers without EDNS0 have at most 512 bytes. A server may send more; anything beyond this is cut.
const MAX_DATAGRAM: usize = 4096;
/// The most aliases followed in a chain.
const MAX_ALIASES: usize = 8;
/// How often the wait for a server checks whether the answer is still wanted.
const LOOK_UP_EVERY: Duration = Duration::from_millis(100);
/// The most datagrams skipped because they do not answer the question.
const MAX_STRAY_DATAGRAMS: usize = 32;
/// The most pointers followed within one compressed name.
const MAX_POINTERS: usize = 32;

const TYPE_A: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_AAAA: u16 = 28;
const CLASS_IN: u16 = 1;

/// The outcome of one question.
enum Answer {
    Addresses(Vec<IpAddr>),
    /// The name exists, but has no address of this kind.
    Nothing,
    /// The name does not exist, whatever the kind.
    NoName,
}

/// The parameters of a lookup.
pub struct Asking<'a> {
    /// The name servers, timeouts and retries.
    pub conf: &'a ResolvConf,
    /// The port of the name servers.
    pub port: u16,
    /// Returns whether the answer is no longer wanted. Polled while a server is silent.
    pub is_settled: &'a dyn Fn() -> bool,
}

/// Asks for every candidate name in turn; the first with an address wins.
pub fn resolve(host: &str, asking: &Asking) -> Result<Vec<IpAddr>, Unresolved> {
    let deadline = Instant::now() + MAX_TIME;
    let mut trouble = None;
    for name in asking.conf.candidates(host) {
        for kind in [TYPE_A, TYPE_AAAA] {
            match ask_servers(&name, kind, asking, deadline) {
                Ok(Answer::Addresses(addresses)) => return Ok(addresses),
                Ok(Answer::Nothing) => {}
                Ok(Answer::NoName) => break,
                Err(problem) => trouble = Some(problem),
            }
            if Instant::now() >= deadline || (asking.is_settled)() {
                return Err(Unresolved::NoAnswer(trouble.unwrap_or_else(|| "it took too long".into())));
            }
        }
    }
    Err(trouble.map_or(Unresolved::Unknown, Unresolved::NoAnswer))
}

fn ask_servers(name: &str, kind: u16, asking: &Asking, deadline: Instant) -> Result<Answer, String> {
    let mut problem = String::from("no name server");
    for _ in 0..asking.conf.attempts {
        for server in &asking.conf.servers {
            let until = deadline.min(Instant::now() + asking.conf.timeout);
            match ask(name, kind, SocketAddr::new(*server, asking.port), until, asking.is_settled) {
                Ok(answer) => return Ok(answer),
                Err(error) => problem = format!("name server {server}: {error}"),
            }
            if Instant::now() >= deadline || (asking.is_settled)() {
                return Err(problem);
            }
        }
    }
    Err(problem)
}

fn ask(
    name: &str,
    kind: u16,
    server: SocketAddr,
    until: Instant,
    is_settled: &dyn Fn() -> bool,
) -> io::Result<Answer> {
    let mut id = [0; 2];
    getrandom::fill(&mut id).map_err(|error| io::Error::other(error.to_string()))?;
    let Some(question) = question(id, name, kind) else { return Ok(Answer::NoName) };
    let reply = over_udp(&question, server, until, is_settled)?;
    let reply = if is_cut_short(&reply) { over_tcp(&question, server, until)? } else { reply };
    read_reply(&reply, &question, kind).ok_or_else(|| io::Error::other("its answer makes no sense"))?
}

fn remaining(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::Error::other("it does not answer")) } else { Ok(left) }
}

fn over_udp(
    question: &[u8],
    server: SocketAddr,
    until: Instant,
    is_settled: &dyn Fn() -> bool,
) -> io::Result<Vec<u8>> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    // A connected socket receives datagrams from this server only.
    socket.connect(server)?;
    socket.send(question)?;
    let mut buffer = [0; MAX_DATAGRAM];
    let mut strays = 0;
    while strays < MAX_STRAY_DATAGRAMS && !is_settled() {
        socket.set_read_timeout(Some(remaining(until)?.min(LOOK_UP_EVERY)))?;
        match socket.recv(&mut buffer) {
            Ok(length) if answers(&buffer[..length], question) => return Ok(buffer[..length].to_vec()),
            Ok(_) => strays += 1,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("it answers other questions only"))
}

fn over_tcp(question: &[u8], server: SocketAddr, until: Instant) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, remaining(until)?)?;
    stream.set_write_timeout(Some(remaining(until)?))?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], question].concat())?;
    let mut prefix = [0; 2];
    stream.set_read_timeout(Some(remaining(until)?))?;
    stream.read_exact(&mut prefix)?;
    let mut reply = vec![0; usize::from(u16::from_be_bytes(prefix))];
    stream.set_read_timeout(Some(remaining(until)?))?;
    stream.read_exact(&mut reply)?;
    if answers(&reply, question) { Ok(reply) } else { Err(io::Error::other("it answers another question")) }
}

/// Encodes the question; `None` if the name cannot be encoded in DNS, so that it cannot exist there.
fn question(id: [u8; 2], name: &str, kind: u16) -> Option<Vec<u8>> {
    let mut message = vec![id[0], id[1], 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0]; // recursion desired, one question
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length))?;
        message.push(length);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&CLASS_IN.to_be_bytes());
    (name.len() <= 253).then_some(message)
}

/// Returns whether a message is a response to this very question: same id, and the question repeated.
fn answers(reply: &[u8], question: &[u8]) -> bool {
    let (Some(head), Some(asked)) = (reply.get(..12), reply.get(12..question.len())) else { return false };
    head[..2] == question[..2]
        && head[2] & 0x80 != 0
        && head[4..6] == [0, 1]
        && asked.eq_ignore_ascii_case(&question[12..])
}

fn is_cut_short(reply: &[u8]) -> bool {
    reply.get(2).is_some_and(|flags| flags & 0x02 != 0)
}

/// Reads the addresses in a reply; `None` if it is malformed. A failure of the server is an error.
fn read_reply(reply: &[u8], question: &[u8], kind: u16) -> Option<io::Result<Answer>> {
    match reply.get(3)? & 0x0f {
        0 => {}
        3 => return Some(Ok(Answer::NoName)),
        2 => return Some(Err(io::Error::other("it has failed (SERVFAIL)"))),
        5 => return Some(Err(io::Error::other("it refuses to answer (REFUSED)"))),
        code => return Some(Err(io::Error::other(format!("it answers with error {code}")))),
    }
    let records = read_records(reply, question.len())?;
    let mut wanted = read_name(reply, 12)?.0;
    for _ in 0..MAX_ALIASES {
        let alias = records.iter().find(|record| record.kind == TYPE_CNAME && record.name == wanted);
        match alias {
            Some(record) => wanted = read_name(reply, record.data.0)?.0,
            None => break,
        }
    }
    let addresses: Vec<IpAddr> = records
        .iter()
        .filter(|record| record.kind == kind && record.name == wanted)
        .filter_map(|record| address(reply.get(record.data.0..record.data.1)?))
        .collect();
    Some(Ok(if addresses.is_empty() { Answer::Nothing } else { Answer::Addresses(addresses) }))
}

struct Record {
    name: Vec<u8>,
    kind: u16,
    /// The start and end of its data in the message.
    data: (usize, usize),
}

fn read_records(reply: &[u8], mut at: usize) -> Option<Vec<Record>> {
    let count = usize::from(u16::from_be_bytes(reply.get(6..8)?.try_into().ok()?));
    let mut records = Vec::new();
    for _ in 0..count {
        let (name, after) = read_name(reply, at)?;
        let fixed: &[u8; 10] = reply.get(after..after + 10)?.try_into().ok()?;
        let begin = after + 10;
        let end = begin + usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        reply.get(begin..end)?;
        if u16::from_be_bytes([fixed[2], fixed[3]]) == CLASS_IN {
            records.push(Record { name, kind: u16::from_be_bytes([fixed[0], fixed[1]]), data: (begin, end) });
        }
        at = end;
    }
    Some(records)
}

/// Reads a name. Returns it in lower case with its length bytes, and the offset after it.
fn read_name(reply: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let mut name = Vec::new();
    let mut after = None;
    let mut pointers = 0;
    loop {
        match *reply.get(at)? {
            0 => return Some((name, after.unwrap_or(at + 1))),
            length @ 1..=63 => {
                let end = at + 1 + usize::from(length);
                name.push(length);
                name.extend(reply.get(at + 1..end)?.iter().map(u8::to_ascii_lowercase));
                at = end;
            }
            high @ 0xc0..=0xff => {
                pointers += 1;
                if pointers > MAX_POINTERS {
                    return None;
                }
                after.get_or_insert(at + 2);
                at = usize::from(u16::from_be_bytes([high & 0x3f, *reply.get(at + 1)?]));
            }
            _ => return None,
        }
        if name.len() > 255 {
            return None;
        }
    }
}

fn address(data: &[u8]) -> Option<IpAddr> {
    match data.len() {
        4 => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// How a server on loopback answers a question; `None` means not at all.
    type Behaviour = fn(&str, u16, &[u8], bool) -> Option<Vec<u8>>;

    /// A name server over UDP and TCP on one port of loopback. It ends with the test's process.
    fn server(behaviour: Behaviour) -> u16 {
        let (udp, tcp) = (0..50)
            .find_map(|_| {
                let udp = UdpSocket::bind("127.0.0.1:0").ok()?;
                let tcp = TcpListener::bind(udp.local_addr().ok()?).ok()?;
                Some((udp, tcp))
            })
            .unwrap();
        let port = udp.local_addr().unwrap().port();
        thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((length, peer)) = udp.recv_from(&mut buffer) {
                if let Some(reply) = reply(behaviour, &buffer[..length], false) {
                    udp.send_to(&reply, peer).unwrap();
                }
            }
        });
        thread::spawn(move || {
            for stream in tcp.incoming() {
                let mut stream = stream.unwrap();
                let mut prefix = [0; 2];
                stream.read_exact(&mut prefix).unwrap();
                let mut message = vec![0; usize::from(u16::from_be_bytes(prefix))];
                stream.read_exact(&mut message).unwrap();
                let reply = reply(behaviour, &message, true).unwrap();
                stream.write_all(&(reply.len() as u16).to_be_bytes()).unwrap();
                stream.write_all(&reply).unwrap();
            }
        });
        port
    }

    fn reply(behaviour: Behaviour, message: &[u8], tcp: bool) -> Option<Vec<u8>> {
        let (labels, after) = read_name(message, 12).unwrap();
        let mut name = String::new();
        let mut rest = &labels[..];
        while let Some((length, tail)) = rest.split_first() {
            let (label, tail) = tail.split_at(usize::from(*length));
            name.push_str(std::str::from_utf8(label).unwrap());
            name.push('.');
            rest = tail;
        }
        let kind = u16::from_be_bytes([message[after], message[after + 1]]);
        behaviour(name.trim_end_matches('.'), kind, message, tcp)
    }

    fn header(question: &[u8], flags: [u8; 2], answers: u8) -> Vec<u8> {
        let mut reply = question.to_vec();
        reply[2..4].copy_from_slice(&flags);
        reply[7] = answers;
        reply
    }

    fn record(name: &[u8], kind: u16, data: &[u8]) -> Vec<u8> {
        [name, &kind.to_be_bytes(), &[0, 1, 0, 0, 0, 5], &(data.len() as u16).to_be_bytes(), data].concat()
    }

    /// Knows one name, by an alias; a name that begins with `big` is resolved over TCP only.
    fn ordinary(name: &str, kind: u16, question: &[u8], tcp: bool) -> Option<Vec<u8>> {
        if name.starts_with("big") && !tcp {
            return Some(header(question, [0x83, 0x80], 0));
        }
        match (name, kind) {
            ("w-0.job.ns.svc.cluster.local" | "big.cluster.local", TYPE_A) => {
                let alias = record(&[0xc0, 12], TYPE_CNAME, b"\x04real\xc0\x0c");
                let at = question.len() + 12;
                let real = record(&[0xc0 | (at >> 8) as u8, at as u8], TYPE_A, &[10, 1, 2, 3]);
                Some([header(question, [0x81, 0x80], 2), alias, real].concat())
            }
            ("six.cluster.local", TYPE_AAAA) => {
                let address = Ipv6Addr::LOCALHOST.octets();
                Some([header(question, [0x81, 0x80], 1), record(&[0xc0, 12], TYPE_AAAA, &address)].concat())
            }
            ("six.cluster.local", _) => Some(header(question, [0x81, 0x80], 0)),
            _ => Some(header(question, [0x81, 0x83], 0)),
        }
    }

    fn conf(options: &str) -> ResolvConf {
        super::super::resolv_conf::parse(&format!(
            "nameserver 127.0.0.1\nsearch ns.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5 {options}\n"
        ))
    }

    fn resolve(host: &str, conf: &ResolvConf, port: u16) -> Result<Vec<IpAddr>, Unresolved> {
        super::resolve(host, &Asking { conf, port, is_settled: &|| false })
    }

    #[test]
    fn names_are_found_through_the_search_list_aliases_and_tcp() {
        let port = server(ordinary);
        let conf = conf("");
        for (host, address) in [("w-0.job.ns.svc", "10.1.2.3"), ("big", "10.1.2.3"), ("six", "::1")] {
            assert_eq!(resolve(host, &conf, port), Ok(vec![address.parse().unwrap()]), "{host}");
        }
        assert_eq!(resolve("w-1.job.ns.svc", &conf, port), Err(Unresolved::Unknown));
        assert_eq!(resolve("a..b", &conf, port), Err(Unresolved::Unknown));
    }

    #[test]
    fn a_server_failure_is_not_an_unknown_name() {
        let failing = server(|_, _, question, _| Some(header(question, [0x81, 0x82], 0)));
        let silent = server(|_, _, _, _| None);
        for (port, wanted) in [(failing, "SERVFAIL"), (silent, "does not answer")] {
            let mut conf = conf("attempts:1");
            conf.timeout = Duration::from_millis(50);
            let fault = resolve("w-0", &conf, port).unwrap_err();
            assert!(matches!(&fault, Unresolved::NoAnswer(text) if text.contains(wanted)), "{fault}");
        }
    }

    #[test]
    fn a_silent_server_does_not_hold_up_an_answer_from_elsewhere() {
        let conf = conf("timeout:30 attempts:5");
        let port = server(|_, _, _, _| None);
        let begun = Instant::now();
        let is_settled = || begun.elapsed() > Duration::from_millis(200);
        let outcome = super::resolve("w-0", &Asking { conf: &conf, port, is_settled: &is_settled });
        assert!(matches!(outcome, Err(Unresolved::NoAnswer(_))));
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }

    #[test]
    fn forged_and_broken_answers_are_ignored() {
        let forged = server(|_, _, question, _| {
            let mut reply = header(question, [0x81, 0x80], 1);
            reply[0] ^= 1;
            Some(reply)
        });
        let looped = server(|_, _, question, _| {
            let at = question.len() as u8;
            Some([header(question, [0x81, 0x80], 1), record(&[0xc0, at], TYPE_A, &[1, 2, 3, 4])].concat())
        });
        for port in [forged, looped] {
            let mut conf = conf("attempts:1");
            conf.timeout = Duration::from_millis(50);
            assert!(matches!(resolve("w-0", &conf, port), Err(Unresolved::NoAnswer(_))));
        }
    }

    #[test]
    fn no_message_makes_the_reader_panic() {
        let question = question([1, 2], "a.b", TYPE_A).unwrap();
        let whole = [header(&question, [0x81, 0x80], 1), record(&[0xc0, 12], TYPE_A, &[1, 2, 3, 4])].concat();
        for end in 0..whole.len() {
            read_reply(&whole[..end], &question, TYPE_A);
        }
        for index in 0..whole.len() {
            for value in [0, 1, 63, 64, 0xc0, 0xff] {
                let mut changed = whole.clone();
                changed[index] = value;
                read_reply(&changed, &question, TYPE_A);
            }
        }
    }
}
