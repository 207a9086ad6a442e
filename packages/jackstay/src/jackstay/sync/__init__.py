"""The client's face for blocking code: the same names, types and errors, without `await`.

    from jackstay.sync import connect, stdio

    with connect(stdio("uvx", "mcp-server-git")) as client:
        print(client.tools.call("git_status", {"repo_path": "."}).text)

`http(url)` stands in the place of `stdio(...)` for a server at a URL.

It works wherever it is called: in a script, under a running event loop (a notebook), from several threads at once. Ctrl-C
while waiting cancels the call on the wire. Two things cannot work and are refused with StateError: a blocking call inside a
handler, and using after `fork()` what was opened before.

Above: users. Below: `jackstay.client`, `jackstay.models`, and one thread with one event loop for all of it.
"""

from jackstay._lazy import TYPE_CHECKING
from jackstay.sync._client import Call, Client, connect
from jackstay.sync._features import (
    Completions,
    Elicitation,
    Logging,
    Prompts,
    Resources,
    Roots,
    Sampling,
    Tools,
)
from jackstay.sync._fleet import Fleet
from jackstay.sync._toolbox import Toolbox
from jackstay.transport import stdio

if TYPE_CHECKING:
    from jackstay.transport.http import http
else:

    def __getattr__(name: str) -> object:
        """`http`, loaded by who asks for it: most programs that block start a command."""
        if name != "http":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from jackstay.transport.http import http  # noqa: PLC0415

        return http


__all__ = [
    "Call",
    "Client",
    "Completions",
    "Elicitation",
    "Fleet",
    "Logging",
    "Prompts",
    "Resources",
    "Roots",
    "Sampling",
    "Toolbox",
    "Tools",
    "connect",
    "http",
    "stdio",
]
