"""F-025: a server in a thread of its own."""

import asyncio
import threading
import time
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
            return (await client.tools.call("math.add", {"a": 1})).structured_content

    return asyncio.run(main())


def test_it_serves_between_start_and_stop_and_again(
    registry: Registry, port: int, listening: Listening
) -> None:
    """F-025: start is a no-op if it runs, stop does not block, wait does; the hooks are called."""
    told: list[str] = []
    server = MCPServer(
        registry,
        transport="streamable-http",
        port=port,
        on_startup=lambda: told.append("up"),
        on_shutdown=lambda: told.append("down"),
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
        assert server.wait(30)
        assert not server.is_running
        assert server.error is None
    assert told == ["up", "down"] * 2


def test_stop_right_after_start_ends_it(registry: Registry, port: int) -> None:
    """It may be asked to stop before it has begun."""
    for _ in range(3):
        server = MCPServer(registry, transport="streamable-http", port=port)
        server.start()
        server.stop()
        assert server.wait(30)
        assert server.error is None


def test_a_port_that_is_taken_is_told_and_the_process_lives(
    registry: Registry, port: int, listening: Listening, caplog: pytest.LogCaptureFixture
) -> None:
    """Seed 7.1: OSError."""
    first = MCPServer(registry, transport="streamable-http", port=port)
    first.start()
    assert listening(port)
    second = MCPServer(registry, transport="streamable-http", port=port)
    second.start()
    assert second.wait(30)
    assert isinstance(second.error, OSError)
    assert "cannot listen" in caplog.text
    first.stop()
    assert first.wait(30)


def test_wrong_options_are_refused_when_it_is_made(registry: Registry) -> None:
    with pytest.raises(TypeError):
        MCPServer("registry")
    with pytest.raises(ValueError, match="port"):
        MCPServer(registry, port=0)
    assert MCPServer(Executor(registry)).error is None


def test_a_call_that_runs_is_waited_for_no_longer_than_a_drain(
    registry: Registry, kinds: Any, port: int, listening: Listening
) -> None:
    """Stop is in order, and bounded: the hung thread does not end the process."""
    slow = kinds.Slow()
    registry.register("x.slow", slow)
    server = MCPServer(registry, transport="streamable-http", port=port)
    server.start()
    assert listening(port)

    async def begin() -> None:
        async with connect(http(f"http://127.0.0.1:{port}/mcp")) as client:
            task = asyncio.ensure_future(client.tools.call("x.slow", {}))
            await asyncio.to_thread(slow.began.wait, 30)
            server.stop()
            began = time.monotonic()
            await asyncio.to_thread(server.wait, 30)
            assert time.monotonic() - began < 15
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(begin())
    assert not server.is_running
    assert slow.was_told.wait(10)


class Stdio:
    """A server whose stdio never ends by itself, as a client that stays."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.drained = threading.Event()

    async def serve_stdio(self) -> int:
        self.began.set()
        while not self.drained.is_set():
            await asyncio.sleep(0.01)
        return 0


@pytest.mark.parametrize("is_gone", [False, True])
def test_stdio_is_served_until_it_is_stopped_or_the_client_is_gone(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, is_gone: bool
) -> None:
    """F-025, over stdio; the process's own is not taken in a test."""
    stdio = Stdio()
    monkeypatch.setattr("jackstay.server.Server.serve_stdio", lambda server: stdio.serve_stdio())
    monkeypatch.setattr("jackstay.server.Server.drain", lambda server: stdio.drained.set())
    server = MCPServer(registry)
    server.start()
    assert stdio.began.wait(30)
    if is_gone:
        stdio.drained.set()
    else:
        server.stop()
    assert server.wait(30)
    assert server.error is None


def test_it_may_be_stopped_while_it_starts(registry: Registry, port: int) -> None:
    """Between being made and being served: what is draining when it begins ends at once."""
    server = MCPServer(registry, transport="streamable-http", port=port, on_startup=lambda: server.stop())
    server.start()
    assert server.wait(30)
    assert server.error is None


def test_it_may_be_stopped_when_the_port_is_taken_and_nothing_served_yet(
    registry: Registry, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apcore_mcp.server import TransportManager

    serve_here = TransportManager.serve_here

    def stop_first(self: Any, *given: Any) -> None:
        server.stop()
        serve_here(self, *given)

    monkeypatch.setattr(TransportManager, "serve_here", stop_first)
    server = MCPServer(registry, transport="streamable-http", port=port)
    server.start()
    assert server.wait(30)
    assert server.error is None
