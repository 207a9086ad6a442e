"""`jackstay prompts`: table and JSON."""

import sys
from collections.abc import Callable

from scripted.places import ROOT


def test_table(jackstay: Callable) -> None:
    done = jackstay("prompts")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "NAME    ARGUMENTS     DESCRIPTION",
        "review  code [style]  Reviews code.",
    ]


def test_json_output(jackstay: Callable) -> None:
    assert [prompt["name"] for prompt in jackstay("prompts", "--json").json["prompts"]] == ["review"]


def test_an_empty_list(jackstay: Callable) -> None:
    assert jackstay("prompts", more=("--no-prompts",)).out == "no prompts\n"


def test_an_unexpected_argument_is_a_usage_error(jackstay: Callable) -> None:
    assert jackstay("prompts", "review").code == 2


def test_one_prompt(jackstay: Callable) -> None:
    server = ("city=Rome", "--", sys.executable, str(ROOT / "examples" / "weather.py"))
    done = jackstay("prompts", "get", "--timeout", "240", "packing", *server, peer=False)
    assert (done.code, done.out.splitlines()[0]) == (0, "user:")
    done = jackstay("prompts", "get", "--timeout", "240", "pakcing", *server, peer=False)
    assert (done.code, done.err) == (2, "jackstay: unknown prompt 'pakcing'; did you mean 'packing'?\n")
    done = jackstay("prompts", "get", "review", "code=x")  # a server that lists it and does not provide it
    assert (done.code, "no method prompts/get" in done.err) == (1, True)
