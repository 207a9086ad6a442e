"""Names to addresses, and connections to addresses: the only two things done to a network, behind one small contract.

The fetcher decides where to go; this goes there. A connection is made to an address, never to a name, so that what was checked
is what is reached (a name that answers differently the second time changes nothing). TLS is verified for the name all the
same. Tests give a network of their own that records and sends nothing.

Must never decide. Above: `_fetcher`. Below: asyncio.
"""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from typing import Protocol, TypeAlias

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Network(Protocol):
    """What the fetcher needs of the world. Each raises OSError (and `ssl.SSLError`, which is one) when it fails."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name, in the order in which they should be tried."""

    async def connect(self, address: str, port: int, tls_name: str | None) -> Streams:
        """A connection to an address; with TLS, verified for `tls_name`, if that is given."""

    async def upgrade(self, streams: Streams, tls_name: str) -> Streams:
        """TLS over a connection that is open already (through a proxy), verified for `tls_name`."""


class SystemNetwork:
    """The real one: the system's resolver and certificates, and those of `ca_file` beside them."""

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
