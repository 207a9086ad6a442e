"""What can be set for a proxy, as rows with defaults; wrong values are refused when it is made.

Must never know a connection. Above: `_proxy`, the command. Below: `jackstay.protocol`.
"""

from typing import Final

import msgspec

from jackstay.protocol.client import Setting

# A server from which nothing is received for so long is pinged, and restarted if it does not answer twice. Generous, because a
# server that blocks its loop for a long call cannot answer. One whose callers give up is checked sooner, by the client.
KEEPALIVE: Final = 60.0


class ProxyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set for a proxy itself; the settings of its client are those of `connect()`.

    Raises: UsageError, naming the option and what it may be.
    """

    # About what people and their programs wait anyway, and time enough for a server to be started again.
    wait: float = 30.0
    # How long is too long only the client knows, and it says so by cancelling.
    timeout: float | None = None
    per_client: bool = False
    # Each is a process: beyond it is a mistake, or somebody's attack.
    max_children: int = 64
    metrics: bool = False
    # Lines of a server's standard error are on it: only where somebody decided that.
    status: bool = False

    def __post_init__(self) -> None:
        for row in PROXY_OPTIONS.values():
            row.check(getattr(self, row.name))


# By name, in the order of the documentation.
PROXY_OPTIONS: Final = {
    row.name: row
    for row in (
        Setting("wait", "How long a call waits for a server that is down; then it fails, and surely did not run.",
                low=0, high=3600),
        Setting("timeout", "How long the server may take to answer; each progress begins it anew. None: the client decides.",
                low=0.001, high=86_400, is_optional=True),
        Setting("per_client", "A server of its own for every client with a session, so that each can be asked.", is_flag=True),
        Setting("max_children", "Servers at once, with `per_client`.", low=1, high=10_000, is_whole=True),
        Setting("metrics", "Serve numbers for Prometheus at /metrics, over HTTP.", is_flag=True),
        Setting("status", "Serve a page for people at /, over HTTP: states, restarts, calls, standard error.", is_flag=True),
    )
}  # fmt: skip
