"""Running a server as a process: signals, shutdown and exit. Whole processes are in `tests/chaos/test_server.py`."""

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.redirected_stdio import redirected_stdio
from jackstay.errors import ToolCallError, UsageError
from jackstay.server import Server, _run
from jackstay.server._run import SIGNALS, Shutdown, flush, run

META = (
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
)


def never(code: int) -> None:
    """Replaces `os._exit`, so that a failed test does not end pytest."""
    raise AssertionError(f"exited with {code}")


def serve(server: Server, tmp_path: Path, *tools: str, **options: Any) -> tuple[int, bytes]:
    """Run the server over files, with one call of each tool."""
    lines = [
        f'{{"jsonrpc":"2.0","id":{n},"method":"tools/call","params":{{"name":"{tool}",{META}}}}}\n'
        for n, tool in enumerate(tools, 1)
    ]
    (tmp_path / "in").write_text("".join(lines))
    with (
        (tmp_path / "in").open("rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        redirected_stdio(stdin.fileno(), stdout.fileno()),
    ):
        code = run(server, **{"exit_process": never, **options})
    return code, (tmp_path / "out").read_bytes()


def join_all_but(before: set[threading.Thread]) -> None:
    for thread in set(threading.enumerate()) - before:
        thread.join(120)
        assert not thread.is_alive()


def test_run_serves_until_the_end_of_input_and_cleans_up(tmp_path: Path) -> None:
    server = Server("x")
    server.tool(name="echo", blocking=False)(lambda: "hello")
    handlers = [signal.getsignal(number) for number in SIGNALS]
    code, output = serve(server, tmp_path, "echo")
    assert code == 0
    assert b"hello" in output
    assert [signal.getsignal(number) for number in SIGNALS] == handlers
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


def test_the_garbage_collector_ignores_what_existed_before_while_the_server_runs(tmp_path: Path) -> None:
    server = Server("x")
    frozen: list[int] = []
    server.tool(name="count", blocking=False)(lambda: frozen.append(gc.get_freeze_count()))
    serve(server, tmp_path, "count")
    assert frozen[0] > 10_000
    assert gc.get_freeze_count() == 0


def test_startup_hooks_run_before_the_first_request(tmp_path: Path) -> None:
    server = Server("x")
    order: list[str] = []

    @server.tool(blocking=False)
    def tool() -> None:
        order.append("served")

    @server.on_startup
    async def first() -> None:
        await asyncio.sleep(0)
        order.append("first")

    @server.on_startup
    def second() -> None:
        order.append("second")

    server.on_shutdown(lambda: order.append("stopped"))
    assert serve(server, tmp_path, "tool")[0] == 0
    assert order == ["first", "second", "served", "stopped"]


def test_output_of_hooks_on_stdout_does_not_reach_the_client(tmp_path: Path) -> None:
    """docs/guarantees.md G15."""
    server = Server("x")
    server.tool(name="echo", blocking=False)(lambda: "hello")
    server.on_startup(lambda: os.write(1, b"starting\n"))

    @server.on_shutdown
    async def stop() -> None:  # async: a thread might write later, when stdout is restored
        os.write(1, b"stopping\n")

    _, output = serve(server, tmp_path, "echo")
    (line,) = output.splitlines()
    assert msgspec.json.decode(line)["id"] == 1


def test_an_exception_of_a_startup_hook_ends_the_server(tmp_path: Path) -> None:
    server = Server("x")

    @server.on_startup
    async def fail() -> None:
        raise UsageError("not available")

    with pytest.raises(UsageError, match="not available"):
        serve(server, tmp_path, "tool")
    assert (tmp_path / "out").read_bytes() == b""


def test_a_signal_during_startup(tmp_path: Path) -> None:
    server = Server("x")
    order: list[str] = []

    @server.on_startup
    async def hang() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(60)
        finally:
            order.append("cancelled")

    server.on_shutdown(lambda: order.append("stopped"))
    assert serve(server, tmp_path, "tool") == (0, b"")
    assert order == ["cancelled", "stopped"]


async def test_startup_can_be_cancelled() -> None:
    server = Server("x")
    server.on_startup(asyncio.Event().wait)

    starting = asyncio.ensure_future(server.startup())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    server._lifetime.cancel_startup()


def test_server_run_with_a_loop_factory(tmp_path: Path) -> None:
    made: list[asyncio.AbstractEventLoop] = []

    def factory() -> asyncio.AbstractEventLoop:
        made.append(asyncio.new_event_loop())
        return made[0]

    with (
        open(os.devnull, "rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        redirected_stdio(stdin.fileno(), stdout.fileno()),
    ):
        assert Server("x").run(loop_factory=factory, exit_process=never) == 0
    assert made[0].is_closed()


async def test_the_error_inside_an_event_loop_names_the_alternative() -> None:
    with pytest.raises(UsageError, match="serve_stdio"):
        run(Server("x"))


def test_the_process_is_ended_if_a_thread_hangs(tmp_path: Path) -> None:
    gate, codes = threading.Event(), []
    server = Server("x", drain_timeout=0.05)
    server.tool(name="hang")(lambda: gate.wait(10))
    before = set(threading.enumerate())
    code, _ = serve(server, tmp_path, "hang", exit_process=codes.append)
    assert (code, codes) == (0, [0])
    gate.set()
    join_all_but(before)


def test_the_process_is_ended_if_a_thread_of_the_executor_hangs(tmp_path: Path) -> None:
    gate, codes = threading.Event(), []
    server = Server("x", drain_timeout=0.05)

    @server.tool
    async def hang() -> None:
        await asyncio.to_thread(gate.wait, 10)

    before = set(threading.enumerate())
    serve(server, tmp_path, "hang", exit_process=codes.append)
    assert codes == [0]
    gate.set()
    join_all_but(before)


def test_remaining_tasks_are_cancelled(tmp_path: Path) -> None:
    ended: list[str] = []
    codes: list[int] = []
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

    serve(server, tmp_path, "start", exit_process=codes.append)
    assert (ended, codes) == (["cancelled"], [])


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)])
async def test_the_first_signal_drains_and_the_second_exits(number: signal.Signals, code: int) -> None:
    drained = asyncio.Event()
    codes: list[int] = []
    shutdown = Shutdown(drained.set, asyncio.get_running_loop(), codes.append, timeout=300.0)
    shutdown.install()
    try:
        os.kill(os.getpid(), number)
        await drained.wait()
        assert (shutdown.code, codes) == (code, [])
        os.kill(os.getpid(), number)
        assert codes == [128 + number]
    finally:
        shutdown.restore()


async def test_under_nohup_sighup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    shutdown = Shutdown(lambda: None, asyncio.get_running_loop())
    try:
        shutdown.install()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == shutdown.handle_signal
    finally:
        shutdown.restore()
        signal.signal(signal.SIGHUP, before)


def test_the_watchdog_exits_after_the_timeout() -> None:
    codes, exited = [], threading.Event()

    def exit_process(code: int) -> None:
        codes.append(code)
        exited.set()

    loop = asyncio.new_event_loop()
    shutdown = Shutdown(lambda: None, loop, exit_process, timeout=0.01)
    shutdown.code = 7
    shutdown.begin()
    shutdown.begin()
    assert exited.wait(120)
    assert codes == [7]
    shutdown.restore()
    loop.close()


@pytest.mark.parametrize("is_exiting", [True, False])
def test_after_run_the_watchdog_acts_only_during_interpreter_exit(
    is_exiting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes, exited = [], threading.Event()
    hooks: list[Any] = []

    def exit_process(code: int) -> None:
        codes.append(code)
        exited.set()

    monkeypatch.setattr(_run.os, "_exit", exit_process)
    monkeypatch.setattr(threading, "_register_atexit", hooks.append)
    monkeypatch.setattr(_run, "LEFTOVERS_TIMEOUT", 0.0 if not is_exiting else 60.0)
    loop = asyncio.new_event_loop()
    shutdown = Shutdown(lambda: None, loop, exit_process, timeout=0.01)
    shutdown.restore()
    assert hooks == [], "no shutdown has started"
    shutdown.begin(60.0)
    shutdown.restore()
    (hook,) = hooks
    if is_exiting:
        hook()
    shutdown.begin()
    if is_exiting:
        assert exited.wait(60)
        assert codes == [0]
    else:
        shutdown._watch()  # what the thread runs
        assert codes == []
    loop.close()


def test_at_exit_during_interpreter_exit_calls_the_function_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def register(_: object) -> None:
        raise RuntimeError("can't register atexit after shutdown")

    calls: list[bool] = []
    monkeypatch.setattr(threading, "_register_atexit", register)
    _run._at_exit(lambda: calls.append(True))
    assert calls == [True]


def test_startup_hooks_have_more_time_after_the_end_of_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float | None] = []
    order: list[str] = []
    monkeypatch.setattr(Shutdown, "begin", lambda _, timeout=None: limits.append(timeout))
    server = Server("x")
    server.tool(name="echo", blocking=False)(lambda: order.append("served"))
    reading, writing = os.pipe()

    @server.on_startup
    async def start() -> None:
        request = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo",{META}}}}}\n'
        os.write(writing, request.encode())
        os.close(writing)
        while not limits:
            await asyncio.sleep(0)
        order.append("started")

    with open(os.devnull, "wb") as stdout, redirected_stdio(reading, stdout.fileno()):
        assert run(server, exit_process=never) == 0
    os.close(reading)
    assert order == ["started", "served"]
    assert limits[0] == _run.STARTUP_TIMEOUT
    assert limits[1:] == [None] * len(limits[1:])
    assert limits[1:]


def test_flush_in_time_does_not_wait_for_a_flush_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_program_without_logging_sees_why_a_tool_failed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("", "jackstay"):  # pytest has configured logging
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
    server = Server("x")
    server.tool(name="fail")(lambda: 1 // 0)
    with pytest.raises(ToolCallError):
        asyncio.run(server.call_tool("fail"))
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert logging.getLogger("jackstay").handlers == []


def test_the_limit_of_the_shutdown_depends_on_the_drain_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts: list[float] = []

    class Recorded(Shutdown):
        def __init__(self, *arguments: Any) -> None:
            timeouts.append(arguments[-1])
            super().__init__(*arguments)

    monkeypatch.setattr(_run, "Shutdown", Recorded)
    for seconds in (1.0, 5.0):
        serve(Server("x", drain_timeout=seconds), tmp_path)
    assert timeouts == [_run.END_TIMEOUT, _run.END_TIMEOUT + 4.0]


def test_no_signal_handlers_are_installed_on_another_thread() -> None:
    loop = asyncio.new_event_loop()
    shutdown = Shutdown(lambda: None, loop)
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=shutdown.install)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before
    shutdown.restore()
    loop.close()


def test_flush_ignores_closed_streams(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_server_with_closed_stdin_exits_cleanly_on_uvloop() -> None:
    """libuv aborts the process when it closes a handle whose descriptor is below 3."""
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" "$@" <&-', sys.executable, "-c", STDIO_ON_UVLOOP],
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
