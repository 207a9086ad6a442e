"""Starting children in a thread; a cancelled start leaves nothing behind (checked by a fixture)."""

import asyncio
import errno
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from jackstay.errors import TransportError
from jackstay.testing.transport_suite import run
from jackstay.transport import _process
from jackstay.transport._process import Child, Command, discard, kill_group, spawn

WAITS = Command(sys.executable, ("-I", "-S", "-c", "import signal; signal.pause()"), {}, None, False)


def command(executable: str, *arguments: str) -> Command:
    return Command(executable, arguments, {}, None, False)


async def test_a_child_is_started_in_another_thread_with_its_own_process_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = []
    start = _process._start

    def watched(command: Command) -> Child:
        threads.append(threading.current_thread())
        return start(command)

    monkeypatch.setattr(_process, "_start", watched)
    child = await spawn(WAITS)
    assert threads[0] is not threading.main_thread()
    assert None not in (child.stdin, child.stdout, child.stderr)
    discard(child)
    assert child.returncode == -signal.SIGKILL
    kill_group(child.pid, signal.SIGKILL)  # exited: nothing happens


async def test_an_inherited_stderr_is_not_a_pipe() -> None:
    child = await spawn(Command("/bin/cat", (), {}, None, inherits_stderr=True))
    assert child.stderr is None
    discard(child)


async def test_errors_of_exec_are_permanent(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    format_error = tmp_path / "format"
    format_error.write_bytes(b"\x00\x01\x02")
    format_error.chmod(0o755)
    for path, message in (
        (script, "interpreter named in its first line, does not exist"),
        (format_error, "Exec format error"),
        (tmp_path, "Permission denied"),
    ):
        with pytest.raises(TransportError, match=message) as caught:
            await spawn(command(str(path)))
        assert caught.value.permanent
        assert caught.value.details == {"command": str(path)}
        assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize(
    ("failure", "is_permanent"),
    [
        (OSError(errno.EAGAIN, "no more processes"), False),
        (OSError(errno.ENOMEM, "no memory"), False),
        (OSError(errno.EMFILE, "no descriptors"), False),
        (OSError(errno.E2BIG, "too long"), True),
        (ValueError("embedded null byte"), True),
        (subprocess.SubprocessError("Exception occurred in preexec_fn."), True),
    ],
)
async def test_only_transient_errors_are_retryable(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, is_permanent: bool
) -> None:
    def fail(command: Command) -> Child:
        raise failure

    monkeypatch.setattr(_process, "_start", fail)
    with pytest.raises(TransportError) as caught:
        await spawn(WAITS)
    assert caught.value.permanent is is_permanent
    assert caught.value.__cause__ is failure


class BlockedStart:
    """A start that is blocked until the test continues it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, before: bool, fails: bool = False) -> None:
        self.has_begun = threading.Event()
        self.may_continue = threading.Event()
        self.children: list[Child] = []
        self._start = _process._start
        self._before = before
        self._fails = fails
        monkeypatch.setattr(_process, "_start", self)

    def __call__(self, command: Command) -> Child:
        if self._before:
            self.has_begun.set()
            assert self.may_continue.wait(120)
        if self._fails:
            raise OSError(errno.ENOENT, "absent")
        child = self._start(command)
        self.children.append(child)
        return child


@pytest.mark.parametrize("fails", [False, True])
async def test_a_start_cancelled_in_progress_is_undone_before_cancelled_error(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    blocked = BlockedStart(monkeypatch, before=True, fails=fails)
    starting = asyncio.ensure_future(spawn(WAITS))
    await asyncio.to_thread(blocked.has_begun.wait)
    starting.cancel()
    await asyncio.sleep(0)
    assert not starting.done()
    blocked.may_continue.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert [child.returncode for child in blocked.children] == ([] if fails else [-9])


def settle_by(monkeypatch: pytest.MonkeyPatch, settle: Callable[[Callable[[], object]], None]) -> None:
    """Pass what the thread of a start calls on the loop first, which sets its result, to `settle` on the loop."""
    call_on_loop = _process.call_on_loop

    def call_first(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object) -> bool:
        monkeypatch.setattr(_process, "call_on_loop", call_on_loop)
        return call_on_loop(loop, settle, partial(function, *arguments))

    monkeypatch.setattr(_process, "call_on_loop", call_first)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_start_cancelled_when_it_has_just_succeeded_is_undone(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    blocked = BlockedStart(monkeypatch, before=False, fails=fails)
    starting: asyncio.Future[Child]

    def settle_then_cancel(settle: Callable[[], object]) -> None:
        settle()
        starting.cancel()

    settle_by(monkeypatch, settle_then_cancel)
    starting = asyncio.ensure_future(spawn(WAITS))
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert [child.returncode for child in blocked.children] == ([] if fails else [-9])


@pytest.mark.parametrize("fails", [False, True])
async def test_a_start_cancelled_between_the_thread_and_the_loop_is_undone(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    blocked = BlockedStart(monkeypatch, before=False, fails=fails)
    starting: asyncio.Future[Child]
    loop = asyncio.get_running_loop()

    def cancel_and_settle_later(settle: Callable[[], object]) -> None:
        starting.cancel()
        loop.call_soon(loop.call_soon, loop.call_soon, settle)

    settle_by(monkeypatch, cancel_and_settle_later)
    starting = asyncio.ensure_future(spawn(WAITS))
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert [child.returncode for child in blocked.children] == ([] if fails else [-9])


def test_a_second_cancellation_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = BlockedStart(monkeypatch, before=True)

    async def test() -> None:
        starting = asyncio.ensure_future(spawn(WAITS))
        await asyncio.to_thread(blocked.has_begun.wait)
        starting.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    run(test)
    blocked.may_continue.set()  # the loop is closed by now


def test_a_start_whose_loop_is_closed_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = BlockedStart(monkeypatch, before=True)
    loop = asyncio.new_event_loop()

    async def begin() -> None:
        _process._Start(WAITS)

    loop.run_until_complete(begin())
    loop.close()
    blocked.may_continue.set()
