"""`client.logging`: the level of the server's log messages."""

from typing import Unpack

from jackstay.client._requests import CallOptions, Requests
from jackstay.errors import CapabilityError
from jackstay.protocol import Era
from jackstay.types import META_LOG_LEVEL, EmptyResult, LoggingLevel


class Logging:
    """The level of the server's log messages, which arrive as notifications."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def set_level(self, level: LoggingLevel, **options: Unpack[CallOptions]) -> None:
        """Receive log messages of this level and above (`logging/setLevel`).

        A stateless server has no such request; pass the level in `meta` of each call.

        Raises: CapabilityError for a stateless server and for one without the `logging` capability.
        """
        server = self._requests.connection.core.server
        if server is not None and server.era is Era.STATELESS:
            meta = f'meta={{"{META_LOG_LEVEL}": "{level}"}}'
            message = f"a stateless server has no log level per connection; pass {meta} with each call"
            raise CapabilityError("logging", message)
        await self._requests.request("logging/setLevel", {"level": level}, EmptyResult, options)
