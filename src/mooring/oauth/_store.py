"""Where registrations and tokens are kept: a contract of two methods, and the store that forgets.

Three kinds of entries: `client` by issuer (what the program registered), `tokens` by issuer and resource, and `server`, which
says who gave access to a URL last, so that the next start needs no round trip to find out. A token is thereby never looked
up without the issuer that gave it. Values are JSON and hold secrets.

Above: the authorizers. Below: nothing.
"""

from typing import Protocol, TypeVar, runtime_checkable

import msgspec


@runtime_checkable
class TokenStore(Protocol):
    """What remembers registrations and tokens: implement these two to keep them in a keyring, a vault or a database.

    Keys are text without line ends; values are JSON. They are secrets: keep them as such. An error that a method raises
    ends the request that needed it, so raise one of `mooring.errors` with a sentence for people.
    """

    async def load(self, key: str) -> bytes | None:
        """The value that was saved last, or None."""

    async def save(self, key: str, value: bytes | None) -> None:
        """Keep `value`, or forget the key where it is None. When this returns, a crash must not undo it."""


class MemoryStore:
    """Remembers as long as the program runs. Authorizers that are given the same one share what it holds."""

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}

    async def load(self, key: str) -> bytes | None:
        """The value that was saved last, or None."""
        return self._entries.get(key)

    async def save(self, key: str, value: bytes | None) -> None:
        """Keep `value`, or forget the key."""
        if value is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = value

    def __repr__(self) -> str:
        """How many, never what."""
        return f"MemoryStore({len(self._entries)} entries)"


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
