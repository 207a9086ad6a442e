"""`stdio()`: arguments, names, and child processes on every loop."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from jackstay.errors import TransportError, UsageError
from jackstay.testing.transport_suite import RecordingHandler, run
from jackstay.transport import _process, stdio


@pytest.fixture(scope="module", autouse=True)
def _open_the_pipe_of_uvloop() -> None:
    """uvloop opens a pipe for signals with its first loop and keeps it."""
    try:
        import uvloop
    except ImportError:
        return
    uvloop.new_event_loop().close()


ECHO = ("-I", "-S", "-c", "import sys\nfor line in sys.stdin: print(line, end='', flush=True)")


async def echoes(target: Any = None) -> None:
    handler = RecordingHandler()
    transport = await (target or stdio(sys.executable, *ECHO)).open(handler, 1000, 10.0)
    handler.transport = transport
    assert transport.send(b"hello", 1)
    await handler.until(lambda: handler.frames)
    assert handler.frames == [b"hello"]
    await transport.close()


async def test_one_target_starts_a_new_child_each_time() -> None:
    target = stdio(sys.executable, *ECHO)
    for _ in range(3):
        await echoes(target)
    await asyncio.gather(*(echoes(target) for _ in range(5)))


def on_a_thread(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001  # raised again in the waiting thread
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(120)
    assert failures == []


def on_uvloop(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    pytest.importorskip("uvloop", reason="uvloop is an extra").run(main())


def on_a_poll_selector(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    import selectors

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.PollSelector())) as runner:
        runner.run(main())


@pytest.mark.parametrize("on", [on_a_thread, on_uvloop, on_a_poll_selector])
@pytest.mark.parametrize("has_pidfd", [True, False])
def test_a_child_works_on_any_loop_in_any_thread(
    monkeypatch: pytest.MonkeyPatch,
    on: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
    has_pidfd: bool,
) -> None:
    if not has_pidfd:
        monkeypatch.delattr(_process.os, "pidfd_open", raising=False)
    on(echoes)


def test_no_child_watcher_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the child watcher was used")

    for name in ("get_child_watcher", "set_child_watcher"):
        if hasattr(asyncio, name):
            monkeypatch.setattr(asyncio.DefaultEventLoopPolicy, name, refuse, raising=False)
    run(echoes)


# --- invalid arguments ------------------------------------------------------------------------------------------------


def test_invalid_arguments_are_rejected() -> None:
    for arguments, options, path in [
        (("",), {}, "command"),
        (("a\0b",), {}, "command"),
        ((3,), {}, "command"),
        (("a", 3), {}, "command"),
        (("a",), {"framing": "xml"}, "framing"),
        (("a",), {"env": {"A": 1}}, "env"),
        (("a",), {"env": ["A"]}, "env"),
        (("a",), {"cwd": 3}, "cwd"),
        (("a",), {"inherit_env": 3}, "inherit_env"),
        (("a",), {"inherit_env": "HOME"}, "inherit_env"),
        (("a",), {"stderr": None}, "stderr"),
    ]:
        with pytest.raises(UsageError) as caught:
            stdio(*arguments, **options)
        assert caught.value.path == path


def test_inherit_env_may_be_an_iterator() -> None:
    target = stdio("a", inherit_env=(name for name in ("TOKEN", "KEY")))
    assert target.inherit_env == ("TOKEN", "KEY")


def test_the_error_on_windows_suggests_wsl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "name", "nt")
    with pytest.raises(UsageError, match="WSL"):
        stdio("server")


async def test_a_missing_command_is_a_permanent_error_of_open(tmp_path: Path) -> None:
    for target in (
        stdio("no-such-command", env={"PATH": "/nowhere"}),
        stdio(sys.executable, cwd=tmp_path / "gone"),
        stdio(sys.executable, stderr=tmp_path / "gone" / "log"),
    ):
        with pytest.raises(TransportError) as caught:
            await target.open(RecordingHandler(), 1000, 1.0)
        assert caught.value.permanent


def test_a_start_that_fails_closes_the_file_for_stderr(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)

    async def test() -> None:
        with pytest.raises(TransportError, match="interpreter"):
            await stdio(script, stderr=tmp_path / "log").open(RecordingHandler(), 1000, 1.0)

    run(test)
    assert (tmp_path / "log").exists()


async def test_the_executable_is_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "server").symlink_to("/bin/cat")
    target = stdio("server", env={"PATH": str(tmp_path)})
    await echoes(target)
    monkeypatch.setattr("jackstay.transport._stdio.find_executable", None)
    await echoes(target)


# --- names ------------------------------------------------------------------------------------------------------------


def test_the_name_of_a_target() -> None:
    for arguments, name, init_timeout in [
        (("server",), "server", None),
        (("/usr/bin/server", "-x"), "server", None),
        (("uvx", "mcp-server-git", "--repository", "."), "mcp-server-git", 30.0),
        (
            ("npx", "-y", "@modelcontextprotocol/server-everything"),
            "@modelcontextprotocol/server-everything",
            30.0,
        ),
        (("npx", "--help"), "npx", 30.0),
        (("python", "servers/flaky.py", "--port", "1"), "flaky", None),
        (("/usr/bin/python3.11", "-u", "-X", "dev", "flaky.py"), "flaky", None),
        (("python", "-m", "mcp_server_git"), "mcp_server_git", None),
        (("python", "-c", "pass"), "python", None),
        (("python",), "python", None),
        (("env", "-i", "A=1", "python", "flaky.py"), "flaky", None),
        (("env", "A=1", "server", "x.py"), "server", None),
        (("env",), "env", None),
        (("/",), "/", None),
    ]:
        target = stdio(*arguments)
        assert (target.name, target.init_timeout, target.is_http) == (name, init_timeout, False)
        assert stdio(*arguments, name="custom").name == "custom"


def test_neither_arguments_nor_variables_are_shown() -> None:
    shown = repr(stdio("server", "--token", "secret-1", env={"KEY": "secret-2"}, name="git"))
    assert "secret" not in shown
    assert "git" in shown


def test_stderr_goes_to_the_log_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        handler = RecordingHandler()
        target = stdio(sys.executable, "-I", "-S", "-c", "import sys; print('a line', file=sys.stderr)", name="git")
        transport = await target.open(handler, 1000, 10.0)
        await handler.until(lambda: handler.ends)
        await transport.close()

    with caplog.at_level(logging.INFO, "jackstay.server.git"):
        run(test)
    assert caplog.record_tuples == [("jackstay.server.git", logging.INFO, "a line")]


def test_with_stderr_returns_a_copy() -> None:
    lines: list[str] = []
    target = stdio("server", "-x", env={"A": "1"})
    other = target.with_stderr(lines.append)
    assert (other.name, other.command, other.arguments) == (target.name, target.command, target.arguments)
    assert (target.stderr, other.stderr) == ("log", lines.append)
    with pytest.raises(UsageError):
        target.with_stderr(5)  # type: ignore[arg-type]


def test_the_error_for_a_list_shows_the_correct_call() -> None:
    command: Any = ["python", "flaky.py"]
    with pytest.raises(UsageError, match=r"stdio\('python', 'flaky.py'\)"):
        stdio(command)
