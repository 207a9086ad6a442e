"""`mooring prompts`: the table, and the same as JSON."""

from collections.abc import Callable


def test_the_table_has_names_and_arguments(mooring: Callable) -> None:
    shown = mooring("prompts")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        "NAME    ARGUMENTS     DESCRIPTION",
        "review  code [style]  Reviews code.",
    ]


def test_json_is_what_the_server_sent(mooring: Callable) -> None:
    assert [prompt["name"] for prompt in mooring("prompts", "--json").json["prompts"]] == ["review"]


def test_none_at_all_is_said(mooring: Callable) -> None:
    assert mooring("prompts", more=("--no-prompts",)).out == "no prompts\n"


def test_a_word_too_many_is_a_misuse(mooring: Callable) -> None:
    assert mooring("prompts", "review").code == 2
