"""Every default of the design's section 4, and every way to get a setting wrong."""

import math
from typing import get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay import __version__
from jackstay.errors import UsageError
from jackstay.protocol._versions import VERSIONS
from jackstay.protocol.client._settings import (
    KEEPALIVE_MISSES,
    MAX_HANDLERS,
    MAX_NEGOTIATION_STEPS,
    MAX_STRIKES,
    MAX_TOMBSTONES,
    SESSION_LOSS_WINDOW,
    SETTINGS,
    SETTLED_AFTER,
    ClientKeywords,
    Setting,
    Settings,
)

DEFAULTS = [
    ("name", ""),
    ("client_info", {"name": "jackstay", "version": __version__}),
    ("capabilities", None),
    ("versions", VERSIONS),
    ("open_timeout", 60.0),
    ("init_timeout", 10.0),
    ("probe_timeout", None),
    ("request_timeout", 30.0),
    ("max_timeout", 300.0),
    ("backoff_min", 1.0),
    ("backoff_max", 30.0),
    ("backoff_jitter", 0.2),
    ("max_attempts", None),
    ("wait_for_ready", True),
    ("max_pending", 1024),
    ("max_queued", 256),
    ("busy", "retry"),
    ("retry_attempts", 3),
    ("retry_delay", 0.010),
    ("retry_jitter", 0.5),
    ("session_attempts", 20),
    ("replay", "never"),
    ("max_frame_bytes", 16_777_216),
    ("max_list_bytes", 67_108_864),
    ("max_list_entries", 100_000),
    ("check_output_timeout", 1.0),
    ("tombstone_sweep", 60.0),
    ("keepalive", None),
    ("hang_timeout", 5.0),
    ("close_step", 2.0),
    ("stderr", "log"),
]


@pytest.mark.parametrize(("name", "default"), DEFAULTS, ids=[row[0] for row in DEFAULTS])
def test_each_default_is_the_designs(name, default):
    assert getattr(Settings(), name) == default


def test_every_setting_has_a_default_a_row_and_a_meaning():
    assert [row[0] for row in DEFAULTS] == list(Settings.__struct_fields__) == list(SETTINGS)
    assert all(row.meaning.endswith(".") for row in SETTINGS.values())


def test_what_is_settled_and_not_meant_to_be_turned():
    """Rows 11, 16, 18, 24, section 2 and the keepalive of section 4."""
    assert (SETTLED_AFTER, SESSION_LOSS_WINDOW, MAX_STRIKES, MAX_TOMBSTONES) == (10.0, 10.0, 20, 4096)
    assert (MAX_HANDLERS, MAX_NEGOTIATION_STEPS, KEEPALIVE_MISSES) == (64, 3, 2)


NAN, INF = math.nan, math.inf
SECONDS = [0, -1, -0.001, 0.0009, NAN, INF, -INF, True, False, "1", b"1", [1], {}, 1e300, 10**400]
OPTIONAL_SECONDS = (
    "open_timeout",
    "probe_timeout",
    "request_timeout",
    "max_timeout",
    "keepalive",
    "hang_timeout",
)
PLAIN_SECONDS = ("init_timeout", "backoff_min", "backoff_max", "tombstone_sweep", "close_step")
SHARES = [-0.1, 1.1, NAN, INF, True, "0.5", None]
COUNTS = [0, -1, 1.0, 1.5, NAN, True, "3", None, 10**16]

REFUSED = [
    *[(name, value) for name in OPTIONAL_SECONDS for value in SECONDS],
    *[(name, value) for name in PLAIN_SECONDS for value in [*SECONDS, None]],
    *[(name, value) for name in ("backoff_jitter", "retry_jitter") for value in SHARES],
    *[(name, value) for name in ("max_pending", "retry_attempts", "session_attempts") for value in COUNTS],
    *[("max_attempts", value) for value in COUNTS if value is not None],
    *[("max_queued", value) for value in (-1, 0.5, True, None, "0")],
    *[("retry_delay", value) for value in (-0.1, NAN, INF, True, None, "10ms")],
    *[("max_frame_bytes", value) for value in (0, 1023, -1, 2**31, 2048.0, True, None)],
    *[("max_list_bytes", value) for value in (0, 1023, -1, 2048.0, True, None)],
    *[("max_list_entries", value) for value in (0, -1, 1.0, True, None)],
    *[("check_output_timeout", value) for value in (0, -1, float("nan"), True, None)],
    *[("wait_for_ready", value) for value in (1, 0, "yes", None)],
    *[("busy", value) for value in ("", "Retry", "block", None, True, ["retry"])],
    *[("replay", value) for value in ("always", "", None, 1)],
    *[("stderr", value) for value in ("null", "", None, 2)],
    *[("name", value) for value in (None, 5, b"x", ["x"])],
    *[
        ("client_info", value)
        for value in (None, "jackstay", [], {}, {"name": "x"}, {"name": "x", "version": 1})
    ],
    *[("capabilities", value) for value in ("roots", [], 5, True)],
    *[
        ("versions", value)
        for value in (
            None,
            (),
            "2025-11-25",
            ["2025-11-25"],
            ("2025-11-25", "1999-01-01"),
            (1,),
            ([],),
            (None,),
        )
    ],
]


@pytest.mark.parametrize(("name", "value"), REFUSED, ids=[f"{n}={str(v)[:20]!r}" for n, v in REFUSED])
def test_a_bad_value_is_refused_by_name_and_range(name, value):
    with pytest.raises(UsageError) as caught:
        Settings(**{name: value})
    assert caught.value.path == name
    assert str(caught.value).startswith(f"{name} must be {SETTINGS[name].range}, not ")


def test_every_setting_can_be_refused():
    assert {name for name, _ in REFUSED} == set(SETTINGS)


@pytest.mark.parametrize("name", ["bogus", "retries", "timeout", "maxPending"])
def test_a_name_that_is_none_is_refused_by_name(name):
    """Bad input always gives a typed error of ours that names what was wrong."""
    with pytest.raises(UsageError) as caught:
        Settings.of(**{name: 1})
    assert name in str(caught.value)


ALLOWED = [
    *[(name, value) for name in OPTIONAL_SECONDS for value in (None, 0.001, 1, 1e15)],
    *[
        (name, value)
        for name in ("init_timeout", "tombstone_sweep", "close_step")
        for value in (0.001, 5, 3600.5)
    ],
    ("backoff_min", 0.001),
    ("backoff_max", 1),
    *[(name, value) for name in ("backoff_jitter", "retry_jitter") for value in (0, 0.0, 1, 1.0)],
    ("max_attempts", 1),
    ("max_pending", 1),
    ("max_queued", 0),
    ("retry_attempts", 1),
    ("session_attempts", 1),
    ("retry_delay", 0),
    ("max_frame_bytes", 1024),
    ("max_frame_bytes", 2**31 - 1),
    ("busy", "wait"),
    ("replay", "safe"),
    ("stderr", "inherit"),
    ("capabilities", {}),
    ("client_info", {"name": "x", "version": "1", "title": "X"}),
    ("versions", ("2024-11-05",)),
    ("versions", ("2026-07-28", "2024-11-05")),
]


@pytest.mark.parametrize(("name", "value"), ALLOWED)
def test_a_good_value_is_taken_as_it_is(name, value):
    assert getattr(Settings(**{name: value}), name) is value


UNSENDABLE = [
    ("client_info", {"name": "x", "version": "1", "weight": NAN}),
    ("client_info", {"name": "\ud800", "version": "1"}),
    ("client_info", {"name": "x", "version": "1", "icon": object()}),
    ("capabilities", {"roots": object()}),
    ("capabilities", {"experimental": {"x": INF}}),
]


@pytest.mark.parametrize(("name", "value"), UNSENDABLE)
def test_what_cannot_be_sent_is_refused_when_the_settings_are_built(name, value):
    """Section 4: bad values are refused when the options are built, naming the option."""
    with pytest.raises(UsageError) as caught:
        Settings(**{name: value})
    assert caught.value.path.startswith(name)


def test_the_least_backoff_is_not_above_the_longest():
    with pytest.raises(UsageError) as caught:
        Settings(backoff_min=31)
    assert caught.value.path == "backoff_min"
    assert Settings(backoff_min=30).backoff_min == 30


def test_settings_cannot_be_changed_and_a_changed_copy_is_checked_too():
    settings = Settings()
    with pytest.raises(AttributeError):
        settings.name = "x"
    with pytest.raises(UsageError):
        msgspec.structs.replace(settings, max_pending=0)


def test_the_default_info_is_not_shared():
    assert Settings().client_info is not Settings().client_info


PROBES = [({}, 3.0), ({"init_timeout": 30}, 3.0), ({"init_timeout": 6}, 2.0), ({"probe_timeout": 7.5}, 7.5)]


@pytest.mark.parametrize(("options", "seconds"), PROBES)
def test_the_probe_waits_three_seconds_or_a_third(options, seconds):
    """Section 4: min(3 s, a third of `init_timeout`)."""
    assert Settings(**options).probe_wait == seconds


TTLS = [
    ({}, 75.0),
    ({"request_timeout": 60.0}, 105.0),
    ({"init_timeout": 30.0, "backoff_max": 10.0}, 75.0),
    ({"request_timeout": None}, 45.0),
]


@pytest.mark.parametrize(("options", "seconds"), TTLS)
def test_how_long_an_abandoned_id_is_remembered(options, seconds):
    """Section 4: `request_timeout` + `init_timeout` + `backoff_max` + 5 s with the values in force."""
    assert Settings(**options).tombstone_ttl == seconds


def test_closing_is_bounded_by_its_three_steps_and_one_to_spare():
    assert Settings().close_timeout == 8.0
    assert Settings(close_step=0.5).close_timeout == 2.0


RANGES = [
    (SETTINGS["name"], "text"),
    (SETTINGS["client_info"], 'an object with "name" and "version"'),
    (SETTINGS["capabilities"], "an object, or None"),
    (SETTINGS["versions"], "a non-empty tuple of " + ", ".join(VERSIONS)),
    (SETTINGS["open_timeout"], "a number from 0.001, or None"),
    (SETTINGS["init_timeout"], "a number from 0.001"),
    (SETTINGS["backoff_jitter"], "a number from 0 to 1"),
    (SETTINGS["max_attempts"], "a whole number from 1, or None"),
    (SETTINGS["wait_for_ready"], "true or false"),
    (SETTINGS["busy"], '"retry" or "wait"'),
    (Setting("x", "", choices=("a",), is_optional=True), '"a", or None'),
]


@pytest.mark.parametrize(("row", "said"), RANGES, ids=[row[0].name for row in RANGES])
def test_each_range_in_words(row, said):
    assert row.range == said


@given(
    st.sampled_from(list(SETTINGS)),
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
)
def test_whatever_is_given_it_is_taken_or_refused_with_our_error(name, value):
    refused = None
    try:
        settings = Settings(**{name: value})
    except UsageError as error:
        refused = error
    if refused is None:
        assert getattr(settings, name) == value
    else:
        assert refused.path in (name, "backoff_min")


def test_the_keywords_that_type_checkers_see_are_the_settings() -> None:
    of_struct, of_keywords = get_type_hints(Settings), get_type_hints(ClientKeywords)
    assert of_keywords.keys() == set(Settings.__struct_fields__)
    for name, kind in of_keywords.items():
        if choices := SETTINGS[name].choices:
            assert get_args(kind) == choices
        else:
            assert kind == of_struct[name], name
