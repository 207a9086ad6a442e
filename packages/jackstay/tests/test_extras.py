"""The extras in the code are those of the distribution."""

import re
import sys
import tomllib

import pytest

from jackstay.extras import EXTRAS, install_command, missing_modules
from scripted.places import ROOT

PROJECTS = {
    name: tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text())["project"]
    for name in ("jackstay", "jackstay-apcore", "jackstay-procontext")
}
PROJECT = PROJECTS["jackstay"]
OPTIONAL: dict[str, list[str]] = PROJECT["optional-dependencies"]

# Distribution -> module, if the names differ.
MODULES = {
    "opentelemetry-api": "opentelemetry",
    "pyyaml": "yaml",
}


def modules_of(extra: str) -> set[str]:
    """The modules that `extra` installs, including those of nested extras."""
    found: set[str] = set()
    for requirement in OPTIONAL[extra]:
        name = re.split(r"[^\w-]", requirement, maxsplit=1)[0]
        if name in ("jackstay-apcore", "jackstay-procontext"):
            continue  # another distribution
        if name == "jackstay":
            inner = re.findall(r"\[(.*)\]", requirement)[0].split(",")
            found = found.union(*(modules_of(one) for one in inner))
        elif ";" not in requirement:  # with a marker it is not installed everywhere
            found.add(MODULES.get(name, name))
    return found


# Agent frameworks. They conflict with each other, so the extra `all` has none of them.
FRAMEWORKS = {
    "adk",
    "autogen",
    "crewai",
    "langchain",
    "llama-index",
    "openai-agents",
    "pydantic-ai",
    "semantic-kernel",
    "smolagents",
    "strands",
}


def test_the_distribution_has_every_extra() -> None:
    expected = {"http", "schema", "openapi", "skills", "apcore", "procontext", "fast", "otel", "redis", "dev", "all"}
    assert set(OPTIONAL) == expected | FRAMEWORKS


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_its_modules(extra: str) -> None:
    assert set(EXTRAS[extra]) == modules_of(extra)
    assert list(EXTRAS[extra]) == sorted(EXTRAS[extra])


def test_all_installs_everything() -> None:
    assert modules_of("all") == {module for modules in EXTRAS.values() for module in modules}


@pytest.mark.parametrize(
    ("distribution", "command"),
    [("jackstay", "jackstay"), ("jackstay-apcore", "apcore-mcp"), ("jackstay-procontext", "procontext")],
)
def test_every_distribution_has_the_command_of_its_package(distribution: str, command: str) -> None:
    assert PROJECTS[distribution]["name"] == distribution
    entry = f"{command.replace('-', '_')}.cli:main"
    assert PROJECTS[distribution]["scripts"] == {command: entry, distribution: entry}


@pytest.mark.parametrize("extra", ["apcore", "procontext"])
def test_an_application_is_installed_by_the_extra_of_its_name(extra: str) -> None:
    assert [requirement.partition(">=")[0] for requirement in OPTIONAL[extra]] == [f"jackstay-{extra}"]


def test_an_installed_module_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "planted", ("json", "no_such_module_anywhere", "sys"))
    assert missing_modules("planted") == ("no_such_module_anywhere",)
    assert missing_modules("schema") == ()


def test_checking_for_a_module_does_not_import_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "planted", ("this",))
    assert missing_modules("planted") == ()
    assert "this" not in sys.modules


def test_an_unknown_extra_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="htpp"):
        missing_modules("htpp")


def test_the_command_is_quoted_for_a_shell() -> None:
    assert install_command("http") == "pip install 'jackstay[http]'"
