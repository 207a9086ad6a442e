"""State machines as data: the tables that run, that the tests check and that the documentation shows.

A machine has one row per event and, in each row, one cell per state. A cell has the actions that run, a guard and a
target state. Actions and guards are functions, whose docstrings the documentation shows, or names of functions. A pair
of state and event that cannot happen has a cell too (`IMPOSSIBLE`): it raises in tests and is counted in production.
"""

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeAlias

import msgspec


class TableEnum(Enum):
    """A name in a table: a state, an event, an action or a guard."""

    # Enum hashes by name, in Python code. Hashing by identity is equivalent and has no cost per call.
    __hash__ = object.__hash__


# An action or a guard: a function or an Enum. A function accepts the event type of its rows, which the table guarantees
# and a type checker cannot verify.
Action: TypeAlias = Any


class Cell(msgspec.Struct, frozen=True):
    """What one event does in one state: run `actions` in order, then go `to` that state (None: stay).

    A cell with a `guard` applies only if the guard is true; otherwise the cell `otherwise` does.
    """

    actions: tuple[Action, ...] = ()
    to: Enum | None = None
    guard: Action | None = None
    otherwise: "Cell | None" = None
    is_impossible: bool = False

    def branches(self) -> "tuple[Cell, ...]":
        """Return this cell and every `otherwise` below it, in the order in which the guards are evaluated."""
        return (self,) if self.otherwise is None else (self, *self.otherwise.branches())


# "-" in the tables: the event is counted and otherwise ignored.
IGNORE = Cell()

# "!" in the tables: the pair cannot happen.
IMPOSSIBLE = Cell(is_impossible=True)


class Machine(msgspec.Struct, frozen=True):
    """A complete table, with what is needed to check and draw it.

    It starts in the first of `states`, and the last is final. `rows` maps the name of an event to one cell per state,
    in this order. `entries` maps the value of a state to the actions that run on entering it. `events` describes each
    event in a sentence.
    """

    name: str
    states: tuple[Enum, ...]
    rows: Mapping[str, tuple[Cell, ...]]
    events: Mapping[str, str]
    entries: Mapping[str, tuple[Action, ...]] = {}

    @classmethod
    def of(
        cls,
        name: str,
        states: type[Enum],
        rows: Mapping[Any, tuple[Cell, ...]],
        entries: Mapping[Any, tuple[Action, ...]],
    ) -> "Machine":
        """Return the machine whose events are classes, with their docstrings as descriptions."""
        return cls(
            name,
            tuple(states),
            {readable_name(event.__name__): cells for event, cells in rows.items()},
            {readable_name(event.__name__): event.__doc__ or "" for event in rows},
            {state.value: actions for state, actions in entries.items()},
        )

    def cell(self, event: str, state: Enum) -> Cell:
        """Return the cell for that event in that state; every pair has one."""
        return self.rows[event][self.states.index(state)]


def text_of(action: Action) -> str:
    """Return the text of an action or guard in drawings."""
    return str(action.value) if isinstance(action, Enum) else action.__doc__ or ""


@cache
def readable_name(name: str) -> str:
    """Return `SpawnFailed` or `SPAWN_FAILED` as `spawn failed`."""
    if name.isupper():
        return name.lower().replace("_", " ")
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
