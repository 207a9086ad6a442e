"""`--dynamic`: a thread that looks at the directories once a second, and loads what came, changed or went.

Looking costs a `stat` for each file and needs no library. A file is loaded when it has been the same twice in a row, so that
one which is still being written is left alone, and a file that cannot be read does not take away the module that works.

Must never know a server: the registry tells who listens. Above: `_main`. Below: `_loading`.
"""

import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from apcore.registry.metadata import load_metadata  # type: ignore[import-untyped]  # apcore ships no types

from apcore_mcp.cli._loading import Loaded, files_in

logger = logging.getLogger("apcore_mcp.cli")

# How often to look, in seconds.
INTERVAL: Final = 1.0

# A file as it was seen: when it was changed last, and its size.
Seen: TypeAlias = Mapping[Path, tuple[int, int]]


class Watch:
    """Follows the directories of what was loaded, between `start()` and `stop()`."""

    def __init__(self, loaded: Loaded, interval: float = INTERVAL) -> None:
        self._loaded = loaded
        self._interval = interval
        self._stopping = threading.Event()
        self._known: Seen = look(loaded)
        self._last: Seen = self._known
        self._thread = threading.Thread(target=self._run, name="apcore-mcp-watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it."""
        self._stopping.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            try:
                self.step()
            except Exception:  # the outermost edge of the thread: the next look may find it well again
                logger.exception("the directories could not be followed")

    def step(self) -> None:
        """Look once, and load what has settled."""
        seen = look(self._loaded)
        settled = {file: state for file, state in seen.items() if self._last.get(file) == state}
        gone = self._known.keys() - seen.keys()
        changed = {file for file, state in settled.items() if self._known.get(file) != state}
        self._last = seen
        if not gone and not changed:
            return
        # What has changed and not settled is known as it was, so that it is still a change at the next look.
        stayed = {file: state for file, state in self._known.items() if file not in gone}
        self._known = {**stayed, **{file: seen[file] for file in changed}}
        self._apply({file for file in changed if _can_be_read(file)}, gone)

    def _apply(self, changed: set[Path], gone: set[Path]) -> None:
        registry = self._loaded.registry
        for file in (*gone, *changed):
            module_id = self._loaded.module_id(_source(file))
            if module_id is not None and registry.has(module_id):
                registry.unregister(module_id)
        # Also after what only went: a module whose metadata are gone is still there, and what was skipped no longer is.
        self._loaded.discover()


def look(loaded: Loaded) -> dict[Path, tuple[int, int]]:
    """Every file that apcore would look at, and its state."""
    found: dict[Path, tuple[int, int]] = {}
    for directory in loaded.directories:
        for file in files_in(directory, "*.py", "*_meta.yaml"):
            try:
                state = file.stat()
            except OSError:
                continue  # gone since
            found[file] = state.st_mtime_ns, state.st_size
    return found


def _source(file: Path) -> Path:
    """The module of a file: of its metadata, the file that they are about."""
    return file.with_name(file.name.replace("_meta.yaml", ".py"))


def _can_be_read(file: Path) -> bool:
    try:
        if file.suffix == ".py":
            compile(file.read_bytes(), str(file), "exec")
        else:
            load_metadata(file)
    except Exception as error:  # noqa: BLE001  # the edge of somebody's file
        logger.warning("%s is not loaded: %s", file, error)
        return False
    return True


__all__ = ["INTERVAL", "Watch", "look"]
