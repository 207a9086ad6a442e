"""Completion in bash: what the function returns for a line, and the tab key in a real shell."""

from collections.abc import Callable
from pathlib import Path

import pytest

from jackstay.shell import Program, completion_script
from scripted.terminal import BASH, PROMPT, bash_answers, shell

Complete = Callable[..., list[list[str]]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files to complete, and a program that prints server names."""
    (tmp_path / "crates").mkdir()
    (tmp_path / "crew.json").touch()
    (tmp_path / "two words").touch()
    program = tmp_path / "boat"
    program.write_text('#!/bin/sh\necho "called $*" >> log\nprintf "harbour\\nhigh sea\\n\\$(touch caught)\\n"\n')
    program.chmod(0o755)
    return tmp_path


@pytest.fixture
def complete(folder: Path) -> Complete:
    """Complete these lines in one bash process."""

    def run(program: Program, *lines: str) -> list[list[str]]:
        return bash_answers(completion_script(program, "bash"), program.name, lines, folder)

    return run


# line, of which the last word is completed -> completions
LINES = {
    "boat ''": ["query", "load"],
    "boat l": ["load"],
    "boat -": ["-h", "--help"],
    "boat query --": ["--help", "--config", "--level", "--tag", "--verbose"],
    "boat query --level ''": ["high", "low"],
    "boat query --level = l": ["low"],
    "boat query --tag ''": [],
    "boat query --config cre": ["crew.json"],
    "boat query --config two": ["two words"],
    "boat query ''": [],
    "boat query --config crew.json ''": ["harbour", "high\\ sea", "\\$\\(touch\\ caught\\)"],
    "boat query --config = crew.json h": ["harbour", "high\\ sea"],
    "boat query --config crew.json harbour ''": [],
    "boat query -- cat cre": ["crew.json"],
    "boat load ''": ["crate", "barrel"],
    "boat load b": ["barrel"],
    "boat load crate c": ["completion.bash", "crates", "crew.json"],
    "boat load crate crew.json c": ["completion.bash", "crates", "crew.json"],
    "boat load --into c": ["crates"],
    "boat load -- c": [],
    "boat nonsense ''": [],
}


def test_bash_completes_commands_options_choices_files_and_names(
    complete: Complete, boat: Program, folder: Path
) -> None:
    """Text from a file is never executed."""
    answers = complete(boat, *LINES)
    assert dict(zip(LINES, map(sorted, answers), strict=True)) == {line: sorted(words) for line, words in LINES.items()}
    assert (folder / "log").read_text().splitlines()[0] == "called completion --names crew.json"
    assert not (folder / "caught").exists()


def test_after_two_dashes_the_first_word_is_a_command(complete: Complete, boat: Program) -> None:
    (answer,) = complete(boat, "boat query -- boa")
    assert "boat" in answer


def test_a_program_without_commands_has_its_options(complete: Complete, raft: Program) -> None:
    lines = ("small-raft ''", "small-raft --", "small-raft --shore l", "small-raft --rope c")
    assert complete(raft, *lines) == [[], ["--shore", "--rope"], ["left"], ["crates"]]


def test_the_tab_key_completes_in_a_real_shell(boat: Program, folder: Path) -> None:
    """In an interactive bash on a terminal."""
    script = folder / "completion.bash"
    script.write_text(completion_script(boat, "bash"))
    with shell([BASH, "--norc", "--noprofile", "-i"], folder, {}) as terminal:
        terminal.type(f"source {script}; echo lo''aded\n")
        terminal.until("loaded")
        terminal.until(PROMPT)
        for keys, expected in (
            ("boat query --lev\t", "boat query --level "),
            ("hi\t", "high "),
            ("--config cre\t", "--config crew.json "),
        ):
            terminal.type(keys)
            terminal.until(expected)
