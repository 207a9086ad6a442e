"""A recording as scripts: for everything that the client said, what the server said because of it, in order.

A script begins with a request or a notification of the client's. Its steps are the answer, and what else the server said
meanwhile: progress belongs to the request whose token it has, and everything else, also what a subscription hears, to the
request that was sent last and is still open; where none is open, to what the client said last. A question of the server's is a
step, and so is the client's answer to it, which the steps behind it wait for.

A request that was never answered ends as it did: in silence, where the client gave it up or left; with the end of the
connection, where it was the last before the server died; with an error that says so, where the recording stops before the
answer.

Must never know a connection that is open. Above: `_repertoire`, `_replayer`. Below: `_recording`.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from jackstay.errors import Json, RequestId
from jackstay.protocol.wire import (
    ABSENT,
    Absent,
    Batch,
    Error,
    ErrorCode,
    Malformed,
    Message,
    Notification,
    Request,
    Result,
    encode_error,
    encode_notification,
)
from jackstay.testing._recording import Entry, Line
from jackstay.types import META_PROGRESS_TOKEN, META_SUBSCRIPTION_ID, encode_json

# What stays open is not what a notification beside it belongs to: these are asked at any time, about nothing.
UNRELATED: Final = frozenset({"ping", "subscriptions/listen"})

# What tells of a change. It happened once: when an answer is given again, it is not told again, since a client asks anew because
# of it, and would be told for ever.
_CHANGES: Final = ("/list_changed", "notifications/resources/updated")

_decode = msgspec.json.Decoder().decode


class Say(msgspec.Struct, frozen=True):
    """Say this, as it was said. `is_once`: not when the script is played again."""

    at: float
    frame: bytes
    is_once: bool = False


class Report(msgspec.Struct, frozen=True):
    """Tell of the request's progress, with the token that it has now."""

    at: float
    method: str
    params: dict[str, Json]


class Tell(msgspec.Struct, frozen=True):
    """Tell a subscription something, by the id that it has now; `about` is the script of the request that opened it."""

    at: float
    method: str
    params: dict[str, Json]
    about: "Script"
    is_once: bool = False


class Ask(msgspec.Struct, frozen=True):
    """Ask the client something; `id` is what the recording calls the question."""

    at: float
    id: RequestId
    method: str
    params: bytes | None


class TakeBack(msgspec.Struct, frozen=True):
    """Cancel a question."""

    at: float
    id: RequestId
    params: dict[str, Json]


class Hear(msgspec.Struct, frozen=True):
    """Wait until the client has answered that question: with what, is not compared."""

    at: float
    id: RequestId


class Answer(msgspec.Struct, frozen=True):
    """Answer the request."""

    at: float
    result: bytes | None
    code: int = 0
    message: str = ""
    data: "Json | Absent" = ABSENT


class End(msgspec.Struct, frozen=True):
    """The server ends the connection."""

    at: float
    why: str
    exit_code: int | None = None


Step: TypeAlias = Say | Report | Tell | Ask | TakeBack | Hear | Answer | End


class Script(msgspec.Struct, eq=False):
    """What the client said at `line`, at the time `at`, and the steps it leads to. `id` is None for a notification.

    `answered` is the place of the answer among the steps: what comes behind it was said when nobody had asked.
    """

    line: int
    at: float
    method: str
    params: Json = None
    id: RequestId | None = None
    token: Json = None
    is_given_up: bool = False
    answered: int | None = None
    steps: list[Step] = []


def read_scripts(entries: Iterable[Entry]) -> list[Script]:
    """Every script of a recording, in the order in which the client began them; one without a method is played at the start."""
    readers: dict[int, _Reader] = {}
    scripts: list[Script] = []
    for entry in entries:
        reader = readers.get(entry.said.connection)
        if reader is None:
            reader = readers[entry.said.connection] = _Reader(scripts)
        reader.read(entry)
    for reader in readers.values():
        reader.stop()
    return scripts


def meta_of(params: Json) -> dict[str, Json]:
    """The `_meta` of params; empty where there is none."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def read_params(raw: msgspec.Raw | None) -> Json:
    """Params as plain JSON; None where there are none, or no peer could read them."""
    try:
        params: Json = None if raw is None else _decode(raw)
    except (
        msgspec.DecodeError,
        RecursionError,
    ):  # a number that is JSON by grammar and too large for anybody
        return None
    return params


class _Reader:
    """One connection of the recording."""

    def __init__(self, scripts: list[Script]) -> None:
        self._scripts = scripts
        self._open: dict[RequestId, Script] = {}
        self._asked: dict[RequestId, Script] = {}
        self._by_token: dict[str, Script] = {}
        self._last: Script | None = None
        self._newest: Script | None = None  # as the last, also where it is about nothing

    def read(self, entry: Entry) -> None:
        said, at = entry.said, entry.said.at
        if entry.rubbish is not None and said.sender == "server":
            self._cause(entry).steps.append(Say(at, entry.rubbish))
        elif entry.message is not None:
            for message in _each(entry.message):
                if said.sender == "client":
                    self._hear(entry, message)
                else:
                    self._say(entry, message)
        elif said.lost is not msgspec.UNSET:
            why = f"the recording has no answer, but this: {said.why}"
            self._answer(said.lost, Answer(at, None, ErrorCode.INTERNAL_ERROR, why))
        elif said.hung_up is not msgspec.UNSET:
            self._give_up(said.hung_up)
        elif said.ended is not msgspec.UNSET:
            self._end(entry, said)

    def stop(self) -> None:
        """The recording ends here, and the connection had not."""
        for script in self._waiting():
            if script.method not in UNRELATED:
                said = f"{script.method} was recorded (line {script.line}), but the recording ends before its answer"
                script.steps.append(Answer(script.at, None, ErrorCode.INTERNAL_ERROR, said))

    # --- the client ---------------------------------------------------------------------------------------------------

    def _hear(self, entry: Entry, message: Message) -> None:
        if isinstance(message, Request):
            params = read_params(message.params)
            script = self._begin(entry, message.method, params, message.id)
            self._open[message.id] = script
            script.token = meta_of(params).get(META_PROGRESS_TOKEN)
            if script.token is not None:
                self._by_token[_text(script.token)] = script
        elif isinstance(message, Notification):
            params = read_params(message.params)
            if message.method == "notifications/cancelled":
                self._give_up(params.get("requestId") if isinstance(params, dict) else None)
            else:
                self._begin(entry, message.method, params, None)
        elif isinstance(message, Result | Error) and message.id in self._asked:
            self._last = self._asked.pop(message.id)
            self._last.steps.append(Hear(entry.said.at, message.id))

    def _begin(self, entry: Entry, method: str, params: Json, id: RequestId | None) -> Script:
        script = Script(entry.number, entry.said.at, method, params, id)
        self._scripts.append(script)
        self._newest = script
        if method not in UNRELATED:
            self._last = script
        return script

    def _give_up(self, id: Json) -> None:
        if isinstance(id, int | str) and id in self._open:
            self._open[id].is_given_up = True

    # --- the server ---------------------------------------------------------------------------------------------------

    def _say(self, entry: Entry, message: Message) -> None:
        at = entry.said.at
        if isinstance(message, Result):
            self._answer(message.id, Answer(at, bytes(message.result)))
        elif isinstance(message, Error) and message.id is not None:
            self._answer(message.id, Answer(at, None, message.code, message.message, message.data))
        elif isinstance(message, Error):
            self._cause(entry).steps.append(
                Say(at, encode_error(None, message.code, message.message, message.data))
            )
        elif isinstance(message, Request):
            script = self._asked[message.id] = self._cause(entry)
            params = None if message.params is None else bytes(message.params)
            script.steps.append(Ask(at, message.id, message.method, params))
        elif isinstance(message, Notification):
            self._notify(entry, message)

    def _notify(self, entry: Entry, message: Notification) -> None:
        at, method, params = entry.said.at, message.method, read_params(message.params)
        if isinstance(params, dict):
            token, about = params.get("progressToken"), meta_of(params).get(META_SUBSCRIPTION_ID)
            if method == "notifications/progress" and _text(token) in self._by_token:
                self._by_token[_text(token)].steps.append(Report(at, method, params))
                return
            if isinstance(about, int | str) and about in self._open:
                self._tell(entry, method, params, self._open[about])
                return
            taken_back = params.get("requestId")
            if (
                method == "notifications/cancelled"
                and isinstance(taken_back, int | str)
                and taken_back in self._asked
            ):
                self._asked.pop(taken_back).steps.append(TakeBack(at, taken_back, params))
                return
        frame = encode_notification(method, None if message.params is None else bytes(message.params))
        self._cause(entry).steps.append(Say(at, frame, method.endswith(_CHANGES)))

    def _tell(self, entry: Entry, method: str, params: dict[str, Json], about: Script) -> None:
        """A subscription hears of what others do: only what comes before the client said anything else is its own."""
        is_own = self._newest is about or method == "notifications/subscriptions/acknowledged"
        script = about if is_own else self._cause(entry)
        script.steps.append(Tell(entry.said.at, method, params, about, method.endswith(_CHANGES)))

    def _answer(self, id: RequestId, answer: Answer) -> None:
        """One that nobody waits for is dropped: there will be nobody to give it to."""
        script = self._open.pop(id, None)
        if script is not None:
            script.answered = len(script.steps)
            script.steps.append(answer)

    def _end(self, entry: Entry, said: Line) -> None:
        if said.sender == "server":
            self._cause(entry).steps.append(End(said.at, str(said.ended), said.exit))
        self._open.clear()

    def _waiting(self) -> list[Script]:
        return [script for script in self._open.values() if not script.is_given_up]

    def _cause(self, entry: Entry) -> Script:
        """The script that something of the server's belongs to which names no request. Its end is such a thing: what was
        asked before the last request had no answer either, but its silence killed nobody.
        """
        for script in reversed(self._waiting()):
            if script.method not in UNRELATED:
                return script
        if self._last is None:  # it spoke first
            self._last = Script(entry.number, 0.0, "")
            self._scripts.append(self._last)
        return self._last


def _each(message: Message) -> Iterable[Message]:
    """The members of a batch, or the one message; what is none is left out."""
    members = message.members if isinstance(message, Batch) else (message,)
    return [member for member in members if not isinstance(member, Malformed)]


def _text(token: Json) -> str:
    """1 and "1" are two tokens."""
    return encode_json(token).decode()
