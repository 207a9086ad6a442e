"""The face of a room whose names are loaded when they are first asked for.

A room shows many names and most programs use a few. Loading a file costs about a fifth of a millisecond, and there are
more than a hundred: so an `__init__` lists its names with their homes, shows them to type checkers by ordinary imports that
never run, and loads each on first use. The lists are held together by `tests/test_exports.py`.

Must never know a name. Above: every `__init__` that is lazy. Below: nothing.
"""

import sys
from importlib import import_module

# What `typing` calls so; type checkers go by the name. Loading `typing` takes longer than all that is lazy here, and until a
# command has its signals in hand (`jackstay.shell`), a Ctrl-C shows a traceback.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy(room: str, homes: "Mapping[str, str]") -> "Callable[[str], object]":
    """A `__getattr__` for the module `room`: each name comes from its home, a file of that room, once.

    Raises: AttributeError for any other name, as a module does.
    """

    def __getattr__(name: str) -> object:  # noqa: N807  # it is one: PEP 562
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(import_module(f"{room}.{home}"), name)
        setattr(sys.modules[room], name, value)
        return value

    return __getattr__
