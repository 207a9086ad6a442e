"""Conversion of values to content blocks, and of blocks to what a revision supports."""

import dataclasses
import datetime
import math
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

from jackstay.errors import UsageError
from jackstay.server._content import (
    Audio,
    File,
    Image,
    encode_blocks,
    encode_value,
    is_block,
    to_block,
    to_blocks,
    to_text,
)
from jackstay.types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    UnknownContent,
)

LINK = ResourceLink(uri="a://b", name="b")
AUDIO = AudioContent(data="AA==", mime_type="audio/wav")


class Model(pydantic.BaseModel):
    at: datetime.date | None = None


@dataclasses.dataclass
class Leg:
    model: Model
    path: Path


VALUES: list[tuple[Any, bytes]] = [
    (1, b"1"),
    ("null", b'"null"'),
    ({"a": None}, b'{"a":null}'),
    (Model(at=datetime.date(2026, 1, 2)), b'{"at":"2026-01-02"}'),
    ([Model()], b'[{"at":null}]'),
    (Leg(Model(), Path("x")), b'{"model":{"at":null},"path":"x"}'),
]


def test_encode_value(subtests: pytest.Subtests) -> None:
    for value, expected in VALUES:
        with subtests.test(value=value, expected=expected):
            assert encode_value(value) == expected


def test_values_without_a_json_form_are_rejected_with_their_path(subtests: pytest.Subtests) -> None:
    cases: list[tuple[object, str, str]] = [
        ({"a": [math.nan]}, "$.a[0]", "cannot encode nan as JSON"),
        (math.inf, "$", "cannot encode inf as JSON"),
        ({"a": 1j}, "$.a", "cannot encode complex as JSON"),
        ({"a": "\ud800"}, "$.a", "lone surrogate"),
        ({"a": [None, 1j]}, "$.a[1]", "complex"),
    ]
    for value, path, message in cases:
        with subtests.test(value=value, path=path):
            with pytest.raises(UsageError, match=message) as caught:
                encode_value(value)
            assert caught.value.path == path


def test_an_encoding_error_without_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fickle(pydantic.BaseModel):
        def model_dump_json(self, **options: Any) -> str:
            raise ValueError("fickle")

    monkeypatch.setattr("jackstay.server._content.encode_json", lambda value: b"")
    with pytest.raises(UsageError, match="fickle"):
        encode_value(Fickle())


BLOCKS: list[tuple[Any, list[Any]]] = [
    (None, []),
    ("hi", [TextContent(text="hi")]),
    ("", [TextContent(text="")]),
    (7, [TextContent(text="7")]),
    ({"a": 1}, [TextContent(text='{"a":1}')]),
    ([1, "a"], [TextContent(text='[1,"a"]')]),
    ([], [TextContent(text="[]")]),
    (b"\0\1", [TextContent(text="AAE=")]),
    (LINK, [LINK]),
    (AUDIO, [AUDIO]),
    (Image(b"\0"), [ImageContent(data="AA==", mime_type="image/png")]),
    (Audio(b"\0", "audio/ogg"), [AudioContent(data="AA==", mime_type="audio/ogg")]),
    (["hi", LINK, 3], [TextContent(text="hi"), LINK, TextContent(text="3")]),
    ((Image(b"\0", "image/gif"),), [ImageContent(data="AA==", mime_type="image/gif")]),
    (UnknownContent(type="new"), [UnknownContent(type="new")]),
]


def test_to_blocks(subtests: pytest.Subtests) -> None:
    for value, expected in BLOCKS:
        with subtests.test(value=value, expected=expected):
            assert to_blocks(value) == expected


def test_to_text() -> None:
    assert to_text("a") == "a"
    assert to_text(bytearray(b"\0")) == "AA=="


def test_only_blocks_and_media_are_blocks() -> None:
    assert is_block(EmbeddedResource(resource=BlobResourceContents(uri="a://b", blob="")))
    assert is_block(Image(b""))
    assert not is_block("text")
    assert not is_block({"type": "text", "text": "a dict is data, not a block"})


def test_media_are_read_from_a_path_or_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jpg").write_bytes(b"\0")
    assert to_block(Image(path=tmp_path / "x.jpg")) == ImageContent(data="AA==", mime_type="image/jpeg")
    assert to_block(Audio(path=str(tmp_path / "x.jpg"), mime_type="audio/x")) == AudioContent(
        data="AA==", mime_type="audio/x"
    )
    assert to_block(File(path=tmp_path / "x.jpg")) == EmbeddedResource(
        resource=BlobResourceContents(uri="file:///x.jpg", mime_type="image/jpeg", blob="AA==")
    )
    for make, message in (
        (lambda: Image("x.png"), r"Image\(\) expected bytes, got str; for a file write Image\(path=...\)"),  # type: ignore[arg-type]
        (lambda: Audio(), r"Audio\(\) expected bytes, got NoneType"),
        (lambda: File(tmp_path), r"File\(\) expected bytes, got PosixPath"),  # type: ignore[arg-type]
        (lambda: Image(b"\0", path="x.png"), "expected data or a path, got both"),
    ):
        with pytest.raises(UsageError, match=message):
            make()
    with pytest.raises(FileNotFoundError):
        Image(path=tmp_path / "missing.png")


def encoded_blocks(version: str) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = msgspec.json.decode(encode_blocks([to_block("a"), AUDIO, LINK], version))
    return blocks


def test_blocks_that_a_revision_lacks_are_sent_as_text() -> None:
    assert [block["type"] for block in encoded_blocks("2024-11-05")] == ["text", "text", "text"]
    assert [block["type"] for block in encoded_blocks("2025-03-26")] == ["text", "audio", "text"]
    assert [block["type"] for block in encoded_blocks("2025-06-18")] == ["text", "audio", "resource_link"]
    assert "audio/wav" in encoded_blocks("2024-11-05")[1]["text"]
    assert encoded_blocks("2024-11-05")[2]["text"] == "b: a://b"


def test_a_block_that_cannot_be_encoded_is_rejected() -> None:
    with pytest.raises(UsageError, match="lone surrogate"):
        encode_blocks([TextContent(text="\udfff")], "2025-11-25")
