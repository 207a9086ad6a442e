"""Completion in zsh: the calls of `_arguments`, and zsh itself where it is installed."""

import shutil
from pathlib import Path

from jackstay.shell import Program, completion_script
from scripted.terminal import PROMPT, shell


def test_each_command_has_its_arguments(boat: Program) -> None:
    lines = [line.strip().removesuffix(" \\") for line in completion_script(boat, "zsh").splitlines()]
    assert "'query:query a server'" in lines
    assert "'(--level)--level[how (default\\: low)]: :(high low)'" in lines
    assert "'*--tag[]: : '" in lines
    assert "'(-v --verbose)-v[print more]'" in lines
    assert "'1: :_boat_servers'" in lines
    assert "'1: :(crate barrel)'" in lines
    assert "'*: :_files'" in lines
    assert "'(--into)--into[]: :_files -/'" in lines


def test_a_program_without_commands_has_only_options(raft: Program) -> None:
    script = completion_script(raft, "zsh")
    assert "'*--rope[from this directory]: :_files -/' \\" in script
    assert "_servers" not in script
    assert "\n_small-raft() {\n" in script  # named like the file
    assert "_describe" not in script


ZSH = shutil.which("zsh")

if ZSH is not None:

    def test_the_tab_key_completes_in_zsh(boat: Program, raft: Program, tmp_path: Path) -> None:
        """In an interactive zsh on a terminal: one script is sourced, the other is found in fpath."""
        (tmp_path / "boat.zsh").write_text(completion_script(boat, "zsh"))
        (tmp_path / "_small-raft").write_text(completion_script(raft, "zsh"))
        (tmp_path / "crew.json").touch()
        for name, words in (("boat", "harbour"), ("small-raft", "")):
            (tmp_path / name).write_text(f"#!/bin/sh\necho {words}\n")
            (tmp_path / name).chmod(0o755)
        with shell([ZSH, "-f", "-i"], tmp_path, {"PATH": f"{tmp_path}:/usr/bin:/bin"}) as terminal:
            load = "fpath+=$PWD; autoload -Uz compinit; compinit -D -u; source ./boat.zsh; echo lo''aded\n"
            terminal.type(load)
            terminal.until("loaded")
            terminal.until(PROMPT)
            for keys, expected in (
                ("boat qu\t", "boat query "),
                ("--lev\t", "--level "),
                ("hi\t", "high "),
                ("--config cre\t", "crew.json "),
                ("har\t", "harbour "),
                ("--verb\t", "--verbose "),
                ("-- cat cre\t", "cat crew.json "),
                ("\n", PROMPT),
                ("small-raft --sh\t", "--shore "),
                ("ri\t", "right "),
            ):
                terminal.type(keys)
                terminal.until(expected)
