"""Test configuration: a Hypothesis profile, a guard that ends tests that hang, and a runner for `async def` tests.

`JACKSTAY_PROFILE=soak` runs many random examples instead of the same few. `JACKSTAY_ORDER=word` shuffles the tests
reproducibly. `JACKSTAY_LOOP=uvloop` runs everything on uvloop, also in child processes (tests/loops.py).
"""

import asyncio
import faulthandler
import gc
import importlib
import inspect
import os
import random
import shlex
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import loops

NOT_TRACED = Path(__file__).parent / "tests"
GUARD_SECONDS = 300.0  # far beyond what a busy machine makes of a test
LONG_GUARD_SECONDS = 900.0  # searches over states
REPEAT_SECONDS = 3.0  # until the next interrupt, should code swallow the first; reporting fits in
FINAL_ITERATIONS = 100  # cancelled tasks need turns to end; nested generators of httpx need many on uvloop
MAX_SHOWN = 20  # failed tests in the command at the end
SOAK_FACTOR = 120  # a soak runs about a hundred times the examples

# Health checks measure the machine, and ours are shared: a slow minute must not fail a sound test.
_SLOW = (HealthCheck.too_slow,)
settings.register_profile(
    "quick", derandomize=True, deadline=None, max_examples=50, database=None, suppress_health_check=_SLOW
)
settings.register_profile(
    "soak",
    derandomize=False,  # explicit: Hypothesis enables it by default where CI is set
    deadline=None,
    max_examples=5_000,
    stateful_step_count=200,
    print_blob=True,
    suppress_health_check=_SLOW,
)


class TestHungError(BaseException):
    """A test ran into its guard.

    Not an Exception: neither the code under test nor Hypothesis, which would run the example again, may swallow it.
    """

    __test__ = False


def pytest_configure(config: pytest.Config) -> None:
    profile = os.environ.get("JACKSTAY_PROFILE", "quick")
    if profile not in ("quick", "soak"):
        raise pytest.UsageError(f"JACKSTAY_PROFILE is {profile!r}; it must be quick or soak")
    settings.load_profile(profile)
    gc.set_threshold(50_000, 20, 100)  # fewer collections: the searches over states create millions of objects
    loop = os.environ.get("JACKSTAY_LOOP") or "asyncio"
    if loop not in loops.NAMES:
        raise pytest.UsageError(f"JACKSTAY_LOOP is {loop!r}; it must be asyncio or uvloop")
    if loop == "uvloop":
        _use_uvloop()
    # Under nohup and in a shell's background these are ignored, also in child processes; the tests need the defaults.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _use_uvloop() -> None:
    loops.use_uvloop()
    loops.install()
    # uvloop opens a pipe for signals with its first loop and keeps it: no test may report it as a leak.
    loops.new_event_loop().close()
    # Child processes inherit few variables. This one selects the event loop.
    environment = importlib.import_module("jackstay.transport._stdio")
    environment.PASSED = (*environment.PASSED, "JACKSTAY_LOOP")  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """In a process of pytest-xdist, stop the coverage that pytest-cov started before it knew that the process is one.

    With the session it starts another one for the tests, and whenever that pauses, coverage would resume the first.
    """
    plugin: Any = session.config.pluginmanager.getplugin("_cov")
    if plugin is not None and plugin.cov_controller is not None and hasattr(session.config, "workerinput"):
        plugin.cov_controller.cov.stop()


def pytest_report_header() -> str:
    """Which loop this is."""
    return f"event loop: {os.environ.get('JACKSTAY_LOOP') or 'asyncio'}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = os.environ.get("JACKSTAY_ORDER", "")
    if order:
        # Files stay together, because what a file sets up once is expensive.
        chance = random.Random(order)
        files: dict[str, list[pytest.Item]] = {}
        for item in items:
            files.setdefault(str(item.path), []).append(item)
        shuffled = chance.sample(list(files.values()), len(files))
        items[:] = [item for group in shuffled for item in chance.sample(group, len(group))]
    # Property tests and the tests of whole programs and pages repeat what unit tests cover; tracing them costs minutes.
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False) or item.path.is_relative_to(NOT_TRACED):
            item.add_marker(pytest.mark.no_cover)
    # With several processes (`make test`) the tests of a file stay together, except searches, which take long alone.
    for item in items:
        if not item.get_closest_marker("long"):
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
    # The longest begin first: searches, and programs that mostly wait.
    items.sort(key=lambda item: not (item.get_closest_marker("long") or item.path.is_relative_to(NOT_TRACED)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the command that runs failed tests again."""
    failed = [report.nodeid for kind in ("failed", "error") for report in terminalreporter.getreports(kind)]
    if failed:
        names = " ".join(shlex.quote(name) for name in dict.fromkeys(failed[:MAX_SHOWN]))
        rest = " ..." if len(failed) > MAX_SHOWN else ""
        terminalreporter.write_sep("=", "run the failed tests again")
        terminalreporter.write_line(f"{os.path.relpath(sys.executable)} -m pytest {names}{rest}")


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Iterator[Any]:
    """Escape lone surrogates in reports, which pytest-xdist cannot send between processes."""
    return _encodable((yield))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_encodable(inner) for inner in value)
    return value


def guard_seconds(item: pytest.Item) -> float:
    """How long each phase of this test may take."""
    marker = item.get_closest_marker("guard")
    default = LONG_GUARD_SECONDS if item.get_closest_marker("long") else GUARD_SECONDS
    seconds = float(marker.args[0]) if marker is not None else default
    return seconds * SOAK_FACTOR if os.environ.get("JACKSTAY_PROFILE") == "soak" else seconds


def _guarded(item: pytest.Item, phase: str) -> Iterator[None]:
    """Interrupt the main thread when the phase takes too long, and again until it has ended."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield  # Windows: pytest's own faulthandler_timeout is the only guard
        return
    seconds = guard_seconds(item)

    def interrupt(signum: int, frame: FrameType | None) -> None:
        faulthandler.dump_traceback(file=sys.__stderr__ or 2, all_threads=True)
        raise TestHungError(f"{phase} of {item.nodeid} took more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests on an event loop of their own. A test that leaves a task behind fails."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(_run_to_end(pyfuncitem.obj(**arguments)))
    return True


async def _run_to_end(test: Coroutine[Any, Any, None]) -> None:
    await test
    for _ in range(FINAL_ITERATIONS):
        remaining = asyncio.all_tasks() - {asyncio.current_task()}
        if not remaining:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"the test left tasks behind: {remaining}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    return (yield from _guarded(item, "setup"))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    return (yield from _guarded(item, "call"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    return (yield from _guarded(item, "teardown"))
