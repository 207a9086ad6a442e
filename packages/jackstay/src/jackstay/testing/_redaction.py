"""Redaction: replaces the values of members with certain names, wherever they are in a message.

It is applied when a recording is written, and when recorded and actual requests are compared. A list or an object is
replaced by an empty one, so that a client can decode the message. JSON inside a string is redacted, too, because
servers repeat structured content as text. Schemas are not: there a name is that of a property.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.types import DECODE_ERRORS

# The replacement of a value.
REDACTED: Final = "[redacted]"

# The members of a message that contain user data.
_BODIES: Final = ("params", "result", "error")

# Members that are never replaced.
_ENVELOPE: Final = frozenset({"jsonrpc", "id", "method"})

_SCHEMAS: Final = frozenset({"inputSchema", "outputSchema", "requestedSchema"})

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Redaction:
    """The names whose values are replaced. Without names, messages are unchanged."""

    __slots__ = ("_may_match", "_quoted", "names")

    def __init__(self, names: Iterable[str] = ()) -> None:
        wanted: list[object] = [] if isinstance(names, str) else list(names)
        if isinstance(names, str) or not all(isinstance(name, str) and name for name in wanted):
            raise UsageError(f"redact must be a list[str] of non-empty names, not {names!r}", path="redact")
        self.names = frozenset(str(name) for name in wanted)
        self._quoted = tuple(f'"{name}"' for name in sorted(self.names))
        self._may_match = _pattern(self.names).search if self.names else None

    def of(self, value: Json) -> Json:
        """Return the value with redacted members at any depth, for comparison."""
        return self._replace(value, keeps_shape=False)

    def of_frame(self, frame: bytes) -> bytes | None:
        """Return the redacted message; the same bytes if no member has one of the names; None if it cannot be decoded.

        A message with such a member is always encoded again: of members with the same name only the last is decoded,
        and the others must not be written.
        """
        if self._may_match is None or self._may_match(frame) is None:
            return frame
        try:
            message = _decode(frame)
            redacted = [self._message(one) for one in message] if isinstance(message, list) else self._message(message)
        except DECODE_ERRORS:  # for example a number that is too large
            return None
        return _encode(redacted)

    def _message(self, message: dict[str, Json]) -> dict[str, Json]:
        made = {}
        for key, item in message.items():
            if key in _BODIES:
                made[key] = self._replace(item, keeps_shape=True)
            else:
                made[key] = item if key in _ENVELOPE else self._member(key, item, keeps_shape=True)
        return made

    def _replace(self, value: Json, *, keeps_shape: bool) -> Json:
        if isinstance(value, dict):
            made = {key: self._member(key, item, keeps_shape=keeps_shape) for key, item in value.items()}
            if "structuredContent" in value and self._has_name(value["structuredContent"]):
                made["content"] = self._beside(made.get("content"))
            return made
        if isinstance(value, list):
            return [self._replace(item, keeps_shape=keeps_shape) for item in value]
        return self._text(value, keeps_shape=keeps_shape) if isinstance(value, str) else value

    def _member(self, key: str, item: Json, *, keeps_shape: bool) -> Json:
        if key in self.names:
            return type(item)() if keeps_shape and isinstance(item, (list, dict)) else REDACTED
        return item if key in _SCHEMAS else self._replace(item, keeps_shape=keeps_shape)

    def _text(self, text: str, *, keeps_shape: bool) -> str:
        """Redact JSON in a string. A string that looks like JSON with one of the names but is invalid is replaced."""
        if text.lstrip()[:1] not in ("{", "[") or not self._is_suspect(text):
            return text
        try:
            return _encode(self._replace(_decode(text), keeps_shape=keeps_shape)).decode()
        except DECODE_ERRORS:
            return REDACTED

    def _is_suspect(self, text: str) -> bool:
        return "\\u" in text or '\\"' in text or any(name in text for name in self._quoted)

    def _beside(self, content: Json) -> Json:
        """Redact the content beside redacted structured content, since servers repeat that as text.

        JSON was redacted already; any other text may contain the value.
        """
        if not isinstance(content, list):
            return content
        return [
            {**block, "text": REDACTED} if isinstance(block, dict) and not _is_json(block.get("text")) else block
            for block in content
        ]

    def _has_name(self, value: Json) -> bool:
        if isinstance(value, dict):
            return any(key in self.names or self._has_name(item) for key, item in value.items())
        return isinstance(value, list) and any(map(self._has_name, value))


def _pattern(names: Iterable[str]) -> re.Pattern[bytes]:
    """Return a pattern for frames that may have one of the names, also in JSON inside a string, or with escapes."""
    quoted = [_encode(name)[1:-1] for name in names]
    if any(b"\\" in name for name in quoted):
        return re.compile(b"")  # its spelling differs at each level of nesting: check every frame
    members = b"|".join(re.escape(name) for name in quoted)
    return re.compile(rb'"(?:%b)\\*"(?:\s|\\+[nrt])*:|\\u' % members)


def _is_json(text: Json) -> bool:
    """Return True for JSON in a string, and for anything that is not a string."""
    if not isinstance(text, str):
        return True
    try:
        return isinstance(_decode(text), (dict, list))
    except DECODE_ERRORS:
        return False
