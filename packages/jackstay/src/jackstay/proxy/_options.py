"""The options of a proxy, with defaults and limits."""

from typing import Final

import msgspec

from jackstay.protocol.client import Setting

# A server that is silent for so many seconds is pinged, and restarted if two pings get no response. The value is large
# because a server that blocks its event loop during a long call cannot respond. The client also pings after a call has
# timed out or was cancelled.
KEEPALIVE: Final = 60.0


class ProxyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the proxy itself. The settings of its client are those of `connect()`.

    Raises: UsageError for a value of the wrong type or out of range.
    """

    # Long enough for a restart of the server, and no longer than clients usually wait.
    wait: float = 30.0
    # Off by default: the client decides, by cancelling the call.
    timeout: float | None = None
    per_client: bool = False
    # Each is a process. More than this is a mistake or an attack.
    max_children: int = 64
    metrics: bool = False
    # Off by default: the page shows lines of the server's standard error.
    status: bool = False

    def __post_init__(self) -> None:
        for row in PROXY_OPTIONS.values():
            row.check(getattr(self, row.name))


# By name, in the order of the documentation.
PROXY_OPTIONS: Final = {
    row.name: row
    for row in (
        Setting("wait", "How long a call waits for a server that is down. Then it fails, and is known not to have run.",
                low=0, high=3600),
        Setting("timeout", "How long the server may take to respond. Each progress notification starts it again."
                " None: no limit.", low=0.001, high=86_400, is_optional=True),
        Setting("per_client", "Start one server for each client that has a session, so that the server can send it"
                " requests.", is_flag=True),
        Setting("max_children", "The maximum number of servers at once, with `per_client`.",
                low=1, high=10_000, is_integer=True),
        Setting("metrics", "Serve Prometheus metrics at /metrics, over HTTP.", is_flag=True),
        Setting("status", "Serve a status page at /, over HTTP: state, restarts, calls, standard error.", is_flag=True),
    )
}  # fmt: skip
