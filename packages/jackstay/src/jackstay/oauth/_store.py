"""Where registrations and tokens are kept: a contract of three methods, and the store that forgets.

Three kinds of entries: `client` by issuer (what the program registered), `tokens` by issuer and resource, and `server`, which
says who gave access to a URL last, so that the next start needs no round trip to find out. A token is thereby never looked
up without the issuer that gave it. Values are JSON and hold secrets.

Above: the authorizers. Below: nothing.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar, runtime_checkable

import msgspec

from jackstay.errors import TransportError

# How long `lock()` waits for another program. A token request ends within 10 s, so who has it longer hangs.
LOCK_SECONDS = 30.0
# How often a lock is tried: at first, and at most.
LOCK_POLL = (0.01, 0.2)


@runtime_checkable
class TokenStore(Protocol):
    """What remembers registrations and tokens: implement these three to keep them in a keyring, a vault or a database.

    Keys are text without line ends; values are JSON. They are secrets: keep them as such. An error that a method raises
    ends the request that needed it, so raise one of `jackstay.errors` with a sentence for people.
    """

    async def load(self, key: str) -> bytes | None:
        """The value that was saved last, or None."""

    async def save(self, key: str, value: bytes | None) -> None:
        """Keep `value`, or forget the key where it is None. When this returns, a crash must not undo it.

        A caller that is cancelled gets its CancelledError after that, too: the lock of the key may be released then.
        """

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Exclude everybody else who shares the store while the value of this key is renewed.

        A refresh token may be used once. Whoever has the lock loads the value again, and renews only what is still due.
        `load()` and `save()` work without it. The lock ends with its holder, however that ends.

        Raises: TransportError, retryable, where another holder does not release it within `LOCK_SECONDS`.
        """


class MemoryStore:
    """Remembers as long as the program runs. Authorizers that are given the same one share what it holds."""

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}
        self._locks: dict[str, threading.Lock] = {}

    async def load(self, key: str) -> bytes | None:
        """The value that was saved last, or None."""
        return self._entries.get(key)

    async def save(self, key: str, value: bytes | None) -> None:
        """Keep `value`, or forget the key."""
        if value is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = value

    @contextlib.asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Exclude everybody else who uses this store, on any event loop. Raises: TransportError."""
        # Of threads, because a store may serve several loops; never waited for in one.
        lock = self._locks.setdefault(key, threading.Lock())
        await poll_lock(lambda: lock.acquire(blocking=False), "this program")
        try:
            yield
        finally:
            lock.release()

    def __repr__(self) -> str:
        """How many, never what."""
        return f"MemoryStore({len(self._entries)} entries)"


async def poll_lock(is_acquired: Callable[[], bool], where: str) -> None:
    """Try until it is acquired. Raises: TransportError after `LOCK_SECONDS`."""
    delay, longest = LOCK_POLL
    give_up_at = asyncio.get_running_loop().time() + LOCK_SECONDS
    while not is_acquired():
        if asyncio.get_running_loop().time() >= give_up_at:
            raise TransportError(
                f"tokens were not renewed: another program has been renewing them for {LOCK_SECONDS:g} s"
                f" and seems to hang (lock: {where}); end it and try again"
            )
        await asyncio.sleep(delay)
        delay = min(2 * delay, longest)


def client_key(issuer: str) -> str:
    """Where a registration is kept."""
    return f"client {issuer}"


def tokens_key(issuer: str, resource: str) -> str:
    """Where tokens are kept."""
    return f"tokens {issuer} {resource}"


def server_key(url: str) -> str:
    """Where it is kept who gave access to a server last."""
    return f"server {url}"


Entry = TypeVar("Entry", bound=msgspec.Struct)


async def load_entry(store: TokenStore, key: str, kind: type[Entry]) -> Entry | None:
    """The entry of that key; None where there is none, or one of another version that cannot be read."""
    value = await store.load(key)
    if value is None:
        return None
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


async def save_entry(store: TokenStore, key: str, entry: msgspec.Struct) -> None:
    """Keep an entry."""
    await store.save(key, msgspec.json.encode(entry))
