"""What a state machine is here: rows of data that run, that the tests walk and that the documentation shows.

A machine is a total table: for every event a row, in every row a cell for every state. A cell names what is done, in
order, and where the machine goes; it holds names and never functions, so that the table can stand at the top of its
file, above the class that runs it. A cell that depends on something names the question (`when`) and has a second
cell for "no" (`otherwise`). What cannot happen is a cell too: it says so, raises in tests and is counted in
production.

Above: the three machines (a client's connection, a server's, and a single request) and `drawing`. Below: nothing.
"""

from collections.abc import Mapping
from enum import Enum

import msgspec


class Word(Enum):
    """A name in a table: a state, an event, what is done, what is asked."""

    # Enum hashes by name, in Python; identity is the same to a table and costs a call nothing.
    __hash__ = object.__hash__


class Cell(msgspec.Struct, frozen=True):
    """One pair of state and event: `do` these things in order, then go `to` that state (None: stay)."""

    do: tuple[Enum, ...] = ()
    to: Enum | None = None
    when: Enum | None = None
    otherwise: "Cell | None" = None
    is_impossible: bool = False

    def branches(self) -> "tuple[Cell, ...]":
        """This cell and every "otherwise" below it, in the order the questions are asked."""
        return (self,) if self.otherwise is None else (self, *self.otherwise.branches())


# "-" in the tables: nothing is done, the event is counted.
IGNORE = Cell()

# "!" in the tables: the pair cannot happen.
IMPOSSIBLE = Cell(is_impossible=True)


class Machine(msgspec.Struct, frozen=True):
    """A whole table with what is needed to check and draw it.

    `rows` maps an event's name to one cell a state, in the order of `states`; `entries` says what is done on
    entering a state (by its value); `events` explains each event in a sentence.
    """

    name: str
    states: tuple[Enum, ...]
    start: Enum
    finals: frozenset[Enum]
    rows: Mapping[str, tuple[Cell, ...]]
    events: Mapping[str, str]
    entries: Mapping[str, tuple[Enum, ...]] = {}

    def cell(self, event: str, state: Enum) -> Cell:
        """The cell of that pair; every pair has one."""
        return self.rows[event][self.states.index(state)]


def words(name: str) -> str:
    """`SpawnFailed` and `SPAWN_FAILED` as one would say them aloud: `spawn failed`."""
    if name.isupper():
        return name.lower().replace("_", " ")
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
