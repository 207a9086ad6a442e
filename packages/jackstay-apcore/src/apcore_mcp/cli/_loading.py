"""Load a registry from directories of modules and bindings, and collect what could not be loaded.

apcore only logs the files that it skips; these log records are collected for `--check`, the health page and the
inspector.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from apcore import BindingLoader, Registry  # type: ignore[import-untyped]  # apcore ships no types

from apcore_mcp.cli._discovery import FAULTS, FaultIsolatingRegistry
from apcore_mcp.text import escape_unprintable

logger = logging.getLogger("apcore_mcp.cli")


# How the name of a binding file ends.
BINDING: Final = ".binding.yaml"


class LoadedModules:
    """A registry and its directories. `unloaded` has what could not be loaded, by id or file, with the reasons."""

    def __init__(self, directories: Sequence[Path], bindings: Sequence[Path]) -> None:
        self.directories = tuple(directories)
        self.bindings = tuple(bindings)
        self.unloaded: dict[str, str] = {}
        # The binding files among them.
        self._unbound: dict[str, str] = {}
        # The modules of each binding file.
        self._bound: dict[Path, frozenset[str]] = {}
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
            for file in bindings_in(directory):
                self._bind(file)

    def discover(self) -> None:
        """Register the modules in the directories that are not registered yet."""
        if self.directories:
            self._load(None)

    def reload(self, changed: Collection[Path], removed: Collection[Path]) -> None:
        """Load changed files and unload removed ones. A module is replaced in one step, or stays if that fails."""
        for file in (*changed, *removed):
            if file in self._bound or file.name.endswith(BINDING):
                self._rebind(file, is_removed=file in removed)
        for file in removed:
            id = self.module_id(file) if file.suffix == ".py" else None
            if id is not None:
                self.registry.unregister(id)
        # A removed metadata file changes its module.
        files = {file for file in map(module_file, (*changed, *removed)) if file.suffix == ".py" and file.is_file()}
        if self.directories:
            self._load(files)

    def _load(self, changed: Set[Path] | None) -> None:
        """Load these files, or all."""
        # apcore logs other warnings as well; only those about ids of files count.
        files = {self.module_id(file): file for directory in self.directories for file in files_in(directory, "*.py")}
        known = frozenset(self.registry.list(visibility=["public", "hidden"]))
        if changed is None:
            attempted = files.keys() - known
            with _collect_skipped(known) as skipped:
                self.registry.discover()
        else:
            # What could not be loaded is tried again: it may depend on a changed module.
            changed = changed | {files[id] for id in self.unloaded if id in files}
            attempted = {self.module_id(file) for file in changed}
            with _collect_skipped(known - attempted) as skipped:
                self.registry.reload(changed)
        problems = {id: reason for id, reason in skipped.items() if id in attempted}
        for id, error in self.registry.faults.items():
            problems[id] = _reason(error)
            if id not in known:
                logger.warning("skipped module %s: %s", id, problems[id])
        for id in problems.keys() & known:
            logger.warning("cannot load the changed module %s, the old one stays: %s", id, problems[id])
        found = {id: reason for id, reason in problems.items() if id in files and not self.registry.has(id)}
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

    def _bind(self, file: Path) -> None:
        before = frozenset(self.registry.list(visibility=["public", "hidden"]))
        try:
            BindingLoader().load_bindings(str(file), self.registry)
        except FAULTS as error:  # a broken file must not affect the others
            self._set_unbound(file, error)
        self._bound[file] = frozenset(self.registry.list(visibility=["public", "hidden"])) - before
        self.unloaded.update(self._unbound)

    def _rebind(self, file: Path, *, is_removed: bool) -> None:
        """Load a binding file apart, so that a file with an error changes nothing; then replace its modules."""
        found, before = Registry(), self._bound.get(file, frozenset())
        try:
            if not is_removed:
                BindingLoader().load_bindings(str(file), found)
        except FAULTS as error:
            self._set_unbound(file, error)
            return
        self._unbound.pop(str(file), None)
        ids = frozenset(found.list(visibility=["public", "hidden"]))
        taken = {id for id in ids - before if self.registry.has(id)}
        if taken:
            logger.warning("%s: %s is the id of another module", file, sorted(taken)[0])
        for id in ids - taken:
            self.registry.adopt(id, found)
        for id in before - ids:
            self.registry.unregister(id)
        self._bound[file] = ids - taken

    def _set_unbound(self, file: Path, error: BaseException) -> None:
        self._unbound[str(file)] = _reason(error)
        logger.warning("skipped %s: %s", file, self._unbound[str(file)])


def bindings_in(directory: Path) -> list[Path]:
    """Return the binding files of a directory."""
    return sorted(directory.glob(f"*{BINDING}"))


def module_file(file: Path) -> Path:
    """Return the module file of a file, which may be a metadata file."""
    return file.with_name(file.name.replace("_meta.yaml", ".py"))


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


__all__ = ["BINDING", "LoadedModules", "bindings_in", "files_in", "module_file"]
