"""`--dynamic`: a thread that polls the directories once a second and loads added, changed and removed modules.

A file is loaded when two successive scans are equal, so that a file is not loaded while it is written. Only changed
files are loaded. A file that cannot be loaded does not replace the working module.
"""

import logging
import threading
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

from apcore.registry.metadata import load_metadata  # type: ignore[import-untyped]  # apcore ships no types

from apcore_mcp.cli._loading import BINDING, LoadedModules, bindings_in, files_in

logger = logging.getLogger("apcore_mcp.cli")

# Seconds between two scans.
INTERVAL: Final = 1.0

# The modification time and size of each file.
Snapshot: TypeAlias = Mapping[Path, tuple[int, int]]


class Watch:
    """Watches the directories of the loaded modules between `start()` and `stop()`."""

    def __init__(self, loaded: LoadedModules, interval: float = INTERVAL) -> None:
        self._loaded = loaded
        self._interval = interval
        self._stopping = threading.Event()
        self._known: Snapshot = scan(loaded)
        self._last: Snapshot = self._known
        self._thread = threading.Thread(target=self._run, name="apcore-mcp-watch", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for it."""
        self._stopping.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            try:
                self.step()
            except Exception:  # the top of the thread: the next scan may succeed
                logger.exception("cannot scan the directories")

    def step(self) -> None:
        """Scan once and load stable changes."""
        current = scan(self._loaded)
        stable = {file: state for file, state in current.items() if self._last.get(file) == state}
        removed = self._known.keys() - current.keys()
        changed = {file for file, state in stable.items() if self._known.get(file) != state}
        self._last = current
        if not removed and not changed:
            return
        # An unstable file keeps its old state, so that it is still a change in the next scan.
        remaining = {file: state for file, state in self._known.items() if file not in removed}
        self._known = {**remaining, **{file: current[file] for file in changed}}
        self._loaded.reload({file for file in changed if _is_loadable(file)}, removed)


def scan(loaded: LoadedModules) -> dict[Path, tuple[int, int]]:
    """Return the state of every file that apcore would load."""
    found: dict[Path, tuple[int, int]] = {}
    modules = (files_in(directory, "*.py", "*_meta.yaml") for directory in loaded.directories)
    bindings = (bindings_in(directory) for directory in loaded.bindings)
    for file in chain.from_iterable((*modules, *bindings)):
        try:
            state = file.stat()
        except OSError:
            continue  # removed meanwhile
        found[file] = state.st_mtime_ns, state.st_size
    return found


def _is_loadable(file: Path) -> bool:
    try:
        if file.suffix == ".py":
            compile(file.read_bytes(), str(file), "exec")
        elif not file.name.endswith(BINDING):
            load_metadata(file)
    except Exception as error:  # noqa: BLE001  # any error of a user's file
        logger.warning("cannot load %s: %s", file, error)
        return False
    return True


__all__ = ["INTERVAL", "Watch", "scan"]
