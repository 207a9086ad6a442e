"""Input requests in call order, and their signed, bound and limited `requestState`."""

import json
from typing import Any

import pytest

from jackstay.errors import JsonRpcError
from jackstay.server import _input_required
from jackstay.server._input_required import (
    MAX_ROUNDS,
    InputRequired,
    InputRounds,
    KeyRing,
    bind,
    is_end_of_round,
)

ELICIT = "elicitation/create"
ACCEPT = {"action": "accept", "content": {"name": "Ada"}}
BOUND = bind("", "tools/call", "x", {"a": 1})


def begin(key_ring: KeyRing, state: str | None = None, responses: Any = None, bound: str = BOUND) -> InputRounds:
    return InputRounds(key_ring, bound, state, responses or {}, 60.0)


def result_of(rounds: InputRounds) -> tuple[dict[str, Any], str]:
    result = json.loads(rounds.result())
    assert result["resultType"] == "input_required"
    return result["inputRequests"], result["requestState"]


# --- requests and responses -------------------------------------------------------------------------------------------


def test_a_request_is_sent_and_its_response_found_in_the_next_round() -> None:
    key_ring = KeyRing()
    first = begin(key_ring)
    assert first.look_up(ELICIT, b'{"message":"who?"}', "user_name") is None
    assert first.is_ended_by(InputRequired())
    requests, state = result_of(first)
    assert requests == {"user_name": {"method": ELICIT, "params": {"message": "who?"}}}
    second = begin(key_ring, state, {"user_name": ACCEPT, "unknown": 1})
    found = second.look_up(ELICIT, b'{"message":"who?"}', "user_name")
    assert found is not None
    assert json.loads(found) == ACCEPT
    assert not second.is_ended_by(InputRequired())


def test_an_invalid_response_is_requested_again(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [None, 3, {}, {"action": "maybe"}, {"roots": []}]
    for response in cases:
        with subtests.test(response=response):
            key_ring = KeyRing()
            first = begin(key_ring)
            first.look_up(ELICIT, b"{}", "k")
            _, state = result_of(first)
            second = begin(key_ring, state, {} if response is None else {"k": response})
            assert second.look_up(ELICIT, b"{}", "k") is None
            assert result_of(second)[0].keys() == {"k"}


def test_a_response_without_a_state_is_found_by_an_explicit_key() -> None:
    """2026-07-28 basic/patterns/mrtr: a state is optional; unknown responses are ignored."""
    rounds = begin(KeyRing(), None, {"k": ACCEPT, "unknown": 1})
    found = rounds.look_up(ELICIT, b"{}", "k")
    assert found is not None
    assert json.loads(found) == ACCEPT
    assert not rounds.is_ended_by(InputRequired())


def test_a_response_without_a_state_and_without_an_explicit_key_is_ignored(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str | None, dict[str, Any]]] = [
        (None, {"input_1": ACCEPT}),
        ("k", {"other": ACCEPT}),
        ("k", {"k": 12345}),
        ("k", {}),
    ]
    for key, responses in cases:
        with subtests.test(key=key, responses=responses):
            rounds = begin(KeyRing(), None, responses)
            assert rounds.look_up(ELICIT, b"{}", key) is None
            assert rounds.is_ended_by(InputRequired())


def test_requests_without_a_key_are_numbered() -> None:
    rounds = begin(KeyRing())
    rounds.look_up(ELICIT, b"{}", None)
    rounds.look_up("roots/list", b"{}", None)
    assert result_of(rounds)[0].keys() == {"input_1", "input_2"}


def test_a_duplicate_key_is_an_error() -> None:
    rounds = begin(KeyRing())
    rounds.look_up(ELICIT, b"{}", "k")
    with pytest.raises(JsonRpcError, match="duplicate key of input requests: 'k'"):
        rounds.look_up(ELICIT, b"{}", "k")


def test_a_changed_request_discards_the_responses_from_there_on() -> None:
    key_ring = KeyRing()
    first = begin(key_ring)
    first.look_up(ELICIT, b"1", "a")
    first.look_up(ELICIT, b"2", "b")
    first.look_up(ELICIT, b"3", "c")
    _, state = result_of(first)
    second = begin(key_ring, state, dict.fromkeys("abc", ACCEPT))
    assert second.look_up(ELICIT, b"1", "a") is not None
    assert second.look_up(ELICIT, b"changed", "b") is None
    assert second.look_up(ELICIT, b"3", "c") is None, "it followed the request that changed"


def test_the_result_of_once_is_part_of_the_state() -> None:
    key_ring = KeyRing()
    first = begin(key_ring)
    assert first.once == {}
    first.once["k"] = "[1]"
    first.look_up(ELICIT, b"{}", None)
    assert begin(key_ring, result_of(first)[1]).once == {"k": "[1]"}


# --- signature and binding --------------------------------------------------------------------------------------------


def signed_state(key_ring: KeyRing) -> str:
    rounds = begin(key_ring)
    rounds.look_up(ELICIT, b"{}", "k")
    return result_of(rounds)[1]


def error_for(key_ring: KeyRing, state: str, bound: str = BOUND) -> str:
    with pytest.raises(JsonRpcError) as raised:
        begin(key_ring, state, bound=bound)
    assert raised.value.code == -32602
    return raised.value.message


def test_a_modified_state_is_rejected(subtests: pytest.Subtests) -> None:
    for index in [0, 10, 50, -1]:
        with subtests.test(index=index):
            key_ring = KeyRing((b"k" * 16,))
            state = signed_state(key_ring)
            letters = list(state)
            letters[index] = "A" if letters[index] != "A" else "E"
            assert "modified" in error_for(key_ring, "".join(letters))


def test_an_invalid_state_is_rejected(subtests: pytest.Subtests) -> None:
    for state in ["", "x", "ü", "=" * 40, "A" * 200_000, "A" * 43]:
        with subtests.test(state=state[:50]):
            key_ring = KeyRing((b"k" * 16,))
            assert "not created by this server" in error_for(key_ring, state)


def test_a_state_can_be_verified_by_servers_with_the_same_secret() -> None:
    first, second = KeyRing((b"1" * 16,)), KeyRing((b"2" * 16,))
    state = signed_state(first)
    assert "not created by this server" in error_for(second, state)
    assert begin(KeyRing((b"1" * 16,)), state)
    assert begin(KeyRing((b"2" * 16, b"1" * 16)), state), "an old secret still verifies"


def test_a_state_of_another_request_is_rejected(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        bind("somebody", "tools/call", "x", {"a": 1}),
        bind("", "prompts/get", "x", {"a": 1}),
        bind("", "tools/call", "y", {"a": 1}),
        bind("", "tools/call", "x", {"a": 2}),
    ]
    for other in cases:
        with subtests.test(other=other):
            key_ring = KeyRing()
            assert "another request" in error_for(key_ring, signed_state(key_ring), other)


def test_the_order_of_arguments_does_not_matter() -> None:
    assert bind("", "m", "n", {"a": 1, "b": 2}) == bind("", "m", "n", {"b": 2, "a": 1})


def test_an_expired_state_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    key_ring = KeyRing()
    state = signed_state(key_ring)
    later = _input_required.time.time() + 61
    monkeypatch.setattr(_input_required.time, "time", lambda: later)
    assert "expired" in error_for(key_ring, state)


def test_other_data_signed_with_the_same_secret_is_rejected() -> None:
    key_ring = KeyRing()
    assert "not readable" in error_for(key_ring, key_ring.sign(b"something else"))


# --- limits -----------------------------------------------------------------------------------------------------------


def test_the_number_of_rounds_is_limited() -> None:
    key_ring, state = KeyRing(), None
    for number in range(MAX_ROUNDS):
        rounds = begin(key_ring, state, {f"input_{number}": ACCEPT})
        for before in range(number):
            assert rounds.look_up(ELICIT, b"%d" % before, None) is not None
        assert rounds.look_up(ELICIT, b"%d" % number, None) is None
        _, state = result_of(rounds)
    rounds = begin(key_ring, state)
    rounds.look_up(ELICIT, b"0", None)
    with pytest.raises(JsonRpcError, match="more than 8 rounds") as raised:
        rounds.result()
    assert raised.value.code == -32603


def test_the_size_of_the_state_is_limited() -> None:
    rounds = begin(KeyRing())
    rounds.once["k"] = "x" * 60_000
    rounds.look_up(ELICIT, b"{}", None)
    with pytest.raises(JsonRpcError, match="would exceed 65536 bytes"):
        rounds.result()


# --- the end of a round -----------------------------------------------------------------------------------------------


def test_only_input_required_ends_a_round(subtests: pytest.Subtests) -> None:
    cases: list[tuple[BaseException, bool]] = [
        (InputRequired(), True),
        (BaseExceptionGroup("g", [InputRequired(), InputRequired()]), True),
        (BaseExceptionGroup("g", [InputRequired(), ValueError()]), False),
        (ValueError(), False),
    ]
    for error, is_end in cases:
        with subtests.test(error=error, is_end=is_end):
            assert is_end_of_round(error) is is_end
            assert not isinstance(InputRequired(), Exception)


def test_repr_of_a_key_ring_shows_no_secret() -> None:
    assert repr(KeyRing((b"s3cr3t" * 6, b"k" * 32))) == "<KeyRing of 2 keys>"
