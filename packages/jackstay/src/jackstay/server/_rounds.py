"""Asking a client of the stateless era: the request is answered with a question, and comes again with the answer.

Nothing of a request is kept between rounds. What must be remembered travels with the client as `requestState`: the
questions asked so far, their answers, and what `ctx.once` computed. The handler is run again from its first line; each
question is looked up in call order, so the same `await` returns at once when its answer is there. Where the recorded
calls do not match what the handler asks now, the answers from there on are discarded and asked again.

The state is sealed, not secret: anybody can read it, nobody can change it. The seal binds it to who asks (principal), to
the request (method, name and arguments) and to a time; any worker with the same keys can open it. What a client sends as
state is an attacker's input until the seal was checked.

Must never know a connection. Above: `_context`, `_dispatch`. Below: the standard library, `jackstay.types`.
"""

import hashlib
import hmac
import os
import time
from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from jackstay.errors import Json, JsonRpcError, ProtocolError
from jackstay.protocol.wire import ErrorCode
from jackstay.types import (
    Body,
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    decode,
    encode_json,
)

B = TypeVar("B", bound=Body)

MOST_STATE_BYTES = 65_536
MOST_ROUNDS = 8

# What each question is answered with; an answer of another shape is no answer, and the question is asked again.
ANSWERS: Mapping[str, type[Body]] = {
    "elicitation/create": ElicitResult,
    "sampling/createMessage": CreateMessageResult,
    "roots/list": ListRootsResult,
}

_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")
_SEAL_BYTES = 32


class InputRequired(BaseException):  # not an error: the end of a round
    """Unwinds a handler whose question has no answer yet. Not an Exception, so that `except Exception` lets it pass."""


class Asked(msgspec.Struct, array_like=True):
    """A question: its key, what it asks, a digest of its params, and its answer as JSON once there is one."""

    key: str
    method: str
    digest: str
    answer: str | None = None


class State(msgspec.Struct, array_like=True):
    """What travels with the client. `bound` says whose and which request's it is."""

    bound: str
    expires: float
    round: int
    asked: list[Asked]
    once: dict[str, str]


_read_state = msgspec.json.Decoder(State).decode
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class KeyRing:
    """The secrets of a server: the first seals, each can open. Without any, one is made for this process."""

    def __init__(self, keys: tuple[bytes, ...] = ()) -> None:
        self._keys = keys

    def __repr__(self) -> str:
        return f"<KeyRing of {len(self._keys)} keys>"

    def seal(self, said: bytes) -> str:
        """The words and their seal, as text."""
        if not self._keys:
            self._keys = (os.urandom(32),)
        sealed = hmac.digest(self._keys[0], said, "sha256") + said
        return b2a_base64(sealed, newline=False).translate(_TO_URL).rstrip(b"=").decode()

    def open(self, sealed: str) -> bytes | None:
        """The words, if one of our keys has sealed them; else None."""
        try:
            encoded = sealed.encode("ascii").translate(_FROM_URL)
            data = a2b_base64(encoded + b"=" * (-len(encoded) % 4), strict_mode=True)
        except (ValueError, Error):
            return None
        said = data[_SEAL_BYTES:]
        for key in self._keys:
            if hmac.compare_digest(hmac.digest(key, said, "sha256"), data[:_SEAL_BYTES]):
                return said
        return None


def bind(principal: str, method: str, name: str, arguments: Json) -> str:
    """Whose and which request's a state is. The order of members does not matter: clients may write them anew."""
    said = msgspec.json.encode([principal, method, name, arguments], order="sorted")
    return hashlib.sha256(said).hexdigest()


def digest(params: bytes) -> str:
    """Short, because it only tells a handler's own questions apart."""
    return hashlib.sha256(params).hexdigest()[:16]


class Rounds:
    """The questions of one request in one round: those answered before, and those to ask now.

    Raises: JsonRpcError (-32602) for a state that is not ours, not this request's, or too old.
    """

    def __init__(
        self, ring: KeyRing, bound: str, state: str | None, answers: Mapping[str, Json], timeout: float
    ) -> None:
        self._ring = ring
        self._timeout = timeout
        self._at = 0
        self._questions: dict[str, tuple[str, bytes]] = {}
        self._state = State(bound, 0.0, 0, [], {})
        # Answers without a state: given before the question, by a client that knows the key, or that dropped a state it
        # should have sent back. Nothing binds them to a question, so only a key that the author chose finds one.
        self._volunteered = dict(answers) if state is None else {}
        if state is not None:
            self._state = self._open(state, bound)
            self._take(answers)

    def __repr__(self) -> str:
        asked = self._state.asked
        done = sum(row.answer is not None for row in asked)
        return f"<Rounds {self._state.round}: {done} of {len(asked)} answered, {len(self._questions)} to ask>"

    @property
    def is_asking(self) -> bool:
        """True if this round ends with a question."""
        return bool(self._questions)

    def _open(self, state: str, bound: str) -> State:
        said = self._ring.open(state) if len(state) <= 2 * MOST_STATE_BYTES else None
        if said is None:
            raise _refuse("it was not made by this server, or it was changed")
        try:
            opened = _read_state(said)
        except _REFUSALS as error:  # sealed by another program with our key
            raise _refuse("it cannot be read") from error
        if opened.expires < time.time():
            raise _refuse("it has expired")
        if opened.bound != bound:
            raise _refuse("it belongs to another request")
        return opened

    def _take(self, answers: Mapping[str, Json]) -> None:
        """Fill in what the client answered. Unknown keys are ignored, and so is what is no answer to its question."""
        for row in self._state.asked:
            if row.answer is None and row.key in answers:
                row.answer = _read_answer(row.method, answers[row.key])

    # --- what a handler asks ------------------------------------------------------------------------------------------

    def look_up(self, method: str, params: bytes, key: str | None) -> bytes | None:
        """The answer to the next question in call order; None: it has to be asked, and is noted for that."""
        asked, at = self._state.asked, self._at
        self._at += 1
        name = key or f"question_{at + 1}"
        mark = digest(params)
        if at < len(asked):
            row = asked[at]
            if (row.key, row.method, row.digest) == (name, method, mark):
                if row.answer is not None:
                    return row.answer.encode()
            else:
                del asked[at:]  # another question than last time: what followed it may not be true any more
        if at >= len(asked):
            if any(row.key == name for row in asked):
                raise JsonRpcError(
                    ErrorCode.INTERNAL_ERROR, f"two questions of one request have the key {name}"
                )
            row = Asked(name, method, mark)
            asked.append(row)
            if key in self._volunteered:
                row.answer = _read_answer(method, self._volunteered.pop(key))
            if row.answer is not None:
                return row.answer.encode()
        self._questions[name] = method, params
        return None

    def recall(self, key: str) -> bytes | None:
        """What `once` computed for this key in an earlier round, encoded."""
        said = self._state.once.get(key)
        return None if said is None else said.encode()

    def remember(self, key: str, value: bytes) -> None:
        """Carry this along."""
        self._state.once[key] = value.decode()

    # --- the end of a round -------------------------------------------------------------------------------------------

    def result(self) -> bytes:
        """The encoded `input_required` result that asks what this round asked.

        Raises: JsonRpcError (-32603) for more rounds or more state than are allowed.
        """
        state = self._state
        state.round += 1
        state.expires = time.time() + self._timeout
        if state.round > MOST_ROUNDS:
            raise JsonRpcError(
                ErrorCode.INTERNAL_ERROR, f"the request asks in more than {MOST_ROUNDS} rounds"
            )
        sealed = self._ring.seal(msgspec.json.encode(state))
        if len(sealed) > MOST_STATE_BYTES:
            raise JsonRpcError(
                ErrorCode.INTERNAL_ERROR, f"the state of the request is larger than {MOST_STATE_BYTES} bytes"
            )
        requests = b",".join(
            b'%b:{"method":%b,"params":%b}' % (encode_json(key), encode_json(method), params)
            for key, (method, params) in self._questions.items()
        )
        return b'{"resultType":"input_required","inputRequests":{%b},"requestState":%b}' % (
            requests,
            encode_json(sealed),
        )


def _read_answer(method: str, answer: Json) -> str | None:
    """The answer as JSON text; None if it is no answer to such a question."""
    said = encode_json(answer)
    try:
        decode(ANSWERS[method], said)
    except ProtocolError:
        return None
    return said.decode()


def _refuse(why: str) -> JsonRpcError:
    message = f"requestState cannot be used: {why}; send the request again without it"
    return JsonRpcError(ErrorCode.INVALID_PARAMS, message)


def is_end_of_round(error: BaseException) -> bool:
    """True if that is `InputRequired`, alone or as all that a task group raised."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_end_of_round(part) for part in error.exceptions)
    return isinstance(error, InputRequired)
