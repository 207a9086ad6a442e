"""The signing keys of an authorization server (JWK sets, RFC 7517): fetched on demand, cached and refreshed.

A token with an unknown key id triggers a refresh, at most one per `MIN_INTERVAL`, because anybody can make up a key id.
Concurrent requests share one fetch. If a refresh fails, the cached keys are used until `MAX_AGE`.
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
from jackstay.types import DECODE_ERRORS

if TYPE_CHECKING:
    from joserfc.jwk import Key

    from jackstay.transport import HttpClient

logger = logging.getLogger("jackstay.server.http")

# Seconds. Keys older than REFRESH_AGE are fetched again with the next token; until that succeeds the old ones are used,
# but not after MAX_AGE: they could have been revoked.
REFRESH_AGE: Final = 3_600.0
MAX_AGE: Final = 86_400.0
# Seconds between two fetches, whatever tokens arrive.
MIN_INTERVAL: Final = 30.0
FETCH_TIMEOUT: Final = 10.0
# Sets in use have a few keys of some hundred bytes.
MAX_BYTES: Final = 262_144
MAX_KEYS: Final = 64

Fetch: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]

# The key type of each family of algorithms. Checking it prevents a public key from being used as an HMAC secret.
FAMILIES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP", "HS": "oct"}


# The minimum bits of a key, by type (RFC 7518 sections 3.2, 3.3 and 3.5). A secret must also be as long as the hash.
MIN_BITS: Final = {"RSA": 2048, "oct": 256}


class KeySource:
    """Finds keys by id. `fetch` returns a JWK set as JSON; without it the keys are those of `given`."""

    def __init__(
        self, fetch: Fetch | None, given: Mapping[str, Any] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: tuple[Key, ...] = () if given is None else read_keys(given)
        if given is not None and not self._keys:
            raise UsageError("jwks contains no usable key", path="jwks")
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._running: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<KeySource of {len(self._keys)} keys>"

    async def find(self, kid: str | None, algorithm: str) -> Sequence["Key"]:
        """Return the keys that a token with this header may be signed with.

        Raises: TransportError if no keys that are fresh enough can be fetched.
        """
        found = self._matching(kid, algorithm)
        if self._fetch is None:
            return found
        age = self._clock() - self._fetched_at
        if not found or age >= REFRESH_AGE:
            running = self._refresh()
            if running is not None and (not found or age >= MAX_AGE):  # else the old keys are used meanwhile
                # Shielded: other requests may wait for the same fetch.
                await asyncio.shield(running)
                found = self._matching(kid, algorithm)
        if self._clock() - self._fetched_at >= MAX_AGE:
            raise TransportError("no signing keys available to verify tokens", retry_in=MIN_INTERVAL)
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
        """Return the running fetch, or start one; None if it is too early for another."""
        if self._running is None or self._running.done():
            now = self._clock()
            if now - self._tried_at < MIN_INTERVAL:
                return None
            self._tried_at = now
            self._running = asyncio.create_task(self._fetch_once())
        return self._running

    async def _fetch_once(self) -> None:
        assert self._fetch is not None  # `find` checked it
        try:
            async with asyncio.timeout(FETCH_TIMEOUT):
                found = read_keys(await self._fetch(), is_fetched=True)
            if not found:
                raise TransportError("the JWK set contains no usable key")  # logged below
        except Exception as error:  # noqa: BLE001  # a user's fetch may raise anything; `find` raises its own error
            logger.warning("fetching the signing keys failed: %r", error)
            return
        self._keys = found
        self._fetched_at = self._clock()


def read_keys(given: Mapping[str, Any], *, is_fetched: bool = False) -> tuple["Key", ...]:
    """Return the keys of a set that can verify signatures. Keys of unknown types are skipped (RFC 7517 section 5).

    With `is_fetched`, symmetric keys and keys that are too weak are skipped as well.

    Raises: UsageError for an invalid set, or for a key that is too weak and was not fetched.
    """
    from joserfc.errors import JoseError  # noqa: PLC0415  # see `need_jose`
    from joserfc.jwk import JWKRegistry  # noqa: PLC0415  # see `need_jose`

    value: object = given  # a user's fetch or a peer may return anything
    rows = value.get("keys") if isinstance(value, Mapping) else None
    if not isinstance(rows, list) or len(rows) > MAX_KEYS:
        raise UsageError(f'invalid jwks: expected {{"keys": [...]}} with at most {MAX_KEYS} keys', path="jwks")
    found = []
    for row in rows:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about weak keys, which are refused below
                key = JWKRegistry.import_key(row)
            is_for_signatures = key.get("use", "sig") == "sig"
        except (JoseError, ValueError, TypeError, AttributeError, KeyError):
            continue
        if not is_for_signatures or (is_fetched and key.key_type == "oct"):
            continue
        min_bits = MIN_BITS.get(key.key_type, 0)
        if _bits(key) >= min_bits:
            found.append(key)
        elif is_fetched:
            logger.warning("ignoring a signing key of %d bits; the minimum is %d", _bits(key), min_bits)
        else:
            raise UsageError(
                f"key too weak in jwks: {_bits(key)} bits; use {key.key_type} keys of {min_bits} bits or more",
                path="jwks",
            )
    return tuple(found)


def _bits(key: "Key") -> int:
    """Return the size of an RSA or symmetric key in bits; 0 for other types."""
    raw: Any = key.raw_value
    if key.key_type == "RSA":
        return int(raw.key_size)
    return 8 * len(raw) if key.key_type == "oct" else 0


def fetch_from(url: str, client: "HttpClient | None") -> Fetch:
    """Return a function that fetches `url` with `client` or with the default HTTP client.

    Raises: UsageError for a URL that is neither https nor on this machine.
    """
    if urlsplit(url).scheme != "https" and not is_loopback(url):
        raise UsageError(f"insecure jwks URL: {url!r}; use https, or http on this machine only", path="jwks")

    async def fetch() -> Mapping[str, Json]:
        if client is not None:
            return await _get(client, url)
        from jackstay.transport import default_http_client  # noqa: PLC0415  # imports an HTTP library

        own = default_http_client()
        try:
            return await _get(own, url)
        finally:
            await own.close()

    return fetch


async def _get(client: "HttpClient", url: str) -> Mapping[str, Json]:
    response = await client.send("GET", url, [("accept", "application/json")], None)
    try:
        if response.status != 200:
            raise TransportError(f"GET {url}: HTTP {response.status}")
        body = bytearray()
        async for chunk in response.chunks():
            body += chunk
            if len(body) > MAX_BYTES:
                raise TransportError(f"GET {url}: the body exceeds {MAX_BYTES} bytes")
    finally:
        await response.close()
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except DECODE_ERRORS as error:
        raise TransportError(f"GET {url}: the body is not a JSON object") from error


def need_jose() -> None:
    """Check that the JOSE library is installed. Raises: UsageError, naming the extra."""
    try:
        import joserfc  # noqa: F401, PLC0415  # only its presence is checked
    except ImportError as missing:
        raise UsageError(f"JwtVerifier needs the extra `http`: {install_command('http')}") from missing
