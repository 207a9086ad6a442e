"""What `RedisBackend` costs: memory, CPU for each call, the time of a passed-on response. Used by `scale.py`.

Requests are passed to the ASGI app, without sockets. A target may be missed by the noise of the run.
"""

import asyncio
import json
import random
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import structs

from jackstay.protocol.server import ClientParams
from jackstay.redis import RedisBackend
from jackstay.server import Context, MemoryBackend, Server, TaskRecord
from jackstay.server.http import SessionRecord

CALLS = 1_000
ROUNDS = 7
ANSWERS = 200
ANSWERS_IN_SESSION = 10
ANSWER_PACE = 0.005
ANSWER_ROUNDS = 3
AT_ONCE = 16
ITEMS = 2_000
# A ratio above the target by less than this is noise.
NOISE = 0.05

OLD, NEW = "2025-11-25", "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": NEW,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}
INITIALIZE = {
    "protocolVersion": OLD,
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "bench", "version": "1"},
}


def serving(backend: Any) -> Server:
    server = Server("bench", backend=backend)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def count(context: Context) -> str:
        for number in range(20):
            context.info(f"event {number}")
        return "done"

    @server.tool
    async def confirm(subject: int, context: Context) -> str:
        schema = {"type": "object", "properties": {"subject": {"type": "string"}}}
        answer = await context.elicit(f"really {subject}?", schema)
        return f"{subject}: {(answer.content or {})['subject']}"

    return server


class Post:
    """One POST. `chunks` has the parts of the body as they arrive; `b""` is the end."""

    def __init__(self, app: Any, body: Any, headers: dict[str, str]) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._body = json.dumps(body).encode()
        given = {
            "host": "localhost",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }
        rows = [(name.encode(), value.encode()) for name, value in (given | headers).items()]
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": "/mcp", "raw_path": b"/mcp", "query_string": b"", "root_path": "", "headers": rows,
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))
        self._is_read = False

    async def _receive(self) -> dict[str, Any]:
        if self._is_read:
            await asyncio.Event().wait()
        self._is_read = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = dict(message["headers"])
        elif message.get("body"):
            self.chunks.put_nowait(message["body"])

    async def end(self) -> bytes:
        await self.task
        assert self.status in (200, 202), self.status
        return b"".join(self.chunks.get_nowait() for _ in range(self.chunks.qsize()))


def call(name: str, arguments: Any, id: int, **meta: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments, **meta}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


async def open_session(app: Any) -> dict[str, str]:
    post = Post(app, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}, {})
    await post.end()
    headers = {"mcp-session-id": post.headers[b"mcp-session-id"].decode(), "mcp-protocol-version": OLD}
    await Post(app, {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers).end()
    return headers


async def stateless(app: Any) -> Callable[[int], Awaitable[object]]:
    headers = {"mcp-protocol-version": NEW, "mcp-method": "tools/call", "mcp-name": "echo"}
    return lambda number: Post(app, call("echo", {"text": "a"}, number, _meta=META), headers).end()


async def in_session(app: Any) -> Callable[[int], Awaitable[object]]:
    headers = await open_session(app)
    return lambda number: Post(app, call("echo", {"text": "a"}, number), headers).end()


async def with_events(app: Any) -> Callable[[int], Awaitable[object]]:
    """One call in each of several sessions at once, as on a server that is used."""
    sessions = [await open_session(app) for _ in range(AT_ONCE)]
    return lambda number: asyncio.gather(*(Post(app, call("count", {}, number), row).end() for row in sessions))


async def ratio(
    kinds: tuple[Any, Any], prepare: Callable[[Any], Awaitable[Callable[[int], Awaitable[object]]]]
) -> float:
    """Print the CPU seconds of a call with each backend, interleaved, and return the median of their ratios."""
    functions = [await prepare(app) for app in kinds]
    samples: list[list[float]] = [[], []]
    for number in range(ROUNDS):
        for index, function in enumerate(functions):
            at_once = AT_ONCE if prepare is with_events else 1
            began = time.process_time()
            for id in range(CALLS // at_once):
                await function(number * CALLS + id)
            samples[index].append((time.process_time() - began) / (CALLS // at_once * at_once))
    ratios = sorted(after / before for before, after in zip(*samples, strict=True))
    first, second = (median(row) * 1e6 for row in samples)
    print(f"  {prepare.__name__:12} {first:7.0f} us without Redis, {second:7.0f} us with it: x{median(ratios):.2f}")
    return median(ratios)


async def answer_times(first: Any, receivers: list[Any], pace: float) -> list[float]:
    """Return the milliseconds from the response of the client to the end of its call, sorted.

    All calls wait at once; then their responses arrive in any order, `pace` seconds apart, at any of the receivers.
    """
    sessions = [await open_session(first) for _ in range(ANSWERS // ANSWERS_IN_SESSION)]
    waiting = []
    for id in range(ANSWERS):
        headers = sessions[id % len(sessions)]
        waiting.append((id, Post(first, call("confirm", {"subject": id}, id), headers), headers))
    requests = []
    for id, running, headers in waiting:
        text = b""
        while b"elicitation/create" not in text:
            text += await running.chunks.get()
        line = next(line for line in text.splitlines() if b"elicitation/create" in line)
        request = json.loads(line.partition(b"data:")[2])
        assert request["params"]["message"] == f"really {id}?"
        requests.append((id, request["id"], running, headers))
    rng = random.Random(17)
    rng.shuffle(requests)
    times = []

    async def respond(id: int, request_id: Any, running: Post, headers: dict[str, str]) -> None:
        began = time.perf_counter()
        content = {"subject": f"of {id}"}
        answer = {"jsonrpc": "2.0", "id": request_id, "result": {"action": "accept", "content": content}}
        await Post(rng.choice(receivers), answer, headers).end()
        assert f"{id}: of {id}".encode() in await running.end(), "a response reached another request"
        times.append((time.perf_counter() - began) * 1000)

    async with asyncio.TaskGroup() as group:
        for row in requests:
            group.create_task(respond(*row))
            await asyncio.sleep(pace)
    return sorted(times)


async def print_sizes(backend: RedisBackend) -> None:
    """Print the memory of Redis for each session, event and task, and the time to create and to claim a task."""
    await backend.open("sizes")
    client, tasks = backend._client, backend.tasks

    async def used() -> int:
        return int((await client.info("memory"))["used_memory"])

    params = ClientParams(OLD, b'{"name":"bench","version":"1"}', b'{"elicitation":{}}')
    record = SessionRecord(params, "alice")
    before = await used()
    for number in range(ITEMS):
        await backend.sessions.save(f"session {number}", record, 1000.0)
    print(f"  a session:                 {(await used() - before) / ITEMS:7.0f} bytes")
    before = await used()
    for number in range(ITEMS // 20):
        rows = [("s", event, b"x" * 200) for event in range(20)]
        await backend.events.append_many(f"session {number}", rows)
    print(f"  an event of 200 bytes:     {(await used() - before) / ITEMS:7.0f} bytes")
    now = await tasks.now()
    arguments = b'{"name":"index","arguments":{"path":"%b"}}' % (b"x" * 200)
    times = {"created_at": now, "updated_at": now, "due_at": now, "expires_at": now + 1000}
    row = TaskRecord(id="", tool="index", call=arguments, principal="alice", protocol=NEW, **times)
    before, began = await used(), time.perf_counter()
    for number in range(ITEMS):
        await tasks.create(structs.replace(row, id=f"task {number}", idempotency_key=f"{number:064}"), ITEMS)
    created = time.perf_counter() - began
    print(f"  a task with 200 bytes:     {(await used() - before) / ITEMS:7.0f} bytes")
    began = time.perf_counter()
    for found in await tasks.due(now, ITEMS, queued=True):
        await tasks.replace(structs.replace(found, revision=2, state="running"))
    claimed = time.perf_counter() - began
    print(f"  one after the other: {ITEMS / created:.0f} tasks/s created, {ITEMS / claimed:.0f} tasks/s changed")
    await backend.close()


async def measure(url: str) -> bool:
    """Run and print all measurements; return whether all targets are met."""
    await print_sizes(RedisBackend(url, timeout=10.0))
    servers = [serving(None), serving(MemoryBackend()), *(serving(RedisBackend(url, timeout=10.0)) for _ in range(2))]
    plain, memory, redis, other = (server.asgi(sessions=number > 0) for number, server in enumerate(servers))
    plain_redis = servers[2].asgi()
    is_met = await ratio((plain, plain_redis), stateless) <= 1.03 + NOISE
    is_met &= await ratio((memory, redis), in_session) <= 1.5 + NOISE
    is_met &= await ratio((memory, redis), with_events) <= 1.2 + NOISE
    middle, last = ANSWERS // 2, ANSWERS * 99 // 100
    for pace in (ANSWER_PACE, 0.0):
        rows = [sorted(chain(*[await answer_times(redis, list(each), pace) for _ in range(ANSWER_ROUNDS)]))
                for each in ((redis,), (other,), (redis, other))]  # fmt: skip
        here, there, both = ((row[ANSWER_ROUNDS * middle], row[ANSWER_ROUNDS * last]) for row in rows)
        print(f"  {ANSWERS} requests to clients wait at once; their responses arrive {pace * 1000:g} ms apart")
        for name, (half, most) in (("their own worker", here), ("another one", there), ("any of the two", both)):
            print(f"    at {name:17} p50 {half:.2f} ms, p99 {most:.2f} ms: {most - here[1]:+.2f} ms p99")
        if pace:
            is_met &= there[1] - here[1] <= 10
    for server in servers:
        await server.shutdown()
    verdict = "met" if is_met else "MISSED"
    print(f"  targets: stateless x1.03, in a session x1.5, with 20 events x1.2, an answer +10 ms p99: {verdict}")
    return is_met


@contextmanager
def redis_server() -> Iterator[str]:
    """Start a `redis-server` with an append-only file, and return its URL."""
    with tempfile.TemporaryDirectory(prefix="redis-") as directory:
        path = Path(directory, "s")
        command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "yes"]
        process = subprocess.Popen([*command, "--dir", directory], stdout=subprocess.DEVNULL)
        try:
            while not path.exists():
                time.sleep(0.01)
            yield f"unix://{path}"
        finally:
            process.kill()
            process.wait()
