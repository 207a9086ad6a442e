"""Whether the server still responds: keepalives while nothing is received, and a health check after a timeout."""

import msgspec

from jackstay.protocol._versions import Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import Calls
from jackstay.protocol.client._exchange import Exchange, ExchangeState, Role
from jackstay.protocol.client._settings import KEEPALIVE_MISSES


class Health(msgspec.Struct):
    """The keepalives and health checks of a ready connection."""

    calls: Calls
    # How many frames had been sent when the newest one was received, and the number of the frame that checks whether
    # the server still responds (0: none). Comparing them shows whether anything was received since.
    received_after: int = 0
    check: int = 0
    # How many keepalives were sent since anything was received.
    missed: int = 0
    # The method of a request that every server of the agreed era supports.
    check_method: str = "ping"
    # Calls that were cancelled since anything was received: the number of the first, and when the oldest was made.
    cancelled_from: int = 0
    cancelled_since: float = 0.0

    def begin(self, era: Era) -> None:
        """Begin with a ready connection."""
        self.check_method = "server/discover" if era is Era.STATELESS else "ping"
        self._arm_keepalive()

    def received(self) -> None:
        """Record that something was received: the server responds."""
        self.received_after = self.calls.number

    @property
    def is_checking(self) -> bool:
        """True while nothing was received since the health check was sent."""
        return self.check > self.received_after

    def is_unanswered(self, exchange: Exchange) -> bool:
        """Return True if it was sent and nothing at all was received since."""
        return exchange.state is ExchangeState.SENT and not exchange.is_unsent and exchange.number > self.received_after

    def keep_alive(self) -> bool:
        """Send a keepalive if nothing was received since the last time. Returns False if too many were missed."""
        if self.received_after:
            if not self.is_checking:
                self.check = 0
            self.received_after = 0
            self.missed = self.cancelled_from = 0
        elif self.missed >= KEEPALIVE_MISSES:
            return False
        else:
            self.missed += 1
            self._send_check()
        self._arm_keepalive()
        return True

    def check_if_silent(self, id: int, *, is_cancelled: bool) -> None:
        """Send a health check if a call ends or half of its time is over, and nothing was received in the meantime."""
        calls, limit = self.calls, self.calls.settings.hang_timeout
        exchange = calls.pending.get(id)
        if limit is None or exchange is None or not self.is_unanswered(exchange):
            return
        if is_cancelled and self._silence(exchange) < limit:
            return  # cancelled early by its caller, which does not indicate a hang
        if not is_cancelled and exchange.due_at is not None and calls.now < exchange.due_at:
            limit = (exchange.due_at - calls.now) / 2
        at, armed = calls.now + limit, calls.timers.at(e.CheckExpired)
        if not self.is_checking or armed is None:
            self._send_check()
            self.check = calls.number
            calls.timers.arm(e.CheckExpired, at)
        elif at < armed:
            calls.timers.arm(e.CheckExpired, at)

    def _silence(self, cancelled: Exchange) -> float:
        """Return the age of the oldest call that was cancelled, up to this one, without anything received since.

        Callers that wait less than `hang_timeout` and call again would otherwise never find out that a server hangs.
        """
        if self.cancelled_from <= self.received_after:
            self.cancelled_from, self.cancelled_since = cancelled.number, cancelled.made_at
        self.cancelled_since = min(self.cancelled_since, cancelled.made_at)
        return self.calls.now - self.cancelled_since

    def end_check(self) -> None:
        """End the health check, because something was received."""
        self.check = 0
        self.calls.timers.disarm(e.CheckExpired)

    def _arm_keepalive(self) -> None:
        interval = self.calls.settings.keepalive
        if interval is not None:
            self.calls.timers.arm(e.KeepaliveDue, self.calls.now + interval)

    def _send_check(self) -> None:
        self.calls.abandon_own(Role.KEEPALIVE)
        self.calls.make_internal(self.check_method, b"{}", Role.KEEPALIVE)
