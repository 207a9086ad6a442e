"""`jackstay resources`: both tables, and the same as JSON."""

from collections.abc import Callable

import pytest

from jackstay.cli._resources import _show


def test_resources_and_templates_are_two_tables(jackstay: Callable) -> None:
    shown = jackstay("resources")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        "URI        NAME   TYPE        BYTES  DESCRIPTION",
        "note://1   first  text/plain  5      A note.",
        "bytes://1  bytes",
        "",
        "TEMPLATE     NAME   TYPE  DESCRIPTION",
        "note://{id}  notes        Any note.",
    ]


def test_json_has_both_lists(jackstay: Callable) -> None:
    shown = jackstay("resources", "--json").json
    assert [resource["uri"] for resource in shown["resources"]] == ["note://1", "bytes://1"]
    assert [template["uriTemplate"] for template in shown["resourceTemplates"]] == ["note://{id}"]


def test_a_server_that_does_not_know_templates_has_none(jackstay: Callable) -> None:
    assert "TEMPLATE" not in jackstay("resources", more=("--no-templates=-32601",)).out


def test_any_other_refusal_of_templates_is_a_failure(jackstay: Callable) -> None:
    shown = jackstay("resources", more=("--no-templates=-32603",))
    assert (shown.code, shown.out) == (1, "")
    assert "no templates [code -32603]" in shown.err


def test_none_at_all_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    _show([], [])
    assert capsys.readouterr().out == "no resources\n"


def test_templates_alone_are_shown(jackstay: Callable) -> None:
    assert jackstay("resources", more=("--no-resources",)).out.startswith("TEMPLATE")


def test_a_word_too_many_is_a_misuse(jackstay: Callable) -> None:
    assert jackstay("resources", "note://1").code == 2
