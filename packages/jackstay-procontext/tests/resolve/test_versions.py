"""Versions in queries, and which versions of a documentation fit."""

import pytest

from procontext.resolve import allows, best_version, numbers, requested_version, wanted_numbers

QUERIES = [
    ("react@18", "18"),
    ("Django>=4.2,<5", ">=4.2,<5"),
    ('"react": "^18.2.0"', "^18.2.0"),
    ("SQLAlchemy (>=2.0,<3.0)", ">=2.0,<3.0"),
    ("vue 3", "3"),
    ("pydantic v2", "2"),
    ("Next.js 14 app router", "14"),
    ("@tiptap/core@^2.1", "^2.1"),
    ("pip install 'django[argon2]~=4.2; python_version > \"3\"'", "~=4.2"),
    ("requests-2.31.0.tar.gz", "2.31.0"),
    ("flask_sqlalchemy-3.1.1-py3-none-any.whl", "3.1.1"),
    ("github.com/gin-gonic/gin@v1.9.1", "v1.9.1"),
    ("flask", None),
    ("web3.js", None),
    ("react@latest", None),
    ("es6 modules", None),
    ("import numpy as np", None),
]

FITS = [
    ("4.2.11", "4.2 4.2.16 v4.2", "5.0 4.1 dev"),
    ("18", "18.3.1 18.x", "19"),
    (">=4.2,<5", "4.2 4.9 4", "5.1 5 3.9"),
    ("^18.2.0", "18 18.3", "19.0 18.1"),
    ("^0.3.1", "0.3.5", "0.4 0.2"),
    ("~=2.1", "2.5", "3 2.0"),
    ("~1.2.3", "1.2.9", "1.3"),
    ("1.x", "1.9", "2.0"),
    ("<=2.1", "2.1.5 1.0", "2.2"),
    ("!=2.1,>2", "2.2", "2.1"),
    ("^17 || ^18", "18.1 17", "19"),
]


@pytest.mark.parametrize(("query", "version"), QUERIES)
def test_version_in_a_query(query: str, version: str | None) -> None:
    assert requested_version(query) == version


@pytest.mark.parametrize(("wanted", "right", "wrong"), FITS)
def test_versions_that_fit(wanted: str, right: str, wrong: str) -> None:
    assert [version for version in right.split() if not allows(wanted, version)] == []
    assert [version for version in wrong.split() if allows(wanted, version)] == []


def test_best_version() -> None:
    assert best_version("4.2.11", ["5.0", "4", "4.2", "4.1"]) == "4.2"
    assert best_version(">=4,<5", ["5.0", "4.2", "4.1"]) == "4.2"
    assert best_version("18", ["19", "18.2", "18.3"]) == "18.3"
    assert best_version("3", ["1", "2"]) is None


def test_numbers() -> None:
    assert numbers("v4.2rc1") == (4, 2)
    assert numbers("latest") == ()
    assert wanted_numbers("<5,>=4.2") == (4, 2)
    assert wanted_numbers("*") == ()
