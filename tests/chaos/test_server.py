"""A stdio server process exits when its client disconnects, even if something hangs, and prints only messages."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scripted.places import PYTHONPATH

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SERVING = HERE / "servers_own" / "serving.py"

# Seconds from the end of input, or a signal, to the end of the process (docs/guarantees.md G12).
LIMIT = 1.5

# Other programs may delay a process for a while, but not in every attempt.
ATTEMPTS = 3

# On a machine that is busy all the time no process can keep a limit in real time. The tools here hang for a minute or
# forever, so this limit still shows whether the process ends.
BUSY_LIMIT = 15.0

LOOPS = ["asyncio", "uvloop"]

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(id: Any, name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


class Process:
    """A server process."""

    def __init__(self, *options: str) -> None:
        environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
        self.popen = subprocess.Popen(
            [sys.executable, str(SERVING), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.stdin, self.stdout = self.popen.stdin, self.popen.stdout

    def send(self, *messages: dict[str, Any] | bytes) -> None:
        for message in messages:
            self.stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        self.stdin.flush()

    def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.stdout.readline())
        return message

    def call_and_wait(self, tool: str | None) -> None:
        """Call a tool that does not return, and wait until it runs."""
        if tool is not None:
            self.send(call(1, tool), call(2, "echo", text="x"))
            while self.receive()["id"] != 2:
                pass

    def block_the_loop(self) -> None:
        """Call the tool that blocks the event loop, and wait until it does."""
        self.send(call(1, "block_the_loop"))
        assert self.popen.stderr is not None
        assert self.popen.stderr.readline() == b"blocking\n"

    def fill(self) -> int:
        """Send requests without reading responses until the server stops reading. Returns the number of requests."""
        fd = self.stdin.fileno()
        os.set_blocking(fd, False)
        sent, rest = 0, b""
        while True:
            _, writable, _ = select.select([], [fd], [], 1.0)
            if not writable and rest:
                break  # the server has not read for a second
            if not rest:
                request = call(sent, "large", size=100_000)
                request["params"]["_meta"] = {"padding": "x" * 8000}
                rest = json.dumps(request).encode() + b"\n"
                sent += 1
            try:
                rest = rest[os.write(fd, rest) :]
            except BlockingIOError:
                pass
        os.set_blocking(fd, True)
        return sent - 1 if rest else sent  # the last one is incomplete

    def close_input(self) -> None:
        self.stdin.close()
        self.popen.stdin = None

    def ended(self) -> tuple[int, float, bytes, str]:
        """Close stdin and wait. Returns the exit code, the seconds it took, the rest of stdout, and stderr."""
        started_at = time.monotonic()
        rest, errors = self.popen.communicate(timeout=240)
        return self.popen.returncode, time.monotonic() - started_at, rest, errors.decode()

    def gone_after(self, number: signal.Signals) -> tuple[int, float]:
        """Send a signal and wait. Returns the exit code and the seconds it took."""
        started_at = time.monotonic()
        self.popen.send_signal(number)
        code = self.popen.wait(120)
        return code, time.monotonic() - started_at


@contextmanager
def serving(*options: str) -> Iterator[Process]:
    process = Process(*options)
    try:
        process.send(INITIALIZE, INITIALIZED)
        assert process.receive()["id"] == 0
        yield process
    finally:
        if process.popen.poll() is None:
            process.popen.kill()
        process.popen.communicate()


# --- the end (G12) ----------------------------------------------------------------------------------------------------

HANGING = [
    "hang",
    "hang_in_executor",
    "hang_in_new_thread",
    "hang_in_thread_pool",
    "refuse_to_be_cancelled",
    None,
]


def is_machine_busy() -> bool:
    """Return whether more threads are runnable now than there are processors."""
    running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    return running > (os.cpu_count() or 1)


def assert_in_time(attempt: Callable[[], float]) -> None:
    """Every attempt must succeed, and one of them within the limit."""
    took, was_busy = [], True
    while not took or (took[-1] > LIMIT and len(took) < ATTEMPTS):
        is_busy = is_machine_busy()
        took.append(attempt())
        was_busy = was_busy and (is_busy or is_machine_busy())
    assert took[-1] <= (BUSY_LIMIT if was_busy else LIMIT), f"ended after {took} s"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("tool", HANGING)
def test_the_process_ends_in_time_after_the_end_of_its_input(tool: str | None, loop: str) -> None:
    """docs/guarantees.md G12."""

    def attempt() -> float:
        with serving(loop) as process:
            process.call_and_wait(tool)
            code, took, _, errors = process.ended()  # closes stdin
            assert code == 0
            assert "goodbye" in errors
            return took

    assert_in_time(attempt)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_end_of_input_is_noticed_while_the_loop_is_blocked(loop: str) -> None:
    """docs/guarantees.md G12: an async tool blocks the event loop."""

    def attempt() -> float:
        with serving(loop) as process:
            process.block_the_loop()
            code, took, _, _ = process.ended()
            assert code == 0
            return took

    assert_in_time(attempt)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("number", [None, signal.SIGTERM])
def test_a_hung_atexit_hook_does_not_delay_the_end(loop: str, number: signal.Signals | None) -> None:
    """docs/guarantees.md G12: the limit includes interpreter exit."""

    def attempt() -> float:
        with serving(loop, "atexit-hangs") as process:
            process.call_and_wait(None)
            if number is None:
                code, took, _, errors = process.ended()
                assert "goodbye" in errors
            else:
                code, took = process.gone_after(number)
            assert code == 0
            return took

    assert_in_time(attempt)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_end_of_input_is_noticed_while_its_output_is_full(loop: str) -> None:
    """docs/guarantees.md G12: the server does not read from a client that does not read, but must notice its end."""

    def attempt() -> float:
        with serving(loop) as process:
            process.fill()
            started_at = time.monotonic()
            process.close_input()
            assert process.popen.wait(120) == 0
            return time.monotonic() - started_at

    assert_in_time(attempt)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_signal_ends_it_while_its_output_is_full(loop: str) -> None:
    def attempt() -> float:
        with serving(loop) as process:
            process.fill()
            code, took = process.gone_after(signal.SIGTERM)
            assert code == 0
            return took

    assert_in_time(attempt)


@pytest.mark.parametrize("loop", LOOPS)
def test_without_hangs_the_interpreter_exits_normally(loop: str) -> None:
    with serving(loop) as process:
        process.send(call(1, "use_thread_pool"))
        assert process.receive()["result"]["content"][0]["text"] == "42"
        code, _, _, errors = process.ended()
        assert code == 0
        assert errors.split() == ["goodbye", "exited"]


def test_a_program_may_continue_after_run() -> None:
    with serving(f"after={LIMIT + 0.5}") as process:
        code, _, _, errors = process.ended()
        assert code == 0
        assert errors.split() == ["goodbye", "continued", "exited"]


def test_requests_in_the_pipe_are_answered_after_the_end_of_input() -> None:
    with serving("drain=30") as process:
        sent = process.fill()
        process.close_input()
        rest = process.stdout.read()
        answers = [json.loads(line)["id"] for line in rest.splitlines()]
        assert process.popen.wait(120) == 0
        assert answers == list(range(sent))


def test_the_process_ends_in_time_with_every_thread_hung_and_hooks_run() -> None:
    """docs/guarantees.md G12."""

    def attempt() -> float:
        with serving() as process:
            process.send(*(call(f"h{number}", "hang") for number in range(40)))
            process.call_and_wait("hang")
            code, took, _, errors = process.ended()
            assert code == 0
            assert "goodbye" in errors
            return took

    assert_in_time(attempt)


def test_the_process_ends_in_time_if_its_client_does_not_read() -> None:
    def attempt() -> float:
        with serving() as process:
            process.send(call("h", "hang"), *(call(n, "large", size=1 << 20) for n in range(1, 11)))
            assert process.receive()["id"] == 1, "the server has read the requests before"
            started_at = time.monotonic()
            process.close_input()
            assert process.popen.wait(120) == 0
            return time.monotonic() - started_at

    assert_in_time(attempt)


@pytest.mark.parametrize(
    ("tool", "number", "expected"),
    [
        *((tool, signal.SIGTERM, 0) for tool in (*HANGING, "block_the_loop")),
        (None, signal.SIGHUP, 0),
        (None, signal.SIGINT, 130),
        ("hang", signal.SIGINT, 130),
    ],
)
def test_a_signal_ends_the_process_in_time_whatever_hangs(
    tool: str | None, number: signal.Signals, expected: int
) -> None:
    def attempt() -> float:
        with serving() as process:
            if tool == "block_the_loop":
                process.block_the_loop()
            else:
                process.call_and_wait(tool)
            code, took = process.gone_after(number)
            assert code == expected
            return took

    assert_in_time(attempt)


def test_a_second_signal_ends_it_at_once() -> None:
    with serving() as process:
        process.send(call(1, "take", seconds=30), call(2, "echo", text="x"))
        assert process.receive()["id"] == 2
        process.popen.send_signal(signal.SIGTERM)
        # A refused request shows that the server drains: the first signal was handled.
        process.send(call(3, "echo", text="x"))
        while "error" not in process.receive():
            process.send(call(3, "echo", text="x"))
        process.popen.send_signal(signal.SIGTERM)
        assert process.popen.wait(120) == 128 + signal.SIGTERM


def test_a_handler_that_ends_within_the_drain_timeout_is_answered() -> None:
    def attempt() -> float:
        with serving() as process:
            process.send(call(1, "take", seconds=0.3))
            code, took, rest, _ = process.ended()
            assert code == 0
            assert json.loads(rest)["result"]["content"][0]["text"] == "done"
            return took

    assert_in_time(attempt)


def test_a_hung_shutdown_hook_does_not_delay_the_end() -> None:
    def attempt() -> float:
        with serving("hook-hangs") as process:
            code, took, _, errors = process.ended()
            assert code == 0
            assert "goodbye" in errors
            return took

    assert_in_time(attempt)


def test_the_process_ends_if_its_stdout_is_closed() -> None:
    """docs/guarantees.md G12."""
    with serving() as process:
        process.stdout.close()
        process.send(call(1, "echo", text="x"))
        assert process.popen.wait(120) == 0


# --- stdio (G15) ------------------------------------------------------------------------------------------------------


def test_the_output_of_tools_goes_to_stderr() -> None:
    """docs/guarantees.md G15."""
    with serving() as process:
        process.send(call(1, "shout"), call(2, "what_a_child_reads"))
        answers = {answer["id"]: answer for answer in (process.receive(), process.receive())}
        assert answers[1]["result"]["content"][0]["text"] == "shouted"
        assert answers[2]["result"]["content"][0]["text"] == "", "a child process consumed requests"
        code, _, rest, errors = process.ended()
        assert (code, rest) == (0, b"")
        for text in ("a print of a tool", "a write of a tool", "a print of a child"):
            assert text in errors


def test_requests_from_a_file_are_answered_to_a_file(tmp_path: Path) -> None:
    requests, answers = tmp_path / "requests", tmp_path / "answers"
    lines = [INITIALIZE, INITIALIZED, *(call(number, "echo", text=str(number)) for number in range(1, 3000))]
    requests.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with requests.open("rb") as stdin, answers.open("wb") as stdout:
        done = subprocess.run(
            [sys.executable, str(SERVING)],
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
            timeout=240,
            check=True,
        )
    responses = [json.loads(line) for line in answers.read_bytes().splitlines()]
    assert {response["id"] for response in responses} == set(range(3000)), done.stderr
    assert all("result" in response for response in responses)


def test_a_large_response_is_written_before_the_process_ends() -> None:
    with serving("drain=30") as process:  # the default of 1 s also bounds what a busy machine can write
        process.send(call(1, "large", size=8_000_000))
        code, _, rest, _ = process.ended()
        assert code == 0
        assert len(json.loads(rest)["result"]["content"][0]["text"]) == 8_000_000


# --- load (G16, G20) --------------------------------------------------------------------------------------------------


def test_a_line_above_the_limit_is_refused_and_the_next_is_served() -> None:
    """docs/guarantees.md G16."""
    with serving() as process:
        line = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"' + b"x" * (17 << 20) + b'"}}\n'
        process.send(line, call(2, "echo", text="still here"))
        error, answer = process.receive(), process.receive()
        assert error["error"]["code"] == -32600
        assert answer["result"]["content"][0]["text"] == "still here"


def test_a_line_just_under_the_limit_is_served() -> None:
    """docs/guarantees.md G16."""
    with serving() as process:
        process.send(call(1, "echo", text="x" * ((16 << 20) - 300)))
        assert len(process.receive()["result"]["content"][0]["text"]) == (16 << 20) - 300


def test_pings_are_answered_while_every_thread_is_blocked() -> None:
    """docs/guarantees.md G20: control messages never wait for tools."""
    with serving() as process:
        process.send(*(call(f"h{number}", "hang") for number in range(40)))
        for number in range(5):
            process.send({"jsonrpc": "2.0", "id": f"p{number}", "method": "ping"}, call(number, "echo", text="x"))
            assert {process.receive()["id"] for _ in range(2)} == {f"p{number}", number}


def test_a_request_in_the_same_write_as_initialize_is_served() -> None:
    """docs/guarantees.md G20: pipelined requests."""
    process = Process()
    process.send(json.dumps(INITIALIZE).encode() + b"\n" + json.dumps(call(1, "echo", text="x")).encode() + b"\n")
    assert [process.receive()["id"] for _ in range(2)] == [0, 1]
    assert process.ended()[0] == 0


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_client_that_does_not_read_needs_bounded_memory_and_gets_every_response_later() -> None:
    with serving() as process:
        os.set_blocking(process.stdin.fileno(), False)
        requests = [call(number, "large", size=100_000) for number in range(1000)]
        for request in requests:
            request["params"]["_meta"] = {"padding": "x" * 8000}
        data = b"".join(json.dumps(request).encode() + b"\n" for request in requests)
        sent = 0
        while sent < len(data):
            _, writable, _ = select.select([], [process.stdin], [], 1.0)
            if not writable:
                break  # the server has not read for a second
            sent += os.write(process.stdin.fileno(), data[sent : sent + 65_536])
        assert sent < len(data), "the server keeps reading from a client that does not read"
        assert memory_of(process.popen.pid) < 100 << 20
        os.set_blocking(process.stdin.fileno(), True)
        complete = data[:sent].count(b"\n")
        for number in range(complete):
            assert process.receive()["id"] == number


def test_a_tool_that_floods_a_client_which_does_not_read_is_bounded() -> None:
    with serving() as process:
        process.send(call(1, "flood"))
        assert process.popen.stderr is not None
        assert process.popen.stderr.readline() == b"flooded\n"  # and the client has read nothing meanwhile
        received = 0
        while (message := process.receive()).get("id") != 1:
            assert message["method"] == "notifications/message"
            received += 1
        assert 0 < received < 20_000, "log messages are dropped for a slow reader"
        assert memory_of(process.popen.pid) < 100 << 20


def test_a_flood_of_invalid_messages_is_answered() -> None:
    with serving() as process:
        invalid = [b"{\n", b"[]\n", b"null\n", b'{"jsonrpc":"2.0","id":null,"method":"x"}\n', b"\xff\xfe\n"]
        for _ in range(100):
            process.send(*invalid)
            for _ in invalid:
                assert "error" in process.receive()
        process.send(call(1, "echo", text="x"))
        assert process.receive()["id"] == 1


def test_a_duplicate_id_is_refused_and_the_first_request_answered() -> None:
    with serving() as process:
        process.send(call(1, "take", seconds=0.2), call(1, "echo", text="x"))
        first, second = process.receive(), process.receive()
        assert first["error"]["code"] == -32600
        assert second["result"]["content"][0]["text"] == "done"


def test_an_incomplete_message_at_the_end_is_a_parse_error() -> None:
    with serving() as process:
        process.send(b'{"jsonrpc":"2.0","id":1,')
        code, _, rest, _ = process.ended()
        assert code == 0
        assert json.loads(rest)["error"]["code"] == -32700
