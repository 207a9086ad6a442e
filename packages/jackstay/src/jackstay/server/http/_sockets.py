"""The listening sockets of an HTTP server.

They are bound before anything else, so that a port in use is reported at once.
"""

import errno
import os
import socket
from typing import Final

from jackstay.errors import TransportError, UsageError

# Connections that wait to be accepted; large enough for all clients that reconnect after a restart. Linux caps it at
# net.core.somaxconn, 4096 by default.
BACKLOG: Final = 2048

_EXPLAINED: Final = {
    errno.EADDRINUSE: "the port is already in use; stop the other process, or choose another port (--port)",
    errno.EACCES: "permission denied; ports below 1024 are reserved, choose a higher one",
    errno.EADDRNOTAVAIL: "not an address of this machine",
}


def bind_sockets(host: str, port: int, backlog: int = BACKLOG) -> list[socket.socket]:
    """Return listening sockets for every address of `host`. With port 0 all of them share one free port.

    Raises: TransportError if a socket cannot be bound; UsageError for an invalid port.
    """
    if type(port) is not int or not 0 <= port <= 65_535:
        raise UsageError(f"port must be an int from 0 to 65535, not {port!r}", path="port")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise TransportError(f"cannot listen on {host!r}: unknown host: {error}", permanent=True) from error
    bound: list[socket.socket] = []
    failure: OSError | None = None
    for family, _, _, _, address in dict.fromkeys(found):
        at = (address[0], bound[0].getsockname()[1] if bound else port, *address[2:])
        try:
            # It sets IPV6_V6ONLY, because `::` would also bind the port of `0.0.0.0`, and SO_REUSEADDR, because a
            # restarted server must not wait for connections of its predecessor in TIME_WAIT.
            bound.append(socket.create_server(at, family=family, backlog=backlog))
        except OSError as error:
            failure = error
            # A name may have an address of a family that is disabled on this machine; then the others suffice.
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                break
    if not bound or (failure is not None and failure.errno == errno.EADDRINUSE):
        for sock in bound:
            sock.close()
        assert failure is not None  # getaddrinfo returns at least one address
        number = failure.errno or 0
        reason = _EXPLAINED.get(number, os.strerror(number))
        message = f"cannot listen on {url_host(host)}:{port}: {reason}"
        raise TransportError(message, permanent=True) from failure
    for sock in bound:
        sock.setblocking(False)
        # Accepted connections inherit it. asyncio sets it only if the socket names its protocol, which those of
        # `create_server()` do not: a response in two writes would wait 40 ms for a delayed acknowledgement.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def port_of(sockets: list[socket.socket]) -> int:
    """Return the port that all of them share."""
    return int(sockets[0].getsockname()[1])


def url_host(host: str) -> str:
    """Return a host as it is written in a URL: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
