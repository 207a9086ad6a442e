"""The options of a server: rows with defaults, refused when wrong."""

from typing import Any

import msgspec
import pytest

from mooring.errors import UsageError
from mooring.server import Options
from mooring.server._options import OFFERS, make_options

WRONG = [
    ("name", ""),
    ("name", 3),
    ("version", ""),
    ("threads", 0),
    ("threads", 2000),
    ("threads", "many"),
    ("offers", ("toys",)),
    ("keys", (b"short",)),
    ("keys", ("a text of sixteen",)),
    ("round_timeout", 0),
    ("round_timeout", float("nan")),
    ("page_size", 0),
    ("ttl_ms", -1),
    ("cache_scope", "mine"),
    ("versions", ()),
    ("versions", ("1999-01-01",)),
    ("max_concurrent", 0),
    ("max_frame_bytes", 1),
    ("drain_timeout", -1),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_is_refused_and_named(name: str, value: Any) -> None:
    with pytest.raises(UsageError) as raised:
        make_options(**{"name": "x", name: value})
    assert raised.value.path == name
    assert name in str(raised.value)


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"colour is no option of a server; the options are name, version") as raised:
        make_options(name="x", colour="red")
    assert raised.value.path == "colour"


def test_every_row_has_a_default_but_the_name() -> None:
    required = [field.name for field in msgspec.structs.fields(Options) if field.required]
    assert required == ["name"]


def test_a_server_says_who_it_is_and_what_it_offers() -> None:
    options = make_options(
        name="x", version="2", title="X", website_url="https://x", description="An x", icons=["https://x/i.png"]
    )
    core = options.for_core(frozenset(OFFERS))
    assert msgspec.json.decode(core.server_info) == {
        "name": "x",
        "version": "2",
        "title": "X",
        "description": "An x",
        "websiteUrl": "https://x",
        "icons": [{"src": "https://x/i.png"}],
    }
    assert set(msgspec.json.decode(core.capabilities)) == {*OFFERS, "logging"}
    assert set(msgspec.json.decode(options.for_core(frozenset()).capabilities)) == {"logging"}
    assert options.for_catalogue().page_size == options.page_size
