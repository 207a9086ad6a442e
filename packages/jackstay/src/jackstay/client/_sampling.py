"""`client.sampling`: the handler for the server's requests to sample from a language model."""

from jackstay.client._request_handlers import ClientRequestHandlers, SamplingHandler, check_callable
from jackstay.client._requests import Requests
from jackstay.errors import CapabilityError
from jackstay.types import CreateMessageRequestParams, CreateMessageResult


class Sampling:
    """Sampling: register a handler before the client is opened."""

    def __init__(self, request_handlers: ClientRequestHandlers, requests: Requests) -> None:
        self._request_handlers = request_handlers
        self._requests = requests

    def handle(self, handler: SamplingHandler) -> SamplingHandler:
        """Call `handler(params)`, sync or async, for each `sampling/createMessage`; usable as a decorator.

        Raises: UsageError if `handler` is not callable.
        """
        check_callable(handler, "sampling.handle")
        self._request_handlers.sampling = handler
        return handler

    async def create_message(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Request sampling from the *server*, which MCP does not define; for servers that declare it nevertheless.

        Raises: CapabilityError if the server does not declare `sampling`.
        """
        if self._requests.connection.core.server is None or not self._requests.has_capability("sampling"):
            raise CapabilityError(
                "sampling", "the server does not provide sampling; to handle its requests use client.sampling.handle()"
            )
        return await self._requests.request("sampling/createMessage", params.raw, CreateMessageResult, {})
