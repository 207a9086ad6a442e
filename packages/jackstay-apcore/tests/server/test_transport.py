"""Transports. End-to-end tests are in packages/jackstay-apcore/tests/end_to_end."""

import asyncio
import logging
import threading
from typing import Any

import pytest

from apcore_mcp.server import TransportManager
from apcore_mcp.server import transport as module
from jackstay.server import Server

BAD_ADDRESSES: list[tuple[str, Any]] = [
    ("", 8000),
    ("localhost", 0),
    ("localhost", 65536),
    ("localhost", "80"),
]


async def test_bad_host_or_port_is_rejected(subtests: pytest.Subtests) -> None:
    for host, port in BAD_ADDRESSES:
        with subtests.test(host=host):
            manager = TransportManager()
            server = Server("x")
            for run in (manager.run_streamable_http, manager.run_sse):
                with pytest.raises(ValueError, match=r"host|port"):
                    await run(server, host=host, port=port)
            with pytest.raises(ValueError, match=r"host|port"):
                manager.run(server, "streamable-http", host, port)


def test_unknown_transport_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"Unknown transport: .*; transport must be one of"):
        TransportManager().run(Server("x"), "unknown")


def test_options_of_server_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions are enabled, and the options of the endpoint are passed on."""
    calls: list[dict[str, Any]] = []
    server = Server("x")
    monkeypatch.setattr(server, "run", lambda **given: calls.append(given))
    manager = TransportManager(wrap_app=None, hosts=("example.org",))
    manager.run(server)
    manager.run(server, "streamable-http", "127.0.0.1", 9000)
    manager.run(server, "sse", "127.0.0.1", 9000)
    assert set(calls[0]) == {"exit_process"}
    assert calls[1]["sessions"] is True
    assert (calls[1]["path"], calls[1]["port"], calls[1]["hosts"]) == ("/mcp", 9000, ("example.org",))
    assert "sse_path" not in calls[1]
    assert calls[2]["sse_path"] == "/sse"


@pytest.mark.parametrize(("code", "expected"), [(130, 0), (143, 0), (0, 0), (1, 1)])
def test_exit_code_after_a_signal(monkeypatch: pytest.MonkeyPatch, code: int, expected: int) -> None:
    """The exit code is 0 after SIGINT and SIGTERM."""
    codes: list[int] = []
    monkeypatch.setattr(module.os, "_exit", codes.append)
    TransportManager()._exit(code)
    assert codes == [expected]


def test_exit_hook_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging hook does not keep the process alive."""
    calls: list[Any] = []
    monkeypatch.setattr(module.os, "_exit", calls.append)
    TransportManager(on_exit=lambda: calls.append("bye"))._exit(0)
    assert calls == ["bye", 0]
    hung = threading.Event()
    TransportManager(on_exit=hung.wait)._exit(0)
    assert calls == ["bye", 0, 0]
    hung.set()


def test_process_is_not_ended_off_the_main_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    server = Server("x")
    monkeypatch.setattr(server, "run", lambda **given: calls.append(given["exit_process"]))
    manager = TransportManager()
    thread = threading.Thread(target=manager.run, args=(server,))
    thread.start()
    thread.join()
    manager.run(server)
    assert calls == [module._do_not_exit, manager._exit]
    calls[0](0)


async def test_cancellation_before_serving(port: int) -> None:
    for _ in range(5):
        serving = asyncio.ensure_future(TransportManager().run_streamable_http(Server("x"), port=port))
        await asyncio.sleep(0)
        serving.cancel()
        async with asyncio.timeout(120):
            await asyncio.gather(serving, return_exceptions=True)
        assert serving.cancelled()


async def test_run_stdio(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[str] = []
    server = Server("x")

    async def serve_stdio() -> int:
        served.append("stdio")
        return 0

    monkeypatch.setattr(server, "serve_stdio", serve_stdio)
    await TransportManager().run_stdio(server)
    assert served == ["stdio"]


@pytest.mark.parametrize(
    ("host", "auth", "warns"),
    [
        ("127.0.0.1", None, False),
        ("::1", None, False),
        ("localhost", None, False),
        ("0.0.0.0", None, True),
        ("::", None, True),
        ("tools.example.org", None, True),
        ("0.0.0.0", "a key", False),
    ],
)
def test_unauthenticated_network_address_is_logged(
    host: str, auth: Any, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "apcore_mcp")
    TransportManager(auth=auth)._options("streamable-http", host, 8000)
    assert ("without authentication" in caplog.text) is warns
