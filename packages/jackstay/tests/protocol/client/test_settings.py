"""The defaults of every setting, valid and invalid values, and what is derived from them."""

import math
from typing import Literal, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay import __version__
from jackstay.errors import UnexpectedOptionError, UsageError
from jackstay.protocol import Setting
from jackstay.protocol._versions import VERSIONS
from jackstay.protocol.client import ClientKeywords
from jackstay.protocol.client._settings import (
    KEEPALIVE_MISSES,
    MAX_HANDLERS,
    MAX_INVALID_FRAMES,
    MAX_NEGOTIATION_STEPS,
    MAX_TOMBSTONES,
    SESSION_LOSS_WINDOW,
    SETTINGS,
    STABLE_AFTER,
    Settings,
)

DEFAULTS = {
    "name": "",
    "client_info": {"name": "jackstay", "version": __version__},
    "capabilities": None,
    "versions": VERSIONS,
    "open_timeout": 60.0,
    "init_timeout": 10.0,
    "probe_timeout": None,
    "request_timeout": 30.0,
    "max_timeout": 300.0,
    "backoff_min": 1.0,
    "backoff_max": 30.0,
    "backoff_jitter": 0.2,
    "max_attempts": None,
    "wait_for_ready": True,
    "max_pending": 1024,
    "max_queued": 256,
    "busy": "retry",
    "retry_attempts": 3,
    "retry_delay": 0.010,
    "retry_jitter": 0.5,
    "session_attempts": 20,
    "replay": "never",
    "max_frame_bytes": 16_777_216,
    "max_list_bytes": 67_108_864,
    "max_list_entries": 100_000,
    "check_output_timeout": 1.0,
    "tombstone_sweep": 60.0,
    "keepalive": None,
    "hang_timeout": 5.0,
    "close_step": 2.0,
    "stderr": "log",
    "extensions": (),
    "task_log": None,
}


def test_the_defaults():
    """Those of later settings are in docs/settings.md, which is checked, too."""
    defaults = msgspec.structs.asdict(Settings())
    assert {name: defaults[name] for name in DEFAULTS} == DEFAULTS


def test_every_setting_has_a_default_a_row_and_a_meaning():
    assert list(msgspec.structs.asdict(Settings())) == list(SETTINGS)
    assert all(row.meaning.endswith(".") for row in SETTINGS.values())


def test_the_constants():
    assert (STABLE_AFTER, SESSION_LOSS_WINDOW, MAX_INVALID_FRAMES, MAX_TOMBSTONES) == (10.0, 10.0, 20, 4096)
    assert (MAX_HANDLERS, MAX_NEGOTIATION_STEPS, KEEPALIVE_MISSES) == (64, 3, 2)


NAN, INF = math.nan, math.inf


def refused(row: Setting) -> list[object]:
    """Values that a setting of this kind must refuse."""
    values: list[object] = [b"1", [1], {}] if row.is_optional else [b"1", [1], {}, None]
    if row.low is not None:
        values += [row.low - 1, row.low - 1e-4, NAN, INF, -INF, True, False, "1", 1e300, 10**400]
        values += [] if row.high is None else [row.high + 1]
        return [*values, 1.0, 1.5] if row.is_integer else values
    if row.choices:
        return [*values, "", row.choices[0].title(), True, 1]
    return [*values, 1, 0, "yes"] if row.is_flag else [*values, 5]


REFUSED = [
    *[(name, value) for name, row in SETTINGS.items() if row.is_valid is None for value in refused(row)],
    # The limits.
    *[(name, 0.0009) for name in ("open_timeout", "keepalive", "init_timeout", "backoff_min", "close_step")],
    *[(name, 0) for name in ("max_attempts", "max_pending", "retry_attempts", "session_attempts", "max_list_entries")],
    *[(name, 1.1) for name in ("backoff_jitter", "retry_jitter")],
    *[(name, 1023) for name in ("max_frame_bytes", "max_list_bytes")],
    ("max_frame_bytes", 2**31),
    ("max_queued", -1),
    ("retry_delay", -0.1),
    # Settings with a check of their own.
    *[("extensions", value) for value in (None, "x", (1,), 3)],
    *[("task_log", value) for value in ("tasks.log", 3, ())],
    *[("client_info", value) for value in (None, "jackstay", [], {}, {"name": "x"}, {"name": "x", "version": 1})],
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


def test_an_invalid_value_is_refused_with_its_name_and_range(subtests):
    assert {name for name, _ in REFUSED} == set(SETTINGS)
    for name, value in REFUSED:
        with subtests.test(name=name, value=str(value)[:20]):
            with pytest.raises(UsageError) as caught:
                Settings(**{name: value})
            assert caught.value.path == name
            assert str(caught.value).startswith(f"{name} must be {SETTINGS[name].range}, not ")


UNKNOWN = {
    "request_timout": "connect() got an unexpected option 'request_timout'; did you mean 'request_timeout'?",
    "xyz": f"connect() got an unexpected option 'xyz'; valid options: {', '.join(SETTINGS)}",
}


def test_an_unknown_name_is_refused():
    for name, message in UNKNOWN.items():
        with pytest.raises(UnexpectedOptionError) as caught:
            Settings.of(**{name: 1})
        assert str(caught.value) == message
        assert isinstance(caught.value, TypeError)


ALLOWED = [
    *[(name, value) for name in ("open_timeout", "keepalive", "hang_timeout") for value in (None, 0.001, 1, 1e15)],
    *[(name, value) for name in ("init_timeout", "tombstone_sweep", "close_step") for value in (0.001, 5, 3600.5)],
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


def test_a_valid_value_is_kept_unchanged():
    for name, value in ALLOWED:
        assert getattr(Settings(**{name: value}), name) is value, name


NOT_JSON = [
    ("client_info", {"name": "x", "version": "1", "weight": NAN}),
    ("client_info", {"name": "\ud800", "version": "1"}),
    ("client_info", {"name": "x", "version": "1", "icon": object()}),
    ("capabilities", {"roots": object()}),
    ("capabilities", {"experimental": {"x": INF}}),
]


def test_values_that_cannot_be_encoded_as_json_are_refused():
    for name, value in NOT_JSON:
        with pytest.raises(UsageError) as caught:
            Settings(**{name: value})
        assert caught.value.path.startswith(name)


def test_backoff_min_is_at_most_backoff_max():
    with pytest.raises(UsageError, match=r"^backoff_min must not be greater than backoff_max: 31 > 30\.0$") as caught:
        Settings(backoff_min=31)
    assert caught.value.path == "backoff_min"
    assert Settings(backoff_min=30).backoff_min == 30


def test_settings_are_immutable_and_a_changed_copy_is_validated():
    settings = Settings()
    with pytest.raises(AttributeError):
        settings.name = "x"
    with pytest.raises(UsageError):
        msgspec.structs.replace(settings, max_pending=0)


def test_the_default_info_is_not_shared():
    assert Settings().client_info is not Settings().client_info


PROBES = [({}, 3.0), ({"init_timeout": 30}, 3.0), ({"init_timeout": 6}, 2.0), ({"probe_timeout": 7.5}, 7.5)]


def test_the_probe_waits_three_seconds_or_a_third_of_init_timeout():
    for options, seconds in PROBES:
        assert Settings(**options).probe_wait == seconds


TTLS = [
    ({}, 75.0),
    ({"request_timeout": 60.0}, 105.0),
    ({"init_timeout": 30.0, "backoff_max": 10.0}, 75.0),
    ({"request_timeout": None}, 45.0),
]


def test_how_long_an_abandoned_id_is_kept():
    for options, seconds in TTLS:
        assert Settings(**options).tombstone_ttl == seconds


def test_closing_is_bounded_by_its_three_steps_and_one_to_spare():
    assert Settings().close_timeout == 8.0
    assert Settings(close_step=0.5).close_timeout == 2.0


RANGES = [
    (SETTINGS["name"], "a str"),
    (SETTINGS["client_info"], 'an object with "name" and "version"'),
    (SETTINGS["capabilities"], "an object, or None"),
    (SETTINGS["versions"], "a non-empty tuple of " + ", ".join(VERSIONS)),
    (SETTINGS["open_timeout"], "a number from 0.001, or None"),
    (SETTINGS["init_timeout"], "a number from 0.001"),
    (SETTINGS["backoff_jitter"], "a number from 0 to 1"),
    (SETTINGS["max_attempts"], "an int from 1, or None"),
    (SETTINGS["wait_for_ready"], "True or False"),
    (SETTINGS["busy"], '"retry" or "wait"'),
    (Setting("", choices=("a",), is_optional=True), '"a", or None'),
]


def test_the_description_of_each_range():
    for row, text in RANGES:
        assert row.range == text


@given(
    st.sampled_from(list(SETTINGS)),
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
)
def test_any_value_is_accepted_or_refused_with_a_usage_error(name, value):
    refused = None
    try:
        settings = Settings(**{name: value})
    except UsageError as error:
        refused = error
    if refused is None:
        assert getattr(settings, name) == value
    else:
        assert refused.path in (name, "backoff_min")


def test_the_keywords_for_type_checkers_match_the_settings() -> None:
    assert get_type_hints(ClientKeywords).keys() == set(Settings.__struct_fields__)
    assert get_type_hints(ClientKeywords)["busy"] == Literal["retry", "wait"]
