"""Copies the client's telemetry to the log: states, lost servers, retried calls."""

import asyncio
from collections import Counter
from collections.abc import Callable

from demo.log import Mark, RunLog
from jackstay.client import Client, Fields
from jackstay.errors import StateError


class Observer:
    """Listens to one client. `lanes` maps a task to its caller."""

    def __init__(self, client: Client, log: RunLog, clock: Callable[[], float]) -> None:
        self.client = client
        self.log = log
        self.clock = clock
        self.lanes: dict[asyncio.Task[None], int] = {}
        self._started: dict[object, tuple[int, object]] = {}
        self._lost_at: float | None = None
        self._logged_attempt = 0  # the newest retry in the log
        self._before: Counter[Mark] = Counter()
        client.on_event(self.on_event)

    def on_event(self, name: str, fields: Fields) -> None:
        """Handle an event of the client."""
        if name == "jackstay.connection.transition":
            self._note_transition(fields)
        elif name == "jackstay.request.start":
            # A request starts in the task of its caller.
            task = asyncio.current_task()
            if task in self.lanes:
                self._started[fields["corr_id"]] = (self.lanes[task], fields["id"])
        elif name in ("jackstay.request.stop", "jackstay.request.exception"):
            lane, id = self._started.pop(fields["corr_id"], (None, None))
            call = None if lane is None else self.log.lanes[lane].open
            # A retried request has a new id.
            if call is not None and id != fields["id"]:
                self.log.retried.add(call.nonce)

    def _note_transition(self, fields: Fields) -> None:
        now, state, attempt = self.clock(), str(fields["to"]), fields["attempt"]
        assert isinstance(attempt, int)
        was_ready = self.log.state == "ready"
        self.log.enter(now, state, attempt)
        if state == "backoff":
            if was_ready:
                self._lost_at, self._before = now, self.log.counts.copy()
            asyncio.get_running_loop().call_soon(self._read_retry_delay, str(fields["reason"]))
        elif state == "ready":
            self._note_return(now)

    def _read_retry_delay(self, reason: str) -> None:
        """Log the delay: a call that does not wait fails with the time of the next retry. It is not sent."""
        now, seconds = self.clock(), 0.0
        if self.log.state == "backoff":
            error = self.client.submit("tools/list", wait_for_ready=False).retrieve_exception()
            if isinstance(error, StateError) and error.retry_in is not None:
                seconds = error.retry_in
                self.log.wait = (now, now + seconds)
        attempt, when = self.log.attempt, f"in {seconds:.1f} s" if seconds >= 0.05 else "now"
        # If the server exits on the first request, the older handshake is tried as part of the same attempt.
        again = f"retry {attempt}" if attempt != self._logged_attempt else "older handshake"
        self._logged_attempt = attempt
        text = reason.removeprefix(f"the server {self.client.settings.name!r} ")
        self.log.add_line(now, f"{again} {when}: {text}")

    def _note_return(self, now: float) -> None:
        self._logged_attempt = 0
        if self._lost_at is None:
            self.log.add_line(now, f"ready, at revision {self.client.protocol_version}")
            return
        since = self.log.counts - self._before
        failures = ", ".join(f"{since[mark]} {mark.value}" for mark in (Mark.UNKNOWN, Mark.FAILED) if since[mark])
        text = f"ready again after {now - self._lost_at:.1f} s"
        self.log.add_line(now, f"{text}; {failures}" if failures else text)
        self._lost_at = None
