"""A server with a backend."""

import pytest

from jackstay.errors import UsageError
from jackstay.server import MemoryBackend, MemoryChanges, Server, Tasks, use_backend
from jackstay.server._input_required import KeyRing
from scripted.asgi import http_client, tool


class RecordingBackend(MemoryBackend):
    """Records when it is opened and closed."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    async def open(self, name: str) -> None:
        self.calls.append(f"open {name}")

    async def close(self) -> None:
        self.calls.append("close")


def serving(backend: RecordingBackend) -> Server:
    server = Server("with backend", backend=backend)

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


async def test_a_backend_is_open_while_the_server_runs() -> None:
    backend = RecordingBackend()
    server = serving(backend)
    server.on_startup(lambda: backend.calls.append("startup hook"))
    server.on_shutdown(lambda: backend.calls.append("shutdown hook"))
    app = server.asgi(sessions=True)
    assert backend.calls == []
    async with http_client(app) as http:
        await http.handshake()
        assert (await http.post(tool("echo", text="a"))).status == 200
        assert len(backend.sessions) == 1
        assert "1 listeners" in repr(backend)
    await server.shutdown()
    assert backend.calls == ["open with backend", "startup hook", "shutdown hook", "close"]
    assert "0 listeners" in repr(backend)


def test_an_endpoint_uses_the_stores_of_the_backend_only_for_sessions() -> None:
    backend = RecordingBackend()
    server = serving(backend)
    with_sessions = server.asgi(sessions=True).options
    assert (with_sessions.session_store, with_sessions.event_store) == (backend.sessions, backend.events)
    assert server.asgi(sessions=True, event_store=None).options.event_store is None
    assert server.asgi().options.session_store is None


def test_a_backend_and_a_bus_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="pass changes or backend, not both"):
        Server("both", backend=MemoryBackend(), changes=MemoryChanges())


async def test_a_server_gets_a_backend_after_it_was_created() -> None:
    """As one that a command starts: everything that shares state uses it, and it opens before the hooks."""
    backend = RecordingBackend()
    server = Server("late")
    server.on_startup(lambda: backend.calls.append("startup hook"))

    @server.tool(task=True)
    async def echo(text: str) -> str:
        return text

    await server.call_tool("echo", {"text": "a"})
    backend.calls.clear()
    use_backend(server, backend, request_state_secrets=(b"s" * 16,))
    assert server.options.request_state_secrets == (b"s" * 16,)
    assert server._key_ring.verify(KeyRing((b"s" * 16,)).sign(b"x")) == b"x"
    assert server._extensions is not None
    tasks = next(row for row in server._extensions.rows if isinstance(row, Tasks))
    assert tasks.store is backend.tasks
    await server.call_tool("echo", {"text": "a"})
    assert server._dispatch.server._backend is backend
    assert backend.calls == ["open late", "startup hook", "close"]
    with pytest.raises(UsageError, match="'late' already has a backend or a change bus"):
        use_backend(server, MemoryBackend())


def test_an_app_reports_the_problem_of_its_backend() -> None:
    backend = RecordingBackend()
    app = serving(backend).asgi()
    assert app.backend == "ok"
    backend.problem = "Redis is unavailable"
    assert app.backend == "Redis is unavailable"
    assert Server("none").asgi().backend is None
