"""Who calls, and in which manner: some wait, some do not, some have little time, some may be sent again.

A caller makes one call after the other, and notes what he was told. He knows neither the other callers nor the story.

Above: `story`. Below: `jackstay.client`, `chronicle`.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from demo.chronicle import Chronicle
from demo.ledger import Told
from jackstay.client import CallOptions, Client
from jackstay.errors import McpError

# Between two calls, in seconds at pace 1: often enough to keep the strips full, seldom enough to be seen.
PAUSE = 0.25


class Manner(NamedTuple):
    """How a caller calls: with which tool, with how much time at pace 1 (None: the client's own), and the rest."""

    label: str
    tool: str
    seconds: float | None
    options: CallOptions


MANNERS = (
    Manner("pay, waits", "pay", None, {"wait_for_ready": True}),
    Manner("pay, waits", "pay", None, {"wait_for_ready": True}),
    Manner("pay, waits", "pay", None, {"wait_for_ready": True}),
    Manner("pay, within 2 s", "pay", 2.0, {"wait_for_ready": True}),
    Manner("pay, or not now", "pay", None, {"wait_for_ready": False}),
    Manner("look, again", "look", None, {"wait_for_ready": True, "replay": "safe"}),
    Manner("look, again", "look", None, {"wait_for_ready": True, "replay": "safe"}),
)


class WrongAnswerError(Exception):
    """A caller got an answer that is not his."""


class Caller:
    """One of them; `lane` is his place in the chronicle, `clock` says the seconds since the beginning."""

    def __init__(
        self, chronicle: Chronicle, lane: int, manner: Manner, clock: Callable[[], float], pace: float
    ) -> None:
        self.chronicle = chronicle
        self.lane = lane
        self.manner = manner
        self.clock = clock
        self.pace = pace
        self.is_done = False
        self._made = 0

    async def work(self, client: Client) -> None:
        """Call until `is_done`: then the open call is ended, and no other is made."""
        options = self.manner.options.copy()
        if self.manner.seconds is not None:
            options["timeout"] = self.manner.seconds * self.pace
        while not self.is_done:
            nonce = f"{self.manner.tool}-{self.lane}.{self._made}"
            self._made += 1
            self.chronicle.begin(self.lane, nonce, self.clock())
            self.chronicle.end(self.lane, await self._call(client, nonce, options), self.clock())
            await asyncio.sleep(PAUSE * self.pace)

    async def _call(self, client: Client, nonce: str, options: CallOptions) -> Told:
        try:
            result = await client.tools.call(self.manner.tool, {"nonce": nonce}, **options)
        except McpError as error:
            # None is "the server decides": it answered with an error, and may have done something first.
            return Told.FAILED if error.may_have_run is False else Told.UNKNOWN
        if result.text != nonce:
            raise WrongAnswerError(f"{nonce} was answered with {result.text!r}")
        return Told.OK
