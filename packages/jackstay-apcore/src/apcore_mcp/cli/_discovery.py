"""A registry whose discovery leaves the faults of one file with that file.

apcore discovers all modules in stages: metadata, import, validation, order, registration. It skips a file that cannot be
imported, but other mistakes end the whole of it: metadata that are no YAML, a dependency that is not there, a script that
calls `sys.exit()`. Here each stage is gone through module by module, and what fails is kept with its error.

The stages are apcore's own, and not public. With an apcore that has others these are not called, and its own rules hold.

Must never know a server. Above: `_loading`. Below: apcore's Registry.
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

# What a file can raise. An interruption is the user's.
FAULTS: Final = (Exception, SystemExit)

# How apcore says that modules cannot be brought into an order.
ORDER_FAULTS: Final = (
    CircularDependencyError,
    DependencyNotFoundError,
    DependencyVersionMismatchError,
    ModuleLoadError,
)


class SturdyRegistry(Registry):  # type: ignore[misc]  # apcore ships no types
    """A registry. `faults` are the modules that the last discovery left out for an error that apcore lets through, by id."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.faults: dict[str, BaseException] = {}

    def discover(self, *arguments: Any, **options: Any) -> int:
        """As apcore's; how many were registered."""
        self.faults = {}
        count: int = super().discover(*arguments, **options)
        return count

    def _load_all_metadata(self, discovered: list[Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for one in discovered:
            with self._apart(one.canonical_id):
                made.update(super()._load_all_metadata([one]))
        # The later stages go by the same list.
        discovered[:] = [one for one in discovered if one.canonical_id in made]
        return made

    def _resolve_all_entry_points(self, discovered: list[Any], metadata: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for one in discovered:
            with self._apart(one.canonical_id):
                made.update(super()._resolve_all_entry_points([one], metadata))
        return made

    def _validate_all(self, classes: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for id, kind in classes.items():
            with self._apart(id):
                made.update(super()._validate_all({id: kind}))
        return made

    def _resolve_load_order(self, classes: dict[str, Any], metadata: dict[str, Any]) -> list[str]:
        left = dict(classes)
        while True:
            try:
                order: list[str] = super()._resolve_load_order(left, metadata)
            except ORDER_FAULTS as error:
                # Who depends on one of these is the next to be blamed.
                blamed = _blamed(error) & left.keys()
                if not blamed:
                    raise
                self.faults.update(dict.fromkeys(blamed, error))
                left = {id: kind for id, kind in left.items() if id not in blamed}
            else:
                return order

    def _register_in_order(self, order: list[str], classes: dict[str, Any], metadata: dict[str, Any]) -> int:
        count = 0
        for id in order:
            with self._apart(id):
                count += super()._register_in_order([id], classes, metadata)
        return count

    @contextmanager
    def _apart(self, id: str) -> Iterator[None]:
        try:
            yield
        except FAULTS as error:
            self.faults[id] = error


def _blamed(error: Any) -> set[str]:
    """The modules that a fault of the order is about."""
    cycle = error.details.get("cycle_path")
    return set(cycle or str(error.details.get("module_id")).split(","))


__all__ = ["FAULTS", "ORDER_FAULTS", "SturdyRegistry"]
