"""Every message of a conversation with all features is valid for the official models, at every revision.

`mcp-types` has the methods of each revision, but only two sets of models: those of 2025-11-25 for all revisions with a
handshake, and those of 2026-07-28. `tests/interop/test_official_models.py` checks older revisions with other models.
"""

import asyncio
from typing import Any

import mcp_types._v2025_11_25 as v2025
import mcp_types._v2026_07_28 as v2026
import pytest
from mcp_types.methods import SERVER_NOTIFICATIONS, SERVER_REQUESTS, validate_server_result
from pydantic import TypeAdapter

from chaos.servers_own.all_messages import SentMessage, record_all_messages
from chaos.servers_own.conversation import ALL, HANDSHAKE, STATELESS


@pytest.fixture(scope="module", params=ALL)
def conversation(request: pytest.FixtureRequest) -> tuple[str, list[SentMessage]]:
    return request.param, asyncio.run(record_all_messages(request.param))


def check(model: Any, value: Any) -> None:
    TypeAdapter(model).validate_python(value)


def test_all_messages_are_valid(conversation: tuple[str, list[SentMessage]]) -> None:
    version, messages = conversation
    models: Any = v2026 if version == STATELESS else v2025
    for kind, method, message, is_exempt in messages:
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
            assert message["id"] is None, "JSON-RPC 2.0; the schemas of these revisions require an id"


def test_the_conversation_has_all_messages_that_a_server_sends(conversation: tuple[str, list[SentMessage]]) -> None:
    version, messages = conversation
    sent = {(row.kind, row.method) for row in messages}
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
        assert any("inputRequests" in row.message.get("result", {}) for row in messages)
    else:
        expected |= {("request", "sampling/createMessage"), ("request", "roots/list")}
    if version in HANDSHAKE[2:]:
        expected |= {("request", "elicitation/create")}
    assert expected <= sent
    codes = {row.message["error"]["code"] for row in messages if row.kind == "error"}
    assert {-32700, -32600, -32601, -32602} <= codes
    assert codes & {-32021, -32022} == ({-32021, -32022} if version == STATELESS else set())


def _served(version: str) -> set[str]:
    """The requests of the client that have a result in this revision."""
    found = {"tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read"}
    found |= {"prompts/list", "prompts/get", "completion/complete"}
    if version == STATELESS:
        return found | {"server/discover", "subscriptions/listen"}
    return found | {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
