"""The drawings of the state machines show every row."""

import re
from enum import Enum

import pytest

from jackstay.errors import UsageError
from jackstay.protocol import Cell, Machine
from jackstay.protocol._machine import IGNORE, IMPOSSIBLE
from jackstay.protocol.drawing import FORMATS, MACHINES, cell_text, draw


class State(Enum):
    OPEN = "open"
    SHUT = "shut"


class Act(Enum):
    SLAM = 'slam "hard" | twice'
    CREAK = "creak; loud: very"


class Check(Enum):
    OILED = "oiled"


DOOR = Machine(
    name="door",
    states=tuple(State),
    rows={
        "pushed": (Cell((Act.SLAM,), State.SHUT), IGNORE),
        "pulled": (IMPOSSIBLE, Cell((), State.OPEN, Check.OILED, Cell((Act.CREAK,), State.OPEN))),
        "watched": (
            Cell((), None, Check.OILED, Cell((Act.CREAK,))),
            Cell((), None, Check.OILED, Cell((Act.CREAK,))),
        ),
    },
    events={"pushed": "it was pushed", "pulled": "it was pulled", "watched": "it was watched"},
    entries={"open": (Act.CREAK,), "shut": ()},
)


def test_the_text_of_a_cell(subtests: pytest.Subtests) -> None:
    cases = [
        (IGNORE, "-"),
        (IMPOSSIBLE, "!"),
        (Cell(to=State.SHUT), "-> shut"),
        (Cell((Act.CREAK,), State.OPEN), "creak; loud: very -> open"),
        (DOOR.cell("pulled", State.SHUT), "if oiled: -> open; else creak; loud: very -> open"),
        (DOOR.cell("watched", State.SHUT), "if oiled: stay; else creak; loud: very"),
    ]
    for cell, text in cases:
        with subtests.test(cell=cell, text=text):
            assert cell_text(cell) == text


def test_a_table_groups_states_that_are_alike() -> None:
    assert draw(DOOR, "table").splitlines() == [
        "| event   | in          | actions |",
        "| ------- | ----------- | --- |",
        "| *enter* | open        | creak; loud: very |",
        "|         | shut        | - |",
        '| pushed  | open        | slam "hard" \\| twice -> shut |',
        "|         | shut        | - |",
        "| pulled  | open        | ! |",
        "|         | shut        | if oiled: -> open; else creak; loud: very -> open |",
        "| watched | every state | if oiled: stay; else creak; loud: very |",
    ]


def test_a_mermaid_diagram_has_an_edge_for_each_transition() -> None:
    assert draw(DOOR, "mermaid").splitlines() == [
        "stateDiagram-v2",
        "    [*] --> open",
        "    open --> shut: pushed",
        "    shut --> open: pulled [oiled], pulled",
        "    shut --> [*]",
    ]


def test_a_dot_graph_is_quoted() -> None:
    text = draw(DOOR, "dot")
    assert text.startswith("digraph door {")
    assert '    "shut" -> "open" [label="pulled [oiled]\\npulled"];' in text
    assert text.count("{") == text.count("}")
    assert '    "shut" [peripheries=2];' in text


def test_every_machine_is_drawn_completely(subtests: pytest.Subtests) -> None:
    for name in MACHINES:
        for format in FORMATS:
            with subtests.test(name=name, format=format):
                machine = MACHINES[name]
                text = draw(machine, format)
                for state in machine.states:
                    assert str(state.value) in text
                if format == "table":
                    for event in machine.rows:
                        assert re.search(rf"^\| {re.escape(event)} +\|", text, re.MULTILINE)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match="format must be 'table' or 'mermaid' or 'dot', not 'svg'"):
        draw(DOOR, "svg")
