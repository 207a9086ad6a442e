"""A registry whose discovery isolates the errors of each file.

apcore discovers modules in stages: metadata, import, validation, order, registration. It skips a file that cannot be
imported, but invalid metadata, a missing dependency or a call of `sys.exit()` ends the whole discovery. Here each stage
runs for one module at a time. The stages are private to apcore; a version with other stages keeps its own behaviour.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from apcore import (  # type: ignore[import-untyped]  # apcore ships no types
    CircularDependencyError,
    DependencyNotFoundError,
    DependencyVersionMismatchError,
    ModuleLoadError,
    Registry,
)

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

    def discover(self, *arguments: Any, **options: Any) -> int:
        """Discover modules as in apcore. Return the number of registered modules."""
        self.faults = {}
        count: int = super().discover(*arguments, **options)
        return count

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
                count += super()._register_in_order([id], classes, metadata)
        return count

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
