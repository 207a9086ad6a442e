"""A registry whose discovery isolates the errors of each file, and which replaces modules in one step.

In apcore, invalid metadata, a missing dependency or a call of `sys.exit()` ends the whole discovery. Here each stage
runs for one module at a time. The stages are private to apcore; a version with other stages keeps its own behaviour.
"""

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from apcore import (  # type: ignore[import-untyped]  # apcore ships no types
    CircularDependencyError,
    DependencyNotFoundError,
    DependencyVersionMismatchError,
    ModuleLoadError,
    Registry,
)
from apcore.registry.metadata import merge_module_metadata  # type: ignore[import-untyped]

logger = logging.getLogger("apcore_mcp.cli")

# Exceptions of a file that are isolated; KeyboardInterrupt is not.
FAULTS: Final = (Exception, SystemExit)

# Errors of apcore while ordering modules by their dependencies.
ORDER_FAULTS: Final = (
    CircularDependencyError,
    DependencyNotFoundError,
    DependencyVersionMismatchError,
    ModuleLoadError,
)


class FaultIsolatingRegistry(Registry):  # type: ignore[misc]  # apcore ships no types
    """A registry. `faults` has the modules that the last discovery skipped because of such an error, by id."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.faults: dict[str, BaseException] = {}
        # Called with the id of a replaced module before its `on_unload()`: waits for the calls that it still serves.
        self.wait_for_calls: Callable[[str], None] = lambda _: None
        # The files that are loaded; None: all.
        self._only: frozenset[Path] | None = None

    def discover(self, *arguments: Any, **options: Any) -> int:
        """Discover modules as in apcore. Return the number of registered modules."""
        self.faults = {}
        count: int = super().discover(*arguments, **options)
        return count

    def reload(self, files: Collection[Path]) -> None:
        """Load only these files. A registered module is replaced, or stays if the new one cannot be loaded."""
        self._only = frozenset(file.resolve() for file in files)
        try:
            self.discover()
        finally:
            self._only = None

    def adopt(self, id: str, other: Registry) -> None:
        """Register a module of another registry, in place of the present one."""
        module = other.get(id)
        meta = other._module_meta[id]
        self._publish(id, module, meta.get("version") or self._effective_version(module, {}), {}, meta)

    def _scan_roots(self, *arguments: Any, **options: Any) -> list[Any]:
        found: list[Any] = super()._scan_roots(*arguments, **options)
        if self._only is None:
            return found
        return [module for module in found if Path(module.file_path).resolve() in self._only]

    def _load_all_metadata(self, discovered: list[Any]) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        for module in discovered:
            with self._isolated(module.canonical_id):
                metadata.update(super()._load_all_metadata([module]))
        # The later stages use the same list.
        discovered[:] = [module for module in discovered if module.canonical_id in metadata]
        return metadata

    def _resolve_all_entry_points(self, discovered: list[Any], metadata: dict[str, Any]) -> dict[str, Any]:
        classes: dict[str, Any] = {}
        for module in discovered:
            with self._isolated(module.canonical_id):
                classes.update(super()._resolve_all_entry_points([module], metadata))
        return classes

    def _validate_all(self, classes: dict[str, Any]) -> dict[str, Any]:
        valid: dict[str, Any] = {}
        for id, kind in classes.items():
            with self._isolated(id):
                valid.update(super()._validate_all({id: kind}))
        return valid

    def _resolve_load_order(self, classes: dict[str, Any], metadata: dict[str, Any]) -> list[str]:
        left = dict(classes)
        while True:
            try:
                order: list[str] = super()._resolve_load_order(left, metadata)
            except ORDER_FAULTS as error:
                # Modules that depend on these fail in the next iteration.
                failed = _failed_modules(error) & left.keys()
                if not failed:
                    raise
                self.faults.update(dict.fromkeys(failed, error))
                left = {id: kind for id, kind in left.items() if id not in failed}
            else:
                return order

    def _register_in_order(self, order: list[str], classes: dict[str, Any], metadata: dict[str, Any]) -> int:
        count = 0
        for id in order:
            with self._isolated(id):
                if self._only is not None and self.has(id):
                    count += self._replace(id, classes, metadata)
                else:
                    count += super()._register_in_order([id], classes, metadata)
        return count

    def _filter_id_conflicts(self, order: list[str], classes: dict[str, Any]) -> dict[str, Any]:
        # A module that is replaced does not conflict with itself.
        replaced = [id for id in order if self._only is not None and self.has(id)]
        others = [id for id in order if id not in replaced]
        kept: dict[str, Any] = super()._filter_id_conflicts(others, classes)
        return kept

    def _replace(self, id: str, classes: dict[str, Any], metadata: dict[str, Any]) -> int:
        kind, meta = classes.get(id), metadata.get(id, {})
        if kind is None:
            return 0
        module = kind()
        version = self._effective_version(module, meta)
        if not self._invoke_on_load(id, module, version):
            return 0
        self._publish(id, module, version, meta, merge_module_metadata(module, meta))
        return 1

    def _publish(self, id: str, module: Any, version: str, meta: dict[str, Any], merged: dict[str, Any]) -> None:
        """Register a module in place of the present one, in one step, then unload the old one."""
        with self._lock:
            old = self._modules.get(id)
            for store in (self._versioned_modules, self._versioned_meta):
                store.remove_all(id)
            self._versioned_modules.add(id, version, module)
            if meta:
                self._versioned_meta.add(id, version, meta)
            self._modules[id] = module
            self._module_meta[id] = merged
            self._lowercase_map[id.lower()] = id
            self._schema_cache.pop(id, None)
        self._trigger_event("register", id, module)
        unload = getattr(old, "on_unload", None)
        if callable(unload):
            self.wait_for_calls(id)
            try:
                unload()
            except FAULTS:
                logger.exception("on_unload() of the replaced module %s failed", id)

    @contextmanager
    def _isolated(self, id: str) -> Iterator[None]:
        try:
            yield
        except FAULTS as error:
            self.faults[id] = error


def _failed_modules(error: Any) -> set[str]:
    """Return the modules that an ordering error is about."""
    cycle = error.details.get("cycle_path")
    return set(cycle or str(error.details.get("module_id")).split(","))


__all__ = ["FAULTS", "ORDER_FAULTS", "FaultIsolatingRegistry"]
