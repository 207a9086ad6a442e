"""`client.sampling`: a server that wants a model's answer asks us, and the handler here answers.

Above: users. Below: `_asking`, `_requests`.
"""

from jackstay.client._asking import Asking, SamplingHandler, check_function
from jackstay.client._requests import Requests
from jackstay.errors import CapabilityError
from jackstay.types import CreateMessageRequestParams, CreateMessageResult


class Sampling:
    """Sampling, from the client's side: register a handler before the client is opened."""

    def __init__(self, asking: Asking, requests: Requests) -> None:
        self._asking = asking
        self._requests = requests

    def handle(self, handler: SamplingHandler) -> SamplingHandler:
        """Answer the server's requests with `handler(params)`, sync or async; usable as a decorator. Raises: UsageError."""
        check_function(handler, "sampling.handle")
        self._asking.sampling = handler
        return handler

    async def create_message(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Ask the *server* to sample, which MCP does not have: for servers that declare it all the same.

        Raises: CapabilityError where the server does not declare `sampling`.
        """
        if self._requests.connection.core.server is None or not self._requests.offers("sampling"):
            raise CapabilityError(
                "sampling", "in MCP the server asks: register a handler with client.sampling.handle()"
            )
        return await self._requests.ask("sampling/createMessage", params.raw, CreateMessageResult, {})
