"""One command about one server: what it says of itself, how it is ended, and that nothing is left."""

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
from jackstay.cli._running import _settings, with_client
from jackstay.cli._target import Chosen
from jackstay.client import Client
from jackstay.transport import stdio
from scripted.places import PYTHONPATH, TESTS

PEER = TESTS / "peers" / "stdio_server.py"
SOURCE = PYTHONPATH


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """A named pipe: whoever reads it waits for what the server received."""
    path = tmp_path / "ledger"
    os.mkfifo(path)
    return str(path)


def received(ledger: str) -> Iterator[dict[str, Any]]:
    with open(ledger) as lines:
        for line in lines:
            yield json.loads(line)


def until(messages: Iterator[dict[str, Any]], method: str) -> dict[str, Any]:
    return next(message for message in messages if message.get("method") == method)


def hanging(ledger: str) -> list[str]:
    return ["call", "hang", "--", sys.executable, str(PEER), f"--ledger={ledger}"]


# --- what it says of itself -------------------------------------------------------------------------------------------


def test_verbose_says_what_is_started_and_who_answered(jackstay: Callable) -> None:
    shown = jackstay("ping", "-v")
    first, second = shown.err.splitlines()
    assert first == f"starting: {sys.executable} {PEER}"
    assert re.fullmatch(r"connected: peer 1\.0, protocol 2025-11-25 after \d+\.\d\d s", second)


def test_without_verbose_nothing_is_said(jackstay: Callable) -> None:
    assert jackstay("ping").err == ""


def test_verbose_never_shows_a_value_of_a_variable(jackstay: Callable, tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": [str(PEER), "${SECRET_WORD}"], "env": {"TOKEN": "s3cret"}}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"peer": entry}}))
    os.environ["SECRET_WORD"] = "s3cret"
    try:
        shown = jackstay("ping", "-v", "--config", str(path), "peer", "--log-level", "debug", peer=False)
    finally:
        del os.environ["SECRET_WORD"]
    assert shown.code == 0
    assert "'${SECRET_WORD}' (with TOKEN set)" in shown.err
    assert "s3cret" not in shown.err


def test_logs_are_on_standard_error_in_the_format_asked_for(jackstay: Callable) -> None:
    shown = jackstay("ping", "--log-level", "info", "--log-format", "json")
    lines = [json.loads(line) for line in shown.err.splitlines()]
    assert any(line["logger"] == "jackstay.client" and "ready" in line["message"] for line in lines)
    assert (
        jackstay("ping", "--log-level", "info").err.splitlines()[0][9:].startswith("info jackstay.client: ")
    )


# --- time -------------------------------------------------------------------------------------------------------------

TIMEOUTS = [
    (None, "x", {}),
    (2.0, "x", {"open_timeout": 2.0, "request_timeout": 2.0, "init_timeout": 10.0}),
    (20.0, "x", {"open_timeout": 20.0, "request_timeout": 20.0, "init_timeout": 20.0}),
    (20.0, "uvx", {"open_timeout": 20.0, "request_timeout": 20.0, "init_timeout": 30.0}),
]


@pytest.mark.parametrize(("timeout", "command", "settings"), TIMEOUTS)
def test_a_timeout_is_for_opening_and_for_answers_and_never_shortens_a_start(
    timeout: float | None, command: str, settings: dict[str, float]
) -> None:
    chosen = Chosen(stdio(command), command)
    assert _settings(Namespace(timeout=timeout), chosen) == {"max_attempts": 1, **settings}


def test_a_server_that_cannot_be_started_is_exit_code_3_at_once(jackstay: Callable) -> None:
    shown = jackstay("ping", "--", "/no/such/server", peer=False)
    assert (shown.code, shown.out) == (3, "")
    assert "cannot start '/no/such/server'" in shown.err
    shown = jackstay("ping", more=("--broken",))
    assert (shown.code, shown.out) == (3, "")
    assert "[exit code 1] [stderr: cannot find its settings]" in shown.err


def test_a_server_that_says_nothing_is_exit_code_3_after_the_timeout(jackstay: Callable) -> None:
    shown = jackstay("ping", "--timeout", "0.3", more=("--silent",))
    assert (shown.code, shown.out) == (3, "")
    assert "not ready within 0.3 s; --timeout SECONDS gives it longer, --log-level info shows" in shown.err


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_in_order_and_the_call_is_cancelled_on_the_wire(number: int, ledger: str) -> None:
    seen: list[dict[str, Any]] = []

    def follow() -> None:
        messages = received(ledger)
        seen.append(until(messages, "tools/call"))
        os.kill(os.getpid(), number)
        seen.extend(messages)  # until the server is gone

    follower = threading.Thread(target=follow)
    follower.start()
    before = signal.getsignal(number)
    assert main(hanging(ledger)) == 143
    follower.join(10)
    call, cancelled = seen
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] == call["id"]
    assert signal.getsignal(number) == before


def test_an_interruption_is_passed_on_and_the_client_is_prepared_before_it_is_opened(
    ledger: str,
) -> None:
    states: list[str] = []

    def follow() -> None:
        messages = received(ledger)
        until(messages, "tools/call")
        os.kill(os.getpid(), signal.SIGINT)
        list(messages)

    async def work(client: Client) -> int:
        await client.tools.call("hang")
        return 0

    follower = threading.Thread(target=follow)
    follower.start()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    arguments = Namespace(timeout=None, verbose=False, log_level="warning", log_format="text")
    chosen = Chosen(stdio(sys.executable, PEER, f"--ledger={ledger}"), "peer")
    try:
        with pytest.raises(KeyboardInterrupt):
            with_client(arguments, chosen, work, prepare=lambda client: states.append(client.state))
    finally:
        signal.signal(signal.SIGINT, before)
        follower.join(10)
    assert states == ["new"]


def start(words: list[str], prelude: str = "") -> subprocess.Popen[str]:
    code = (
        "import signal, sys\n"
        # A parent that ignores SIGINT (a background job of a shell) hands that down.
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


def test_ctrl_c_cancels_the_call_on_the_wire_and_is_exit_code_130(ledger: str) -> None:
    with start(hanging(ledger)) as process:
        messages = received(ledger)
        call = until(messages, "tools/call")
        process.send_signal(signal.SIGINT)
        (cancelled,) = messages
        shown = process.communicate(timeout=30)
    assert (process.returncode, *shown) == (130, "", "")
    assert cancelled["params"]["requestId"] == call["id"]


def test_a_signal_that_is_ignored_stays_ignored(ledger: str) -> None:
    with start(hanging(ledger), "signal.signal(signal.SIGHUP, signal.SIG_IGN)") as process:
        messages = received(ledger)
        until(messages, "tools/call")
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        list(messages)
        process.communicate(timeout=30)
    assert process.returncode == 143


def test_a_second_signal_ends_at_once_and_the_server_with_it(tmp_path: Path, ledger: str) -> None:
    # This one does not end when its input does: closing it takes a while.
    stubborn = tmp_path / "stubborn.py"
    stubborn.write_text(
        "import runpy, signal, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        # Open from first to last, as on the other side: the ledger does not end, and nobody writes to a closed one.
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
        process.communicate(timeout=30)
    assert "hang" in call
    wait_until_gone(server)
    assert process.returncode == -signal.SIGTERM


def test_outside_the_main_thread_signals_are_left_alone(jackstay: Callable) -> None:
    codes: list[int] = []
    worker = threading.Thread(target=lambda: codes.append(main(["ping", "--", sys.executable, str(PEER)])))
    worker.start()
    worker.join(30)
    assert codes == [0]


def test_nothing_is_left_when_a_command_has_ended(jackstay: Callable) -> None:
    before, threads = set(os.listdir("/proc/self/fd")), set(threading.enumerate())
    for _ in range(3):
        assert jackstay("ping").code == 0
    assert set(os.listdir("/proc/self/fd")) == before
    ours = set(threading.enumerate()) - threads
    assert not [thread for thread in ours if thread.name.startswith("jackstay")]
