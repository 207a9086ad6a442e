"""Results as text, and as JSON."""

import json
from collections.abc import Callable

import pytest

from jackstay.cli._output import print_json, print_text, size_of, text_of, text_of_contents
from jackstay.cli._screen import Screen
from jackstay.types import (
    AudioContent,
    BlobResourceContents,
    Body,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

BLOCKS: list[tuple[Body, str]] = [
    (TextContent(text="said"), "said"),
    (ImageContent(data="AAAA", mime_type="image/png"), "[image image/png, 3 bytes]"),
    (AudioContent(data="AA==", mime_type="audio/wav"), "[audio audio/wav, 1 bytes]"),
    (ResourceLink(uri="a://b", name="n"), "[link to a://b: n]"),
    (ResourceLink(uri="a://b", name="n", title="T"), "[link to a://b: T]"),
    (EmbeddedResource(resource=TextResourceContents(uri="a://b", text="inside")), "inside"),
    (Body(), "[something without a type: not known here, see --json]"),
]


@pytest.mark.parametrize(("block", "text"), BLOCKS)
def test_a_block_as_people_see_it(block: Body, text: str) -> None:
    assert text_of(block) == text


CONTENTS = [
    (TextResourceContents(uri="a://b", text="inside"), "inside"),
    (BlobResourceContents(uri="a://b", blob="AAAAAA=="), "[bytes of a://b, 4 bytes]"),
    (BlobResourceContents(uri="a://b", blob="", mime_type="x/y"), "[x/y of a://b, 0 bytes]"),
    (ResourceContents(uri="a://b"), "[a://b: neither text nor bytes, see --json]"),
]


@pytest.mark.parametrize(("contents", "text"), CONTENTS)
def test_contents_as_people_see_them(contents: ResourceContents, text: str) -> None:
    assert text_of_contents(contents) == text


@pytest.mark.parametrize(("text", "size"), [("", 0), ("AA==", 1), ("AAA=", 2), ("AAAA", 3)])
def test_the_size_of_base64(text: str, size: int) -> None:
    assert size_of(text) == f"{size} bytes"


def test_text_is_cleaned_for_terminals_only(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    print_text(Screen(), "\x1b[31m")
    assert capsys.readouterr().out == "\x1b[31m\n"
    terminal(80)
    print_text(Screen(), "\x1b[31m")
    assert capsys.readouterr().out == "\\x1b[31m\n"


def test_json_is_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"é": ["\x9b"]})
    shown = capsys.readouterr().out
    assert shown.isascii()
    assert json.loads(shown) == {"é": ["\x9b"]}
