"""F-026: the page is one document without anything external, and its policy lets nothing run but itself."""

import base64
import hashlib
import re

from apcore_mcp.inspector import read_page


def text() -> str:
    return read_page().body.decode()


def policy() -> dict[str, list[str]]:
    said = dict(read_page().headers)["content-security-policy"]
    return {name: values for name, *values in (row.split() for row in said.split("; "))}


def test_nothing_is_fetched_from_elsewhere() -> None:
    assert re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", text()) == []
    assert re.findall(r"<(?:link|script|img|iframe)[^>]*(?:src|href)=[\"'](?!data:,)", text()) == []
    assert "@import" not in text()
    assert "url(" not in text()


def test_the_policy_names_the_digests_of_the_one_script_and_the_one_style() -> None:
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", text(), re.DOTALL)
        assert len(inside) == 1
        digest = base64.b64encode(hashlib.sha256(inside[0].encode()).digest()).decode()
        assert policy()[rule] == [f"'sha256-{digest}'"]


def test_the_policy_has_no_room_for_anything_else() -> None:
    rules = policy()
    assert rules["default-src"] == ["'none'"]
    assert rules["connect-src"] == ["'self'"]
    for rule in ("base-uri", "form-action", "frame-ancestors", "trusted-types"):
        assert rules[rule] == ["'none'"]
    assert rules["require-trusted-types-for"] == ["'script'"]
    assert not any("unsafe" in value for values in rules.values() for value in values)


def test_the_page_may_not_be_framed_or_opened_into() -> None:
    headers = dict(read_page().headers)
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-opener-policy"] == "same-origin"


def test_the_script_has_no_way_to_make_markup_of_text() -> None:
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


def test_style_and_script_stand_where_their_marks_were() -> None:
    assert "/*style*/" not in text()
    assert "/*script*/" not in text()
