"""What a recording does not keep: the values of members with certain names, wherever they stand in a message.

The same names are applied twice: to what is written, and, when it is replayed, to what was asked and is asked, so that both are
the same text and meet. What is written keeps its shape, a list or an object an empty one: the protocol has names of its own,
`content` for instance, and a client must be able to read what is replayed. JSON inside a string is looked into, because servers
repeat structured content as text. Members that hold a schema are not: there a name stands for what it describes.

Must never know a file or a connection. Above: `_recording`, `_repertoire`. Below: msgspec.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from jackstay.errors import Json, UsageError

# What stands where a value was.
REDACTED: Final = "[redacted]"

# The parts of a message that hold what people say; the rest is the protocol's own.
_BODIES: Final = ("params", "result", "error")

# What the protocol needs of a message: never replaced.
_ENVELOPE: Final = frozenset({"jsonrpc", "id", "method"})

_SCHEMAS: Final = frozenset({"inputSchema", "outputSchema", "requestedSchema"})

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Redaction:
    """The names whose values are replaced. None of them: everything is kept as it is."""

    __slots__ = ("_may_match", "_quoted", "names")

    def __init__(self, names: Iterable[str] = ()) -> None:
        wanted: list[object] = [] if isinstance(names, str) else list(names)
        if isinstance(names, str) or not all(isinstance(name, str) and name for name in wanted):
            raise UsageError("redact takes a list of names, none of them empty", path="redact")
        self.names = frozenset(str(name) for name in wanted)
        self._quoted = tuple(f'"{name}"' for name in sorted(self.names))
        self._may_match = _pattern(self.names).search if self.names else None

    def of(self, value: Json) -> Json:
        """The same value with what has one of the names replaced, at any depth; for comparing."""
        return self._replace(value, keeps_shape=False)

    def of_frame(self, frame: bytes) -> bytes | None:
        """A message with the values replaced; the very same bytes where no member has the name. None: it cannot be looked into.

        A message with such a member is always encoded anew: of members with the same name only the last is decoded, and
        the others must not be written.
        """
        if self._may_match is None or self._may_match(frame) is None:
            return frame
        try:
            message = _decode(frame)
            redacted = (
                [self._message(one) for one in message]
                if isinstance(message, list)
                else self._message(message)
            )
        except (
            msgspec.DecodeError,
            RecursionError,
        ):  # a number that is JSON by grammar and too large for anybody
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
        """JSON in a string is redacted as what it is; what looks like JSON with the name and cannot be read is not kept."""
        if text.lstrip()[:1] not in ("{", "[") or not self._is_suspect(text):
            return text
        try:
            return _encode(self._replace(_decode(text), keeps_shape=keeps_shape)).decode()
        except (msgspec.DecodeError, RecursionError):
            return REDACTED

    def _is_suspect(self, text: str) -> bool:
        return "\\u" in text or '\\"' in text or any(name in text for name in self._quoted)

    def _beside(self, content: Json) -> Json:
        """The content of a tool's result beside structured content with the name: servers repeat that as text.

        JSON was redacted already; any other text may repeat the value in its own words.
        """
        if not isinstance(content, list):
            return content
        return [
            {**block, "text": REDACTED}
            if isinstance(block, dict) and not _is_json(block.get("text"))
            else block
            for block in content
        ]

    def _has_name(self, value: Json) -> bool:
        if isinstance(value, dict):
            return any(key in self.names or self._has_name(item) for key, item in value.items())
        return isinstance(value, list) and any(map(self._has_name, value))


def _pattern(names: Iterable[str]) -> re.Pattern[bytes]:
    """Finds every frame that may have a member with one of the names: also in JSON inside a string, or spelled with escapes."""
    quoted = [_encode(name)[1:-1] for name in names]
    if any(b"\\" in name for name in quoted):
        return re.compile(b"")  # each level of nesting spells it otherwise: every frame is looked into
    members = b"|".join(re.escape(name) for name in quoted)
    return re.compile(rb'"(?:%b)\\*"(?:\s|\\+[nrt])*:|\\u' % members)


def _is_json(text: Json) -> bool:
    """True for JSON in a string, and for what is no string at all."""
    if not isinstance(text, str):
        return True
    try:
        return isinstance(_decode(text), (dict, list))
    except (msgspec.DecodeError, RecursionError):
        return False
