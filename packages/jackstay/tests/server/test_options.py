"""The options of a server: rows with defaults, refused when wrong."""

from typing import Any

import msgspec
import pytest

from jackstay.errors import UsageError
from jackstay.server import EVENTS, Options
from jackstay.server._options import OFFERS, make_options
from jackstay.server._server import ServerKeywords
from scripted.places import ROOT

WRONG = [
    ("name", ""),
    ("name", 3),
    ("version", ""),
    ("threads", 0),
    ("threads", 2000),
    ("threads", "many"),
    ("offers", ("toys",)),
    ("title", 5),
    ("instructions", ["be brief"]),
    ("keys", (b"short",)),
    ("keys", ("a text of sixteen",)),
    ("round_timeout", 0),
    ("round_timeout", float("nan")),
    ("round_timeout", "long"),
    ("drain_timeout", "long"),
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
    with pytest.raises(
        UsageError, match=r"colour is no option of a server; the options are name, version"
    ) as raised:
        make_options(name="x", colour="red")
    assert raised.value.path == "colour"


def test_every_row_has_a_default_but_the_name() -> None:
    required = [field.name for field in msgspec.structs.fields(Options) if field.required]
    assert required == ["name"]


def test_a_server_says_who_it_is_and_what_it_offers() -> None:
    options = make_options(
        name="x",
        version="2",
        title="X",
        website_url="https://x",
        description="An x",
        icons=["https://x/i.png"],
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


PAGE = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*Options.__struct_fields__, "middleware", "on_invalid_arguments"])
def test_every_option_is_documented(name: str) -> None:
    table = PAGE.partition("## Options")[2]
    assert f"`{name}`" in table


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_is_documented_with_its_fields(event: str) -> None:
    assert f"| `{event}` | {', '.join(EVENTS[event])} |" in PAGE


def test_the_keywords_of_a_server_are_the_rows() -> None:
    given = {"name", "version", "instructions"}
    assert ServerKeywords.__annotations__.keys() | given == set(Options.__struct_fields__)
