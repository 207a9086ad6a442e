"""F-005: the front door, in one process."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from apcore import Executor, Registry

import apcore_mcp
from apcore_mcp import asgi_app, async_serve, serve
from apcore_mcp.options import make_options
from apcore_mcp.serving import opened
from jackstay.client import connect
from jackstay.transport.http import http

Listening = Callable[[int], bool]


@pytest.mark.parametrize("given", [None, "registry", object(), {}])
def test_what_is_neither_a_registry_nor_an_executor_is_refused(given: Any) -> None:
    """Seed 7.1: TypeError."""
    with pytest.raises(TypeError, match="expected an apcore Registry or Executor"):
        serve(given)


def test_a_bad_option_is_refused_before_anything_is_started(registry: Registry) -> None:
    with pytest.raises(ValueError, match="transport"):
        serve(registry, transport="pigeon")


def test_serve_runs_what_was_asked_for(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-005: blocks until it ends; the real thing is in end_to_end."""
    ran: list[Any] = []

    def run(self: Any, server: Any, *where: Any) -> None:
        ran.append((server.name, *where))

    async def run_stdio(self: Any, server: Any) -> None:
        ran.append(server.name)

    monkeypatch.setattr("apcore_mcp.server.TransportManager.run", run)
    monkeypatch.setattr("apcore_mcp.server.TransportManager.run_stdio", run_stdio)
    serve(registry, name="mine", transport="SSE", port=9)
    asyncio.run(async_serve(registry, name="other"))
    assert ran == [("mine", "sse", "127.0.0.1", 9), "other"]


def test_an_executor_is_used_as_it_is(executor: Executor) -> None:
    """F-014."""
    with opened(executor, make_options()) as bridge:
        assert bridge.executor is executor
        assert bridge.router._executor is executor
        assert "apcore-mcp" in repr(bridge)


def test_the_version_is_the_packages_unless_it_is_said(registry: Registry) -> None:
    """Seed 7.1."""
    with opened(registry, make_options()) as bridge:
        assert bridge.server.options.version == apcore_mcp.__version__
    with opened(registry, make_options(version="9.9")) as bridge:
        assert bridge.server.options.version == "9.9"


def test_an_empty_registry_is_served_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Seed 9.3."""
    with opened(Registry(), make_options()) as bridge:
        assert len(bridge.catalogue) == 0
    assert "No modules registered" in caplog.text


def test_the_log_level_is_set(registry: Registry) -> None:
    """Seed 7.1."""
    ours = logging.getLogger("apcore_mcp")
    before = ours.level
    try:
        with opened(registry, make_options(log_level="error")):
            assert ours.level == logging.ERROR
    finally:
        ours.setLevel(before)


def test_the_hooks_are_called_at_both_ends_whatever_happens(registry: Registry) -> None:
    """F-005; and the registry is followed no longer."""
    told: list[str] = []
    options = make_options(
        dynamic=True, on_startup=lambda: told.append("up"), on_shutdown=lambda: told.append("down")
    )
    with pytest.raises(RuntimeError), opened(registry, options):
        raise RuntimeError
    assert told == ["up", "down"]
    assert registry._callbacks["register"] == []


def test_what_never_reached_the_registry_is_shown_among_the_skipped(registry: Registry) -> None:
    with opened(registry, make_options(), {"bad.file": "SyntaxError"}) as bridge:
        assert bridge.catalogue.skipped() == {"bad.file": "SyntaxError"}


def test_dynamic_is_what_decides_whether_changes_are_followed(registry: Registry, kinds: Any) -> None:
    """Section 4: `dynamic=True` changes nothing."""
    with opened(registry, make_options()) as fixed, opened(registry, make_options(dynamic=True)) as live:
        registry.register("new.one", kinds.Plain(lambda i, c: {}))
        assert fixed.catalogue.find("new.one") is None
        assert live.catalogue.find("new.one") is not None
        assert "new.one" in live.server.catalogue.tools


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
def test_it_can_be_served_inside_a_loop_and_cancelled(
    registry: Registry, port: int, listening: Listening, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """F-005, F-007, F-010: SSE warns that it is deprecated."""

    async def main() -> Any:
        serving = asyncio.ensure_future(async_serve(registry, transport=transport, port=port))
        assert await asyncio.to_thread(listening, port)
        async with connect(http(f"http://127.0.0.1:{port}/mcp")) as client:
            result = await client.tools.call("math.add", {"a": 1})
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        return result.structured_content

    assert asyncio.run(main()) == {"total": 3}
    assert ("deprecated" in caplog.text) is (transport == "sse")


def test_a_taken_port_is_an_os_error(registry: Registry, port: int, listening: Listening) -> None:
    """Seed 7.1."""

    async def main() -> None:
        serving = asyncio.ensure_future(async_serve(registry, transport="streamable-http", port=port))
        assert await asyncio.to_thread(listening, port)
        with pytest.raises(OSError, match="cannot listen"):
            await async_serve(registry, transport="streamable-http", port=port)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(main())


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


def test_an_app_can_be_mounted_with_its_pages(registry: Registry) -> None:
    """F-005, F-019, F-022, F-026: an ASGI app to mount."""

    async def main() -> None:
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

    asyncio.run(main())
