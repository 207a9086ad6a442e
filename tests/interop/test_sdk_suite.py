"""The official Python SDK's own interaction tests, with our proxy between its client and its server.

They run in the environment of the peer `sdk_suite`, from its source distribution. A failing test must be a row of
`sdk_suite/differences.py`, and every row must fail. Other failing tests are run a second time, because the suite has
short timeouts.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from interop.peers import BY_NAME, ROOT
from interop.sdk_suite.differences import DIFFERENCES, REASONS
from scripted.places import PYTHONPATH

PEER = BY_NAME["sdk_suite"]
ERAS = ("same", "free")
SUITE = "tests/interaction"
# The streamable HTTP legs with sessions, in both eras.
LEGS = ("-k", "streamable-http and not stateless", f"{SUITE}/lowlevel", f"{SUITE}/mcpserver")
MIN_TESTS = 220
GUARD = 400.0


class Run:
    """One run of the suite; `outcomes()` waits for its end."""

    def __init__(self, era: str, directory: Path, *tests: str) -> None:
        self._report = directory / f"{era}-{len(tests)}.xml"
        quiet = (
            "-q",
            "--tb=short",
            "-p",
            "no:cacheprovider",
            "-o",
            "addopts=-p anyio",
            "-o",
            "log_cli=false",
        )
        self._log = self._report.with_suffix(".txt")
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    PEER.python,
                    "-m",
                    "pytest",
                    *quiet,
                    "-p",
                    "through_proxy",
                    f"--junitxml={self._report}",
                    *tests,
                ],
                cwd=PEER.source,
                env={
                    **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))},
                    "JACKSTAY_SUITE_ERA": era,
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "PYTHONPATH": os.pathsep.join((PYTHONPATH, str(Path(__file__).parent / "sdk_suite"), ".")),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def outcomes(self) -> dict[str, bool]:
        """Wait for the end. Returns whether each test passed, by its id."""
        assert self.process.wait(GUARD) in (0, 1), self.output_tail()
        found: dict[str, bool] = {}
        for case in ElementTree.parse(self._report).iter("testcase"):  # written by pytest, so trusted
            path = case.attrib["classname"].removeprefix("tests.interaction.").replace(".", "/")
            name = f"{path}.py::{case.attrib['name']}"
            has_failed = case.find("failure") is not None or case.find("error") is not None
            found[name] = found.get(name, True) and not has_failed
        return found

    def output_tail(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Run]]:
    """Start both runs concurrently."""
    directory = tmp_path_factory.mktemp("sdk_suite")
    started = {era: Run(era, directory, *LEGS) for era in ERAS}
    yield started
    for run in started.values():
        run.process.kill()
        run.process.wait()


@pytest.mark.guard(GUARD)
@pytest.mark.parametrize("era", ERAS)
def test_suite_passes_through_the_proxy(era: str, runs: dict[str, Run], tmp_path: Path) -> None:
    run = runs[era]
    outcomes = run.outcomes()
    assert len(outcomes) >= MIN_TESTS, run.output_tail()
    expected = {row.test for row in DIFFERENCES if era in row.eras}
    assert expected <= outcomes.keys(), "rows for tests that are not in the suite"
    failed = {name for name, has_passed in outcomes.items() if not has_passed}
    unexpected = failed - expected
    if unexpected:
        second_run = Run(era, tmp_path, *(f"{SUITE}/{name}" for name in sorted(unexpected)))
        unexpected = {name for name, has_passed in second_run.outcomes().items() if not has_passed}
        assert unexpected == set(), second_run.output_tail()
    assert expected - failed == set(), "these tests pass: delete their rows, and their reasons in docs/proxy.md"


def test_every_difference_has_a_documented_reason() -> None:
    assert {row.reason for row in DIFFERENCES} == REASONS.keys()
    assert len({row.test for row in DIFFERENCES}) == len(DIFFERENCES)
    assert all(set(row.eras) <= set(ERAS) for row in DIFFERENCES)
    page = (ROOT / "docs" / "proxy.md").read_text(encoding="utf-8")
    for reason in REASONS.values():
        assert f"- {reason}\n" in page, reason
