"""`Registry`: all known libraries, replaced as a whole and readable from any thread.

It loads on a thread of its own, so that a server can respond to `initialize` before a large file is parsed; users await
`ready()`. The file is `registry.path`, or else the newer of the downloaded and the bundled one. Private sources take
precedence over libraries with the same id.
"""

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from procontext.errors import RegistryError
from procontext.models import Library, Match, MatchedVia
from procontext.registry._document import Document, read_document
from procontext.registry._installed import Installed
from procontext.registry._store import BUNDLED, Store
from procontext.resolve import Index, normalise, requested_version

if TYPE_CHECKING:
    from procontext.registry._package_indexes import PackageIndexes

logger = logging.getLogger("procontext.registry")

# The version before a registry is loaded.
UNKNOWN = "unknown"

# Languages whose packages are not in an environment that is read.
_NOT_INSTALLED = frozenset(("csharp", "go", "java", "ruby", "rust"))


class Registry:
    """The libraries. Call `load` or `start` first."""

    def __init__(
        self,
        *,
        sources: Sequence[Library] = (),
        local_sources: Sequence[Library] = (),
        local_file: str = "",
        path: str | None = None,
        store: Store | None = None,
        installed: Installed | None = None,
        open_indexes: "Callable[[], PackageIndexes] | None" = None,
    ) -> None:
        self.version = UNKNOWN
        self.origin = ""
        self.generation = 0
        self.problems: list[str] = []
        self._sources = tuple(sources)
        # From the file in the working directory: they must not use the names of other libraries.
        self._local_sources = tuple(local_sources)
        self._local_file = local_file
        self._path = path
        self._store = store
        self._installed = installed
        # Opened at the first unknown name, because TLS is slow to load.
        self._open_indexes = open_indexes
        self._indexes: PackageIndexes | None = None
        # Packages without a row. They are not iterated over, so their domains are not allowed.
        self._learned: dict[str, Library] = {}
        # The exact hosts that package indexes name.
        self.learned_hosts: set[str] = set()
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
        """Return the library with this identifier, or None."""
        name = library_id.partition("@")[0]  # an id may have a version: `django@4.2`
        return self._index.get(name) or self._learned.get(name)

    async def lookup(self, library_id: str) -> Library | None:
        """Return the library with this identifier, also if it is only installed in the project's environment."""
        found = self.get(library_id)
        if found is None and self._installed is not None:
            found = await asyncio.to_thread(self._learn, library_id)
        indexes = self._package_indexes() if found is None else None
        if indexes is not None:
            found = await asyncio.to_thread(indexes.known, library_id)
            rows = [found] if found is not None else await indexes.find(library_id)
            found = next((row for row in map(self._add_learned, rows) if row.id == library_id), None)
        return found

    async def close(self) -> None:
        """Cancel requests to package indexes."""
        if self._indexes is not None:
            await self._indexes.close()

    def _package_indexes(self) -> "PackageIndexes | None":
        if self._indexes is None and self._open_indexes is not None:
            self._indexes = self._open_indexes()
        return self._indexes

    def _add_learned(self, library: Library) -> Library:
        self._learned[library.id] = library
        host = urlsplit(library.docs_url or "").hostname
        if library.path is None and host:
            self.learned_hosts.add(host)
        return library

    def _learn(self, name: str) -> Library | None:
        library = None if self._installed is None else self._installed.find(name)
        if library is not None:
            self._learned[library.id] = library
        return library

    def resolve(self, query: str) -> list[Match]:
        """Return the libraries that match a query, best first. May block at first; use `find` in asyncio code."""
        return self._with_environment(query, self._index.resolve(query))

    def _with_environment(self, query: str, found: list[Match]) -> list[Match]:
        """Return the matches with versions, or the installed package with this name if the registry lacks it.

        Of several libraries with this name, those that the project uses are first.
        """
        if self._installed is not None and not self._has_own(found):
            library = self._learn(normalise(query))
            if library is not None and self._index.get(library.id) is None:
                via: MatchedVia = "installed"
                return [Match(library.id, library.name, library.languages, library.docs_url, via, 1.0, library.version)]
        requested = requested_version(query)
        used = {match.library_id: self.used_version(match.library_id) for match in found} if self._installed else {}
        ranked = sorted(found, key=lambda match: used.get(match.library_id) is None) if _is_exact(found) else found
        return [msgspec.structs.replace(match, version=requested or used.get(match.library_id)) for match in ranked]

    def _has_own(self, found: Sequence[Match]) -> bool:
        """Return whether a library of the registry with exactly this name may be the installed package."""
        return _is_exact(found) and any(_NOT_INSTALLED.isdisjoint(match.languages) for match in found)

    def used_version(self, library_id: str) -> str | None:
        """Return the version of a library that the project uses, or None. May block at first."""
        library = self.get(library_id)
        return None if library is None or self._installed is None else self._installed.version(library)

    async def version_in_use(self, library_id: str) -> str | None:
        """Return the version of a library that the project uses, without blocking the event loop."""
        if self._installed is not None and not self._installed.is_listed:
            return await asyncio.to_thread(self.used_version, library_id)
        return self.used_version(library_id)

    async def find(self, query: str) -> list[Match]:
        """Resolve without blocking the event loop: on a thread until everything that is needed is in memory.

        A name that nothing local has is looked up in the package indexes, if that is allowed.
        """
        if self._index.is_warm:
            found = self._index.resolve(query)
        else:
            found = await asyncio.to_thread(self._index.resolve, query)
        name = None if self._has_own(found) else normalise(query)
        needs_files = self._installed is not None and not self._installed.is_quick(name)
        if not needs_files or (name is None and requested_version(query)):
            found = self._with_environment(query, found)
        else:
            found = await asyncio.to_thread(self._with_environment, query, found)
        indexes = None if _is_exact(found) else self._package_indexes()
        rows = [] if indexes is None else await indexes.find(normalise(query))
        rows = [self._add_learned(row) for row in rows if self._index.get(row.id) is None]
        via: MatchedVia = "package_metadata"
        version = requested_version(query)
        learned = [
            Match(row.id, row.name, row.languages, row.docs_url, via, 0.9, version or row.version) for row in rows
        ]
        return learned or found

    # --- loading ------------------------------------------------------------------------------------------------------

    @property
    def is_loaded(self) -> bool:
        """Whether loading has finished, successfully or not."""
        return self._is_loaded.is_set()

    def load(self) -> None:
        """Load the registry on this thread. Call it again after a newer one was installed.

        Raises: RegistryError if the bundled registry or `registry.path` cannot be read, or if a source from the working
        directory has the name of another library.
        """
        with self._lock:
            try:
                document, origin = self._find()
                source_ids = {source.id for source in self._sources}
                libraries = (*self._sources, *(row for row in document.libraries if row.id not in source_ids))
                rows = (*self._accepted(libraries), *libraries) if self._local_sources else libraries
                index = Index(rows, document.undocumented)
                if self._is_loaded.is_set():
                    index.warm()  # the old index is used meanwhile
                self._index = index
                self.version, self.origin = document.version, origin
                self.generation += 1
                self._failure = None
            except RegistryError as error:
                self._failure = error
                raise
            finally:
                self._is_loaded.set()

    def _accepted(self, libraries: Sequence[Library]) -> list[Library]:
        """Return the local sources without a name conflict. A conflict is an error at start and skipped later.

        Raises: RegistryError.
        """
        known = Index(libraries)
        accepted: list[Library] = []
        for position, source in enumerate(self._local_sources):
            problem = _conflict(source, known)
            if problem is None:
                accepted.append(source)
                continue
            problem = (
                f"sources[{position}].{problem}, which a file in the working directory may not replace. Use another"
                f" name, or, if you trust this file, name it: --config {self._local_file}, or"
                f" PROCONTEXT_CONFIG={self._local_file}"
            )
            if self.generation == 0:
                raise RegistryError(self._local_file, problem)
            self.problems.append(f"{self._local_file}: {problem}")
            logger.warning("source_left_out: %s: %s", self._local_file, problem)
        return accepted

    def start(self, on_loaded: Callable[[RegistryError | None], object] | None = None) -> threading.Thread:
        """Load on a thread, call `on_loaded` with the error or None, and build the index for fuzzy matching."""

        def run() -> None:
            failed = None
            try:
                self.load()
            except RegistryError as error:
                logger.error("registry_load_failed: %s", error)
                failed = error
            if on_loaded is not None:
                on_loaded(failed)
            self._index.warm()

        thread = threading.Thread(target=run, name="procontext-registry", daemon=True)
        thread.start()
        return thread

    async def ready(self) -> None:
        """Wait until the registry is loaded.

        Raises: RegistryError if loading failed.
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
        except RegistryError as error:  # fall back to the bundled registry
            self.problems.append(str(error))
            logger.warning("registry_pair_invalid: %s; using the bundled registry", error)
        bundled = _read(BUNDLED)
        if downloaded is not None and self._store is not None and not is_older(downloaded.version, bundled.version):
            return downloaded, str(self._store.directory)
        return bundled, str(BUNDLED)


def _is_exact(found: Sequence[Match]) -> bool:
    return bool(found) and found[0].matched_via != "fuzzy"


def is_older(version: str, other: str) -> bool:
    """Return whether both versions are dotted numbers and the first is smaller."""
    pattern = r"v?\d+(\.\d+)*"
    if re.fullmatch(pattern, version) is None or re.fullmatch(pattern, other) is None:
        return False
    return [*map(int, version.lstrip("v").split("."))] < [*map(int, other.lstrip("v").split("."))]


def _conflict(source: Library, known: Index) -> str | None:
    """Return the first name of a source that belongs to a known library, as `KEY: 'name' is a name of ...`, or None."""
    names = [("id", source.id), ("name", source.name), *(("aliases", name) for name in source.aliases)]
    names += [(f"packages.{index}", name) for index, name in source.packages.names()]
    for key, name in names:
        owner = known.get(name) or known.owner(name)
        if owner is not None:
            return f"{key}: {name!r} is a name of the library {owner.id!r}"
    return None


def _read(file: Path) -> Document:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise RegistryError(str(file), f"cannot read the file: {error.strerror}") from error
    return read_document(data, str(file))


__all__ = ["UNKNOWN", "Registry", "is_older"]
