"""Update of the registry: read a description, then fetch, verify and install the file that it names.

The description is JSON: `{"version": "2026.11.15", "url": "known-libraries.json", "sha256": "..."}`, where `url` may be
relative. An older or equal version is not fetched. An invalid file is discarded and the installed registry kept.
Failures are retried with exponential backoff.
"""

import asyncio
import itertools
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeAlias
from urllib.parse import urljoin, urlsplit

import msgspec

from jackstay.types import DECODE_ERRORS
from procontext.errors import ProContextError, RegistryError
from procontext.fetch import display_host, display_url
from procontext.registry._document import checksum, read_document
from procontext.registry._registry import UNKNOWN, is_older
from procontext.registry._store import State, Store

logger = logging.getLogger("procontext.registry")

# Returns the bytes at a URL. Raises ProContextError or OSError.
Download: TypeAlias = Callable[[str], Awaitable[bytes]]

# Seconds between two attempts after a failure; the delay doubles up to the maximum.
FIRST_DELAY: Final = 60.0
MAX_DELAY: Final = 3600.0

_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")


class Description(msgspec.Struct, frozen=True):
    """The published description of the newest registry."""

    version: str
    url: str
    sha256: str


async def update(store: Store, url: str, download: Download, current_version: str = UNKNOWN) -> State | None:
    """Fetch and install the registry that `url` describes. Return None if an equal or newer version is installed.

    `current_version` is the version in use, whatever its origin.

    Raises: RegistryError with the URL and the problem; the installed registry is not changed.
    """
    try:
        described = msgspec.json.decode(await download(url), type=Description)
    except DECODE_ERRORS as error:
        raise RegistryError(display_url(url), f"not a description of a registry: {error}") from error
    except (ProContextError, OSError) as error:
        raise RegistryError(display_url(url), f"cannot fetch: {_describe(error)}") from error
    if _SHA256.fullmatch(described.sha256) is None:
        raise RegistryError(display_url(url), f"invalid SHA-256 checksum {described.sha256[:80]!r}")
    state = store.state()
    if state is not None and _is_intact(store):
        is_same = state.sha256 == described.sha256.lower()
        if is_same or is_older(described.version, state.version):
            return None
    if is_older(described.version, current_version):
        return None  # an outdated mirror must not replace a newer bundled registry
    file = urljoin(url, described.url)
    if urlsplit(url).scheme == "https" and urlsplit(file).scheme != "https":
        raise RegistryError(display_url(url), f"downgrade from https to {display_host(file)}")
    try:
        data = await download(file)
    except (ProContextError, OSError) as error:
        raise RegistryError(display_url(file), f"cannot fetch: {_describe(error)}") from error
    if checksum(data) != described.sha256.lower():
        raise RegistryError(display_url(file), "the checksum does not match the published one")
    try:
        return await asyncio.to_thread(_install, store, data, file, described.version)
    except OSError as error:
        raise RegistryError(str(store.directory), f"cannot write the registry: {error.strerror}") from error


def _install(store: Store, data: bytes, file: str, version: str) -> State:
    found = read_document(data, file).version
    if found != version:
        raise RegistryError(display_url(file), f"the version is {found!r}, but {version!r} was published")
    return store.replace(data, file)


def _describe(error: Exception) -> str:
    return error.message if isinstance(error, ProContextError) else str(error) or type(error).__name__


def _is_intact(store: Store) -> bool:
    try:
        return store.load() is not None
    except RegistryError:
        return False


def delays() -> Iterator[float]:
    """Return the delays after consecutive failures."""
    for count in itertools.count():
        yield min(FIRST_DELAY * 2 ** min(count, 16), MAX_DELAY)


async def keep_fresh(
    refresh: Callable[[], Awaitable[object]],
    *,
    every: float,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Refresh at once, then every `every` seconds, or after a failure with the backoff of `delays`. Never returns."""
    waits = delays()
    while True:
        try:
            await refresh()
        except RegistryError as error:
            wait = min(next(waits), every)
            logger.warning("registry_refresh_failed: %s; retry in %g s", error, wait)
        else:
            waits = delays()
            wait = every
        await sleep(wait)


__all__ = ["Description", "Download", "delays", "keep_fresh", "update"]
