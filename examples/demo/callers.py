"""The callers and their options: waiting or not, with a short timeout, with retries."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from demo.ledger import Outcome
from demo.log import RunLog
from jackstay.client import CallOptions, Client
from jackstay.errors import McpError

# Seconds between two calls, at pace 1.
PAUSE = 0.25


class CallStyle(NamedTuple):
    """The tool and options of a caller. `seconds` is the timeout at pace 1; None: the default."""

    label: str
    tool: str
    seconds: float | None
    options: CallOptions


CALL_STYLES = (
    CallStyle("pay, waits", "pay", None, {"wait_for_ready": True}),
    CallStyle("pay, waits", "pay", None, {"wait_for_ready": True}),
    CallStyle("pay, waits", "pay", None, {"wait_for_ready": True}),
    CallStyle("pay, within 2 s", "pay", 2.0, {"wait_for_ready": True}),
    CallStyle("pay, no wait", "pay", None, {"wait_for_ready": False}),
    CallStyle("read, retried", "read", None, {"wait_for_ready": True, "replay": "safe"}),
    CallStyle("read, retried", "read", None, {"wait_for_ready": True, "replay": "safe"}),
)


class WrongAnswerError(Exception):
    """A caller got the result of another call."""


class Caller:
    """A caller. `lane` is its index in the log; `clock` returns the seconds since the start."""

    def __init__(self, log: RunLog, lane: int, style: CallStyle, clock: Callable[[], float], pace: float) -> None:
        self.log = log
        self.lane = lane
        self.style = style
        self.clock = clock
        self.pace = pace
        self.is_done = False
        self._made = 0

    async def work(self, client: Client) -> None:
        """Call in a loop until `is_done`."""
        options = self.style.options.copy()
        if self.style.seconds is not None:
            options["timeout"] = self.style.seconds * self.pace
        while not self.is_done:
            nonce = f"{self.style.tool}-{self.lane}.{self._made}"
            self._made += 1
            self.log.begin(self.lane, nonce, self.clock())
            self.log.end(self.lane, await self._call(client, nonce, options), self.clock())
            await asyncio.sleep(PAUSE * self.pace)

    async def _call(self, client: Client, nonce: str, options: CallOptions) -> Outcome:
        try:
            result = await client.tools.call(self.style.tool, {"nonce": nonce}, **options)
        except McpError as error:
            # None: the server returned an error, and the call may have had an effect.
            return Outcome.FAILED if error.may_have_run is False else Outcome.UNKNOWN
        if result.text != nonce:
            raise WrongAnswerError(f"{nonce} got the result {result.text!r}")
        return Outcome.OK
