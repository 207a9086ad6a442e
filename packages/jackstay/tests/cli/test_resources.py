"""`jackstay resources`: tables and JSON."""

from collections.abc import Callable

import pytest

from jackstay.cli._resources import _show


def test_resources_and_templates_are_two_tables(jackstay: Callable) -> None:
    done = jackstay("resources")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "URI        NAME   TYPE        BYTES  DESCRIPTION",
        "note://1   first  text/plain  5      A note.",
        "bytes://1  bytes",
        "",
        "TEMPLATE     NAME   TYPE  DESCRIPTION",
        "note://{id}  notes        Any note.",
    ]


def test_json_has_both_lists(jackstay: Callable) -> None:
    done = jackstay("resources", "--json").json
    assert [resource["uri"] for resource in done["resources"]] == ["note://1", "bytes://1"]
    assert [template["uriTemplate"] for template in done["resourceTemplates"]] == ["note://{id}"]


def test_a_server_without_templates_list(jackstay: Callable) -> None:
    assert "TEMPLATE" not in jackstay("resources", more=("--no-templates=-32601",)).out


def test_another_error_of_templates_list_fails(jackstay: Callable) -> None:
    done = jackstay("resources", more=("--no-templates=-32603",))
    assert (done.code, done.out) == (1, "")
    assert "no templates [code -32603]" in done.err


def test_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    _show([], [])
    assert capsys.readouterr().out == "no resources\n"


def test_templates_without_resources(jackstay: Callable) -> None:
    assert jackstay("resources", more=("--no-resources",)).out.startswith("TEMPLATE")


def test_an_unexpected_argument_is_a_usage_error(jackstay: Callable) -> None:
    assert jackstay("resources", "note://1").code == 2
