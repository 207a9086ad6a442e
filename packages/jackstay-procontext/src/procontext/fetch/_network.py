"""Name resolution and connections, behind an interface that tests replace.

A connection is made to an address that was checked, never to a name, so that a changed DNS answer has no effect
(DNS rebinding). TLS is still verified for the name.
"""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from typing import Protocol, TypeAlias

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Network(Protocol):
    """The network as the fetcher needs it. Failures raise OSError, of which `ssl.SSLError` is a subclass."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host name in the order of preference."""

    async def connect(self, address: str, port: int, tls_name: str | None) -> Streams:
        """Connect to an address; with `tls_name`, over TLS verified for that name."""

    async def upgrade(self, streams: Streams, tls_name: str) -> Streams:
        """Start TLS on an open connection (through a proxy), verified for `tls_name`."""


class SystemNetwork:
    """The system's resolver and certificates, plus the certificates in `ca_file`."""

    def __init__(self, ca_file: str | None = None) -> None:
        self._ca_file = ca_file
        self._context: ssl.SSLContext | None = None

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            context = ssl.create_default_context()
            if self._ca_file is not None:
                context.load_verify_locations(self._ca_file)
            self._context = context
        return self._context

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    async def connect(self, address: str, port: int, tls_name: str | None) -> Streams:
        if tls_name is None:
            return await asyncio.open_connection(address, port)
        return await asyncio.open_connection(address, port, ssl=self._tls(), server_hostname=tls_name)

    async def upgrade(self, streams: Streams, tls_name: str) -> Streams:
        reader, writer = streams
        await writer.start_tls(self._tls(), server_hostname=tls_name)
        return reader, writer


__all__ = ["Network", "Streams", "SystemNetwork"]
