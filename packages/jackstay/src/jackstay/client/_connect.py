"""`connect()`: the entry point. The rest of the package is imported when the first client is made."""

import os
import sys
from typing import TYPE_CHECKING, TypeAlias, Unpack, cast

from jackstay._signatures import shows
from jackstay.errors import UsageError
from jackstay.transport import StdioTarget, Target, stdio

if TYPE_CHECKING:
    from jackstay.client._client import Client
    from jackstay.protocol.client import ClientKeywords, Settings
    from jackstay.transport import Servable

# What `connect()` accepts: a target, a URL, the path of a program or of an `mcpServers` file, or a `Server`.
Connectable: TypeAlias = "Target | Servable | str | os.PathLike[str]"


@shows("jackstay.protocol.client:Settings")
def connect(target: Connectable, **options: "Unpack[ClientKeywords]") -> "Client":
    """Return a client for `target`. Open it with `async with`.

    `target` is a URL; a target such as `stdio(...)` or `http(...)`; a `Server`, which is served in memory; the path of
    a Python program (`server.py`), which is started with this interpreter; or the path of an `mcpServers` file with one
    server (`mcp.json`; `Fleet` connects to several).

    `options` are the settings of `docs/settings.md`. Register handlers (`client.sampling.handle(...)`) before the
    client is opened, because they determine the capabilities that it declares.

    Raises: UsageError for an invalid target, an unknown option or a bad value.
    """
    from jackstay.client._client import Client  # noqa: PLC0415  # about 80 modules that a pure server does not need

    return Client(*prepare(target, options))


def prepare(target: Connectable, options: "ClientKeywords") -> "tuple[Target, Settings]":
    """Return the target and the settings of a client. Raises: as `connect()`."""
    target = as_target(target)
    from jackstay.protocol.client import Settings  # noqa: PLC0415  # as above

    suggested: ClientKeywords = {"name": target.name}
    if target.init_timeout is not None:
        suggested["init_timeout"] = target.init_timeout
        # At least one start with a user sign-in.
        suggested["open_timeout"] = max(target.init_timeout, Settings().open_timeout or 0.0)
    settings = Settings.of(**{**suggested, **options})
    if "stderr" in options and isinstance(target, StdioTarget):
        target = target.with_stderr(settings.stderr)
    return target, settings


def as_target(target: Connectable, caller: str = "connect()") -> Target:
    """Return the target that this means. Raises: UsageError, with `caller` as the function that expected one."""
    if isinstance(target, str | os.PathLike):
        return _target_of_text(os.fspath(target), caller)
    if hasattr(target, "open"):
        return cast(Target, target)
    if hasattr(target, "serve") and hasattr(target, "name"):
        from jackstay.transport import InProcessTarget  # noqa: PLC0415  # only for servers in this process

        return InProcessTarget(target)
    raise UsageError(f"{caller} expected a URL, a transport, a Server or a path, got {type(target).__name__}")


def _target_of_text(text: str, caller: str) -> Target:
    if text.lower().startswith(("http://", "https://")):
        from jackstay.transport.http import http  # noqa: PLC0415  # only for URLs

        return http(text)
    if text.endswith((".py", ".json")) and not os.path.isfile(text):
        raise UsageError(f"{caller} found no file {text!r}")
    if text.endswith(".py"):
        return stdio(sys.executable, text, name=os.path.basename(text).removesuffix(".py"))
    if text.endswith(".json"):
        from jackstay.client._config import read_config  # noqa: PLC0415  # only for files

        config = read_config(text)
        names = [name for name in config.names if not config.is_disabled(name)]
        if len(names) != 1:
            listed = ", ".join(names) or "none"
            raise UsageError(f"{caller} expected one server in {text}, found {listed}; use Fleet")
        return config.target(names[0])
    raise UsageError(
        f"{caller} expected a URL, a transport, a Server or the path of a .py or .json file, got {text!r};"
        " to start a command use stdio(command, *args)"
    )
