"""`TokenStore`, the interface for storage of registrations and tokens, and `MemoryStore`.

Entries: `client` by issuer (registrations), `tokens` by issuer and resource, and `server` by URL, which has the issuer
and resource of the last token so that a restart needs no discovery. Values are JSON and contain secrets.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar, runtime_checkable

import msgspec

from jackstay.errors import TransportError
from jackstay.types import DECODE_ERRORS

# How long `lock()` waits. A token request takes at most 10 s, so a program that holds the lock longer hangs.
LOCK_SECONDS = 30.0
# The poll interval of a lock: first and maximum.
LOCK_POLL = (0.01, 0.2)


@runtime_checkable
class TokenStore(Protocol):
    """Storage of registrations and tokens: implement it to use a keyring, a vault or a database.

    Keys are strings without line breaks; values are JSON and secret. An exception of a method fails the request that
    needed it, so raise one of `jackstay.errors`. Tokens that cannot be stored are used nevertheless.
    """

    async def load(self, key: str) -> bytes | None:
        """Return the stored value, or None."""

    async def save(self, key: str, value: bytes | None) -> None:
        """Store `value`, or delete the key if it is None. The value must be durable when this returns.

        If the caller is cancelled, CancelledError must be raised after that as well, because the lock is released then.
        """

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Return a lock that excludes all other users of the store while a token is refreshed.

        A refresh token may be used once: after acquiring the lock, the value is loaded again. `load()` and `save()`
        work without the lock. It must be released when its process exits.

        Raises: TransportError, retryable, if it is not released within `LOCK_SECONDS`.
        """


class MemoryStore:
    """Storage in memory. Authorizers that use the same store share its tokens."""

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}
        self._locks: dict[str, threading.Lock] = {}

    async def load(self, key: str) -> bytes | None:
        """Return the stored value, or None."""
        return self._entries.get(key)

    async def save(self, key: str, value: bytes | None) -> None:
        """Store `value`, or delete the key if it is None."""
        if value is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = value

    @contextlib.asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Exclude all other users of this store, on any event loop. Raises: TransportError."""
        # A thread lock, because several event loops may use the store; it is polled and never blocks a loop.
        lock = self._locks.setdefault(key, threading.Lock())
        await poll_lock(lambda: lock.acquire(blocking=False), "this program")
        try:
            yield
        finally:
            lock.release()

    def __repr__(self) -> str:
        """Without the content."""
        return f"MemoryStore({len(self._entries)} entries)"


async def poll_lock(is_acquired: Callable[[], bool], where: str) -> None:
    """Poll until the lock is acquired. Raises: TransportError after `LOCK_SECONDS`."""
    delay, max_delay = LOCK_POLL
    deadline = asyncio.get_running_loop().time() + LOCK_SECONDS
    while not is_acquired():
        if asyncio.get_running_loop().time() >= deadline:
            raise TransportError(
                f"cannot refresh the token: another program has held the lock for {LOCK_SECONDS:g} s"
                f" (lock: {where}); end that program and retry"
            )
        await asyncio.sleep(delay)
        delay = min(2 * delay, max_delay)


def client_key(issuer: str) -> str:
    """Return the key of a registration."""
    return f"client {issuer}"


def tokens_key(issuer: str, resource: str) -> str:
    """Return the key of tokens."""
    return f"tokens {issuer} {resource}"


def server_key(url: str) -> str:
    """Return the key of the issuer and resource of a server."""
    return f"server {url}"


Entry = TypeVar("Entry", bound=msgspec.Struct)


async def load_entry(store: TokenStore, key: str, kind: type[Entry]) -> Entry | None:
    """Return the decoded entry, or None if it is absent or of an incompatible version."""
    value = await store.load(key)
    try:
        return None if value is None else msgspec.json.decode(value, type=kind)
    except DECODE_ERRORS:
        return None


async def save_entry(store: TokenStore, key: str, entry: msgspec.Struct) -> None:
    """Encode and store an entry."""
    await store.save(key, msgspec.json.encode(entry))
