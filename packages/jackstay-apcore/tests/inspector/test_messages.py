"""Messages, resources and the log on the page of the inspector."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from apcore import Registry

from apcore_mcp.inspector import changes, messages
from apcore_mcp.redaction import REDACTED
from apcore_mcp.serving import asgi_app
from jackstay.inspector import write_body
from jackstay.server.http import Principal, keys

ALICE, BOB = "alice-0123456789abcdef", "bobby-0123456789abcdef"
LOCAL, REMOTE = "127.0.0.1", "192.0.2.1"
START = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


@asynccontextmanager
async def served(registry: Registry, **options: Any) -> AsyncIterator[Any]:
    """A function that returns a client of the endpoint and its pages, at an address and with a key."""
    async with asgi_app(registry, explorer=True, **options) as app:

        def client(address: str = LOCAL, key: str = "") -> httpx.AsyncClient:
            headers = {"Accept": "application/json, text/event-stream"}
            if key:
                headers["Authorization"] = f"Bearer {key}"
            transport = httpx.ASGITransport(app, client=(address, 1))
            return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)

        yield client


async def call(client: httpx.AsyncClient, tool: str, arguments: dict[str, Any]) -> None:
    """Call a tool in a session of its own."""
    started = await client.post("/mcp", json=START)
    session = {"Mcp-Session-Id": started.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-11-25"}
    await client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
    params = {"name": tool, "arguments": arguments}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    assert (await client.post("/mcp", json=request, headers=session)).status_code == 200


async def recording(client: httpx.AsyncClient) -> list[Any]:
    text = (await client.get("/inspector/api/recording")).text
    return [json.loads(line) for line in text.splitlines()][1:]


async def sections(client: httpx.AsyncClient) -> list[str]:
    found: list[str] = (await client.get("/inspector/api/about")).json()["sections"]
    return found


async def test_messages_of_clients_and_of_the_page(registry: Registry) -> None:
    async with served(registry) as client, client() as page:
        await call(page, "math.add", {"a": 1, "b": 2})
        assert await sections(page) == ["tools", "resources", "messages", "log"]
        assert await recording(page) == [], "nothing is kept before the page is opened"
        await call(page, "math.add", {"a": 1, "b": 2})
        found = [line["message"] for line in await recording(page)]
        assert [message.get("method", "result") for message in found] == [
            "initialize",
            "result",
            "notifications/initialized",
            "tools/call",
            "result",
        ]
        await page.post("/inspector/api/call", json={"tool": "math.add", "arguments": {"a": 3, "b": 4}})
        request, response = [line["message"] for line in await recording(page)][5:]
        assert request["params"] == {"name": "math.add", "arguments": {"a": 3, "b": 4}}
        assert (response["id"], response["result"]["isError"]) == (request["id"], False)


async def test_sensitive_arguments_are_redacted(registry: Registry, kinds: SimpleNamespace) -> None:
    schema = {"type": "object", "properties": {"pin": {"type": "string", "x-sensitive": True}}}
    registry.register("x.login", kinds.Plain(lambda *_: {}, input_schema=schema))
    async with served(registry) as client, client() as page:
        await recording(page)
        await call(page, "x.login", {"pin": "1234-secret"})
        await page.post("/inspector/api/call", json={"tool": "x.login", "arguments": {"pin": "1234-secret"}})
        found = json.dumps(await recording(page))
        assert "1234-secret" not in found
        assert found.count(REDACTED) == 2


async def test_arguments_with_secret_names_are_redacted(registry: Registry, kinds: SimpleNamespace) -> None:
    """As in the logs of apcore, without `x-sensitive`; also in the arguments of the tools that run modules."""
    registry.register("x.login", kinds.Plain(lambda *_: {}, metadata={"async": True}))
    arguments = {"password": "1234-secret", "_secret_key": "1234-secret", "name": "ann"}
    async with served(registry, async_tasks=True) as client, client() as page:
        await recording(page)
        await call(page, "x.login", arguments)
        for tool in ("__apcore_task_submit", "__apcore_module_preview"):
            await call(page, tool, {"module_id": "x.login", "arguments": arguments})
        await page.post("/inspector/api/call", json={"tool": "x.login", "arguments": arguments})
        found = json.dumps(await recording(page))
        assert "1234-secret" not in found
        assert (found.count(REDACTED), found.count('"ann"')) == (8, 4)


async def test_principals_see_their_own_messages(registry: Registry) -> None:
    guard = keys({"alice": ALICE, "bob": BOB})
    async with served(registry, auth=guard) as client, client(REMOTE, ALICE) as alice, client(REMOTE, BOB) as bob:
        assert await sections(alice) == ["tools", "resources", "messages"]
        assert await recording(alice) == []
        assert await recording(bob) == []
        await call(alice, "math.add", {"a": 1, "b": 2})
        assert len(await recording(alice)) == 5
        assert await recording(bob) == []


async def test_requests_are_authenticated_once(registry: Registry) -> None:
    class Verifier:
        calls = 0

        async def verify(self, token: str) -> Principal | None:
            self.calls += 1
            return Principal("alice") if token == ALICE else None

    verifier = Verifier()
    async with served(registry, auth=verifier) as client, client(REMOTE, ALICE) as alice:
        assert await recording(alice) == []
        before = verifier.calls
        await call(alice, "math.add", {"a": 1, "b": 2})
        assert verifier.calls == before + 3
        assert (await alice.post("/mcp", json=START, headers={"Authorization": "Bearer x"})).status_code == 401
        assert len(await recording(alice)) == 5


async def test_remote_page_without_a_key_sees_none(registry: Registry) -> None:
    async with served(registry) as client, client(REMOTE) as page:
        assert await sections(page) == ["tools", "resources"]
        for path in ("recording", "messages/1"):
            assert (await page.get(f"/inspector/api/{path}")).status_code == 403


async def test_local_page_needs_a_key_where_there_are_keys(registry: Registry) -> None:
    """A reverse proxy that adds no header is on this machine, too."""
    guard = keys({"alice": ALICE})
    async with served(registry, auth=guard, require_auth=False) as client, client() as page, client(key=ALICE) as alice:
        assert await sections(page) == ["tools", "resources"]
        assert (await page.get("/inspector/api/recording")).status_code == 403
        assert await sections(alice) == ["tools", "resources", "messages", "log"]


async def test_resources(registry: Registry) -> None:
    async with served(registry) as client, client() as page:
        listed = (await page.get("/inspector/api/resources")).json()
        uris = [row["uri"] for row in listed["resources"]]
        assert uris
        read = (await page.post("/inspector/api/read", json={"uri": uris[0]})).json()
        assert read["raw"]["contents"][0]["text"]
        missing = (await page.post("/inspector/api/read", json={"uri": "docs://no.such"})).json()
        assert missing["failed"]["message"]
        template = {"template": uris[0] + "{/none}", "values": {}}
        assert (await page.post("/inspector/api/read", json=template)).json()["uri"] == uris[0]
        assert (await page.post("/inspector/api/read", json={})).status_code == 400


async def test_log_of_the_server(registry: Registry) -> None:
    root = logging.getLogger()
    async with served(registry) as client, client() as page:
        await recording(page)
        (lines,) = [handler for handler in root.handlers if isinstance(handler, messages.LogLines)]
        view = next(iter(lines._publish.__self__._views.values()))  # type: ignore[attr-defined]  # its owner
        logging.getLogger("shop").error("the shelf is empty")
        published = asyncio.Event()
        asyncio.get_running_loop().call_soon(published.set)  # after the line, in the order of the event loop
        await published.wait()
        assert any(b"ERROR shop: the shelf is empty" in event for _, event in view.events.after(0))
    assert lines not in root.handlers


async def test_bad_log_call_does_not_fail(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)  # do not print it
    async with served(registry) as client, client() as page:
        await recording(page)
        (lines,) = [handler for handler in logging.getLogger().handlers if isinstance(handler, messages.LogLines)]
        lines.handle(logging.LogRecord("shop", logging.ERROR, __file__, 1, "the shelf is empty", (1,), None))


async def test_more_principals_than_views(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest unused view is replaced; its open pages connect again instead of waiting forever."""
    monkeypatch.setattr(messages, "MAX_VIEWS", 1)
    monkeypatch.setattr(changes, "TICK", 0.01)
    opened = asyncio.Event()

    async def write(*words: Any, **options: Any) -> None:
        opened.set()
        await write_body(*words, **options)

    monkeypatch.setattr(changes, "write_body", write)
    guard = keys({"alice": ALICE, "bob": BOB})
    async with served(registry, auth=guard) as client, client(REMOTE, ALICE) as alice, client(REMOTE, BOB) as bob:
        stream = asyncio.ensure_future(alice.get("/inspector/api/events"))
        await opened.wait()
        await call(alice, "math.add", {"a": 1, "b": 2})
        assert await sections(bob) == ["tools", "resources", "messages"]
        assert len(await recording(alice)) == 5, "reading the sections replaces nothing"
        assert not stream.done()
        assert await recording(bob) == []
        assert (await asyncio.wait_for(stream, 10)).text.startswith("event: open")


async def test_numbers_are_limited(registry: Registry) -> None:
    """Python refuses to read numbers of more than 4,300 digits."""
    async with served(registry) as client, client() as page:
        assert (await page.get(f"/inspector/api/messages/{'1' * 4400}")).status_code == 404


def test_events_in_many_chunks() -> None:
    frames = messages.Frames()
    frames.add({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for chunk in (b"data: {", b'"a": 1', b"}", b"\r\n", b"\r\nda", b"ta: 2\n\n", b": alive\n\n"):
        frames.add({"type": "http.response.body", "body": chunk, "more_body": True})
    assert frames.frames == [b'{"a": 1}', b"2"]
