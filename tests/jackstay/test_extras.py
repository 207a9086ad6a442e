"""The extras that the code names are the extras that the distribution has."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from jackstay.extras import EXTRAS, install_command, missing_modules

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
OPTIONAL: dict[str, list[str]] = PROJECT["optional-dependencies"]

# distribution -> the module it brings, where the two differ
MODULES = {
    "html-to-markdown": "html_to_markdown",
    "opentelemetry-api": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "pyyaml": "yaml",
}


def modules_of(extra: str) -> set[str]:
    """The modules that installing `extra` brings by itself, extras of our own included."""
    found: set[str] = set()
    for requirement in OPTIONAL[extra]:
        name = re.split(r"[^\w-]", requirement, maxsplit=1)[0]
        if name == "jackstay":
            inner = re.findall(r"\[(.*)\]", requirement)[0].split(",")
            found = found.union(*(modules_of(one) for one in inner))
        elif ";" not in requirement:  # with a marker it is not there for everyone
            found.add(MODULES.get(name, name))
    return found


def test_the_distribution_has_the_promised_extras() -> None:
    assert set(OPTIONAL) == {"http", "schema", "apcore", "procontext", "fast", "otel", "all", "dev"}


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_the_modules_that_are_looked_for(extra: str) -> None:
    assert set(EXTRAS[extra]) == modules_of(extra)
    assert list(EXTRAS[extra]) == sorted(EXTRAS[extra])


def test_all_brings_everything() -> None:
    assert modules_of("all") == {module for modules in EXTRAS.values() for module in modules}


def test_every_application_has_the_extra_and_the_command_of_its_name() -> None:
    assert PROJECT["scripts"].keys() == {"jackstay", "apcore-mcp", "procontext"}
    for command, entry in PROJECT["scripts"].items():
        assert entry == f"{command.replace('-', '_')}.cli:main"


def test_an_installed_module_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "planted", ("json", "no_such_module_anywhere", "sys"))
    assert missing_modules("planted") == ("no_such_module_anywhere",)
    assert missing_modules("schema") == ()


def test_looking_for_a_module_does_not_import_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "planted", ("this",))
    assert missing_modules("planted") == ()
    assert "this" not in sys.modules


def test_an_unknown_extra_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="htpp"):
        missing_modules("htpp")


def test_the_command_is_quoted_for_a_shell() -> None:
    assert install_command("http") == "pip install 'jackstay[http]'"
