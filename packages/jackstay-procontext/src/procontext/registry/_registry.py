"""`Registry`: every library that is known now. Loaded once, replaced as a whole, read from any thread.

It is made empty and loads on a thread of its own, so that a server can answer `initialize` before a large file is parsed;
`ready()` is awaited by whoever needs the rows. Which file: the one that the settings name, else the newer of the downloaded
and the bundled one. Private sources come first and win over rows with the same id.

Must never know a tool. Above: `app`, `cli`, `tools`, `page` (as `Libraries`). Below: `_store`, `_document`, `resolve`.
"""

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from procontext.errors import RegistryError
from procontext.models import Library, Match
from procontext.registry._document import Document, read_document
from procontext.registry._store import BUNDLED, Store
from procontext.resolve import Index

logger = logging.getLogger("procontext.registry")

# What the version is before a registry is loaded (reference, section 8).
UNKNOWN = "unknown"


class Registry:
    """The libraries. `load()` or `start()` it first."""

    def __init__(
        self,
        *,
        sources: Sequence[Library] = (),
        local_sources: Sequence[Library] = (),
        local_file: str = "",
        path: str | None = None,
        store: Store | None = None,
    ) -> None:
        self.version = UNKNOWN
        self.origin = ""
        self.generation = 0
        self.problems: list[str] = []
        self._sources = tuple(sources)
        # From the file in the working directory: they may add names, and take none that a library has.
        self._local_sources = tuple(local_sources)
        self._local_file = local_file
        self._path = path
        self._store = store
        self._index = Index(())
        self._is_loaded = threading.Event()
        self._failure: RegistryError | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Registry {self.version}, {len(self._index)} libraries, {self.origin or 'not loaded'}>"

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[Library]:
        return iter(self._index)

    def get(self, library_id: str) -> Library | None:
        """The library with this identifier."""
        return self._index.get(library_id)

    def resolve(self, query: str) -> list[Match]:
        """The libraries that a query may mean, best first. At first it may wait; on a loop, `find` is the way."""
        return self._index.resolve(query)

    async def find(self, query: str) -> list[Match]:
        """The same without ever holding up the loop: on a thread, until what a misspelt name needs has been made."""
        index = self._index
        return index.resolve(query) if index.is_warm else await asyncio.to_thread(index.resolve, query)

    # --- loading ------------------------------------------------------------------------------------------------------

    @property
    def is_loaded(self) -> bool:
        """True once there are rows, or a failure to tell."""
        return self._is_loaded.is_set()

    def load(self) -> None:
        """Read the registry, now, on this thread; again, if a newer one was put in place.

        Raises: RegistryError, if not even the bundled one can be read, or the one that the settings name cannot, or a source
        of the working directory has a name of another library.
        """
        with self._lock:
            try:
                document, origin = self._find()
                mine = {library.id for library in self._sources}
                rows = (*self._sources, *(row for row in document.libraries if row.id not in mine))
                index = Index((*self._accepted(rows), *rows) if self._local_sources else rows)
                if self._is_loaded.is_set():
                    index.warm()  # the rows that are there serve meanwhile
                self._index = index
                self.version, self.origin = document.version, origin
                self.generation += 1
                self._failure = None
            except RegistryError as error:
                self._failure = error
                raise
            finally:
                self._is_loaded.set()

    def _accepted(self, rows: Sequence[Library]) -> list[Library]:
        """The local sources that take no name of a row. At first one that does is an error; after an update it is left out.

        Raises: RegistryError.
        """
        known = Index(rows)
        accepted: list[Library] = []
        for place, source in enumerate(self._local_sources):
            problem = _taken(source, known)
            if problem is None:
                accepted.append(source)
                continue
            problem = (
                f"sources[{place}].{problem}, which a file in the working directory may not replace. Use another name, or, if"
                f" you trust this file, name it: --config {self._local_file}, or PROCONTEXT_CONFIG={self._local_file}"
            )
            if self.generation == 0:
                raise RegistryError(self._local_file, problem)
            self.problems.append(f"{self._local_file}: {problem}")
            logger.warning("source_left_out: %s: %s", self._local_file, problem)
        return accepted

    def start(self, then: Callable[[RegistryError | None], object] | None = None) -> threading.Thread:
        """Load on a thread, tell `then`, and make ready what the first misspelt name needs."""

        def run() -> None:
            failed = None
            try:
                self.load()
            except RegistryError as error:
                logger.error("registry_load_failed: %s", error)
                failed = error
            if then is not None:
                then(failed)
            self._index.warm()

        thread = threading.Thread(target=run, name="procontext-registry", daemon=True)
        thread.start()
        return thread

    async def ready(self) -> None:
        """Wait until there are rows.

        Raises: RegistryError, if there will be none.
        """
        if not self._is_loaded.is_set():
            await asyncio.to_thread(self._is_loaded.wait)
        if self._failure is not None:
            raise self._failure

    def _find(self) -> tuple[Document, str]:
        self.problems = []
        if self._path is not None:
            return _read(Path(self._path)), self._path
        downloaded = None
        try:
            downloaded = None if self._store is None else self._store.load()
        except RegistryError as error:  # the bundled one is always there
            self.problems.append(str(error))
            logger.warning("registry_pair_invalid: %s; the bundled registry is used", error)
        bundled = _read(BUNDLED)
        if (
            downloaded is not None
            and self._store is not None
            and not is_older(downloaded.version, bundled.version)
        ):
            return downloaded, str(self._store.directory)
        return bundled, str(BUNDLED)


def is_older(version: str, other: str) -> bool:
    """True if both versions are numbers with dots and the first is less: an old download after a newer installation."""
    pattern = r"v?\d+(\.\d+)*"
    if re.fullmatch(pattern, version) is None or re.fullmatch(pattern, other) is None:
        return False
    return [*map(int, version.lstrip("v").split("."))] < [*map(int, other.lstrip("v").split("."))]


def _taken(source: Library, known: Index) -> str | None:
    """The first name of a source that a known library has, as `KEY: 'name' is library 'id'`."""
    names = [("id", source.id), ("name", source.name), *(("aliases", name) for name in source.aliases)]
    names += [("packages.pypi", name) for name in source.packages.pypi]
    names += [("packages.npm", name) for name in source.packages.npm]
    for key, name in names:
        owner = known.get(name) or known.owner(name)
        if owner is not None:
            return f"{key}: {name!r} is a name of the library {owner.id!r}"
    return None


def _read(file: Path) -> Document:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise RegistryError(str(file), f"cannot be read: {error.strerror}") from error
    return read_document(data, str(file))


__all__ = ["UNKNOWN", "Registry", "is_older"]
