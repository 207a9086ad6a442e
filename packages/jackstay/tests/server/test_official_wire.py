"""Every message of a conversation with all features is what the official models say, at every revision.

`mcp-types` says for each revision which messages it has; of their shapes it has two, that of 2025-11-25 for all revisions
with a handshake, and that of 2026-07-28. What is of an older revision alone is held to the models of its own time in
`tests/interop/test_official_models.py`.
"""

from typing import Any

import mcp_types._v2025_11_25 as v2025
import mcp_types._v2026_07_28 as v2026
import pytest
from mcp_types.methods import SERVER_NOTIFICATIONS, SERVER_REQUESTS, validate_server_result
from pydantic import TypeAdapter

from chaos.servers_own.conversation import ALL, HANDSHAKE, STATELESS, run
from chaos.servers_own.everything_said import Said, all_that_is_said


@pytest.fixture(scope="module", params=ALL)
def conversation(request: pytest.FixtureRequest) -> tuple[str, list[Said]]:
    version, said = request.param, list[Said]()

    async def test() -> None:
        said.extend(await all_that_is_said(version))

    run(test)
    return version, said


def check(model: Any, value: Any) -> None:
    TypeAdapter(model).validate_python(value)


def test_everything_that_is_sent_is_official(conversation: tuple[str, list[Said]]) -> None:
    version, said = conversation
    models: Any = v2026 if version == STATELESS else v2025
    for kind, method, message, is_exempt in said:
        assert message["jsonrpc"] == "2.0"
        if kind == "result":
            validate_server_result(method, version, message["result"])
        elif kind == "notification":
            check(SERVER_NOTIFICATIONS[method, version], message)
        elif kind == "request":
            check(SERVER_REQUESTS[method, version], message)
        elif not is_exempt or version >= "2025-11-25":
            check(models.JSONRPCErrorResponse, message)
        else:
            assert message["id"] is None, (
                "JSON-RPC 2.0; the schemas of these revisions demand an id (section 6)"
            )


def test_the_conversation_has_everything_that_a_server_says(conversation: tuple[str, list[Said]]) -> None:
    """A message that nobody looked at proves nothing."""
    version, said = conversation
    heard = {(one.kind, one.method) for one in said}
    expected = {("result", method) for method in _served(version)}
    notes = [
        "message",
        "progress",
        "tools/list_changed",
        "prompts/list_changed",
        "resources/list_changed",
        "resources/updated",
    ]
    expected |= {("notification", f"notifications/{note}") for note in notes}
    if version == STATELESS:
        expected |= {("notification", "notifications/subscriptions/acknowledged")}
        assert any("inputRequests" in one.message.get("result", {}) for one in said)
    else:
        expected |= {("request", "sampling/createMessage"), ("request", "roots/list")}
    if version in HANDSHAKE[2:]:
        expected |= {("request", "elicitation/create")}
    assert expected <= heard
    codes = {one.message["error"]["code"] for one in said if one.kind == "error"}
    assert {-32700, -32600, -32601, -32602} <= codes
    assert codes & {-32021, -32022} == ({-32021, -32022} if version == STATELESS else set())


def _served(version: str) -> set[str]:
    """The requests of a client that this server answers with a result."""
    found = {"tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read"}
    found |= {"prompts/list", "prompts/get", "completion/complete"}
    if version == STATELESS:
        return found | {"server/discover", "subscriptions/listen"}
    return found | {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
