"""Cells, machines and readable names."""

from enum import Enum

import pytest

from jackstay.protocol._machine import IGNORE, IMPOSSIBLE, Cell, Machine, readable_name
from jackstay.protocol.client._exchange import EXCHANGE
from jackstay.protocol.client._table import CLIENT


class Lamp(Enum):
    OFF = "off"
    ON = "on"


class Act(Enum):
    CLICK = "click"


LAMP = Machine(
    name="lamp",
    states=tuple(Lamp),
    rows={
        "switched": (Cell((Act.CLICK,), Lamp.ON), Cell((Act.CLICK,), Lamp.OFF)),
        "broke": (IGNORE, IMPOSSIBLE),
    },
    events={"switched": "it was switched", "broke": "it broke"},
)

PAIRS = [
    ("switched", Lamp.OFF, Cell((Act.CLICK,), Lamp.ON)),
    ("switched", Lamp.ON, Cell((Act.CLICK,), Lamp.OFF)),
    ("broke", Lamp.OFF, IGNORE),
    ("broke", Lamp.ON, IMPOSSIBLE),
]


def test_every_pair_has_its_cell(subtests):
    for event, state, cell in PAIRS:
        with subtests.test(event=event, state=state, cell=cell):
            assert LAMP.cell(event, state) == cell


def test_ignore_has_no_actions_and_no_target():
    assert (IGNORE.actions, IGNORE.to, IGNORE.guard, IGNORE.is_impossible) == ((), None, None, False)
    assert IMPOSSIBLE.is_impossible
    assert IMPOSSIBLE != IGNORE


def test_branches_are_in_the_order_of_the_guards():
    last = Cell()
    middle = Cell(guard=Act.CLICK, otherwise=last)
    first = Cell(guard=Act.CLICK, otherwise=middle)
    assert first.branches() == (first, middle, last)
    assert last.branches() == (last,)


def test_cells_are_immutable():
    with pytest.raises(AttributeError):
        IGNORE.to = Lamp.ON


NAMES = [
    ("SpawnFailed", "spawn failed"),
    ("SPAWN_FAILED", "spawn failed"),
    ("Called", "called"),
    ("WentDown", "went down"),
    ("CALLED", "called"),
    ("", ""),
]


def test_readable_names(subtests):
    for name, expected in NAMES:
        with subtests.test(name=name, expected=expected):
            assert readable_name(name) == expected


def test_a_machine_is_complete(subtests):
    for machine in (CLIENT, EXCHANGE):
        with subtests.test(machine=machine):
            assert set(machine.rows) == set(machine.events)
            assert all(machine.events.values())
            for event, cells in machine.rows.items():
                assert len(cells) == len(machine.states), event
                for state in machine.states:
                    for cell in machine.cell(event, state).branches():
                        assert cell.to is None or cell.to in machine.states
                        assert (cell.guard is None) == (cell.otherwise is None)
                        assert not (cell.is_impossible and (cell.actions or cell.to or cell.guard))
