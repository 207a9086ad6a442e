"""Puts what the client's telemetry tells into the chronicle: states, the ends of servers, calls that were sent again.

It listens and asks for nothing but the time that is left of a backoff. Above: `story`. Below: `jackstay.client`, `chronicle`.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

from demo.chronicle import Chronicle, Mark
from jackstay.client import Client, Fields
from jackstay.errors import StateError


class Witness:
    """One client's listener. `lanes` says which caller a task is."""

    def __init__(self, client: Client, chronicle: Chronicle, clock: Callable[[], float]) -> None:
        self.client = client
        self.chronicle = chronicle
        self.clock = clock
        self.lanes: dict[asyncio.Task[None], int] = {}
        self._begun: dict[object, tuple[int, object]] = {}
        self._lost_at: float | None = None
        self._told = 0  # the newest retry that was said
        self._before: Counter[Mark] = Counter()
        client.on_event(self.take)

    def take(self, name: str, fields: Fields) -> None:
        """An event of the client's."""
        if name == "jackstay.connection.transition":
            self._note_transition(fields)
        elif name == "jackstay.request.start":
            # A request begins in the task of whoever makes it.
            task = asyncio.current_task()
            if task in self.lanes:
                self._begun[fields["corr_id"]] = (self.lanes[task], fields["id"])
        elif name in ("jackstay.request.stop", "jackstay.request.exception"):
            lane, id = self._begun.pop(fields["corr_id"], (None, None))
            call = None if lane is None else self.chronicle.lanes[lane].open
            # A request that was sent again has a new id.
            if call is not None and id != fields["id"]:
                self.chronicle.sent_again.add(call.nonce)

    def _note_transition(self, fields: Fields) -> None:
        now, state, attempt = self.clock(), str(fields["to"]), fields["attempt"]
        assert isinstance(attempt, int)
        was_ready = self.chronicle.state == "ready"
        self.chronicle.enter(now, state, attempt)
        if state == "backoff":
            if was_ready:
                self._lost_at, self._before = now, self.chronicle.counts.copy()
            asyncio.get_running_loop().call_soon(self._ask_how_long, str(fields["reason"]))
        elif state == "ready":
            self._note_return(now)

    def _ask_how_long(self, reason: str) -> None:
        """A call that does not wait is refused, and told when to try again. It is not sent."""
        now, seconds = self.clock(), 0.0
        if self.chronicle.state == "backoff":
            error = self.client.submit("tools/list", wait_for_ready=False).see()
            if isinstance(error, StateError) and error.retry_in is not None:
                seconds = error.retry_in
                self.chronicle.wait = (now, now + seconds)
        attempt, when = self.chronicle.attempt, f"in {seconds:.1f} s" if seconds >= 0.05 else "now"
        # A server that dies of the first question may be of the older era: that one is tried, and counts as the same.
        again = f"retry {attempt}" if attempt != self._told else "older handshake"
        self._told = attempt
        said = reason.removeprefix(f"the server {self.client.settings.name} ")
        self.chronicle.say(now, f"{again} {when}: {said}")

    def _note_return(self, now: float) -> None:
        self._told = 0
        if self._lost_at is None:
            self.chronicle.say(now, f"ready, at revision {self.client.protocol_version}")
            return
        since = self.chronicle.counts - self._before
        told = ", ".join(f"{since[mark]} {mark.value}" for mark in (Mark.UNKNOWN, Mark.FAILED) if since[mark])
        said = f"ready again after {now - self._lost_at:.1f} s"
        self.chronicle.say(now, f"{said}; {told}" if told else said)
        self._lost_at = None
