"""Lazy packages: each public name is imported on first use.

Loading one module costs about 0.2 ms, and there are more than a hundred. A lazy `__init__` declares every name once, in
a mapping; `tools/make_stubs.py` writes the same names to `__init__.pyi` for type checkers and editors.
"""

import sys

# The same as `typing.TYPE_CHECKING`: type checkers go by the name. Importing `typing` would take longer than
# everything that is lazy here, and until `jackstay.shell` has installed its signal handlers, Ctrl-C prints a
# traceback. `importlib` is avoided for the same reason.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def attach(
    package: str, exports: "Mapping[str, str]"
) -> "tuple[list[str], Callable[[str], object], Callable[[], list[str]]]":
    """Return `__all__`, `__getattr__` and `__dir__` (PEP 562) of a package that imports its names on first use.

    `exports` maps modules to names that are separated by spaces. A leading dot means relative to `package`.
    """
    modules = {name: module for module, names in exports.items() for name in names.split()}

    def __getattr__(name: str) -> object:  # noqa: N807  # PEP 562
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = modules[name]
        level = int(module.startswith("."))
        value = getattr(__import__(module[level:], {"__package__": package}, None, (name,), level), name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:  # noqa: N807  # PEP 562
        return sorted({*vars(sys.modules[package]), *modules} - {"attach"})

    return list(modules), __getattr__, __dir__
