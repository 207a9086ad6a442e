"""The options of a server: defaults, validation and documentation."""

import re

import msgspec
import pytest

from jackstay.errors import UnexpectedOptionError, UsageError
from jackstay.server import EVENTS, Options
from jackstay.server._options import CAPABILITIES, make_options
from scripted.places import ROOT

WRONG = [
    ("name", ""),
    ("name", 3),
    ("version", ""),
    ("threads", 0),
    ("threads", 2000),
    ("threads", "many"),
    ("capabilities", ("toys",)),
    ("title", 5),
    ("instructions", ["be brief"]),
    ("request_state_secrets", (b"short",)),
    ("request_state_secrets", ("sixteen characters",)),
    ("round_timeout", 0),
    ("round_timeout", float("nan")),
    ("round_timeout", "long"),
    ("drain_timeout", "long"),
    ("page_size", 0),
    ("ttl_ms", -1),
    ("cache_scope", "shared"),
    ("versions", ()),
    ("versions", ("1999-01-01",)),
    ("max_concurrent", 0),
    ("max_frame_bytes", 1),
    ("drain_timeout", -1),
]


def test_a_bad_value_is_rejected_with_the_name_of_the_option(subtests: pytest.Subtests) -> None:
    for name, value in WRONG:
        with subtests.test(name=name, value=value):
            with pytest.raises(UsageError) as raised:
                make_options(**{"name": "x", name: value})
            assert raised.value.path == name
            assert name in str(raised.value)


def test_an_unknown_option_is_a_type_error_with_a_suggestion() -> None:
    with pytest.raises(UnexpectedOptionError) as raised:
        make_options(name="x", thread=3)
    assert str(raised.value) == "Server() got an unexpected option 'thread'; did you mean 'threads'?"
    assert raised.value.path == "thread"
    assert isinstance(raised.value, TypeError)


@pytest.mark.parametrize(("option", "where"), [("auth", "asgi() and of run"), ("port", "run")])
def test_an_option_of_http_is_refused_with_the_place_where_it_belongs(option: str, where: str) -> None:
    text = f"Server() got an unexpected option '{option}'; it is an option of {where}(transport='http')"
    with pytest.raises(UnexpectedOptionError, match=re.escape(text)):
        make_options(name="x", **{option: 1})


def test_only_the_name_is_required() -> None:
    required = [field.name for field in msgspec.structs.fields(Options) if field.required]
    assert required == ["name"]


def test_server_info_and_capabilities() -> None:
    options = make_options(
        name="x",
        version="2",
        title="X",
        website_url="https://x",
        description="An x",
        icons=["https://x/i.png"],
    )
    core = options.for_core(frozenset(CAPABILITIES))
    assert msgspec.json.decode(core.server_info) == {
        "name": "x",
        "version": "2",
        "title": "X",
        "description": "An x",
        "websiteUrl": "https://x",
        "icons": [{"src": "https://x/i.png"}],
    }
    assert set(msgspec.json.decode(core.capabilities)) == {*CAPABILITIES, "logging"}
    assert set(msgspec.json.decode(options.for_core(frozenset()).capabilities)) == {"logging"}


PAGE = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")


def test_every_option_is_documented(subtests: pytest.Subtests) -> None:
    settings = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8").partition("## A server")[2]
    for name in [*(set(Options.__struct_fields__) - {"name"}), "middleware", "on_invalid_arguments", "changes"]:
        with subtests.test(name=name):
            table = settings if name in Options.__struct_fields__ else PAGE.partition("## Options")[2]
            assert f"`{name}`" in table


def test_every_event_is_documented_with_its_fields(subtests: pytest.Subtests) -> None:
    for event in EVENTS:
        with subtests.test(event=event):
            assert f"| `{event}` | {', '.join(EVENTS[event])} |" in PAGE
