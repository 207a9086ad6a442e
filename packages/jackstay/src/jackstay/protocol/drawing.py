"""Draw the state machines from their tables: as text for a terminal, and as Mermaid and DOT diagrams.

`jackstay states` and `docs/protocol.md` use it. It shows only the rows that run.
"""

from collections.abc import Callable
from enum import Enum

from jackstay.errors import UsageError
from jackstay.protocol._machine import IGNORE, Action, Cell, Machine, text_of
from jackstay.protocol.client._exchange import EXCHANGE
from jackstay.protocol.client._table import CLIENT
from jackstay.protocol.server._table import SERVER

# All state machines, by name.
MACHINES: dict[str, Machine] = {machine.name: machine for machine in (CLIENT, SERVER, EXCHANGE)}


def draw(machine: Machine, format: str) -> str:
    """Return the machine as text. `format` is one of FORMATS.

    Raises: UsageError for any other format.
    """
    if format not in _DRAWERS:
        expected = " or ".join(repr(name) for name in FORMATS)
        raise UsageError(f"format must be {expected}, not {format!r}", path="format")
    return _DRAWERS[format](machine)


def cell_text(cell: Cell) -> str:
    """Describe what a cell does: `-` is ignored and counted, `!` cannot happen."""
    if cell == IGNORE:
        return "-"
    return "; else ".join(_branch_text(branch) for branch in cell.branches())


def _branch_text(cell: Cell) -> str:
    if cell.is_impossible:
        return "!"
    text = ", ".join(text_of(action) for action in cell.actions)
    if cell.to is not None:
        text = f"{text} -> {cell.to.value}".strip()
    elif not text:
        text = "stay"
    return text if cell.guard is None else f"if {text_of(cell.guard)}: {text}"


def _draw_table(machine: Machine) -> str:
    """Return a Markdown table, aligned for terminals: for each event, one line for the states that treat it alike."""
    lines = [("event", "in", "actions")]
    if machine.entries:
        lines.extend(_grouped("*enter*", {name: _entry_text(actions) for name, actions in machine.entries.items()}))
    for event, cells in machine.rows.items():
        texts = {str(state.value): cell_text(cell) for state, cell in zip(machine.states, cells, strict=True)}
        lines.extend(_grouped(event, texts))
    widths = [max(len(line[column]) for line in lines) for column in range(2)]
    lines.insert(1, ("-" * widths[0], "-" * widths[1], "---"))
    return "".join(f"| {a:<{widths[0]}} | {b:<{widths[1]}} | {c} |\n" for a, b, c in lines)


def _grouped(event: str, texts: dict[str, str]) -> list[tuple[str, str, str]]:
    states: dict[str, list[str]] = {}
    for state, text in texts.items():
        states.setdefault(text.replace("|", "\\|"), []).append(state)
    return [
        ("" if index else event, "every state" if len(names) == len(texts) else ", ".join(names), text)
        for index, (text, names) in enumerate(states.items())
    ]


def _entry_text(actions: tuple[Action, ...]) -> str:
    return ", ".join(text_of(action) for action in actions) or "-"


def edges(machine: Machine) -> dict[tuple[Enum, Enum], list[str]]:
    """Return the transitions between states and the events that cause them."""
    found: dict[tuple[Enum, Enum], list[str]] = {}
    for event, cells in machine.rows.items():
        for state, cell in zip(machine.states, cells, strict=True):
            for branch in cell.branches():
                if branch.to is not None and branch.to is not state:
                    label = event if branch.guard is None else f"{event} [{text_of(branch.guard)}]"
                    found.setdefault((state, branch.to), []).append(label)
    return found


def _draw_mermaid(machine: Machine) -> str:
    lines = ["stateDiagram-v2", f"    [*] --> {machine.states[0].value}"]
    for (source, target), events in edges(machine).items():
        # Mermaid ends a label at a semicolon or a line break, and parses a second colon.
        label = ", ".join(events).replace(";", ",").replace(":", " =")
        lines.append(f"    {source.value} --> {target.value}: {label}")
    lines.append(f"    {machine.states[-1].value} --> [*]\n")
    return "\n".join(lines)


def _draw_dot(machine: Machine) -> str:
    lines = [f"digraph {machine.name} {{", "    rankdir=LR;", "    node [shape=box, style=rounded];"]
    lines.append('    start [shape=point, label=""];')
    lines.append(f'    start -> "{machine.states[0].value}";')
    lines.append(f'    "{machine.states[-1].value}" [peripheries=2];')
    for (source, target), events in edges(machine).items():
        label = "\\n".join(event.replace('"', '\\"') for event in events)
        lines.append(f'    "{source.value}" -> "{target.value}" [label="{label}"];')
    lines.append("}")
    return "\n".join(lines) + "\n"


_DRAWERS: dict[str, Callable[[Machine], str]] = {"table": _draw_table, "mermaid": _draw_mermaid, "dot": _draw_dot}

# The formats that `draw` accepts.
FORMATS = tuple(_DRAWERS)

__all__ = ["FORMATS", "MACHINES", "cell_text", "draw", "edges"]
