"""A proxy before the real service, which makes the network bad: it breaks, delays and refuses connections."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from openshift_ai.training._tls import context

#: A refusal as the service writes it.
TOO_MANY = (
    b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\nContent-Length: 78\r\n"
    b'Connection: close\r\n\r\n{"code":"TooManyRequests","message":"too many","reason":"TooManyRequests"}    '
)
#: The store of the service is full.
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 30\r\n"
    b'Content-Length: 62\r\nConnection: close\r\n\r\n{"code":"Unavailable","message":"full","reason":"StorageFull"}'
)
NOT_THE_SERVICE = (
    b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 8\r\nConnection: close\r\n\r\nno route"
)


@dataclass
class Proxy:
    """Speaks HTTP on loopback and TLS to the service. Each connection takes one fault from `faults`, if there is one."""

    url: str
    faults: list[tuple[str, bytes | int]] = field(default_factory=list)
    connections: int = 0
    _open: list[socket.socket] = field(default_factory=list)

    def answer(self, *responses: bytes) -> None:
        """Answers the next connections so, without asking the service."""
        self.faults += [("answer", response) for response in responses]

    def cut_after(self, *counts: int) -> None:
        """Breaks the next connections after that many bytes of the service's answer."""
        self.faults += [("cut", count) for count in counts]

    def drop_answer(self) -> None:
        """Sends the next request to the service and breaks before its answer."""
        self.faults.append(("drop", 0))

    def refuse(self, count: int) -> None:
        """Closes the next connections at once."""
        self.faults += [("refuse", 0)] * count

    def cut_all(self) -> None:
        """Breaks every open connection."""
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def answer(client: socket.socket, response: bytes) -> None:
    """Answers without the service."""
    client.recv(65536)
    client.sendall(response)
    client.shutdown(socket.SHUT_WR)
    client.recv(1)


def forward(client: socket.socket, server: ssl.SSLSocket, kind: str, limit: int | None) -> None:
    """Passes on both ways, until one end closes or the fault happens.

    In one thread: what one reads of a TLS connection while another writes to it may break it.
    """
    while limit is None or limit > 0:
        ready = [server] if server.pending() else select.select([client, server], [], [])[0]
        if client in ready:
            request = client.recv(65536)
            if not request:
                break
            server.sendall(request)
        if server in ready:
            response = arrived(server, 65536 if limit is None else min(limit, 65536))
            if response is None:
                continue
            if not response or kind == "drop":
                break
            client.sendall(response)
            limit = None if limit is None else limit - len(response)
    for end in (client, server):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def arrived(server: ssl.SSLSocket, most: int) -> bytes | None:
    """What has arrived of an answer; nothing yet if it was part of TLS itself."""
    server.settimeout(0)
    try:
        return server.recv(most)
    except ssl.SSLWantReadError:
        return None
    finally:
        server.settimeout(None)


@contextlib.contextmanager
def proxy(service: str, ca: str) -> Iterator[Proxy]:
    """Starts a proxy."""
    target = urlsplit(service)
    trusted = context(ca)
    listener = socket.create_server(("127.0.0.1", 0))
    made = Proxy(f"http://127.0.0.1:{listener.getsockname()[1]}")
    threads: list[threading.Thread] = []

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            made.connections += 1
            fault = made.faults.pop(0) if made.faults else ("", 0)
            thread = threading.Thread(target=serve, args=(client, *fault), daemon=True)
            threads.append(thread)
            thread.start()

    def serve(client: socket.socket, kind: str, amount: bytes | int) -> None:
        with contextlib.suppress(OSError), client:
            if kind == "refuse":
                return
            if isinstance(amount, bytes):
                answer(client, amount)
                return
            plain = socket.create_connection((target.hostname, target.port))
            with trusted.wrap_socket(plain, server_hostname=target.hostname) as server:
                made._open.extend([client, server])
                forward(client, server, kind, amount if kind == "cut" else None)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        made.cut_all()
        for one in [thread, *threads]:
            one.join(timeout=10)
