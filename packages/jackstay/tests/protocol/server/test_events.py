"""Events and effects of a server's connection: frozen, told apart, and each explained where it stands."""

import msgspec
import pytest

from jackstay.protocol.server import events as e

EVENTS = [kind for kind in vars(e).values() if isinstance(kind, type) and issubclass(kind, e.Event)]
EFFECTS = [kind for kind in vars(e).values() if isinstance(kind, type) and issubclass(kind, e.Effect)]


@pytest.mark.parametrize("kind", [*EVENTS, *EFFECTS, e.ClientFacts], ids=lambda kind: kind.__name__)
def test_nothing_that_happened_or_is_to_be_done_can_be_changed(kind: type[msgspec.Struct]) -> None:
    assert kind.__struct_config__.frozen


@pytest.mark.parametrize(
    "kind", [kind for kind in EVENTS if kind not in (e.Event, e.RequestEvent)], ids=lambda kind: kind.__name__
)
def test_an_event_explains_itself_in_a_clause_for_the_drawings(kind: type[e.Event]) -> None:
    words = kind.__doc__ or ""
    assert words[0].islower() or words[0] == "`" or words.startswith("JSON")
    assert not words.endswith(".")
    assert "\n" not in words


@pytest.mark.parametrize(
    "kind", [kind for kind in EFFECTS if kind is not e.Effect], ids=lambda kind: kind.__name__
)
def test_an_effect_tells_the_driver_what_to_do(kind: type[e.Effect]) -> None:
    words = (kind.__doc__ or "").strip()
    assert words[0].isupper()
    assert words.endswith(".")


def test_requests_are_told_apart_by_their_serial() -> None:
    assert e.Finished(1, 1) != e.Finished(1, 2)
    assert e.StopServing("1", 1) != e.StopServing(1, 1)
    assert len({e.Finished(1, 1), e.Finished(1, 1), e.Finished("1", 1)}) == 2
