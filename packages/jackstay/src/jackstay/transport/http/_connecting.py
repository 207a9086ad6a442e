"""Connects to a server, directly or through a proxy, and describes why that failed.

Addresses are tried in the order of the resolver, one family after the other, each a moment after the one before (RFC
8305). Nothing of a request is sent here.
"""

import asyncio
import errno
import os
import socket
import ssl
from functools import cache
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jackstay.errors import OutcomeUnknownError

if TYPE_CHECKING:
    from jackstay.transport.http._http1 import Http1Connection

# How long an attempt is alone before the next address is tried (RFC 8305, section 5).
ATTEMPT_DELAY: Final = 0.25

LOST: Final = "the connection was lost while connecting"

AddressInfo: TypeAlias = tuple[Any, Any, int, str, Any]


class ProxyRefused(Exception):
    """The proxy did not open a tunnel."""


@cache
def tls_context(verify: bool) -> ssl.SSLContext:
    """Return the default context, with the system's certificates; they take milliseconds to load."""
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(("http/1.1",))
    return context


async def resolve(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[AddressInfo]:
    """Return the addresses of a host; an IP address needs no thread. Raises: OSError."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def connect_socket(loop: asyncio.AbstractEventLoop, infos: list[AddressInfo]) -> socket.socket:
    """Return a socket that is connected to one of these addresses. Raises: OSError."""
    first = [info for info in infos if info[0] == infos[0][0]]
    others = [info for info in infos if info[0] != infos[0][0]]
    rest = [info for info in chain.from_iterable(zip_longest(first, others)) if info is not None]
    attempts: set[asyncio.Task[socket.socket]] = set()
    errors: list[OSError] = []
    try:
        while rest or attempts:
            if rest:
                attempts.add(loop.create_task(_connect_one(loop, rest.pop(0))))
            timeout = ATTEMPT_DELAY if rest else None
            done, _ = await asyncio.wait(attempts, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                attempts.discard(attempt)
                try:
                    return attempt.result()
                except OSError as error:
                    errors.append(error)
    finally:
        for attempt in attempts:
            if not attempt.cancel() and not attempt.cancelled() and attempt.exception() is None:
                attempt.result().close()  # it succeeded as well
    # A refusal shows that the host exists; without one, the last error is that of the least preferred family.
    raise next((error for error in errors if isinstance(error, ConnectionRefusedError)), errors[-1])


async def _connect_one(loop: asyncio.AbstractEventLoop, info: AddressInfo) -> socket.socket:
    family, kind, proto, _, address = info
    sock = socket.socket(family, kind, proto)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


async def open_tunnel(
    connection: "Http1Connection", authority: str, proxy_headers: str, context: ssl.SSLContext, server_name: str
) -> None:
    """Connect to `authority` through the proxy at the other end of `connection`, and start TLS (RFC 9110, 9.3.6).

    Raises: ProxyRefused, OSError.
    """
    head = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{proxy_headers}\r\n"
    try:
        response = await connection.request("CONNECT", head.encode("ascii"), b"")
    except OutcomeUnknownError as error:
        raise ProxyRefused(f"the proxy did not respond ({error.message})") from error
    if not 200 <= response.status < 300:
        raise ProxyRefused(f"the proxy responded HTTP {response.status}")
    connection.reset_parser()
    loop, transport = connection.loop, connection.transport
    encrypted = await loop.start_tls(transport, connection, context, server_hostname=server_name)
    if encrypted is None:
        raise ConnectionResetError  # closed meanwhile
    connection.transport = encrypted


def describe_failure(error: BaseException) -> str:
    """Describe why there is no connection."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message or error
        return f"untrusted certificate ({why}); pass the CA's certificate as ca=FILE or set SSL_CERT_FILE"
    if isinstance(error, ssl.SSLEOFError):
        return LOST
    if isinstance(error, ssl.SSLError):
        if "WRONG_VERSION_NUMBER" in str(error):
            return "the server does not use TLS; should the URL begin with http://?"
        return str(error.strerror or error)
    if isinstance(error, socket.gaierror):
        return f"unknown host name ({error.strerror or error})"
    if isinstance(error, OSError) and error.errno is not None:
        # asyncio's message has the address in place of the reason.
        reason = os.strerror(error.errno)
        return reason.lower() if error.errno == errno.ECONNREFUSED else reason
    return str(error) or LOST
