//! The pods' name server, over UDP and TCP, in the network that forwards all pods' packets.
//!
//! [`names`] resolves names, [`Negatives`] remembers those that did not exist; this module handles packets. Names outside the cluster domain do not exist, because pods
//! reach nothing outside. Malformed queries and connections beyond [`MAX_CLIENTS`] are dropped.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use simple_dns::rdata::{A, CNAME, PTR, RData, SRV};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use super::names::{self, Directory, Record, Wanted};
use super::negatives::Negatives;

/// The address of every pod's outer interface (`sandbox::network`).
pub const SERVER: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// The port of DNS.
pub const PORT: u16 = 53;
/// How long an answer may be cached, in seconds; CoreDNS's default.
const TTL_SECONDS: u32 = 5;
/// The longest query that is read.
const MAX_QUESTION_BYTES: usize = 4096;
/// The longest answer over UDP without EDNS (RFC 1035). Clients retry longer ones over TCP.
const MAX_DATAGRAM_BYTES: usize = 512;
/// The longest answer over TCP.
const MAX_ANSWER_BYTES: usize = 65535;
/// Simultaneous connections.
const MAX_CLIENTS: usize = 64;
/// How long a connection may be idle.
const SILENCE: Duration = Duration::from_secs(5);

/// The name server's sockets.
pub struct Sockets {
    /// UDP.
    pub datagrams: UdpSocket,
    /// TCP.
    pub connections: TcpListener,
}

/// Answers queries until dropped.
pub async fn serve(sockets: &Sockets, directory: Arc<dyn Directory>, negatives: Arc<Negatives>) {
    let Sockets { datagrams, connections } = sockets;
    let clients = Arc::new(Semaphore::new(MAX_CLIENTS));
    let packets = async {
        let mut question = vec![0; MAX_QUESTION_BYTES];
        loop {
            let Ok((length, from)) = datagrams.recv_from(&mut question).await else { continue };
            if let Some(answer) = answer(&*directory, &negatives, &question[..length], MAX_DATAGRAM_BYTES) {
                // A client that misses the answer retries.
                let _ = datagrams.send_to(&answer, from).await;
            }
        }
    };
    let streams = async {
        let mut open = tokio::task::JoinSet::new();
        loop {
            let Ok((stream, _)) = connections.accept().await else { continue };
            while open.try_join_next().is_some() {}
            if let Ok(permit) = clients.clone().try_acquire_owned() {
                let (directory, negatives) = (directory.clone(), negatives.clone());
                open.spawn(async move {
                    let _permit = permit;
                    let _ = converse(stream, &*directory, &negatives).await;
                });
            }
        }
    };
    tokio::join!(packets, streams);
}

/// Answers length-prefixed queries until the client closes the connection.
async fn converse(
    mut stream: TcpStream,
    directory: &dyn Directory,
    negatives: &Negatives,
) -> std::io::Result<()> {
    loop {
        let read = async {
            let length = usize::from(stream.read_u16().await?);
            let mut question = vec![0; length.min(MAX_QUESTION_BYTES)];
            stream.read_exact(&mut question).await?;
            Ok::<_, std::io::Error>(question)
        };
        let question = tokio::time::timeout(SILENCE, read).await??;
        let Some(answer) = answer(directory, negatives, &question, MAX_ANSWER_BYTES) else { return Ok(()) };
        stream.write_u16(u16::try_from(answer.len()).unwrap_or(u16::MAX)).await?;
        stream.write_all(&answer).await?;
    }
}

/// Returns the answer to a query. An answer longer than `most` bytes is truncated and marked so.
fn answer(directory: &dyn Directory, negatives: &Negatives, question: &[u8], most: usize) -> Option<Vec<u8>> {
    let packet = Packet::parse(question).ok().filter(|packet| !packet.has_flags(PacketFlag::RESPONSE))?;
    let asked = packet.questions.first()?;
    let name = asked.qname.to_string().trim_end_matches('.').to_ascii_lowercase();
    let wanted = match asked.qtype {
        QTYPE::TYPE(TYPE::A) | QTYPE::ANY => Wanted::Address,
        QTYPE::TYPE(TYPE::SRV) => Wanted::Port,
        QTYPE::TYPE(TYPE::PTR) => Wanted::Name,
        _ => Wanted::Other,
    };
    let found = negatives.or_else(&name, wanted, Instant::now(), || names::lookup(directory, &name, wanted));
    let mut reply = Packet::new_reply(packet.id());
    reply.set_flags(PacketFlag::AUTHORITATIVE_ANSWER | PacketFlag::RECURSION_AVAILABLE);
    if packet.has_flags(PacketFlag::RECURSION_DESIRED) {
        reply.set_flags(PacketFlag::RECURSION_DESIRED);
    }
    reply.questions.push(asked.clone());
    match &found {
        None => *reply.rcode_mut() = RCODE::NameError,
        Some(records) => {
            for record in records {
                let data = data(record)?;
                reply.answers.push(ResourceRecord::new(asked.qname.clone(), CLASS::IN, TTL_SECONDS, data));
            }
        }
    }
    let bytes = reply.build_bytes_vec_compressed().ok()?;
    if bytes.len() <= most {
        return Some(bytes);
    }
    reply.answers.clear();
    reply.set_flags(PacketFlag::TRUNCATION);
    reply.build_bytes_vec_compressed().ok()
}

fn data(record: &Record) -> Option<RData<'_>> {
    Some(match record {
        Record::Address(address) => RData::A(A { address: (*address).into() }),
        Record::Port(port, target) => {
            RData::SRV(SRV { priority: 0, weight: 100, port: *port, target: Name::new(target).ok()? })
        }
        Record::Name(name) => RData::PTR(PTR(Name::new(name).ok()?)),
        Record::Alias(name) => RData::CNAME(CNAME(Name::new(name).ok()?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Service;
    use k8s_openapi::api::discovery::v1::EndpointSlice;
    use proptest::prelude::*;
    use simple_dns::{QCLASS, Question};

    /// A headless Service `many` in namespace `n` with the given number of endpoints.
    struct Many(usize);

    impl Directory for Many {
        fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>> {
            let made = serde_json::json!({"metadata": {}, "spec": {"clusterIP": "None"}});
            ((namespace, name) == ("n", "many")).then(|| serde_json::from_value(made).map(Arc::new).unwrap())
        }

        fn slices(&self, _namespace: &str, _name: &str) -> Vec<Arc<EndpointSlice>> {
            let endpoints: Vec<_> = (0..self.0)
                .map(|number| serde_json::json!({"addresses": [format!("10.77.{}.{}", number / 250, number % 250 + 1)]}))
                .collect();
            let slice = serde_json::json!({"metadata": {}, "addressType": "IPv4", "endpoints": endpoints});
            vec![Arc::new(serde_json::from_value(slice).unwrap())]
        }

        fn services(&self) -> Vec<Arc<Service>> {
            Vec::new()
        }
    }

    fn ask(name: &str) -> Vec<u8> {
        let mut packet = Packet::new_query(7);
        let name = Name::new_unchecked(name);
        packet.questions.push(Question::new(name, TYPE::A.into(), QCLASS::CLASS(CLASS::IN), false));
        packet.build_bytes_vec().unwrap()
    }

    fn none() -> Negatives {
        Negatives::new(Duration::ZERO)
    }

    #[test]
    fn long_answers_are_truncated() {
        let bytes = answer(&Many(2), &none(), &ask("Many.N.svc.cluster.local"), MAX_DATAGRAM_BYTES).unwrap();
        let reply = Packet::parse(&bytes).unwrap();
        assert_eq!((reply.id(), reply.rcode(), reply.answers.len()), (7, RCODE::NoError, 2));
        let bytes = answer(&Many(2), &none(), &ask("other.n.svc.cluster.local"), MAX_DATAGRAM_BYTES).unwrap();
        assert_eq!(Packet::parse(&bytes).unwrap().rcode(), RCODE::NameError);
        let bytes =
            answer(&Many(500), &none(), &ask("many.n.svc.cluster.local"), MAX_DATAGRAM_BYTES).unwrap();
        let reply = Packet::parse(&bytes).unwrap();
        assert!(reply.has_flags(PacketFlag::TRUNCATION) && reply.answers.is_empty());
        let bytes = answer(&Many(500), &none(), &ask("many.n.svc.cluster.local"), MAX_ANSWER_BYTES).unwrap();
        assert_eq!(Packet::parse(&bytes).unwrap().answers.len(), 500);
    }

    proptest! {
        #[test]
        fn no_packet_causes_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), place in 0usize..40, value in any::<u8>()) {
            let _ = answer(&Many(1), &none(), &bytes, MAX_DATAGRAM_BYTES);
            let mut question = ask("many.n.svc.cluster.local");
            if let Some(byte) = question.get_mut(place) {
                *byte = value;
            }
            let _ = answer(&Many(1), &none(), &question, MAX_DATAGRAM_BYTES);
        }
    }
}
