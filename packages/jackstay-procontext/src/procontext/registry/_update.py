"""How a newer registry comes here: a small description is read, the file it names is fetched, checked and put in place.

The description is JSON: `{"version": "2026.11.15", "url": "known-libraries.json", "sha256": "..."}`, where `url` may be
relative to it. Nothing is fetched if that version is here already, or a newer one. What does not have the checksum, or is no registry, is
dropped, and the one in place stays. A failure is tried again after a while that grows, and never ends the server.

Must never know sockets: `download` is given. Above: `app`, `cli`. Below: `_registry`, `_store`, `_document`.
"""

import asyncio
import itertools
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeAlias
from urllib.parse import urljoin, urlsplit

import msgspec

from procontext.errors import ProContextError, RegistryError
from procontext.fetch import shown_host, shown_url
from procontext.registry._document import checksum, read_document
from procontext.registry._registry import UNKNOWN, is_older
from procontext.registry._store import State, Store

logger = logging.getLogger("procontext.registry")

# The bytes at an address. Raises ProContextError or OSError.
Download: TypeAlias = Callable[[str], Awaitable[bytes]]

# Seconds between two tries after a failure: short enough to get over a restart of the network, long enough for a server
# that is down, and never less often than once an hour.
FIRST_DELAY: Final = 60.0
MOST_DELAY: Final = 3600.0

_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")


class Description(msgspec.Struct, frozen=True):
    """What is published about the newest registry."""

    version: str
    url: str
    sha256: str


async def update(store: Store, url: str, download: Download, in_use: str = UNKNOWN) -> State | None:
    """Fetch the registry that `url` describes and put it in place; None if that version is there already, or a newer one.

    `in_use` is the version that serves now, wherever it came from.

    Raises: RegistryError, with the address and what is wrong; the registry in place is untouched.
    """
    try:
        described = msgspec.json.decode(await download(url), type=Description)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RegistryError(shown_url(url), f"is not the description of a registry: {error}") from error
    except (ProContextError, OSError) as error:
        raise RegistryError(shown_url(url), f"cannot be fetched: {_said(error)}") from error
    if _SHA256.fullmatch(described.sha256) is None:
        raise RegistryError(shown_url(url), "gives no SHA-256 checksum")
    state = store.state()
    if state is not None and _is_whole(store):
        is_same = state.sha256 == described.sha256.lower()
        if is_same or is_older(described.version, state.version):
            return None
    if is_older(described.version, in_use):
        return None  # a mirror that is behind must not undo what the package brought
    file = urljoin(url, described.url)
    if urlsplit(url).scheme == "https" and urlsplit(file).scheme != "https":
        raise RegistryError(shown_url(url), f"leads from https to {shown_host(file)}")
    try:
        data = await download(file)
    except (ProContextError, OSError) as error:
        raise RegistryError(shown_url(file), f"cannot be fetched: {_said(error)}") from error
    if checksum(data) != described.sha256.lower():
        raise RegistryError(shown_url(file), "does not have the checksum that was published")
    try:
        return await asyncio.to_thread(_put_in_place, store, data, file, described.version)
    except OSError as error:
        raise RegistryError(str(store.directory), f"cannot be written: {error.strerror}") from error


def _put_in_place(store: Store, data: bytes, file: str, version: str) -> State:
    found = read_document(data, file).version
    if found != version:
        raise RegistryError(shown_url(file), f"is version {found}, not {version} as was published")
    return store.replace(data, file)


def _said(error: Exception) -> str:
    return error.message if isinstance(error, ProContextError) else str(error) or type(error).__name__


def _is_whole(store: Store) -> bool:
    try:
        return store.load() is not None
    except RegistryError:
        return False


def delays() -> Iterator[float]:
    """How long to wait after the first failure in a row, the second, and so on."""
    for count in itertools.count():
        yield min(FIRST_DELAY * 2 ** min(count, 16), MOST_DELAY)


async def keep_fresh(
    refresh: Callable[[], Awaitable[object]],
    *,
    every: float,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Refresh now, and again `every` so many seconds; after a failure sooner, and then less and less soon. Never returns."""
    waits = delays()
    while True:
        try:
            await refresh()
        except RegistryError as error:
            wait = min(next(waits), every)
            logger.warning("registry_refresh_failed: %s; again in %g s", error, wait)
        else:
            waits = delays()
            wait = every
        await sleep(wait)


__all__ = ["Description", "Download", "delays", "keep_fresh", "update"]
