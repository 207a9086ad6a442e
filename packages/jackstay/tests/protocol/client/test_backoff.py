"""The delay before reconnecting and the delay before retrying a busy transport."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.protocol.client._backoff import apply_jitter, backoff_delay, retry_delay
from jackstay.protocol.client._settings import Settings

DEFAULT = Settings()

# (failures before, jitter, seconds) with the defaults 1 s, 30 s, 0.2.
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


def test_the_delay_before_a_reconnect():
    for failures, jitter, seconds in DELAYS:
        assert backoff_delay(DEFAULT, failures, jitter) == pytest.approx(seconds), (failures, jitter)


@given(
    st.integers(0, 10**9),
    st.floats(0, 1, exclude_max=True),
    st.floats(0.001, 100),
    st.floats(100, 10_000),
    st.floats(0, 1),
)
def test_every_delay_follows_the_formula(failures, jitter, shortest, longest, fraction):
    """`base = min(backoff_min * 2**n, backoff_max)`; `delay = clamp(base * U(1-f, 1+f), min, max)`."""
    settings = Settings(backoff_min=shortest, backoff_max=longest, backoff_jitter=fraction)
    delay = backoff_delay(settings, failures, jitter)
    assert shortest <= delay <= longest
    base = min(shortest * 2.0 ** min(failures, 900), longest)
    low, high = base * (1 - fraction), base * (1 + fraction)
    slack = 1e-9 * longest
    assert min(max(low, shortest), longest) - slack <= delay <= min(max(high, shortest), longest) + slack


def test_the_smallest_minimum_still_reaches_the_largest_maximum():
    settings = Settings(backoff_min=0.001, backoff_max=1e15, backoff_jitter=0)
    assert backoff_delay(settings, 10**6, 0.5) == 1e15


def test_the_delay_before_a_retry_is_10_ms_with_50_percent_jitter():
    for jitter, seconds in ((0.0, 0.005), (0.5, 0.010), (0.999999, 0.015)):
        assert retry_delay(DEFAULT, jitter) == pytest.approx(seconds, abs=1e-6)


def test_jitter_is_symmetric():
    for fraction, jitter, expected in ((0.2, 0.0, 8.0), (0.2, 0.5, 10.0), (0.2, 1.0, 12.0), (0, 0.9, 10)):
        assert apply_jitter(10.0, fraction, jitter) == pytest.approx(expected)
