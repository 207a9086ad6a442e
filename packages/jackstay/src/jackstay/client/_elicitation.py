"""`client.elicitation`: a server that needs something from the person asks us, and the handler here asks the person.

Above: users. Below: `_asking`.
"""

from jackstay.client._asking import Asking, ElicitationHandler, check_function


class Elicitation:
    """Elicitation: register a handler before the client is opened.

    For a URL, show it whole, never open it unasked and never fetch it: that is the person's decision (2025-11-25
    client/elicitation).
    """

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def handle(self, handler: ElicitationHandler) -> ElicitationHandler:
        """Answer the server's questions with `handler(params)`, sync or async; usable as a decorator. Raises: UsageError."""
        check_function(handler, "elicitation.handle")
        self._asking.elicitation = handler
        return handler
