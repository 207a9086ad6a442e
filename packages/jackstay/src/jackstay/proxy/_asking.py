"""What a server asks of clients (sampling, elicitation, roots), brought to the one client it is for, in either era.

| the client speaks | the server speaks | how |
|---|---|---|
| handshake | handshake | its request is asked of the client, in the stream of the call it belongs to |
| handshake | stateless | the result that asks is kept; the client is asked, and the call is made again with the answers |
| stateless | stateless | the result that asks passes, and so does the client's next round: nothing is kept here |
| stateless | handshake | the call is held open; the client gets a result that asks, and its next round goes on with the held call |

A server of the handshake era does not say for whom it asks. Whose calls are under way decides (`_flights`); where that is
not one client's alone, the question is refused, because the wrong person must not be asked.

Above: `_relay`, `_proxy`. Below: `_flights`, `_bodies`, `_back`.
"""

import asyncio
import itertools
import logging
import secrets
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from jackstay.errors import CapabilityError, JsonRpcError, McpError, RequestId
from jackstay.protocol import METHODS
from jackstay.protocol.server import refuse_undeclared
from jackstay.protocol.wire import ErrorCode
from jackstay.proxy._back import Back, Sent
from jackstay.proxy._bodies import InputRequired, Members, ask_result
from jackstay.proxy._flights import Asked, Flight, Whose
from jackstay.server import Driver

logger = logging.getLogger("jackstay.proxy")

# How long a client of the stateless era may take over a question: a person has to read it. As a server of ours gives.
ROUND_TIMEOUT = 600.0

# Calls that are held open for clients which may never come back.
MOST_HELD = 256

# Addresses that somebody was sent to, of which the server will say that he is done.
MOST_SENT_AWAY = 256


class _Elicitation(msgspec.Struct, rename="camel"):
    elicitation_id: str = ""


_read_elicitation = msgspec.json.Decoder(_Elicitation).decode


class Held(NamedTuple):
    """A call at a server of the handshake era whose client is being asked in a result."""

    back: Back
    flight: Flight
    sent: Sent
    # The client comes back with the same request, or it is not the same client.
    body: bytes
    principal: str
    expiry: asyncio.TimerHandle


class Asking:
    """Brings questions to clients. `owner(back)` is the only client of a server, if it has one; `lasting(back)` are its
    clients that can be asked without a call of theirs.
    """

    def __init__(
        self, owner: Callable[[Back], Driver | None], lasting: Callable[[Back], list[Driver]]
    ) -> None:
        self._owner = owner
        self._lasting = lasting
        self._held: dict[str, Held] = {}
        self._keys = itertools.count(1)
        self._sent_away: dict[str, Driver] = {}
        # Questions that nobody knew for whom they were.
        self.refused = 0

    def __repr__(self) -> str:
        return f"<Asking {len(self._held)} calls held>"

    # --- a server of the handshake era asks ---------------------------------------------------------------------------

    async def asked(self, back: Back, method: str, params: bytes, flight: Flight | None) -> bytes:
        """The answer of the client that this is for: that of `flight`, where it is known. Raises: JsonRpcError."""
        connection, about = self._owner(back), None
        whose = back.flights.whose() if flight is None else flight
        if isinstance(whose, Flight):
            if connection is None and whose.is_stateless:
                return await self._ask_in_result(whose, method, params)
            connection, about = whose.connection, whose.id if whose.is_awaited else None
        elif connection is None:
            connection = self._only_client(back, whose, method)
        return await self._ask(connection, method, params, about)

    def _only_client(self, back: Back, whose: Whose, method: str) -> Driver:
        clients = self._lasting(back)
        known = [one for one in clients if back.flights.has_served_only(one.number)]
        if whose is Whose.NOBODYS and len(known) == 1:
            return known[0]
        why = whose.value
        if whose is Whose.NOBODYS:
            is_open = len(known) == len(clients)
            why = f"{why}, and {f'{len(clients)} clients are open' if is_open else 'the server has served several clients'}"
        self.refused += 1
        if self.refused.bit_count() == 1:  # the first, and ever fewer: a server may ask on and on
            logger.warning(
                "the server behind asks for %s, and nobody knows for whom (%s): refused (%d so far); with --per-client"
                " each client has a server of its own",
                method,
                why,
                self.refused,
            )
        said = f"{method} cannot be passed on: nobody knows for which client it is ({why})"
        raise JsonRpcError(ErrorCode.INTERNAL_ERROR, said, {"reason": "several clients"})

    async def _ask(self, connection: Driver, method: str, params: bytes, about: RequestId | None) -> bytes:
        if method == "elicitation/create" and b'"elicitationId"' in params:
            self._remember(connection, params)
        try:
            return bytes(await connection.ask(method, params, about))
        except JsonRpcError:
            raise  # the client's own words
        except CapabilityError as error:
            raise JsonRpcError(ErrorCode.METHOD_NOT_FOUND, error.message) from error
        except McpError as error:
            raise JsonRpcError(
                ErrorCode.INTERNAL_ERROR, f"the client cannot be asked: {error.message}"
            ) from error

    def _remember(self, connection: Driver, params: bytes) -> None:
        try:
            id = _read_elicitation(params).elicitation_id
        except msgspec.DecodeError:
            return  # the client will say what is wrong with it
        self._sent_away[id] = connection
        if len(self._sent_away) > MOST_SENT_AWAY:
            del self._sent_away[next(iter(self._sent_away))]

    def sent_away(self, params: bytes) -> Driver | None:
        """Whom the server sent to the address that it says somebody is done with (`notifications/elicitation/complete`)."""
        try:
            return self._sent_away.pop(_read_elicitation(params).elicitation_id, None)
        except msgspec.DecodeError:
            return None

    def forget(self, connection: Driver) -> None:
        """This client is gone."""
        self._sent_away = {id: other for id, other in self._sent_away.items() if other is not connection}

    # --- a result of the stateless era asks a client of the handshake era ---------------------------------------------

    async def fulfil(self, flight: Flight, asked: InputRequired) -> Members:
        """The client's answers, by key. Raises: JsonRpcError: its own, or that it cannot be asked."""
        answers: Members = {}
        for key, question in (asked.input_requests or {}).items():
            about = flight.id if flight.is_awaited else None
            answer = await self._ask(flight.connection, question.method, bytes(question.params), about)
            answers[key] = msgspec.Raw(answer)
        return answers

    # --- a server of the handshake era asks a client of the stateless era ---------------------------------------------

    async def _ask_in_result(self, flight: Flight, method: str, params: bytes) -> bytes:
        row = METHODS.get(method)
        needed = method if row is None else row.capability
        if row is None or refuse_undeclared(flight.capabilities, (needed,), method=method) is not None:
            raise JsonRpcError(ErrorCode.METHOD_NOT_FOUND, f"the client did not declare {needed}")
        if not flight.method.may_ask or flight.is_asked is None:  # or a server of the other era began with it
            raise JsonRpcError(
                ErrorCode.INTERNAL_ERROR, f"{flight.method.name} cannot ask its client (2026-07-28)"
            )
        if len(self._held) >= MOST_HELD:
            raise JsonRpcError(
                ErrorCode.INTERNAL_ERROR, f"{MOST_HELD} clients are being asked already", {"retryable": True}
            )
        key = f"question-{next(self._keys)}"
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        flight.ask(key, Asked(method, params, answer))
        try:
            return await answer
        finally:
            flight.questions.pop(key, None)

    def hold(self, back: Back, flight: Flight, sent: Sent, body: bytes) -> bytes:
        """Keep the call open, and give the result that asks its client."""
        state = secrets.token_urlsafe(24)
        expiry = asyncio.get_running_loop().call_later(ROUND_TIMEOUT, self._expire, state)
        self._held[state] = Held(back, flight, sent, body, flight.connection.principal, expiry)
        questions = {key: (asked.method, asked.params) for key, asked in flight.questions.items()}
        return ask_result(state, questions)

    def resume(self, state: str, flight: Flight, body: bytes, answers: Members) -> Held:
        """The call that is held open for this round, which goes on with these answers.

        Raises: JsonRpcError for a state that is none, is over, or belongs to another request or caller.
        """
        held = self._held.get(state)
        is_his = held is not None and held.principal == flight.connection.principal
        if held is None or not is_his or held.body != body or held.flight.method is not flight.method:
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, "this requestState is not, or no longer, known here")
        del self._held[state]
        held.expiry.cancel()
        held.flight.go_on_for(flight)
        for key, answer in answers.items():
            asked = held.flight.questions.pop(key, None)
            if asked is not None and not asked.answer.done():
                asked.answer.set_result(bytes(answer))
        return held

    def _expire(self, state: str) -> None:
        self._let_go(self._held.pop(state), "the client did not come back with an answer")

    def _let_go(self, held: Held, why: str) -> None:
        held.expiry.cancel()
        held.flight.refuse_questions(why)
        held.back.give_up(held.flight, held.sent)
        held.sent.call.cancel()

    def stop(self) -> None:
        """Nobody comes back any more."""
        while self._held:
            self._let_go(self._held.popitem()[1], "the proxy is ending")
