"""Misbehaving clients: in memory beside a well-behaved one, and against a server process.

The well-behaved client is always served. No request, task or thread of the other client is left; the process leaks no
descriptor, its memory is bounded, and it exits normally.
"""

import asyncio
import json
import os
import random
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from chaos.servers_own.conversation import STATELESS, Peer, connected, meta, run
from chaos.test_server import Process, call, memory_of, serving
from jackstay.server import Context, Server, _subscriptions

FRAME = 1 << 16
PING = {"jsonrpc": "2.0", "method": "ping"}


def target_server() -> Server:
    """Return a server with small limits, which are easy to exceed."""
    server = Server("target", version="1.0", max_frame_bytes=FRAME, max_concurrent=100, drain_timeout=0.2)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def wait() -> None:
        await asyncio.Event().wait()

    @server.tool
    def block() -> str:
        return threading.current_thread().name

    @server.tool
    async def elicit(ctx: Context) -> str:
        answer = await ctx.elicit("Your name?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return str(answer.content)

    server.resource("x://{name}")(lambda name: name)
    return server


# --- in memory --------------------------------------------------------------------------------------------------------


async def floods_with_requests(peer: Peer) -> None:
    await peer.send_all(call(f"f{number}", "echo", text="x") for number in range(20_000))
    await peer.until(lambda: len(peer.frames) >= 20_000)


async def floods_with_pings_and_reads_nothing(peer: Peer) -> None:
    peer.is_reading = False
    for number in range(1_000_000):
        if not peer.transport.send(json.dumps({**PING, "id": number}).encode(), 1_000 + number):
            break
        await asyncio.sleep(0)  # let the server run
    else:
        raise AssertionError("the server keeps reading from a client that does not read")


async def floods_with_notifications(peer: Peer) -> None:
    for method in (
        "notifications/cancelled",
        "notifications/initialized",
        "notifications/unknown",
        "no/such",
    ):
        notification = {"jsonrpc": "2.0", "method": method, "params": {"requestId": "nothing"}}
        await peer.send_all(notification for _ in range(3_000))
    assert await peer.result("ping") == {}
    assert not [frame for frame in peer.frames if "error" in frame], "a notification is never answered"


async def uses_one_id_for_everything(peer: Peer) -> None:
    await peer.send_all(call("one", "wait") for _ in range(1_000))
    await peer.until(lambda: len(peer.frames) >= 999)
    assert {frame["error"]["code"] for frame in peer.frames if "error" in frame} == {-32600}
    peer.notify("notifications/cancelled", {"requestId": "one"})
    assert await peer.result("ping") == {}


async def cancels_and_reuses_ids(peer: Peer) -> None:
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    for _ in range(50):
        for id in range(50):
            await peer.send_all([call(id, "wait"), {**cancel, "params": {"requestId": id}}])
    await peer.send_all(call(id, "echo", text=str(id)) for id in range(50))
    await peer.until(lambda: [frame for frame in peer.frames if frame.get("id") == 49])
    answers = [frame for frame in peer.frames if "result" in frame and frame.get("id") in range(50)]
    assert len(answers) == 50, "a cancelled request gets no response"


async def sends_frames_above_the_limit(peer: Peer) -> None:
    await peer.send_all(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * FRAME + b'"}' for _ in range(100))
    await peer.until(lambda: len([frame for frame in peer.frames if "error" in frame]) == 100)
    assert {frame["error"]["code"] for frame in peer.frames if "error" in frame} == {-32600}


async def sends_incomplete_frames(peer: Peer) -> None:
    whole = json.dumps(call("h", "echo", text="été")).encode()
    halves = [whole[:end] for end in range(1, len(whole))] + [whole[start:] for start in range(1, len(whole))]
    await peer.send_all(halves)
    await peer.until(lambda: len([frame for frame in peer.frames if "error" in frame]) >= len(halves))
    assert {frame["error"]["code"] for frame in peer.frames if "error" in frame} <= {-32700, -32600}


async def sends_random_bytes(peer: Peer) -> None:
    rng = random.Random(7)
    await peer.send_all(rng.randbytes(rng.randrange(1, 400)).replace(b"\n", b" ") or b"x" for _ in range(3_000))
    await peer.until(lambda: len([frame for frame in peer.frames if "error" in frame]) == 3_000)


async def sends_nested_json(peer: Peer) -> None:
    for opening in (b"[", b'{"a":'):
        await peer.send_all(opening * 10_000 for _ in range(20))
        closing = b"]" if opening == b"[" else b"}"
        await peer.send_all(opening * 5_000 + b"1" + closing * 5_000 for _ in range(20))
    await peer.until(lambda: len([frame for frame in peer.frames if _has_error(frame)]) == 80)


async def sends_invalid_ids(peer: Peer) -> None:
    ids: list[Any] = [None, True, 1.5, [], {}, "x" * 2_000, [1], "9" * 1_025]
    await peer.send_all({**PING, "id": id} for id in ids)
    await peer.send_all([b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"ping"}'])
    await peer.until(lambda: len([frame for frame in peer.frames if "error" in frame]) == len(ids) + 1)


async def sends_unsolicited_responses(peer: Peer) -> None:
    await peer.send_all({"jsonrpc": "2.0", "id": number, "result": {}} for number in range(5_000))
    await peer.send_all({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}} for _ in range(5_000))
    assert await peer.result("ping") == {}


async def sends_duplicate_and_invalid_responses(peer: Peer) -> None:
    for body in (
        {"result": {"action": "accept", "content": {"name": "x"}}},
        {"result": 7},
        {"result": {"action": []}},
    ):
        peer.send(call(f"elicit {body}", "elicit"))
        server_request = await peer.server_request()
        for _ in range(3):
            peer.send({"jsonrpc": "2.0", "id": server_request["id"], **body})
        await peer.answer(f"elicit {body}")
    peer.send(call("left", "elicit"))
    await peer.server_request()  # it never gets a response


async def initializes_repeatedly(peer: Peer) -> None:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    for id in range(500):
        peer.send({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params})
    await peer.until(lambda: len([frame for frame in peer.frames if "error" in frame]) == 500)
    assert {frame["error"]["code"] for frame in peer.frames if "error" in frame} == {-32001}


async def mixes_revisions(peer: Peer) -> None:
    stateless = {"jsonrpc": "2.0", "method": "tools/list", "params": {"_meta": meta()}}
    await peer.send_all({**stateless, "id": id} for id in range(500))
    await peer.until(lambda: len([frame for frame in peer.frames if "error" in frame]) == 500)
    assert {frame["error"]["code"] for frame in peer.frames if "error" in frame} == {-32600}


async def exceeds_max_concurrent(peer: Peer) -> None:
    await peer.send_all(call(number, "wait") for number in range(10_000))
    await peer.until(lambda: len([frame for frame in peer.frames if "error" in frame]) == 9_900)
    data = [frame["error"]["data"] for frame in peer.frames if "error" in frame]
    assert all(row["retryable"] is True and row["reason"] == "busy" for row in data)
    assert await peer.result("ping") == {}, "pings are never refused"


async def uses_every_thread(peer: Peer) -> None:
    await peer.send_all(call(number, "block") for number in range(90))
    await peer.until(lambda: len(peer.frames) >= 90)


async def subscribes_to_everything(peer: Peer) -> None:
    uris = (f"x://{number}" for number in range(_subscriptions.MAX_URIS + 100))
    subscribe = {"jsonrpc": "2.0", "method": "resources/subscribe"}
    await peer.send_all({**subscribe, "id": uri, "params": {"uri": uri}} for uri in uris)
    await peer.until(lambda: len(peer.frames) >= _subscriptions.MAX_URIS + 100)
    refused = [frame for frame in peer.frames if "error" in frame]
    assert len(refused) == 100, "the subscriptions of one client are limited"


async def disconnects_with_requests_in_flight(peer: Peer) -> None:
    await peer.send_all(call(number, "wait") for number in range(50))
    await peer.send_all(call(f"b{number}", "block") for number in range(40))
    peer.send(call("a", "elicit"))
    await peer.server_request()


def _has_error(frame: Any) -> bool:
    return isinstance(frame, dict) and "error" in frame


HOSTILE: list[Callable[[Peer], Awaitable[None]]] = [
    floods_with_requests,
    floods_with_pings_and_reads_nothing,
    floods_with_notifications,
    uses_one_id_for_everything,
    cancels_and_reuses_ids,
    sends_frames_above_the_limit,
    sends_incomplete_frames,
    sends_random_bytes,
    sends_nested_json,
    sends_invalid_ids,
    sends_unsolicited_responses,
    sends_duplicate_and_invalid_responses,
    initializes_repeatedly,
    mixes_revisions,
    exceeds_max_concurrent,
    uses_every_thread,
    subscribes_to_everything,
    disconnects_with_requests_in_flight,
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda function: function.__name__)
def test_a_misbehaving_client_does_not_affect_another_one(
    hostile: Callable[[Peer], Awaitable[None]],
) -> None:
    """docs/guarantees.md G16 and G20."""
    before = set(threading.enumerate())

    async def test() -> None:
        server = target_server()
        async with connected(server) as good:
            tasks = asyncio.all_tasks()
            async with connected(server, capabilities={"elicitation": {}}) as bad:
                (_, target) = server._connections.values()
                misbehaving = asyncio.ensure_future(hostile(bad))
                while not misbehaving.done():
                    assert await good.text("echo", text="meanwhile") == "meanwhile"
                await misbehaving
                assert await good.text("block") == "jackstay-pool"
            assert await good.text("echo", text="afterwards") == "afterwards"
            assert len(server._connections) == 1
            assert (len(target.core.in_flight), len(target.core.outgoing_requests), len(target._tasks)) == (0, 0, 0)
            (remaining,) = server._connections.values()
            parked = set() if remaining._parked is None else {remaining._parked.task}
            assert asyncio.all_tasks() <= tasks | parked, "a task is still running"

    run(test)
    for thread in set(threading.enumerate()) - before:
        thread.join(120)
        assert not thread.is_alive()


BATCHES: list[tuple[Any, Any]] = [
    ([], {-32600}),
    ([1, None, "x", [], {}], {-32600}),
    ([[[[]]]], {-32600}),
    ([{**PING, "id": 1}] * 100, {None}),
    ([{**PING, "id": number} for number in range(101)], {-32600}),
    ([{"jsonrpc": "2.0", "method": "notifications/x"}] * 100, set()),
    ([{"jsonrpc": "2.0", "id": 1, "method": "initialize"}], {-32600}),
    ([{"jsonrpc": "2.0", "id": 5, "result": {}}] * 100, set()),
]


@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25", STATELESS])
async def test_invalid_batches_are_answered_as_the_revision_requires(version: str) -> None:
    """Per member in 2025-03-26 (basic/index, "Batching"), with one error in other revisions."""
    server = target_server()
    async with connected(server) as good, connected(server, version) as bad:
        await bad.result("tools/list")  # so that its revision is known
        for members, codes in BATCHES:
            bad.frames.clear()
            for _ in range(20):
                bad.send(json.dumps(members).encode())
            marker = bad.send_request("tools/list")
            await bad.answer(marker)
            responses = [frame for frame in bad.frames if isinstance(frame, list) or frame.get("id") != marker]
            flat = [member for frame in responses for member in (frame if isinstance(frame, list) else [frame])]
            found = {member.get("error", {}).get("code") for member in flat}
            if version == "2025-03-26":
                assert found == codes, members
                assert len(responses) == (20 if codes else 0)
            else:
                assert (found, len(responses)) == ({-32600}, 20)
        assert await good.text("echo", text="x") == "x"


# --- against a process ------------------------------------------------------------------------------------------------


def exchange(process: Process, data: bytes, count: int) -> list[Any]:
    """Write all of the data and receive `count` messages meanwhile."""
    writer = threading.Thread(target=process.send, args=(data,))
    writer.start()
    received = [process.receive() for _ in range(count)]
    writer.join(120)
    assert not writer.is_alive()
    return received


def errors_of(messages: list[Any]) -> list[int]:
    return [message["error"]["code"] for message in messages if "error" in message]


def open_in(process: Process) -> int:
    """Return the number of open descriptors of the server."""
    return len(os.listdir(f"/proc/{process.popen.pid}/fd"))


def lines(*messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def flood(process: Process) -> None:
    received = exchange(process, lines(*(call(number, "echo", text="x") for number in range(30_000))), 30_000)
    assert not errors_of(received), "a client that pipelines quick requests is served"


def ten_thousand_at_once(process: Process) -> None:
    calls = (call(number, "meet", count=10_000) for number in range(10_000))
    received = exchange(process, lines(*calls, {**PING, "id": "ping"}), 10_001)
    assert {message["id"] for message in received} == {*range(10_000), "ping"}
    assert not errors_of(received)


def duplicates(process: Process) -> None:
    received = exchange(process, lines(*(call("same", "hang_in_executor") for _ in range(1_000))), 999)
    assert errors_of(received) == [-32600] * 999


def oversize(process: Process) -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (17 << 20) + b'"}\n'
    assert errors_of(exchange(process, line * 3, 3)) == [-32600] * 3


def invalid_lines(process: Process) -> None:
    rng = random.Random(11)
    whole = json.dumps(call(1, "echo", text="x")).encode()
    lines = [whole[: rng.randrange(1, len(whole))] for _ in range(2_000)]
    lines += [(rng.randbytes(rng.randrange(1, 300)).replace(b"\n", b"?") + b"!") for _ in range(2_000)]
    received = exchange(process, b"\n".join(lines) + b"\n", len(lines))
    assert len(errors_of(received)) == len(lines)


def trickled(process: Process) -> None:
    for byte in lines(call("slowly", "echo", text="x")):
        process.send(bytes([byte]))
    assert process.receive()["id"] == "slowly"


def one_endless_line(process: Process) -> None:
    received = exchange(process, b"x" * (50 << 20) + b"\n" + lines({**PING, "id": "ping"}), 2)
    assert errors_of(received) == [-32600], "one error for one line"


@pytest.mark.parametrize(
    "hostile",
    [flood, ten_thousand_at_once, duplicates, oversize, invalid_lines, trickled, one_endless_line],
    ids=lambda function: function.__name__,
)
def test_a_process_survives_a_misbehaving_client_without_leaks(hostile: Callable[[Process], None]) -> None:
    """docs/guarantees.md G12, G16, G20."""
    with serving("at-once=10000") as process:
        process.send(call(1, "echo", text="x"))
        assert process.receive()["id"] == 1
        before = open_in(process)
        hostile(process)
        process.send(call(2, "echo", text="still here"))
        assert process.receive()["result"]["content"][0]["text"] == "still here"
        assert open_in(process) == before, "the server leaked a descriptor"
        assert memory_of(process.popen.pid) < 150 << 20
        code, _, rest, _ = process.ended()
        assert (code, rest) == (0, b"")
