"""The front door: serve a registry, mount it, or export its tools. Each is one call.

Above: users, the command. Below: `bridge`, `options`, `converters`.
"""

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from apcore_mcp.bridge import Bridge, to_executor
from apcore_mcp.converters.openai import OpenAIConverter
from apcore_mcp.options import ExportKeywords, ServeKeywords, ServeOptions, make_options
from apcore_mcp.server.transport import MCP_PATH

if TYPE_CHECKING:
    from apcore import Executor, Registry  # type: ignore[import-untyped]  # apcore ships no types

    from jackstay.server.http import Asgi

logger = logging.getLogger("apcore_mcp")


def serve(registry_or_executor: "Registry | Executor", **options: Unpack[ServeKeywords]) -> None:
    """Serve every module of a registry as an MCP tool, until the client is gone or a signal comes. Blocks.

    An Executor that is passed in is used as it is: its ACL, middleware and policy hold. `docs/apcore.md` lists the options.

    Raises: TypeError, if it is neither a Registry nor an Executor; ValueError for a bad option; OSError, if the port is
    taken.
    """
    made = make_options(**options)
    with opened(registry_or_executor, made) as bridge:
        bridge.transport().run(bridge.server, made.transport, made.host, made.port)


async def async_serve(registry_or_executor: "Registry | Executor", **options: Unpack[ServeKeywords]) -> None:
    """As `serve`, inside a running loop: cancel it to end in order. Takes no signals over."""
    made = make_options(**options)
    # HTTP has a thread and a loop of its own.
    with opened(registry_or_executor, made, owns_loop=made.transport != "stdio") as bridge:
        transport = bridge.transport()
        if made.transport == "stdio":
            await transport.run_stdio(bridge.server)
        elif made.transport == "sse":
            await transport.run_sse(bridge.server, host=made.host, port=made.port)
        else:
            await transport.run_streamable_http(bridge.server, host=made.host, port=made.port)


@asynccontextmanager
async def asgi_app(
    registry_or_executor: "Registry | Executor", **options: Unpack[ServeKeywords]
) -> AsyncIterator["Asgi"]:
    """The ASGI app to mount in another: `async with asgi_app(registry) as app`. MCP is at /mcp below its mount."""
    made = make_options(**{"transport": "streamable-http", **options})
    with opened(registry_or_executor, made, owns_loop=False) as bridge:
        app = bridge.server.asgi(path=MCP_PATH, sessions=True, **bridge.http_options())
        async with app.lifespan():
            yield bridge.around(app)


@contextmanager
def opened(
    registry_or_executor: "Registry | Executor",
    options: ServeOptions,
    undiscovered: Mapping[str, str] | None = None,
    *,
    owns_loop: bool = True,
) -> Iterator[Bridge]:
    """The bridge that is served meanwhile, with the author's hooks at both ends.

    `undiscovered` are modules that never reached the registry, with the reasons: they are shown among those skipped.
    `owns_loop`: as of `Bridge`.
    """
    if options.log_level is not None:
        logging.basicConfig(level=options.log_level)
        logging.getLogger("apcore_mcp").setLevel(options.log_level)
    bridge = Bridge(registry_or_executor, options, owns_loop=owns_loop)
    bridge.catalogue.note_undiscovered(undiscovered or {})
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
    """The modules as `tools` of OpenAI's chat completions: plain dicts. Reads the registry, and changes nothing.

    Raises: TypeError, if it is neither a Registry nor an Executor; ValueError for an empty tag or prefix.
    """
    return _export(registry_or_executor, "openai", options)


def to_openai_responses_tools(
    registry_or_executor: "Registry | Executor", **options: Unpack[ExportKeywords]
) -> list[dict[str, Any]]:
    """The modules as `tools` of OpenAI's Responses API; otherwise as `to_openai_tools`."""
    return _export(registry_or_executor, "openai-responses", options)


def to_anthropic_tools(
    registry_or_executor: "Registry | Executor", **options: Unpack[ExportKeywords]
) -> list[dict[str, Any]]:
    """The modules as `tools` of Anthropic's Messages API; otherwise as `to_openai_tools`."""
    return _export(registry_or_executor, "anthropic", options)


def _export(given: object, shape: str, options: ExportKeywords) -> list[dict[str, Any]]:
    registry = to_executor(given).registry
    return OpenAIConverter().convert_registry(registry, **options, shape=shape)


__all__ = [
    "asgi_app",
    "async_serve",
    "opened",
    "serve",
    "to_anthropic_tools",
    "to_openai_responses_tools",
    "to_openai_tools",
]
