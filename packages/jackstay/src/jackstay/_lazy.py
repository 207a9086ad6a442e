"""Lazy attributes for packages: each public name is imported on first use.

Loading one module costs about 0.2 ms, and there are more than a hundred. A lazy `__init__` lists its names with their
modules and repeats them for type checkers in imports that never run; `tests/test_exports.py` compares the two lists.
"""

import sys
from importlib import import_module

# The same as `typing.TYPE_CHECKING`: type checkers go by the name. Importing `typing` would take longer than
# everything that is lazy here, and until `jackstay.shell` has installed its signal handlers, Ctrl-C prints a
# traceback.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy(package: str, modules: "Mapping[str, str]") -> "Callable[[str], object]":
    """Return a `__getattr__` (PEP 562) for `package` that imports each name from its submodule on first use.

    The returned function raises AttributeError for a name that is not in `modules`.
    """

    def __getattr__(name: str) -> object:  # noqa: N807  # PEP 562
        module = modules.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{module}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__
