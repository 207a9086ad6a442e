"""Load a registry from directories of modules and bindings, and collect what could not be loaded.

apcore only logs the files that it skips; these log records are collected for `--check`, the health page and the
inspector.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apcore import BindingLoader  # type: ignore[import-untyped]  # apcore ships no types

from apcore_mcp.cli._discovery import FAULTS, FaultIsolatingRegistry
from apcore_mcp.text import escape_unprintable

logger = logging.getLogger("apcore_mcp.cli")


class LoadedModules:
    """A registry and its directories. `unloaded` has what could not be loaded, by id or file, with the reasons."""

    def __init__(self, directories: Sequence[Path], bindings: Sequence[Path]) -> None:
        self.directories = tuple(directories)
        self.bindings = tuple(bindings)
        self.unloaded: dict[str, str] = {}
        # The binding files among them, which are loaded only once.
        self._unbound: dict[str, str] = {}
        # Called with `unloaded` after each discovery.
        self.on_unloaded: Callable[[dict[str, str]], None] | None = None
        roots = [str(directory) for directory in directories]
        self.registry = (
            FaultIsolatingRegistry(extensions_dir=roots[0])
            if len(roots) == 1
            else FaultIsolatingRegistry(extensions_dirs=roots)
        )
        self.discover()
        for directory in self.bindings:
            self._bind(directory)

    def discover(self) -> None:
        """Register the modules in the directories that are not registered yet."""
        if not self.directories:
            return
        known = frozenset(self.registry.list(visibility=["public", "hidden"]))
        with _collect_skipped(known) as skipped:
            self.registry.discover()
        # apcore logs other warnings as well; only those about ids of files count.
        ids = {self.module_id(file) for directory in self.directories for file in files_in(directory, "*.py")}
        found = {id: reason for id, reason in skipped.items() if id in ids and not self.registry.has(id)}
        for id, error in self.registry.faults.items():
            if not self.registry.has(id):
                found[id] = _reason(error)
                logger.warning("skipped module %s: %s", id, found[id])
        self.unloaded = {**self._unbound, **found}
        if self.on_unloaded is not None:
            self.on_unloaded(self.unloaded)

    def module_id(self, file: Path) -> str | None:
        """Return the id of the module in a file, or None for a file outside the directories."""
        for directory in self.directories:
            if file.is_relative_to(directory):
                parts = file.relative_to(directory).with_suffix("").parts
                # With several roots, apcore prefixes ids with the name of the root.
                return ".".join(parts if len(self.directories) == 1 else (directory.name, *parts))
        return None

    def _bind(self, directory: Path) -> None:
        for file in sorted(directory.glob("*.binding.yaml")):
            try:
                BindingLoader().load_bindings(str(file), self.registry)
            except FAULTS as error:  # a broken file must not affect the others
                self._unbound[str(file)] = _reason(error)
                logger.warning("skipped %s: %s", file, self._unbound[str(file)])
        self.unloaded.update(self._unbound)


def files_in(directory: Path, *patterns: str) -> Iterator[Path]:
    """Return the files that apcore would load: not those whose name, or whose directory, starts with `_` or `.`."""
    for pattern in patterns:
        for file in directory.rglob(pattern):
            if not any(part[0] in "_." for part in file.relative_to(directory).parts):
                yield file


def _reason(error: BaseException) -> str:
    return escape_unprintable(f"{type(error).__name__}: {error}"[:500])


class _SkipCollector(logging.Handler):
    """Collects the log records of apcore about skipped files."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.skipped: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        arguments: Any = record.args
        if isinstance(arguments, tuple) and arguments and isinstance(arguments[0], str):
            self.skipped.setdefault(arguments[0], escape_unprintable(record.getMessage()[:500]))


class _KnownModuleFilter(logging.Filter):
    """Drops the log records of apcore about modules that are already registered."""

    def __init__(self, known: frozenset[str]) -> None:
        super().__init__()
        self._known = known

    def filter(self, record: logging.LogRecord) -> bool:
        arguments: Any = record.args
        if self._known and str(record.msg).startswith("No modules"):
            return False  # no new modules
        return not (isinstance(arguments, tuple) and arguments and arguments[0] in self._known)


@contextmanager
def _collect_skipped(known: frozenset[str]) -> Iterator[dict[str, str]]:
    collector, known_filter = _SkipCollector(), _KnownModuleFilter(known)
    registry_logger = logging.getLogger("apcore.registry.registry")
    registry_logger.addFilter(known_filter)
    source = logging.getLogger("apcore.registry")
    level, propagate = source.level, source.propagate
    if not source.isEnabledFor(logging.WARNING):
        # Warnings are disabled, but the collector needs them.
        source.setLevel(logging.WARNING)
        source.propagate = False
    source.addHandler(collector)
    try:
        yield collector.skipped
    finally:
        registry_logger.removeFilter(known_filter)
        source.removeHandler(collector)
        source.setLevel(level)
        source.propagate = propagate


__all__ = ["LoadedModules", "files_in"]
