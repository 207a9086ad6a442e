"""Results as text, and as JSON."""

import json
from collections.abc import Callable

import pytest

from jackstay.cli._output import print_json, print_text, size_of, text_of, text_of_contents
from jackstay.shell import Screen
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
    (TextContent(text="message"), "message"),
    (ImageContent(data="AAAA", mime_type="image/png"), "[image image/png, 3 bytes]"),
    (AudioContent(data="AA==", mime_type="audio/wav"), "[audio audio/wav, 1 bytes]"),
    (ResourceLink(uri="a://b", name="n"), "[link to a://b: n]"),
    (ResourceLink(uri="a://b", name="n", title="T"), "[link to a://b: T]"),
    (EmbeddedResource(resource=TextResourceContents(uri="a://b", text="inside")), "inside"),
    (Body(), "[content without a type: unknown content type, see --json]"),
]


def test_content_blocks_as_text() -> None:
    for block, text in BLOCKS:
        assert text_of(block) == text


CONTENTS: list[tuple[ResourceContents, str]] = [
    (TextResourceContents(uri="a://b", text="inside"), "inside"),
    (BlobResourceContents(uri="a://b", blob="AAAAAA=="), "[bytes of a://b, 4 bytes]"),
    (BlobResourceContents(uri="a://b", blob="", mime_type="x/y"), "[x/y of a://b, 0 bytes]"),
    (ResourceContents(uri="a://b"), "[a://b: neither text nor blob, see --json]"),
]


def test_resource_contents_as_text() -> None:
    for contents, text in CONTENTS:
        assert text_of_contents(contents) == text


def test_the_size_of_base64() -> None:
    for text, size in (("", 0), ("AA==", 1), ("AAA=", 2), ("AAAA", 3)):
        assert size_of(text) == f"{size} bytes"


def test_control_characters_are_escaped_only_on_a_terminal(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    print_text(Screen(), "\x1b[31m")
    assert capsys.readouterr().out == "\x1b[31m\n"
    terminal(80)
    print_text(Screen(), "\x1b[31m")
    assert capsys.readouterr().out == "\\x1b[31m\n"


def test_json_is_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"é": ["\x9b"]})
    done = capsys.readouterr().out
    assert done.isascii()
    assert json.loads(done) == {"é": ["\x9b"]}
