"""F-006, F-007, F-010: how a server is reached. What it serves end to end is in packages/jackstay-apcore/tests/end_to_end."""

import asyncio
import logging
import threading
from typing import Any

import pytest

from apcore_mcp.server import TransportManager
from apcore_mcp.server import transport as room
from jackstay.server import Server


@pytest.mark.parametrize(
    ("host", "port"), [("", 8000), ("localhost", 0), ("localhost", 65536), ("localhost", "80")]
)
def test_a_bad_host_or_port_is_refused_at_once(host: str, port: Any) -> None:
    """Seed 6.7: ValueError."""
    manager = TransportManager()
    server = Server("x")
    for run in (manager.run_streamable_http, manager.run_sse):
        with pytest.raises(ValueError, match=r"host|port"):
            asyncio.run(run(server, host=host, port=port))
    with pytest.raises(ValueError, match=r"host|port"):
        manager.run(server, "streamable-http", host, port)


def test_a_transport_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="transport must be one of"):
        TransportManager().run(Server("x"), "pigeon")


def test_the_process_is_told_what_to_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions are on, and the options of the endpoint are handed on."""
    told: list[dict[str, Any]] = []
    server = Server("x")
    monkeypatch.setattr(server, "run", lambda **given: told.append(given))
    manager = TransportManager(around=None, hosts=("example.org",))
    manager.run(server)
    manager.run(server, "streamable-http", "127.0.0.1", 9000)
    manager.run(server, "sse", "127.0.0.1", 9000)
    assert set(told[0]) == {"leave"}
    assert told[1]["sessions"] is True
    assert (told[1]["path"], told[1]["port"], told[1]["hosts"]) == ("/mcp", 9000, ("example.org",))
    assert "sse_path" not in told[1]
    assert told[2]["sse_path"] == "/sse"


@pytest.mark.parametrize(("code", "left"), [(130, 0), (143, 0), (0, 0), (1, 1)])
def test_being_asked_to_end_is_no_failure(monkeypatch: pytest.MonkeyPatch, code: int, left: int) -> None:
    """F-009: 0 on SIGINT and SIGTERM, also where something still runs."""
    codes: list[int] = []
    monkeypatch.setattr(room.os, "_exit", codes.append)
    TransportManager()._leave(code)
    assert codes == [left]


def test_the_last_words_are_heard_and_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook that hangs does not keep a process alive that its client wants gone."""
    told: list[Any] = []
    monkeypatch.setattr(room.os, "_exit", told.append)
    TransportManager(on_leave=lambda: told.append("bye"))._leave(0)
    assert told == ["bye", 0]
    hung = threading.Event()
    TransportManager(on_leave=hung.wait)._leave(0)
    assert told == ["bye", 0, 0]
    hung.set()


def test_off_the_main_thread_the_process_is_somebody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    server = Server("x")
    monkeypatch.setattr(server, "run", lambda **given: told.append(given["leave"]))
    manager = TransportManager()
    thread = threading.Thread(target=manager.run, args=(server,))
    thread.start()
    thread.join()
    manager.run(server)
    assert told == [room._stay, manager._leave]
    told[0](0)


def test_a_server_may_be_cancelled_before_it_has_begun(port: int) -> None:
    """Whatever the moment, cancelling ends it: with pages around it, or without."""

    async def main() -> None:
        for _ in range(5):
            serving = asyncio.ensure_future(TransportManager().run_streamable_http(Server("x"), port=port))
            await asyncio.sleep(0)
            serving.cancel()
            async with asyncio.timeout(30):
                await asyncio.gather(serving, return_exceptions=True)
            assert serving.cancelled()

    asyncio.run(main())


def test_stdio_is_served_inside_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[str] = []
    server = Server("x")

    async def serve_stdio() -> int:
        served.append("stdio")
        return 0

    monkeypatch.setattr(server, "serve_stdio", serve_stdio)
    asyncio.run(TransportManager().run_stdio(server))
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
def test_a_port_that_is_open_to_a_network_without_a_key_is_warned_of(
    host: str, auth: Any, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """12.1, unauthorized network access."""
    caplog.set_level(logging.WARNING, "apcore_mcp")
    TransportManager(auth=auth)._options("streamable-http", host, 8000)
    assert ("asks for no key" in caplog.text) is warns
