"""`jackstay states` prints what `jackstay.protocol.drawing` draws."""

import re
from collections.abc import Callable

import pytest

from jackstay.cli import main
from jackstay.protocol.drawing import MACHINES, draw

FORMATS = ("table", "mermaid", "dot")


def printed_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["states", *arguments]) == 0
    return capsys.readouterr().out


def test_the_machines() -> None:
    assert list(MACHINES) == ["client", "server", "exchange"]


def test_one_machine(capsys: pytest.CaptureFixture[str]) -> None:
    for name, machine in MACHINES.items():
        for format in FORMATS:
            printed = printed_by(capsys, name, "--format", format)
            assert printed == draw(machine, format).rstrip("\n") + "\n", (name, format)


@pytest.mark.parametrize(("format", "mark"), [("table", "#"), ("mermaid", "%%"), ("dot", "//")])
def test_all_machines_with_headings(format: str, mark: str, capsys: pytest.CaptureFixture[str]) -> None:
    each = [f"{mark} {name}\n\n{printed_by(capsys, name, '--format', format)}" for name in MACHINES]
    assert printed_by(capsys, "--format", format) == "\n".join(each)


def test_table_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed_by(capsys, "client") == printed_by(capsys, "client", "--format", "table")


def test_every_state_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for name, machine in MACHINES.items():
        for format in FORMATS:
            printed = printed_by(capsys, name, "--format", format)
            assert all(str(state.value) in printed for state in machine.states), (name, format)


def test_a_table_has_the_width_of_the_terminal(
    capsys: pytest.CaptureFixture[str], terminal: Callable[[int], None]
) -> None:
    terminal(70)
    lines = printed_by(capsys).splitlines()
    assert [line for line in lines if len(re.sub(r"\x1b\[\d*m", "", line)) > 70] == []
    assert "# exchange" in lines
