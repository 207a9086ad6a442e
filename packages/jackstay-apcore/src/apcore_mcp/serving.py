"""The public functions: serve a registry, mount it in an ASGI app, or export its tools."""

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from apcore_mcp.bridge import Bridge, to_executor
from apcore_mcp.config import with_settings
from apcore_mcp.converters.openai import OpenAIConverter
from apcore_mcp.options import ExportKeywords, ServeKeywords, ServeOptions, make_options
from apcore_mcp.server.transport import MCP_PATH

if TYPE_CHECKING:
    from apcore import Executor, Registry  # type: ignore[import-untyped]  # apcore ships no types

    from jackstay.server.http import Asgi

logger = logging.getLogger("apcore_mcp")


def serve(registry_or_executor: "Registry | Executor", **options: Unpack[ServeKeywords]) -> None:
    """Serve every module of a registry as an MCP tool until the client disconnects or a signal arrives. Blocks.

    An Executor is used unchanged, with its ACL, middleware and policy. docs/apcore.md lists the options.

    Raises: TypeError for anything but a Registry or an Executor, or an unknown option; ValueError for a bad option;
    OSError if the port is in use.
    """
    settings = make_options(**with_settings(options))
    with open_bridge(registry_or_executor, settings) as bridge:
        bridge.transport().run(bridge.server, settings.transport, settings.host, settings.port)


async def async_serve(registry_or_executor: "Registry | Executor", **options: Unpack[ServeKeywords]) -> None:
    """As `serve`, in a running event loop. Cancel it to shut down gracefully. Handles no signals."""
    settings = make_options(**with_settings(options))
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
    registry_or_executor: "Registry | Executor", **options: Unpack[ServeKeywords]
) -> AsyncIterator["Asgi"]:
    """Return an ASGI app to mount: `async with asgi_app(registry) as app`. MCP is at /mcp below the mount."""
    settings = make_options(**with_settings({"transport": "streamable-http", **options}))
    with open_bridge(registry_or_executor, settings, owns_loop=False) as bridge:
        app = bridge.server.asgi(path=MCP_PATH, sessions=True, **bridge.http_options())
        async with app.lifespan():
            yield bridge.wrap_app(app)


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
        logger.info("%s: %d tools over %s", options.name, len(bridge.catalogue), options.transport)
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
    return OpenAIConverter().convert_registry(registry, **options, shape=shape)


__all__ = [
    "asgi_app",
    "async_serve",
    "open_bridge",
    "serve",
    "to_anthropic_tools",
    "to_openai_responses_tools",
    "to_openai_tools",
]
