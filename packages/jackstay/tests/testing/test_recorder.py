"""The recorder: nothing is changed by it, everything that passes is written, and a full disk ends nothing but the file."""

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
from jackstay.testing import Recorder, ScriptedPeer, memory_pair, on_fake_clock, recorded
from jackstay.testing._recording import read_recording
from jackstay.transport import ExchangeOwner, ExchangeTransport, MemoryTransport
from jackstay.transport.http import http
from scripted.tapes import messages

TEXT = {"content": [{"type": "text", "text": "done"}]}


def rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def opened(target: Any, owner: Recorder) -> Any:
    owner.transport = await target.open(owner, 1 << 20, 1.0)
    return owner.transport


@on_fake_clock
async def test_a_conversation_is_written_in_its_order_and_read_by_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    async with ScriptedPeer() as peer:
        peer.on["tools/call"] = TEXT
        target = recorded(peer.target, path)
        assert not path.exists(), "before it is opened"
        async with connect(target) as client:
            assert (await client.tools.call("pay", {"order": 7})).text == "done"
            peer.notify("notifications/tools/list_changed")
            await asyncio.sleep(1)
        assert repr(target) == f"<RecordedTarget scripted to {path}>"
    header, *lines = rows(path)
    assert (header["jackstay"], header["version"], header["target"]) == ("recording", 1, "scripted")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    said = [(row["from"], row["message"].get("method")) for row in lines[:-1]]
    assert said == [
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
    assert messages(path, "client") == [dict(message) for message in peer.heard], "as the server got them"


@on_fake_clock
async def test_a_server_that_dies_and_comes_back_is_two_connections_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    async with ScriptedPeer() as peer, connect(recorded(peer.target, path)) as client:
        call = client.submit("tools/call", {"name": "a"})
        await peer.expect("tools/call")
        peer.die(TransportError("the server x exited", exit_code=3, stderr_tail="secret words"))
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
async def test_what_was_taken_back_or_never_sent_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    pair = memory_pair()
    owner = Recorder()
    transport = await opened(recorded(pair.client, path), owner)
    for number in (1, 2, 3):
        assert transport.send(b'{"jsonrpc":"2.0","method":"m%d"}' % number, number)
    assert transport.withdraw(2)
    assert not transport.withdraw(7)
    with pytest.raises(FrameTooLargeError):
        transport.send(b"x" * (1 << 21), 4)
    assert messages(path, "client") == [], "nothing was sent yet"
    server = await pair.server.open(Recorder(), 1 << 20, 1.0)
    assert await transport.flush()
    assert [message["method"] for message in messages(path, "client")] == ["m1", "m3"]
    assert transport.send(b'{"jsonrpc":"2.0","method":"m5"}', 5)
    await transport.close()
    await transport.close()
    assert [message["method"] for message in messages(path, "client")] == ["m1", "m3"], "dropped with the end"
    assert not transport.send(b"{}", 6)
    assert len(rows(path)) == 4, "header, two messages, one end"
    assert repr(transport).startswith("<RecordedTransport <MemoryTransport")
    await server.close()


@on_fake_clock
async def test_what_a_server_said_before_it_died_is_written_before_its_end(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    pair = memory_pair()
    owner = Recorder()
    owner.pulls = False
    transport = await opened(recorded(pair.client, path), owner)
    server = await pair.server.open(Recorder(), 1 << 22, 1.0)
    server.send(b"x" * (1 << 21), 1)
    server.send(b"last words", 2)
    await owner.until(lambda: owner.arrivals)
    transport.next_frame()
    await server.flush()
    await server.close()
    await owner.until(lambda: owner.ends)
    owner.pull()
    await transport.close()
    over, words, end = rows(path)[1:]
    assert "is over the limit" in over["note"]
    assert (words["text"], end["from"], end["ended"]) == ("last words", "server", "the other end was closed")


@on_fake_clock
async def test_redacted_names_stand_in_the_header_and_their_values_nowhere(tmp_path: Path) -> None:
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
    assert messages(path, "client")[-1]["params"]["arguments"] == {"token": "[redacted]", "order": 7}


# --- the file ---------------------------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_written_is_refused_before_anything_starts(tmp_path: Path) -> None:
    target = memory_pair().client
    there = tmp_path / "there"
    there.write_text("mine")
    with pytest.raises(UsageError, match="is there already, and a recording is not overwritten unasked"):
        recorded(target, there)
    assert there.read_text() == "mine"
    (tmp_path / "dangling").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is there already"):
        recorded(target, tmp_path / "dangling")
    with pytest.raises(UsageError, match="is a directory"):
        recorded(target, tmp_path, overwrite=True)
    with pytest.raises(UsageError, match=r"there is no directory .*nowhere"):
        recorded(target, tmp_path / "nowhere" / "x")
    with pytest.raises(UsageError, match="takes a target"):
        recorded("uvx", there)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(UsageError, match="redact takes"):
        recorded(target, tmp_path / "x", redact="token")
    with pytest.raises(UsageError, match="overwritten or gone on with, not both"):
        recorded(target, tmp_path / "x", overwrite=True, append=True)
    with pytest.raises(UsageError, match="line 1 is not the header of a recording"):
        recorded(target, there, append=True)
    there.write_text('{"jackstay":"recording","version":1,"redacted":["b","a"]}\n')
    with pytest.raises(UsageError, match="was recorded with a, b redacted: redact the same"):
        recorded(target, there, append=True)
    assert recorded(target, there, append=True, redact=["a", "b"]).error is None


@on_fake_clock
async def test_a_file_that_appears_meanwhile_is_not_overwritten_and_nothing_is_left_open(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"
    pair = memory_pair()
    target = recorded(pair.client, path)
    path.write_text("mine")
    with pytest.raises(TransportError, match=r"cannot write the recording .*: File exists") as caught:
        await target.open(Recorder(), 1 << 20, 1.0)
    assert caught.value.permanent
    assert pair.client.transports == []
    assert path.read_text() == "mine"


@on_fake_clock
async def test_a_file_is_overwritten_where_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("old " * 1000)
    target = recorded(memory_pair().client, path, overwrite=True)
    assert path.read_text().startswith("old"), "before it is opened"
    for _ in range(2):
        transport = await target.open(Recorder(), 1 << 20, 1.0)
        await transport.close()
    assert [row.get("connection") for row in rows(path)] == [None, 1, 2]


@pytest.mark.parametrize("taken", [0, 10])
def test_a_full_disk_ends_the_recording_at_a_whole_line_and_not_the_conversation(
    taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk takes `taken` bytes of the fourth line and then no more."""
    path = tmp_path / "x.jsonl"
    write, lines = os.write, []

    def full(fd: int, data: bytes) -> int:
        if os.readlink(f"/proc/self/fd/{fd}") != str(path):
            return write(fd, data)
        lines.append(data)
        if len(lines) == 4 and taken:
            return write(fd, data[:taken])
        if len(lines) >= 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data)

    monkeypatch.setattr(os, "write", full)

    @on_fake_clock
    async def talk() -> None:
        async with ScriptedPeer("2026-07-28") as peer:
            peer.on["tools/call"] = TEXT
            target = recorded(peer.target, path)
            async with connect(target) as client:
                for _ in range(3):
                    assert (await client.tools.call("pay")).text == "done"
            assert target.error is not None

    with caplog.at_level(logging.ERROR, "jackstay.testing"):
        talk()
    (said,) = caplog.messages
    assert said == f"the recording {path} ends here: No space left on device; the conversation goes on"
    assert len(read_recording(path).entries) == 2, "up to the last whole line"
    assert len(lines) == (5 if taken else 4), "it is not tried again"


def test_a_device_that_is_full_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    @on_fake_clock
    async def talk() -> None:
        target = recorded(memory_pair().client, "/dev/full", overwrite=True)
        for _ in range(2):
            transport = await target.open(Recorder(), 1 << 20, 1.0)
            await transport.close()
        assert isinstance(target.error, OSError)

    talk()
    assert len(caplog.messages) == 1


# --- over HTTP --------------------------------------------------------------------------------------------------------


class HttpRecorder(Recorder):
    """An owner that hears of single requests."""

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

    def marked_arguments(self, tool: str) -> Any:
        return [tool]


class HttpLike:
    """A target in memory that says it is HTTP, and lets a test lose what it wants."""

    is_http = True
    name = "web"
    init_timeout = 7.0

    def __init__(self) -> None:
        self.pair = memory_pair()
        self.calls: list[Any] = []
        self.owner: Any = None

    async def open(self, owner: Any, max_frame_bytes: int, close_step: float) -> Any:
        outer = self
        self.owner = owner

        class Exchanging(MemoryTransport):
            def hang_up(self, id: int) -> None:
                outer.calls.append(("hang_up", id))

            def renew(self, owner: ExchangeOwner) -> None:
                outer.calls.append("renew")
                outer.owner = owner

        transport = Exchanging(self.pair.client, owner, max_frame_bytes)
        self.pair.client.transports.append(transport)
        return transport


@on_fake_clock
async def test_over_http_single_requests_are_lost_hung_up_and_renewed(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    web, owner = HttpLike(), HttpRecorder()
    target = recorded(web, path)
    assert (target.is_http, target.init_timeout, target.name) == (True, 7.0, "web")
    transport = await opened(target, owner)
    assert isinstance(transport, ExchangeTransport)
    assert transport.send(b'{"jsonrpc":"2.0","id":1,"method":"a"}', 1)
    assert messages(path, "client")[0]["id"] == 1, "nobody tells when it is written"
    web.owner.exchange_lost(1, TransportError("gone", stderr_tail="secret"), False)
    web.owner.session_lost(2)
    web.owner.session_lost(0)
    web.owner.queued(5)
    web.owner.started(5)
    assert owner.calls[-2:] == [("queued", 5), ("started", 5)]
    transport.hang_up(3)
    later = HttpRecorder()
    transport.renew(later)
    web.owner.exchange_lost(4, TransportError("gone again"), True)
    assert (owner.lost, later.lost) == ([(1, "gone", False), 2, 0], [(4, "gone again", True)])
    assert web.owner.marked_arguments("t") == ["t"]
    assert web.calls == [("hang_up", 3), "renew"]
    await transport.close()
    said = [
        {key: row[key] for key in ("lost", "why", "hung_up", "ended") if key in row} for row in rows(path)[2:]
    ]
    assert said == [
        {"lost": 1, "why": "gone"},
        {"lost": 2, "why": "the server forgot the session"},
        {"hung_up": 3},
        {"lost": 4, "why": "gone again"},
        {"ended": "closed"},
    ]


@on_fake_clock
async def test_an_owner_that_cannot_hear_of_single_requests_is_refused(tmp_path: Path) -> None:
    target = recorded(http("http://127.0.0.1:9/mcp"), tmp_path / "x")
    with pytest.raises(UsageError, match="ExchangeOwner"):
        await target.open(Recorder(), 1 << 20, 1.0)


@pytest.mark.parametrize("how", [{"overwrite": True}, {"append": True}])
@on_fake_clock
async def test_a_file_that_was_there_is_read_by_nobody_else_either(
    how: dict[str, bool], tmp_path: Path
) -> None:
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
    other.write_text("mine")
    other.chmod(0o644)
    path.symlink_to(other)
    async with ScriptedPeer() as peer:
        with pytest.raises(TransportError, match="it is a symbolic link"):
            await connect(recorded(peer.target, path, overwrite=True)).open()
    assert other.read_text() == "mine"
    assert stat.S_IMODE(other.stat().st_mode) == 0o644


@on_fake_clock
async def test_a_file_whose_mode_cannot_be_changed_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(os, "fchmod", refuse)
    path = tmp_path / "x.jsonl"
    path.write_text("somebody else's")
    async with ScriptedPeer() as peer:
        with pytest.raises(TransportError, match="not yours"):
            await connect(recorded(peer.target, path, overwrite=True)).open()
    assert path.read_text() == "somebody else's"
