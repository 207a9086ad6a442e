"""The scripts: every command, option and choice is in each, and zsh's first line stays the first."""

import pytest

from jackstay.shell import SHELLS, Program, completion_script
from jackstay.shell._fish import quoted as fish_word
from jackstay.shell._scripts import PLACES
from jackstay.shell._zsh import quoted as zsh_word


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_every_command_option_and_choice(shell: str, boat: Program, raft: Program) -> None:
    """Completion: sub-commands, options, choices, for all shells from the same rows."""
    written = completion_script(boat, shell)
    words = [command.name for command in boat.commands]
    for command in boat.commands:
        words += [flag for option in command.options for flag in option.flags]
        words += [choice for value in command.words for choice in value.choices]
    flags = {
        f"-{'l' if word.startswith('--') else 's'} {word.lstrip('-')}" for word in words if word[0] == "-"
    }
    wanted = {*(word for word in words if word[0] != "-"), *flags} if shell == "fish" else set(words)
    assert [word for word in sorted(wanted) if word not in written] == []
    assert "unseen" not in written
    assert "@" not in written.replace("$@", "").replace("(@", "").replace("[@", "")  # no mark is left
    assert "left right" in completion_script(raft, shell)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_says_where_it_comes_from_and_where_it_goes(shell: str, raft: Program) -> None:
    lines = completion_script(raft, shell).splitlines()
    note = lines[1] if shell == "zsh" else lines[0]
    place = PLACES[shell].format(name="small-raft")
    assert note == f"# Written by: small-raft --print-completion {shell} > {place}"
    assert (lines[0] == "#compdef small-raft") is (shell == "zsh")


def test_an_unknown_shell_is_a_key_error(raft: Program) -> None:
    with pytest.raises(KeyError):
        completion_script(raft, "powershell")


def test_quotes_in_a_summary_do_not_end_the_word(boat: Program) -> None:
    assert zsh_word("it's") == "'it'\\''s'"
    assert fish_word("it's \\ this") == "'it\\'s \\\\ this'"
    assert "'load:load what'\\''s there'" in completion_script(boat, "zsh")
    assert "-d 'load what\\'s there'" in completion_script(boat, "fish")
    assert "[the captain'\\''s 50% \\[file\\]\\: names]" in completion_script(boat, "zsh")
