"""A test that hangs is ended, named and shown, however it hangs: the guard of conftest.py, seen from outside."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent

# Six tests that would never end, one that must still run, and one that shows which examples Hypothesis chose.
PLANTED = """\
import asyncio, threading
import pytest
from hypothesis import given, strategies

pytestmark = pytest.mark.guard(0.3)

def test_busy_loop():
    while True:
        pass

def test_wait_that_nobody_wakes():
    threading.Event().wait()

def test_loop_that_swallows_exceptions():
    while True:
        try:
            threading.Event().wait()
        except Exception:
            pass

def test_event_loop_with_nothing_to_do():
    async def forever():
        await asyncio.Event().wait()
    asyncio.run(forever())

@given(strategies.integers())
def test_property(number):
    while True:
        pass

@pytest.fixture
def stuck():
    threading.Event().wait()

def test_fixture(stuck):
    pass

@pytest.mark.guard(300)
def test_the_next_one_runs():
    pass
"""

HANGS = {
    "test_busy_loop": "call",
    "test_wait_that_nobody_wakes": "call",
    "test_loop_that_swallows_exceptions": "call",
    "test_event_loop_with_nothing_to_do": "call",
    "test_property": "call",
    "test_fixture": "setup",
}

DRAWS = """\
from hypothesis import given, settings, strategies

seen = []

@settings(max_examples=20)
@given(strategies.integers(0, 2**64))
def test_draw(number):
    seen.append(number)

def test_show():
    print("examples", settings.default.max_examples, seen[1:])
"""


def run_pytest(folder: Path, source: str, profile: str = "quick", loop: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "test_planted.py").write_text(source)
    for path in (ROOT / "conftest.py", HERE / "loops.py"):
        (folder / path.name).write_text(path.read_text())
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = guard(seconds): limit\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(folder)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "JACKSTAY_PROFILE": profile, "JACKSTAY_LOOP": loop, "JACKSTAY_ORDER": ""},
        timeout=500,
        check=False,
    )


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    return run_pytest(tmp_path_factory.mktemp("hung"), PLANTED)


@pytest.mark.parametrize(("name", "phase"), HANGS.items())
def test_a_hanging_test_fails_by_name(name: str, phase: str, hung: subprocess.CompletedProcess[str]) -> None:
    assert f"{phase} of test_planted.py::{name} took more than 0.3 s" in hung.stdout


def test_the_tests_after_a_hanging_one_still_run(hung: subprocess.CompletedProcess[str]) -> None:
    assert hung.returncode == 1
    assert "5 failed, 1 passed, " in hung.stdout
    assert "1 error in " in hung.stdout


def test_a_hanging_test_shows_where_every_thread_stood(hung: subprocess.CompletedProcess[str]) -> None:
    assert "most recent call first" in hung.stderr
    assert "in test_busy_loop" in hung.stderr


def test_an_unknown_profile_is_refused_by_name(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "def test_nothing():\n    pass\n", profile="fast")
    assert done.returncode == 4
    assert "JACKSTAY_PROFILE is 'fast'; it must be quick or soak" in done.stderr + done.stdout


def test_an_unknown_loop_is_refused_by_name(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "def test_nothing():\n    pass\n", loop="trio")
    assert done.returncode == 4
    assert "JACKSTAY_LOOP is 'trio'; it must be asyncio or uvloop" in done.stderr + done.stdout


@pytest.mark.guard(600)  # it starts four runs of pytest
@pytest.mark.parametrize(("profile", "count", "is_same"), [("quick", 50, True), ("soak", 5_000, False)])
def test_quick_repeats_itself_and_soak_does_not(profile: str, count: int, is_same: bool, tmp_path: Path) -> None:
    runs = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        done = run_pytest(folder, DRAWS, profile)
        assert done.returncode == 0, done.stdout + done.stderr
        runs.append(next(line for line in done.stdout.splitlines() if "examples" in line))
    assert f"examples {count} " in runs[0]
    assert (runs[0] == runs[1]) is is_same
