"""The recorder changes no message and writes every message. A full disk ends the recording, not the connection."""

import asyncio
import errno
import json
import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from jackstay.client import connect
from jackstay.errors import FrameTooLargeError, OutcomeUnknownError, TransportError, UsageError
from jackstay.testing import RecordingHandler, ScriptedPeer, memory_pair, on_fake_clock, recorded
from jackstay.testing._recording import read_recording
from jackstay.transport import ExchangeHandler, ExchangeTransport, MemoryTransport
from jackstay.transport.http import http
from scripted.cassettes import messages

TEXT = {"content": [{"type": "text", "text": "done"}]}


def rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def opened(target: Any, handler: RecordingHandler) -> Any:
    handler.transport = await target.open(handler, 1 << 20, 1.0)
    return handler.transport


@on_fake_clock
async def test_messages_are_written_in_order_to_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    async with ScriptedPeer() as peer:
        peer.on["tools/call"] = TEXT
        target = recorded(peer.target, path)
        assert not path.exists(), "created on open"
        async with connect(target) as client:
            assert (await client.tools.call("pay", {"order": 7})).text == "done"
            peer.notify("notifications/tools/list_changed")
            await asyncio.sleep(1)
        assert repr(target) == f"<RecordedTarget scripted to {path}>"
    header, *lines = rows(path)
    assert (header["jackstay"], header["version"], header["target"]) == ("recording", 1, "scripted")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = [(row["from"], row["message"].get("method")) for row in lines[:-1]]
    assert written == [
        ("client", "server/discover"),
        ("server", None),
        ("client", "initialize"),
        ("server", None),
        ("client", "notifications/initialized"),
        ("client", "tools/call"),
        ("server", None),
        ("server", "notifications/tools/list_changed"),
    ]
    assert (lines[-1]["from"], lines[-1]["ended"]) == ("client", "closed")
    assert [row["at"] for row in lines] == sorted(row["at"] for row in lines)
    assert messages(path, "client") == [dict(message) for message in peer.received], "as the server received them"


@on_fake_clock
async def test_a_restarted_server_is_two_connections_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    async with ScriptedPeer() as peer, connect(recorded(peer.target, path)) as client:
        call = client.submit("tools/call", {"name": "a"})
        await peer.expect("tools/call")
        peer.crash(TransportError("the server x exited", exit_code=3, stderr_tail="secret"))
        with pytest.raises(OutcomeUnknownError):
            await call
        await client.ready()
        peer.on["tools/call"] = TEXT
        await client.tools.call("a")
    text = path.read_text()
    assert text.count('"jackstay":"recording"') == 1, "one header"
    assert "secret" not in text
    ends = [row for row in rows(path)[1:] if "ended" in row]
    assert [(row["connection"], row["from"], row["ended"]) for row in ends] == [
        (1, "server", "the server x exited"),
        (2, "client", "closed"),
    ]
    read_recording(path)


@on_fake_clock
async def test_withdrawn_and_unsent_frames_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    pair = memory_pair()
    handler = RecordingHandler()
    transport = await opened(recorded(pair.client, path), handler)
    for number in (1, 2, 3):
        assert transport.send(b'{"jsonrpc":"2.0","method":"m%d"}' % number, number)
    assert transport.withdraw(2)
    assert not transport.withdraw(7)
    with pytest.raises(FrameTooLargeError):
        transport.send(b"x" * (1 << 21), 4)
    assert messages(path, "client") == [], "nothing was sent yet"
    server = await pair.server.open(RecordingHandler(), 1 << 20, 1.0)
    assert await transport.flush()
    assert [message["method"] for message in messages(path, "client")] == ["m1", "m3"]
    assert transport.send(b'{"jsonrpc":"2.0","method":"m5"}', 5)
    await transport.close()
    await transport.close()
    assert [message["method"] for message in messages(path, "client")] == ["m1", "m3"], "dropped by close()"
    assert not transport.send(b"{}", 6)
    assert len(rows(path)) == 4, "header, two messages, one end"
    await server.close()


@on_fake_clock
async def test_frames_of_a_server_are_written_before_its_end(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    pair = memory_pair()
    handler = RecordingHandler()
    handler.pulls = False
    transport = await opened(recorded(pair.client, path), handler)
    server = await pair.server.open(RecordingHandler(), 1 << 22, 1.0)
    server.send(b"x" * (1 << 21), 1)
    server.send(b"last line", 2)
    await handler.until(lambda: handler.arrivals)
    transport.next_frame()
    await server.flush()
    await server.close()
    await handler.until(lambda: handler.ends)
    handler.pull()
    await transport.close()
    over, text, end = rows(path)[1:]
    assert "is over the limit" in over["note"]
    assert (text["text"], end["from"], end["ended"]) == ("last line", "server", "the other end was closed")


@on_fake_clock
async def test_redacted_names_are_in_the_header_and_their_values_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    async with ScriptedPeer() as peer:
        peer.on["tools/call"] = {"content": [], "structuredContent": {"deep": [{"token": "t0p"}]}}
        async with connect(recorded(peer.target, path, redact=["token"])) as client:
            await client.tools.call("pay", {"token": "s3cret", "order": 7})
        assert peer.got("tools/call")[0].params["arguments"]["token"] == "s3cret"
    text = path.read_text()
    assert "s3cret" not in text
    assert "t0p" not in text
    assert rows(path)[0]["redacted"] == ["token"]
    (call,) = [row for row in messages(path, "client") if row.get("method") == "tools/call"]
    assert call["params"]["arguments"] == {"token": "[redacted]", "order": 7}


# --- the file ---------------------------------------------------------------------------------------------------------


def test_unusable_files_are_rejected_before_anything_starts(tmp_path: Path) -> None:
    target = memory_pair().client
    existing = tmp_path / "existing"
    existing.write_text("original")
    with pytest.raises(UsageError, match="exists; pass overwrite=True or append=True"):
        recorded(target, existing)
    assert existing.read_text() == "original"
    (tmp_path / "dangling").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="exists; pass"):
        recorded(target, tmp_path / "dangling")
    with pytest.raises(UsageError, match="is a directory"):
        recorded(target, tmp_path, overwrite=True)
    with pytest.raises(UsageError, match=r"the directory .*nowhere. does not exist"):
        recorded(target, tmp_path / "nowhere" / "x")
    with pytest.raises(UsageError, match="expected a target"):
        recorded("uvx", existing)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(UsageError, match="redact must be"):
        recorded(target, tmp_path / "x", redact="token")
    with pytest.raises(UsageError, match="overwrite and append cannot be combined"):
        recorded(target, tmp_path / "x", overwrite=True, append=True)
    with pytest.raises(UsageError, match="line 1 is not the header of a recording"):
        recorded(target, existing, append=True)
    existing.write_text('{"jackstay":"recording","version":1,"redacted":["b","a"]}\n')
    with pytest.raises(UsageError, match="was recorded with a, b redacted; redact the same"):
        recorded(target, existing, append=True)
    assert recorded(target, existing, append=True, redact=["a", "b"]).error is None


@on_fake_clock
async def test_a_file_that_appears_meanwhile_is_not_overwritten(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"
    pair = memory_pair()
    target = recorded(pair.client, path)
    path.write_text("original")
    with pytest.raises(TransportError, match=r"cannot write the recording .*: File exists") as caught:
        await target.open(RecordingHandler(), 1 << 20, 1.0)
    assert caught.value.permanent
    assert pair.client.transports == []
    assert path.read_text() == "original"


@on_fake_clock
async def test_overwrite_replaces_the_file_on_open(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("old " * 1000)
    target = recorded(memory_pair().client, path, overwrite=True)
    assert path.read_text().startswith("old"), "created on open"
    for _ in range(2):
        transport = await target.open(RecordingHandler(), 1 << 20, 1.0)
        await transport.close()
    assert [row.get("connection") for row in rows(path)] == [None, 1, 2]


@pytest.mark.parametrize("accepted", [0, 10])
def test_a_full_disk_ends_the_recording_at_a_whole_line_but_not_the_connection(
    accepted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk accepts `accepted` bytes of the fourth line and then no more."""
    path = tmp_path / "x.jsonl"
    write, lines = os.write, []

    def full(fd: int, data: bytes) -> int:
        if os.readlink(f"/proc/self/fd/{fd}") != str(path):
            return write(fd, data)
        lines.append(data)
        if len(lines) == 4 and accepted:
            return write(fd, data[:accepted])
        if len(lines) >= 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data)

    monkeypatch.setattr(os, "write", full)

    @on_fake_clock
    async def connect_and_close() -> None:
        async with ScriptedPeer("2026-07-28") as peer:
            peer.on["tools/call"] = TEXT
            target = recorded(peer.target, path)
            async with connect(target) as client:
                for _ in range(3):
                    assert (await client.tools.call("pay")).text == "done"
            assert target.error is not None

    with caplog.at_level(logging.ERROR, "jackstay.testing"):
        connect_and_close()
    (message,) = caplog.messages
    assert message == f"the recording {path} stops: No space left on device; the connection continues"
    assert len(read_recording(path).entries) == 2, "up to the last complete line"
    assert len(lines) == (5 if accepted else 4), "nothing more is written"


def test_a_full_device_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    @on_fake_clock
    async def connect_and_close() -> None:
        target = recorded(memory_pair().client, "/dev/full", overwrite=True)
        for _ in range(2):
            transport = await target.open(RecordingHandler(), 1 << 20, 1.0)
            await transport.close()
        assert isinstance(target.error, OSError)

    connect_and_close()
    assert len(caplog.messages) == 1


# --- over HTTP --------------------------------------------------------------------------------------------------------


class HttpRecorder(RecordingHandler):
    """A recording handler with the callbacks of single requests."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: list[Any] = []
        self.calls: list[tuple[str, int]] = []

    def exchange_lost(self, id: int, error: Any, was_declined: bool) -> None:
        self.lost.append((id, error.message, was_declined))

    def session_lost(self, id: int) -> None:
        self.lost.append(id)

    def queued(self, id: int) -> None:
        self.calls.append(("queued", id))

    def started(self, id: int) -> None:
        self.calls.append(("started", id))

    def header_params(self, tool: str) -> Any:
        return [tool]


class HttpLike:
    """An in-memory target that claims to be HTTP."""

    is_http = True
    name = "web"
    init_timeout = 7.0

    def __init__(self) -> None:
        self.pair = memory_pair()
        self.calls: list[Any] = []
        self.handler: Any = None

    async def open(self, handler: Any, max_frame_bytes: int, close_step: float) -> Any:
        outer = self
        self.handler = handler

        class Exchanging(MemoryTransport):
            def abort(self, id: int) -> None:
                outer.calls.append(("abort", id))

            def renew(self, handler: ExchangeHandler) -> None:
                outer.calls.append("renew")
                outer.handler = handler

        transport = Exchanging(self.pair.client, handler, max_frame_bytes)
        self.pair.client.transports.append(transport)
        return transport


@on_fake_clock
async def test_over_http_lost_and_aborted_requests_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    web, handler = HttpLike(), HttpRecorder()
    target = recorded(web, path)
    assert (target.is_http, target.init_timeout, target.name) == (True, 7.0, "web")
    transport = await opened(target, handler)
    assert isinstance(transport, ExchangeTransport)
    assert transport.send(b'{"jsonrpc":"2.0","id":1,"method":"a"}', 1)
    assert messages(path, "client")[0]["id"] == 1, "HTTP does not report when it is written"
    web.handler.exchange_lost(1, TransportError("gone", stderr_tail="secret"), False)
    web.handler.session_lost(2)
    web.handler.session_lost(0)
    web.handler.queued(5)
    web.handler.started(5)
    assert handler.calls[-2:] == [("queued", 5), ("started", 5)]
    transport.abort(3)
    later, before = HttpRecorder(), web.handler
    transport.renew(later)
    web.handler.exchange_lost(4, TransportError("gone again"), True)
    before.session_lost(6)
    lost = [(1, "gone", False), 2, 0, 6]
    assert (handler.lost, later.lost) == (lost, [(4, "gone again", True)]), "each has those of its session"
    assert web.handler.header_params("t") == ["t"]
    assert web.calls == [("abort", 3), "renew"]
    await transport.close()
    events = [{key: row[key] for key in ("lost", "why", "aborted", "ended") if key in row} for row in rows(path)[2:]]
    assert events == [
        {"lost": 1, "why": "gone"},
        {"lost": 2, "why": "the server dropped the session"},
        {"aborted": 3},
        {"lost": 4, "why": "gone again"},
        {"lost": 6, "why": "the server dropped the session"},
        {"ended": "closed"},
    ]


@on_fake_clock
async def test_a_handler_that_is_not_an_exchange_handler_is_rejected(tmp_path: Path) -> None:
    target = recorded(http("http://127.0.0.1:9/mcp"), tmp_path / "x")
    with pytest.raises(UsageError, match="must be an ExchangeHandler, not RecordingHandler"):
        await target.open(RecordingHandler(), 1 << 20, 1.0)


@pytest.mark.parametrize("how", [{"overwrite": True}, {"append": True}])
@on_fake_clock
async def test_an_existing_file_becomes_private(how: dict[str, bool], tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    async with ScriptedPeer() as peer:
        async with connect(recorded(peer.target, path)):
            pass
        path.chmod(0o644)
        before = path.read_bytes()
        async with connect(recorded(peer.target, path, **how)):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes().startswith(before) is ("append" in how)
    assert len([row for row in rows(path) if "jackstay" in row]) == 1


@on_fake_clock
async def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "x.jsonl"
    other.write_text("original")
    other.chmod(0o644)
    path.symlink_to(other)
    async with ScriptedPeer() as peer:
        with pytest.raises(TransportError, match="it is a symbolic link"):
            await connect(recorded(peer.target, path, overwrite=True)).open()
    assert other.read_text() == "original"
    assert stat.S_IMODE(other.stat().st_mode) == 0o644


@on_fake_clock
async def test_a_file_whose_mode_cannot_be_changed_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject(*_: object) -> None:
        raise PermissionError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "fchmod", reject)
    path = tmp_path / "x.jsonl"
    path.write_text("foreign")
    async with ScriptedPeer() as peer:
        with pytest.raises(TransportError, match="not permitted"):
            await connect(recorded(peer.target, path, overwrite=True)).open()
    assert path.read_text() == "foreign"
