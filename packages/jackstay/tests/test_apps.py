"""Apps: what may be declared, the content security policy, and what is read of the `_meta` of others."""

from pathlib import Path
from typing import Any

import pytest

from jackstay.apps import (
    APP_MIME_TYPE,
    APPS_EXTENSION,
    App,
    Apps,
    app_from_contents,
    app_of_tool,
    is_for_app,
    is_for_model,
    shows_apps,
)
from jackstay.errors import ProtocolError, UsageError
from jackstay.types import Tool


def test_an_app_without_domains_has_the_restrictive_policy(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text("<p>é", encoding="utf-8")
    app = App("ui://a", file)
    assert app.read() == "<p>é"
    assert (app.meta, app.allow) == ({}, "")
    assert app.policy == (
        "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
        " font-src 'self'; media-src 'self' data:; connect-src 'none'; frame-src 'none'; base-uri 'self';"
        " object-src 'none'; form-action 'none'"
    )


def test_declared_domains_are_allowed_and_sent() -> None:
    app = App(
        "ui://a",
        "<p>",
        connect_domains=["https://api.example.com", "wss://live.example.com:8443"],
        resource_domains=["https://*.cdn.example.com"],
        frame_domains=["https://video.example.com"],
        base_uri_domains=["https://base.example.com"],
        permissions=["camera", "clipboardWrite"],
        domain="a.example.com",
        prefers_border=False,
    )
    assert "connect-src https://api.example.com wss://live.example.com:8443;" in app.policy
    assert app.policy.count("https://*.cdn.example.com") == 5
    assert "frame-src https://video.example.com; base-uri https://base.example.com;" in app.policy
    assert app.allow == "camera; clipboard-write"
    assert app.meta == {
        "ui": {
            "csp": {
                "connectDomains": ["https://api.example.com", "wss://live.example.com:8443"],
                "resourceDomains": ["https://*.cdn.example.com"],
                "frameDomains": ["https://video.example.com"],
                "baseUriDomains": ["https://base.example.com"],
            },
            "permissions": {"camera": {}, "clipboardWrite": {}},
            "domain": "a.example.com",
            "prefersBorder": False,
        }
    }
    assert app_from_contents("ui://a", "<p>", app.meta) == app


@pytest.mark.parametrize(
    ("uri", "html", "options", "message"),
    [
        ("https://a", "", {}, "must begin with ui://"),
        (3, "", {}, "must begin with ui://"),
        ("ui://a", b"", {}, "html must be a str or a path"),
        ("ui://a", "", {"connect_domains": "https://a.example"}, "must be a list of strings"),
        ("ui://a", "", {"permissions": 3}, "must be a list of strings"),
        ("ui://a", "", {"permissions": ["usb"]}, "not 'usb'"),
        ("ui://a", "", {"frame_domains": [3]}, "must be origins"),
    ],
)
def test_invalid_apps_are_refused(uri: Any, html: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        App(uri, html, **options)


@pytest.mark.parametrize(
    "origin",
    ["*", "https:", "https://*", "https://a.example; script-src *", "https://a.example/path", "'unsafe-eval'", "data:"],
)
def test_no_origin_can_loosen_the_policy(origin: str) -> None:
    with pytest.raises(ProtocolError, match="must be origins"):
        app_from_contents("ui://a", "", {"ui": {"csp": {"resourceDomains": [origin]}}})


def test_unknown_permissions_are_left_out_and_wrong_types_refused() -> None:
    assert app_from_contents("ui://a", "", {"ui": {"permissions": {"usb": {}, "camera": {}}}}).allow == "camera"
    for ui in (3, {"csp": 3}, {"csp": {"connectDomains": [3]}}, {"prefersBorder": "yes"}):
        with pytest.raises(ProtocolError, match="the app ui://a is invalid"):
            app_from_contents("ui://a", "", {"ui": ui})


def listed(meta: Any) -> Tool:
    return Tool(name="t", input_schema={"type": "object"}, meta=meta)


def test_the_app_of_a_tool_and_who_may_call_it() -> None:
    tools = {
        None: (None, True, True),
        "ui://b": ("ui://b", True, True),
    }
    assert [(app_of_tool(tool), is_for_model(tool), is_for_app(tool)) for tool in map(listed, (None, {"ui": 3}))] == [
        tools[None]
    ] * 2
    old = listed({"ui/resourceUri": "ui://b"})
    assert (app_of_tool(old), is_for_model(old), is_for_app(old)) == tools["ui://b"]
    own = listed({"ui": {"resourceUri": "ui://a", "visibility": ["app"]}})
    assert (app_of_tool(own), is_for_model(own), is_for_app(own)) == ("ui://a", False, True)
    model = listed({"ui": {"visibility": ["model"]}})
    assert (app_of_tool(model), is_for_model(model), is_for_app(model)) == (None, True, False)


def test_a_client_shows_apps_if_it_declared_their_type() -> None:
    apps = Apps()
    assert shows_apps({apps.identifier: apps.settings})
    for extensions in (None, {}, {APPS_EXTENSION: {}}, {APPS_EXTENSION: {"mimeTypes": ["text/uri-list"]}}):
        assert not shows_apps(extensions)
    assert apps.settings == {"mimeTypes": [APP_MIME_TYPE]}
