"""Four server processes that share a Redis: 20,000 sessions, 2,000 listeners, a rolling restart. Used by `scale.py`.

Requests go to the processes in turn, as from a load balancer without sticky sessions. CPU time is that of the servers.
"""

import json
import math
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from statistics import median

from _load import NEW, OLD, Connection, HttpServer

PROGRAM = [sys.executable, str(Path(__file__).parent / "programs" / "scale_worker.py")]
PROCESSES = 4
SESSIONS = 20_000
MAX_SESSIONS = 10_000  # in each process; the others load a session that it does not have
STREAMS = 500
WARM_UP = 100
CALLS_IN_A_ROW = 20
LISTENERS = 2_000
CHANGES_PER_SECOND = 1_000
CHANGE_SECONDS = 5
UNWANTED = 10_000
ROUNDS = 5
SAMPLE = 200  # sessions in each round
ALL = LISTENERS  # the number of the resource that all listeners subscribe to
CALLERS = 4
GUARD = 60.0


class Pool:
    """Servers, with a connection to each."""

    def __init__(self, url: str, count: int, max_sessions: int, workers: int = 1, *more: str) -> None:
        command = [*PROGRAM, "PORT", url, str(max_sessions), str(workers), *more]
        self.servers = [HttpServer(command) for _ in range(count)]
        self.connect()

    def connect(self) -> None:
        self.connections = [Connection(server.port, NEW) for server in self.servers]
        self._turns = cycle(range(len(self.servers)))

    def send(self, method: str, params: dict[str, object] | None, session: bytes = b"", at: int | None = None) -> bytes:
        """Send a request to the next process, in a session or without one. Returns the response."""
        index = next(self._turns) if at is None else at
        for _ in range(2):  # an idle connection may have been closed
            connection = self.connections[index]
            connection.session, connection.revision = session, OLD if session or method == "initialize" else NEW
            try:
                return connection.exchange(connection.request(method, params))
            except (OSError, SystemExit):
                self.connections[index] = Connection(self.servers[index].port, NEW)
        raise SystemExit(f"{method} failed twice")

    def call(self, tool: str, arguments: dict[str, object], session: bytes = b"", at: int | None = None) -> str:
        """Call a tool and return the text of its result."""
        response = self.send("tools/call", {"name": tool, "arguments": arguments}, session, at)
        body = json.loads(response[response.index(b"{", response.index(b"\r\n\r\n")) :].split(b"\n")[0])
        return str(body["result"]["content"][0]["text"])

    def cpu(self) -> float:
        return sum(server.cpu() for server in self.servers)

    def longest_callback(self) -> float:
        """Return the milliseconds of CPU time of the longest callback of any process since the last call."""
        return max(float(self.call("longest_callback", {}, at=index)) for index in range(len(self.servers))) * 1000

    def open_session(self, at: int | None = None) -> bytes:
        params = {"protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        response = self.send("initialize", params, at=at)
        place = response.lower().index(b"mcp-session-id: ")
        session = response[place + 16 :].partition(b"\r\n")[0]
        self.send("notifications/initialized", None, session, at)
        return session

    def close(self) -> None:
        for connection in self.connections:
            connection.socket.close()
        for server in self.servers:
            server.close()


@contextmanager
def pool(url: str, count: int, max_sessions: int, workers: int = 1, *more: str) -> Iterator[Pool]:
    opened = Pool(url, count, max_sessions, workers, *more)
    try:
        yield opened
    finally:
        opened.close()


def judge(name: str, value: float, bound: float, unit: str) -> bool:
    """Print a row, and return whether the bound is met."""
    verdict = "ok" if value <= bound else "MISSED"
    print(f"  {name:66} {value:8.2f} {unit}, target <= {bound:g}  {verdict}", flush=True)
    return value <= bound


def cost_of_calls(servers: Pool, sessions: list[bytes], in_a_row: int, *, is_sticky: bool) -> float:
    """Return the microseconds of CPU time for each call. Every request goes to the next process.

    Four sessions are used at a time: each stays at its process, or each request of it goes to another one.
    """
    began = servers.cpu()
    for first in range(0, len(sessions), PROCESSES):
        for turn in range(in_a_row):
            for place, session in enumerate(sessions[first : first + PROCESSES]):
                at = place if is_sticky else (place + turn) % PROCESSES
                servers.call("echo", {"text": "a"}, session, at)
    return (servers.cpu() - began) / (len(sessions) * in_a_row) * 1e6


def compare(memory: Pool, known: list[bytes], servers: Pool, sessions: list[bytes], in_a_row: int) -> float:
    """Return the CPU time of a call in relation to sticky sessions in memory: the median of interleaved rounds."""
    ratios = []
    for number in range(ROUNDS):
        rows = slice(number * SAMPLE, (number + 1) * SAMPLE)
        before = cost_of_calls(memory, known[rows], in_a_row, is_sticky=True)
        ratios.append(cost_of_calls(servers, sessions[rows], in_a_row, is_sticky=False) / before)
    return median(ratios)


def measure_sessions(servers: Pool) -> tuple[bool, list[bytes]]:
    """20,000 sessions, each served by all processes, with 500 open GET streams. Returns the sessions, too.

    The sessions in memory, with which they are compared, have as many streams, each at its process.
    """
    with pool("-", PROCESSES, SESSIONS) as memory:
        known = [memory.open_session(number % PROCESSES) for number in range(SESSIONS)]
        for session in [servers.open_session() for _ in range(WARM_UP)]:  # loads what is loaded on first use
            for at in range(PROCESSES):
                servers.call("echo", {"text": "a"}, session, at)
        before = [server.rss() for server in servers.servers]
        sessions = [servers.open_session() for _ in range(SESSIONS)]
        last = range(SESSIONS - STREAMS, SESSIONS)
        streams = [
            Stream(pool, number, each[number])
            for pool, each in ((memory, known), (servers, sessions))
            for number in last
        ]
        row = compare(memory, known, servers, sessions, CALLS_IN_A_ROW)
        single = compare(memory, known, servers, sessions, 1)
        after = [server.rss() for server in servers.servers]
    counts = [server.sessions() for server in servers.servers]
    is_met = judge("a call in a session, 20 in a row, at alternating processes", row, 1.5, "x memory")
    print(f"  the same, one call in each of {SAMPLE:,} sessions: {single:.2f} x memory")
    each = [(end - begin) / (count - WARM_UP) for begin, end, count in zip(before, after, counts, strict=True)]
    is_met &= judge("memory of a process for each of its sessions", max(each), 2.0, "KiB")
    is_met &= judge("sessions in a process", max(counts), MAX_SESSIONS, "sessions")
    for stream in streams:
        stream.socket.close()
    return is_met, sessions


class Stream:
    """An open stream: the GET of a session, or `subscriptions/listen` to one resource and to that of all."""

    def __init__(self, servers: Pool, number: int, session: bytes = b"") -> None:
        self.number = number
        connection = Connection(servers.servers[number % len(servers.servers)].port, NEW)
        self.socket = connection.socket
        if session:
            head = b"GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nmcp-session-id: %b\r\n\r\n"
            self.socket.sendall(head % session)
            return
        wanted = {"resourceSubscriptions": [f"memo://{number}", f"memo://{ALL}"], "toolsListChanged": True}
        self.socket.sendall(connection.request("subscriptions/listen", {"notifications": wanted}))
        text = b""
        while b"acknowledged" not in text:
            chunk = self.read()
            if not chunk:
                raise ConnectionError(f"the stream was refused: {text[:300]!r}")
            text += chunk

    def read(self) -> bytes:
        """Return what has arrived, or an empty string at the end of the stream."""
        try:
            return self.socket.recv(1 << 16)
        except ConnectionResetError:
            return b""


class Listeners:
    """Streams that are read on a thread. `arrived` has the number of the resource and the time of each change."""

    def __init__(self, servers: Pool) -> None:
        self._servers = servers
        self._ready = selectors.DefaultSelector()
        self.arrived: list[tuple[int, float]] = []
        self.list_changes = self.reopened = 0
        self._last_event = 0.0
        self._is_over = False
        for number in range(LISTENERS):
            self._open(number)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _open(self, number: int) -> None:
        while True:
            try:
                stream = Stream(self._servers, number)
                break
            except OSError:
                time.sleep(0.01)  # the server drains
        self._ready.register(stream.socket, selectors.EVENT_READ, stream)

    def _read(self) -> None:
        while not self._is_over:
            for key, _ in self._ready.select(0.1):
                text = key.data.read()
                now = self._last_event = time.perf_counter()
                self.list_changes += text.count(b"list_changed")
                self.arrived += [(int(part.partition(b'"')[0]), now) for part in text.split(b"memo://")[1:]]
                if not text:
                    self._last_event = math.inf  # not idle until it is open, however long that takes
                    self._ready.unregister(key.fileobj)
                    key.data.socket.close()
                    self._open(key.data.number)
                    self.reopened += 1
                    self._last_event = time.perf_counter()

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + GUARD
        while len(self.arrived) < count and time.monotonic() < deadline:
            time.sleep(0.001)

    def wait_until_idle(self) -> None:
        """Wait until nothing has arrived and no stream was opened again for a second."""
        while time.perf_counter() - self._last_event < 1.0:
            time.sleep(0.1)

    def close(self) -> None:
        self._is_over = True
        self._thread.join()
        for key in list(self._ready.get_map().values()):
            key.data.socket.close()
        self._ready.close()


@contextmanager
def listening(servers: Pool) -> Iterator[Listeners]:
    opened = Listeners(servers)
    try:
        yield opened
    finally:
        opened.close()


def measure_changes(servers: Pool, listeners: Listeners) -> bool:
    """One change for 2,000 listeners, 1,000 changes per second with one listener each, and changes for none."""
    servers.longest_callback()
    latencies, blocked = [], []
    for index in range(ROUNDS):
        listeners.arrived.clear()
        began = time.perf_counter()
        servers.call("publish", {"first": ALL, "count": 1}, at=index % PROCESSES)
        listeners.wait_for(LISTENERS)
        latencies.append((max(at for _, at in listeners.arrived) - began) * 1000)
        assert len(listeners.arrived) == LISTENERS
        blocked.append(servers.longest_callback())
    is_met = judge("one change: until the last of 2,000 listeners has it", median(latencies), 500, "ms")
    is_met &= judge("one change: the longest callback of a process", median(blocked), 20, "ms of CPU")
    listeners.arrived.clear()
    sent: dict[int, float] = {}
    total, batch = CHANGES_PER_SECOND * CHANGE_SECONDS, 10
    began = time.perf_counter()
    for first in range(0, total, batch):
        time.sleep(max(0.0, began + first / CHANGES_PER_SECOND - time.perf_counter()))
        sent[first] = time.perf_counter()
        arguments: dict[str, object] = {"first": first % LISTENERS, "count": batch}
        servers.call("publish", arguments, at=first // batch % PROCESSES)
    took = time.perf_counter() - began
    listeners.wait_for(total)
    times: dict[int, list[float]] = {}
    for number, at in listeners.arrived:
        times.setdefault(number, []).append(at)
    late = sorted(
        (at - sent[round_number * LISTENERS + number // batch * batch]) * 1000
        for number, row in times.items()
        for round_number, at in enumerate(row)
    )
    arrived = f"{len(late):,} of {total:,} arrived, p50 {median(late):.1f} ms"
    print(f"  {total / took:.0f} changes per second with one listener each: {arrived}")
    is_met &= judge("changes that did not arrive", total - len(late), 0, "changes")
    is_met &= judge("changes with one listener each: until it has it, p99", late[len(late) * 99 // 100], 500, "ms")
    is_met &= judge("the longest callback of a process meanwhile", servers.longest_callback(), 20, "ms of CPU")
    began = servers.cpu()
    for first in range(0, UNWANTED, 100):
        servers.call("publish", {"first": 1_000_000 + first, "count": 100})
    time.sleep(1.0)
    return judge("a change that nobody wants", (servers.cpu() - began) / UNWANTED * 1000, 1, "ms of CPU") and is_met


class Callers:
    """Threads that call in sessions, each request over a new connection to the next server."""

    def __init__(self, servers: Pool, sessions: list[bytes]) -> None:
        self.completed = self.refused = 0
        self.failures: list[str] = []
        self._is_over = False
        ports = [server.port for server in servers.servers]
        self._threads = [
            threading.Thread(target=self._call, args=(ports, sessions[number::CALLERS])) for number in range(CALLERS)
        ]
        for thread in self._threads:
            thread.start()

    def _call(self, ports: list[int], sessions: list[bytes]) -> None:
        for port, session in zip(cycle(ports), cycle(sessions), strict=False):
            if self._is_over:
                return
            connection = Connection(port, NEW)
            connection.session, connection.revision = session, OLD
            request = connection.request("tools/call", {"name": "echo", "arguments": {"text": "a"}})
            try:
                response = connection.exchange(request)
            except (OSError, SystemExit) as error:
                self.failures.append(f"may have run: {error}")
                continue
            finally:
                connection.socket.close()
            if response.startswith(b"HTTP/1.1 200"):
                self.completed += 1
            elif response.startswith(b"HTTP/1.1 503") and b'"mayHaveRun":false' in response:
                self.refused += 1
            else:
                self.failures.append(response[:300].decode(errors="replace"))

    def close(self) -> None:
        self._is_over = True
        for thread in self._threads:
            thread.join()


def restart(server: HttpServer) -> None:
    """Send SIGTERM to one worker after the other; the first process replaces it."""
    children = Path(f"/proc/{server.child.pid}/task/{server.child.pid}/children")
    workers = children.read_text(encoding="ascii").split()
    deadline = time.monotonic() + GUARD
    for number, worker in enumerate(workers):
        os.kill(int(worker), signal.SIGTERM)
        now = workers
        while worker in now or len(set(now) - set(workers)) <= number:
            if time.monotonic() > deadline:
                raise SystemExit("a worker was not replaced")
            time.sleep(0.01)
            now = children.read_text(encoding="ascii").split()


def measure_restart(servers: Pool, listeners: Listeners, sessions: list[bytes]) -> bool:
    """Replace all workers under calls in all sessions, and with all listeners."""
    callers = Callers(servers, sessions)
    for server in servers.servers:
        restart(server)
    listeners.wait_until_idle()
    callers.close()
    servers.connect()
    spurious = len(listeners.arrived) + listeners.list_changes
    print(f"  {callers.completed:,} calls completed, {callers.refused} were refused with 503 before they ran")
    print(f"  {listeners.reopened:,} streams of listeners ended and were opened again")
    is_met = judge("calls that failed in a rolling restart", len(callers.failures), 0, "calls")
    for failure in callers.failures[:5]:
        print(f"    {failure}")
    is_met &= judge("changes that nobody made", spurious, 0, "changes")
    listeners.arrived.clear()
    servers.call("publish", {"first": ALL, "count": 1})
    listeners.wait_for(LISTENERS)
    return (
        judge("listeners that miss a change afterwards", LISTENERS - len(listeners.arrived), 0, "listeners") and is_met
    )


def measure(url: str) -> bool:
    """Run and print all measurements; return whether all bounds are met."""
    with pool(url, PROCESSES, MAX_SESSIONS) as servers:
        is_met, sessions = measure_sessions(servers)
    with pool(url, PROCESSES, MAX_SESSIONS, 1, "callbacks") as servers, listening(servers) as listeners:
        is_met &= measure_changes(servers, listeners)
    with pool(url, PROCESSES // 2, MAX_SESSIONS, workers=2) as servers, listening(servers) as listeners:
        return measure_restart(servers, listeners, sessions) and is_met
