"""Values as blocks, and blocks as what a revision has."""

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
SOUND = AudioContent(data="AA==", mime_type="audio/wav")


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


@pytest.mark.parametrize(("value", "expected"), VALUES)
def test_a_value_is_encoded(value: object, expected: bytes) -> None:
    assert encode_value(value) == expected


@pytest.mark.parametrize(
    ("value", "path", "said"),
    [
        ({"a": [math.nan]}, "$.a[0]", "nan is not a JSON number"),
        (math.inf, "$", "inf is not a JSON number"),
        ({"a": 1j}, "$.a", "an object of type complex has no form in JSON"),
        ({"a": "\ud800"}, "$.a", "lone surrogate"),
        ({"a": [None, 1j]}, "$.a[1]", "complex"),
    ],
)
def test_what_json_cannot_say_is_named_with_its_place(value: object, path: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        encode_value(value)
    assert caught.value.path == path


def test_a_refusal_that_nobody_can_place_is_told_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
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
    (SOUND, [SOUND]),
    (Image(b"\0"), [ImageContent(data="AA==", mime_type="image/png")]),
    (Audio(b"\0", "audio/ogg"), [AudioContent(data="AA==", mime_type="audio/ogg")]),
    (["hi", LINK, 3], [TextContent(text="hi"), LINK, TextContent(text="3")]),
    ((Image(b"\0", "image/gif"),), [ImageContent(data="AA==", mime_type="image/gif")]),
    (UnknownContent(type="new"), [UnknownContent(type="new")]),
]


@pytest.mark.parametrize(("value", "expected"), BLOCKS)
def test_a_value_becomes_blocks(value: object, expected: list[Any]) -> None:
    assert to_blocks(value) == expected


def test_a_string_in_words_is_itself() -> None:
    assert to_text("a") == "a"
    assert to_text(bytearray(b"\0")) == "AA=="


def test_only_blocks_and_media_stand_for_themselves_in_a_list() -> None:
    assert is_block(EmbeddedResource(resource=BlobResourceContents(uri="a://b", blob="")))
    assert is_block(Image(b""))
    assert not is_block("text")
    assert not is_block({"type": "text", "text": "a dict is data, whatever it looks like"})


def written(version: str) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = msgspec.json.decode(encode_blocks([to_block("a"), SOUND, LINK], version))
    return blocks


def test_a_block_that_a_revision_does_not_have_is_said_in_words() -> None:
    assert [block["type"] for block in written("2024-11-05")] == ["text", "text", "text"]
    assert [block["type"] for block in written("2025-03-26")] == ["text", "audio", "text"]
    assert [block["type"] for block in written("2025-06-18")] == ["text", "audio", "resource_link"]
    assert "audio/wav" in written("2024-11-05")[1]["text"]
    assert written("2024-11-05")[2]["text"] == "b: a://b"


def test_a_block_that_is_not_text_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="lone surrogate"):
        encode_blocks([TextContent(text="\udfff")], "2025-11-25")
