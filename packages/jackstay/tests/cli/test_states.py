"""`jackstay states` prints exactly what the protocol room draws."""

import pytest

from jackstay.cli import main
from jackstay.protocol.drawing import MACHINES, draw

FORMATS = ("table", "mermaid", "dot")


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["states", *arguments]) == 0
    return capsys.readouterr().out


def test_there_are_the_three_machines() -> None:
    assert list(MACHINES) == ["client", "server", "exchange"]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", MACHINES)
def test_one_machine_is_printed_as_it_is_drawn(
    name: str, format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = shown(capsys, name, "--format", format)
    assert printed == draw(MACHINES[name], format).rstrip("\n") + "\n"


@pytest.mark.parametrize(("format", "mark"), [("table", "#"), ("mermaid", "%%"), ("dot", "//")])
def test_without_a_machine_all_are_printed_each_under_its_name(
    format: str, mark: str, capsys: pytest.CaptureFixture[str]
) -> None:
    each = [f"{mark} {name}\n\n{shown(capsys, name, '--format', format)}" for name in MACHINES]
    assert shown(capsys, "--format", format) == "\n".join(each)


def test_a_table_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "client") == shown(capsys, "client", "--format", "table")


def test_every_state_of_a_machine_is_on_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    for name, machine in MACHINES.items():
        for format in FORMATS:
            printed = shown(capsys, name, "--format", format)
            assert all(str(state.value) in printed for state in machine.states), (name, format)
