"""`client.elicitation`: the handler for the server's requests for user input."""

from jackstay.client._request_handlers import ClientRequestHandlers, ElicitationHandler, check_callable


class Elicitation:
    """Elicitation: register a handler before the client is opened.

    In URL mode, show the full URL; never open it without consent and never fetch it (2025-11-25 client/elicitation).
    """

    def __init__(self, request_handlers: ClientRequestHandlers) -> None:
        self._request_handlers = request_handlers

    def handle(self, handler: ElicitationHandler) -> ElicitationHandler:
        """Call `handler(params)`, sync or async, for each `elicitation/create`; usable as a decorator.

        Raises: UsageError if `handler` is not callable.
        """
        check_callable(handler, "elicitation.handle")
        self._request_handlers.elicitation = handler
        return handler
