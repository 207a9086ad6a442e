"""`client.logging`: how much the server tells.

Above: users. Below: `_requests`.
"""

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
        """Hear of this level and above. In the stateless era a level belongs to each request: pass it in `meta`.

        Raises: CapabilityError there, and where the server does not log.
        """
        server = self._requests.connection.core.server
        if server is not None and server.era is Era.STATELESS:
            message = f'this server takes a log level with each request: pass meta={{"{META_LOG_LEVEL}": "{level}"}}'
            raise CapabilityError("logging", message)
        await self._requests.ask("logging/setLevel", {"level": level}, EmptyResult, options)
