"""How long to wait before trying again: one formula for reconnecting, one for a busy transport.

The random number is an argument (`luck`, uniform in [0, 1)), so both are plain functions of what they are given.
Settled: the requirements had three formulas; this is the one.

Above: the client's core. Below: `_settings`.
"""

from jackstay.protocol.client._settings import Settings


def spread(seconds: float, jitter: float, luck: float) -> float:
    """`seconds` moved by at most the share `jitter`, down or up."""
    return seconds * (1 + jitter * (2 * luck - 1))


def backoff_delay(settings: Settings, failures: int, luck: float) -> float:
    """The wait before the reconnect after `failures` failures before this one (0: the first)."""
    # 2**failures is unbounded, and a client may fail for weeks: past this power every base is at its maximum.
    base = min(settings.backoff_min * 2 ** min(failures, 64), settings.backoff_max)
    return min(max(spread(base, settings.backoff_jitter, luck), settings.backoff_min), settings.backoff_max)


def retry_delay(settings: Settings, luck: float) -> float:
    """The wait before a busy transport is asked again: 5 to 15 ms by default."""
    return spread(settings.retry_delay, settings.retry_jitter, luck)
