//! The pods' network, set up over rtnetlink: one veth pair per pod, every pod a /32, routed and never bridged.
//!
//! It is routed because all network namespaces of a machine share the neighbour tables. A bridge with thirty pods that
//! all talk to each other overflows the tables, also for other users of the machine. A routed pod has one neighbour,
//! 169.254.1.1, the address of every outer interface. The machine's own network is never touched: "outer" here is the
//! sandbox's own network namespace.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::RawFd;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use kubelet::OWN_ADDRESS;

/// The link-local gateway of every pod, as in Calico and GKE.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// The loopback interface's index in every new network namespace.
const LOOPBACK_INDEX: u32 = 1;
/// The index that we assign to a pod's own interface.
const POD_INDEX: u32 = 2;
/// A pod's interface name, as on Kubernetes.
const POD_INTERFACE: &str = "eth0";
/// The buffer for a reply. An acknowledgement is far smaller, and the kernel never splits one.
const REPLY_BYTES: usize = 8 << 10;

/// Why a network request failed.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The socket to the kernel failed.
    #[error("rtnetlink: {0}")]
    Socket(#[from] std::io::Error),
    /// The kernel refused.
    #[error("{step}: {source}")]
    Refused {
        /// The failed step.
        step: &'static str,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The kernel sent an unexpected reply.
    #[error("{step}: unexpected answer of rtnetlink: {answer}")]
    Garbled {
        /// The failed step.
        step: &'static str,
        /// The reply.
        answer: String,
    },
}

/// A connection to the kernel, for the network namespace in which it was opened.
pub struct Network {
    socket: Socket,
    sequence: u32,
}

impl Network {
    /// Opens a connection for the calling process's network namespace.
    ///
    /// # Errors
    /// When the kernel refuses the socket.
    pub fn open() -> Result<Network, NetworkError> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Network { socket, sequence: 0 })
    }

    /// Sets up the outer namespace: loopback, the address of the API for pods, and forwarding between pods.
    ///
    /// # Errors
    /// When the kernel refuses a step.
    pub fn prepare_outer(&mut self) -> Result<(), NetworkError> {
        self.raise(LOOPBACK_INDEX)?;
        self.add_address(LOOPBACK_INDEX, OWN_ADDRESS)?;
        // Strict reverse path filtering: a packet must come from the interface that leads to its source. So no pod can
        // use another pod's address, by which network policies identify it. The kernel applies the stricter of `all`
        // and the interface's own setting, which starts as `default`.
        for interfaces in ["all", "default"] {
            std::fs::write(format!("/proc/sys/net/ipv4/conf/{interfaces}/rp_filter"), "1").map_err(
                |source| NetworkError::Refused { step: "check the source addresses of packets", source },
            )?;
        }
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")
            .map_err(|source| NetworkError::Refused { step: "allow forwarding between pods", source })
    }

    /// Creates the pair of interfaces for a pod whose network namespace is `namespace`. `index` is unique per pod.
    ///
    /// # Errors
    /// When the kernel refuses a step.
    pub fn connect_pod(
        &mut self,
        index: u32,
        address: Ipv4Addr,
        namespace: RawFd,
    ) -> Result<(), NetworkError> {
        let mut peer = LinkMessage::default();
        peer.header.index = POD_INDEX;
        peer.attributes =
            vec![LinkAttribute::IfName(POD_INTERFACE.to_owned()), LinkAttribute::NetNsFd(namespace)];
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        link.attributes = vec![
            LinkAttribute::IfName(format!("pod{index}")),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
            ]),
        ];
        self.create("create a pod's interface", RouteNetlinkMessage::NewLink(link))?;
        self.add_address(index, GATEWAY)?;
        self.add_route(index, Some(address), None, None)
    }

    /// Removes a pod's pair of interfaces. A missing pair is not an error.
    pub fn disconnect_pod(&mut self, index: u32) {
        let mut link = LinkMessage::default();
        link.header.index = index;
        let _ = self.request("remove a pod's interface", RouteNetlinkMessage::DelLink(link), 0);
    }

    /// Sets up a pod's own interface. Must be called inside the pod's network namespace, after
    /// [`Network::connect_pod`].
    ///
    /// # Errors
    /// When the kernel refuses a step.
    pub fn configure_pod(&mut self, address: Ipv4Addr) -> Result<(), NetworkError> {
        self.raise(LOOPBACK_INDEX)?;
        self.raise(POD_INDEX)?;
        self.add_address(POD_INDEX, address)?;
        self.add_route(POD_INDEX, Some(GATEWAY), None, None)?;
        self.add_route(POD_INDEX, None, Some(GATEWAY), Some(address))
    }

    fn raise(&mut self, index: u32) -> Result<(), NetworkError> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        self.request("bring an interface up", RouteNetlinkMessage::SetLink(link), 0)
    }

    fn add_address(&mut self, index: u32, address: Ipv4Addr) -> Result<(), NetworkError> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = 32;
        message.header.index = index;
        let address = IpAddr::V4(address);
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        self.create("assign an address to an interface", RouteNetlinkMessage::NewAddress(message))
    }

    /// Adds a route to one address, or the default route if `destination` is `None`.
    fn add_route(
        &mut self,
        index: u32,
        destination: Option<Ipv4Addr>,
        gateway: Option<Ipv4Addr>,
        source: Option<Ipv4Addr>,
    ) -> Result<(), NetworkError> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Boot;
        message.header.kind = RouteType::Unicast;
        message.header.scope = if gateway.is_some() { RouteScope::Universe } else { RouteScope::Link };
        message.attributes.push(RouteAttribute::Oif(index));
        if let Some(destination) = destination {
            message.header.destination_prefix_length = 32;
            message.attributes.push(RouteAttribute::Destination(RouteAddress::Inet(destination)));
        }
        if let Some(gateway) = gateway {
            message.attributes.push(RouteAttribute::Gateway(RouteAddress::Inet(gateway)));
        }
        if let Some(source) = source {
            message.attributes.push(RouteAttribute::PrefSource(RouteAddress::Inet(source)));
        }
        self.create("add a route", RouteNetlinkMessage::NewRoute(message))
    }

    fn create(&mut self, step: &'static str, message: RouteNetlinkMessage) -> Result<(), NetworkError> {
        self.request(step, message, NLM_F_CREATE | NLM_F_EXCL)
    }

    fn request(
        &mut self,
        step: &'static str,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), NetworkError> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut reply = Vec::with_capacity(REPLY_BYTES);
        self.socket.recv(&mut reply, 0)?;
        match NetlinkMessage::<RouteNetlinkMessage>::deserialize(&reply).map(|reply| reply.payload) {
            Ok(NetlinkPayload::Error(answer)) if answer.code.is_none() => Ok(()),
            Ok(NetlinkPayload::Error(answer)) => Err(NetworkError::Refused { step, source: answer.to_io() }),
            other => Err(NetworkError::Garbled { step, answer: format!("{other:?}") }),
        }
    }
}
