"""What a recording does not keep: the values of members with certain names, wherever they stand in a message.

The same names are applied twice: to what is written, and, when it is replayed, to what was asked and is asked, so that both are
the same text and meet. What is written keeps its shape, a list or an object an empty one: the protocol has names of its own,
`content` for instance, and a client must be able to read what is replayed. Members that hold a schema are not looked into:
there a name stands for what it describes.

Must never know a file or a connection. Above: `_recording`, `_repertoire`. Below: msgspec.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from mooring.errors import Json, UsageError

# What stands where a value was.
REDACTED: Final = "[redacted]"

# The parts of a message that hold what people say; the rest is the protocol's own.
_BODIES: Final = ("params", "result", "error")

_SCHEMAS: Final = frozenset({"inputSchema", "outputSchema", "requestedSchema"})

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Redaction:
    """The names whose values are replaced. None of them: everything is kept as it is."""

    __slots__ = ("_needles", "names")

    def __init__(self, names: Iterable[str] = ()) -> None:
        wanted: list[object] = [] if isinstance(names, str) else list(names)
        if isinstance(names, str) or not all(isinstance(name, str) and name for name in wanted):
            raise UsageError("redact takes a list of names, none of them empty", path="redact")
        self.names = frozenset(str(name) for name in wanted)
        # As they stand in JSON; a name may also be spelled with escapes.
        self._needles = (*(_encode(name) for name in sorted(self.names)), b"\\u") if self.names else ()

    def of(self, value: Json) -> Json:
        """The same value with what has one of the names replaced, at any depth; for comparing."""
        return self._replace(value, keeps_shape=False)

    def of_frame(self, frame: bytes) -> bytes | None:
        """A message with the values replaced; the very same bytes where there are none. None: it cannot be looked into."""
        if not any(needle in frame for needle in self._needles):
            return frame
        try:
            message = _decode(frame)
        except (
            msgspec.DecodeError,
            RecursionError,
        ):  # a number that is JSON by grammar and too large for anybody
            return None
        redacted = (
            [self._message(one) for one in message] if isinstance(message, list) else self._message(message)
        )
        return frame if redacted == message else _encode(redacted)

    def _message(self, message: dict[str, Json]) -> dict[str, Json]:
        return {
            key: self._replace(item, keeps_shape=True) if key in _BODIES else item
            for key, item in message.items()
        }

    def _replace(self, value: Json, *, keeps_shape: bool) -> Json:
        if isinstance(value, dict):
            return {key: self._member(key, item, keeps_shape=keeps_shape) for key, item in value.items()}
        if isinstance(value, list):
            return [self._replace(item, keeps_shape=keeps_shape) for item in value]
        return value

    def _member(self, key: str, item: Json, *, keeps_shape: bool) -> Json:
        if key in self.names:
            return type(item)() if keeps_shape and isinstance(item, (list, dict)) else REDACTED
        return item if key in _SCHEMAS else self._replace(item, keeps_shape=keeps_shape)
