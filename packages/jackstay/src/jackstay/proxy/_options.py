"""The options of a proxy, with defaults and limits."""

from typing import Annotated, Final

from jackstay.protocol import MIN_SECONDS, Setting, SettingsBase, settings_of

# A server that is silent for so many seconds is pinged, and restarted if two pings get no response. The value is large
# because a server that blocks its event loop during a long call cannot respond. The client also pings after a call has
# timed out or was cancelled.
KEEPALIVE: Final = 60.0


class ProxyOptions(SettingsBase, frozen=True, kw_only=True):
    """The options of the proxy itself. The settings of its client are those of `connect()`.

    Raises: UsageError for a value of the wrong type or out of range.
    """

    # fmt: off
    # Long enough for a restart of the server, and shorter than clients usually wait (30 s): they should get this error.
    wait: Annotated[float, Setting("How long a call waits for a server that is down. Then it fails, and is known not"
        " to have run.", low=0, high=3600)] = 25.0
    # Off by default: the client decides, by cancelling the call.
    timeout: Annotated[float | None, Setting("How long the server may take to respond. Each progress notification"
        " starts it again. None: no limit.", low=MIN_SECONDS, high=86_400)] = None
    per_client: Annotated[bool, Setting("Start one server for each client that has a session, so that the server can"
        " send it requests.")] = False
    # Each is a process. More than this is a mistake or an attack.
    max_children: Annotated[int, Setting("The maximum number of servers at once, with `per_client`.", low=1,
        high=10_000)] = 64
    metrics: Annotated[bool, Setting("Serve Prometheus metrics at /metrics, over HTTP.")] = False
    # Off by default: the page shows lines of the server's standard error.
    status: Annotated[bool, Setting("Serve a status page at /, over HTTP: state, restarts, calls, standard error."
        )] = False
    # fmt: on


# By name, in the order of the documentation.
PROXY_OPTIONS: Final = settings_of(ProxyOptions)
