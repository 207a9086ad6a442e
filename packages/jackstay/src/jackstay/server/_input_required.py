"""Input requests in the stateless era: `input_required` results and their signed `requestState`.

The server keeps no state between rounds. `requestState` has the requests so far, their responses, and the results of
`ctx.once`. The handler runs again from the start; requests are matched in call order, and those with a response return
at once. The state is signed, not encrypted, and bound to the principal, the request and a time limit.
"""

import hashlib
import hmac
import os
import time
from collections.abc import Mapping
from typing import Final, NoReturn, TypeVar

import msgspec

from jackstay.errors import Json, JsonRpcError, ProtocolError
from jackstay.protocol import MAX_ROUNDS
from jackstay.protocol.wire import ErrorCode
from jackstay.server._pages import decode_base64url, encode_base64url
from jackstay.types import DECODE_ERRORS, Body, CreateMessageResult, ElicitResult, ListRootsResult, decode, encode_json

B = TypeVar("B", bound=Body)

MAX_STATE_BYTES = 65_536

# The result type of each request. An invalid response is ignored, and the request is sent again.
RESPONSE_TYPES: Mapping[str, type[Body]] = {
    "elicitation/create": ElicitResult,
    "sampling/createMessage": CreateMessageResult,
    "roots/list": ListRootsResult,
}

# The result of a round after which the call is to be run as a task. It is not sent.
DEFERRED: Final = b'{"resultType":"task","requestState":%b}'

_SIGNATURE_BYTES = 32


class InputRequired(BaseException):  # not an error: the end of a round
    """Ends a handler whose request has no response yet. Not an Exception, so that `except Exception` ignores it."""


class RecordedRequest(msgspec.Struct, array_like=True):
    """An input request: its key, its method, a digest of its params, and its response as JSON, if there is one."""

    key: str
    method: str
    digest: str
    response: str | None = None


class RequestState(msgspec.Struct, array_like=True):
    """The content of `requestState`. `bound` is the digest of the principal and the request."""

    bound: str
    expires: float
    round: int
    requests: list[RecordedRequest]
    once: dict[str, str]


_read_state = msgspec.json.Decoder(RequestState).decode


class KeyRing(msgspec.Struct, eq=False):
    """The HMAC secrets of a server. The first one signs, all of them verify. Without any, a random one is created."""

    _keys: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        return f"<KeyRing of {len(self._keys)} keys>"

    def sign(self, data: bytes) -> str:
        """Return the data with a signature, as base64url."""
        if not self._keys:
            self._keys = (os.urandom(32),)
        return encode_base64url(hmac.digest(self._keys[0], data, "sha256") + data)

    def verify(self, signed: str) -> bytes | None:
        """Return the data of `sign()`, or None if no key matches."""
        try:
            decoded = decode_base64url(signed)
        except ValueError:
            return None
        signature, data = decoded[:_SIGNATURE_BYTES], decoded[_SIGNATURE_BYTES:]
        for key in self._keys:
            if hmac.compare_digest(hmac.digest(key, data, "sha256"), signature):
                return data
        return None


def bind(principal: str, method: str, name: str, arguments: Json) -> str:
    """Return a digest of the principal and the request. The order of members does not matter."""
    encoded = msgspec.json.encode([principal, method, name, arguments], order="sorted")
    return hashlib.sha256(encoded).hexdigest()


def digest(params: bytes) -> str:
    """Return a short digest, which distinguishes the requests of one handler."""
    return hashlib.sha256(params).hexdigest()[:16]


class InputRounds:
    """The input requests of one call in one round: those with a response, and those to send now.

    Raises: JsonRpcError (-32602) for a state that is invalid, of another request, or expired.
    """

    def __init__(
        self, key_ring: KeyRing, bound: str, state: str | None, responses: Mapping[str, Json], timeout: float
    ) -> None:
        self._key_ring = key_ring
        self._timeout = timeout
        self._at = 0
        self._pending: dict[str, tuple[str, bytes]] = {}
        self._is_deferred = False
        self._state = RequestState(bound, 0.0, 0, [], {})
        # Responses without a state: from a client that knows the key in advance, or that lost the state. Nothing binds
        # them to a request, so they are only used for keys that the handler chose.
        self._unsolicited = dict(responses) if state is None else {}
        if state is not None:
            self._state = self._open(state, bound)
        # The results of `ctx.once` by key, as JSON text.
        self.once = self._state.once
        for row in self._state.requests:
            if row.response is None and row.key in responses:  # unknown keys are ignored
                row.response = _read_response(row.method, responses[row.key])

    def is_ended_by(self, error: BaseException) -> bool:
        """Return whether this exception of the handler ends the round with an `input_required` result."""
        return (bool(self._pending) or self._is_deferred) and is_end_of_round(error)

    def defer(self) -> NoReturn:
        """End the round: the rest of the call is to be run as a task (`_tasks`)."""
        self._is_deferred = True
        raise InputRequired

    def _open(self, state: str, bound: str) -> RequestState:
        data = self._key_ring.verify(state) if len(state) <= 2 * MAX_STATE_BYTES else None
        if data is None:
            raise _invalid_state("not created by this server, or modified")
        try:
            opened = _read_state(data)
        except DECODE_ERRORS as error:  # signed by another program with the same secret
            raise _invalid_state("not readable") from error
        if opened.expires < time.time():
            raise _invalid_state("expired")
        if opened.bound != bound:
            raise _invalid_state("it belongs to another request")
        return opened

    # --- requests of the handler --------------------------------------------------------------------------------------

    def look_up(self, method: str, params: bytes, key: str | None) -> bytes | None:
        """Return the response to the next request in call order; if there is none, add the request and return None."""
        requests, at = self._state.requests, self._at
        self._at += 1
        name = key or f"input_{at + 1}"
        row = RecordedRequest(name, method, digest(params))
        if at < len(requests) and msgspec.structs.replace(requests[at], response=None) == row:
            row = requests[at]
        else:
            del requests[at:]  # not the request of the last round: discard it and all that followed it
            if any(other.key == name for other in requests):
                raise JsonRpcError(ErrorCode.INTERNAL_ERROR, f"duplicate key of input requests: {name!r}")
            requests.append(row)
            if key in self._unsolicited:
                row.response = _read_response(method, self._unsolicited.pop(key))
        if row.response is not None:
            return row.response.encode()
        self._pending[name] = method, params
        return None

    # --- the end of a round -------------------------------------------------------------------------------------------

    def result(self) -> bytes:
        """Return the encoded `input_required` result with the pending requests.

        Raises: JsonRpcError (-32603) for too many rounds or a state that is too large.
        """
        state = self._state
        state.round += 1
        state.expires = time.time() + self._timeout
        if state.round > MAX_ROUNDS:
            raise JsonRpcError(ErrorCode.INTERNAL_ERROR, f"more than {MAX_ROUNDS} rounds of input requests")
        signed = self._key_ring.sign(msgspec.json.encode(state))
        if len(signed) > MAX_STATE_BYTES:
            raise JsonRpcError(ErrorCode.INTERNAL_ERROR, f"requestState would exceed {MAX_STATE_BYTES} bytes")
        if self._is_deferred and not self._pending:
            return DEFERRED % encode_json(signed)
        requests = b",".join(
            b'%b:{"method":%b,"params":%b}' % (encode_json(key), encode_json(method), params)
            for key, (method, params) in self._pending.items()
        )
        result = b'{"resultType":"input_required","inputRequests":{%b},"requestState":%b}'
        return result % (requests, encode_json(signed))


def resign(signed: str, source: KeyRing, target: KeyRing, expires: float) -> str:
    """Return the state with another signature and expiry. Raises: JsonRpcError, if the signature is not of `source`."""
    data = source.verify(signed)
    if data is None:
        raise _invalid_state("not created by this server, or modified")
    state = _read_state(data)
    state.expires = expires
    return target.sign(msgspec.json.encode(state))


def _read_response(method: str, response: Json) -> str | None:
    """Return the response as JSON text; None if it is invalid for this method."""
    encoded = encode_json(response)
    try:
        decode(RESPONSE_TYPES[method], encoded)
    except ProtocolError:
        return None
    return encoded.decode()


def _invalid_state(why: str) -> JsonRpcError:
    message = f"invalid requestState: {why}; send the request again without it"
    return JsonRpcError(ErrorCode.INVALID_PARAMS, message)


def is_end_of_round(error: BaseException) -> bool:
    """Return whether this is `InputRequired`, or an exception group with nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_end_of_round(part) for part in error.exceptions)
    return isinstance(error, InputRequired)
