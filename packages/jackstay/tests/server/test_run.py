"""The process that is a server: its signals, its limit, its end. Whole processes are in `tests/chaos/test_server.py`."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.standing_in import standing_in
from jackstay.errors import UsageError
from jackstay.server import Server, _run
from jackstay.server._run import SIGNALS, Ending, flush, run

META = (
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    '"io.modelcontextprotocol/clientCapabilities":{}}'
)


def never(code: int) -> None:
    """How this process ends: it does not, not even in a test that has gone wrong."""
    raise AssertionError(f"left with {code}")


def served(server: Server, tmp_path: Path, *tools: str, **options: Any) -> tuple[int, bytes]:
    """Run it over files with one call of each tool."""
    lines = [
        f'{{"jsonrpc":"2.0","id":{n},"method":"tools/call","params":{{"name":"{tool}",{META}}}}}\n'
        for n, tool in enumerate(tools, 1)
    ]
    (tmp_path / "in").write_text("".join(lines))
    with (
        (tmp_path / "in").open("rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        standing_in(stdin.fileno(), stdout.fileno()),
    ):
        code = run(server, **{"leave": never, **options})
    return code, (tmp_path / "out").read_bytes()


def join_all_but(before: set[threading.Thread]) -> None:
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


def test_it_serves_until_the_end_of_input_and_leaves_nothing_behind(tmp_path: Path) -> None:
    server = Server("x")
    server.tool(name="echo", blocking=False)(lambda: "hello")
    handlers = [signal.getsignal(number) for number in SIGNALS]
    code, said = served(server, tmp_path, "echo")
    assert code == 0
    assert b"hello" in said
    assert [signal.getsignal(number) for number in SIGNALS] == handlers
    assert server.on_stdio_ending is None
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


def test_startup_hooks_are_called_before_anybody_is_served(tmp_path: Path) -> None:
    server = Server("x")
    order: list[str] = []

    @server.tool(blocking=False)
    def say() -> None:
        order.append("served")

    @server.on_startup
    async def first() -> None:
        await asyncio.sleep(0)
        order.append("first")

    @server.on_startup
    def second() -> None:
        order.append("second")

    server.on_shutdown(lambda: order.append("over"))
    assert served(server, tmp_path, "say")[0] == 0
    assert order == ["first", "second", "served", "over"]


def test_what_hooks_write_to_stdout_never_reaches_the_client(tmp_path: Path) -> None:
    """G15: from before the first hook until after the last, the stream is the client's alone."""
    server = Server("x")
    server.tool(name="echo", blocking=False)(lambda: "hello")
    server.on_startup(lambda: os.write(1, b"starting\n"))

    @server.on_shutdown
    async def over() -> None:  # on the loop: a thread that comes late would write to what is stdout then
        os.write(1, b"over\n")

    _, said = served(server, tmp_path, "echo")
    (line,) = said.splitlines()
    assert msgspec.json.decode(line)["id"] == 1


def test_what_a_startup_hook_raises_ends_it_and_nobody_is_served(tmp_path: Path) -> None:
    server = Server("x")

    @server.on_startup
    async def fail() -> None:
        raise UsageError("not today")

    with pytest.raises(UsageError, match="not today"):
        served(server, tmp_path, "say")
    assert (tmp_path / "out").read_bytes() == b""


def test_a_signal_during_startup_ends_it_in_order(tmp_path: Path) -> None:
    server = Server("x")
    order: list[str] = []

    @server.on_startup
    async def hang() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(60)
        finally:
            order.append("let go")

    server.on_shutdown(lambda: order.append("over"))
    assert served(server, tmp_path, "say") == (0, b"")
    assert order == ["let go", "over"]


def test_who_is_cancelled_while_it_starts_is_cancelled() -> None:
    server = Server("x")
    server.on_startup(asyncio.Event().wait)

    async def test() -> None:
        starting = asyncio.ensure_future(server.startup())
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        server.stop_starting()

    asyncio.run(test())


def test_the_face_runs_it_and_a_loop_may_be_brought_along(tmp_path: Path) -> None:
    made: list[asyncio.AbstractEventLoop] = []

    def factory() -> asyncio.AbstractEventLoop:
        made.append(asyncio.new_event_loop())
        return made[0]

    with (
        open(os.devnull, "rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        standing_in(stdin.fileno(), stdout.fileno()),
    ):
        assert Server("x").run(loop_factory=factory, leave=never) == 0
    assert made[0].is_closed()


def test_inside_a_loop_it_says_what_to_use_instead() -> None:
    async def test() -> None:
        with pytest.raises(UsageError, match="serve_stdio"):
            run(Server("x"))

    asyncio.run(test())


def test_a_thread_that_hangs_is_left_by_ending_the_process(tmp_path: Path) -> None:
    gate, left = threading.Event(), []
    server = Server("x", drain_timeout=0.05)
    server.tool(name="hang")(lambda: gate.wait(10))
    before = set(threading.enumerate())
    code, _ = served(server, tmp_path, "hang", leave=left.append)
    assert (code, left) == (0, [0])
    gate.set()
    join_all_but(before)


def test_a_thread_of_the_loops_executor_is_left_too(tmp_path: Path) -> None:
    gate, left = threading.Event(), []
    server = Server("x", drain_timeout=0.05)

    @server.tool
    async def hang() -> None:
        await asyncio.to_thread(gate.wait, 10)

    before = set(threading.enumerate())
    served(server, tmp_path, "hang", leave=left.append)
    assert left == [0]
    gate.set()
    join_all_but(before)


def test_a_task_that_was_left_on_the_loop_is_cancelled(tmp_path: Path) -> None:
    ended: list[str] = []
    left: list[int] = []
    tasks: list[asyncio.Task[None]] = []
    server = Server("x")

    async def stay() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    @server.tool
    async def start() -> str:
        tasks.append(asyncio.create_task(stay()))
        await asyncio.sleep(0)
        return "started"

    served(server, tmp_path, "start", leave=left.append)
    assert (ended, left) == (["cancelled"], [])


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)])
def test_a_signal_drains_and_a_second_one_leaves_at_once(number: signal.Signals, code: int) -> None:
    async def test() -> None:
        drained = asyncio.Event()
        left: list[int] = []
        ending = Ending(drained.set, asyncio.get_running_loop(), left.append, timeout=300.0)
        ending.install()
        try:
            os.kill(os.getpid(), number)
            await drained.wait()
            assert (ending.code, left) == (code, [])
            os.kill(os.getpid(), number)
            assert left == [128 + number]
        finally:
            ending.restore()

    asyncio.run(test())


def test_the_end_of_the_terminal_is_not_the_end_of_a_server_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:

        async def test() -> None:
            ending = Ending(lambda: None, asyncio.get_running_loop())
            ending.install()
            try:
                assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
                assert signal.getsignal(signal.SIGTERM) == ending.ask
            finally:
                ending.restore()

        asyncio.run(test())
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_watchdog_ends_what_does_not_end() -> None:
    left, gone = [], threading.Event()

    def leave(code: int) -> None:
        left.append(code)
        gone.set()

    loop = asyncio.new_event_loop()
    ending = Ending(lambda: None, loop, leave, timeout=0.01)
    ending.code = 7
    ending.begin()
    ending.begin()
    assert gone.wait(5)
    assert left == [7]
    ending.restore()
    loop.close()


@pytest.mark.parametrize("is_exiting", [True, False])
def test_after_the_server_the_watchdog_ends_an_interpreter_that_exits_and_nothing_else(
    is_exiting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is the process's own. Whole processes are in tests/chaos/test_server.py."""
    left, gone = [], threading.Event()
    hooks: list[Any] = []

    def leave(code: int) -> None:
        left.append(code)
        gone.set()

    monkeypatch.setattr(_run.os, "_exit", leave)
    monkeypatch.setattr(threading, "_register_atexit", hooks.append)
    monkeypatch.setattr(_run, "LEFTOVERS_TIMEOUT", 0.0 if not is_exiting else 60.0)
    loop = asyncio.new_event_loop()
    ending = Ending(lambda: None, loop, leave, timeout=0.01)
    ending.restore()
    assert hooks == [], "no end has begun"
    ending.begin(60.0)
    ending.restore()
    (hook,) = hooks
    if is_exiting:
        hook()
    ending.begin()
    if is_exiting:
        assert gone.wait(60)
        assert left == [0]
    else:
        while ending._deadline > time.monotonic():
            time.sleep(0.001)
        ending._watch()  # as the thread does it
        assert left == []
    loop.close()


def test_one_that_is_restored_while_the_interpreter_exits_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def register(_: object) -> None:
        raise RuntimeError("can't register atexit after shutdown")

    told: list[bool] = []
    monkeypatch.setattr(threading, "_register_atexit", register)
    _run._at_exit(lambda: told.append(True))
    assert told == [True]


def test_startup_hooks_have_longer_after_the_end_of_input_and_then_the_rest_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float | None] = []
    order: list[str] = []
    monkeypatch.setattr(Ending, "begin", lambda _, timeout=None: limits.append(timeout))
    server = Server("x")
    server.tool(name="echo", blocking=False)(lambda: order.append("served"))
    reading, writing = os.pipe()

    @server.on_startup
    async def start() -> None:
        request = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo",{META}}}}}\n'
        os.write(writing, request.encode())
        os.close(writing)
        while not limits:
            await asyncio.sleep(0.001)
        order.append("started")

    with open(os.devnull, "wb") as stdout, standing_in(reading, stdout.fileno()):
        assert run(server, leave=never) == 0
    os.close(reading)
    assert order == ["started", "served"]
    assert limits[0] == _run.STARTUP_TIMEOUT
    assert limits[1:] == [None] * len(limits[1:])
    assert limits[1:]


def test_what_hangs_is_not_waited_for_when_it_is_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, begun, ended = threading.Event(), threading.Event(), threading.Event()

    def flush() -> None:
        begun.set()
        gate.wait(60)
        ended.set()

    monkeypatch.setattr(_run, "flush", flush)
    _run.flush_in_time()
    assert not ended.is_set()
    gate.set()
    assert ended.wait(60)


def nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program that has not set logging up; pytest has, and anew for every call of a test."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging.getLogger("jackstay"), "handlers", [])


def test_a_library_is_silent_and_who_runs_a_server_hears_warnings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Section 8: under `jackstay.*`, with a NullHandler, never on stdout."""
    nobody_listens(monkeypatch)
    Server("x")
    Server("y")
    ours = logging.getLogger("jackstay")
    assert [type(one) for one in ours.handlers] == [logging.NullHandler]
    logging.getLogger("jackstay.server").warning("to nobody")
    loop = asyncio.new_event_loop()
    ending = Ending(lambda: None, loop)
    ending.install()
    logging.getLogger("jackstay.server").warning("to stderr")
    ending.restore()
    logging.getLogger("jackstay.server").warning("to nobody")
    loop.close()
    assert capsys.readouterr() == ("", "to stderr\n")
    assert [type(one) for one in ours.handlers] == [logging.NullHandler]


def test_where_somebody_has_set_logging_up_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody_listens(monkeypatch)
    ours, theirs = logging.getLogger("jackstay"), logging.StreamHandler()
    ours.addHandler(theirs)
    Server("x")
    loop = asyncio.new_event_loop()
    ending = Ending(lambda: None, loop)
    ending.install()
    assert ours.handlers == [theirs]
    ending.restore()
    loop.close()


def test_more_time_for_handlers_is_more_time_for_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    class Seen(Ending):
        def __init__(self, *words: Any) -> None:
            given.append(words[-1])
            super().__init__(*words)

    monkeypatch.setattr(_run, "Ending", Seen)
    for seconds in (1.0, 5.0):
        served(Server("x", drain_timeout=seconds), tmp_path)
    assert given == [_run.END_TIMEOUT, _run.END_TIMEOUT + 4.0]


def test_no_signal_is_taken_on_another_thread() -> None:
    loop = asyncio.new_event_loop()
    ending = Ending(lambda: None, loop)
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=ending.install)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before
    ending.restore()
    loop.close()


def test_flushing_survives_streams_that_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run.logging, "shutdown", lambda: None)
    closed = open(os.devnull, "w")  # noqa: SIM115  # closed here
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    monkeypatch.setattr(sys, "stderr", None)
    flush()


STDIO_ON_UVLOOP = """
import sys, uvloop
from jackstay.server import Server
sys.exit(Server("x").run(loop_factory=uvloop.new_event_loop))
"""


def test_a_server_whose_stdin_is_closed_ends_in_order_on_uvloop() -> None:
    """libuv aborts the process when it closes a descriptor of its own whose number is below 3."""
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" "$@" <&-', sys.executable, "-c", STDIO_ON_UVLOOP],
        capture_output=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
