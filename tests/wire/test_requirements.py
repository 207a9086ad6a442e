"""The ledger holds: every guarantee has tests, every test named there exists and says what it shows."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from wire.requirements import REQUIREMENTS, Requirement

ROOT = Path(__file__).parent.parent.parent
CITED = re.compile(r"\bG(\d+)\b")
# What may still be unshown, while it is being built; nothing else may claim less than the whole.
UNFINISHED: set[str] = set()


@cache
def docstrings(path: str) -> dict[str, str]:
    """The tests of a file by name, with what they say of themselves."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def faults(requirement: Requirement) -> list[str]:
    """What is wrong with a row; empty: it stands."""
    found = [] if requirement.tests else [f"{requirement.id} has no test"]
    for test in requirement.tests:
        path, _, name = test.partition("::")
        if not (ROOT / path).is_file() or name not in docstrings(path):
            found.append(f"{test} does not exist")
        elif requirement.id not in {f"G{number}" for number in CITED.findall(docstrings(path)[name])}:
            found.append(f"{test} does not cite {requirement.id}")
    return found


def test_every_guarantee_has_a_row_and_each_has_one() -> None:
    """The rows are those of the design, G1 to G21, in order."""
    assert [row.id for row in REQUIREMENTS] == [f"G{number}" for number in range(1, 22)]
    assert all(row.holds for row in REQUIREMENTS)


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda row: row.id)
def test_what_the_row_claims_is_shown(requirement: Requirement) -> None:
    """Both ways: the row names its tests, and they name it."""
    assert faults(requirement) == []
    assert len(set(requirement.tests)) == len(requirement.tests)


def test_only_what_is_known_to_be_unfinished_is_missing() -> None:
    """A gap is written down where it can be seen, and leaves this list when it is closed."""
    assert {row.id for row in REQUIREMENTS if row.missing} == UNFINISHED


def test_no_test_cites_a_guarantee_that_does_not_exist() -> None:
    """A wrong number would be a claim that nobody can follow."""
    ids = {row.id for row in REQUIREMENTS}
    unknown = [
        f"{path.relative_to(ROOT)}::{name} cites G{number}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name, words in docstrings(str(path.relative_to(ROOT))).items()
        for number in CITED.findall(words)
        if f"G{number}" not in ids
    ]
    assert unknown == []


@pytest.mark.parametrize(
    ("tests", "fault"),
    [
        ((), "G1 has no test"),
        (("tests/wire/test_nothing.py::test_x",), "does not exist"),
        (("tests/wire/test_requirements.py::test_x",), "does not exist"),
        (
            ("tests/wire/test_requirements.py::test_no_test_cites_a_guarantee_that_does_not_exist",),
            "does not cite G1",
        ),
    ],
)
def test_a_row_that_does_not_stand_is_found(tests: tuple[str, ...], fault: str) -> None:
    """Each way in which a row can be empty words."""
    (found,) = faults(Requirement("G1", "something", tests))
    assert found.endswith(fault)


def test_every_guarantee_is_a_line_of_the_page_for_users() -> None:
    """docs/guarantees.md says what the ledger says, in its words."""
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    lines = [
        tuple(cell.strip() for cell in line.split("|")[1:3]) for line in page.splitlines() if "| G" in line
    ]
    assert lines == [(row.id, row.holds) for row in REQUIREMENTS]
