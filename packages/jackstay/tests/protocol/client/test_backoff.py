"""The one formula for reconnecting and the one for a busy transport."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.protocol.client._backoff import backoff_delay, retry_delay, spread
from jackstay.protocol.client._settings import Settings

DEFAULT = Settings()

# (failures before, luck, seconds): row 11 with the defaults 1 s, 30 s, 0.2.
DELAYS = [
    (0, 0.5, 1.0),
    (1, 0.5, 2.0),
    (2, 0.5, 4.0),
    (3, 0.5, 8.0),
    (4, 0.5, 16.0),
    (5, 0.5, 30.0),
    (6, 0.5, 30.0),
    (10_000, 0.5, 30.0),
    (0, 0.0, 1.0),  # 0.8 clamped to the minimum
    (0, 0.75, 1.1),
    (2, 0.0, 3.2),
    (2, 0.75, 4.4),
    (5, 0.0, 24.0),
    (5, 0.999, 30.0),  # 36 clamped to the maximum
]


@pytest.mark.parametrize(("failures", "luck", "seconds"), DELAYS)
def test_the_delay_before_a_reconnect(failures, luck, seconds):
    assert backoff_delay(DEFAULT, failures, luck) == pytest.approx(seconds)


@given(
    st.integers(0, 10**9),
    st.floats(0, 1, exclude_max=True),
    st.floats(0.001, 100),
    st.floats(100, 10_000),
    st.floats(0, 1),
)
def test_every_delay_is_the_formula(failures, luck, least, most, jitter):
    """Row 11: `base = min(backoff_min * 2**n, backoff_max)`; `delay = clamp(base * U(1-j, 1+j), min, max)`."""
    settings = Settings(backoff_min=least, backoff_max=most, backoff_jitter=jitter)
    delay = backoff_delay(settings, failures, luck)
    assert least <= delay <= most
    base = min(least * 2.0 ** min(failures, 900), most)
    low, high = base * (1 - jitter), base * (1 + jitter)
    assert min(max(low, least), most) - 1e-9 * most <= delay <= min(max(high, least), most) + 1e-9 * most


def test_the_smallest_minimum_still_reaches_the_largest_maximum():
    settings = Settings(backoff_min=0.001, backoff_max=1e15, backoff_jitter=0)
    assert backoff_delay(settings, 10**6, 0.5) == 1e15


RETRIES = [(0.0, 0.005), (0.5, 0.010), (0.999999, 0.015)]


@pytest.mark.parametrize(("luck", "seconds"), RETRIES)
def test_the_delay_before_a_busy_transport_is_asked_again(luck, seconds):
    """Row 14: 10 ms, 50 % jitter."""
    assert retry_delay(DEFAULT, luck) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    ("jitter", "luck", "expected"), [(0.2, 0.0, 8.0), (0.2, 0.5, 10.0), (0.2, 1.0, 12.0), (0, 0.9, 10)]
)
def test_spread_moves_down_and_up_alike(jitter, luck, expected):
    assert spread(10.0, jitter, luck) == pytest.approx(expected)
