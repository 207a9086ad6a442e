"""`connect()`: the entry point. The rest of the package is imported when the first client is made."""

from typing import TYPE_CHECKING, Unpack

from jackstay.errors import UsageError
from jackstay.transport import StdioTarget, Target

if TYPE_CHECKING:
    from jackstay.client._client import Client
    from jackstay.protocol.client import ClientKeywords, Settings


def connect(target: Target | str, **options: "Unpack[ClientKeywords]") -> "Client":
    """Return a client for `target`: a URL, or a target such as `stdio(...)` or `http(...)`. Open it with `async with`.

    `options` are the settings of `docs/settings.md`. Register handlers (`client.sampling.handle(...)`) before the
    client is opened, because they determine the capabilities that it declares.

    Raises: UsageError for an invalid target, an unknown option or a bad value.
    """
    target = _as_target(target)
    from jackstay.client._client import Client  # noqa: PLC0415  # about 80 modules that a pure server does not need
    from jackstay.protocol.client import Settings  # noqa: PLC0415  # as above

    settings = Settings.of(**{"name": target.name, **_timeouts_for(target, Settings()), **options})
    if "stderr" in options and isinstance(target, StdioTarget):
        target = target.with_stderr(settings.stderr)
    return Client(target, settings)


def _as_target(target: Target | str) -> Target:
    if isinstance(target, str):
        if target.lower().startswith(("http://", "https://")):
            from jackstay.transport.http import http  # noqa: PLC0415  # only for URLs

            return http(target)
        raise UsageError(
            f"connect() expected a URL or a transport, got {target!r}; to start a command use stdio(command, *args)",
            path="target",
        )
    if not hasattr(target, "open"):
        raise UsageError(f"connect() expected a URL or a transport, got {type(target).__name__}", path="target")
    return target


def _timeouts_for(target: Target, defaults: "Settings") -> dict[str, float]:
    """Return the timeouts that the target suggests.

    `open_timeout` must cover at least one start with a user sign-in.
    """
    seconds = target.init_timeout
    if seconds is None:
        return {}
    return {"init_timeout": seconds, "open_timeout": max(seconds, defaults.open_timeout or 0.0)}
