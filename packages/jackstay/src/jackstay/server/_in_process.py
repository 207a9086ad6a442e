"""Requests that a program sends to its own server: `server.call_tool()` and `server.list_tools()`.

They take the way of every request, through middleware and telemetry, without a transport or a client.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from jackstay.errors import JsonRpcError, ShutdownError, ToolCallError
from jackstay.protocol import REVISIONS
from jackstay.protocol.server import ServerConnection
from jackstay.protocol.server import events as e
from jackstay.protocol.wire import Error, Result, decode, encode_request
from jackstay.server._driver import ConnectionConfig, Driver
from jackstay.types import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_PROTOCOL_VERSION,
    CallToolResult,
    Implementation,
    ListToolsResult,
    OutputReader,
    Tool,
    encode_json,
)
from jackstay.types import decode as decode_body

if TYPE_CHECKING:
    from jackstay.server._server import Server

_ID = 1


class InProcessRequest(Driver):
    """A connection for one request of this process."""

    KEEPS_SUBSCRIPTIONS = False

    __slots__ = ("_response",)

    def __init__(self, config: ConnectionConfig, version: str) -> None:
        super().__init__(config, ServerConnection(config.server_config, version=version, is_post=True))
        self._response: asyncio.Future[bytes] = self._loop.create_future()

    async def send(self, method: str, params: dict[str, Any]) -> msgspec.Raw:
        """Send the request and return its result.

        Raises: JsonRpcError, if the response is an error; ShutdownError, if there is none.
        """
        frame = encode_request(_ID, method, encode_json(params))
        self._apply(self.core.receive(frame, decode(frame)))
        try:
            response = decode(await self._response)
        except asyncio.CancelledError:
            self.stop()
            raise
        if isinstance(response, Error):
            data = None if response.data is msgspec.UNSET else response.data
            raise JsonRpcError(response.code, response.message, data)
        assert isinstance(response, Result)
        return response.result

    def _send(self, effect: e.Send) -> None:
        about = effect.related_request_id
        if about not in self.core.in_flight and not self._response.done():  # progress and log messages are dropped
            self._response.set_result(effect.frame)

    def _close(self, effect: e.Close) -> None:  # noqa: ARG002  # the effect has no data
        if not self._response.done():
            self._response.set_exception(ShutdownError("the server is shutting down"))


async def _send(server: "Server", method: str, params: dict[str, Any]) -> msgspec.Raw:
    options = server.options
    version = max(options.versions)
    if REVISIONS[version].has_result_type:
        info = Implementation(name=options.name, version=options.version)
        meta = {META_PROTOCOL_VERSION: version, META_CLIENT_INFO: info, META_CLIENT_CAPABILITIES: {}}
        params = {**params, "_meta": meta}
    user = object()
    await server.startup(user)
    try:
        return await InProcessRequest(server._connection_config(), version).send(method, params)
    finally:
        await server.shutdown(user)


async def call_tool(server: "Server", name: str, arguments: Mapping[str, Any] | None) -> CallToolResult:
    """Call a tool of this server. Raises: as `Server.call_tool`."""
    result = decode_body(
        CallToolResult, await _send(server, "tools/call", {"name": name, "arguments": arguments or {}})
    )
    if result.is_error:
        raise ToolCallError.of(name, result)
    entry = server.catalogue.find_tool(name)
    schema = None if entry is None else entry.body.output_schema
    return result.with_reader(None if schema is None else OutputReader(schema))


async def list_tools(server: "Server") -> list[Tool]:
    """Return the tools of this server."""
    tools: list[Tool] = []
    params: dict[str, Any] = {}
    while True:
        page = decode_body(ListToolsResult, await _send(server, "tools/list", params))
        tools += page.tools
        if page.next_cursor is None:
            return tools
        params = {"cursor": page.next_cursor}
