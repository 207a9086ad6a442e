"""The events and effects of a server's connection: frozen, distinguishable and documented."""

import pytest

from jackstay.protocol.server import events as e

EVENTS = [kind for kind in vars(e).values() if isinstance(kind, type) and issubclass(kind, e.Event)]
EFFECTS = [kind for kind in vars(e).values() if isinstance(kind, type) and issubclass(kind, e.Effect)]


def test_events_and_effects_are_frozen(subtests: pytest.Subtests) -> None:
    for kind in [*EVENTS, *EFFECTS, e.ClientParams]:
        with subtests.test(kind=kind):
            assert kind.__struct_config__.frozen


def test_the_docstring_of_an_event_is_a_clause_for_the_diagrams(subtests: pytest.Subtests) -> None:
    for kind in [kind for kind in EVENTS if kind not in (e.Event, e.RequestEvent)]:
        with subtests.test(kind=kind):
            description = kind.__doc__ or ""
            assert description[0].islower() or description[0] == "`" or description.startswith("JSON")
            assert not description.endswith(".")
            assert "\n" not in description


def test_the_docstring_of_an_effect_is_a_sentence(subtests: pytest.Subtests) -> None:
    for kind in [kind for kind in EFFECTS if kind is not e.Effect]:
        with subtests.test(kind=kind):
            description = (kind.__doc__ or "").strip()
            assert description[0].isupper()
            assert description.endswith(".")


def test_requests_are_distinguished_by_their_serial() -> None:
    assert e.Finished(1, 1) != e.Finished(1, 2)
    assert e.StopServing("1", 1) != e.StopServing(1, 1)
    assert len({e.Finished(1, 1), e.Finished(1, 1), e.Finished("1", 1)}) == 2
