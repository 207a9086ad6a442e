"""`jackstay prompts`: table and JSON."""

from collections.abc import Callable


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
