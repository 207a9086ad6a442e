"""What belongs to what: the rule by which everything that a server said is put behind something that its client said."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from jackstay.testing._scripts import (
    Answer,
    Ask,
    End,
    Hear,
    Report,
    Say,
    Script,
    Step,
    TakeBack,
    Tell,
    read_params,
)
from scripted.tapes import client, error, event, notification, request, result, scripts, server

PROGRESS = "notifications/progress"
LOG = notification("notifications/message", level="info", data="x")
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def shown(step: Step) -> Any:
    """A step in a word or two."""
    match step:
        case Say(frame=frame):
            try:
                return json.loads(frame).get("method", "error")
            except ValueError:
                return frame
        case Report():
            return "progress"
        case Tell(about=about, is_once=is_once):
            return f"tell {about.line}{' once' if is_once else ''}"
        case Ask(id=id, method=method):
            return f"{method} {id}"
        case TakeBack(id=id):
            return f"take back {id}"
        case Hear(id=id):
            return f"hear {id}"
        case Answer(result=None, code=code):
            return code
        case Answer():
            return "answer"
        case End(exit_code=code):
            return f"end {code}"


def outline(found: list[Script]) -> dict[str, list[Any]]:
    return {f"{script.method}@{script.line}": [shown(step) for step in script.steps] for script in found}


def progress(token: Any) -> dict[str, Any]:
    return server(notification(PROGRESS, progressToken=token, progress=1))


def call(id: Any, token: Any = None, name: str = "a") -> dict[str, Any]:
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    return client(request(id, "tools/call", {"name": name, **meta}))


# what happened -> the scripts
ROWS: dict[str, tuple[list[dict[str, Any]], dict[str, list[Any]]]] = {
    "an answer belongs to its request, whatever the order": (
        [call(1), call("1"), server(result("1", {})), server(error(1, -32000))],
        {"tools/call@2": [-32000], "tools/call@3": ["answer"]},
    ),
    "progress belongs to the request with its token, and 1 is not '1'": (
        [
            call(1, 1),
            call(2, "1"),
            progress(1),
            progress("1"),
            progress(1),
            server(result(1, {})),
            progress(1),
        ],
        {
            "tools/call@2": ["progress", "progress", "answer", "progress"],
            "tools/call@3": ["progress", -32603],
        },
    ),
    "progress with a token of nobody's belongs where everything else does": (
        [call(1, 1), progress(7)],
        {"tools/call@2": [PROGRESS, -32603]},
    ),
    "what names no request belongs to the one that was sent last and is open": (
        [call(1), call(2), server(LOG), server(result(2, {})), server(LOG), server(result(1, {}))],
        {
            "tools/call@2": ["notifications/message", "answer"],
            "tools/call@3": ["notifications/message", "answer"],
        },
    ),
    "where none is open, to what the client said last": (
        [call(1), server(result(1, {})), server(LOG), client(notification("notifications/x")), server(LOG)],
        {"tools/call@2": ["answer", "notifications/message"], "notifications/x@5": ["notifications/message"]},
    ),
    "a ping and a subscription are about nothing": (
        [
            call(1),
            client(request(2, "ping")),
            client(request(3, "subscriptions/listen")),
            server(LOG),
            server(result(1, {})),
            server(LOG),
            server(result(2, {})),
        ],
        {
            "tools/call@2": ["notifications/message", "answer", "notifications/message"],
            "ping@3": ["answer"],
            "subscriptions/listen@4": [],
        },
    ),
    "what a subscription hears belongs to who caused it": (
        [
            client(request(3, "subscriptions/listen")),
            server(notification("notifications/x", _meta={SUBSCRIPTION: 3})),
            call(4),
            server(notification("notifications/subscriptions/acknowledged", _meta={SUBSCRIPTION: 3})),
            server(notification("notifications/tools/list_changed", _meta={SUBSCRIPTION: 3})),
            server(notification("notifications/tools/list_changed", _meta={SUBSCRIPTION: 99})),
            server(result(4, {})),
            server(notification("notifications/x", _meta={SUBSCRIPTION: 3})),
        ],
        {
            "subscriptions/listen@2": ["tell 2", "tell 2"],
            "tools/call@4": ["tell 2 once", "notifications/tools/list_changed", "answer", "tell 2"],
        },
    ),
    "what follows the client's answer waits for it": (
        [
            call(1),
            server(request(9, "roots/list")),
            server(request("s", "sampling/createMessage")),
            client(error("s", -1)),
            server(LOG),
            client(result(9, {})),
            server(result(1, {})),
        ],
        {
            "tools/call@2": [
                "roots/list 9",
                "sampling/createMessage s",
                "hear s",
                "notifications/message",
                "hear 9",
                "answer",
            ]
        },
    ),
    "a question that is taken back": (
        [
            call(1),
            server(request(9, "roots/list")),
            server(notification("notifications/cancelled", requestId=9)),
            client(result(9, {})),
            server(notification("notifications/cancelled", requestId=9)),
            server(notification("notifications/cancelled", requestId=None)),
            server(result(1, {})),
        ],
        {
            "tools/call@2": [
                "roots/list 9",
                "take back 9",
                "notifications/cancelled",
                "notifications/cancelled",
                "answer",
            ]
        },
    ),
    "what a server says first is played first": (
        [server(LOG), event("server", text="hello"), call(1), server(result(1, {}))],
        {"@2": ["notifications/message", b"hello"], "tools/call@4": ["answer"]},
    ),
    "what is no message is said as it was, and a client's is let be": (
        [call(1), event("client", text="rubbish"), event("server", base64="/w=="), server(result(1, {}))],
        {"tools/call@2": [b"\xff", "answer"]},
    ),
    "a batch is its members": (
        [
            client([request(1, "a"), request(2, "b"), "nonsense"]),
            server([result(2, {}), LOG, result(1, {})]),
        ],
        {"a@2": ["notifications/message", "answer"], "b@2": ["answer"]},
    ),
    "an error that answers nobody is said all the same": (
        [call(1), server(error(None, -32700)), server(result(1, {}))],
        {"tools/call@2": ["error", "answer"]},
    ),
    "an answer that nobody waits for is dropped": (
        [call(1), server(result(1, {})), server(result(1, {})), client(result(5, {})), server(error(6, 1))],
        {"tools/call@2": ["answer"]},
    ),
    "a call that was given up ends in silence": (
        [call(1), client(notification("notifications/cancelled", requestId=1)), server(LOG)],
        {"tools/call@2": ["notifications/message"]},
    ),
    "and is answered if it was": (
        [call(1), client(notification("notifications/cancelled", requestId=1)), server(result(1, {}))],
        {"tools/call@2": ["answer"]},
    ),
    "a cancellation of nothing is nothing": (
        [
            client(notification("notifications/cancelled", requestId=7)),
            client({"jsonrpc": "2.0", "method": "notifications/cancelled"}),
            call(1),
            server(result(1, {})),
        ],
        {"tools/call@4": ["answer"]},
    ),
    "over HTTP the client hangs up, and requests are lost alone": (
        [call(1), call(2), event("client", hung_up=1), event("server", lost=2, why="gone")],
        {"tools/call@2": [], "tools/call@3": [-32603]},
    ),
    "a server that dies does so because of what was asked last": (
        [call(1), call(2), server(LOG), event("server", ended="exited", exit=3)],
        {"tools/call@2": [], "tools/call@3": ["notifications/message", "end 3"]},
    ),
    "and what the client said last, if nothing is": (
        [call(1), server(result(1, {})), event("server", ended="exited")],
        {"tools/call@2": ["answer", "end None"]},
    ),
    "a client that leaves ends in silence": (
        [call(1), event("client", ended="closed")],
        {"tools/call@2": []},
    ),
    "a recording that stops says so": ([call(1)], {"tools/call@2": [-32603]}),
    "a note is for people": (
        [call(1), event("server", note="x"), server(result(1, {}))],
        {"tools/call@2": ["answer"]},
    ),
    "connections do not touch": (
        [
            call(1),
            {**call(1, name="b"), "connection": 2},
            {**server(result(1, {})), "connection": 2},
            {**event("server", ended="exited"), "connection": 1},
        ],
        {"tools/call@2": ["end None"], "tools/call@3": ["answer"]},
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_everything_a_server_says_belongs_to_something(name: str, tmp_path: Path) -> None:
    lines, expected = ROWS[name]
    assert outline(scripts(tmp_path / "x", *lines)) == expected


def test_changes_are_told_once(tmp_path: Path) -> None:
    (script,) = scripts(
        tmp_path / "x",
        call(1),
        server(notification("notifications/tools/list_changed")),
        server(notification("notifications/resources/updated", uri="a")),
        server(LOG),
        server(result(1, {"a": 1.0})),
    )
    assert [step.is_once for step in script.steps if isinstance(step, Say)] == [True, True, False]
    answer = script.steps[-1]
    assert isinstance(answer, Answer)
    assert answer.result == b'{"a": 1.0}', "as it came"
    assert script.answered == 3


def test_what_nobody_could_read_is_no_params() -> None:
    assert read_params(Raw(b'{"n":' + b"9" * 5000 + b"}")) is None
    assert read_params(None) is None
