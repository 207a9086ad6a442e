"""Which script answers what a client asks: the rule by which a request meets the one that was recorded.

Two requests are the same if they have the same method and the same params. Left out of the comparison: the id, the token for
progress, what a client says of itself (`_meta` of the protocol's own, and all of `initialize` and `server/discover`), the
names of traces; absent, null and an empty object are the same; and what was redacted is redacted in both. The first of several
is answered as the first was, the second as the second, and when there are no more, as the last.

What was never recorded is refused with what comes nearest and what differs. A client of another era than the recording's is
told so in the words of the protocol, so that one which speaks both comes back with the other.

Must never know a connection. Above: `_replayer`. Below: `_scripts`.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from jackstay.errors import Json
from jackstay.protocol import Era
from jackstay.protocol.wire import ErrorCode
from jackstay.testing._recording import Recording
from jackstay.testing._scripts import Answer, Script, meta_of, read_params, read_scripts
from jackstay.types import META_PROGRESS_TOKEN, META_PROTOCOL_VERSION, encode_json

# Asked before anything is agreed on: what a client says there is about itself.
OPENINGS: Final = frozenset({"initialize", "server/discover"})

# In `_meta`: who asks, and in which trace. The first are every key of the protocol's own.
_PROTOCOL: Final = "io.modelcontextprotocol/"
_ASKERS: Final = frozenset({META_PROGRESS_TOKEN, "traceparent", "tracestate", "baggage"})

# Of what differs, so many places are named, each value so long; and so many recorded requests are compared.
MOST_DIFFERENCES: Final = 5
LONGEST_VALUE: Final = 60
MOST_COMPARED: Final = 1000

# Two values that differ in more places than this are equally far from anything.
_FAR: Final = 1000

# What a request is about: the tool, the prompt, the resource.
_SUBJECTS: Final = frozenset({"params.name", "params.uri"})

_encode = msgspec.json.Encoder(order="sorted").encode


class Found(msgspec.Struct, frozen=True):
    """The script to play. `is_again`: it was played before, and is the last for this request."""

    script: Script
    is_again: bool = False


class Refusal(msgspec.Struct, frozen=True):
    """Why there is none: the error to answer with."""

    code: int
    message: str
    data: Json = None


class Repertoire:
    """The scripts of a recording, and which are played already."""

    def __init__(self, recording: Recording) -> None:
        self.path = recording.path
        self.name = recording.header.target
        self._redaction = recording.redaction
        self._scripts: dict[tuple[str, bytes], list[Script]] = {}
        self._played: dict[tuple[str, bytes], int] = {}
        self.opening: list[Script] = []
        self._versions: dict[Era, list[str]] = {Era.HANDSHAKE: [], Era.STATELESS: []}
        for script in read_scripts(recording.entries):
            if script.method:
                self._scripts.setdefault(self._key(script.method, script.params), []).append(script)
                self._note_version(script)
            else:
                self.opening.append(script)

    def __repr__(self) -> str:
        count = sum(map(len, self._scripts.values()))
        return f"<Repertoire {self.path}: {count} scripts, {sum(self._played.values())} played>"

    def find(self, method: str, params: Json) -> Found | Refusal:
        """What to play for a request."""
        refusal = self._refuse_era(method, params)
        return refusal or self.find_notification(method, params) or self._unknown(method, params)

    def find_notification(self, method: str, params: Json) -> Found | None:
        """What to play for a notification; nothing is said against one that was never recorded."""
        key = self._key(method, params)
        scripts = self._scripts.get(key)
        if scripts is None:
            return None
        played = self._played.get(key, 0)
        self._played[key] = played + 1
        return Found(scripts[min(played, len(scripts) - 1)], played >= len(scripts))

    # --- the same request ---------------------------------------------------------------------------------------------

    def _key(self, method: str, params: Json) -> tuple[str, bytes]:
        return method, b"" if method in OPENINGS else _encode(_plain(self._asked(params)))

    def _asked(self, params: Json) -> Json:
        """What of the params is asked, without who asks it."""
        kept = self._redaction.of(params)
        if not isinstance(kept, dict):
            return kept or {}
        meta = {
            key: value
            for key, value in meta_of(kept).items()
            if key not in _ASKERS and not key.startswith(_PROTOCOL)
        }
        return {
            key: value for key, value in {**kept, "_meta": meta}.items() if value is not None and value != {}
        }

    # --- eras ---------------------------------------------------------------------------------------------------------

    def _note_version(self, script: Script) -> None:
        """Learn from what was agreed on which revisions the recording is of."""
        answer = None if script.answered is None else script.steps[script.answered]
        if not isinstance(answer, Answer) or answer.result is None:
            return
        if script.method == "initialize":
            result = read_params(msgspec.Raw(answer.result))
            version = result.get("protocolVersion") if isinstance(result, dict) else None
            versions = self._versions[Era.HANDSHAKE]
        else:
            version = meta_of(script.params).get(META_PROTOCOL_VERSION)
            versions = self._versions[Era.STATELESS]
        if isinstance(version, str) and version not in versions:
            versions.append(version)

    def _refuse_era(self, method: str, params: Json) -> Refusal | None:
        """What a request is answered with that is, by what it carries or does not, of an era that was not recorded."""
        handshake, stateless = self._versions[Era.HANDSHAKE], self._versions[Era.STATELESS]
        if method in OPENINGS and (method, b"") in self._scripts:
            return None
        is_stateless = META_PROTOCOL_VERSION in meta_of(params) or method == "server/discover"
        if is_stateless and handshake and not stateless:
            said = f"this recording is of {_and(handshake)}: open with `initialize`"
            # Any code but the stateless era's own sends a client that speaks both to `initialize`.
            code = ErrorCode.METHOD_NOT_FOUND if method in OPENINGS else ErrorCode.INVALID_REQUEST
            return Refusal(code, said, _supported(handshake))
        if is_stateless or handshake or not stateless:
            return None
        said = f"this recording is of {_and(stateless)}, which has no handshake: every request names its revision"
        requested = params.get("protocolVersion") if isinstance(params, dict) else None
        if method == "initialize":
            data: dict[str, Json] = {**_supported(stateless), "requested": requested}
            return Refusal(ErrorCode.UNSUPPORTED_PROTOCOL_VERSION, said, data)
        return Refusal(ErrorCode.INVALID_PARAMS, f"{said} in `_meta`", _supported(stateless))

    # --- the nearest --------------------------------------------------------------------------------------------------

    def _unknown(self, method: str, params: Json) -> Refusal:
        same = [scripts[0] for (name, _), scripts in self._scripts.items() if name == method]
        if not same:
            requests = {name for (name, _), scripts in self._scripts.items() if scripts[0].id is not None}
            known = ", ".join(sorted(requests)) or "no request at all"
            said = f"{method[:LONGEST_VALUE]} was never recorded; {self.path} has {known}"
            data: dict[str, Json] = {"method": method, "recorded": [*sorted(requests)]}
            return Refusal(ErrorCode.METHOD_NOT_FOUND, said, data)
        asked = self._asked(params)
        compared = [(list(_differences(self._asked(one.params), asked)), one) for one in same[:MOST_COMPARED]]
        # A call of another tool is farther away than one of the same with other arguments.
        differs, nearest = min(compared, key=lambda row: (_has_other_subject(row[0]), len(row[0])))
        places = "; ".join(f"{path} was {was} and is {now}" for path, was, now in differs[:MOST_DIFFERENCES])
        more = f"; and {len(differs) - MOST_DIFFERENCES} more" if len(differs) > MOST_DIFFERENCES else ""
        said = f"{method} was not recorded with these params; the nearest is in line {nearest.line}: {places}{more}"
        rows: list[Json] = [
            {"path": path, "recorded": was, "asked": now} for path, was, now in differs[:MOST_DIFFERENCES]
        ]
        return Refusal(
            ErrorCode.INVALID_PARAMS, said, {"method": method, "line": nearest.line, "differences": rows}
        )


def _supported(versions: list[str]) -> dict[str, Json]:
    return {"supported": [*versions]}


def _and(versions: list[str]) -> str:
    return " and ".join(versions)


def _plain(value: Json) -> Json:
    """1.0 is 1: clients in other languages cannot tell the two apart."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class _Absent:
    """Where one of two has no such member."""


_ABSENT = _Absent()


def _differences(recorded: Json, asked: Json) -> Iterator[tuple[str, str, str]]:
    """Each place at which the two differ, and what is there; at most `_FAR` of them."""
    places: list[tuple[str, Json | _Absent, Json | _Absent]] = [("params", recorded, asked)]
    found = 0
    while places and found < _FAR:
        path, was, now = places.pop()
        if isinstance(was, dict) and isinstance(now, dict):
            keys = reversed({**was, **now})
            places += [(f"{path}.{key}", was.get(key, _ABSENT), now.get(key, _ABSENT)) for key in keys]
        elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
            places += [(f"{path}[{at}]", was[at], now[at]) for at in reversed(range(len(was)))]
        elif _text(was) != _text(now):
            found += 1
            yield path, _shown(was), _shown(now)


def _text(value: "Json | _Absent") -> bytes:
    return b"" if isinstance(value, _Absent) else _encode(_plain(value))


def _shown(value: "Json | _Absent") -> str:
    if isinstance(value, _Absent):
        return "absent"
    text = encode_json(value).decode()
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "..."


def _has_other_subject(differences: list[tuple[str, str, str]]) -> bool:
    return any(path in _SUBJECTS for path, _, _ in differences)
