"""The completion of bash, in bash: what the function answers for the words of a line, and the tab key itself."""

from collections.abc import Callable
from pathlib import Path

import pytest

from jackstay.shell import Program, completion_script
from scripted.terminal import BASH, PROMPT, bash_answers, shell

Complete = Callable[..., list[list[str]]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files to complete, and a program that names servers."""
    (tmp_path / "crates").mkdir()
    (tmp_path / "crew.json").touch()
    (tmp_path / "two words").touch()
    program = tmp_path / "boat"
    program.write_text(
        '#!/bin/sh\necho "asked $*" >> asked\nprintf "harbour\\nhigh sea\\n\\$(touch caught)\\n"\n'
    )
    program.chmod(0o755)
    return tmp_path


@pytest.fixture
def complete(folder: Path) -> Complete:
    """The answers of one bash to these lines."""

    def run(program: Program, *lines: str) -> list[list[str]]:
        return bash_answers(completion_script(program, "bash"), program.name, lines, folder)

    return run


# what is typed, the last word being completed -> what comes
LINES = {
    "boat ''": ["ask", "load"],
    "boat l": ["load"],
    "boat -": ["-h", "--help"],
    "boat ask --": ["--help", "--config", "--level", "--say", "--verbose"],
    "boat ask --level ''": ["high", "low"],
    "boat ask --level = l": ["low"],
    "boat ask --say ''": [],
    "boat ask --config cre": ["crew.json"],
    "boat ask --config two": ["two words"],
    "boat ask ''": [],
    "boat ask --config crew.json ''": ["harbour", "high\\ sea", "\\$\\(touch\\ caught\\)"],
    "boat ask --config = crew.json h": ["harbour", "high\\ sea"],
    "boat ask --config crew.json harbour ''": [],
    "boat ask -- cat cre": ["crew.json"],
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
    """And nothing that a file says is ever run."""
    answers = complete(boat, *LINES)
    assert dict(zip(LINES, map(sorted, answers), strict=True)) == {
        line: sorted(words) for line, words in LINES.items()
    }
    assert (folder / "asked").read_text().splitlines()[0] == "asked completion --names crew.json"
    assert not (folder / "caught").exists()


def test_after_two_dashes_the_first_word_is_a_command(complete: Complete, boat: Program) -> None:
    (answer,) = complete(boat, "boat ask -- boa")
    assert "boat" in answer


def test_a_program_without_commands_has_its_options(complete: Complete, raft: Program) -> None:
    lines = ("small-raft ''", "small-raft --", "small-raft --shore l", "small-raft --rope c")
    assert complete(raft, *lines) == [[], ["--shore", "--rope"], ["left"], ["crates"]]


def test_the_tab_key_completes_in_a_real_shell(boat: Program, folder: Path) -> None:
    """An interactive bash at a terminal: what is typed is finished."""
    script = folder / "completion.bash"
    script.write_text(completion_script(boat, "bash"))
    with shell([BASH, "--norc", "--noprofile", "-i"], folder, {}) as terminal:
        terminal.type(f"source {script}; echo lo''aded\n")
        terminal.until("loaded")
        terminal.until(PROMPT)
        for keys, shown in (
            ("boat ask --lev\t", "boat ask --level "),
            ("hi\t", "high "),
            ("--config cre\t", "--config crew.json "),
        ):
            terminal.type(keys)
            terminal.until(shown)
