"""What a leg's results mean: which scenarios passed, which failed and why, and whether that is what must be.

Stricter than the suite, whose exit code lets warnings of a server, scenarios that checked nothing and clients that ended
with an error pass. A scenario passes if it checked something, nothing failed or warned, and the client, where one is
under test, came to its end.

The scenarios that may fail are those that docs/unsupported.md names, and they must: one that passes is a line to take out.

Must never know a process. Above: `run.py`. Below: `legs.py`, the files that the suite writes.
"""

import json
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from conformance.legs import Leg

# The last line of a client that came to its end; see client.py.
FINISHED = "finished"

# Every scenario has these in addition: they say nothing of what the scenario is about.
_WIRE = "wire-schema-"
_STAMP = re.compile(r"-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d+Z$")
_SECTION = re.compile(r"^## Extensions$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


class Verdict(Enum):
    """What became of a scenario."""

    PASSED = "passed"
    FAILED = "failed"
    # Nothing was checked.
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """One scenario: its verdict, how many checks succeeded, and what is wrong, in the suite's words."""

    scenario: str
    verdict: Verdict
    checks: int
    problems: tuple[str, ...] = ()


def read_outcome(side: str, directory: Path, home: Path) -> Outcome:
    """The outcome in a directory that the suite wrote: `[server-]SCENARIO-TIME`, where SCENARIO may have a slash."""
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
        said = (directory / "stderr.txt").read_text(encoding="utf-8").strip().splitlines()
        problems.append(f"the client did not come to its end: {said[-1] if said else 'it said nothing'}")
    verdict = Verdict.FAILED if problems else Verdict.PASSED if done else Verdict.SKIPPED
    return Outcome(scenario, verdict, len(done), tuple(problems))


def read_outcomes(side: str, home: Path) -> list[Outcome]:
    """The outcomes of a leg."""
    found = sorted(path.parent for path in home.rglob("checks.json"))
    return [read_outcome(side, directory, home) for directory in found]


def read_unsupported(page: str) -> frozenset[str]:
    """The scenarios that the section "Extensions" of docs/unsupported.md names."""
    section = _SECTION.search(page)
    rows = section[1].splitlines() if section else []
    return frozenset(name for row in rows if row.startswith("| ") for name in re.findall(r"`([^`]+)`", row))


def judge(leg: Leg, outcomes: list[Outcome], unsupported: frozenset[str]) -> list[str]:
    """What is wrong with a leg, in words; nothing if all is as it must be."""
    wrong = []
    allowed = unsupported if leg.has_extensions else frozenset()
    for outcome in outcomes:
        if outcome.scenario in allowed:
            if outcome.verdict is Verdict.PASSED:
                wrong.append(
                    f"{outcome.scenario} passes: take it out of the extensions in docs/unsupported.md"
                )
        elif outcome.verdict is Verdict.SKIPPED:
            wrong.append(f"{outcome.scenario} checked nothing")
        elif outcome.verdict is Verdict.FAILED:
            wrong.extend(f"{outcome.scenario}: {problem}" for problem in outcome.problems)
    names = [outcome.scenario for outcome in outcomes]
    wrong.extend(f"{name} ran more than once" for name in sorted(set(names)) if names.count(name) > 1)
    if len(set(names)) != leg.count:
        wrong.append(f"{len(set(names))} scenarios ran, and there must be {leg.count}")
    return wrong
