"""The inspector page: one document with a strict content security policy."""

import base64
import hashlib
import re

from apcore_mcp.inspector import read_page


def text() -> str:
    return read_page().body.decode()


def policy() -> dict[str, list[str]]:
    directives = dict(read_page().headers)["content-security-policy"]
    return {name: values for name, *values in (row.split() for row in directives.split("; "))}


def test_no_external_resources() -> None:
    assert re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", text()) == []
    assert re.findall(r"<(?:link|script|img|iframe)[^>]*(?:src|href)=[\"'](?!data:,)", text()) == []
    assert "@import" not in text()
    assert "url(" not in text()


def test_policy_has_the_digests_of_script_and_style() -> None:
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", text(), re.DOTALL)
        assert len(inside) == 1
        digest = base64.b64encode(hashlib.sha256(inside[0].encode()).digest()).decode()
        assert policy()[rule] == [f"'sha256-{digest}'"]


def test_policy_forbids_everything_else() -> None:
    rules = policy()
    assert rules["default-src"] == ["'none'"]
    assert rules["connect-src"] == ["'self'"]
    for rule in ("base-uri", "form-action", "frame-ancestors", "trusted-types"):
        assert rules[rule] == ["'none'"]
    assert rules["require-trusted-types-for"] == ["'script'"]
    assert not any("unsafe" in value for values in rules.values() for value in values)


def test_page_cannot_be_framed() -> None:
    headers = dict(read_page().headers)
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-opener-policy"] == "same-origin"


def test_script_does_not_create_markup_from_strings() -> None:
    script = re.findall(r"<script>(.*?)</script>", text(), re.DOTALL)[0]
    for sink in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "srcdoc",
    ):
        assert sink not in script
    assert re.search(r"<[a-z][^>]*\son[a-z]+=", text()) is None


def test_placeholders_are_replaced() -> None:
    assert "/*style*/" not in text()
    assert "/*script*/" not in text()
