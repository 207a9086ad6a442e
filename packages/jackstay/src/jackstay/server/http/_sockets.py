"""The sockets that an HTTP server listens on: bound before anything else is started, so that a taken port is told at once.

Must never know who accepts from them: one process or several. Above: `_run`, `_workers`. Below: the operating system.
"""

import errno
import socket
from typing import Final

from jackstay.errors import TransportError, UsageError

# Connections that wait to be accepted. Linux cuts it to net.core.somaxconn, 4096 by default; a burst of clients that come
# back after a restart must fit.
BACKLOG: Final = 2048

_EXPLAINED: Final = {
    errno.EADDRINUSE: "the port is taken: end what listens there, or choose another port (--port)",
    errno.EACCES: "this user may not listen there: ports below 1024 are reserved, choose a higher one",
    errno.EADDRNOTAVAIL: "this machine does not have that address",
}


def bind_sockets(host: str, port: int, backlog: int = BACKLOG) -> list[socket.socket]:
    """Listening sockets for every address of `host`; with port 0, all at the one port that was free.

    Raises: TransportError, saying why it cannot be listened there; UsageError for what is no host or port.
    """
    if type(port) is not int or not 0 <= port <= 65_535:
        raise UsageError(f"port must be a number from 0 to 65535, not {port!r}", path="port")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise TransportError(f"there is no host {host!r} to listen on: {error}", permanent=True) from error
    bound: list[socket.socket] = []
    failure: OSError | None = None
    for family, kind, protocol, _, address in dict.fromkeys(found):
        at = (address[0], bound[0].getsockname()[1] if bound else port, *address[2:])
        try:
            bound.append(_listen(socket.socket(family, kind, protocol), at, backlog))
        except OSError as error:
            failure = error
            # A name may have an address of a family that is switched off here: the others will do.
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                break
    if not bound or (failure is not None and failure.errno == errno.EADDRINUSE):
        for one in bound:
            one.close()
        assert failure is not None  # getaddrinfo gives at least one row
        reason = _EXPLAINED.get(failure.errno or 0, failure.strerror)
        message = f"cannot listen on {url_host(host)}:{port}: {reason}"
        raise TransportError(message, permanent=True) from failure
    return bound


def _listen(one: socket.socket, address: tuple[object, ...], backlog: int) -> socket.socket:
    try:
        if one.family == socket.AF_INET6:
            # Each family has a socket of its own; without this `::` would take the port of `0.0.0.0` as well.
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # A server that is started again must not wait for connections of the last one to fade (TIME_WAIT).
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(address)
        one.listen(backlog)
        one.setblocking(False)
    except BaseException:
        one.close()
        raise
    return one


def port_of(sockets: list[socket.socket]) -> int:
    """The port that they all have."""
    port: int = sockets[0].getsockname()[1]
    return port


def url_host(host: str) -> str:
    """A host as a URL has it."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


__all__ = ["BACKLOG", "bind_sockets", "port_of", "url_host"]
