"""Signing in from a shell: once with `--login`, then never again; and never a browser without it."""

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


class Harbour:
    """A server that wants tokens, and its authorization server, on a loop of their own beside the command's."""

    def __init__(self) -> None:
        self.issuing = AuthorizationSite()
        self.server = GuardedSite(self.issuing)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> "Harbour":
        self._thread.start()
        for site in (self.issuing, self.server):
            asyncio.run_coroutine_threadsafe(site.__aenter__(), self._loop).result(20)
        return self

    def __exit__(self, *error: object) -> None:
        for site in (self.issuing, self.server):
            asyncio.run_coroutine_threadsafe(site.__aexit__(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()


@pytest.fixture
def harbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harbour]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with Harbour() as harbour:
        yield harbour


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A browser that follows where it is sent: the pages that were opened."""
    opened: list[str] = []
    visits: list[threading.Thread] = []

    def visit(url: str) -> None:
        with urllib.request.urlopen(url, timeout=20) as page:
            assert b"You can close this window" in page.read()

    def open_page(url: str) -> None:
        opened.append(url)
        visits.append(threading.Thread(target=visit, args=(url,)))
        visits[-1].start()

    monkeypatch.setattr(_login, "open_page", open_page)
    yield opened
    for one in visits:
        one.join(20)


def test_a_sign_in_serves_the_next_commands(harbour: Harbour, pages: list[str], jackstay: Jackstay) -> None:
    url = harbour.server.endpoint
    refused = jackstay("ping", url, peer=False)
    assert refused.code == 3
    assert "add --login to sign in" in refused.err
    assert "or send the key you have: --header 'Authorization: Bearer ${KEY}'" in refused.err
    assert harbour.issuing.issuer in refused.err
    assert pages == []
    assert jackstay("ping", "--login", url, peer=False).code == 0
    assert len(pages) == 1
    assert jackstay("ping", url, peer=False).code == 0
    assert jackstay("ping", "--login", url, peer=False).code == 0
    assert len(pages) == 1


def test_a_server_of_a_file_is_signed_in_to_as_well(
    harbour: Harbour, pages: list[str], jackstay: Jackstay, tmp_path: Path
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"web": {"url": harbour.server.endpoint}}}))
    assert jackstay("ping", "--login", "--config", str(path), "web", peer=False).code == 0
    assert jackstay("ping", "--config", str(path), "web", peer=False).code == 0
    assert len(pages) == 1


def test_what_the_issuer_refuses_is_told(harbour: Harbour, pages: list[str], jackstay: Jackstay) -> None:
    harbour.issuing.overrides["registration_endpoint"] = None
    shown = jackstay("ping", "--login", harbour.server.endpoint, peer=False)
    assert shown.code == 3
    assert "lets no program register by itself" in shown.err
    assert "if you have a key, send it instead: --header 'Authorization: Bearer ${KEY}'" in shown.err
    assert pages == []


def test_other_refusals_are_told_as_they_are(harbour: Harbour, jackstay: Jackstay) -> None:
    harbour.server.publish("http://elsewhere.example")
    shown = jackstay("ping", harbour.server.endpoint, peer=False)
    assert shown.code == 3
    assert "must be https" in shown.err
    assert "--login" not in shown.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ping", "--login", "--header", "Authorization: Bearer x", "https://x.example/mcp"), "two ways in"),
        (("ping", "--login", "http://x.example/mcp"), "--login needs https"),
        (("ping", "--login", "--", "true"), "--login is for a server over HTTP"),
    ],
)
def test_where_nobody_can_sign_in_the_flag_is_refused(
    words: tuple[str, ...], message: str, jackstay: Jackstay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    shown = jackstay(*words, peer=False)
    assert shown.code == 2
    assert message in shown.err


def test_a_command_of_a_file_cannot_be_signed_in_to(jackstay: Jackstay, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"local": {"command": "true"}}}))
    shown = jackstay("ping", "--login", "--config", str(path), "local", peer=False)
    assert shown.code == 2
    assert "this one is a command" in shown.err


def test_a_server_without_tls_or_with_credentials_of_its_own_is_left_as_it_is() -> None:
    for target in (http("http://x.example/mcp"), http("https://x.example/mcp", auth="token")):
        assert _login.with_login(target, is_wanted=False) == (target, None)
