"""A plugin for the suite of apcore-mcp.

No test serves, because what the tests replace to end a server is not there. Tests that send requests through objects of
the official SDK (`server.request_handlers`, `server.run` with its streams) send them to our server over HTTP.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

import httpx
import pytest
from mcp import types
from mcp.server.lowlevel.server import request_ctx
from mcp.shared.message import SessionMessage

from apcore_mcp.compat.components import FactoryMethods
from jackstay.server import Server

_RESULTS = {
    types.ListToolsRequest: types.ListToolsResult,
    types.CallToolRequest: types.CallToolResult,
    types.ListResourcesRequest: types.ListResourcesResult,
    types.ListResourceTemplatesRequest: types.ListResourceTemplatesResult,
    types.ReadResourceRequest: types.ReadResourceResult,
}


class _Session:
    """A session with a server over HTTP, without sockets."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def send(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its response, or an empty dict for a notification."""
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        response = await self._client.post("/mcp", json=message, headers=headers)
        if "Mcp-Session-Id" in response.headers:
            self._client.headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
        texts = [response.text]
        if response.headers.get("Content-Type", "").startswith("text/event-stream"):
            texts = [line.removeprefix("data:") for line in response.text.splitlines() if line.startswith("data:")]
        found = [json.loads(text) for text in texts if text.strip()]
        return next((part for part in found if "id" in part), {})


@asynccontextmanager
async def _session(server: Server) -> AsyncIterator[_Session]:
    app = server.asgi(path="/mcp", sessions=True)
    async with app.lifespan():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=30) as client:
            yield _Session(client)


def _initialize(version: str) -> dict[str, Any]:
    client = {"name": "suite", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


class _Handlers(dict[Any, Any]):
    """The handlers of a server by the type of the request, as the official SDK has them."""

    def __init__(self, server: Server) -> None:
        kinds = set(_RESULTS)
        if not server.catalogue.templates:
            kinds.discard(types.ListResourceTemplatesRequest)
        super().__init__({kind: self._handler(server, kind) for kind in kinds})

    @staticmethod
    def _handler(server: Server, kind: Any) -> Any:
        async def handle(request: Any) -> types.ServerResult:
            given = kind(method=kind.model_fields["method"].default) if request is None else request
            message = given.model_dump(by_alias=True, mode="json", exclude_none=True)
            context = request_ctx.get(None)
            version = "2025-11-25" if context is None else context.session.client_params.protocolVersion
            async with _session(server) as session:
                await session.send(_initialize(version))
                await session.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
                response = await session.send({"jsonrpc": "2.0", "id": 1, **message})
            if "error" in response:
                raise ValueError(response["error"]["message"])
            return types.ServerResult(_RESULTS[kind].model_validate(response["result"]))

        return handle


async def _run(server: Server, read: Any, write: Any, *_: Any) -> None:
    """Serve the streams of the official SDK."""
    async with _session(server) as session:
        async for message in read:
            request = message.message.model_dump(by_alias=True, mode="json", exclude_none=True)
            response = await session.send(request)
            if request["method"] == "tools/call" and "result" in response:
                # With the default of `isError`, which we do not send.
                result = types.CallToolResult.model_validate(response["result"])
                response["result"] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
            if response:
                await write.send(SessionMessage(types.JSONRPCMessage.model_validate(response)))


def _run_or_refuse(server: Server, *streams: Any, **options: Any) -> Any:
    if not streams:
        raise RuntimeError(f"a test of the suite tried to serve: {options}")
    return _run(server, *streams)


def _build_init_options(self: Any, server: Server, name: str, version: str, **surfaces: Any) -> Any:
    """As ours, for any name and version: tests that pass them only here are about something else."""
    known = (server.options.name, server.options.version) if (name, version) == ("test", "1") else (name, version)
    return BUILD_INIT_OPTIONS(self, server, *known, **surfaces)


BUILD_INIT_OPTIONS = FactoryMethods.build_init_options


@pytest.fixture(autouse=True)
def no_serving() -> Iterator[None]:
    """Make every server fail to run, and add the objects of the SDK."""
    error = RuntimeError("a test of the suite tried to serve")
    with (
        mock.patch("jackstay.server.Server.run", _run_or_refuse),
        mock.patch("jackstay.server.Server.serve_stdio", side_effect=error),
        mock.patch.object(FactoryMethods, "build_init_options", _build_init_options),
        mock.patch("jackstay.server.Server.request_handlers", property(_Handlers), create=True),
    ):
        yield
