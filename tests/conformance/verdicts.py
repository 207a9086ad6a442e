"""Check the results of a leg.

Stricter than the exit code of the suite: warnings, scenarios without checks, and clients that failed are failures.
Scenarios that the suite skips (`SKIPPED` in legs.py) must be skipped; if one is checked, its line must be removed.
"""

import json
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from conformance.legs import SKIPPED, Leg

# The last line of a client that succeeded; see client.py.
FINISHED = "finished"

# Checks that every scenario has in addition to its own.
_WIRE = "wire-schema-"
_STAMP = re.compile(r"-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d+Z$")


class Verdict(Enum):
    """The result of a scenario."""

    PASSED = "passed"
    FAILED = "failed"
    # Nothing was checked.
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """One scenario: verdict, number of successful checks, and the messages of the suite."""

    scenario: str
    verdict: Verdict
    checks: int
    problems: tuple[str, ...] = ()


def read_outcome(side: str, directory: Path, home: Path) -> Outcome:
    """Read a result directory: `[server-]SCENARIO-TIME`, where SCENARIO may contain a slash."""
    scenario = _STAMP.sub("", directory.relative_to(home).as_posix())
    if side == "server":
        scenario = scenario.removeprefix("server-")
    checks = json.loads((directory / "checks.json").read_text(encoding="utf-8"))
    own = [check for check in checks if not check["id"].startswith(_WIRE)]
    problems = [
        f"{check['status']} {check['id']}: {check.get('errorMessage') or check['description']}"
        for check in checks
        if check["status"] in ("FAILURE", "WARNING")
    ]
    done = [check for check in own if check["status"] == "SUCCESS"]
    if side == "client" and (directory / "stdout.txt").read_text(encoding="utf-8").split()[-1:] != [FINISHED]:
        stderr = (directory / "stderr.txt").read_text(encoding="utf-8").strip().splitlines()
        problems.append(f"the client did not finish: {stderr[-1] if stderr else 'no output'}")
    verdict = Verdict.FAILED if problems else Verdict.PASSED if done else Verdict.SKIPPED
    return Outcome(scenario, verdict, len(done), tuple(problems))


def read_outcomes(side: str, home: Path) -> list[Outcome]:
    """Read the outcomes of a leg."""
    found = sorted(path.parent for path in home.rglob("checks.json"))
    return [read_outcome(side, directory, home) for directory in found]


def judge(leg: Leg, outcomes: list[Outcome], skipped: frozenset[str] = SKIPPED) -> list[str]:
    """Return the problems of a leg."""
    wrong = []
    for outcome in outcomes:
        if outcome.verdict is Verdict.SKIPPED:
            if outcome.scenario not in skipped:
                wrong.append(f"{outcome.scenario} checked nothing")
        elif outcome.scenario in skipped:
            wrong.append(f"{outcome.scenario} is checked: remove it from SKIPPED in legs.py")
        elif outcome.verdict is Verdict.FAILED:
            wrong.extend(f"{outcome.scenario}: {problem}" for problem in outcome.problems)
    names = [outcome.scenario for outcome in outcomes]
    wrong.extend(f"{name} ran more than once" for name in sorted(set(names)) if names.count(name) > 1)
    if len(set(names)) != leg.count:
        wrong.append(f"{len(set(names))} scenarios ran, expected {leg.count}")
    return wrong
