"""A registry from directories: the modules in them, their bindings, and what could not be loaded, with the reason.

apcore skips a file that it cannot load and says so in its log; those lines are kept here, so that `--check`, the health page
and the inspector can tell as well.

Must never know a server. Above: `_main`, `_watching`. Below: `_discovery`, apcore's BindingLoader.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apcore import BindingLoader  # type: ignore[import-untyped]  # apcore ships no types

from apcore_mcp.cli._discovery import FAULTS, SturdyRegistry
from apcore_mcp.texts import shown

logger = logging.getLogger("apcore_mcp.cli")


class Loaded:
    """A registry and the directories it comes from. `unloaded` are files and modules that could not be, by id."""

    def __init__(self, directories: Sequence[Path], bindings: Sequence[Path]) -> None:
        self.directories = tuple(directories)
        self.bindings = tuple(bindings)
        self.unloaded: dict[str, str] = {}
        # Of these, the binding files: they are loaded once.
        self._unbound: dict[str, str] = {}
        # Called with `unloaded` when it has changed.
        self.told: Callable[[dict[str, str]], None] | None = None
        roots = [str(directory) for directory in directories]
        self.registry = (
            SturdyRegistry(extensions_dir=roots[0])
            if len(roots) == 1
            else SturdyRegistry(extensions_dirs=roots)
        )
        self.discover()
        for directory in self.bindings:
            self._bind(directory)

    def discover(self) -> None:
        """Register what is in the directories and not registered yet."""
        if not self.directories:
            return
        known = frozenset(self.registry.list(visibility=["public", "hidden"]))
        with _listening(known) as heard:
            self.registry.discover()
        # Other things are complained of as well: only what a file would be called is one.
        ids = {self.module_id(file) for directory in self.directories for file in files_in(directory, "*.py")}
        found = {id: reason for id, reason in heard.items() if id in ids and not self.registry.has(id)}
        for id, error in self.registry.faults.items():
            if not self.registry.has(id):
                found[id] = _reason(error)
                logger.warning("module %s is skipped: %s", id, found[id])
        self.unloaded = {**self._unbound, **found}
        if self.told is not None:
            self.told(self.unloaded)

    def module_id(self, file: Path) -> str | None:
        """What apcore calls the module in this file; None for a file of no directory of ours."""
        for directory in self.directories:
            if file.is_relative_to(directory):
                parts = file.relative_to(directory).with_suffix("").parts
                # With several roots, ids begin with the name of theirs (apcore's rule).
                return ".".join(parts if len(self.directories) == 1 else (directory.name, *parts))
        return None

    def _bind(self, directory: Path) -> None:
        for file in sorted(directory.glob("*.binding.yaml")):
            try:
                BindingLoader().load_bindings(str(file), self.registry)
            except FAULTS as error:  # the edge of somebody's files: the others may be well
                self._unbound[str(file)] = _reason(error)
                logger.warning("%s is skipped: %s", file, self._unbound[str(file)])
        self.unloaded.update(self._unbound)


def files_in(directory: Path, *patterns: str) -> Iterator[Path]:
    """The files that apcore would look at: none that begins with `_` or `.`, nor in a directory that does."""
    for pattern in patterns:
        for file in directory.rglob(pattern):
            if not any(part[0] in "_." for part in file.relative_to(directory).parts):
                yield file


def _reason(error: BaseException) -> str:
    return shown(f"{type(error).__name__}: {error}"[:500])


class _Ear(logging.Handler):
    """Keeps what apcore's registry says of files that it skips."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        arguments: Any = record.args
        if isinstance(arguments, tuple) and arguments and isinstance(arguments[0], str):
            self.heard.setdefault(arguments[0], shown(record.getMessage()[:500]))


class _Quiet(logging.Filter):
    """Drops what apcore says of modules that are registered already: to look again is no mistake."""

    def __init__(self, known: frozenset[str]) -> None:
        super().__init__()
        self._known = known

    def filter(self, record: logging.LogRecord) -> bool:
        arguments: Any = record.args
        if self._known and str(record.msg).startswith("No modules"):
            return False  # none beside those that are there already
        return not (isinstance(arguments, tuple) and arguments and arguments[0] in self._known)


@contextmanager
def _listening(known: frozenset[str]) -> Iterator[dict[str, str]]:
    ear, quiet = _Ear(), _Quiet(known)
    speaker = logging.getLogger("apcore.registry.registry")
    speaker.addFilter(quiet)
    source = logging.getLogger("apcore.registry")
    level, is_passed_on = source.level, source.propagate
    if not source.isEnabledFor(logging.WARNING):
        # Nobody wants to read warnings, but we do.
        source.setLevel(logging.WARNING)
        source.propagate = False
    source.addHandler(ear)
    try:
        yield ear.heard
    finally:
        speaker.removeFilter(quiet)
        source.removeHandler(ear)
        source.setLevel(level)
        source.propagate = is_passed_on


__all__ = ["Loaded", "files_in"]
