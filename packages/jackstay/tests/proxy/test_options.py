"""The options of a proxy: rows, limits, documentation."""

from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.proxy import PROXY_OPTIONS, ProxyOptions
from scripted.places import ROOT

PAGE = ROOT / "docs" / "proxy.md"


def test_every_option_has_a_row() -> None:
    assert tuple(PROXY_OPTIONS) == ProxyOptions.__struct_fields__


def test_every_option_is_documented() -> None:
    page = PAGE.read_text()
    assert [name for name in PROXY_OPTIONS if f"`{name}`" not in page] == []


def test_invalid_values_raise_usage_error() -> None:
    rows: list[tuple[str, Any]] = [
        ("wait", -1),
        ("wait", 3601),
        ("timeout", 0),
        ("per_client", "yes"),
        ("max_children", 0),
        ("max_children", 1.5),
    ]
    for name, value in rows:
        with pytest.raises(UsageError, match=f"{name} must be"):
            ProxyOptions(**{name: value})
