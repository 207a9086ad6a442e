"""Delays with jitter: one formula for reconnecting, one for retrying a busy transport.

The random number is an argument (`jitter`, uniform in [0, 1)), so both are pure functions.
"""

from jackstay.protocol.client._settings import Settings


def apply_jitter(seconds: float, fraction: float, jitter: float) -> float:
    """Return `seconds`, changed by at most `fraction` of it in either direction."""
    return seconds * (1 + fraction * (2 * jitter - 1))


def backoff_delay(settings: Settings, failures: int, jitter: float) -> float:
    """Return the delay before reconnecting, after `failures` failures before this one (0: the first)."""
    # 2**failures is unbounded, and a client may fail for weeks: past this power the base is at its maximum anyway.
    base = min(settings.backoff_min * 2 ** min(failures, 64), settings.backoff_max)
    return min(max(apply_jitter(base, settings.backoff_jitter, jitter), settings.backoff_min), settings.backoff_max)


def retry_delay(settings: Settings, jitter: float) -> float:
    """Return the delay before a frame is sent again to a busy transport: 5 to 15 ms by default."""
    return apply_jitter(settings.retry_delay, settings.retry_jitter, jitter)
