"""What a table is made of."""

from enum import Enum

import pytest

from jackstay.protocol._machine import IGNORE, IMPOSSIBLE, Cell, Machine, words
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
    start=Lamp.OFF,
    finals=frozenset(),
    rows={
        "switched": (Cell((Act.CLICK,), Lamp.ON), Cell((Act.CLICK,), Lamp.OFF)),
        "broke": (IGNORE, IMPOSSIBLE),
    },
    events={"switched": "somebody switched it", "broke": "it broke"},
)

PAIRS = [
    ("switched", Lamp.OFF, Cell((Act.CLICK,), Lamp.ON)),
    ("switched", Lamp.ON, Cell((Act.CLICK,), Lamp.OFF)),
    ("broke", Lamp.OFF, IGNORE),
    ("broke", Lamp.ON, IMPOSSIBLE),
]


@pytest.mark.parametrize(("event", "state", "cell"), PAIRS)
def test_every_pair_has_its_cell(event, state, cell):
    assert LAMP.cell(event, state) == cell


def test_to_ignore_is_to_do_nothing_and_to_stay():
    assert (IGNORE.do, IGNORE.to, IGNORE.when, IGNORE.is_impossible) == ((), None, None, False)
    assert IMPOSSIBLE.is_impossible
    assert IMPOSSIBLE != IGNORE


def test_branches_are_the_questions_in_the_order_asked():
    last = Cell()
    middle = Cell(when=Act.CLICK, otherwise=last)
    first = Cell(when=Act.CLICK, otherwise=middle)
    assert first.branches() == (first, middle, last)
    assert last.branches() == (last,)


def test_cells_cannot_be_changed():
    with pytest.raises(AttributeError):
        IGNORE.to = Lamp.ON


WORDS = [
    ("SpawnFailed", "spawn failed"),
    ("SPAWN_FAILED", "spawn failed"),
    ("Called", "called"),
    ("WentDown", "went down"),
    ("CALLED", "called"),
    ("", ""),
]


@pytest.mark.parametrize(("name", "said"), WORDS)
def test_names_as_one_would_say_them(name, said):
    assert words(name) == said


@pytest.mark.parametrize("machine", [CLIENT, EXCHANGE], ids=lambda machine: machine.name)
def test_a_machine_is_whole(machine):
    assert machine.start in machine.states
    assert machine.finals <= set(machine.states)
    assert set(machine.rows) == set(machine.events)
    assert all(machine.events.values())
    for event, cells in machine.rows.items():
        assert len(cells) == len(machine.states), event
        for state in machine.states:
            for cell in machine.cell(event, state).branches():
                assert cell.to is None or cell.to in machine.states
                assert (cell.when is None) == (cell.otherwise is None)
                assert not (cell.is_impossible and (cell.do or cell.to or cell.when))
