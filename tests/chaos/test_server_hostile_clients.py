"""Clients that do what no client should, to a server that goes on: in memory beside a good one, and to a whole process.

After each of them the good client is served, and of the bad one nothing is left: no request in flight, no task, no
thread; in a process no descriptor more than before, a bounded size, and an end in order.
"""

import asyncio
import json
import os
import random
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from chaos.servers_own.conversation import STATELESS, Peer, meta, run, talking
from chaos.test_server import Process, call, memory_of, serving
from jackstay.server import Context, Server, _subscriptions

FRAME = 1 << 16
PING = {"jsonrpc": "2.0", "method": "ping"}


def victim() -> Server:
    """A server with small limits, so that going over them takes little."""
    server = Server("victim", version="1.0", max_frame_bytes=FRAME, max_concurrent=100, drain_timeout=0.2)

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
    async def asking(ctx: Context) -> str:
        answer = await ctx.elicit("who?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return str(answer.content)

    server.resource("x://{name}")(lambda name: name)
    return server


# --- what bad clients do, in memory -----------------------------------------------------------------------------------


async def floods_with_requests(peer: Peer) -> None:
    await peer.say_all(call(f"f{number}", "echo", text="x") for number in range(20_000))
    await peer.until(lambda: len(peer.frames) >= 20_000)


async def floods_with_pings_and_reads_nothing(peer: Peer) -> None:
    peer.is_reading = False
    for number in range(1_000_000):
        if not peer.transport.send(json.dumps({**PING, "id": number}).encode(), 1_000 + number):
            break
        await asyncio.sleep(0)  # the server's turn
    else:
        raise AssertionError("it went on reading from a client that does not read")


async def floods_with_notifications(peer: Peer) -> None:
    for method in (
        "notifications/cancelled",
        "notifications/initialized",
        "notifications/unheard",
        "no/such",
    ):
        notification = {"jsonrpc": "2.0", "method": method, "params": {"requestId": "nothing"}}
        await peer.say_all(notification for _ in range(3_000))
    assert await peer.result("ping") == {}
    assert not [frame for frame in peer.frames if "error" in frame], "a notification is never answered"


async def uses_one_id_for_everything(peer: Peer) -> None:
    await peer.say_all(call("one", "wait") for _ in range(1_000))
    await peer.until(lambda: len(peer.frames) >= 999)
    assert {frame["error"]["code"] for frame in peer.frames if "error" in frame} == {-32600}
    peer.notify("notifications/cancelled", {"requestId": "one"})
    assert await peer.result("ping") == {}


async def cancels_and_asks_again_with_the_same_ids(peer: Peer) -> None:
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    for _ in range(50):
        for id in range(50):
            await peer.say_all([call(id, "wait"), {**cancel, "params": {"requestId": id}}])
    await peer.say_all(call(id, "echo", text=str(id)) for id in range(50))
    await peer.until(lambda: [frame for frame in peer.frames if frame.get("id") == 49])
    answers = [frame for frame in peer.frames if "result" in frame and frame.get("id") in range(50)]
    assert len(answers) == 50, "what was cancelled is never answered"


async def sends_frames_over_the_limit(peer: Peer) -> None:
    await peer.say_all(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * FRAME + b'"}' for _ in range(100))
    await peer.until(lambda: len([frame for frame in peer.frames if "error" in frame]) == 100)
    assert {frame["error"]["code"] for frame in peer.frames if "error" in frame} == {-32600}


async def sends_halves(peer: Peer) -> None:
    whole = json.dumps(call("h", "echo", text="été")).encode()
    halves = [whole[:end] for end in range(1, len(whole))] + [whole[start:] for start in range(1, len(whole))]
    await peer.say_all(halves)
    await peer.until(lambda: len([frame for frame in peer.frames if "error" in frame]) >= len(halves))
    assert {frame["error"]["code"] for frame in peer.frames if "error" in frame} <= {-32700, -32600}


async def sends_rubbish(peer: Peer) -> None:
    chance = random.Random(7)
    await peer.say_all(
        chance.randbytes(chance.randrange(1, 400)).replace(b"\n", b" ") or b"x" for _ in range(3_000)
    )
    await peer.until(lambda: len([frame for frame in peer.frames if "error" in frame]) == 3_000)


async def sends_depth(peer: Peer) -> None:
    for opening in (b"[", b'{"a":'):
        await peer.say_all(opening * 10_000 for _ in range(20))
        closing = b"]" if opening == b"[" else b"}"
        await peer.say_all(opening * 5_000 + b"1" + closing * 5_000 for _ in range(20))
    await peer.until(lambda: len([frame for frame in peer.frames if _has_error(frame)]) == 80)


async def sends_ids_that_are_none(peer: Peer) -> None:
    ids: list[Any] = [None, True, 1.5, [], {}, "x" * 2_000, [1], "9" * 1_025]
    await peer.say_all({**PING, "id": id} for id in ids)
    await peer.say_all([b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"ping"}'])
    await peer.until(lambda: len([frame for frame in peer.frames if "error" in frame]) == len(ids) + 1)


async def answers_what_nobody_asked(peer: Peer) -> None:
    await peer.say_all({"jsonrpc": "2.0", "id": number, "result": {}} for number in range(5_000))
    await peer.say_all(
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}} for _ in range(5_000)
    )
    assert await peer.result("ping") == {}


async def answers_twice_and_with_rubbish(peer: Peer) -> None:
    for said in (
        {"result": {"action": "accept", "content": {"name": "x"}}},
        {"result": 7},
        {"result": {"action": []}},
    ):
        peer.say(call(f"ask {said}", "asking"))
        question = await peer.question()
        for _ in range(3):
            peer.say({"jsonrpc": "2.0", "id": question["id"], **said})
        await peer.answer(f"ask {said}")
    peer.say(call("left", "asking"))
    await peer.question()  # and never an answer


async def initializes_again_and_again(peer: Peer) -> None:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    for id in range(500):
        peer.say({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params})
    await peer.until(lambda: len([frame for frame in peer.frames if "error" in frame]) == 500)
    assert {frame["error"]["code"] for frame in peer.frames if "error" in frame} == {-32001}


async def speaks_both_eras_at_once(peer: Peer) -> None:
    stateless = {"jsonrpc": "2.0", "method": "tools/list", "params": {"_meta": meta()}}
    await peer.say_all({**stateless, "id": id} for id in range(500))
    await peer.until(lambda: len([frame for frame in peer.frames if "error" in frame]) == 500)
    assert {frame["error"]["code"] for frame in peer.frames if "error" in frame} == {-32600}


async def asks_for_more_than_may_be_in_flight(peer: Peer) -> None:
    await peer.say_all(call(number, "wait") for number in range(10_000))
    await peer.until(lambda: len([frame for frame in peer.frames if "error" in frame]) == 9_900)
    data = [frame["error"]["data"] for frame in peer.frames if "error" in frame]
    assert all(one["retryable"] is True and one["reason"] == "busy" for one in data)
    assert await peer.result("ping") == {}, "pings are never refused"


async def fills_every_thread(peer: Peer) -> None:
    await peer.say_all(call(number, "block") for number in range(90))
    await peer.until(lambda: len(peer.frames) >= 90)


async def subscribes_to_everything(peer: Peer) -> None:
    uris = (f"x://{number}" for number in range(_subscriptions.MOST_URIS + 100))
    subscribe = {"jsonrpc": "2.0", "method": "resources/subscribe"}
    await peer.say_all({**subscribe, "id": uri, "params": {"uri": uri}} for uri in uris)
    await peer.until(lambda: len(peer.frames) >= _subscriptions.MOST_URIS + 100)
    refused = [frame for frame in peer.frames if "error" in frame]
    assert len(refused) == 100, "there is a limit to what is remembered for one client"


async def leaves_in_the_middle(peer: Peer) -> None:
    await peer.say_all(call(number, "wait") for number in range(50))
    await peer.say_all(call(f"b{number}", "block") for number in range(40))
    peer.say(call("a", "asking"))
    await peer.question()


def _has_error(frame: Any) -> bool:
    return isinstance(frame, dict) and "error" in frame


HOSTILE: list[Callable[[Peer], Awaitable[None]]] = [
    floods_with_requests,
    floods_with_pings_and_reads_nothing,
    floods_with_notifications,
    uses_one_id_for_everything,
    cancels_and_asks_again_with_the_same_ids,
    sends_frames_over_the_limit,
    sends_halves,
    sends_rubbish,
    sends_depth,
    sends_ids_that_are_none,
    answers_what_nobody_asked,
    answers_twice_and_with_rubbish,
    initializes_again_and_again,
    speaks_both_eras_at_once,
    asks_for_more_than_may_be_in_flight,
    fills_every_thread,
    subscribes_to_everything,
    leaves_in_the_middle,
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda function: function.__name__)
def test_a_client_that_misbehaves_costs_itself_and_nobody_else(
    hostile: Callable[[Peer], Awaitable[None]],
) -> None:
    """Section 6: one machine for each connection; G16, G20."""
    before = set(threading.enumerate())

    async def test() -> None:
        server = victim()
        async with talking(server) as good:
            tasks = asyncio.all_tasks()
            async with talking(server, capabilities={"elicitation": {}}) as bad:
                (_, hit) = server._connections.values()
                misbehaving = asyncio.ensure_future(hostile(bad))
                while not misbehaving.done():
                    assert await good.text("echo", text="meanwhile") == "meanwhile"
                await misbehaving
                assert await good.text("block") == "jackstay-pool"
            assert await good.text("echo", text="afterwards") == "afterwards"
            assert len(server._connections) == 1
            assert (len(hit.core.in_flight), len(hit.core.asked), len(hit._tasks)) == (0, 0, 0)
            assert asyncio.all_tasks() <= tasks, "a task is left"

    run(test)
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


ARRAYS: list[tuple[Any, Any]] = [
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
def test_arrays_of_rubbish_are_answered_as_the_revision_says(version: str) -> None:
    """Section 6, the row of arrays: by member in 2025-03-26, one refusal elsewhere."""

    async def test() -> None:
        server = victim()
        async with talking(server) as good, talking(server, version) as bad:
            await bad.result("tools/list")  # so that its era is settled
            for members, codes in ARRAYS:
                bad.frames.clear()
                for _ in range(20):
                    bad.say(json.dumps(members).encode())
                marker = bad.ask("tools/list")
                await bad.answer(marker)
                said = [frame for frame in bad.frames if isinstance(frame, list) or frame.get("id") != marker]
                flat = [one for frame in said for one in (frame if isinstance(frame, list) else [frame])]
                found = {one.get("error", {}).get("code") for one in flat}
                if version == "2025-03-26":
                    assert found == codes, members
                    assert len(said) == (20 if codes else 0)
                else:
                    assert (found, len(said)) == ({-32600}, 20)
            assert await good.text("echo", text="x") == "x"

    run(test)


# --- what bad clients do, to a process --------------------------------------------------------------------------------


def exchange(process: Process, data: bytes, count: int) -> list[Any]:
    """Write all of this and hear so many messages meanwhile."""
    writer = threading.Thread(target=process.say, args=(data,))
    writer.start()
    heard = [process.hear() for _ in range(count)]
    writer.join(30)
    assert not writer.is_alive()
    return heard


def errors_of(heard: list[Any]) -> list[int]:
    return [message["error"]["code"] for message in heard if "error" in message]


def open_in(process: Process) -> int:
    """How many descriptors the server has."""
    return len(os.listdir(f"/proc/{process.popen.pid}/fd"))


def lines(*messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def flood(process: Process) -> None:
    heard = exchange(process, lines(*(call(number, "echo", text="x") for number in range(30_000))), 30_000)
    assert not errors_of(heard), "a client that pipelines quick requests is served"


def ten_thousand_at_once(process: Process) -> None:
    calls = (call(number, "meet", count=10_000) for number in range(10_000))
    heard = exchange(process, lines(*calls, {**PING, "id": "ping"}), 10_001)
    assert {message["id"] for message in heard} == {*range(10_000), "ping"}
    assert not errors_of(heard)


def duplicates(process: Process) -> None:
    heard = exchange(process, lines(*(call("same", "hang_in_executor") for _ in range(1_000))), 999)
    assert errors_of(heard) == [-32600] * 999


def oversize(process: Process) -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (17 << 20) + b'"}\n'
    assert errors_of(exchange(process, line * 3, 3)) == [-32600] * 3


def halves_and_rubbish(process: Process) -> None:
    chance = random.Random(11)
    whole = json.dumps(call(1, "echo", text="x")).encode()
    said = [whole[: chance.randrange(1, len(whole))] for _ in range(2_000)]
    said += [(chance.randbytes(chance.randrange(1, 300)).replace(b"\n", b"?") + b"!") for _ in range(2_000)]
    heard = exchange(process, b"\n".join(said) + b"\n", len(said))
    assert len(errors_of(heard)) == len(said)


def trickled(process: Process) -> None:
    for byte in lines(call("slowly", "echo", text="x")):
        process.say(bytes([byte]))
    assert process.hear()["id"] == "slowly"


def one_endless_line(process: Process) -> None:
    heard = exchange(process, b"x" * (50 << 20) + b"\n" + lines({**PING, "id": "ping"}), 2)
    assert errors_of(heard) == [-32600], "one line, one refusal"


@pytest.mark.parametrize(
    "hostile",
    [flood, ten_thousand_at_once, duplicates, oversize, halves_and_rubbish, trickled, one_endless_line],
    ids=lambda function: function.__name__,
)
def test_a_process_survives_its_client_and_is_no_larger_for_it(hostile: Callable[[Process], None]) -> None:
    """G12, G16, G20: and then it ends in order."""
    with serving("at-once=10000") as process:
        process.say(call(1, "echo", text="x"))
        assert process.hear()["id"] == 1
        before = open_in(process)
        hostile(process)
        process.say(call(2, "echo", text="still here"))
        assert process.hear()["result"]["content"][0]["text"] == "still here"
        assert open_in(process) == before, "a descriptor is left in the server"
        assert memory_of(process.popen.pid) < 150 << 20
        code, _, rest, _ = process.ended()
        assert (code, rest) == (0, b"")
