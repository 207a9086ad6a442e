"""The state that travels with a client: sealed, bound, bounded; and the questions in it, in call order."""

import json
from typing import Any

import pytest

from jackstay.errors import JsonRpcError
from jackstay.server import _rounds
from jackstay.server._rounds import (
    MOST_ROUNDS,
    InputRequired,
    KeyRing,
    Rounds,
    bind,
    is_end_of_round,
)

ELICIT = "elicitation/create"
ACCEPT = {"action": "accept", "content": {"name": "Ada"}}
BOUND = bind("", "tools/call", "x", {"a": 1})


def begin(ring: KeyRing, state: str | None = None, answers: Any = None, bound: str = BOUND) -> Rounds:
    return Rounds(ring, bound, state, answers or {}, 60.0)


def asked(rounds: Rounds) -> tuple[dict[str, Any], str]:
    result = json.loads(rounds.result())
    assert result["resultType"] == "input_required"
    return result["inputRequests"], result["requestState"]


# --- one question -----------------------------------------------------------------------------------------------------


def test_a_question_is_asked_and_its_answer_found_in_the_next_round() -> None:
    ring = KeyRing()
    first = begin(ring)
    assert first.look_up(ELICIT, b'{"message":"who?"}', "user_name") is None
    assert first.is_asking
    assert repr(first) == "<Rounds 0: 0 of 1 answered, 1 to ask>"
    requests, state = asked(first)
    assert requests == {"user_name": {"method": ELICIT, "params": {"message": "who?"}}}
    second = begin(ring, state, {"user_name": ACCEPT, "unknown": 1})
    found = second.look_up(ELICIT, b'{"message":"who?"}', "user_name")
    assert found is not None
    assert json.loads(found) == ACCEPT
    assert not second.is_asking


@pytest.mark.parametrize("answer", [None, 3, {}, {"action": "maybe"}, {"roots": []}])
def test_an_answer_that_is_none_is_asked_for_again(answer: Any) -> None:
    ring = KeyRing()
    first = begin(ring)
    first.look_up(ELICIT, b"{}", "k")
    _, state = asked(first)
    second = begin(ring, state, {} if answer is None else {"k": answer})
    assert second.look_up(ELICIT, b"{}", "k") is None
    assert asked(second)[0].keys() == {"k"}


def test_an_answer_without_a_state_is_found_by_the_key_that_the_author_chose() -> None:
    """2026-07-28 basic/patterns/mrtr: a state is optional; unknown answers are ignored."""
    rounds = begin(KeyRing(), None, {"k": ACCEPT, "unknown": 1})
    found = rounds.look_up(ELICIT, b"{}", "k")
    assert found is not None
    assert json.loads(found) == ACCEPT
    assert not rounds.is_asking


@pytest.mark.parametrize(("key", "answers"), [
    (None, {"question_1": ACCEPT}), ("k", {"other": ACCEPT}), ("k", {"k": 12345}), ("k", {}),
])  # fmt: skip
def test_an_answer_without_a_state_that_fits_no_question_is_ignored(
    key: str | None, answers: dict[str, Any]
) -> None:
    rounds = begin(KeyRing(), None, answers)
    assert rounds.look_up(ELICIT, b"{}", key) is None
    assert rounds.is_asking


def test_questions_without_a_key_are_numbered() -> None:
    rounds = begin(KeyRing())
    rounds.look_up(ELICIT, b"{}", None)
    rounds.look_up("roots/list", b"{}", None)
    assert asked(rounds)[0].keys() == {"question_1", "question_2"}


def test_two_questions_with_one_key_are_an_error() -> None:
    rounds = begin(KeyRing())
    rounds.look_up(ELICIT, b"{}", "k")
    with pytest.raises(JsonRpcError, match="two questions"):
        rounds.look_up(ELICIT, b"{}", "k")


def test_a_handler_that_asks_something_else_discards_the_answers_from_there_on() -> None:
    ring = KeyRing()
    first = begin(ring)
    first.look_up(ELICIT, b"1", "a")
    first.look_up(ELICIT, b"2", "b")
    first.look_up(ELICIT, b"3", "c")
    _, state = asked(first)
    second = begin(ring, state, dict.fromkeys("abc", ACCEPT))
    assert second.look_up(ELICIT, b"1", "a") is not None
    assert second.look_up(ELICIT, b"changed", "b") is None
    assert second.look_up(ELICIT, b"3", "c") is None, "it followed the question that changed"
    assert repr(second) == "<Rounds 1: 1 of 3 answered, 2 to ask>"


def test_what_was_computed_once_is_carried_along() -> None:
    ring = KeyRing()
    first = begin(ring)
    assert first.recall("k") is None
    first.remember("k", b"[1]")
    first.look_up(ELICIT, b"{}", None)
    assert begin(ring, asked(first)[1]).recall("k") == b"[1]"


# --- the seal ---------------------------------------------------------------------------------------------------------


def sealed(ring: KeyRing) -> str:
    rounds = begin(ring)
    rounds.look_up(ELICIT, b"{}", "k")
    return asked(rounds)[1]


def refused(ring: KeyRing, state: str, bound: str = BOUND) -> str:
    with pytest.raises(JsonRpcError) as raised:
        begin(ring, state, bound=bound)
    assert raised.value.code == -32602
    return raised.value.message


@pytest.mark.parametrize("place", [0, 10, 50, -1])
def test_a_state_that_was_changed_anywhere_is_refused(place: int) -> None:
    ring = KeyRing((b"k" * 16,))
    state = sealed(ring)
    letters = list(state)
    letters[place] = "A" if letters[place] != "A" else "E"
    assert "changed" in refused(ring, "".join(letters))


@pytest.mark.parametrize("state", ["", "x", "ü", "=" * 40, "A" * 200_000, "A" * 43])
def test_a_state_that_is_none_is_refused(state: str) -> None:
    ring = KeyRing((b"k" * 16,))
    assert "not made by this server" in refused(ring, state)


def test_a_state_of_another_server_is_refused_and_a_ring_is_shared_by_workers() -> None:
    one, other = KeyRing((b"1" * 16,)), KeyRing((b"2" * 16,))
    state = sealed(one)
    assert "not made by this server" in refused(other, state)
    assert begin(KeyRing((b"1" * 16,)), state)
    assert begin(KeyRing((b"2" * 16, b"1" * 16)), state), "an old key still opens"
    assert repr(one) == "<KeyRing of 1 keys>"


@pytest.mark.parametrize(
    "other",
    [
        bind("somebody", "tools/call", "x", {"a": 1}),
        bind("", "prompts/get", "x", {"a": 1}),
        bind("", "tools/call", "y", {"a": 1}),
        bind("", "tools/call", "x", {"a": 2}),
    ],
)
def test_a_state_of_another_request_is_refused(other: str) -> None:
    ring = KeyRing()
    assert "another request" in refused(ring, sealed(ring), other)


def test_the_order_of_arguments_does_not_matter() -> None:
    assert bind("", "m", "n", {"a": 1, "b": 2}) == bind("", "m", "n", {"b": 2, "a": 1})


def test_a_state_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = KeyRing()
    state = sealed(ring)
    later = _rounds.time.time() + 61
    monkeypatch.setattr(_rounds.time, "time", lambda: later)
    assert "expired" in refused(ring, state)


def test_what_another_program_sealed_with_our_key_is_refused() -> None:
    ring = KeyRing()
    assert "cannot be read" in refused(ring, ring.seal(b"something else"))


# --- limits -----------------------------------------------------------------------------------------------------------


def test_there_are_eight_rounds_and_not_nine() -> None:
    ring, state = KeyRing(), None
    for number in range(MOST_ROUNDS):
        rounds = begin(ring, state, {f"question_{number}": ACCEPT})
        for before in range(number):
            assert rounds.look_up(ELICIT, b"%d" % before, None) is not None
        assert rounds.look_up(ELICIT, b"%d" % number, None) is None
        _, state = asked(rounds)
    rounds = begin(ring, state)
    rounds.look_up(ELICIT, b"0", None)
    with pytest.raises(JsonRpcError, match="more than 8 rounds") as raised:
        rounds.result()
    assert raised.value.code == -32603


def test_a_state_that_is_too_large_is_an_error_and_not_sent() -> None:
    rounds = begin(KeyRing())
    rounds.remember("k", b"x" * 60_000)
    rounds.look_up(ELICIT, b"{}", None)
    with pytest.raises(JsonRpcError, match="larger than 65536"):
        rounds.result()


# --- what unwinds a handler -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "is_end"),
    [
        (InputRequired(), True),
        (BaseExceptionGroup("g", [InputRequired(), InputRequired()]), True),
        (BaseExceptionGroup("g", [InputRequired(), ValueError()]), False),
        (ValueError(), False),
    ],
)
def test_only_questions_end_a_round(error: BaseException, is_end: bool) -> None:
    assert is_end_of_round(error) is is_end
    assert not isinstance(InputRequired(), Exception)
