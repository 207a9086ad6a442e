"""The inspector page: a document and its files, with a strict content security policy."""

import re
from importlib.resources import files

import pytest

from jackstay.inspector._page import PAGE_HEADERS, read_asset, read_document, respond_page

ASSETS = files("jackstay.inspector") / "assets"
SCRIPTS = {path.name: path.read_text("utf-8") for path in ASSETS.iterdir() if path.name.endswith(".js")}
STYLE = (ASSETS / "page.css").read_text("utf-8")


def policy() -> dict[str, list[str]]:
    directives = dict(PAGE_HEADERS)["content-security-policy"]
    return {name: values for name, *values in (row.split() for row in directives.split("; "))}


def document() -> str:
    return read_document("assets/").decode()


def test_nothing_is_loaded_from_elsewhere() -> None:
    loaded = re.findall(r"<(?:link|script|img|iframe|object|embed)[^>]*(?:src|href)=\"([^\"]*)\"", document())
    assert loaded == ["data:,", "assets/page.css", "assets/page.js"]
    for text in (document(), STYLE, *SCRIPTS.values()):
        assert set(re.findall(r"https?://[a-z0-9.-]+\.[a-z]{2,}", text)) <= {"http://www.w3.org"}
    assert "@import" not in STYLE
    assert "url(" not in STYLE


def test_scripts_import_only_files_of_the_page() -> None:
    imported = {name for text in SCRIPTS.values() for name in re.findall(r'from "\./([a-z]+\.js)"', text)}
    assert imported | {"page.js"} == set(SCRIPTS)
    for text in SCRIPTS.values():
        assert len(re.findall(r"^import ", text, re.MULTILINE)) == len(re.findall(r'from "\./', text))


def test_no_script_or_style_is_inline() -> None:
    assert re.findall(r"<script(?![^>]*src=)", document()) == []
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=", document()) == []


def test_policy_allows_only_this_server() -> None:
    rules = policy()
    assert rules["default-src"] == ["'none'"]
    for rule in ("script-src", "style-src", "connect-src"):
        assert rules[rule] == ["'self'"]
    for rule in ("base-uri", "form-action", "frame-ancestors", "trusted-types"):
        assert rules[rule] == ["'none'"]
    assert rules["require-trusted-types-for"] == ["'script'"]
    assert not any("unsafe" in value for values in rules.values() for value in values)


def test_page_cannot_be_framed() -> None:
    headers = dict(PAGE_HEADERS)
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-opener-policy"] == "same-origin"


def test_scripts_do_not_create_markup_from_strings() -> None:
    sinks = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc")
    for name, text in SCRIPTS.items():
        assert not [sink for sink in sinks if sink in text], name


def test_drawing_of_the_state_machine_is_in_the_document() -> None:
    states = re.findall(r'data-state="(\w+)"', document())
    assert sorted(states) == ["backoff", "closed", "closing", "initializing", "ready", "starting"]
    assert "<!--machine-->" not in document()
    assert "{assets}" not in document()


@pytest.mark.parametrize(
    ("path", "name", "start"),
    [
        ("", "inspector", b"inspector/assets/"),
        ("/", "inspector", b"assets/"),
        ("/", "", b"assets/"),
        ("", "", b"assets/"),
    ],
)
async def test_urls_in_the_document_are_relative_to_it(path: str, name: str, start: bytes) -> None:
    sent: list[dict[str, object]] = []

    async def send(message: object) -> None:
        assert isinstance(message, dict)
        sent.append(message)

    assert await respond_page(send, path, name)
    body = sent[1]["body"]
    assert isinstance(body, bytes)
    assert b'src="' + start + b'page.js"' in body


@pytest.mark.parametrize(
    "path", ["/assets/", "/assets/page.html", "/assets/../_api.py", "/assets/nothing.js", "/other"]
)
async def test_other_files_are_not_served(path: str) -> None:
    async def send(message: object) -> None:
        raise AssertionError(message)

    assert not await respond_page(send, path, "")
    assert read_asset("none.js") is None
