"""The machines drawn from their tables: for reading in a terminal, and as diagrams in Mermaid and DOT.

A drawing shows the rows that run and nothing else; `jackstay states` and `docs/protocol.md` are made here. Functions of
a `Machine` to text: nothing is written and nothing is looked up.

Above: the command line and the documentation. Below: `_machine`, and the three machines for their names.
"""

from collections.abc import Callable
from enum import Enum

from jackstay.errors import UsageError
from jackstay.protocol._machine import IGNORE, Cell, Machine
from jackstay.protocol.client._exchange import EXCHANGE
from jackstay.protocol.client._table import CLIENT
from jackstay.protocol.server._table import SERVER

# Every machine, by name.
MACHINES: dict[str, Machine] = {machine.name: machine for machine in (CLIENT, SERVER, EXCHANGE)}


def draw(machine: Machine, format: str) -> str:
    """The machine as text. `format` is one of FORMATS.

    Raises: UsageError for any other format.
    """
    if format not in _DRAWERS:
        raise UsageError(f"format must be {' or '.join(FORMATS)}, not {format!r}", path="format")
    return _DRAWERS[format](machine)


def cell_text(cell: Cell, *, arrow: str = "->") -> str:
    """What a cell does, in words: `-` is ignored and counted, `!` cannot happen."""
    if cell == IGNORE:
        return "-"
    branches = cell.branches()
    return "; else ".join(_branch_text(branch, arrow) for branch in branches)


def _branch_text(cell: Cell, arrow: str) -> str:
    if cell.is_impossible:
        return "!"
    said = ", ".join(str(do.value) for do in cell.do)
    if cell.to is not None:
        said = f"{said} {arrow} {cell.to.value}".strip()
    elif not said:
        said = "stay"
    return said if cell.when is None else f"if {cell.when.value}: {said}"


def _draw_table(machine: Machine) -> str:
    """A Markdown table that a terminal can show too: for each event, the states that treat it alike in one line."""
    lines = [("event", "in", "what is done")]
    if machine.entries:
        lines.extend(_grouped("*enter*", {name: _entry_text(do) for name, do in machine.entries.items()}))
    for event, cells in machine.rows.items():
        said = {str(state.value): cell_text(cell) for state, cell in zip(machine.states, cells, strict=True)}
        lines.extend(_grouped(event, said))
    widths = [max(len(line[column]) for line in lines) for column in range(2)]
    lines.insert(1, ("-" * widths[0], "-" * widths[1], "---"))
    return "".join(f"| {a:<{widths[0]}} | {b:<{widths[1]}} | {c} |\n" for a, b, c in lines)


def _grouped(event: str, said: dict[str, str]) -> list[tuple[str, str, str]]:
    states: dict[str, list[str]] = {}
    for state, text in said.items():
        states.setdefault(text.replace("|", "\\|"), []).append(state)
    return [
        ("" if index else event, "every state" if len(names) == len(said) else ", ".join(names), text)
        for index, (text, names) in enumerate(states.items())
    ]


def _entry_text(do: tuple[Enum, ...]) -> str:
    return ", ".join(str(name.value) for name in do) or "-"


def edges(machine: Machine) -> dict[tuple[Enum, Enum], list[str]]:
    """Who leads where, by which events: what a diagram has room for."""
    found: dict[tuple[Enum, Enum], list[str]] = {}
    for event, cells in machine.rows.items():
        for state, cell in zip(machine.states, cells, strict=True):
            for branch in cell.branches():
                if branch.to is not None and branch.to is not state:
                    said = event if branch.when is None else f"{event} [{branch.when.value}]"
                    found.setdefault((state, branch.to), []).append(said)
    return found


def _draw_mermaid(machine: Machine) -> str:
    lines = ["stateDiagram-v2", f"    [*] --> {machine.start.value}"]
    for (source, target), events in edges(machine).items():
        # Mermaid ends a label at a semicolon or a line break, and takes a second colon for its own.
        label = ", ".join(events).replace(";", ",").replace(":", " =")
        lines.append(f"    {source.value} --> {target.value}: {label}")
    lines.extend(f"    {state.value} --> [*]" for state in machine.states if state in machine.finals)
    return "\n".join(lines) + "\n"


def _draw_dot(machine: Machine) -> str:
    lines = [f"digraph {machine.name} {{", "    rankdir=LR;", "    node [shape=box, style=rounded];"]
    lines.append('    start [shape=point, label=""];')
    lines.append(f'    start -> "{machine.start.value}";')
    lines.extend(
        f'    "{state.value}" [peripheries=2];' for state in machine.states if state in machine.finals
    )
    for (source, target), events in edges(machine).items():
        label = "\\n".join(event.replace('"', '\\"') for event in events)
        lines.append(f'    "{source.value}" -> "{target.value}" [label="{label}"];')
    lines.append("}")
    return "\n".join(lines) + "\n"


_DRAWERS: dict[str, Callable[[Machine], str]] = {
    "table": _draw_table,
    "mermaid": _draw_mermaid,
    "dot": _draw_dot,
}

# The formats there are.
FORMATS = tuple(_DRAWERS)

__all__ = [
    "FORMATS",
    "MACHINES",
    "cell_text",
    "draw",
    "edges",
]
