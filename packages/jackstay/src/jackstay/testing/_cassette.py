"""Matches a client's request with a recorded interaction.

Two requests match if they have the same method and params, apart from the id, the progress token, trace context, what
the client sends about itself, and redacted values. Repeated requests get the recorded responses in order, then the
last one again. A request that was not recorded gets an error that names the nearest one and the differences.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from jackstay.errors import Json
from jackstay.protocol.wire import ABSENT, Absent, Error, ErrorCode, Result
from jackstay.testing._interactions import Interaction, Respond, meta_of, read_interactions, read_members
from jackstay.testing._recording import Recording
from jackstay.types import META_PROGRESS_TOKEN, META_PROTOCOL_VERSION, encode_json

# Requests that start a connection. Their params describe the client and are not compared.
OPENINGS: Final = frozenset({"initialize", "server/discover"})

# Members of `_meta` that are not compared: those of the protocol and of this client, the progress token and the trace
# context.
_PROTOCOL: Final = ("io.modelcontextprotocol/", "jackstay/")
_CLIENT_META: Final = frozenset({META_PROGRESS_TOKEN, "traceparent", "tracestate", "baggage"})

# Limits of the error message, and of the number of recorded requests that are compared.
MAX_DIFFERENCES: Final = 5
MAX_VALUE_CHARS: Final = 60
MAX_COMPARED: Final = 1000

# Differences beyond this number are not counted.
_FAR: Final = 1000

# The tool, prompt or resource of a request.
_SUBJECTS: Final = frozenset({"params.name", "params.uri"})

_encode = msgspec.json.Encoder(order="sorted").encode


class Match(msgspec.Struct, frozen=True):
    """The interaction to play. `is_again`: it was played before, and is the last for this request."""

    interaction: Interaction
    is_again: bool = False


class Cassette:
    """The interactions of a recording, and how often each request was played."""

    def __init__(self, recording: Recording) -> None:
        self.path = recording.path
        self.name = recording.header.target
        self._redaction = recording.redaction
        self._interactions: dict[tuple[str, bytes], list[Interaction]] = {}
        self._played: dict[tuple[str, bytes], int] = {}
        self.opening: list[Interaction] = []
        # The revisions that were negotiated in the recording.
        self._handshake: list[str] = []
        self._stateless: list[str] = []
        for interaction in read_interactions(recording.entries):
            if interaction.method:
                self._interactions.setdefault(self._key(interaction.method, interaction.params), []).append(interaction)
                self._note_version(interaction)
            else:
                self.opening.append(interaction)

    def __repr__(self) -> str:
        count = sum(map(len, self._interactions.values()))
        return f"<Cassette {self.path}: {count} interactions, {sum(self._played.values())} played>"

    def find(self, method: str, params: Json) -> Match | Error:
        """Return the interaction to play for a request, or the error."""
        no_match = self._check_era(method, params)
        return no_match or self.find_notification(method, params) or self._unknown(method, params)

    def find_notification(self, method: str, params: Json) -> Match | None:
        """Return the interaction to play for a notification; None if it was not recorded."""
        key = self._key(method, params)
        interactions = self._interactions.get(key)
        if interactions is None:
            return None
        played = self._played.get(key, 0)
        self._played[key] = played + 1
        return Match(interactions[min(played, len(interactions) - 1)], played >= len(interactions))

    # --- the same request ---------------------------------------------------------------------------------------------

    def _key(self, method: str, params: Json) -> tuple[str, bytes]:
        return method, b"" if method in OPENINGS else _encode(_plain(self._compared(params)))

    def _compared(self, params: Json) -> Json:
        """Return the part of the params that is compared."""
        redacted = self._redaction.of(params)
        if not isinstance(redacted, dict):
            return redacted or {}
        meta = {
            key: value
            for key, value in meta_of(redacted).items()
            if key not in _CLIENT_META and not key.startswith(_PROTOCOL)
        }
        return {key: value for key, value in {**redacted, "_meta": meta}.items() if value is not None and value != {}}

    # --- eras ---------------------------------------------------------------------------------------------------------

    def _note_version(self, interaction: Interaction) -> None:
        response = next((step.response for step in interaction.steps if isinstance(step, Respond)), None)
        if not isinstance(response, Result):
            return
        if interaction.method == "initialize":
            version, versions = read_members(response.result).get("protocolVersion"), self._handshake
        else:
            version, versions = meta_of(interaction.params).get(META_PROTOCOL_VERSION), self._stateless
        if isinstance(version, str) and version not in versions:
            versions.append(version)

    def _check_era(self, method: str, params: Json) -> Error | None:
        """Return the error for a request of an era that was not recorded."""
        handshake, stateless = self._handshake, self._stateless
        if method in OPENINGS and (method, b"") in self._interactions:
            return None
        is_stateless = META_PROTOCOL_VERSION in meta_of(params) or method == "server/discover"
        if is_stateless and handshake and not stateless:
            message = f"this recording is of {' and '.join(handshake)}; start with initialize"
            # With any code but the stateless era's own, a client of both eras falls back to `initialize`.
            code = ErrorCode.METHOD_NOT_FOUND if method in OPENINGS else ErrorCode.INVALID_REQUEST
            return Error(None, code, message, {"supported": [*handshake]})
        if is_stateless or handshake or not stateless:
            return None
        versions = " and ".join(stateless)
        message = f"this recording is of {versions}, without a handshake; send the revision with every request"
        data: dict[str, Json] = {"supported": [*stateless]}
        if method != "initialize":
            return Error(None, ErrorCode.INVALID_PARAMS, f"{message} in _meta", data)
        data["requested"] = params.get("protocolVersion") if isinstance(params, dict) else None
        return Error(None, ErrorCode.UNSUPPORTED_PROTOCOL_VERSION, message, data)

    # --- the nearest --------------------------------------------------------------------------------------------------

    def _unknown(self, method: str, params: Json) -> Error:
        same = [interactions[0] for (name, _), interactions in self._interactions.items() if name == method]
        if not same:
            requests = {
                name for (name, _), interactions in self._interactions.items() if interactions[0].id is not None
            }
            known = ", ".join(sorted(requests)) or "no requests"
            message = f"{method[:MAX_VALUE_CHARS]!r} was not recorded; {self.path} has {known}"
            data: dict[str, Json] = {"method": method, "recorded": [*sorted(requests)]}
            return Error(None, ErrorCode.METHOD_NOT_FOUND, message, data)
        actual = self._compared(params)
        compared = [
            (list(islice(_differences(self._compared(interaction.params), actual), _FAR)), interaction)
            for interaction in same[:MAX_COMPARED]
        ]
        # A call of another tool is farther away than a call of the same tool with other arguments.
        differs, nearest = min(compared, key=lambda row: (any(path in _SUBJECTS for path, _, _ in row[0]), len(row[0])))
        first = differs[:MAX_DIFFERENCES]
        places = "; ".join(f"{path} was {was}, got {now}" for path, was, now in first)
        more = f"; and {len(differs) - MAX_DIFFERENCES} more" if len(differs) > MAX_DIFFERENCES else ""
        message = f"{method} was not recorded with these params; the nearest is in line {nearest.line}: {places}{more}"
        rows: list[Json] = [{"path": path, "recorded": was, "actual": now} for path, was, now in first]
        data = {"method": method, "line": nearest.line, "differences": rows}
        return Error(None, ErrorCode.INVALID_PARAMS, message, data)


def _plain(value: Json) -> Json:
    """Convert 1.0 to 1: clients in other languages do not distinguish them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _differences(recorded: Json, actual: Json) -> Iterator[tuple[str, str, str]]:
    """Yield the path and both values of each difference."""
    places: list[tuple[str, Json | Absent, Json | Absent]] = [("params", recorded, actual)]
    while places:
        path, was, now = places.pop()
        if isinstance(was, dict) and isinstance(now, dict):
            keys = reversed({**was, **now})
            places += [(f"{path}.{key}", was.get(key, ABSENT), now.get(key, ABSENT)) for key in keys]
        elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
            places += [(f"{path}[{at}]", was[at], now[at]) for at in reversed(range(len(was)))]
        elif _text(was) != _text(now):
            yield path, _format(was), _format(now)


def _text(value: "Json | Absent") -> bytes:
    return b"" if isinstance(value, Absent) else _encode(_plain(value))


def _format(value: "Json | Absent") -> str:
    if isinstance(value, Absent):
        return "absent"
    text = encode_json(value).decode()
    return text if len(text) <= MAX_VALUE_CHARS else text[:MAX_VALUE_CHARS] + "..."
