"""The options of a proxy: each has a row, a range, and a line in the page about it."""

import pytest

from jackstay.errors import UsageError
from jackstay.proxy import PROXY_OPTIONS, ProxyOptions
from scripted.places import ROOT

PAGE = ROOT / "docs" / "proxy.md"


def test_every_option_has_a_row() -> None:
    assert tuple(PROXY_OPTIONS) == ProxyOptions.__struct_fields__


@pytest.mark.parametrize("name", PROXY_OPTIONS)
def test_every_option_is_in_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE.read_text()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("wait", -1),
        ("wait", 3601),
        ("timeout", 0),
        ("per_client", "yes"),
        ("max_children", 0),
        ("max_children", 1.5),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"{name} must be"):
        ProxyOptions(**{name: value})  # type: ignore[arg-type]  # that is the point
