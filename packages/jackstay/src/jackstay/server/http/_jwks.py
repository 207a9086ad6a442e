"""The keys that an authorization server signs with: fetched when they are needed, kept, and fetched again when they change.

Servers rotate keys, so a token may name one that was not there a minute ago; and anybody can make up a name. An unknown
name makes us look again, but not more often than LEAST_INTERVAL, whatever is sent. Requests that wait for the same fetch
share it. A server of keys that is down costs nothing while ours are fresh enough.

Must never know a token. Above: `_jwt`. Below: an HTTP client (`jackstay.transport`), the JOSE library for what a key is.
"""

import asyncio
import logging
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from jackstay.errors import Json, TransportError, UsageError
from jackstay.extras import install_command
from jackstay.transport.http import is_loopback

if TYPE_CHECKING:
    from joserfc.jwk import Key

    from jackstay.transport import HttpClient

logger = logging.getLogger("jackstay.server.http")

# Keys that are older than this are fetched again with the next token; where that fails the old ones do, for a day. After
# that a key which was withdrawn long ago could still be in use, and nothing is taken until there are new ones.
MAX_AGE: Final = 3_600.0
MOST_AGE: Final = 86_400.0
# How soon an unknown name, or a fetch that failed, makes us ask again.
LEAST_INTERVAL: Final = 30.0
FETCH_TIMEOUT: Final = 10.0
# Sets in use have a few keys of some hundred bytes.
MOST_BYTES: Final = 262_144
MOST_KEYS: Final = 64

Fetch: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]

# The kind of key that each family of algorithms takes; that they match is what refuses a public key used as a secret.
FAMILIES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP", "HS": "oct"}


# The least bits of a key, by kind (RFC 7518, sections 3.2, 3.3 and 3.5). A secret must also be as long as the hash.
MIN_BITS: Final = {"RSA": 2048, "oct": 256}


class KeySource:
    """Keys by name. `fetch` gives a JWK set (RFC 7517) as JSON; without it `given` is all there is."""

    def __init__(
        self,
        fetch: Fetch | None,
        given: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: tuple[Key, ...] = () if given is None else read_keys(given)
        if given is not None and not self._keys:
            raise UsageError("there is no key in jwks that can be used", path="jwks")
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._running: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<KeySource of {len(self._keys)} keys>"

    async def find(self, kid: str | None, algorithm: str) -> Sequence["Key"]:
        """The keys that a token with this header may be signed with: none, if there is no such key.

        Raises: McpError, where keys cannot be had.
        """
        if self._fetch is None:
            return self._matching(kid, algorithm)
        found = self._matching(kid, algorithm)
        age = self._clock() - self._fetched_at
        if not found or age >= MAX_AGE:
            running = self._refresh()
            if running is not None and (not found or age >= MOST_AGE):  # else the old ones do meanwhile
                # One who waits and is cancelled takes nothing from the others.
                await asyncio.shield(running)
                found = self._matching(kid, algorithm)
        if self._clock() - self._fetched_at >= MOST_AGE:
            raise TransportError("there are no keys to check tokens with", retry_in=LEAST_INTERVAL)
        return found

    def _matching(self, kid: str | None, algorithm: str) -> Sequence["Key"]:
        kind = FAMILIES.get(algorithm[:2])
        return [
            key
            for key in self._keys
            if key.key_type == kind
            and (kid is None or key.get("kid") == kid)
            and key.get("alg", algorithm) == algorithm
            and (kind != "oct" or _bits(key) >= int(algorithm[2:]))
        ]

    def _refresh(self) -> asyncio.Task[None] | None:
        """The fetch that all who need one share; None if it is too soon for another."""
        if self._running is None or self._running.done():
            now = self._clock()
            if now - self._tried_at < LEAST_INTERVAL:
                return None
            self._tried_at = now
            self._running = asyncio.create_task(self._fetch_once())
        return self._running

    async def _fetch_once(self) -> None:
        assert self._fetch is not None  # `find` asked
        try:
            async with asyncio.timeout(FETCH_TIMEOUT):
                found = read_keys(await self._fetch(), is_fetched=True)
            if not found:
                raise TransportError("there is no key in the set that can be used")  # logged below
        except Exception as error:  # noqa: BLE001  # the edge of somebody's fetch; told again by who needs a key
            logger.warning("the keys that tokens are signed with could not be fetched: %r", error)
            return
        self._keys = found
        self._fetched_at = self._clock()


def read_keys(given: Mapping[str, Any], *, is_fetched: bool = False) -> tuple["Key", ...]:
    """The keys of a set that can check signatures. A key that is not understood is skipped (RFC 7517, section 5).

    A secret that came over the network is skipped too: it would be no secret. So is a fetched key that is too weak.

    Raises: UsageError for what is no set at all, and for a given key that is too weak.
    """
    from joserfc.errors import JoseError  # noqa: PLC0415  # see `need_jose`
    from joserfc.jwk import JWKRegistry  # noqa: PLC0415  # see `need_jose`

    said: object = given  # of a fetch that somebody wrote, or of a peer
    rows = said.get("keys") if isinstance(said, Mapping) else None
    if not isinstance(rows, list) or len(rows) > MOST_KEYS:
        raise UsageError(f'jwks must be {{"keys": [...]}} with at most {MOST_KEYS} keys', path="jwks")
    found = []
    for row in rows:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the library's about weak keys: they are refused below
                key = JWKRegistry.import_key(row)
            is_for_signatures = key.get("use", "sig") == "sig"
        except (JoseError, ValueError, TypeError, AttributeError, KeyError):
            continue
        if not is_for_signatures or (is_fetched and key.key_type == "oct"):
            continue
        least = MIN_BITS.get(key.key_type, 0)
        if _bits(key) >= least:
            found.append(key)
        elif is_fetched:
            logger.warning("a key of %d bits is not used: %d are the least", _bits(key), least)
        else:
            raise UsageError(
                f"a key in jwks has {_bits(key)} bits; {key.key_type} keys need {least} or more", path="jwks"
            )
    return tuple(found)


def _bits(key: "Key") -> int:
    """The size of a key whose strength is its size; 0 for others."""
    raw: Any = key.raw_value
    if key.key_type == "RSA":
        return int(raw.key_size)
    return 8 * len(raw) if key.key_type == "oct" else 0


def fetch_from(url: str, client: "HttpClient | None") -> Fetch:
    """A fetch of this URL, with the HTTP client of your choice or the one that comes with us.

    Raises: UsageError for a URL over which anybody could hand us keys.
    """
    if urlsplit(url).scheme != "https" and not is_loopback(url):
        raise UsageError(f"jwks must be an https URL, or on this machine: {url!r}", path="jwks")

    async def fetch() -> Mapping[str, Json]:
        if client is not None:
            return await _get(client, url)
        from jackstay.transport import default_http_client  # noqa: PLC0415  # loads an HTTP library

        own = default_http_client()
        try:
            return await _get(own, url)
        finally:
            await own.close()

    return fetch


async def _get(client: "HttpClient", url: str) -> Mapping[str, Json]:
    # Like the exchange of `jackstay.oauth`, whose limits, redirects and errors are other ones, and which is none of ours to
    # import: what the two have in common is this loop.
    response = await client.send("GET", url, [("accept", "application/json")], None)
    try:
        if response.status != 200:
            raise TransportError(f"{url} answered {response.status}")
        body = bytearray()
        async for chunk in response.chunks():
            body += chunk
            if len(body) > MOST_BYTES:
                raise TransportError(f"{url} sent more than {MOST_BYTES} bytes")
    finally:
        await response.close()
    try:
        found: Mapping[str, Json] = msgspec.json.decode(body, type=dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TransportError(f"{url} sent no JSON object") from error
    return found


def need_jose() -> None:
    """Raises: UsageError, naming the extra, if the JOSE library is not there."""
    try:
        import joserfc  # noqa: F401, PLC0415  # asked for, not used
    except ImportError as missing:
        raise UsageError(f"JWTs need the extra `http`: {install_command('http')}") from missing


__all__ = ["FAMILIES", "Fetch", "KeySource", "fetch_from", "need_jose", "read_keys"]
