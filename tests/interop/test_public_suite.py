"""The test suite of apcore-mcp 0.23.3 against our bridge; see `public_suite/run.py`."""

import os
import subprocess

import pytest

from interop.peers import ROOT
from interop.public_suite.run import CLASSES, PEER, problems_of, read_expected, run_suite
from scripted.places import PYTHONPATH

MIN_TESTS = 700
GUARD = 900.0


def test_every_expected_failure_has_a_class() -> None:
    assert set(read_expected().values()) <= CLASSES.keys()


@pytest.mark.guard(GUARD)
def test_public_suite_fails_only_where_it_is_expected_to() -> None:
    outcomes = run_suite()
    assert len(outcomes.passed) >= MIN_TESTS, outcomes.output
    assert problems_of(outcomes, read_expected()) == []


def test_names_keywords_flags_and_programs_work() -> None:
    done = subprocess.run(
        [PEER.python, ROOT / "tools" / "count_apcore_mcp.py", PEER.source],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "names: 47/47\n" in done.stdout
    assert "flags: 28/28\n" in done.stdout
