"""The public functions: serve a registry, mount it in an ASGI app, or export its tools."""

import logging
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Unpack, cast

from apcore_mcp._version import __version__
from apcore_mcp.bridge import Bridge, to_executor
from apcore_mcp.compat.keywords import CompatKeywords, to_options
from apcore_mcp.config import with_settings
from apcore_mcp.converters.openai import OpenAIConverter
from apcore_mcp.options import ExportKeywords, ServeOptions, make_options
from apcore_mcp.server.transport import MCP_PATH

if TYPE_CHECKING:
    from apcore import Executor, Registry  # type: ignore[import-untyped]  # apcore ships no types

    from jackstay.server.http import Asgi

logger = logging.getLogger("apcore_mcp")


def serve(registry_or_executor: "Registry | Executor", **options: Unpack[CompatKeywords]) -> None:
    """Serve every module of a registry as an MCP tool until the client disconnects or a signal arrives. Blocks.

    An Executor is used unchanged, with its ACL, middleware and policy. docs/apcore.md lists the options.

    Raises: TypeError for anything but a Registry or an Executor, or an unknown option; ValueError for a bad option;
    OSError if the port is in use.
    """
    serve_with(registry_or_executor, read_options(options))


def serve_with(registry_or_executor: "Registry | Executor", settings: ServeOptions) -> None:
    """As `serve`, with options that are read already."""
    with open_bridge(registry_or_executor, settings) as bridge:
        bridge.transport().run(bridge.server, settings.transport, settings.host, settings.port)


def async_serve(registry_or_executor: "Registry | Executor", **options: Unpack[CompatKeywords]) -> "Serving":
    """As `serve`, in a running event loop: `await async_serve(registry)`. Cancel it to shut down. Handles no signals.

    `async with async_serve(registry) as app` is `asgi_app`, for programs that were written for apcore-mcp.
    """
    return Serving(registry_or_executor, options)


class Serving(Coroutine[Any, Any, None]):
    """What `async_serve` returns: a coroutine that serves, and a context manager of the ASGI app."""

    def __init__(self, registry_or_executor: "Registry | Executor", options: Mapping[str, Any]) -> None:
        self._given = registry_or_executor, options
        self._coroutine: Coroutine[Any, Any, None] | None = None
        self._app: AbstractAsyncContextManager[Asgi] | None = None

    def __await__(self) -> Generator[Any, Any, None]:
        """Serve until it is cancelled, or the client disconnects."""
        return self._serving.__await__()

    def send(self, value: Any) -> Any:
        """Continue, as a coroutine."""
        return self._serving.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception in it, as a coroutine."""
        return self._serving.throw(*error)

    def close(self) -> None:
        """End it, as a coroutine."""
        if self._coroutine is not None:
            self._coroutine.close()

    @property
    def _serving(self) -> Coroutine[Any, Any, None]:
        if self._coroutine is None:
            self._coroutine = _serve_on_loop(*self._given)
        return self._coroutine

    async def __aenter__(self) -> "Asgi":
        """Return the ASGI app."""
        registry_or_executor, options = self._given
        self._app = asgi_app(registry_or_executor, **cast("CompatKeywords", options))
        return await self._app.__aenter__()

    async def __aexit__(self, *error: Any) -> bool | None:
        """Close the app."""
        assert self._app is not None
        return await self._app.__aexit__(*error)


async def _serve_on_loop(registry_or_executor: "Registry | Executor", options: Mapping[str, Any]) -> None:
    settings = read_options(options)
    # HTTP runs on its own thread and event loop.
    with open_bridge(registry_or_executor, settings, owns_loop=settings.transport != "stdio") as bridge:
        transport = bridge.transport()
        if settings.transport == "stdio":
            await transport.run_stdio(bridge.server)
        elif settings.transport == "sse":
            await transport.run_sse(bridge.server, host=settings.host, port=settings.port)
        else:
            await transport.run_streamable_http(bridge.server, host=settings.host, port=settings.port)


@asynccontextmanager
async def asgi_app(
    registry_or_executor: "Registry | Executor", **options: Unpack[CompatKeywords]
) -> AsyncIterator["Asgi"]:
    """Return an ASGI app to mount: `async with asgi_app(registry) as app`. MCP is at /mcp below the mount."""
    async with asgi_app_with(registry_or_executor, read_options(over_http(options))) as app:
        yield app


def over_http(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an app. A transport of stdio is replaced, because it needs no authentication."""
    is_stdio = str(options.get("transport", "stdio")).lower() == "stdio"
    return {**options, "transport": "streamable-http"} if is_stdio else dict(options)


@asynccontextmanager
async def asgi_app_with(registry_or_executor: "Registry | Executor", settings: ServeOptions) -> AsyncIterator["Asgi"]:
    """As `asgi_app`, with options that are read already."""
    with open_bridge(registry_or_executor, settings, owns_loop=False) as bridge:
        app = bridge.server.asgi(path=MCP_PATH, sessions=True, **bridge.http_options())
        async with app.lifespan():
            yield bridge.wrap_app(app)


def read_options(given: Mapping[str, Any]) -> ServeOptions:
    """Return the options of these keywords, completed by the settings.

    Raises: TypeError for an unknown keyword; ValueError for a bad value.
    """
    return make_options(**with_settings(to_options(given)))


@contextmanager
def open_bridge(
    registry_or_executor: "Registry | Executor",
    options: ServeOptions,
    undiscovered: Mapping[str, str] | None = None,
    *,
    owns_loop: bool = True,
) -> Iterator[Bridge]:
    """Return a bridge, with the hooks `on_startup` and `on_shutdown` around its use.

    `undiscovered` has modules that could not be loaded into the registry, with the reasons; they count as skipped.
    `owns_loop`: see `Bridge`.
    """
    if options.log_level is not None:
        logging.basicConfig(level=options.log_level)
        logging.getLogger("apcore_mcp").setLevel(options.log_level)
    bridge = Bridge(registry_or_executor, options, owns_loop=owns_loop)
    bridge.catalogue.set_undiscovered(undiscovered or {})
    try:
        logger.info(
            "Starting MCP server %r v%s with %d tools via %s",
            options.name,
            options.version or __version__,
            len(bridge.catalogue),
            options.transport,
        )
        bridge.start_up()
        try:
            yield bridge
        finally:
            bridge.shut_down()
    finally:
        bridge.close()


def to_openai_tools(
    registry_or_executor: "Registry | Executor", **options: Unpack[ExportKeywords]
) -> list[dict[str, Any]]:
    """Return the modules as `tools` of OpenAI Chat Completions, as plain dicts.

    Raises: TypeError for anything but a Registry or an Executor; ValueError for an empty tag or prefix.
    """
    return _export(registry_or_executor, "openai", options)


def to_openai_responses_tools(
    registry_or_executor: "Registry | Executor", **options: Unpack[ExportKeywords]
) -> list[dict[str, Any]]:
    """Return the modules as `tools` of the OpenAI Responses API; see `to_openai_tools`."""
    return _export(registry_or_executor, "openai-responses", options)


def to_anthropic_tools(
    registry_or_executor: "Registry | Executor", **options: Unpack[ExportKeywords]
) -> list[dict[str, Any]]:
    """Return the modules as `tools` of the Anthropic Messages API; see `to_openai_tools`."""
    return _export(registry_or_executor, "anthropic", options)


def _export(given: object, shape: str, options: ExportKeywords) -> list[dict[str, Any]]:
    registry = to_executor(given).registry
    tools = OpenAIConverter().convert_registry(registry, **options, shape=shape)
    logger.debug("Converted %d tools to %s format", len(tools), "OpenAI" if shape == "openai" else shape)
    return tools


def _with_keywords(function: Any) -> None:
    """Show the options in the signature, which `help()` prints."""
    default: Any
    parameters = [Parameter("registry_or_executor", Parameter.POSITIONAL_OR_KEYWORD)]
    for name, default in zip(ServeOptions.__struct_fields__, ServeOptions.__struct_defaults__, strict=True):
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default))
    function.__signature__ = Signature(parameters)


for _function in (serve, async_serve, asgi_app):
    _with_keywords(_function)

__all__ = [
    "Serving",
    "asgi_app",
    "asgi_app_with",
    "async_serve",
    "open_bridge",
    "over_http",
    "read_options",
    "serve",
    "serve_with",
    "to_anthropic_tools",
    "to_openai_responses_tools",
    "to_openai_tools",
]
