"""Every guarantee has tests, and every listed test exists and cites its guarantee."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from wire.requirements import REQUIREMENTS, Requirement

ROOT = Path(__file__).parent.parent.parent
CITED = re.compile(r"\bG(\d+)\b")
# Guarantees that are not completely tested yet.
UNFINISHED: set[str] = set()


@cache
def docstrings(path: str) -> dict[str, str]:
    """The tests of a file, with their docstrings."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def faults(requirement: Requirement) -> list[str]:
    """The errors of a row."""
    found = [] if requirement.tests else [f"{requirement.id} has no test"]
    for test in requirement.tests:
        path, _, name = test.partition("::")
        if not (ROOT / path).is_file() or name not in docstrings(path):
            found.append(f"{test} does not exist")
        elif requirement.id not in {f"G{number}" for number in CITED.findall(docstrings(path)[name])}:
            found.append(f"{test} does not cite {requirement.id}")
    return found


def test_every_guarantee_has_one_row() -> None:
    """G1 to G26, in order."""
    assert [row.id for row in REQUIREMENTS] == [f"G{number}" for number in range(1, 27)]
    assert all(row.text for row in REQUIREMENTS)


def test_every_row_names_tests_that_cite_it() -> None:
    assert [fault for requirement in REQUIREMENTS for fault in faults(requirement)] == []
    for requirement in REQUIREMENTS:
        assert len(set(requirement.tests)) == len(requirement.tests), requirement.id


def test_only_known_gaps_are_missing() -> None:
    assert {row.id for row in REQUIREMENTS if row.missing} == UNFINISHED


def test_no_test_cites_a_guarantee_that_does_not_exist() -> None:
    ids = {row.id for row in REQUIREMENTS}
    unknown = [
        f"{path.relative_to(ROOT)}::{name} cites G{number}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name, docstring in docstrings(str(path.relative_to(ROOT))).items()
        for number in CITED.findall(docstring)
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
def test_an_invalid_row_is_found(tests: tuple[str, ...], fault: str) -> None:
    (found,) = faults(Requirement("G1", "something", tests))
    assert found.endswith(fault)


def test_every_guarantee_is_in_the_docs() -> None:
    """docs/guarantees.md has the same text."""
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    lines = [tuple(cell.strip() for cell in line.split("|")[1:3]) for line in page.splitlines() if "| G" in line]
    assert lines == [(row.id, row.text) for row in REQUIREMENTS]
