"""`--login`: one sign-in for all later commands, and no browser without it; `logout` deletes the tokens."""

import asyncio
import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jackstay.cli import _login
from jackstay.transport.http import http
from scripted.oauth import AuthorizationSite, GuardedSite

Jackstay = Callable[..., Any]


class Sites:
    """A server that requires tokens, and its authorization server, on an event loop in another thread."""

    def __init__(self) -> None:
        self.issuing = AuthorizationSite()
        self.server = GuardedSite(self.issuing)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> "Sites":
        self._thread.start()
        for site in (self.issuing, self.server):
            asyncio.run_coroutine_threadsafe(site.__aenter__(), self._loop).result(120)
        return self

    def __exit__(self, *error: object) -> None:
        for site in (self.issuing, self.server):
            asyncio.run_coroutine_threadsafe(site.__aexit__(), self._loop).result(120)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(120)
        self._loop.close()


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sites]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with Sites() as sites:
        yield sites


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A browser that follows redirects; the fixture is the list of opened pages."""
    opened: list[str] = []
    visits: list[threading.Thread] = []

    def visit(url: str) -> None:
        with urllib.request.urlopen(url, timeout=240) as page:
            assert b"You can close this window" in page.read()

    def open_browser(url: str) -> None:
        opened.append(url)
        visits.append(threading.Thread(target=visit, args=(url,)))
        visits[-1].start()

    monkeypatch.setattr(_login, "open_browser", open_browser)
    yield opened
    for thread in visits:
        thread.join(120)


def test_later_commands_reuse_the_sign_in(sites: Sites, pages: list[str], jackstay: Jackstay) -> None:
    url = sites.server.endpoint
    refused = jackstay("ping", url, peer=False)
    assert refused.code == 3
    assert "add --login to sign in" in refused.err
    assert "or send a key: --header 'Authorization: Bearer ${KEY}'" in refused.err
    assert sites.issuing.issuer in refused.err
    assert pages == []
    assert jackstay("ping", "--login", url, peer=False).code == 0
    assert len(pages) == 1
    assert jackstay("ping", url, peer=False).code == 0
    assert jackstay("ping", "--login", url, peer=False).code == 0
    assert len(pages) == 1
    done = jackstay("logout", url, peer=False)
    assert done.code == 0
    assert f"signed out of {url}: the tokens were deleted from " in done.out
    assert jackstay("ping", url, peer=False).code == 3
    done = jackstay("logout", url, peer=False)
    assert done.code == 1
    assert f"no tokens for {url} in " in done.out
    assert jackstay("logout", "example.org", peer=False).code == 2


def test_login_with_a_configuration_file(sites: Sites, pages: list[str], jackstay: Jackstay, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"web": {"url": sites.server.endpoint}}}))
    assert jackstay("ping", "--login", "--config", str(path), "web", peer=False).code == 0
    assert jackstay("ping", "--config", str(path), "web", peer=False).code == 0
    assert len(pages) == 1


def test_an_error_of_the_issuer_is_reported(sites: Sites, pages: list[str], jackstay: Jackstay) -> None:
    sites.issuing.overrides["registration_endpoint"] = None
    done = jackstay("ping", "--login", sites.server.endpoint, peer=False)
    assert done.code == 3
    assert "dynamic client registration" in done.err
    assert "if you have a key, send it instead: --header 'Authorization: Bearer ${KEY}'" in done.err
    assert pages == []


def test_other_errors_are_reported_unchanged(sites: Sites, jackstay: Jackstay) -> None:
    sites.server.publish("http://elsewhere.example")
    done = jackstay("ping", sites.server.endpoint, peer=False)
    assert done.code == 3
    assert "must be https" in done.err
    assert "--login" not in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ping", "--login", "--header", "Authorization: Bearer x", "https://x.example/mcp"), "cannot be combined"),
        (("ping", "--login", "http://x.example/mcp"), "--login requires https"),
        (("ping", "--login", "--", "true"), "--login requires a server over HTTP"),
    ],
)
def test_login_is_rejected_if_it_cannot_be_used(
    words: tuple[str, ...], message: str, jackstay: Jackstay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    done = jackstay(*words, peer=False)
    assert done.code == 2
    assert message in done.err


def test_login_is_rejected_for_a_command_in_a_file(jackstay: Jackstay, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"local": {"command": "true"}}}))
    done = jackstay("ping", "--login", "--config", str(path), "local", peer=False)
    assert done.code == 2
    assert "this one is a command" in done.err


def test_targets_without_tls_or_with_credentials_are_unchanged() -> None:
    for target in (http("http://x.example/mcp"), http("https://x.example/mcp", auth="token")):
        assert _login.with_login(target, is_wanted=False) == (target, None)
