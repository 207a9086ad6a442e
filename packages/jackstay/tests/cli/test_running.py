"""Commands with a server: verbose output, timeouts, signals, and no leftovers."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.leftovers import wait_until_gone
from jackstay.cli import main
from jackstay.cli._running import _settings, run_until_signal, with_client
from jackstay.cli._target import SelectedServer
from jackstay.client import Client
from jackstay.transport import stdio
from scripted.places import PYTHONPATH, TESTS

PEER = TESTS / "peers" / "stdio_server.py"
SOURCE = PYTHONPATH


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """A named pipe: reading it waits for what the server received."""
    path = tmp_path / "ledger"
    os.mkfifo(path)
    return str(path)


def received(ledger: str) -> Iterator[dict[str, Any]]:
    with open(ledger) as lines:
        for line in lines:
            yield json.loads(line)


def wait_for(messages: Iterator[dict[str, Any]], method: str) -> dict[str, Any]:
    return next(message for message in messages if message.get("method") == method)


def hanging(ledger: str) -> list[str]:
    return ["call", "hang", "--", sys.executable, str(PEER), f"--ledger={ledger}"]


# --- verbose output and logs ------------------------------------------------------------------------------------------


def test_verbose_prints_the_server_and_its_name(jackstay: Callable) -> None:
    done = jackstay("ping", "-v")
    first, second = done.err.splitlines()
    assert first == f"starting: {sys.executable} {PEER}"
    assert re.fullmatch(r"connected: peer 1\.0, protocol 2025-11-25 after \d+\.\d\d s", second)


def test_without_verbose_standard_error_is_empty(jackstay: Callable) -> None:
    assert jackstay("ping").err == ""


def test_verbose_never_prints_the_value_of_a_variable(jackstay: Callable, tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": [str(PEER), "${SECRET_WORD}"], "env": {"TOKEN": "s3cret"}}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"peer": entry}}))
    os.environ["SECRET_WORD"] = "s3cret"
    try:
        done = jackstay("ping", "-v", "--config", str(path), "peer", "--log-level", "debug", peer=False)
    finally:
        del os.environ["SECRET_WORD"]
    assert done.code == 0
    assert "'${SECRET_WORD}' (with TOKEN set)" in done.err
    assert "s3cret" not in done.err


def test_log_format(jackstay: Callable) -> None:
    done = jackstay("ping", "--log-level", "info", "--log-format", "json")
    lines = [json.loads(line) for line in done.err.splitlines()]
    assert any(line["logger"] == "jackstay.client" and "ready" in line["message"] for line in lines)
    assert jackstay("ping", "--log-level", "info").err.splitlines()[0][9:].startswith("info jackstay.client: ")


# --- timeouts ---------------------------------------------------------------------------------------------------------

TIMEOUTS: list[tuple[float | None, str, dict[str, float]]] = [
    (None, "x", {"init_timeout": 20.0}),
    (2.0, "x", {"open_timeout": 2.0, "request_timeout": 2.0, "init_timeout": 20.0}),
    (25.0, "x", {"open_timeout": 25.0, "request_timeout": 25.0, "init_timeout": 25.0}),
    (20.0, "uvx", {"open_timeout": 20.0, "request_timeout": 20.0, "init_timeout": 30.0}),
]


def test_timeout_applies_to_connecting_and_responses_but_never_shortens_the_start() -> None:
    for timeout, command, settings in TIMEOUTS:
        selected = SelectedServer(stdio(command), command)
        assert _settings(Namespace(timeout=timeout, protocol=None, keepalive=None), selected) == {
            "max_attempts": 1,
            "probe_timeout": 10.0,
            **settings,
        }, timeout


def test_a_server_that_cannot_be_started_is_exit_code_3(jackstay: Callable) -> None:
    done = jackstay("ping", "--", "/no/such/server", peer=False)
    assert (done.code, done.out) == (3, "")
    assert "cannot start '/no/such/server'" in done.err
    done = jackstay("ping", more=("--broken",))
    assert (done.code, done.out) == (3, "")
    assert "[exit code 1] [stderr: cannot find its settings]" in done.err


def test_a_silent_server_is_exit_code_3_after_the_timeout(jackstay: Callable) -> None:
    done = jackstay("ping", "--timeout", "0.3", more=("--silent",))
    assert (done.code, done.out) == (3, "")
    assert "not ready within 0.3 s: nothing was received from the server; is this an MCP server?" in done.err
    assert "--timeout" in done.err


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_the_call(number: int, ledger: str) -> None:
    seen: list[dict[str, Any]] = []

    def follow() -> None:
        messages = received(ledger)
        seen.append(wait_for(messages, "tools/call"))
        os.kill(os.getpid(), number)
        seen.extend(messages)  # until the server is gone

    follower = threading.Thread(target=follow)
    follower.start()
    before = signal.getsignal(number)
    assert main(hanging(ledger)) == 143
    follower.join(120)
    call, cancelled = seen
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] == call["id"]
    assert signal.getsignal(number) == before


def test_sigint_is_exit_code_130_and_prepare_runs_before_open(ledger: str) -> None:
    states: list[str] = []

    def follow() -> None:
        messages = received(ledger)
        wait_for(messages, "tools/call")
        os.kill(os.getpid(), signal.SIGINT)
        list(messages)

    async def work(client: Client) -> int:
        await client.tools.call("hang")
        return 0

    follower = threading.Thread(target=follow)
    follower.start()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    arguments = Namespace(
        timeout=None, verbose=False, log_level="warning", log_format="text", protocol=None, keepalive=None, roots=[],
        json=False,
    )  # fmt: skip
    selected = SelectedServer(stdio(sys.executable, PEER, f"--ledger={ledger}"), "peer")
    try:
        code = with_client(arguments, selected, work, prepare=lambda client: states.append(client.state))
    finally:
        signal.signal(signal.SIGINT, before)
        follower.join(120)
    assert (code, states) == (130, ["new"])


def start(words: list[str], prelude: str = "") -> subprocess.Popen[str]:
    code = (
        "import signal, sys\n"
        # A parent that ignores SIGINT (a background job of a shell) passes that on.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"{prelude}\n"
        "from jackstay.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )


def test_sigint_cancels_the_call_and_is_exit_code_130(ledger: str) -> None:
    with start(hanging(ledger)) as process:
        messages = received(ledger)
        call = wait_for(messages, "tools/call")
        process.send_signal(signal.SIGINT)
        (cancelled,) = messages
        done = process.communicate(timeout=240)
    assert (process.returncode, *done) == (130, "", "")
    assert cancelled["params"]["requestId"] == call["id"]


def test_an_ignored_signal_stays_ignored(ledger: str) -> None:
    with start(hanging(ledger), "signal.signal(signal.SIGHUP, signal.SIG_IGN)") as process:
        messages = received(ledger)
        wait_for(messages, "tools/call")
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        list(messages)
        process.communicate(timeout=240)
    assert process.returncode == 143


def test_a_second_signal_kills_the_server(tmp_path: Path, ledger: str) -> None:
    # It does not end with its input: closing it takes a while.
    stubborn = tmp_path / "stubborn.py"
    stubborn.write_text(
        "import runpy, signal, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        # Open all the time: the ledger does not end, and is never written after it was closed.
        f"ledger = open({ledger!r}, 'w')\n"
        f"runpy.run_path({str(PEER)!r})\n"
        "print('end', file=ledger, flush=True)\n"
        "signal.pause()\n"
    )
    words = ["call", "hang", "--", sys.executable, str(stubborn), f"--ledger={ledger}"]
    with start(words) as process, open(ledger) as lines:
        call = next(line for line in lines if "tools/call" in line)
        server = int(subprocess.check_output(["ps", "-o", "pid=", "--ppid", str(process.pid)], text=True))
        process.send_signal(signal.SIGTERM)
        assert next(line for line in lines if "cancelled" in line)
        assert next(line for line in lines if line == "end\n")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=240)
    assert "hang" in call
    wait_until_gone(server)
    assert process.returncode == -signal.SIGTERM


def test_a_command_in_another_thread(jackstay: Callable) -> None:
    codes: list[int] = []
    worker = threading.Thread(target=lambda: codes.append(main(["ping", "--", sys.executable, str(PEER)])))
    worker.start()
    worker.join(120)
    assert codes == [0]


def test_a_command_leaves_no_threads_and_file_descriptors(jackstay: Callable) -> None:
    before, threads = set(os.listdir("/proc/self/fd")), set(threading.enumerate())
    for _ in range(3):
        assert jackstay("ping").code == 0
    assert set(os.listdir("/proc/self/fd")) == before
    new = set(threading.enumerate()) - threads
    assert not [thread for thread in new if thread.name.startswith("jackstay")]


# --- commands that act as servers -------------------------------------------------------------------------------------


def test_the_result_is_the_exit_code() -> None:
    async def work() -> int:
        return 7

    assert run_until_signal(work()) == 7


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)])
def test_a_signal_cancels_the_work(number: int, code: int) -> None:
    ended = []

    async def work() -> int:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("finished")
        return 7

    assert run_until_signal(work()) == code
    assert ended == ["finished"]


def test_another_cancellation_is_raised() -> None:
    async def work() -> int:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_until_signal(work())
