"""`jackstay prompts`: the table, and the same as JSON."""

from collections.abc import Callable


def test_the_table_has_names_and_arguments(jackstay: Callable) -> None:
    shown = jackstay("prompts")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        "NAME    ARGUMENTS     DESCRIPTION",
        "review  code [style]  Reviews code.",
    ]


def test_json_is_what_the_server_sent(jackstay: Callable) -> None:
    assert [prompt["name"] for prompt in jackstay("prompts", "--json").json["prompts"]] == ["review"]


def test_none_at_all_is_said(jackstay: Callable) -> None:
    assert jackstay("prompts", more=("--no-prompts",)).out == "no prompts\n"


def test_a_word_too_many_is_a_misuse(jackstay: Callable) -> None:
    assert jackstay("prompts", "review").code == 2
