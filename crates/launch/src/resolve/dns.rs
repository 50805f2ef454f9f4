//! A small DNS client (RFC 1035, RFC 3596): A and AAAA over UDP, or over TCP if the answer was truncated. Bounded
//! in time, in size and in the number of questions. `simple_dns` writes and reads the messages.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Label, Name, Packet, PacketFlag, Question, RCODE, TYPE, header_buffer};

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
/// The longest name in text, and the longest label (RFC 1035, 2.3.4).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;
/// The length of a message's header, and the least length of a record.
const HEADER_BYTES: usize = 12;
const LEAST_RECORD_BYTES: usize = 11;

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
        for kind in [TYPE::A, TYPE::AAAA] {
            match ask_servers(&name, kind, asking, deadline) {
                Ok(Answer::Addresses(addresses)) => return Ok(addresses),
                Ok(Answer::Nothing) => {}
                Ok(Answer::NoName) => break,
                Err(problem) => trouble = Some(problem),
            }
            if Instant::now() >= deadline || (asking.is_settled)() {
                return Err(Unresolved::NoAnswer(trouble.unwrap_or_else(|| "timed out".into())));
            }
        }
    }
    Err(trouble.map_or(Unresolved::Unknown, Unresolved::NoAnswer))
}

fn ask_servers(name: &str, kind: TYPE, asking: &Asking, deadline: Instant) -> Result<Answer, String> {
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
    kind: TYPE,
    server: SocketAddr,
    until: Instant,
    is_settled: &dyn Fn() -> bool,
) -> io::Result<Answer> {
    let mut id = [0; 2];
    getrandom::fill(&mut id).map_err(|error| io::Error::other(error.to_string()))?;
    let Some(question) = question(id, name, kind) else { return Ok(Answer::NoName) };
    let reply = over_udp(&question, server, until, is_settled)?;
    let is_cut_short = header_buffer::has_flags(&reply, PacketFlag::TRUNCATION).unwrap_or_default();
    let reply = if is_cut_short { over_tcp(&question, server, until)? } else { reply };
    read_reply(reply, kind)
}

fn remaining(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::Error::other("no response")) } else { Ok(left) }
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
    Err(io::Error::other("only unrelated responses"))
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
    if answers(&reply, question) { Ok(reply) } else { Err(io::Error::other("unrelated response")) }
}

/// Encodes the question; `None` if the name cannot be encoded in DNS, so that it cannot exist there.
fn question(id: [u8; 2], name: &str, kind: TYPE) -> Option<Vec<u8>> {
    let label = |text: &'_ str| {
        (1..=MAX_LABEL).contains(&text.len()).then(|| Label::new_unchecked(text.as_bytes().to_vec()))
    };
    let labels = name.split('.').map(label).collect::<Option<Vec<_>>>().filter(|_| name.len() <= MAX_NAME)?;
    let name = Name::new_with_labels(&labels);
    let mut query = Packet::new_query(u16::from_be_bytes(id));
    query.set_flags(PacketFlag::RECURSION_DESIRED);
    query.questions.push(Question::new(name, kind.into(), CLASS::IN.into(), false));
    query.build_bytes_vec().ok()
}

/// Returns whether a message is a response to this very question: same id, and the question repeated.
fn answers(reply: &[u8], question: &[u8]) -> bool {
    let asked = reply.get(HEADER_BYTES..question.len());
    asked.is_some_and(|asked| asked.eq_ignore_ascii_case(&question[HEADER_BYTES..]))
        && header_buffer::id(reply) == header_buffer::id(question)
        && header_buffer::questions(reply) == Ok(1)
        && header_buffer::has_flags(reply, PacketFlag::RESPONSE) == Ok(true)
}

/// Reads the addresses in a reply. A malformed reply and a failure of the server are errors.
fn read_reply(mut reply: Vec<u8>, kind: TYPE) -> io::Result<Answer> {
    let invalid = || io::Error::other("invalid response");
    match header_buffer::rcode(&reply).map_err(|_| invalid())? {
        RCODE::NoError => {}
        RCODE::NameError => return Ok(Answer::NoName),
        RCODE::ServerFailure => return Err(io::Error::other("server failure (SERVFAIL)")),
        RCODE::Refused => return Err(io::Error::other("query refused (REFUSED)")),
        code => return Err(io::Error::other(format!("response with error {}", code as u16))),
    }
    // The parser reserves memory for as many records as the header announces.
    let announced = header_buffer::answers(&reply).map_err(|_| invalid())?;
    if usize::from(announced) > reply.len() / LEAST_RECORD_BYTES {
        return Err(invalid());
    }
    // The sections after the answers are not needed, so that nothing in them can make the parser fail.
    reply[8..HEADER_BYTES].fill(0);
    let packet = Packet::parse(&reply).map_err(|_| invalid())?;
    let mut wanted = &packet.questions.first().ok_or_else(invalid)?.qname;
    let records: Vec<_> = packet.answers.iter().filter(|record| record.class == CLASS::IN).collect();
    for _ in 0..MAX_ALIASES {
        let alias =
            records.iter().filter(|record| record.name == *wanted).find_map(|record| match &record.rdata {
                RData::CNAME(to) => Some(&to.0),
                _ => None,
            });
        match alias {
            Some(to) => wanted = to,
            None => break,
        }
    }
    let address = |data: &RData<'_>| match (kind, data) {
        (TYPE::A, RData::A(found)) => Some(IpAddr::from(found.address.to_be_bytes())),
        (TYPE::AAAA, RData::AAAA(found)) => Some(IpAddr::from(found.address.to_be_bytes())),
        _ => None,
    };
    let addresses: Vec<IpAddr> = records
        .iter()
        .filter(|record| record.name == *wanted)
        .filter_map(|record| address(&record.rdata))
        .collect();
    Ok(if addresses.is_empty() { Answer::Nothing } else { Answer::Addresses(addresses) })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const TYPE_A: u16 = 1;
    const TYPE_CNAME: u16 = 5;
    const TYPE_AAAA: u16 = 28;

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
        let query = Packet::parse(message).unwrap();
        let asked = &query.questions[0];
        behaviour(&asked.qname.to_string(), asked.qtype.into(), message, tcp)
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
        for (port, wanted) in [(failing, "SERVFAIL"), (silent, "no response")] {
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
        let question = question([1, 2], "a.b", TYPE::A).unwrap();
        let whole = [header(&question, [0x81, 0x80], 1), record(&[0xc0, 12], TYPE_A, &[1, 2, 3, 4])].concat();
        assert!(matches!(read_reply(whole.clone(), TYPE::A), Ok(Answer::Addresses(_))));
        for end in 0..whole.len() {
            answers(&whole[..end], &question);
            let _ = read_reply(whole[..end].to_vec(), TYPE::A);
        }
        for index in 0..whole.len() {
            for value in [0, 1, 63, 64, 0xc0, 0xff] {
                let mut changed = whole.clone();
                changed[index] = value;
                let _ = read_reply(changed, TYPE::A);
            }
        }
    }

    #[test]
    fn a_reply_is_read_up_to_its_answers_only() {
        let question = question([1, 2], "a.b", TYPE::A).unwrap();
        let address = record(&[0xc0, 12], TYPE_A, &[1, 2, 3, 4]);
        let mut with_more = [header(&question, [0x81, 0x80], 1), address, vec![0xff; 7]].concat();
        with_more[9] = 1;
        assert!(matches!(read_reply(with_more, TYPE::A), Ok(Answer::Addresses(_))));
        let mut without_records = header(&question, [0x81, 0x80], 0);
        without_records[6..8].fill(0xff);
        assert!(read_reply(without_records, TYPE::A).is_err());
    }
}
