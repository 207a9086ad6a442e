"""A client of misbehaving server processes: calls get correct outcomes, the client reconnects, nothing leaks."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.leftovers import is_running
from jackstay.client import Client, connect
from jackstay.errors import (
    BackpressureError,
    FrameTooLargeError,
    McpError,
    OutcomeUnknownError,
    ShutdownError,
    TimeoutError,
    TransportError,
)
from jackstay.transport import stdio

SERVER = str(Path(__file__).parent / "servers" / "working.py")
QUICK: dict[str, Any] = {"backoff_min": 0.01, "backoff_max": 0.05, "versions": ("2025-11-25",)}


def client_of(mode: str = "works", *arguments: str, **options: Any) -> Client:
    target = stdio(sys.executable, "-I", "-S", SERVER, mode, *arguments, name="working")
    return connect(target, **{**QUICK, **options})


async def gone(pid: int) -> None:
    """Wait until the process has ended; its new parent may take a moment to reap it."""
    while is_running(pid):
        await asyncio.sleep(0)


# --- crashes ----------------------------------------------------------------------------------------------------------


async def test_a_response_in_the_pipe_of_a_dead_server_is_delivered() -> None:
    """docs/guarantees.md G1."""
    async with client_of() as client:
        lost = asyncio.Event()
        client.on_event(lambda name, fields: lost.set() if fields.get("to") == "backoff" else None)
        assert (await client.tools.call("answer_and_die")).text == "last result"
        await lost.wait()  # a call before the crash is noticed has an unknown outcome
        assert (await client.tools.call("hello", wait_for_ready=True)).text == "hello"


async def test_a_crash_is_reported_with_exit_code_and_stderr_and_the_server_is_restarted() -> None:
    """docs/guarantees.md G1: all calls in flight end."""
    async with client_of() as client:
        exits: list[Any] = []
        client.on_event(lambda name, fields: exits.append(fields) if name == "jackstay.child.exit" else None)
        others = [client.submit("tools/call", {"name": "hang"}) for _ in range(3)]
        with pytest.raises(OutcomeUnknownError) as caught:
            await client.tools.call("die")
        assert caught.value.exit_code == 7
        assert "internal failure" in caught.value.stderr_tail
        assert caught.value.may_have_run is True
        for other in others:
            with pytest.raises(OutcomeUnknownError):
                await other
        assert (await client.tools.call("hello", wait_for_ready=True, timeout=60)).text == "hello"
        assert [(fields["code"], fields["signal"]) for fields in exits] == [(7, 0)]


async def test_a_server_killed_within_a_frame_leaves_no_call_waiting() -> None:
    """docs/guarantees.md G1: an incomplete frame is not a response."""
    async with client_of() as client:
        with pytest.raises(OutcomeUnknownError) as caught:
            await client.tools.call("die_in_a_frame")
        assert caught.value.exit_code == -signal.SIGKILL
        await client.ready(60)


async def test_a_grandchild_with_open_pipes_does_not_delay_the_caller(tmp_path: Path) -> None:
    """docs/guarantees.md G1 and G13: the grandchild is killed with its parent."""
    async with client_of("works", str(tmp_path)) as client:
        with pytest.raises(OutcomeUnknownError) as caught:
            await client.tools.call("leave_a_grandchild_and_die")  # the grandchild itself never ends
        assert caught.value.exit_code == 5
        await gone(int((tmp_path / "grandchild").read_text()))
        assert (await client.tools.call("hello", wait_for_ready=True)).text == "hello"


async def test_a_server_that_crashes_on_the_probe_is_restarted_with_a_handshake() -> None:
    # Nothing else is sent before the server has received the probe, however slowly it starts.
    async with client_of("dies_of_the_probe", versions=("2025-11-25", "2026-07-28"), probe_timeout=100) as client:
        assert client.protocol_version == "2025-11-25"


async def test_the_revision_is_detected_over_stdio_and_remembered_after_a_crash() -> None:
    for mode, version in (
        ("works", "2025-11-25"),
        ("ignores_the_probe", "2025-11-25"),
        ("stateless", "2026-07-28"),
    ):
        async with client_of(mode, versions=("2025-11-25", "2026-07-28"), probe_timeout=0.05) as client:
            assert client.protocol_version == version
            with pytest.raises(OutcomeUnknownError):
                await client.tools.call("die")
            assert (await client.tools.call("hello", wait_for_ready=True)).text == "hello"
            assert client.protocol_version == version


# --- failing starts ---------------------------------------------------------------------------------------------------


async def test_a_server_that_exits_at_once_is_reported_with_its_stderr() -> None:
    client = client_of("exits", backoff_min=0.01)
    with pytest.raises(TransportError) as caught:
        await client.open()
    assert caught.value.exit_code == 2
    assert "no configuration found" in caught.value.stderr_tail
    assert "no configuration found" in str(caught.value)
    assert client.state == "closed"


async def test_an_unknown_command_is_a_permanent_error() -> None:
    client = connect(stdio("no-such-command-anywhere"), **QUICK)
    with pytest.raises(TransportError, match="no-such-command-anywhere") as caught:
        await client.open()
    assert caught.value.permanent


@pytest.mark.parametrize("mode", ["never_answers", "reads_nothing"])
async def test_open_times_out_if_the_server_never_responds(mode: str) -> None:
    client = client_of(mode, init_timeout=0.2, max_attempts=2, close_step=0.2)
    with pytest.raises(TransportError, match=r"not ready within 0\.\d s"):
        await client.open()
    assert client.state == "closed"


# --- servers that misbehave and run on --------------------------------------------------------------------------------


async def test_invalid_lines_on_stdout_are_skipped() -> None:
    """docs/guarantees.md G15."""
    async with client_of("prints") as client:
        violations: list[Any] = []
        client.on_event(lambda name, fields: violations.append(name) if "violation" in name else None)
        assert (await client.tools.call("print")).text == "printed"
        assert len(violations) == 3


async def test_a_server_that_floods_stderr_is_not_blocked() -> None:
    """docs/guarantees.md G14: stderr is always drained."""
    async with client_of() as client:
        assert (await client.tools.call("flood_stderr")).text == "still here"


async def test_a_call_without_a_response_ends_at_its_deadline() -> None:
    async with client_of() as client:
        with pytest.raises(TimeoutError) as caught:
            await client.tools.call("hang", timeout=0.05)
        assert caught.value.sent
        assert (await client.tools.call("hello")).text == "hello"


async def test_a_second_response_is_counted_and_ignored() -> None:
    async with client_of() as client:
        events: list[str] = []
        client.on_event(lambda name, fields: events.append(name))
        assert (await client.tools.call("twice")).text == "first"
        assert (await client.tools.call("hello")).text == "hello"
        assert events.count("jackstay.response.unknown") == 1


async def test_a_line_above_the_limit_ends_the_connection_with_an_error() -> None:
    """docs/guarantees.md G16."""
    async with client_of() as client:
        size = 16 * 1024 * 1024 - 1000
        result = await client.tools.call("long", {"size": str(size)}, timeout=60)
        assert len(result.text) == size
        with pytest.raises(FrameTooLargeError) as caught:
            await client.tools.call("long", {"size": str(17 * 1024 * 1024)}, timeout=60)
        assert caught.value.may_have_run is True
        assert (await client.tools.call("hello", wait_for_ready=True)).text == "hello"


# --- stopping ---------------------------------------------------------------------------------------------------------


async def test_a_server_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    """docs/guarantees.md G13: closing takes bounded time."""
    client = client_of("ignores_sigterm", str(tmp_path), close_step=0.1)
    await client.open()
    pid = int((tmp_path / "pid").read_text())
    call = client.submit("tools/call", {"name": "hang"})
    stopping = asyncio.ensure_future(client.stop())
    with pytest.raises(ShutdownError):
        await call
    await stopping
    await gone(pid)


async def test_cancelling_open_leaves_no_process(tmp_path: Path) -> None:
    """docs/guarantees.md G9."""
    client = client_of("never_answers", str(tmp_path))
    opening = asyncio.ensure_future(client.open())
    while not (tmp_path / "pid").exists():
        await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("stop", [False, True])
async def test_stop_during_start_leaves_no_process(stop: bool) -> None:
    """docs/guarantees.md G13."""
    client = client_of()
    await client.open(wait=False)
    if stop:
        await asyncio.sleep(0)
    await client.stop()
    assert client.state == "closed"


# --- kills ------------------------------------------------------------------------------------------------------------


async def test_after_a_kill_the_first_call_with_wait_for_ready_succeeds(tmp_path: Path) -> None:
    """docs/guarantees.md G5: within its deadline."""
    async with client_of("works", str(tmp_path)) as client:
        for _ in range(3):
            call = client.submit("tools/call", {"name": "hang"})
            await client.ping()
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
            with pytest.raises(OutcomeUnknownError) as caught:
                await call
            assert caught.value.exit_code == -signal.SIGKILL
            assert (await client.tools.call("hello", wait_for_ready=True, timeout=60)).text == "hello"


async def test_a_failing_server_does_not_affect_another(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    async with client_of() as healthy, client_of("works", str(tmp_path / "b")) as failing:
        os.kill(int((tmp_path / "b" / "pid").read_text()), signal.SIGKILL)
        with pytest.raises(McpError):
            await failing.tools.call("hang", timeout=60)
        assert (await healthy.tools.call("hello")).text == "hello"
        assert healthy.state == "ready"


# --- malformed responses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "is_answered"), [(0, False), (1, False), (30, False), (-3, False), (-2, True), (-1, True)]
)
async def test_a_complete_message_is_a_response_with_or_without_newline(at: int, is_answered: bool) -> None:
    """docs/guarantees.md G1: the server exits at some byte of its response; and the next call works."""
    async with client_of() as client:
        lost = asyncio.Event()
        client.on_event(lambda name, fields: lost.set() if fields.get("to") == "backoff" else None)
        calling = asyncio.ensure_future(client.tools.call("exit_at_byte", {"at": str(at)}))
        (result,) = await asyncio.gather(calling, return_exceptions=True)
        if is_answered:
            assert result.text == "half"  # type: ignore[union-attr]  # or it fails here
        else:
            assert isinstance(result, OutcomeUnknownError)
            assert result.exit_code == 4
        await lost.wait()
        assert (await client.tools.call("hello", wait_for_ready=True)).text == "hello"


async def test_a_response_may_arrive_byte_by_byte() -> None:
    """docs/guarantees.md G16."""
    async with client_of() as client:
        assert (await client.tools.call("trickle")).text == "byte by byte"


async def test_a_response_after_the_cancellation_is_counted_and_ignored() -> None:
    """docs/guarantees.md G11."""
    async with client_of() as client:
        late = asyncio.Event()
        client.on_event(lambda name, _: late.set() if name == "jackstay.response.late" else None)
        with pytest.raises(TimeoutError) as caught:
            await client.tools.call("late", timeout=0.1)
        assert caught.value.may_have_run
        await late.wait()
        assert (await client.tools.call("hello")).text == "hello"


async def test_a_server_that_closes_its_stdout_is_restarted() -> None:
    """docs/guarantees.md G1 and G13: a server without stdout cannot respond, so it is killed."""
    async with client_of() as client:
        with pytest.raises(OutcomeUnknownError):
            await client.tools.call("close_stdout")
        assert (await client.tools.call("hello", wait_for_ready=True)).text == "hello"


async def test_calls_end_in_time_if_the_server_stops_reading() -> None:
    """docs/guarantees.md G11: calls that were not queued did not run.

    Only calls that nothing but the deadline can end have short deadlines, so a slow machine changes nothing.
    """
    async with client_of(max_pending=10_000, close_step=0.5, hang_timeout=None) as client:
        assert (await client.tools.call("stop_reading")).text == "not reading any more"

        def submit(count: int, **options: Any) -> list[Any]:
            params: dict[str, Any] = {"name": "hello", "arguments": {"text": "x" * 1_000}}
            return [client.submit("tools/call", params, **options).future for _ in range(count)]

        accepted = submit(100, timeout=1)  # some are written, the others are queued
        retried = submit(1_500, timeout=25, busy="retry")  # more than the size of the queue
        waiting = submit(200, timeout=1, busy="wait")
        ended = await asyncio.gather(*accepted, *waiting, return_exceptions=True)
        assert {type(result) for result in ended} == {TimeoutError}
        assert not any(result.may_have_run for result in ended[len(accepted) :])
        # A pipe buffers 64 KiB, so only a few dozen calls of a thousand bytes can have been written.
        assert 0 < sum(result.may_have_run for result in ended) <= 100
        refused = []
        while not refused:
            await asyncio.wait(retried, return_when=asyncio.FIRST_COMPLETED)
            refused = [call.exception() for call in retried if call.done()]
        assert {type(error) for error in refused} == {BackpressureError}
        assert not any(error.may_have_run for error in refused)
