"""`connect()`: the way in. The rest of the room is loaded when the first client is made, not when the name is imported.

Above: users, `_fleet`, the commands. Below: `_client`.
"""

from typing import TYPE_CHECKING, Unpack

from jackstay.errors import UsageError
from jackstay.transport import StdioTarget, Target

if TYPE_CHECKING:
    from jackstay.client._client import Client
    from jackstay.protocol.client import ClientKeywords, Settings


def connect(target: Target, **options: "Unpack[ClientKeywords]") -> "Client":
    """A client for this target; `options` are the settings of `docs/settings.md`. Open it with `async with`.

    Register handlers (`client.sampling.handle(...)`) before it is opened: what it declares to the server depends on
    them.

    Raises: UsageError for an option that is unknown or out of range, and for what is no target.
    """
    if not hasattr(target, "open"):
        hint = (
            "http(url)" if isinstance(target, str) and "://" in target else "stdio(command, ...) or http(url)"
        )
        raise UsageError(
            f"connect() takes a target: write connect({hint}), not {_kind(target)}", path="target"
        )
    from jackstay.client._client import Client  # noqa: PLC0415  # eighty files: a program that only serves needs none
    from jackstay.protocol.client import Settings  # noqa: PLC0415  # as above

    settings = Settings.of(**{"name": target.name, **_start_of(target, Settings()), **options})
    if "stderr" in options and isinstance(target, StdioTarget):
        target = target.with_stderr(settings.stderr)
    return Client(target, settings)


def _kind(value: object) -> str:
    return "a text" if isinstance(value, str) else type(value).__name__


def _start_of(target: Target, usual: "Settings") -> dict[str, float]:
    """What the target asks for itself, where the caller does not say. One start at least must be waited for: people sign in."""
    seconds = target.init_timeout
    if seconds is None:
        return {}
    return {"init_timeout": seconds, "open_timeout": max(seconds, usual.open_timeout or 0.0)}
