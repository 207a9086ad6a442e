"""Run the test suite of apcore-mcp, from its source distribution, against our bridge (`make public-suite`).

The suite runs in the environment of the peer `apcore_suite`, which has no `apcore_mcp` of its own. A failing test must
be in `expected.txt`, and every row there must fail; `--write` writes the file again and keeps the classes.
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).parents[2]))

from interop.peers import BY_NAME
from scripted.places import SOURCES

PEER = BY_NAME["apcore_suite"]
EXPECTED = Path(__file__).with_name("expected.txt")
SECONDS: Final = 500.0

# Why a test may fail.
CLASSES: Final = {
    "internals": "it tests how the other package is built: private names, patches, stubs of apcore, SDK types",
    "departure": "it tests behaviour that differs on purpose (docs/migration/apcore-mcp.md, docs/design/departures.md)",
    "missing": "it tests a feature that is not built",
}

# Files that are not run. The first measures time; its six tests pass on a machine that is not loaded. The second starts
# programs with the sources of apcore-mcp instead of ours, which patch its private classes for standard output. (That
# nothing but the protocol is on standard output is tested with clients of the official SDK.)
NOT_RUN: Final = ("tests/performance", "tests/test_stdio_isolation.py")


class Outcomes(NamedTuple):
    """The ids of the tests, or of files that cannot be imported; and the last output."""

    passed: frozenset[str]
    failed: frozenset[str]
    skipped: frozenset[str]
    messages: dict[str, str]
    output: str


def run_suite(tests: Sequence[str] = ("tests",)) -> Outcomes:
    """Run these tests and return their outcomes."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        # With `CI` set, the suite fails where it otherwise skips: for fixtures that its distribution does not contain.
        environment = {
            name: value
            for name, value in os.environ.items()
            if name != "CI" and not name.startswith(("PYTEST", "COV", "APCORE"))
        }
        done = subprocess.run(
            [
                PEER.python,
                *("-m", "pytest", "-q", "--tb=line", "--continue-on-collection-errors", "-p", "no:cacheprovider"),
                *("-p", "plugin", "-o", "asyncio_default_fixture_loop_scope=function", f"--junitxml={report}"),
                *(f"--ignore={path}" for path in NOT_RUN),
                *tests,
            ],
            cwd=PEER.source,
            env={
                **environment,
                "PYTHONPATH": os.pathsep.join(map(str, (SOURCES["jackstay"], SOURCES["apcore_mcp"], EXPECTED.parent))),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if not report.exists():
            raise RuntimeError(f"the suite did not run:\n{done.stdout[-3000:]}")
        return _read(report, done.stdout[-3000:])


def _read(report: Path, output: str) -> Outcomes:
    kinds: dict[str, str] = {}
    messages: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):  # written by pytest, so trusted
        # A file that cannot be imported has no class name.
        names = (case.attrib["classname"] or case.attrib["name"]).split(".")
        classes = [name for name in names if name[:1].isupper()]
        path = "/".join(name for name in names if not name[:1].isupper())
        parts = [*classes, case.attrib["name"]] if case.attrib["classname"] else []
        test = "::".join((f"{path}.py", *parts))
        for kind in ("failure", "error", "skipped"):
            found = case.find(kind)
            if found is not None:
                kinds[test] = "skipped" if kind == "skipped" else "failed"
                messages[test] = found.attrib.get("message", "")
        kinds.setdefault(test, "passed")
    by_kind = {kind: frozenset(test for test, of in kinds.items() if of == kind) for kind in set(kinds.values())}
    none: frozenset[str] = frozenset()
    return Outcomes(
        by_kind.get("passed", none), by_kind.get("failed", none), by_kind.get("skipped", none), messages, output
    )


def read_expected() -> dict[str, str]:
    """Return the class of every test that is expected to fail."""
    rows: dict[str, str] = {}
    for line in EXPECTED.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            kind, _, test = line.partition(" ")
            rows[test] = kind
    return rows


def problems_of(outcomes: Outcomes, expected: dict[str, str]) -> list[str]:
    """Return a line for every difference between the outcomes and the table; failed tests run a second time."""
    new = sorted(outcomes.failed - expected.keys())
    if new:
        again = run_suite([test for test in new if "::" in test] or ["tests"])
        new = [test for test in new if test in again.failed]
    found = [f"fails: {test}: {outcomes.messages[test][:200]}" for test in new]
    found += [f"passes, so its row must go: {test}" for test in sorted(expected.keys() & outcomes.passed)]
    known = outcomes.passed | outcomes.failed | outcomes.skipped
    found += [f"is not a test of the suite: {test}" for test in sorted(expected.keys() - known)]
    return found


def write_expected(outcomes: Outcomes, expected: dict[str, str]) -> None:
    """Write the table again: rows keep their classes, new ones are "missing"."""
    head = [f"# {kind}: {reason}." for kind, reason in CLASSES.items()]
    rows = [f"{expected.get(test, 'missing')} {test}" for test in sorted(outcomes.failed)]
    EXPECTED.write_text("\n".join([*head, *rows, ""]), encoding="utf-8")


def summary(outcomes: Outcomes, expected: dict[str, str]) -> str:
    """Return the numbers."""
    counts = Counter(expected.get(test, "new") for test in outcomes.failed)
    total = len(outcomes.passed) + len(outcomes.failed) + len(outcomes.skipped)
    classes = ", ".join(f"{counts[kind]} {kind}" for kind in (*CLASSES, "new"))
    return f"{len(outcomes.passed)} of {total} passed, {len(outcomes.skipped)} skipped; failed: {classes}"


def main(arguments: Sequence[str]) -> int:
    """Run the suite, compare it with the table, and return the exit code."""
    outcomes, expected = run_suite(), read_expected() if EXPECTED.exists() else {}
    if "--write" in arguments:
        write_expected(outcomes, expected)
        expected = read_expected()
    problems = problems_of(outcomes, expected)
    print(*problems, summary(outcomes, expected), sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
