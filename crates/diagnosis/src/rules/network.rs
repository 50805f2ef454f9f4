//! Failures of daemons and ranks to reach one another: MPI, UCX, NCCL, Gloo, PyTorch's rendezvous.

use super::super::cause::Cause;
use super::weight::{CONNECT, CONSEQUENCE, EXIT, REASON, ROOT, SYMPTOM, WARNING};
use super::{Rule, Speaker, rule};

/// The other end of one of Gloo's connections: `[10.0.0.7]:40213`.
macro_rules! gloo_peer {
    () => {
        r"(?:\[(?P<peer>[\d.:a-f]+)\]:?(?P<port>\d*))"
    };
}

const RENDEZVOUS_ADVICE: &str = "Check that MASTER_ADDR and MASTER_PORT name rank 0's host (a Worker, mostly the first, not the Launcher) and a port that is free there, and that rank 0 has started and not ended before: read what it printed. Look at NetworkPolicies only if both are right.";
const REFUSED_ADVICE: &str = "The Worker there was reached, and no process listens on that port: look for the rank that ended first. If none has, check that all Workers use the same interface (btl_tcp_if_include, UCX_NET_DEVICES) and are not behind a service mesh or a NetworkPolicy that rejects.";
const PEER_ADVICE: &str = "Look for the rank at that address: where a connection is refused, it has mostly ended, so read what it printed. Where nothing answers, check that ranks use an interface that all Workers share (GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME), and then NetworkPolicies.";

pub(super) const RULES: &[Rule] = &[
    // Back to the launcher
    rule(
        "oob-connect",
        Cause::CallbackBlocked,
        ROOT - 3,
        "daemon was unable to complete a TCP connection",
        r"^A (?:process or )?daemon was unable to complete a TCP connection",
        "A process or daemon was unable to complete a TCP connection\nto another process:\n  Local host:    train-worker-1\n  Remote host:   train-launcher",
    )
    .details(&[r"Local host: +(?P<host>\S+)", r"Remote host: +(?P<peer>\S+)"]),
    rule(
        "errmgr-no-connect",
        Cause::CallbackBlocked,
        CONNECT,
        "is unable to establish a communication connection to the",
        r"(?:ORTE|PRTE) is unable to establish a communication connection to the",
        "ORTE is unable to establish a communication connection to the\nspecified daemon located on the indicated node:\n\n  my node:   train-worker-0\n  target node:  train-launcher",
    )
    .details(&[r"my node: +(?P<host>\S+)", r"target node: +(?P<peer>\S+)"]),
    rule(
        "hydra-callback",
        Cause::CallbackBlocked,
        ROOT - 3,
        "unable to connect from \"",
        r#"unable to connect from "(?P<host>[^"]+)" to "(?P<peer>[^"]+)" \((?P<reason>[^)]+)\)"#,
        "[proxy:0:0@train-worker-0] HYDU_sock_connect (utils/sock/sock.c:141): unable to connect from \"train-worker-0\" to \"train-launcher\" (Connection timed out)",
    ),
    rule(
        "hydra-callback-server",
        Cause::CallbackBlocked,
        CONNECT,
        "unable to connect to server ",
        r"\[proxy:[^@\]]*@(?P<host>[^\]]+)\].*unable to connect to server (?P<peer>[^\s:]+)",
        "[proxy:0:0@train-worker-0] main (pm/pmiserv/pmip.c:183): unable to connect to server train-launcher at port 33211 (check for firewalls!)",
    ),
    rule(
        "agent-no-answer-back",
        Cause::CallbackBlocked,
        ROOT - 4,
        ": no answer from the Launcher at ",
        r"^odh-launch: (?P<host>\S+): no answer from the Launcher at (?P<peer>\S+) port (?P<port>\d+)",
        "odh-launch: train-worker-0: no answer from the Launcher at 10.0.0.5 port 43915 for 6 s: packets to it are dropped, or its machine is down",
    )
    .says("MPI communication failure – check NetworkPolicies: {host|a Worker} cannot connect back to the Launcher at {peer|} port {port|}: packets are dropped"),
    // Between ranks. A refusal or a time-out shows that nothing answers at an address, not why: a wrong address and a rank
    // that has ended are likelier than a NetworkPolicy.
    rule(
        "rendezvous-timeout",
        Cause::RankExited,
        REASON + 2,
        "The client socket has ",
        r"The client socket has (?:timed out after \S+ while trying to connect to|failed to connect to any network address of) \(?(?P<peer>[\w.:-]+), ?(?P<port>\d+)\)?",
        "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (train-worker-0, 29500).",
    )
    .by(Speaker::Rank)
    .says("{who|A rank} got no answer from PyTorch's rendezvous at {peer|rank 0} port {port|}")
    .advice(RENDEZVOUS_ADVICE),
    // Ranks try again after this.
    rule(
        "rendezvous-refused",
        Cause::RankExited,
        EXIT + 4,
        "The client socket has failed to connect to ",
        r"The client socket has failed to connect to \[(?P<peer>[^\]]+)\]:(?P<port>\d+) \(errno: \d+ - (?P<reason>[^)]+)",
        "[W socket.cpp:601] [c10d] The client socket has failed to connect to [train-worker-0]:29500 (errno: 111 - Connection refused).",
    )
    .by(Speaker::Rank)
    .says("{who|A rank} could not connect to PyTorch's rendezvous at {peer|rank 0} port {port|}: {reason|no answer}")
    .advice(RENDEZVOUS_ADVICE),
    rule(
        "rendezvous-incomplete",
        Cause::RankExited,
        REASON + 1,
        " clients joined",
        r"[Tt]imed out after (?P<seconds>\d+) seconds waiting for clients\. (?P<count>\d+/\d+) clients joined",
        "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined.",
    )
    .by(Speaker::Rank)
    .says("Only {count|some} of the ranks joined PyTorch's rendezvous within {seconds|some} s")
    .advice("Look for the rank that did not start or has ended, and check that WORLD_SIZE is the number of ranks and that MASTER_ADDR and MASTER_PORT are the same in all of them."),
    rule(
        "gloo-refused",
        Cause::RankExited,
        REASON,
        "gloo/transport/tcp/",
        concat!(r"gloo/transport/tcp/\S+\]? ?.*(?:[Cc]onnect|SO_ERROR).*?", gloo_peer!(), r".*: (?P<reason>Connection refused|Connection timed out)"),
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [10.0.0.7]:40213: Connection refused",
    )
    .by(Speaker::Rank)
    .says("{who|A rank} could not connect to {peer|another rank} (Gloo): {reason|no answer}")
    .advice(PEER_ADVICE),
    rule(
        "gloo-connect-timeout",
        Cause::RankExited,
        REASON,
        "onnect timeout",
        concat!(r"gloo/transport/tcp/\S+\]? ?.*[Cc]onnect timeout ?", gloo_peer!(), "?"),
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:144] Connect timeout [10.0.0.7]:40213",
    )
    .by(Speaker::Rank)
    .says("{who|A rank} could not connect to {peer|another rank} (Gloo): no answer")
    .advice(PEER_ADVICE),
    rule(
        "nccl-refused",
        Cause::RankExited,
        REASON + 2,
        "NCCL WARN ",
        r"(?:(?P<host>[\w.-]+):\d+:\d+ \[\d+\] .*)?NCCL WARN .*[Cc]onnect(?:ion)? to (?P<peer>[^\s<]+)<(?P<port>\d+)> failed ?:? (?P<reason>Connection refused|Connection timed out|Software caused connection abort)",
        "train-worker-1:37:112 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.7<45763> failed : Connection refused",
    )
    .by(Speaker::Rank)
    .says("NCCL on {host|a Worker} could not connect to {peer|another Worker} port {port|}: {reason|}")
    .advice(PEER_ADVICE),
    // Between Workers
    rule(
        "agent-no-answer",
        Cause::PeerUnreachable,
        CONNECT + 4,
        ": no answer from ",
        r"^odh-launch: (?P<host>\S+): no answer from (?P<peer>[^\s]*[.:][^\s]*) port (?P<port>\d+)",
        "odh-launch: train-worker-0: no answer from 10.0.0.7 port 1024 for 6 s: packets to it are dropped, or its machine is down",
    )
    .run()
    .says("MPI communication failure – check NetworkPolicies: {host|a Worker} gets no answer from {peer|another Worker} port {port|}: packets are dropped"),
    rule(
        "agent-dead-connection",
        Cause::PeerUnreachable,
        CONNECT + 4,
        " is dead: nothing was acknowledged",
        r"^odh-launch: (?P<host>\S+): connection to (?P<peer>\S+) port (?P<port>\d+) is dead: ",
        "odh-launch: train-worker-0: connection to 10.0.0.7 port 1024 is dead: nothing was acknowledged for 6 s or more, and even a slow machine would do that",
    )
    .run()
    .says("MPI communication failure – check NetworkPolicies: {peer|a peer} of {host|a Worker} is dead or cut off: nothing is acknowledged, which even a slow machine would do"),
    rule(
        "ompi-unreachable",
        Cause::PeerUnreachable,
        CONNECT,
        "At least one pair of MPI processes are unable to reach each other",
        r"At least one pair of MPI processes are unable to reach each other",
        "At least one pair of MPI processes are unable to reach each other for\nMPI communications.\n  Process 1 ([[42050,1],0]) is on host: train-worker-0\n  Process 2 ([[42050,1],1]) is on host: train-worker-1",
    )
    .by(Speaker::Rank)
    .details(&[r"Process 1 .*is on host: (?P<host>\S+)", r"Process 2 .*is on host: (?P<peer>\S+)"]),
    rule(
        "ompi-no-transport",
        Cause::BadOption,
        CONNECT + 1,
        "At least one pair of MPI processes are unable to reach each other",
        r"At least one pair of MPI processes are unable to reach each other",
        "At least one pair of MPI processes are unable to reach each other for\n  Process 1 ([[42050,1],0]) is on host: train-worker-0\n  Process 2 ([[42050,1],1]) is on host: train-worker-1\n  BTLs attempted: self",
    )
    .by(Speaker::Rank)
    .block(r"BTLs attempted:(?: (?:self|vader|sm|smcuda|ofi|uct))+ *(?:\n|$)")
    .details(&[r"Process 1 .*is on host: (?P<host>\S+)", r"Process 2 .*is on host: (?P<peer>\S+)"])
    .says("Open MPI has no transport from {host|a Worker} to {peer|another}: the list of BTLs leaves tcp out, or it found no interface")
    .advice("Leave the parameter btl (OMPI_MCA_btl) unset, or name tcp,self,vader in it."),
    rule(
        "ompi-init-unreachable",
        Cause::PeerUnreachable,
        CONNECT - 2,
        "MPI_INIT has failed because at least one MPI process is unreachable",
        r"MPI_INIT has failed because at least one MPI process is unreachable",
        "MPI_INIT has failed because at least one MPI process is unreachable",
    )
    .by(Speaker::Rank),
    rule(
        "ompi-endpoint",
        Cause::PeerUnreachable,
        CONNECT + 3,
        "Unable to connect to the peer ",
        r"from (?P<host>\S+) to: (?P<peer>\S+) Unable to connect to the peer \S+ on port (?P<port>\d+): (?P<reason>.*)",
        "[[43557,1],1][btl_tcp_endpoint.c:793:mca_btl_tcp_endpoint_start_connect] from train-worker-1 to: train-worker-2 Unable to connect to the peer 10.77.1.5 on port 1024: No route to host",
    )
    .by(Speaker::Rank),
    rule(
        "ompi-endpoint-refused",
        Cause::PeerUnreachable,
        CONNECT + 4,
        "Unable to connect to the peer ",
        r"from (?P<host>\S+) to: (?P<peer>\S+) Unable to connect to the peer \S+ on port (?P<port>\d+): (?P<reason>Connection refused)",
        "[[43557,1],1][btl_tcp_endpoint.c:793:mca_btl_tcp_endpoint_start_connect] from train-worker-1 to: train-worker-2 Unable to connect to the peer 10.77.1.5 on port 1024: Connection refused",
    )
    .by(Speaker::Rank)
    .says("{host|A Worker} cannot connect to {peer|another Worker} port {port|}: {reason|}")
    .advice(REFUSED_ADVICE),
    rule(
        "ompi-connect-warning",
        Cause::PeerUnreachable,
        EXIT - 1,
        "Open MPI failed to TCP connect to a peer MPI process",
        r"WARNING: Open MPI failed to TCP connect to a peer MPI process",
        "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This\n  Local host: train-worker-0\n  Message:    connect() to 10.77.1.4:1024 failed\n  Error:      Connection timed out (110)",
    )
    .by(Speaker::Rank)
    .details(&[r"Local host: (?P<host>\S+)", r"connect\(\) to (?P<peer>[^\s:]+)(?::\d+)? failed"]),
    rule(
        "ompi-handshake-warning",
        Cause::PeerUnreachable,
        EXIT - 2,
        "Open MPI failed to handshake with a connecting peer",
        r"WARNING: Open MPI failed to handshake with a connecting peer",
        "WARNING: Open MPI failed to handshake with a connecting peer MPI\n  Local host: train-worker-0",
    )
    .by(Speaker::Rank)
    .details(&[r"Local host: (?P<host>\S+)"]),
    rule(
        "ucx-connect",
        Cause::PeerUnreachable,
        CONNECT + 2,
        "UCX  ERROR ",
        r"(?:\[(?P<host>[\w.-]+):\d+ *:\d+\].*)?UCX  ERROR .*connect\(.*dest_addr=(?P<peer>[^:)]+).*failed: (?P<reason>.*)",
        "[1795253853.87] [train-worker-0:595  :0]  sock.c:323  UCX  ERROR   connect(fd=27, dest_addr=10.77.1.5:40213) failed: No route to host",
    )
    .by(Speaker::Rank),
    rule(
        "ucx-connect-refused",
        Cause::PeerUnreachable,
        CONNECT + 3,
        "UCX  ERROR ",
        r"(?:\[(?P<host>[\w.-]+):\d+ *:\d+\].*)?UCX  ERROR .*connect\(.*dest_addr=(?P<peer>[^:)]+):?(?P<port>\d*).*failed: (?P<reason>Connection refused)",
        "[1795253853.87] [train-worker-0:595  :0]  sock.c:323  UCX  ERROR   connect(fd=27, dest_addr=10.77.1.5:40213) failed: Connection refused",
    )
    .by(Speaker::Rank)
    .says("{host|A Worker} cannot connect to {peer|another Worker} port {port|}: {reason|}")
    .advice(REFUSED_ADVICE),
    rule(
        "ucx-no-transport",
        Cause::PeerUnreachable,
        SYMPTOM + 5,
        "Destination is unreachable",
        r"(?:\[(?P<host>[\w.-]+):\d+ *:\d+\].*)?UCX  ERROR .*no .*transport to .*Destination is unreachable",
        "[1795254001.897569] [train-worker-1:809  :0]          select.c:549  UCX  ERROR   no active messages transport to <no debug data>: self/memory0 - Destination is unreachable",
    )
    .by(Speaker::Rank),
    rule(
        "nccl-connect",
        Cause::PeerUnreachable,
        REASON + 1,
        "NCCL WARN ",
        r"(?:(?P<host>[\w.-]+):\d+:\d+ \[\d+\] .*)?NCCL WARN .*[Cc]onnect(?:ion)? to (?P<peer>[^\s<]+)<(?P<port>\d+)> failed ?:? (?P<reason>.*)",
        "train-worker-1:37:112 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.7<45763> failed : No route to host",
    )
    .by(Speaker::Rank)
    .says("MPI communication failure – check NetworkPolicies: NCCL on {host|a Worker} cannot connect to {peer|another Worker}: {reason|}"),
    rule(
        "gloo-connect",
        Cause::PeerUnreachable,
        REASON,
        "gloo/transport/tcp/",
        concat!(r"gloo/transport/tcp/\S+\]? ?.*(?:[Cc]onnect|SO_ERROR).*?", gloo_peer!(), r".*: (?P<reason>No route to host|Network is unreachable)"),
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [10.0.0.7]:40213: No route to host",
    )
    .by(Speaker::Rank),
    rule(
        "nccl-watchdog",
        Cause::Timeout,
        SYMPTOM + 6,
        "Watchdog caught collective operation timeout",
        r"\[Rank (?P<rank>\d+)\] Watchdog caught collective operation timeout: Work\w*\((?P<reason>[^)]*)",
        "[rank1]:[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.",
    )
    .by(Speaker::Rank)
    .says("A collective operation timed out on {whom|a rank}: another rank did not take part in it")
    .advice("Look for the rank that prints nothing, or something else, at that time: it crashed, waits for data, or took another branch; if none did, check NetworkPolicies between the Workers."),
    rule(
        "nccl-peer-closed",
        Cause::WorkerLost,
        EXIT - 3,
        "Connection closed by remote peer",
        r"(?:(?P<peer>[\w.-]+):\d+:\d+ \[\d+\] .*)?NCCL WARN .*Connection closed by remote peer (?P<host>[^\s<]+)",
        "train-worker-0:37:112 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer train-worker-1<57557>",
    )
    .by(Speaker::Rank),
    rule(
        "nccl-remote-error",
        Cause::WorkerLost,
        EXIT - 5,
        "ncclRemoteError: ",
        r"ncclRemoteError: A call failed possibly due to a network error or a remote process exiting",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    )
    .by(Speaker::Rank)
    .says("A Worker was lost, or the network to it, while the job was running"),
    rule(
        "gloo-peer-closed",
        Cause::WorkerLost,
        EXIT - 3,
        "gloo/transport/tcp/",
        r"gloo/transport/tcp/\S+ .*(?:Connection closed by peer|Connection reset by peer)(?: \[(?P<host>[^\]]+)\])?",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:40213",
    )
    .by(Speaker::Rank),
    rule(
        "errmgr-no-path",
        Cause::Unknown,
        CONSEQUENCE - 1,
        "does not know how to route a message to the specified daemon",
        r"(?:ORTE|PRTE) does not know how to route a message to the specified daemon",
        "ORTE does not know how to route a message to the specified daemon",
    )
    .says("mpirun could not reach its daemons"),
    // Interfaces
    rule(
        "btl-interface",
        Cause::BadInterface,
        WARNING,
        "WARNING: An invalid value was given for ",
        r"An invalid value was given for (?P<reason>(?:btl|oob)_tcp_if_(?:include|exclude))",
        "WARNING: An invalid value was given for btl_tcp_if_include.  This\nvalue will be ignored.\n\n  Local host: train-worker-0\n  Value:      ib0\n  Message:    Unknown interface name",
    )
    .by(Speaker::Rank)
    .details(&[r"Local host: (?P<host>\S+)", r"Value: +(?P<name>\S+)"]),
    rule(
        "oob-interface",
        Cause::BadInterface,
        ROOT,
        "of the TCP networks specified to be included",
        r"None of the TCP networks specified to be included for out-of-band communications",
        "None of the TCP networks specified to be included for out-of-band communications\ncould be found:\n\n  Value given: ib0",
    )
    .details(&[r"Value given: +(?P<name>\S+)"]),
    rule(
        "oob-excluded",
        Cause::BadInterface,
        ROOT,
        "The specified list of networks to be excluded for TCP",
        r"The specified list of networks to be excluded for TCP out-of-band communications",
        "The specified list of networks to be excluded for TCP out-of-band communications\n  Value given: eth0",
    )
    .details(&[r"Value given: +(?P<name>\S+)"])
    .says("No network interface is left: {name|all} are excluded"),
    rule(
        "oob-no-interface",
        Cause::BadInterface,
        ROOT - 1,
        "No network interfaces were found for out-of-band communications",
        r"No network interfaces were found for out-of-band communications",
        "No network interfaces were found for out-of-band communications. We require",
    ),
    rule(
        "hydra-interface",
        Cause::BadInterface,
        ROOT,
        "unable to find interface ",
        r"\[[^\]@]*@(?P<host>[^\]]+)\].*unable to find interface (?P<name>\S+)",
        "[mpiexec@train-launcher] HYDU_sock_get_iface_ip (utils/sock/sock.c:451): unable to find interface ib0",
    ),
    rule(
        "ucx-device",
        Cause::BadInterface,
        WARNING,
        "' is not available, please use one or more of",
        r"(?:\[(?P<host>[\w.-]+):\d+ *:\d+\].*)?network device '(?P<name>[^']+)' is not available, please use one or more of",
        "[1795254001.849898] [train-worker-0:825  :0]     ucp_context.c:1014 UCX  WARN  network device 'ib0' is not available, please use one or more of: 'eth0'(tcp), 'lo'(tcp)",
    )
    .by(Speaker::Rank),
    rule(
        "nccl-interface",
        Cause::BadInterface,
        REASON + 1,
        "NCCL WARN ",
        r"(?:(?P<host>[\w.-]+):\d+:\d+ \[\d+\] .*)?NCCL WARN .*[Nn]o (?:socket )?interface found",
        "train-worker-0:37:112 [0] bootstrap.cc:53 NCCL WARN Bootstrap : no socket interface found",
    )
    .by(Speaker::Rank)
    .says("NCCL finds no network interface on {host|a Worker} that NCCL_SOCKET_IFNAME allows"),
    rule(
        "gloo-interface",
        Cause::BadInterface,
        REASON + 1,
        "Unable to find ",
        r"gloo/transport/tcp/device\.cc:\d+\].*Unable to find (?:address|interface) for:? (?P<name>\S+)",
        "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find address for: ib0",
    )
    .by(Speaker::Rank),
    rule(
        "ofi-no-provider",
        Cause::BadInterface,
        SYMPTOM + 6,
        "OFI ",
        r"OFI (?:addrinfo\(\)|fi_getinfo\(\)|get address vector).*failed.*No data available",
        "MPIDI_OFI_mpi_init_hook(1151): OFI addrinfo() failed (ofi_init.c:1151:MPIDI_OFI_mpi_init_hook:No data available)",
    )
    .by(Speaker::Rank)
    .says("libfabric offers no provider for the fabric that was asked for")
    .advice("Set FI_PROVIDER=tcp (and I_MPI_OFI_PROVIDER=tcp), or install the provider that the pod's network needs."),
];
