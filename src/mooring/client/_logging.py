"""`client.logging`: how much the server tells.

Above: users. Below: `_requests`.
"""

from typing import Unpack

from mooring.client._requests import CallOptions, Requests
from mooring.errors import CapabilityError
from mooring.protocol import Era
from mooring.types import EmptyResult, LoggingLevel


class Logging:
    """The level of the server's log messages, which arrive as notifications."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def set_level(self, level: LoggingLevel, **options: Unpack[CallOptions]) -> None:
        """Hear of this level and above. In the stateless era a level belongs to each request: pass it in `meta`.

        Raises: CapabilityError there, and where the server does not log.
        """
        connection = self._requests.connection
        if connection.core.server is not None and connection.server().era is Era.STATELESS:
            key = "io.modelcontextprotocol/logLevel"
            message = f'this server takes a log level with each request: pass meta={{"{key}": "{level}"}}'
            raise CapabilityError("logging", message)
        await self._requests.ask("logging/setLevel", {"level": level}, EmptyResult, options)
