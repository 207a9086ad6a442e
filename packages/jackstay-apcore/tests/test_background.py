"""A server on a background thread."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from apcore import Executor, Registry

from apcore_mcp import MCPServer
from jackstay.client import connect
from jackstay.transport.http import http

Listening = Callable[[int], bool]


def call(port: int) -> Any:
    async def main() -> Any:
        async with connect(http(f"http://127.0.0.1:{port}/mcp")) as client:
            return (await client.tools.call("math.add", {"a": 1}, raise_on_error=False)).structured_content

    return asyncio.run(main())


def test_start_and_stop_repeatedly(registry: Registry, port: int, listening: Listening) -> None:
    """`start` does nothing if the server runs; `stop` does not block; the hooks are called."""
    called: list[str] = []
    server = MCPServer(
        registry,
        transport="streamable-http",
        port=port,
        on_startup=lambda: called.append("up"),
        on_shutdown=lambda: called.append("down"),
    )
    assert "stopped" in repr(server)
    server.stop()
    assert server.wait()
    for _ in range(2):
        server.start()
        server.start()
        assert listening(port)
        assert server.is_running
        assert "running" in repr(server)
        assert call(port) == {"total": 3}
        threading.Thread(target=server.stop).start()
        assert server.wait(120)
        assert not server.is_running
        assert server.error is None
    assert called == ["up", "down"] * 2


def test_stop_right_after_start(registry: Registry, port: int) -> None:
    for _ in range(3):
        server = MCPServer(registry, transport="streamable-http", port=port)
        server.start()
        server.stop()
        assert server.wait(120)
        assert server.error is None


def test_port_in_use(registry: Registry, port: int, listening: Listening, caplog: pytest.LogCaptureFixture) -> None:
    """The process continues."""
    first = MCPServer(registry, transport="streamable-http", port=port)
    first.start()
    assert listening(port)
    second = MCPServer(registry, transport="streamable-http", port=port)
    second.start()
    assert second.wait(120)
    assert isinstance(second.error, OSError)
    assert "cannot listen" in caplog.text
    first.stop()
    assert first.wait(120)


def test_wrong_options(registry: Registry) -> None:
    with pytest.raises(TypeError):
        MCPServer("registry")
    with pytest.raises(ValueError, match="port"):
        MCPServer(registry, port=0)
    assert MCPServer(Executor(registry)).error is None


async def test_stop_does_not_wait_for_a_hung_module(
    registry: Registry, kinds: Any, port: int, listening: Listening
) -> None:
    """The graceful shutdown has a timeout."""
    slow = kinds.Slow()
    registry.register("x.slow", slow)
    server = MCPServer(registry, transport="streamable-http", port=port)
    server.start()
    assert listening(port)

    async with connect(http(f"http://127.0.0.1:{port}/mcp")) as client:
        task = asyncio.ensure_future(client.tools.call("x.slow", {}, raise_on_error=False))
        await asyncio.to_thread(slow.started.wait, 60)
        server.stop()
        await asyncio.to_thread(server.wait, 60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert not server.is_running
    assert slow.was_cancelled.wait(60)


class Stdio:
    """A stdio server whose client does not disconnect."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.drained = threading.Event()

    async def serve_stdio(self) -> int:
        self.started.set()
        while not self.drained.is_set():
            await asyncio.sleep(0.01)
        return 0


@pytest.mark.parametrize("is_gone", [False, True])
def test_stdio(registry: Registry, monkeypatch: pytest.MonkeyPatch, is_gone: bool) -> None:
    stdio = Stdio()
    monkeypatch.setattr("jackstay.server.Server.serve_stdio", lambda server: stdio.serve_stdio())
    monkeypatch.setattr("jackstay.server.Server.drain", lambda server: stdio.drained.set())
    server = MCPServer(registry)
    server.start()
    assert stdio.started.wait(120)
    if is_gone:
        stdio.drained.set()
    else:
        server.stop()
    assert server.wait(120)
    assert server.error is None


def test_stop_in_on_startup(registry: Registry, port: int) -> None:
    server = MCPServer(registry, transport="streamable-http", port=port, on_startup=lambda: server.stop())
    server.start()
    assert server.wait(120)
    assert server.error is None


def test_stop_before_serving(registry: Registry, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from apcore_mcp.server import TransportManager

    serve_on_this_thread = TransportManager.serve_on_this_thread

    def stop_first(self: Any, *given: Any, **more: Any) -> None:
        server.stop()
        serve_on_this_thread(self, *given, **more)

    monkeypatch.setattr(TransportManager, "serve_on_this_thread", stop_first)
    server = MCPServer(registry, transport="streamable-http", port=port)
    server.start()
    assert server.wait(120)
    assert server.error is None
