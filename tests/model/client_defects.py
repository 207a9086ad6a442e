"""Plant a defect: replace a function in every cell of the tables of a client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from jackstay.protocol._machine import Cell
from jackstay.protocol.client import _exchange, _table


def replace_function(patch: pytest.MonkeyPatch, old: Callable[..., Any], new: Callable[..., Any]) -> None:
    """Replace an action or a guard wherever a table refers to it."""

    def swap(cell: Cell) -> Cell:
        return replace(
            cell,
            actions=tuple(new if action is old else action for action in cell.actions),
            guard=new if cell.guard is old else cell.guard,
            otherwise=None if cell.otherwise is None else swap(cell.otherwise),
        )

    found = 0
    for cells in (*_table.CELLS.values(), _exchange.CELLS):
        for key, cell in cells.items():
            if swap(cell) != cell:
                patch.setitem(cells, key, swap(cell))
                found += 1
    for state, actions in _table.ENTRIES.items():
        if old in actions:
            patch.setitem(_table.ENTRIES, state, tuple(new if action is old else action for action in actions))
            found += 1
    assert found, f"no table refers to {old}"
