"""The public functions, in one process."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from apcore import Executor, Registry

import apcore_mcp
from apcore_mcp import asgi_app, async_serve, serve
from apcore_mcp.options import make_options
from apcore_mcp.serving import open_bridge
from jackstay.client import connect
from jackstay.transport.http import http

Listening = Callable[[int], bool]


def test_other_types_are_rejected(subtests: pytest.Subtests) -> None:
    for given in [None, "registry", object(), {}]:
        with (
            subtests.test(given=given),
            pytest.raises(TypeError, match="expected an apcore Registry or Executor"),
        ):
            serve(given)


def test_bad_option_is_rejected_before_start(registry: Registry) -> None:
    with pytest.raises(ValueError, match="transport"):
        serve(registry, transport="pigeon")


async def test_serve_runs_the_transport(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transport is replaced by a fake."""
    ran: list[Any] = []

    def run(self: Any, server: Any, *where: Any) -> None:
        ran.append((server.name, *where))

    async def run_stdio(self: Any, server: Any) -> None:
        ran.append(server.name)

    monkeypatch.setattr("apcore_mcp.server.TransportManager.run", run)
    monkeypatch.setattr("apcore_mcp.server.TransportManager.run_stdio", run_stdio)
    serve(registry, name="first", transport="SSE", port=9)
    await async_serve(registry, name="second")
    assert ran == [("first", "sse", "127.0.0.1", 9), "second"]


def test_executor_is_used_unchanged(executor: Executor) -> None:
    with open_bridge(executor, make_options()) as bridge:
        assert bridge.executor is executor
        assert bridge.router._executor is executor
        assert "apcore-mcp" in repr(bridge)


def test_default_version(registry: Registry) -> None:
    with open_bridge(registry, make_options()) as bridge:
        assert bridge.server.options.version == apcore_mcp.__version__
    with open_bridge(registry, make_options(version="9.9")) as bridge:
        assert bridge.server.options.version == "9.9"


def test_empty_registry_is_served_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with open_bridge(Registry(), make_options()) as bridge:
        assert len(bridge.catalogue) == 0
    assert "No modules registered" in caplog.text


def test_log_level(registry: Registry) -> None:
    logger = logging.getLogger("apcore_mcp")
    before = logger.level
    try:
        with open_bridge(registry, make_options(log_level="error")):
            assert logger.level == logging.ERROR
    finally:
        logger.setLevel(before)


def test_hooks_are_always_called(registry: Registry) -> None:
    """The registry is not followed afterwards."""
    called: list[str] = []
    options = make_options(
        dynamic=True, on_startup=lambda: called.append("up"), on_shutdown=lambda: called.append("down")
    )
    with pytest.raises(RuntimeError), open_bridge(registry, options):
        raise RuntimeError
    assert called == ["up", "down"]
    assert registry._callbacks["register"] == []


def test_undiscovered_modules_are_skipped(registry: Registry) -> None:
    with open_bridge(registry, make_options(), {"bad.file": "SyntaxError"}) as bridge:
        assert bridge.catalogue.skipped() == {"bad.file": "SyntaxError"}


def test_dynamic_follows_changes(registry: Registry, kinds: Any) -> None:
    with open_bridge(registry, make_options()) as fixed, open_bridge(registry, make_options(dynamic=True)) as live:
        registry.register("new.one", kinds.Plain(lambda i, c: {}))
        assert fixed.catalogue.find("new.one") is None
        assert live.catalogue.find("new.one") is not None
        assert "new.one" in live.server.catalogue.tools


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
async def test_async_serve_can_be_cancelled(
    registry: Registry, port: int, listening: Listening, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """SSE logs that it is deprecated."""

    serving = asyncio.ensure_future(async_serve(registry, transport=transport, port=port))
    assert await asyncio.to_thread(listening, port)
    async with connect(http(f"http://127.0.0.1:{port}/mcp")) as client:
        result = await client.tools.call("math.add", {"a": 1}, raise_on_error=False)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert (result.structured_content) == {"total": 3}
    assert ("deprecated" in caplog.text) is (transport == "sse")


async def test_port_in_use_is_an_os_error(registry: Registry, port: int, listening: Listening) -> None:

    serving = asyncio.ensure_future(async_serve(registry, transport="streamable-http", port=port))
    assert await asyncio.to_thread(listening, port)
    with pytest.raises(OSError, match="cannot listen"):
        await async_serve(registry, transport="streamable-http", port=port)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def get(app: Any, path: str, host: str = "localhost", root: str = "") -> tuple[int, bytes]:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": path, "root_path": root, "query_string": b"",
        "headers": [(b"host", host.encode())], "scheme": "http", "server": (host, 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])


async def test_asgi_app_has_its_pages(registry: Registry) -> None:

    async with asgi_app(registry, explorer=True, metrics=True) as app:
        for path in ("/health", "/metrics", "/inspector"):
            status, body = await get(app, path)
            assert (path, status) == (path, 200)
            assert body
        assert (await get(app, "/below/health", root="/below"))[0] == 200
        assert (await get(app, "/nothing"))[0] == 404
    async with asgi_app(registry) as app:
        assert (await get(app, "/inspector"))[0] == 404
        assert (await get(app, "/mcp", host="evil.example"))[0] == 403
