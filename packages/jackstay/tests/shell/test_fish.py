"""Completion in fish: the generated lines, and fish itself where it is installed."""

import shutil
import subprocess
from pathlib import Path

from jackstay.shell import Program, completion_script
from scripted.terminal import answers_in

# line -> completions, without descriptions
LINES = {
    "boat ": ["query", "load"],
    "boat query --le": ["--level"],
    "boat query --level ": ["high", "low"],
    "boat query --config cre": ["crew.json"],
    "boat query --config crew.json ": ["harbour", "sea"],
    "boat query --config crew.json harbour ": [],
    "boat query -- cat cre": ["crew.json"],
    "boat load --into cra": ["crates/"],
}


def test_lines_of_a_command_have_its_condition(boat: Program) -> None:
    lines = completion_script(boat, "fish").splitlines()
    assert "complete -c boat -n '__boat_at \"\"' -a query -d 'query a server'" in lines
    assert "complete -c boat -n '__boat_at query' -l level -x -a 'high low' -d 'how (default: low)'" in lines
    assert "complete -c boat -n '__boat_at query' -s v -l verbose -d 'print more'" in lines
    assert "complete -c boat -n '__boat_at query' -a '(__boat_servers)'" in lines
    assert "complete -c boat -n '__boat_at load' -a 'crate barrel'" in lines
    assert "complete -c boat -n '__boat_at load' -F" in lines
    assert "complete -c boat -n __boat_after_dashes -a '(__boat_command)'" in lines


def test_a_program_without_commands_needs_no_conditions(raft: Program) -> None:
    script = completion_script(raft, "fish")
    assert "complete -c small-raft -l rope -x -a '(__fish_complete_directories)' -d 'from this directory'" in script
    assert "function" not in script


FISH = shutil.which("fish")

if FISH is not None:

    def test_fish_completes_what_is_typed(boat: Program, tmp_path: Path) -> None:
        (tmp_path / "boat.fish").write_text(completion_script(boat, "fish"))
        (tmp_path / "crew.json").touch()
        (tmp_path / "crates").mkdir()
        program = tmp_path / "boat"
        program.write_text("#!/bin/sh\necho harbour\necho sea\n")
        program.chmod(0o755)
        completions = "".join(f"complete -C '{line}'; echo .\n" for line in LINES)
        code = f"set PATH {tmp_path} $PATH\nsource boat.fish\n{completions}"
        done = subprocess.run(
            [FISH, "--no-config", "-c", code],
            capture_output=True,
            text=True,
            timeout=240,
            check=True,
            cwd=tmp_path,
        )
        answers = [[line.partition("\t")[0] for line in answer] for answer in answers_in(done.stdout)]
        assert dict(zip(LINES, answers, strict=True)) == LINES
