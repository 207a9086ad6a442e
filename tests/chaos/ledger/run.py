"""Inject faults into real servers for a while and compare the outcomes of calls with what ran (`make chaos`).

    PYTHONPATH=tests python -m chaos.ledger.run --seconds 60 [--loop uvloop] [--seed 7] [--only stdio http ...]
    PYTHONPATH=tests python -m chaos.ledger.run --only machines tasks --fault "kill Redis" --seconds 120 --seed 7

The parts share the seconds. With `--fault` nothing else happens to several machines and to tasks. Exit code 1: a
guarantee was violated or a resource leaked; every breach is printed.
"""

import argparse
import asyncio
import gc
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jackstay.sync
from chaos.http.process import LedgerServer
from chaos.http.proxy import FaultProxy, draw
from chaos.ledger import machines, tasks
from chaos.ledger.ledger import LAG_INTERVAL, Ledger
from chaos.leftovers import children, nothing_left
from jackstay.client import Client, Fleet, connect
from jackstay.errors import McpError
from jackstay.transport import Target, stdio
from jackstay.transport.http import http

SERVER = str(Path(__file__).with_name("server.py"))
FRAME_BYTES = 100_000
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
FAST: dict[str, Any] = {
    "backoff_min": 0.02,
    "backoff_max": 0.2,
    "init_timeout": 3.0,
    "close_step": 0.3,
    "max_frame_bytes": FRAME_BYTES,
    "max_attempts": 1_000_000,  # a fault may hit the first connect, too
}
# The faults of the server and their weights: most calls are ordinary, so that faults occur while calls are in flight.
FAULTS = {
    "": 60,
    "slow": 6,
    "trickle": 2,
    "garbage": 4,
    "stderr": 1,
    "twice": 2,
    "unknown_id": 2,
    "never": 2,
    "ignored": 2,
    "half_line": 1,
    "exit": 1,
    "answer_and_exit": 1,
    "too_much_garbage": 1,
    "oversize": 1,
    "reset": 1,
    "second_initialize": 1,
    "close_stdout": 1,
    "close_stdin": 1,
}
# Faults that close the connection, for calls made in the same iteration of the event loop.
CLOSING = ("exit", "reset", "second_initialize", "too_much_garbage", "oversize", "half_line", "close_stdout")
CALLERS = 8
FLEET = 20


class Run(NamedTuple):
    """The arguments of a part."""

    ledger: Ledger
    rng: random.Random
    seconds: float
    rate: float = 0.0
    faults: Sequence[str] = ()

    def is_over(self, started_at: float) -> bool:
        return time.monotonic() - started_at > self.seconds

    def target(self, name: str = "ledger") -> Target:
        return stdio(sys.executable, "-I", "-S", SERVER, str(self.ledger.path), name=name)


def fault_of(rng: random.Random) -> str:
    return rng.choices(list(FAULTS), list(FAULTS.values()))[0]


async def disturb(pid: int, rng: random.Random) -> None:
    """Kill, terminate or stop a child process; a stopped one continues after a while."""
    number = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
    try:
        os.kill(pid, number)
        if number == signal.SIGSTOP:
            await asyncio.sleep(rng.uniform(0.1, 3.5))
            os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return  # it has ended meanwhile


async def disturb_children(run: Run, spared: frozenset[int] = frozenset(), every: float = 0.5) -> None:
    """Disturb a random child process now and then, until cancelled."""
    while True:
        await asyncio.sleep(run.rng.uniform(0, 2 * every))
        targets = sorted(children() - spared)
        if targets:
            await disturb(run.rng.choice(targets), run.rng)


async def run_with(disturbance: Coroutine[Any, Any, None], work: Awaitable[Any]) -> None:
    """Do the work while the disturbance runs."""
    task = asyncio.get_running_loop().create_task(disturbance)
    try:
        await work
    finally:
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error


async def call_for_a_while(run: Run, client: Client, caller: int, prefix: str) -> None:
    """Make calls of every kind, one after the other."""
    started_at, number, rng = time.monotonic(), 0, random.Random(run.rng.random())
    while not run.is_over(started_at):
        number += 1
        nonce = f"{prefix}-{caller}-{number}"
        deadline = rng.choice([0.2, 0.5, 1.0, 3.0])
        options: dict[str, Any] = {"timeout": deadline, "max_timeout": deadline}
        tool, may_replay = "record", False
        kind = rng.random()
        if kind < 0.1:
            tool, may_replay, options["replay"] = "read", True, "safe"
        elif kind < 0.3:
            options["wait_for_ready"] = False
        elif kind < 0.4:
            options["busy"] = "wait"
        arguments = {"nonce": nonce, "fault": fault_of(rng)}
        with run.ledger.watch(nonce, deadline, may_replay=may_replay) as answers:
            if kind > 0.9:
                params = {"name": tool, "arguments": arguments}
                handle = client.submit("tools/call", params, **options)
                if kind > 0.95:
                    asyncio.get_running_loop().call_later(rng.uniform(0, 0.05), handle.cancel)
                result: Any = await handle
                answers.append(result["content"][0]["text"])
            else:
                answers.append((await client.tools.call(tool, arguments, **options)).text)
        await asyncio.sleep(0)


async def stdio_part(run: Run) -> None:
    """Callers of one stdio server that is killed, stopped and misbehaves, with and without a handshake."""
    half = run._replace(seconds=run.seconds / 2)
    for version in (HANDSHAKE, STATELESS):
        async with connect(half.target(), versions=(version,), wait_for_ready=True, **FAST) as client:
            work = asyncio.gather(*(call_for_a_while(half, client, n, version) for n in range(CALLERS)))
            await run_with(disturb_children(half), work)


async def same_turn_part(run: Run) -> None:
    """Calls in the same iteration of the loop as every kind of close."""
    started_at, number = time.monotonic(), 0
    while not run.is_over(started_at):
        for fault in ("stop", "stop", *CLOSING):
            number += 1
            await close_with_calls(run, fault, f"turn-{number}")


async def close_with_calls(run: Run, fault: str, prefix: str) -> None:
    """Close one connection by this fault while a call is made in every iteration."""
    version = run.rng.choice([HANDSHAKE, STATELESS])
    client = connect(run.target(), versions=(version,), wait_for_ready=run.rng.random() < 0.5, **FAST)

    async def call(nonce: str, fault: str = "") -> None:
        with run.ledger.watch(nonce, 3.0) as answers:
            result = await client.tools.call("record", {"nonce": nonce, "fault": fault}, timeout=3, max_timeout=3)
            answers.append(result.text)

    async with client, asyncio.TaskGroup() as group:
        if fault != "stop":
            group.create_task(call(f"{prefix}-fault", fault))
        turns = run.rng.randint(0, 40)
        for turn in range(turns):
            group.create_task(call(f"{prefix}-{turn}"))
            await asyncio.sleep(0)
        if fault == "stop":
            group.create_task(call(f"{prefix}-last"))
            group.create_task(client.stop())
            if run.rng.random() < 0.5:
                await asyncio.sleep(0)
                group.create_task(call(f"{prefix}-after"))


async def http_part(run: Run) -> None:
    """Callers of an HTTP server behind the fault proxy that is killed, stopped and restarted."""
    for index, (version, options) in enumerate([(HANDSHAKE, {"sessions": True}), (STATELESS, {}), (HANDSHAKE, {})]):
        part = run._replace(seconds=run.seconds / 3)
        with tempfile.TemporaryDirectory() as directory:
            os.symlink(run.ledger.path, Path(directory) / "ledger")
            server = LedgerServer(Path(directory), **options)
            with server:
                port = await asyncio.to_thread(getattr, server, "port")  # waits until the server prints it
                async with FaultProxy(port, lambda: draw(run.rng)) as proxy:
                    await call_over_http(part, proxy.url, version, Restarted(server, port, part.rng), f"http{index}")


class Restarted:
    """An HTTP server that is killed or stopped now and then, and restarted on the same port."""

    def __init__(self, server: LedgerServer, port: int, rng: random.Random) -> None:
        self.server, self.rng = server, rng
        server.command = (*server.command[:-1], server.command[-1].replace('"port": 0', f'"port": {port}'))

    async def disturb(self) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(0.5, 3))
            await disturb(self.server.process.pid, self.rng)
            restart = asyncio.get_running_loop().run_in_executor(None, self.start_again_if_ended)
            try:
                await asyncio.shield(restart)
            finally:
                await asyncio.wait([restart])  # also when cancelled: the thread must not start a server after the end

    def start_again_if_ended(self) -> None:
        try:
            self.server.process.wait(1.0)  # SIGTERM drains first
        except subprocess.TimeoutExpired:
            return
        self.server.__exit__(None, None, None)
        self.server.lines.clear()
        self.server.__enter__()


async def call_over_http(run: Run, url: str, version: str, server: Restarted, prefix: str) -> None:
    client = connect(http(url, max_connections=CALLERS), versions=(version,), wait_for_ready=True, **FAST)
    await client.open(wait=False)

    async def caller(number: int) -> None:
        started_at, count, rng = time.monotonic(), 0, random.Random(run.rng.random())
        while not run.is_over(started_at):
            count += 1
            nonce = f"{prefix}-{number}-{count}"
            deadline = rng.choice([0.2, 0.5, 1.0, 3.0])
            tool = rng.choice(["record", "record", "record_in_steps"])
            with run.ledger.watch(nonce, deadline) as answers:
                result = await client.tools.call(tool, {"nonce": nonce}, timeout=deadline, max_timeout=deadline)
                answers.append(result.text)
            await asyncio.sleep(0)

    try:
        await run_with(server.disturb(), asyncio.gather(*(caller(number) for number in range(CALLERS))))
    finally:
        await client.stop()


async def fleet_part(run: Run) -> None:
    """A fleet of servers that are killed at random."""
    targets = {f"s{number}": run.target(f"s{number}") for number in range(FLEET)}
    settings = {**FAST, "init_timeout": 30.0, "versions": (HANDSHAKE,), "wait_for_ready": True}
    async with Fleet(targets, **settings) as fleet:

        async def caller(number: int) -> None:
            started_at, count, rng = time.monotonic(), 0, random.Random(run.rng.random())
            while not run.is_over(started_at):
                count += 1
                nonce = f"fleet-{number}-{count}"
                deadline = rng.choice([0.5, 1.0, 3.0])
                with run.ledger.watch(nonce, deadline) as answers:
                    name = f"s{rng.randrange(FLEET)}__record"
                    arguments = {"nonce": nonce, "fault": rng.choice(["", "slow", "trickle"])}
                    result = await fleet.call(name, arguments, timeout=deadline, max_timeout=deadline)
                    answers.append(result.text)
                await asyncio.sleep(0)

        async def kill() -> None:
            while True:
                await asyncio.sleep(run.rng.uniform(0, 0.3))
                if targets := sorted(children()):
                    os.kill(run.rng.choice(targets), signal.SIGKILL)

        await run_with(kill(), asyncio.gather(*(caller(number) for number in range(CALLERS))))


def sync_part(run: Run) -> None:
    """Threads that share one blocking client of a server that is killed and misbehaves."""
    client = jackstay.sync.connect(run.target("sync"), versions=(HANDSHAKE,), wait_for_ready=True, **FAST)
    started_at = time.monotonic()
    stopped = threading.Event()

    def caller(number: int) -> None:
        rng, count = random.Random(f"{run.seconds}{number}"), 0
        while not run.is_over(started_at):
            count += 1
            nonce = f"sync-{number}-{count}"
            deadline = rng.choice([0.2, 0.5, 1.0, 3.0])
            arguments: dict[str, Any] = {"nonce": nonce, "fault": fault_of(rng)}
            options: dict[str, Any] = {"timeout": deadline, "max_timeout": deadline}
            with run.ledger.watch(nonce, deadline) as answers:
                if rng.random() < 0.1:
                    handle = client.submit("tools/call", {"name": "record", "arguments": arguments}, **options)
                    time.sleep(rng.uniform(0, 0.02))
                    handle.cancel()
                    result: Any = handle.result()
                    answers.append(result["content"][0]["text"])
                else:
                    answers.append(client.tools.call("record", arguments, **options).text)

    def kill() -> None:
        while not stopped.wait(run.rng.uniform(0.1, 1)):
            for pid in sorted(children())[:1]:
                os.kill(pid, signal.SIGKILL)

    def measure_lag() -> None:
        due = time.monotonic() + LAG_INTERVAL
        while not stopped.wait(LAG_INTERVAL):
            run.ledger.longest_lag = max(run.ledger.longest_lag, time.monotonic() - due)
            due = time.monotonic() + LAG_INTERVAL

    with client:
        threads = [threading.Thread(target=caller, args=(number,)) for number in range(CALLERS)]
        others = [threading.Thread(target=work) for work in (kill, measure_lag)]
        for thread in [*threads, *others]:
            thread.start()
        for thread in threads:
            thread.join()
        stopped.set()
        for thread in others:
            thread.join()


async def machines_part(run: Run) -> None:
    """Sessions of two servers on Redis, each of which is killed."""
    await machines.run(run.ledger, run.rng, run.seconds, run.faults)


async def tasks_part(run: Run) -> None:
    """Tasks in Redis, whose workers are killed like Redis itself."""
    ledger = run.ledger.path.with_suffix(".tasks")
    print(f"tasks: {await tasks.run(ledger, run.rng, run.seconds, run.rate, run.faults)}", flush=True)
    run.ledger.breaches += tasks.check(ledger.read_text().splitlines())


def on_loop(part: Callable[[Run], Coroutine[Any, Any, None]]) -> Callable[[Run], None]:
    """Wrap an asynchronous part as a function that checks that no task is left."""

    def run_part(run: Run) -> None:
        def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            run.ledger.breaches.append(f"the event loop reports: {context.get('exception') or context['message']!r}")

        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(report)
            async with run.ledger.measure_lag():
                await part(run)
            for _ in range(10):  # let cancelled tasks end
                await asyncio.sleep(0)
            gc.collect()  # reports futures whose exception was never retrieved
            remaining = asyncio.all_tasks() - {asyncio.current_task()}
            run.ledger.breaches.extend(f"a task is still running: {task}" for task in remaining)

        asyncio.run(main())

    return run_part


# Each part, and its share of the time.
PARTS: dict[str, tuple[Callable[[Run], None], float]] = {
    "stdio": (on_loop(stdio_part), 0.15),
    "same-turn": (on_loop(same_turn_part), 0.1),
    "http": (on_loop(http_part), 0.15),
    "sync": (sync_part, 0.1),
    "fleet": (on_loop(fleet_part), 0.1),
    "machines": (on_loop(machines_part), 0.15),
    "tasks": (on_loop(tasks_part), 0.25),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="asyncio")
    parser.add_argument(
        "--seed",
        type=int,
        default=None,
        help="for the random choices; timing stays random",
    )
    parser.add_argument(
        "--rate", type=float, default=0.0, help="tasks per second; default: each caller creates one after the other"
    )
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument(
        "--fault",
        nargs="+",
        choices=sorted({*machines.FAULTS, *tasks.FAULTS}),
        default=[],
        help="of the parts machines and tasks, each for its whole time",
    )
    arguments = parser.parse_args()
    for name, table in (("machines", machines.FAULTS), ("tasks", tasks.FAULTS)):
        if arguments.fault and name in arguments.only and not table.keys() & set(arguments.fault):
            parser.error(f"the part {name} has none of these faults: name other parts with --only")
    if arguments.loop == "uvloop":
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(asyncio.sleep(0))  # libuv opens a pipe on first use and keeps it
    seed = random.randrange(1_000_000) if arguments.seed is None else arguments.seed
    print(f"loop {arguments.loop}, seed {seed}", flush=True)
    logging.getLogger("jackstay").setLevel(logging.CRITICAL)  # every fault would be logged
    total = sum(PARTS[name][1] for name in arguments.only)
    breaches = 0
    with tempfile.TemporaryDirectory() as directory:
        for name in arguments.only:
            part, share = PARTS[name]
            seconds = arguments.seconds * share / total
            rng = random.Random(f"{seed}{name}")
            run = Run(Ledger(Path(directory) / name), rng, seconds, arguments.rate, arguments.fault)
            found: list[str] = []
            try:
                with nothing_left():
                    part(run)
            except (AssertionError, McpError) as error:
                found.append(f"{name}: {error!r}")
            found += run.ledger.check()
            print(f"{name}: {run.ledger}; {dict(run.ledger.errors)}; breaches {len(found)}", flush=True)
            for breach in found[:50]:
                print(f"  {breach}", flush=True)
            breaches += len(found)
    print(f"{'FAILED' if breaches else 'passed'}: {breaches} breaches", flush=True)
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
