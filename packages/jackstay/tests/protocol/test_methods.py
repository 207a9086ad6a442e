"""Every method and notification in every revision, from the matrix of the specification's schemas."""

import pytest

from jackstay import types
from jackstay.protocol._methods import METHODS, Sender, is_known
from jackstay.protocol._versions import VERSIONS

C, S = Sender.CLIENT, Sender.SERVER

# Per revision, oldest first: who may send it as a message of its own. "c" client, "s" server, "b" both, "." nobody.
# Source: `schema/<revision>/schema.json`.
MATRIX = {
    "initialize": "cccc.",
    "notifications/initialized": "cccc.",
    "ping": "bbbb.",
    "server/discover": "....c",
    "subscriptions/listen": "....c",
    "notifications/subscriptions/acknowledged": "....s",
    "tools/list": "ccccc",
    "tools/call": "ccccc",
    "prompts/list": "ccccc",
    "prompts/get": "ccccc",
    "resources/list": "ccccc",
    "resources/templates/list": "ccccc",
    "resources/read": "ccccc",
    "completion/complete": "ccccc",
    "resources/subscribe": "cccc.",
    "resources/unsubscribe": "cccc.",
    "logging/setLevel": "cccc.",
    "sampling/createMessage": "ssss.",
    "roots/list": "ssss.",
    "elicitation/create": "..ss.",
    "tasks/get": "...b.",
    "tasks/result": "...b.",
    "tasks/list": "...b.",
    "tasks/cancel": "...b.",
    "notifications/cancelled": "bbbbb",
    "notifications/progress": "bbbbs",
    "notifications/message": "sssss",
    "notifications/tools/list_changed": "sssss",
    "notifications/prompts/list_changed": "sssss",
    "notifications/resources/list_changed": "sssss",
    "notifications/resources/updated": "sssss",
    "notifications/roots/list_changed": "cccc.",
    "notifications/elicitation/complete": "...s.",
    "notifications/tasks/status": "...b.",
}


@pytest.mark.parametrize("method", MATRIX)
def test_who_may_send_it_in_each_revision(method):
    said = ""
    for version in VERSIONS:
        by_client, by_server = is_known(method, version, C), is_known(method, version, S)
        said += {(True, False): "c", (False, True): "s", (True, True): "b", (False, False): "."}[
            by_client, by_server
        ]
    assert said == MATRIX[method]


def test_the_table_has_exactly_these_rows():
    assert set(METHODS) == set(MATRIX)
    assert all(row.name == name for name, row in METHODS.items())


@pytest.mark.parametrize(
    "method", ["", "tools", "tools/list ", "TOOLS/LIST", "rpc.discover", "$/cancelRequest"]
)
def test_what_is_not_in_the_table_is_unknown_to_both_sides(method):
    assert not any(is_known(method, version, sender) for version in VERSIONS for sender in (C, S))


def test_nothing_is_known_in_a_revision_that_does_not_exist():
    assert not is_known("tools/list", "1999-01-01", C)
    assert not is_known("tools/list", "2099-01-01", C)
    assert not is_known("tools/list", "", C)


REVISIONS_OF = [
    ("tools/list", VERSIONS),
    ("initialize", VERSIONS[:4]),
    ("server/discover", VERSIONS[4:]),
    ("elicitation/create", VERSIONS[2:]),
    ("tasks/get", VERSIONS[3:4]),
]


@pytest.mark.parametrize(("method", "versions"), REVISIONS_OF)
def test_the_revisions_that_have_it(method, versions):
    assert METHODS[method].revisions == versions


def test_requests_have_results_and_notifications_have_none():
    for name, row in METHODS.items():
        assert row.is_request is not name.startswith("notifications/")


def test_every_body_named_is_a_body_there_is():
    for row in METHODS.values():
        assert hasattr(types, row.params), row
        assert not row.result or hasattr(types, row.result), row


def test_what_may_be_sent_again_is_what_only_looks():
    """Row 25: list, get, read, complete and discover methods. Nothing else of a client's is safe."""
    looks = ("list", "get", "read", "complete", "discover")
    client = {name for name, row in METHODS.items() if row.is_request and row.sender is not S}
    safe = {name for name in client if METHODS[name].is_safe}
    assert safe == {name for name in client if name.rsplit("/", 1)[-1] in looks}


def test_what_acts_is_never_safe():
    for method in ("tools/call", "resources/subscribe", "logging/setLevel", "tasks/cancel", "initialize"):
        assert not METHODS[method].is_safe


def test_what_is_cacheable():
    """2026-07-28 server/utilities/caching: discover, the four lists and resources/read."""
    assert {name for name, row in METHODS.items() if row.is_cacheable} == {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }


def test_what_may_ask_back():
    """2026-07-28 basic/patterns/mrtr: only these three."""
    assert {name for name, row in METHODS.items() if row.may_ask} == {
        "tools/call",
        "prompts/get",
        "resources/read",
    }


def test_what_the_name_header_repeats():
    """2026-07-28 basic/transports/streamable-http: `Mcp-Name`."""
    assert {name: row.header_name for name, row in METHODS.items() if row.header_name} == {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
    }


def test_what_only_a_server_sends_has_no_state_that_accepts_it():
    for row in METHODS.values():
        assert bool(row.states) is (row.sender is not S), row


def test_every_state_named_is_a_state_of_the_server():
    known = {"fresh", "handshake", "operating", "stateless", "draining", "closed"}
    assert {state for row in METHODS.values() for state in row.states} <= known


CAPABILITIES = {
    "tools/call": "tools",
    "notifications/tools/list_changed": "tools.listChanged",
    "resources/subscribe": "resources.subscribe",
    "prompts/get": "prompts",
    "completion/complete": "completions",
    "logging/setLevel": "logging",
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
    "notifications/roots/list_changed": "roots.listChanged",
    "tasks/list": "tasks.list",
    "ping": "",
    "initialize": "",
    "server/discover": "",
    "notifications/cancelled": "",
    "notifications/progress": "",
}


@pytest.mark.parametrize("method", CAPABILITIES)
def test_what_must_have_been_declared(method):
    assert METHODS[method].capability == CAPABILITIES[method]
