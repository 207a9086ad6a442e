"""The checks of the official suite's results: every way in which a leg can fail."""

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.legs import LEGS, SUITE, Leg
from conformance.verdicts import FINISHED, Outcome, Verdict, judge, read_outcomes

TIME = "-2026-11-15T13-45-02-123Z"
PASSED = {"id": "a", "status": "SUCCESS", "description": "it does"}
FAILED = {"id": "b", "status": "FAILURE", "description": "it does", "errorMessage": "it did not"}
WARNED = {"id": "c", "status": "WARNING", "description": "it should"}
SKIPPED = {"id": "d", "status": "SKIPPED", "description": "not run"}
WIRE = {"id": "wire-schema-valid", "status": "SUCCESS", "description": "messages are valid"}


def write(home: Path, name: str, *checks: dict[str, Any], stdout: str = "", stderr: str = "") -> None:
    directory = home / f"{name}{TIME}"
    directory.mkdir(parents=True)
    (directory / "checks.json").write_text(json.dumps(checks))
    (directory / "stdout.txt").write_text(stdout)
    (directory / "stderr.txt").write_text(stderr)


def test_scenario_name_of_a_directory(tmp_path: Path) -> None:
    write(tmp_path / "server", "server-server-initialize", PASSED)
    write(tmp_path / "client", "auth/basic-cimd", PASSED, stdout=f"{FINISHED}\n")
    assert [outcome.scenario for outcome in read_outcomes("server", tmp_path / "server")] == ["server-initialize"]
    assert [outcome.scenario for outcome in read_outcomes("client", tmp_path / "client")] == ["auth/basic-cimd"]


@pytest.mark.parametrize(("checks", "verdict"), [
    ((PASSED, WIRE), Verdict.PASSED),
    ((PASSED, SKIPPED), Verdict.PASSED),
    ((PASSED, FAILED), Verdict.FAILED),
    ((PASSED, WARNED), Verdict.FAILED),
    ((PASSED, {**WIRE, "status": "FAILURE"}), Verdict.FAILED),
    ((SKIPPED, WIRE), Verdict.SKIPPED),
    ((), Verdict.SKIPPED),
])  # fmt: skip
def test_a_scenario_passes_if_something_succeeded_and_nothing_failed_or_warned(
    tmp_path: Path, checks: tuple[dict[str, Any], ...], verdict: Verdict
) -> None:
    write(tmp_path, "server-ping", *checks)
    (outcome,) = read_outcomes("server", tmp_path)
    assert outcome.verdict is verdict


def test_a_client_that_did_not_finish_has_failed(tmp_path: Path) -> None:
    """The suite ignores the exit code of the client."""
    write(tmp_path, "initialize", PASSED, stdout="", stderr="Traceback\nValueError: no\n")
    (outcome,) = read_outcomes("client", tmp_path)
    assert outcome.verdict is Verdict.FAILED
    assert outcome.problems == ("the client did not finish: ValueError: no",)


def leg(count: int, *, has_extensions: bool = False) -> Leg:
    return Leg("server", "x", (), count, has_extensions)


GOOD = Outcome("good", Verdict.PASSED, 2)
BAD = Outcome("bad", Verdict.FAILED, 1, ("FAILURE b: it did not",))
EMPTY = Outcome("empty", Verdict.SKIPPED, 0)


@pytest.mark.parametrize(("row", "outcomes", "skipped", "wrong"), [
    (leg(1), [GOOD], (), []),
    (leg(1), [BAD], (), ["bad: FAILURE b: it did not"]),
    (leg(1), [EMPTY], (), ["empty checked nothing"]),
    (leg(2), [GOOD], (), ["1 scenarios ran, expected 2"]),
    (leg(0), [], (), []),
    (leg(1), [GOOD, GOOD], (), ["good ran more than once"]),
    (leg(2), [GOOD, EMPTY], ("empty",), []),
    (leg(2), [GOOD, BAD], ("good", "bad"),
     ["good is checked: remove it from SKIPPED in legs.py", "bad is checked: remove it from SKIPPED in legs.py"]),
])  # fmt: skip
def test_problems_of_a_leg(row: Leg, outcomes: list[Outcome], skipped: tuple[str, ...], wrong: list[str]) -> None:
    assert judge(row, outcomes, frozenset(skipped)) == wrong


def test_every_revision_has_a_leg_for_each_side_and_the_suite_is_locked() -> None:
    for side in ("server", "client"):
        names = [row.name for row in LEGS if row.side == side]
        assert names[:4] == ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
    assert SUITE.lock is not None
    locked = json.loads(SUITE.lock.read_text(encoding="utf-8"))["packages"]
    name, _, version = SUITE.packages[0].rpartition("@")
    assert locked[f"node_modules/{name}"]["version"] == version
    assert locked[""]["dependencies"] == {name: version}
