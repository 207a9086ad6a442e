"""The callers that wait until the connection is ready."""

import msgspec

from jackstay.errors import McpError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import Calls


class Waiters(msgspec.Struct):
    """Callers that wait for ready, in order."""

    calls: Calls
    callers: dict[e.Caller, None] = msgspec.field(default_factory=dict)

    def add(self, caller: e.Caller) -> None:
        """Wait until `release()`."""
        self.callers[caller] = None

    def drop(self, caller: e.Caller) -> None:
        """Stop waiting."""
        self.callers.pop(caller, None)

    def release(self, error: McpError | None) -> None:
        """End every wait: ready if `error` is None."""
        for caller in self.callers:
            self.calls.out.append(e.Release(caller, error))
        self.callers = {}
