"""The options of `Server(...)`: those of connections, and its own."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import jackstay.protocol.server as core
from jackstay import types
from jackstay.errors import Json, UnexpectedOptionError
from jackstay.protocol import LISTS, METHODS, MIN_SECONDS, Era, Setting, refuse_unknown, with_tuples
from jackstay.server._entries import IconLike, read_icons
from jackstay.server._pool import THREADS

if TYPE_CHECKING:
    from jackstay.server._extensions import Extensions

# The capabilities that a server can declare before anything is registered.
CAPABILITIES = (*dict.fromkeys(row.capability for row in LISTS.values()), "completions")

# The flags of each capability are those that messages need.
_DECLARATIONS: dict[str, dict[str, Json]] = {name: {} for name in CAPABILITIES}
for _row in METHODS.values():
    _name, _, _flag = _row.capability.partition(".")
    if _flag and _name in _DECLARATIONS:
        _DECLARATIONS[_name][_flag] = True

# The parameters of `Server()` that are not options.
_OTHER_PARAMETERS = ("lifespan", "middleware", "on_invalid_arguments", "changes", "backend", "extensions")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _are_capabilities(value: Iterable[object]) -> bool:
    return all(name in CAPABILITIES for name in value)


def _are_secrets(value: Iterable[object]) -> bool:
    return all(isinstance(secret, bytes) and len(secret) >= 16 for secret in value)


class Options(core.ConnectionOptions, frozen=True, kw_only=True):
    """The options of `Server()`, described in `docs/settings.md`.

    Raises: UsageError, which names the option and the values that it accepts.
    """

    # fmt: off
    name: Annotated[str, Setting("The name of the server.", is_valid=_is_text, expected="a non-empty str")]
    version: Annotated[str, Setting("The version of the server.", is_valid=_is_text, expected="a non-empty str")] = "0"
    title: Annotated[str | None, Setting("The name for display.")] = None
    description: Annotated[str | None, Setting("A description for display.")] = None
    website_url: Annotated[str | None, Setting("The URL of a page about the server, for display.")] = None
    icons: Annotated[Sequence[IconLike] | None, Setting("Icons for display: URLs or `Icon` objects.",
        is_valid=lambda _: True, expected="a sequence of URLs or `Icon` objects")] = None
    capabilities: Annotated[tuple[str, ...], Setting("Capabilities to declare even if nothing of the kind is"
        " registered, for servers that register tools later.", is_valid=_are_capabilities,
        expected="some of " + ", ".join(map(repr, CAPABILITIES)))] = ()
    shutdown_timeout: Annotated[float, Setting("Seconds for all shutdown hooks together. Over stdio they have less,"
        " because the client waits.", low=MIN_SECONDS, high=3600)] = 5.0
    threads: Annotated[int, Setting("Blocking functions that run at the same time, for all connections together.",
        low=1, high=1024)] = THREADS
    request_state_secrets: Annotated[tuple[bytes, ...], Setting("HMAC secrets for `requestState`: the first one signs,"
        " all of them verify. Empty: a random one for this process.", is_valid=_are_secrets,
        expected="bytes, each of at least 16", is_secret=True)] = ()
    # A person may have to read it.
    round_timeout: Annotated[float, Setting("Seconds that a client has to respond to an `input_required` result; then"
        " the `requestState` expires.", low=MIN_SECONDS, high=86_400)] = 600.0
    # fmt: on

    def __post_init__(self) -> None:
        super().__post_init__()
        self.for_core(frozenset())

    def for_core(self, capabilities: frozenset[str], extensions: "Extensions | None" = None) -> "core.ServerOptions":
        """Return the options of the protocol core for a server with these capabilities and extensions."""
        declared: dict[str, Json] = {name: _DECLARATIONS[name] for name in CAPABILITIES if name in capabilities}
        declared["logging"] = {}
        added: dict[str, Any] = {}
        if extensions is not None:
            stateless = {**declared, "extensions": extensions.declared(Era.STATELESS)}
            if in_handshake := extensions.declared(Era.HANDSHAKE):
                declared["extensions"] = in_handshake
            added = {"stateless_capabilities": types.encode_json(stateless), "methods": extensions.methods()}
        return core.ServerOptions(
            server_info=types.encode_json(self.implementation),
            capabilities=types.encode_json(declared),
            **added,
            **{name: getattr(self, name) for name in core.ConnectionOptions.__struct_fields__},
        )

    @property
    def implementation(self) -> "types.Implementation":
        """The `serverInfo` of this server."""
        fields = types.Implementation.__struct_fields__
        given = {name: getattr(self, name) for name in self.__struct_fields__ if name in fields}
        return types.Implementation(**{**given, "icons": read_icons(self.icons)})


def make_options(**given: Any) -> Options:
    """Validate the options of `Server()`.

    Raises: UnexpectedOptionError for an unknown one; UsageError for a bad value.
    """
    known = (*Options.__struct_fields__, *_OTHER_PARAMETERS)
    try:
        refuse_unknown(sorted(given), known, "Server()")
    except UnexpectedOptionError as error:
        from jackstay.server.http._options import HTTP_OPTIONS  # noqa: PLC0415  # only for this hint
        from jackstay.server.http._run import RUN_OPTIONS  # noqa: PLC0415

        hints = dict.fromkeys(RUN_OPTIONS, "it is an option of run(transport='http')")
        hints |= dict.fromkeys(HTTP_OPTIONS, "it is an option of asgi() and of run(transport='http')")
        if error.option not in hints:
            raise
        raise UnexpectedOptionError("Server()", error.option, known, hint=hints[error.option]) from None
    return Options(**with_tuples(given))
