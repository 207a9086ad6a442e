"""Assignment of the server's messages to the client's messages that caused them."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from jackstay.protocol.wire import Error, Result
from jackstay.testing._interactions import (
    CancelRequest,
    Disconnect,
    Expect,
    Interaction,
    Respond,
    Send,
    SendProgress,
    SendRequest,
    SendToSubscription,
    Step,
    read_params,
)
from scripted.cassettes import client, error, event, interactions, notification, request, result, server

PROGRESS = "notifications/progress"
LOG = notification("notifications/message", level="info", data="x")
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def shown(step: Step) -> Any:
    """A step in short."""
    match step:
        case Send(frame=frame):
            try:
                return json.loads(frame).get("method", "error")
            except ValueError:
                return frame
        case SendProgress():
            return "progress"
        case SendToSubscription(subscription=subscription, is_once=is_once):
            return f"notify {subscription.line}{' once' if is_once else ''}"
        case SendRequest(request=sent):
            return f"{sent.method} {sent.id}"
        case CancelRequest(id=id):
            return f"cancel {id}"
        case Expect(id=id):
            return f"expect {id}"
        case Respond(response=Error(code=code)):
            return code
        case Respond():
            return "response"
        case Disconnect(exit_code=code):
            return f"end {code}"


def outline(found: list[Interaction]) -> dict[str, list[Any]]:
    return {
        f"{interaction.method}@{interaction.line}": [shown(step) for step in interaction.steps] for interaction in found
    }


def progress(token: Any) -> dict[str, Any]:
    return server(notification(PROGRESS, progressToken=token, progress=1))


def call(id: Any, token: Any = None, name: str = "a") -> dict[str, Any]:
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    return client(request(id, "tools/call", {"name": name, **meta}))


# Recorded lines -> interactions.
ROWS: dict[str, tuple[list[dict[str, Any]], dict[str, list[Any]]]] = {
    "a response belongs to its request in any order": (
        [call(1), call("1"), server(result("1", {})), server(error(1, -32000))],
        {"tools/call@2": [-32000], "tools/call@3": ["response"]},
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
            "tools/call@2": ["progress", "progress", "response", "progress"],
            "tools/call@3": ["progress", -32603],
        },
    ),
    "progress with an unknown token is treated as another notification": (
        [call(1, 1), progress(7)],
        {"tools/call@2": [PROGRESS, -32603]},
    ),
    "a message without a request id belongs to the last open request": (
        [call(1), call(2), server(LOG), server(result(2, {})), server(LOG), server(result(1, {}))],
        {
            "tools/call@2": ["notifications/message", "response"],
            "tools/call@3": ["notifications/message", "response"],
        },
    ),
    "without an open request, to the last message of the client": (
        [call(1), server(result(1, {})), server(LOG), client(notification("notifications/x")), server(LOG)],
        {"tools/call@2": ["response", "notifications/message"], "notifications/x@5": ["notifications/message"]},
    ),
    "nothing belongs to a ping or a subscription": (
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
            "tools/call@2": ["notifications/message", "response", "notifications/message"],
            "ping@3": ["response"],
            "subscriptions/listen@4": [],
        },
    ),
    "notifications of a subscription belong to their cause": (
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
            "subscriptions/listen@2": ["notify 2", "notify 2"],
            "tools/call@4": ["notify 2 once", "notifications/tools/list_changed", "response", "notify 2"],
        },
    ),
    "steps after the client's response wait for it": (
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
                "expect s",
                "notifications/message",
                "expect 9",
                "response",
            ]
        },
    ),
    "a cancelled request of the server": (
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
                "cancel 9",
                "notifications/cancelled",
                "notifications/cancelled",
                "response",
            ]
        },
    ),
    "initial messages of the server are played first": (
        [server(LOG), event("server", text="hello"), call(1), server(result(1, {}))],
        {"@2": ["notifications/message", b"hello"], "tools/call@4": ["response"]},
    ),
    "garbage of the server is sent, garbage of the client ignored": (
        [call(1), event("client", text="garbage"), event("server", base64="/w=="), server(result(1, {}))],
        {"tools/call@2": [b"\xff", "response"]},
    ),
    "members of a batch are separate": (
        [
            client([request(1, "a"), request(2, "b"), "nonsense"]),
            server([result(2, {}), LOG, result(1, {})]),
        ],
        {"a@2": ["notifications/message", "response"], "b@2": ["response"]},
    ),
    "an error without an id is sent": (
        [call(1), server(error(None, -32700)), server(result(1, {}))],
        {"tools/call@2": ["error", "response"]},
    ),
    "an unexpected response is dropped": (
        [call(1), server(result(1, {})), server(result(1, {})), client(result(5, {})), server(error(6, 1))],
        {"tools/call@2": ["response"]},
    ),
    "a cancelled call has no response": (
        [call(1), client(notification("notifications/cancelled", requestId=1)), server(LOG)],
        {"tools/call@2": ["notifications/message"]},
    ),
    "unless it was recorded": (
        [call(1), client(notification("notifications/cancelled", requestId=1)), server(result(1, {}))],
        {"tools/call@2": ["response"]},
    ),
    "a cancellation of an unknown request is ignored": (
        [
            client(notification("notifications/cancelled", requestId=7)),
            client({"jsonrpc": "2.0", "method": "notifications/cancelled"}),
            call(1),
            server(result(1, {})),
        ],
        {"tools/call@4": ["response"]},
    ),
    "over HTTP requests are aborted and lost one by one": (
        [call(1), call(2), event("client", aborted=1), event("server", lost=2, why="gone")],
        {"tools/call@2": [], "tools/call@3": [-32603]},
    ),
    "a crash belongs to the last open request": (
        [call(1), call(2), server(LOG), event("server", ended="exited", exit=3)],
        {"tools/call@2": [], "tools/call@3": ["notifications/message", "end 3"]},
    ),
    "or to the last message of the client": (
        [call(1), server(result(1, {})), event("server", ended="exited")],
        {"tools/call@2": ["response", "end None"]},
    ),
    "a client that disconnects gets no response": (
        [call(1), event("client", ended="closed")],
        {"tools/call@2": []},
    ),
    "a recording that ends early gives an error": ([call(1)], {"tools/call@2": [-32603]}),
    "notes are ignored": (
        [call(1), event("server", note="x"), server(result(1, {}))],
        {"tools/call@2": ["response"]},
    ),
    "connections are independent": (
        [
            call(1),
            {**call(1, name="b"), "connection": 2},
            {**server(result(1, {})), "connection": 2},
            {**event("server", ended="exited"), "connection": 1},
        ],
        {"tools/call@2": ["end None"], "tools/call@3": ["response"]},
    ),
}


def test_messages_of_a_server_are_assigned_to_their_cause(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, (lines, expected) in ROWS.items():
        with subtests.test(name):
            assert outline(interactions(tmp_path / "x", *lines)) == expected


def test_change_notifications_are_sent_once(tmp_path: Path) -> None:
    (interaction,) = interactions(
        tmp_path / "x",
        call(1),
        server(notification("notifications/tools/list_changed")),
        server(notification("notifications/resources/updated", uri="a")),
        server(LOG),
        server(result(1, {"a": 1.0})),
    )
    assert [step.is_once for step in interaction.steps if isinstance(step, Send)] == [True, True, False]
    answer = interaction.steps[-1]
    assert isinstance(answer, Respond)
    assert isinstance(answer.response, Result)
    assert bytes(answer.response.result) == b'{"a": 1.0}', "unchanged"
    assert len(interaction.steps) == 4


def test_params_that_cannot_be_decoded_are_none() -> None:
    assert read_params(Raw(b'{"n":' + b"9" * 5000 + b"}")) is None
    assert read_params(None) is None
