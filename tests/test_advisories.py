"""No lower bound of a dependency admits a release with a vulnerability that is in tests/advisories.toml."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
# The workspace, whose dependencies are the tools of developers, and what users install.
PROJECTS: list[dict[str, Any]] = [
    tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    for path in (ROOT / "pyproject.toml", *sorted(ROOT.glob("packages/*/pyproject.toml")))
]
PROJECT_NAMES = {project["name"] for project in PROJECTS}
ADVISORIES: list[dict[str, str]] = tomllib.loads((ROOT / "tests" / "advisories.toml").read_text(encoding="utf-8"))[
    "advisory"
]

REQUIREMENTS = [
    (extra, Requirement(line))
    for project in PROJECTS
    for extra, lines in {"": project["dependencies"], **project.get("optional-dependencies", {})}.items()
    for line in lines
]


def lower_bound(requirement: Requirement) -> Version | None:
    """The oldest release that the requirement admits; None: any."""
    bounds = [Version(spec.version) for spec in requirement.specifier if spec.operator in (">=", "==", "~=")]
    return max(bounds, default=None)


def admitted(requirement: Requirement, advisories: list[dict[str, str]]) -> list[str]:
    """The advisories for releases that the requirement admits."""
    bound = lower_bound(requirement)
    return [
        f"{row['id']}: {row['package']} before {row['fixed']}: {row['what']}"
        for row in advisories
        if canonicalize_name(row["package"]) == canonicalize_name(requirement.name)
        and (bound is None or bound < Version(row["fixed"]))
    ]


def test_no_lower_bound_admits_a_release_with_a_known_vulnerability() -> None:
    assert [found for _, requirement in REQUIREMENTS for found in admitted(requirement, ADVISORIES)] == []


def test_everything_that_users_install_has_a_lower_bound() -> None:
    for extra, requirement in REQUIREMENTS:
        is_own = canonicalize_name(requirement.name) in PROJECT_NAMES
        assert extra == "dev" or is_own or lower_bound(requirement) is not None, requirement


def test_an_advisory_names_a_dependency_a_release_and_a_description() -> None:
    names = {canonicalize_name(requirement.name) for _, requirement in REQUIREMENTS}
    for row in ADVISORIES:
        assert set(row) == {"package", "fixed", "id", "what"}, row
        assert re.fullmatch(r"(CVE|GHSA|PYSEC)-[\w-]+", row["id"])
        assert Version(row["fixed"])
        assert row["what"]
        assert canonicalize_name(row["package"]) in names, f"nothing depends on it any more; delete the row: {row}"


def test_a_server_over_http_never_runs_on_an_old_h11() -> None:
    """uvicorn requires h11 without a bound that excludes the vulnerability, and uses it where httptools is missing."""
    (http,) = (project["optional-dependencies"]["http"] for project in PROJECTS if project["name"] == "jackstay")
    products = [project["dependencies"] for project in PROJECTS if project["name"].startswith("jackstay-")]
    for lines in (http, *(lines for lines in products if lines != ["jackstay"])):
        assert "h11" in [Requirement(line).name for line in lines]


@pytest.mark.parametrize(
    ("line", "is_admitted"),
    [
        ("x", True),
        ("x>=1.1", True),
        ("x>=1.2", False),
        ("x==1.1.9", True),
        ("X>=1.10,<2", False),
        ("y>=1", False),
    ],
)
def test_a_bound_that_is_too_low_is_noticed(line: str, is_admitted: bool) -> None:
    rows = [{"package": "x", "fixed": "1.2", "id": "CVE-1", "what": "a vulnerability"}]
    assert bool(admitted(Requirement(line), rows)) is is_admitted
